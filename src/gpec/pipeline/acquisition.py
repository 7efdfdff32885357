r"""Which rows to explain next, so that the intervals of some rows become narrower.

With ``C`` the latent posterior covariance of one feature, explaining row ``r`` lowers the variance at row ``t`` by
``C(t, r)^2 / (C(r, r) + g + u)``, whatever the explainer answers. Rows are chosen one after the other, each time the
one that lowers the mean variance of the targets most, every feature in units of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.gp import Posterior
from gpec.typing import FloatArray, IntArray

__all__ = ["Refinement", "choose_rows"]


@dataclass(frozen=True, eq=False)
class Refinement:
    """What :meth:`gpec.GPEC.refine` did.

    Attributes
    ----------
    X : rows
        The rows it explained, in the order in which they were chosen.
    width_before, width_after : float
        Mean width of the value's intervals of the rows given to it.
    """

    X: Any
    width_before: float
    width_after: float

    def __str__(self) -> str:
        change = 1.0 - self.width_after / self.width_before if self.width_before > 0 else 0.0
        return (
            f"{len(self.X)} more rows explained: intervals of the value are {change:.0%} narrower on average "
            f"({self.width_before:.3g} before, {self.width_after:.3g} after)."
        )


def choose_rows(posteriors: list[Posterior], noise: FloatArray, targets: Rows, candidates: Rows, n: int) -> IntArray:
    """The ``n`` candidates to explain, in order; ``noise (d, c)`` is the explainer's variance."""
    both, T = Rows.join([targets, candidates]), len(targets)
    parts, drops = [], []
    for c, posterior in enumerate(posteriors):
        covariance = np.moveaxis(posterior.covariance(both), 2, 0)
        own = posterior.scale * posterior.parameters.nugget
        usual = np.einsum("fii->fi", covariance)[:, :T].mean(axis=1) + own
        varies = usual > 0
        parts.append(covariance[varies] / usual[varies, None, None])
        drops.append((own + noise[:, c])[varies] / usual[varies])
    C, h = np.concatenate(parts), np.concatenate(drops)
    chosen: list[int] = []
    left = np.ones(len(candidates), dtype=bool)
    for _ in range(min(n, len(candidates))):
        size = np.maximum(np.einsum("fii->fi", C)[:, T:], 0.0) + h[:, None] + np.finfo(np.float64).tiny
        gain = (np.einsum("ftr,ftr->fr", C[:, :T, T:], C[:, :T, T:]) / size).sum(axis=0)
        best = int(np.where(left, gain, -np.inf).argmax())
        chosen.append(best)
        left[best] = False
        column = C[:, :, T + best] / np.sqrt(size[:, best])[:, None]
        C -= column[:, :, None] * column[:, None, :]
    return np.array(chosen, dtype=np.int64)
