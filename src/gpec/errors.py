"""Every error and warning class of the package.

Each class also derives from the Python or scikit-learn kind a caller would expect to catch.
"""

from __future__ import annotations

from typing import Self

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError

__all__ = [
    "BatchSizeWarning",
    "BoundaryNotFoundError",
    "BudgetError",
    "CalibrationWarning",
    "CheckpointError",
    "ClusterError",
    "ClusterWarning",
    "CorruptFileError",
    "ExplainerError",
    "FewBoundaryPointsWarning",
    "GPECError",
    "InputError",
    "MissingExtraError",
    "MissingPartError",
    "ModelCallError",
    "ModelMismatchError",
    "ModelOutputError",
    "NoiseFloorWarning",
    "NotFittedError",
    "NumericalError",
    "ParameterTypeError",
    "PosteriorWarning",
    "SlowExplainerWarning",
    "StochasticExplainerWarning",
]


class GPECError(Exception):
    """Base of every error raised by gpec.

    ``places`` are the parts of the message that name the row or the model call.
    """

    places: tuple[str, ...] = ()

    def at(self, *places: str) -> Self:
        """The error, with these parts of its message as places."""
        self.places = places
        return self

    @property
    def reason(self) -> str:
        """The message without the places: the same for a row, whichever rows were explained with it."""
        text = str(self)
        for place in self.places:
            text = text.replace(place, "", 1)
        return text


class InputError(GPECError, ValueError):
    """An argument has a value that cannot be used."""


class BudgetError(InputError):
    """A budget of model rows is too small for what is to be done."""


class ParameterTypeError(GPECError, TypeError):
    """An argument has a type that cannot be used."""


class _ModelError(GPECError, RuntimeError):
    """A call of the user's model failed.

    ``rows`` are the first and last row of the prediction that may be the cause, ``explained`` those of the rows that
    were being explained, where this is known.
    """

    def __init__(self, message: str, rows: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.rows = rows
        self.explained: tuple[int, int] | None = None


class ModelCallError(_ModelError):
    """The user's model raised an exception; the exception is chained."""


class ModelOutputError(_ModelError):
    """The user's model returned something that is not a prediction."""


class ModelMismatchError(GPECError, ValueError):
    """The model or boundary is not the one that was used before."""


class ExplainerError(GPECError, RuntimeError):
    """The explainer raised, or returned something that is not an attribution."""


class BoundaryNotFoundError(GPECError, RuntimeError):
    """The model's decision boundary could not be sampled."""


class NumericalError(GPECError, RuntimeError):
    """A computation lost its accuracy, so there is no reliable result."""


class CheckpointError(GPECError, ValueError):
    """A checkpoint folder belongs to other work."""


class ClusterError(GPECError, RuntimeError):
    """The scheduler or the workers cannot be reached, or were lost."""


class CorruptFileError(GPECError, ValueError):
    """A file has the wrong kind of content, or is damaged."""


class MissingExtraError(GPECError, ImportError):
    """An optional dependency is not installed."""


class NotFittedError(GPECError, _SklearnNotFittedError):
    """The object is used before ``fit``."""


class MissingPartError(GPECError, AttributeError):
    """A part of a fit that other settings or calls would make."""


class BatchSizeWarning(UserWarning):
    """The model's answer to a row depends a little on the rows that are asked with it."""


class FewBoundaryPointsWarning(UserWarning):
    """Fewer boundary points were found than ``n_boundary``, or none."""


class CalibrationWarning(UserWarning):
    """Rows given to ``calibrate`` weaken what the intervals can promise."""


class PosteriorWarning(UserWarning):
    """Predicted attributions are no better than their mean."""


class NoiseFloorWarning(UserWarning):
    """The noise is smaller than the minimum that a fixed output scale allows."""


class SlowExplainerWarning(UserWarning):
    """The explainer will need many model rows, or minutes."""


class StochasticExplainerWarning(UserWarning):
    """The explainer answers differently from run to run and its noise is not accounted for."""


class ClusterWarning(UserWarning):
    """The cluster has no workers."""
