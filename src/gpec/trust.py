"""What an explanation's uncertainty means for its reader."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from gpec.explanation import Explanation
from gpec.typing import FloatArray

__all__ = ["firm_share", "sign_certainty", "trust_words"]

# Certainty of the sign from which a word applies.
_WORDS = ((0.975, "firm"), (0.84, "likely"), (0.0, "unclear"))


def sign_certainty(explanation: Explanation) -> FloatArray:
    """Probability that the attribution has the sign it shows, ``Phi(|value| / std)``; between 0.5 and 1."""
    std = explanation.std
    size = np.abs(explanation.values)
    ratio = np.divide(size, std, out=np.where(size > 0, np.inf, 0.0), where=std > 0)
    return np.asarray(norm.cdf(ratio))


def trust_words(explanation: Explanation) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    """A plain word for each attribution: "firm" (its sign is 97.5% certain), "likely" (84%) or "unclear"."""
    certainty = sign_certainty(explanation)
    words = np.full(certainty.shape, "", dtype=object)
    for least, word in reversed(_WORDS):
        words[certainty >= least] = word
    return words


def firm_share(explanation: Explanation) -> FloatArray:
    """Share of a row's total attribution that is carried by features of firm sign, ``(n,)`` or ``(n, c)``."""
    axis = explanation.axes.index("feature")
    size = np.abs(explanation.values)
    firm = np.where(sign_certainty(explanation) >= _WORDS[0][0], size, 0.0).sum(axis=axis)
    total = size.sum(axis=axis)
    return np.asarray(np.divide(firm, total, out=np.ones_like(total), where=total > 0))
