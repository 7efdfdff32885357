"""One checked way to call any model."""

from gpec.models.model import Model

__all__ = ["Model"]
