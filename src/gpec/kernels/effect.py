"""How alike the model uses a feature in two rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gpec._validation import check_count
from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.distances import Distance, Metric, answers_of, asked_about
from gpec.typing import FloatArray

__all__ = ["Effect"]


class Effect(Distance):
    """Distance between effects: how the model's answer changes when the feature takes the value of other rows.

    The effect of feature ``f`` at ``x`` is ``o(x) - mean_b o(x with the value of f in row b)``, over its deviation.
    Rows in which the model uses a feature alike have attributions alike. Effects tell that at rows that nobody has
    explained, for a few questions to the model: at most ``n_rows`` for each feature of a row.

    Parameters
    ----------
    length : "evidence" or float
        As for other distances.
    n_rows : int
        Rows whose values are taken; they are some of those that the kernel is fitted to.
    """

    varies_by_feature = True

    def __init__(self, length: float | Literal["evidence"] = "evidence", n_rows: int = 3) -> None:
        super().__init__(length)
        self.n_rows = n_rows

    def check(self) -> None:
        super().check()
        check_count("n_rows", self.n_rows)

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if rows is None:
            raise InputError("Effect needs rows of a GPEC, which can ask the model: call fit(boundary, X).")
        self.others_ = rows.encoded[evenly_spaced(len(rows), self.n_rows)]
        spread = self._effects(rows).std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        super()._fit(graph, rows)

    def _effects(self, rows: Rows) -> FloatArray:
        """``(n, d, q)``."""

        def compute() -> FloatArray:
            own, exchanged = (
                answers_of(part, rows.regression) for part in (rows.outputs, rows.exchanged(self.others_))
            )
            return np.asarray(own[:, None] - exchanged.mean(axis=2))

        return rows.once(("effects", id(self.others_)), (self.others_,), compute)

    @property
    def _measure(self) -> tuple[Any, ...]:
        self._require_fitted("spread_")
        return (self.others_, self.spread_)

    def _of(self, rows: Rows, feature: int | None) -> FloatArray:
        self._require_fitted("spread_")
        f = asked_about(feature)
        return np.asarray(self._effects(rows)[:, f] / self.spread_[f])

    def _squared(self, X: Rows, Y: Rows, feature: int | None, metric: Metric) -> FloatArray:
        return metric(self._of(X, feature), self._of(Y, feature))
