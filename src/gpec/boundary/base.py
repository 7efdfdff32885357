"""The sample of a decision boundary or of level sets, and the base class of samplers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from gpec._validation import check_choice, check_count, check_finite_array
from gpec.data import Schema, same_values
from gpec.data.rows import concatenated
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError
from gpec.models import Model
from gpec.runtime.randomness import make_seed, stream
from gpec.runtime.state import MAY_BE_MISSING, Limits, Shape
from gpec.typing import FloatArray, IntArray

LEAST_POINTS = 10
_CHECKED_POINTS = 100
# Distance from a point at which its classes are checked, in lengths of its bracket. In a bracket this short, a model in
# single precision answers by rounding, which depends on the other rows of the same call.
_CHECKED_STEPS = (1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class AttackReport:
    """Results of attacks: all ``attempts``, ``successes`` by the smallest successful radius, and failures."""

    radii: Annotated[tuple[float, ...], Shape("r")]
    successes: Annotated[tuple[int, ...], Shape("r")]
    attempts: int

    @property
    def failures(self) -> int:
        return self.attempts - sum(self.successes)


@dataclass(frozen=True, eq=False)
class BoundarySample:
    r"""Points on a model's decision boundary, each with two rows that verify it.

    The predicted class is ``label`` at ``points - residual * direction`` and another one at
    ``points + residual * direction``; :meth:`ends` gives both rows. For a regressor the predicted value is at most
    ``level`` at the first and greater at the second. All rows are encoded: numbers in input units, categories as their
    codes, missing values as NaN.

    Parameters
    ----------
    points : array of shape (J, d)
        The boundary points.
    direction : array of shape (J, d)
        From the ``label`` side to the other one, in input units per standardised unit. 0 in categorical columns, and
        where a value is missing on either side.
    residual : array of shape (J,)
        Half the length of the final bracket, in standardised units.
    label : int array of shape (J,)
        Index of the class whose one-vs-all boundary the point is on; 0 for two classes and for a regressor. With
        several classes, a point between two of them is listed twice, once for each.
    n_model_rows : int
        Rows the model predicted to find the points.
    switched : int array of shape (J,)
        The column that switches across the boundary, to another category, to a missing value or from one; else -1.
    switched_to : array of shape (J,)
        The value of that column on the far side: a code, a number, or NaN for a missing value; -1 where nothing
        switches.
    level : array of shape (J,)
        The value that a regressor crosses at the point; NaN for classes, and if it is not given.
    attacks : AttackReport or None
        Results of the attacks of an :class:`AdversarialSampler`; None for other samplers.
    """

    points: Annotated[FloatArray, Shape("J", "column"), MAY_BE_MISSING]
    direction: Annotated[FloatArray, Shape("J", "column")]
    residual: Annotated[FloatArray, Shape("J"), Limits(least=0)]
    label: Annotated[IntArray, Shape("J"), Limits(least=0)]
    n_model_rows: int
    switched: Annotated[IntArray, Shape("J"), Limits(least=-1)]
    switched_to: Annotated[FloatArray, Shape("J"), MAY_BE_MISSING]
    level: Annotated[FloatArray, Shape("J"), MAY_BE_MISSING] = field(default_factory=lambda: np.empty(0))
    attacks: AttackReport | None = None

    def __post_init__(self) -> None:
        if not len(self.level):
            object.__setattr__(self, "level", np.full(len(self.points), np.nan))

    @classmethod
    def from_points(cls, points: Any) -> BoundarySample:
        """Points on the boundary of two classes or on a level set, which are not verified; NaN is a missing value."""
        missing = np.asarray(pd.isna(points))
        points = check_finite_array("boundary", np.where(missing, 0.0, points) if missing.any() else points)
        points[missing] = np.nan
        if points.ndim != 2:
            raise InputError(f"boundary must have 2 dimensions (points, features), got shape {points.shape}.")
        n = len(points)
        zeros, none = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        return cls(points, np.zeros_like(points), np.zeros(n), zeros, 0, none, none.astype(np.float64))

    def __len__(self) -> int:
        return len(self.points)

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Rows just before and just beyond each point; their predicted classes, or sides of the level, differ."""
        step = self.residual[:, None] * self.direction
        before, beyond = self.points - step, self.points + step
        jumps = np.flatnonzero(self.switched >= 0)
        beyond[jumps, self.switched[jumps]] = self.switched_to[jumps]
        return before, beyond

    @property
    def levels(self) -> list[float]:
        """The distinct levels, in ascending order; empty for a classifier."""
        return [float(level) for level in np.unique(self.level[~np.isnan(self.level)])]

    @property
    def on_trust(self) -> bool:
        """Whether the points cannot be verified because their two sides are not given."""
        return not (self.residual.any() or (self.switched >= 0).any())

    def least_points(self, schema: Schema) -> int:
        """The least number of points for a class: 1 if the points differ in a single column only."""
        if schema.n_features == 1:
            return 1
        moves = (self.direction != 0).any(axis=0) | ~same_values(self.points, self.points[:1]).all(axis=0)
        moves[self.switched[self.switched >= 0]] = True
        return 1 if moves.sum() == 1 and not self.on_trust else LEAST_POINTS

    def require_on_boundary(self, model: Model, seed: int) -> None:
        """Raise unless ``model`` (called before) has these classes and changes its class at some of the points."""
        counts, least = np.bincount(self.label, minlength=model.n_outputs), self.least_points(model.schema)
        if len(counts) > model.n_outputs or counts.min() < least:
            raise InputError(
                f"boundary has {counts.tolist()} points by class, but this model needs at least {least} for each of "
                f"{model.n_outputs}; pass more points, or for several classes a BoundarySample, or use "
                "boundary='auto'."
            )
        if self.on_trust:
            return
        part = self.take(stream(seed, "boundary check").permutation(len(self))[:_CHECKED_POINTS])
        suspect = part
        for widen in _CHECKED_STEPS:
            suspect = suspect.take(_contradicted(model, replace(suspect, residual=widen * suspect.residual)))
            if len(suspect) == 0:
                return
        raise ModelMismatchError(
            f"boundary does not belong to this model: the predicted {model.kind.not_crossed} across {len(suspect)} of "
            f"{len(part)} points checked; sample it again with boundary='auto'."
        )

    def of(self, label: int) -> BoundarySample:
        """The boundary of one class."""
        return self.take(np.flatnonzero(self.label == label))

    def take(self, indices: IntArray) -> BoundarySample:
        """The points at ``indices``."""
        return replace(self, **{name: getattr(self, name)[indices] for name in _ARRAYS})

    def flipped(self, label: IntArray) -> BoundarySample:
        """The same points with their two sides exchanged; ``label`` are the classes of the other side."""
        points, switched_to = self.points.copy(), self.switched_to.copy()
        jumps = np.flatnonzero(self.switched >= 0)
        columns = self.switched[jumps]
        switched_to[jumps] = points[jumps, columns]
        points[jumps, columns] = self.switched_to[jumps]
        return replace(self, points=points, direction=-self.direction, label=label, switched_to=switched_to)


