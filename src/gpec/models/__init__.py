"""One checked way to call any model, and to load one."""

from gpec.models._matching import match_columns
from gpec.models.loading import load_model
from gpec.models.model import Model

__all__ = ["Model", "load_model", "match_columns"]
