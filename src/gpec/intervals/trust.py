"""What an explanation's uncertainty means for its reader.

A sign is firm, likely or unclear by the intervals alone. Certainties are probabilities under the mixture of normals
that the interval's rule gives. The sentence that states what an interval promises is in :mod:`gpec.intervals.rules`.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t

from gpec._validation import check_count
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray

Words = np.ndarray[tuple[int, ...], np.dtype[np.object_]]

SIGN_LEVELS = {"firm": 0.95, "likely": 0.80}  # of the interval that lies on one side of zero
SIGN_WORDS = (*SIGN_LEVELS, "unclear")
SHOWN_WORDS = (*SIGN_WORDS, "none")
_ROUNDING = 1e-9  # of levels
_DRAWS = 320  # of the attributions of a row, divided among its similar rows
_NUMBERS = 4_000_000  # drawn at once


def firmness(explanation: Explained) -> Words:
    """A word for the sign of each attribution: "firm", "likely" or "unclear"; same axes as the values.

    A sign is firm if the 95% interval lies on one side of zero, likely if the 80% interval does, else unclear. An
    interval that touches zero is on no side. So an attribution that is exactly 0, as that of a feature the model never
    uses, has an unclear sign; it adds nothing to the row's firm share. Where calibration rows or draws are too few for
    the 95% interval no sign is firm, and where they are too few for the 80% interval none is likely.
    """
    sides = []
    for level in SIGN_LEVELS.values():
        attainable = explanation.rule.attainable(level)
        lower, upper = explanation.interval(attainable)
        sides.append(((lower > 0) | (upper < 0)) & (attainable > level - _ROUNDING))
    return np.select(sides, SIGN_WORDS[:2], SIGN_WORDS[2]).astype(object)


trust_words = firmness  # its earlier name


def shown_words(explanation: Explained) -> Words:
    """:func:`firmness` for tables: "none" where an attribution and its interval are exactly 0."""
    lower, upper = explanation.interval()
    return np.where((lower == 0) & (upper == 0), SHOWN_WORDS[-1], firmness(explanation))


def firm_share(explanation: Explained) -> FloatArray:
    """Share of a row's attribution, by size, that comes from features with a firm sign: ``(n,)`` or ``(n, c)``.

    It is 1 where all attributions are 0.
    """
    axis, size = _feature_axis(explanation, "firm_share"), np.abs(explanation.values)
    firm = np.where(firmness(explanation) == "firm", size, 0.0).sum(axis=axis)
    total = size.sum(axis=axis)
    return np.asarray(np.divide(firm, total, out=np.ones_like(total), where=total > 0))


def sign_certainty(explanation: Explained) -> FloatArray:
    """Probability that the attributions covered by the interval have the sign shown.

    For similar rows it is the share of them, as predicted, whose attribution has the same sign. A value of 0 has no
    sign: its certainty is 0.5.
    """
    return explanation.rule.sign_certainty(explanation.values, explanation.std)


def rank_certainty(explanation: Explained, k: int) -> FloatArray:
    """Probability that each feature is among the ``k`` largest by size, from joint draws; same axes as the values.

    Features are drawn independently, and each similar row equally often.
    """
    axis = _feature_axis(explanation, "rank_certainty")
    d = explanation.values.shape[axis]
    if check_count("k", k) > d:
        raise InputError(f"k={k} must be at most the number of features, {d}.")
    mean, deviation = explanation.rule.others(explanation.values, explanation.std)
    mean, deviation = (np.moveaxis(array, axis, -2) for array in (mean, deviation))
    shape, K = mean.shape[:-2], mean.shape[-1]
    mean, deviation = mean.reshape(-1, d, K), deviation.reshape(-1, d, K)
    each = max(_DRAWS // K, 1)
    z = stream(0, "rank draws").standard_normal((each, d, K))
    share = np.empty((len(mean), d))
    size = max(_NUMBERS // (each * d * K), 1)
    for start in range(0, len(mean), size):
        part = slice(start, start + size)
        drawn = np.abs(mean[part, None] + deviation[part, None] * z)
        place = np.argsort(np.argsort(-drawn, axis=2, kind="stable"), axis=2, kind="stable")
        share[part] = (place < k).mean(axis=(1, 3))
    return np.asarray(np.moveaxis(share.reshape(*shape, d), -1, axis))


def half_width_of_mean(size: FloatArray, half_width: FloatArray, level: float) -> FloatArray:
    """Half of the width of an interval for the mean size of attributions over rows like these ``n``.

    ``t sqrt((v + u) / n)``, with ``v`` the variance of the size between the rows, ``u`` the mean of the attributions'
    own variance (half of its interval's width over the normal quantile, squared), and ``t`` Student's quantile.
    """
    n, tail = len(size), (1.0 - level) / 2.0
    own = ((half_width / t.isf(tail, np.inf)) ** 2).mean(axis=0)
    return np.asarray(t.isf(tail, n - 1) * np.sqrt((size.var(axis=0, ddof=1) + own) / n))


def _feature_axis(explanation: Explained, name: str) -> int:
    if "feature" not in explanation.axes:
        raise InputError(f"{name} needs all features of a row; select them with e[row].")
    return explanation.axes.index("feature")
