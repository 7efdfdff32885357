"""Level sets of a regressor: the points where its output crosses chosen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from gpec._validation import check_finite_array
from gpec.boundary._search import SearchScale
from gpec.boundary.base import LEAST_POINTS, BoundarySample, join
from gpec.boundary.bisection import BisectionSampler, box_rows, jittered_rows
from gpec.errors import BoundaryNotFoundError, InputError
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray

_CONSTANT = 1e-12  # relative to their size: smaller differences are rounding


class LevelSetSampler(BisectionSampler):
    """Sample level sets of a regressor: the points where its output crosses chosen values.

    A level is a quantile of the output over the rows. Rows with an output of at most the level are paired with rows
    with a greater output, and each pair is bisected as :class:`BisectionSampler` bisects two classes. The output of
    trees can jump over a level; then the point is the place of the jump.

    Parameters
    ----------
    quantiles : sequence of float
        The levels, as quantiles of the output over the rows of the data (at most 20,000 rows or ``10 * n_boundary``).
        If the output takes few values, a level lies between the two values next to the quantile. ``n_boundary`` points
        are divided evenly among the levels.
    pairing, rows, tolerance, n_walk
        As for :class:`BisectionSampler`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.boundary import LevelSetSampler
    >>> X = np.random.default_rng(0).uniform(-1, 1, (201, 2))
    >>> sample = LevelSetSampler().sample(lambda X: 7.0 * X[:, 0], X, 50, model_output="value", random_state=0)
    >>> bool(np.allclose(7 * sample.points[:, 0], sample.level, atol=1e-5)), len(np.unique(sample.level))
    (True, 1)
    """

    def __init__(
        self,
        quantiles: Sequence[float] = (0.5,),
        pairing: Literal["nearest", "random"] = "nearest",
        rows: Literal["data", "box"] = "data",
        tolerance: float = 1e-6,
        n_walk: int = 0,
    ) -> None:
        super().__init__(pairing, rows, tolerance, n_walk)
        self.quantiles = quantiles

    def check(self) -> None:
        super().check()
        quantiles = check_finite_array("quantiles", self.quantiles)
        if quantiles.ndim != 1 or quantiles.size == 0 or (quantiles <= 0).any() or (quantiles >= 1).any():
            raise InputError(f"quantiles={self.quantiles!r} must be a list of numbers between 0 and 1.")

    def draw(
        self, model: Model, Z: FloatArray, n_boundary: int, *, seed: int, progress: Literal["auto"] | bool = "auto"
    ) -> BoundarySample:
        """Points of all level sets."""
        self.check()
        if not model.is_regressor:
            raise InputError(
                "LevelSetSampler needs a regressor, and the model is a classifier; use boundary=BisectionSampler()."
            )
        rows_before, rng = model.n_rows, stream(seed, "boundary rows")
        search_scale = SearchScale.of(model.schema, Z, self.tolerance)
        candidates = jittered_rows(model, Z, n_boundary, search_scale, rng)[0]
        values = model.answers(candidates)[:, 0]
        levels = self._levels(values)
        if self.rows == "box":
            candidates = box_rows(model.schema, Z, n_boundary, rng)
            values = model.answers(candidates)[:, 0]
        wanted, samples = max(-(-n_boundary // len(levels)), LEAST_POINTS), []
        for index, level in enumerate(levels.tolist()):
            above = (values > level).astype(np.int64)
            if above.all() or not above.any():
                raise BoundaryNotFoundError(
                    f"All {len(values)} rows drawn from the box lie on one side of the level {level:.6g}; use "
                    "boundary=LevelSetSampler(), which takes the rows of the data."
                )
            where, split = f" at the level {level:.6g}", model.split_at(level)
            found = self._between(split, candidates, above, wanted, search_scale, seed, progress, where, (index,))
            samples.append(replace(found, level=np.full(len(found), level)))
        return replace(join(samples), n_model_rows=model.n_rows - rows_before)

    def _levels(self, values: FloatArray) -> FloatArray:
        """Levels between two neighbouring outputs, so that rows lie on both sides of each level."""
        distinct, counts = np.unique(values, return_counts=True)
        if distinct[-1] - distinct[0] <= _CONSTANT * np.abs(distinct).max():
            raise BoundaryNotFoundError(
                f"The model predicts {distinct[0]:.6g} for all {len(values)} rows tried, so it has no level sets and "
                "nothing to explain; pass rows with different predictions."
            )
        share = counts.cumsum()[:-1] / len(values)
        wanted = np.asarray(self.quantiles, dtype=np.float64)
        index = np.unique(np.abs(share - wanted[:, None]).argmin(axis=1))
        return np.asarray(distinct[index] / 2 + distinct[index + 1] / 2)
