"""One interface to call any model, with checked answers, and to load models."""

from gpec.models._matching import labels_in_order, match_columns
from gpec.models.loading import load_model
from gpec.models.model import Model

__all__ = ["Model", "labels_in_order", "load_model", "match_columns"]
