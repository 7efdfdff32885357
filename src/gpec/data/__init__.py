"""The user's tables, their columns and scales, and the rows that kernels use."""

from gpec.data._columns import same_values
from gpec.data.groups import Groups
from gpec.data.reading import read_table
from gpec.data.rows import Rows
from gpec.data.schema import Schema

__all__ = ["Groups", "Rows", "Schema", "read_table", "same_values"]
