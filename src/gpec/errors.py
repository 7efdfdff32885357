"""Every error and warning class of the package.

Each class also derives from the Python or scikit-learn kind a caller would expect to catch.
"""

from __future__ import annotations

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError

__all__ = [
    "BoundaryNotFoundError",
    "CorruptFileError",
    "ExplainerError",
    "FewBoundaryPointsWarning",
    "GPECError",
    "InputError",
    "MissingExtraError",
    "ModelCallError",
    "ModelMismatchError",
    "ModelOutputError",
    "NotFittedError",
    "NumericalError",
    "ParameterTypeError",
    "StochasticExplainerWarning",
]


class GPECError(Exception):
    """Base of every error raised by gpec."""


class InputError(GPECError, ValueError):
    """An argument has a value that cannot be used."""


class ParameterTypeError(GPECError, TypeError):
    """An argument has a type that cannot be used."""


class ModelCallError(GPECError, RuntimeError):
    """The user's model raised an exception; the exception is chained."""


class ModelOutputError(GPECError, RuntimeError):
    """The user's model returned something that is not a prediction."""


class ModelMismatchError(GPECError, ValueError):
    """The model or boundary handed back is not the one that was used before."""


class ExplainerError(GPECError, RuntimeError):
    """The explainer raised, or returned something that is not an attribution."""


class BoundaryNotFoundError(GPECError, RuntimeError):
    """The model's decision boundary could not be sampled."""


class NumericalError(GPECError, RuntimeError):
    """A computation lost its accuracy and no honest answer can be given."""


class CorruptFileError(GPECError, ValueError):
    """A file is not a gpec archive, or is damaged."""


class MissingExtraError(GPECError, ImportError):
    """An optional dependency is not installed."""


class NotFittedError(GPECError, _SklearnNotFittedError):
    """The object is used before ``fit``."""


class FewBoundaryPointsWarning(UserWarning):
    """Fewer boundary points were found than asked for."""


class StochasticExplainerWarning(UserWarning):
    """The explainer answers differently from run to run and its noise is not accounted for."""
