"""What an explanation's uncertainty means for its reader.

An interval is about other attributions than the one shown: those of similar rows, or what the explainer would answer.
The interval's rule gives them as a mixture of normals; certainties are probabilities under it. The sentence that states
what an interval promises is in :mod:`gpec.intervals.rules`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import t

from gpec._validation import check_count
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray

__all__ = [
    "SIGN_WORDS",
    "firm_share",
    "firm_share_of",
    "half_width_of_mean",
    "rank_certainty",
    "row_levels",
    "sign_certainty",
    "trust_levels",
    "trust_words",
    "words_of",
]

Words = np.ndarray[tuple[int, ...], np.dtype[np.object_]]

# Certainty of the sign from which a word applies.
_FIRM, _LIKELY = 0.975, 0.84
_HOLDS, _TURNS = 0.975, 0.5  # firm share of a row
SIGN_WORDS = ("firm", "likely", "unclear")
_DRAWS = 320  # of the attributions of a row, divided among its similar rows
_NUMBERS = 4_000_000  # drawn at once


def sign_certainty(explanation: Explained) -> FloatArray:
    """Probability that the attributions covered by the interval have the sign shown.

    For similar rows it is the share of them, as predicted, whose attribution has the same sign. A value of 0 has no
    sign: its certainty is 0.5.
    """
    values = explanation.values
    mean, deviation = explanation.rule.others(values, explanation.std)
    side = np.sign(values)[..., None] * mean
    same = np.where(deviation > 0, ndtr(side / np.where(deviation > 0, deviation, 1.0)), (side > 0) * 1.0)
    return np.asarray(np.where(values == 0, 0.5, same.mean(axis=-1)))


def rank_certainty(explanation: Explained, k: int) -> FloatArray:
    """Probability that each feature is among the ``k`` largest by size, from joint draws; same axes as the values.

    Features are drawn independently, and each similar row equally often.
    """
    if "feature" not in explanation.axes:
        raise InputError("rank_certainty needs all features of a row; select them with e[row].")
    axis = explanation.axes.index("feature")
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


def trust_words(explanation: Explained) -> Words:
    """A word for each attribution: "firm" (its sign is 97.5% certain), "likely" (84%) or "unclear"."""
    return words_of(sign_certainty(explanation))


def words_of(certainty: FloatArray, words: tuple[str, str, str] = SIGN_WORDS) -> Words:
    """The word for each certainty of a sign."""
    return _graded(certainty, _FIRM, _LIKELY, words)


def _graded(x: FloatArray, first: Any, second: Any, words: tuple[str, str, str] = ("high", "medium", "low")) -> Words:
    return np.where(x >= first, words[0], np.where(x >= second, words[1], words[2])).astype(object)


def trust_levels(explanation: Explained, reference: Explained | None = None) -> Words:
    """How far each attribution can be trusted: "high", "medium" or "low".

    By the certainty of its sign (97.5% and 84%), or, with a reference, by whether its interval is among the narrowest,
    the middle or the widest third of the reference's intervals of that feature (as in the paper's case study).
    """
    if reference is None:
        return _graded(sign_certainty(explanation), _FIRM, _LIKELY)
    if reference.axes[:1] != ("row",) or list(np.ravel(reference.feature_names)) != list(
        np.ravel(explanation.feature_names)
    ):
        raise InputError("The reference must be an explanation of several rows with the same features.")
    narrow, wide = np.quantile(reference.width, [1 / 3, 2 / 3], axis=0)
    return _graded(-explanation.width, -narrow, -wide)


def half_width_of_mean(size: FloatArray, half_width: FloatArray, level: float) -> FloatArray:
    """Half of the width of an interval for the mean size of attributions over rows like these ``n``.

    ``t sqrt((v + u) / n)``, with ``v`` the variance of the size between the rows, ``u`` the mean of the attributions'
    own variance (half of its interval's width over the normal quantile, squared), and ``t`` Student's quantile.
    """
    n, tail = len(size), (1.0 - level) / 2.0
    own = ((half_width / t.isf(tail, np.inf)) ** 2).mean(axis=0)
    return np.asarray(t.isf(tail, n - 1) * np.sqrt((size.var(axis=0, ddof=1) + own) / n))


def firm_share(explanation: Explained) -> FloatArray:
    """Share of a row's total attribution that comes from features with a firm sign, ``(n,)`` or ``(n, c)``."""
    return firm_share_of(explanation, sign_certainty(explanation))


def row_levels(share: FloatArray) -> Words:
    """How far each row can be trusted, by its firm share: "high" from 97.5% on, "low" below 50%, else "medium"."""
    return _graded(share, _HOLDS, _TURNS)


def firm_share_of(explanation: Explained, certainty: FloatArray) -> FloatArray:
    """:func:`firm_share` from known certainties of the signs."""
    axis = explanation.axes.index("feature")
    size = np.abs(explanation.values)
    firm = np.where(certainty >= _FIRM, size, 0.0).sum(axis=axis)
    total = size.sum(axis=axis)
    return np.asarray(np.divide(firm, total, out=np.ones_like(total), where=total > 0))
