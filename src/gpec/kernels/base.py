"""What a kernel must do.

A kernel is described by its parameters, then fitted to a boundary (and rows, for parameters chosen automatically). It
reads :class:`~gpec.data.Rows`, or plain arrays. Parameters set to "evidence" are free: :mod:`gpec.gp.learning` learns
them, through the logarithms in :attr:`Kernel.theta`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Self, get_type_hints

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from gpec._validation import check_positive
from gpec.data import Rows
from gpec.errors import CorruptFileError, GPECError, InputError, NotFittedError
from gpec.geometry import GeodesicGraph
from gpec.runtime.state import Limits, read_attributes
from gpec.typing import FloatArray

# Rows X -> (k(X, Y), k(x, x)) for fixed rows Y.
Cross = Callable[[Rows], tuple[FloatArray, FloatArray]]
# Rows X -> a function of the feature that gives the same; what features share is computed once.
Crosses = Callable[[Rows], Callable[[int | None], tuple[FloatArray, FloatArray]]]
# The feature that is explained, or None for the whole row -> a matrix.
ByFeature = Callable[[int | None], FloatArray]
# k(X, X) of several features, (F, n, n), and W (F, n, n) -> sum_fij W_fij dk_fij / dtheta.
Pullback = tuple[FloatArray, Callable[[FloatArray], FloatArray]]

_PAIRED = 8
POSITIVE = Limits(0, strict=True)
_STEP = 1e-5  # of the logarithm of a parameter, for gradients by differences
_KINDS: dict[str, Any] = {}


class Kernel(SklearnKernel):
    """Base of the kernels: implement :meth:`cross_to`, and what else the kernel has of the following.

    - :meth:`_fit` sets what depends on boundary and rows, in attributes that end in ``_``: arrays, numbers, strings or
      kernels. A file keeps these attributes.
    - :meth:`_free` names the parameters that are to be learned and their bounds; the value of ``length`` is
      read from and written to ``length_``.
    - :meth:`gram_gradient`, where differences would be too slow.
    - :attr:`varies_by_feature` is True if ``feature`` matters; else one matrix serves all features.
    - :attr:`needs_boundary`, :attr:`needs_outputs` and :attr:`needs_effects` state what it reads besides the rows.

    ``gram``, ``cross``, ``diag`` and ``cross_to`` always belong to one positive semi-definite function.

    A kernel is one of scikit-learn's, too: ``GaussianProcessRegressor(WEG(...).fit(points))`` and ``k(X, Y)`` work. A
    sum or product with one of scikit-learn's own kernels is scikit-learn's.
    """

    varies_by_feature: bool = False
    needs_boundary: bool = False  # points of the decision boundary, in ``fit``
    rests_on_boundary: bool = False  # and on nothing else: it needs many points
    needs_outputs: bool = False  # Rows.outputs
    needs_effects: int = 0  # Rows.effects: the number of rows whose values are exchanged

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__module__.startswith("gpec.")
        cls._kind = cls.__name__ if own else f"{cls.__module__}.{cls.__qualname__}"
        _KINDS[cls._kind] = cls

    _kind: str

    @abstractmethod
    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        """A function of rows ``X`` that gives ``k(X, Y)`` and ``k(x, x)``; what depends on ``Y`` is computed once."""

    def crosses_to(self, Y: Rows) -> Crosses:
        """:meth:`cross_to` for any feature."""
        cross_to = cache(partial(self.cross_to, Y))
        return lambda X: lambda feature: cross_to(feature)(X)

    def check(self) -> None:
        """Refuse parameters that can never be used."""

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        """Learn from the graph and rows, not from attributions."""

    def _free(self) -> dict[str, tuple[float, float]]:
        """Parameters to be learned, with the least and greatest value."""
        return {}

    def _searched(self, name: str, start: str, low: float, high: float) -> dict[str, tuple[float, float]]:
        """The range of a parameter that is "evidence", in units of the fitted attribute ``start``; else nothing."""
        if getattr(self, name) != "evidence":
            return {}
        self._require_fitted(f"{name}_")
        unit = getattr(self, start)
        return {name: (low * unit, high * unit)}

    def diagnostics(self) -> dict[str, Any]:
        """Parameters in use and repairs made."""
        return {}

    def fit(self, boundary: Any = None, X: Any = None) -> Self:
        """Fit to boundary points (an array or a :class:`~gpec.geometry.GeodesicGraph`) and rows ``X``.

        Rows serve to choose parameters left at "auto".
        """
        graph = boundary
        if boundary is not None and not isinstance(boundary, GeodesicGraph):
            graph = GeodesicGraph.build(boundary)
        rows = None if X is None else Rows.of(X)
        if graph is not None and rows is not None and rows.embedded.shape[1] != graph.points.shape[1]:
            raise InputError(f"X has {rows.embedded.shape[1]} features but the boundary has {graph.points.shape[1]}.")
        self.check()
        self._fit(graph, rows)
        return self

    def diag(self, X: Any, feature: int | None = None) -> FloatArray:
        """``k(x, x)`` for each row."""
        rows = Rows.of(X)
        return self.cross_to(rows[:1], feature)(rows)[1]

    def cross(self, X: Any, Y: Any, feature: int | None = None) -> FloatArray:
        """``k(X, Y)``."""
        return self.cross_to(Rows.of(Y, "Y"), feature)(Rows.of(X))[0]

    def paired(self, X: Rows, Y: Rows) -> ByFeature:
        """``k(x, y) (n, K)`` of each of ``n`` rows with its own ``K`` of the ``n K`` rows of ``Y``."""
        n, K = len(X), len(Y) // len(X)

        def paired(feature: int | None) -> FloatArray:
            found = np.empty((n, K))
            for start in range(0, n, _PAIRED):  # few at a time: the rest of each matrix is not wanted
                block = X[start : start + _PAIRED]
                m = len(block)
                matrix = self.cross_to(block, feature)(Y[start * K : (start + m) * K])[0].reshape(m, K, m)
                found[start : start + m] = matrix[np.arange(m), :, np.arange(m)]
            return found

        return paired

    def gram(self, X: Any, feature: int | None = None) -> FloatArray:
        """``k(X, X)``, exactly symmetric."""
        rows = Rows.of(X)
        return symmetric(*self.cross_to(rows, feature)(rows))

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        """``k(X, X)`` and its derivatives ``(n, n, p)`` by :attr:`theta`; here by central differences."""
        rows, theta = Rows.of(X), self.theta
        K = self.gram(rows, feature)
        gradient = np.empty((*K.shape, len(theta)))
        for p, step in enumerate(_STEP * np.eye(len(theta))):
            ahead, behind = (self.with_theta(theta + sign * step).gram(rows, feature) for sign in (1, -1))
            gradient[:, :, p] = (ahead - behind) / (2 * _STEP)
        return K, gradient

    def __init__(self) -> None:
        """A kernel without parameters; scikit-learn reads them off the signature."""

    def distances(self, rows: Rows) -> Any:
        """What of the matrices of ``rows`` does not change with :attr:`theta`, for :meth:`grams_pullback`; or None."""
        return None

    def grams(self, rows: Rows, features: Sequence[int | None], distances: Any = None) -> FloatArray:
        """:meth:`gram` of several features ``(F, n, n)``."""
        return np.stack([self.gram(rows, feature) for feature in features])

    def grams_pullback(self, rows: Rows, features: Sequence[int | None], distances: Any = None) -> Pullback:
        """``k(X, X)`` of several features, and the function ``W -> sum_fij W_fij dk_fij / dtheta`` (the chain rule)."""
        found = [self.gram_gradient(rows, feature) for feature in features]
        gradients = [gradient for _, gradient in found]
        return np.stack([K for K, _ in found]), lambda W: np.sum(
            [np.einsum("ij,ijp->p", w, gradient) for w, gradient in zip(W, gradients, strict=True)], axis=0
        )

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free parameters."""
        return np.log(np.array([getattr(self, f"{name}_") for name in self._free()], dtype=np.float64))

    @theta.setter
    def theta(self, theta: FloatArray) -> None:
        self._set_own(theta)

    def _set_own(self, theta: FloatArray) -> None:
        """Set the free parameters that are this kernel's own, not those of its parts."""
        for name, value in zip(self._free(), np.exp(theta).tolist(), strict=True):
            setattr(self, f"{name}_", value)

    @property
    def bounds(self) -> FloatArray:
        """Least and greatest :attr:`theta`, ``(p, 2)``."""
        return np.log(np.array(list(self._free().values()), dtype=np.float64).reshape(-1, 2))

    def with_theta(self, theta: FloatArray) -> Self:
        """A copy with other values of the free parameters."""
        other = self.copy()
        other.theta = theta
        return other

    def copy(self) -> Self:
        """A copy with its fitted state; arrays are shared."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Kernel):
                setattr(other, name, value.copy())
        return other

    def state(self) -> dict[str, Any]:
        """Parameters and all that fitting learned: arrays, numbers and strings, for files."""
        learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
        return {"kind": self._kind, "parameters": _plain(self.get_params(deep=False)), "learned": _plain(learned)}

    @staticmethod
    def from_state(state: dict[str, Any]) -> Kernel:
        """The kernel that gave ``state``; its class must have been imported.

        Parameters are checked as in ``fit``, and what was learned by the annotations of its class.

        Raises
        ------
        CorruptFileError
            If the state is not one that :meth:`state` gives.
        """
        if not isinstance(state, dict) or set(state) != {"kind", "parameters", "learned"}:
            raise CorruptFileError("The file holds a kernel that lacks a part; save the file again from the original.")
        cls = _KINDS.get(state["kind"]) if isinstance(state["kind"], str) else None
        if cls is None:
            raise CorruptFileError(
                f"The file holds a kernel of the unknown kind {str(state['kind'])[:60]!r}; import the module that "
                "defines it."
            )
        try:
            kernel: Kernel = cls.from_parameters(_kernels(state["parameters"]))
            kernel.check()
            kernel._restore(_kernels(state["learned"]))
        except CorruptFileError:
            raise
        except (GPECError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(
                f"The {state['kind']} kernel in the file cannot be used: {str(error)[:300]}"
            ) from error
        return kernel

    def _restore(self, learned: dict[str, Any]) -> None:
        """Take what an earlier fit learned, checked."""
        ours = next(cls for cls in type(self).__mro__ if cls.__module__.startswith("gpec."))
        declared = {name: kind for name, kind in get_type_hints(ours, include_extras=True).items() if name[-1] == "_"}
        parts = {f"{name}_" for name in self.get_params(deep=False)}
        for name in learned:
            if (ours is type(self) and name not in declared and name not in parts) or hasattr(type(self), name):
                raise ValueError(f"{name!r} is unknown")
        kernels = {name: value for name, value in learned.items() if name in parts and isinstance(value, Kernel)}
        others = {name: value for name, value in learned.items() if name not in kernels}
        found = read_attributes(declared, others, f"{type(self).__name__} kernel")
        for name, value in {**learned, **found}.items():  # in the order of the file: fingerprints depend on it
            setattr(self, name, value)
        if learned and not np.isfinite([*self.theta, *self.bounds.ravel()]).all():
            raise ValueError("its learned parameters are not positive numbers")

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Kernel:
        """A kernel, not fitted, from what :meth:`get_params` gives."""
        return cls(**parameters)

    # Sum, Product and Scaled are found among the kinds, because their module builds on this one.
    def __add__(self, other: Any) -> Any:
        return _KINDS["Sum"](self, other) if isinstance(other, Kernel) else super().__add__(other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Kernel):
            return _KINDS["Product"](self, other)
        if isinstance(other, SklearnKernel):
            return super().__mul__(other)
        return _KINDS["Scaled"](check_positive("factor", other), self)

    __rmul__ = __mul__

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if Y is not None:
            return self.cross(X, Y)
        return self.gram_gradient(X) if eval_gradient else self.gram(X)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({shown})"

    def __sklearn_clone__(self) -> Self:
        return self.copy()  # with its fitted state: scikit-learn clones a kernel before every fit of a Gaussian process

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """The free parameters, as scikit-learn lists them."""
        return [Hyperparameter(name, "numeric", np.array([bounds])) for name, bounds in self._free().items()]

    def is_stationary(self) -> bool:
        """Whether ``k(x, x')`` depends on ``x - x'`` alone; kernels of the boundary do not."""
        return False

    def _check_bounds_params(self) -> None:
        """Learned values at a bound raise no warning."""

    def _require_fitted(self, attribute: str) -> None:
        if not hasattr(self, attribute):
            raise NotFittedError(
                f"This {type(self).__name__} kernel is not fitted yet; call fit(boundary_points) first."
            )


def symmetric(K: FloatArray, diagonal: FloatArray) -> FloatArray:
    """``K`` made exactly symmetric, with the given diagonal."""
    K = (K + K.T) / 2
    np.fill_diagonal(K, diagonal)
    return K


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: {"kernel": value.state()} if isinstance(value, Kernel) else value for name, value in values.items()}


def _kernels(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: Kernel.from_state(value["kernel"]) if isinstance(value, dict) and "kernel" in value else value
        for name, value in values.items()
    }
