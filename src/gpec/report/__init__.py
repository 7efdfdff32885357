"""An explanation to read: in a notebook, and as a page of its own."""

from gpec.report._notebook import notebook_table
from gpec.report._numbers import show
from gpec.report._page import write_report

__all__ = ["notebook_table", "show", "write_report"]