def _contradicted(model: Model, sample: BoundarySample) -> IntArray:
    """The points across which the predicted class, or value, does not change as it should."""
    if model.is_regressor:
        below, above = (model.answers(end)[:, 0] for end in sample.ends())
        slack = model.kind.tolerance(below)
        return np.flatnonzero((below > sample.level + slack) | (above <= sample.level - slack))
    before, beyond = (model.labels(end) for end in sample.ends())
    wrong = before == beyond if model.is_binary else (before != sample.label) | (beyond == sample.label)
    return np.flatnonzero(wrong)


_ARRAYS = tuple(f.name for f in fields(BoundarySample) if f.name not in ("n_model_rows", "attacks"))


def join(samples: list[BoundarySample]) -> BoundarySample:
    """Several samples as one; the numbers of model rows are added."""
    n_model_rows = sum(sample.n_model_rows for sample in samples)
    return BoundarySample(n_model_rows=n_model_rows, **concatenated(samples, *_ARRAYS))


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
        """Raise for invalid parameters."""

    @abstractmethod
    def draw(
        self, model: Model, Z: FloatArray, n_boundary: int, *, seed: int, progress: Literal["auto"] | bool
    ) -> BoundarySample:
        """Sample ``n_boundary`` distinct points of each class's boundary, or of level sets, from encoded rows ``Z``."""

    def model_rows(self, model: Model, Z: FloatArray, n_boundary: int) -> float:
        """Approximate number of model rows that :meth:`draw` needs; NaN if unknown."""
        return float("nan")

    def sample(
        self,
        model: Any,
        X: Any,
        n_boundary: int = 2000,
        *,
        model_output: Literal["auto", "probability", "logit", "value"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        standardize: bool = True,
        random_state: Any = None,
        progress: Literal["auto"] | bool = "auto",
    ) -> BoundarySample:
        """Sample the decision boundary or level sets of ``model`` around the rows ``X``, without the rest of gpec."""
        check_count("n_boundary", n_boundary, least=LEAST_POINTS)
        check_choice("standardize", standardize, (True, False))
        check_choice("progress", progress, ("auto", True, False))
        schema, Z = Schema.learn(X, categorical_features=categorical_features, standardize=standardize)
        checked = Model(model, schema, model_output=model_output, threshold=threshold)
        return self.draw(checked, Z, n_boundary, seed=make_seed(random_state), progress=progress)
