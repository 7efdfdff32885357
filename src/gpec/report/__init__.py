"""Reports of an explanation: as text, in a notebook, and as an HTML page."""

from gpec.report._page import write_report
from gpec.report._table import notebook_table, text_table

__all__ = ["notebook_table", "text_table", "write_report"]
