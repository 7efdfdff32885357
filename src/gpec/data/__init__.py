"""How the user's rows look, and what kernels see of them."""

from gpec.data._columns import same_values
from gpec.data.groups import Groups
from gpec.data.reading import read_table
from gpec.data.rows import Rows
from gpec.data.schema import Schema

__all__ = ["Groups", "Rows", "Schema", "read_table", "same_values"]
