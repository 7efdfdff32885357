"""How alike the model uses a feature in two rows."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from gpec._validation import check_count
from gpec.data import Rows
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import POSITIVE
from gpec.kernels.distances import Distance, require_feature
from gpec.typing import FloatArray

__all__ = ["Effect"]


class Effect(Distance):
    """Distance between effects: how the model's answer changes when the feature takes the value of other rows.

    The effect of feature ``f`` at ``x`` is ``o(x) - mean_b o(x with the value of f in row b)``, over its deviation.
    Where the model uses a feature alike in two rows, their attributions are alike. Effects are known for rows that the
    explainer has not seen. They cost at most ``n_rows`` model calls for each feature of a row.

    Parameters
    ----------
    length : "evidence" or float
        As for other distances.
    n_rows : int
        Number of rows ``b`` whose values are exchanged; they are some of the rows explained in ``fit``.
    """

    varies_by_feature = True
    spread_: Annotated[FloatArray, POSITIVE]

    def __init__(self, length: float | Literal["evidence"] = "evidence", n_rows: int = 3) -> None:
        super().__init__(length)
        self.n_rows = n_rows

    @property
    def needs_effects(self) -> int:  # type: ignore[override]
        return self.n_rows

    def check(self) -> None:
        super().check()
        check_count("n_rows", self.n_rows)

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if rows is None:
            raise InputError("Effect needs effects: call fit(boundary, X) with Rows(effects=...).")
        spread = rows.require("effects").std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        super()._fit(graph, rows)

    def _points(self, rows: Rows, feature: int | None) -> FloatArray:
        self._require_fitted("spread_")
        f = require_feature(feature)
        return np.asarray(rows.require("effects")[:, f] / self.spread_[f])
