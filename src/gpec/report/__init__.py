"""An explanation to read: in print, in a notebook, and as a page of its own."""

from gpec.report._page import write_report
from gpec.report._table import notebook_table, text_table

__all__ = ["notebook_table", "text_table", "write_report"]
