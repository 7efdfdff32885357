"""The sample of a decision boundary, and what a sampler must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from gpec._randomness import make_seed, stream
from gpec._validation import check_choice, check_count, check_finite_array
from gpec.data import Schema
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError
from gpec.models import Model
from gpec.typing import FloatArray, IntArray

__all__ = ["LEAST_POINTS", "BoundarySample", "Sampler", "join", "require_every_class"]

LEAST_POINTS = 10
_CHECKED_POINTS = 100


@dataclass(frozen=True, eq=False)
class BoundarySample:
    r"""Points on a model's decision boundary, each with the evidence that it lies there.

    The predicted class is ``label`` at ``points - residual * direction`` and another one at
    ``points + residual * direction``; :meth:`ends` gives both rows. All rows are encoded: numbers in input units,
    categories as their codes.

    Parameters
    ----------
    points : array of shape (J, d)
        The boundary points.
    direction : array of shape (J, d)
        From the ``label`` side to the other one; input units for one standardised unit.
    residual : array of shape (J,)
        Half the length of the last bracket, in standardised units.
    label : int array of shape (J,)
        Index of the one-vs-all class whose boundary it is; 0 for two classes. With several classes a point between
        two of them stands twice, once for each.
    n_model_rows : int
        Rows the model predicted to find the points.
    switched, switched_to : int arrays of shape (J,)
        Where crossing the boundary takes a change of category: that column (else -1), and its code on the far side.
    """

    points: FloatArray
    direction: FloatArray
    residual: FloatArray
    label: IntArray
    n_model_rows: int
    switched: IntArray
    switched_to: IntArray

    @classmethod
    def from_points(cls, points: Any) -> BoundarySample:
        """Points known to lie on the boundary of a two-class model, taken on trust."""
        points = check_finite_array("boundary", points)
        if points.ndim != 2:
            raise InputError(f"boundary must have 2 dimensions (points, features), got shape {points.shape}.")
        n = len(points)
        zeros, none = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        return cls(points, np.zeros_like(points), np.zeros(n), zeros, 0, none, none.copy())

    def state(self) -> dict[str, Any]:
        """All there is to know, by name: arrays and a number."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> BoundarySample:
        """The sample that gave ``state``."""
        return cls(**state)

    def __len__(self) -> int:
        return len(self.points)

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Rows just before and just beyond each point; their predicted classes differ."""
        step = self.residual[:, None] * self.direction
        before, beyond = self.points - step, self.points + step
        jumps = np.flatnonzero(self.switched >= 0)
        beyond[jumps, self.switched[jumps]] = self.switched_to[jumps]
        return before, beyond

    def require_belongs(self, model: Model, seed: int) -> None:
        """Raise unless the sample fits ``model`` (which has been called): classes, and labels across some points."""
        counts = np.bincount(self.label, minlength=model.n_outputs)
        if len(counts) > model.n_outputs or counts.min() < LEAST_POINTS:
            raise InputError(
                f"boundary has {counts.tolist()} points by class, but this model needs at least {LEAST_POINTS} for "
                f"each of {model.n_outputs}; pass more points, or for several classes a BoundarySample, or use "
                "boundary='auto'."
            )
        if not (self.residual.any() or (self.switched >= 0).any()):
            return  # points taken on trust
        part = self.take(stream(seed, "boundary check").permutation(len(self))[:_CHECKED_POINTS])
        before, beyond = (model.labels(end) for end in part.ends())
        wrong = before == beyond if model.is_binary else (before != part.label) | (beyond == part.label)
        if wrong.any():
            raise ModelMismatchError(
                f"boundary does not belong to this model: the predicted class does not change as it should across "
                f"{int(wrong.sum())} of {len(part)} points checked; sample it anew with boundary='auto'."
            )

    def of(self, label: int) -> BoundarySample:
        """The boundary of one class."""
        return self.take(np.flatnonzero(self.label == label))

    def take(self, indices: IntArray) -> BoundarySample:
        """The points at ``indices``."""
        return replace(self, **{name: getattr(self, name)[indices] for name in _ARRAYS})

    def flipped(self, label: IntArray) -> BoundarySample:
        """The same points seen from their other side, whose classes are ``label``."""
        points, switched_to = self.points.copy(), self.switched_to.copy()
        jumps = np.flatnonzero(self.switched >= 0)
        columns = self.switched[jumps]
        switched_to[jumps] = points[jumps, columns].astype(np.int64)
        points[jumps, columns] = self.switched_to[jumps]
        return replace(self, points=points, direction=-self.direction, label=label, switched_to=switched_to)


_ARRAYS = tuple(f.name for f in fields(BoundarySample) if f.name != "n_model_rows")


def join(samples: list[BoundarySample]) -> BoundarySample:
    """Several samples as one; the rows spent are added."""
    arrays = {name: np.concatenate([getattr(sample, name) for sample in samples]) for name in _ARRAYS}
    return BoundarySample(n_model_rows=sum(sample.n_model_rows for sample in samples), **arrays)


def require_every_class(model: Model, labels: IntArray) -> None:
    """Raise unless each class of the model is predicted for some row."""
    absent = np.setdiff1d(np.arange(int(model.n_classes or 0)), labels)
    if len(absent):
        raise BoundaryNotFoundError(
            f"The model never predicts class {model.class_name(absent[0])} for the {len(labels)} rows tried, so its "
            "boundary cannot be sampled; pass rows that it predicts as this class."
        )


class Sampler(BaseEstimator, ABC):
    """Base of the boundary samplers: implement :meth:`draw` and :meth:`check`."""

    @abstractmethod
    def check(self) -> None:
        """Refuse parameters that can never be used."""

    @abstractmethod
    def draw(
        self, model: Model, Z: FloatArray, n_boundary: int, *, seed: int, progress: Literal["auto"] | bool
    ) -> BoundarySample:
        """Sample ``n_boundary`` distinct points of each class's boundary from encoded rows ``Z``."""

    def sample(
        self,
        model: Any,
        X: Any,
        n_boundary: int = 2000,
        *,
        model_output: Literal["auto", "probability", "logit"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        standardize: bool = True,
        random_state: Any = None,
        progress: Literal["auto"] | bool = "auto",
    ) -> BoundarySample:
        """Sample the decision boundary of ``model`` around the rows ``X``, without the rest of gpec."""
        check_count("n_boundary", n_boundary, least=LEAST_POINTS)
        check_choice("standardize", standardize, (True, False))
        check_choice("progress", progress, ("auto", True, False))
        schema, Z = Schema.learn(X, categorical_features=categorical_features, standardize=standardize)
        checked = Model(model, schema, model_output=model_output, threshold=threshold)
        return self.draw(checked, Z, n_boundary, seed=make_seed(random_state), progress=progress)
