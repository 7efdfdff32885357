"""Random walk of each partner towards its row before bisection, for models without gradients in many dimensions.

A partner ``b`` of another class than its row ``a`` tries, in turn,

- to copy some of ``a``'s columns, including categories and missing values;
- to rotate slightly around ``a``, in a few columns where both are numbers, and to move closer at the same time:
  ``b' = a + (1 - shrink) |b - a| u``, ``u`` the direction of ``b - a + turn |b - a| g`` with ``g`` random;

and accepts the step if its class still differs from that of ``a``. Steps grow after a success and shrink after a
failure. The segment from ``a`` to ``b`` then crosses the boundary near ``a``. The walk needs only predicted classes, so
it works for trees too.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import norm

from gpec.models import Model
from gpec.typing import FloatArray, IntArray

_TURN, _SHRINK = 0.3, 0.1
_TURNS, _SHRINKS = (0.01, 0.8), (0.002, 0.5)  # least and greatest
_BOLDER, _TIMIDER = 1.2, 0.85
_TINY = np.finfo(np.float64).tiny
_TURNED_COLUMNS = 0.2  # of all: trees look at few columns at a time


def walk(
    model: Model, A: FloatArray, B: FloatArray, label: IntArray, n_walk: int, rng: np.random.Generator
) -> FloatArray:
    """``B`` after ``n_walk`` steps towards ``A``, whose rows have the class ``label``; one model call for each step."""
    numbers, scale = model.schema.continuous, model.schema.scale[model.schema.continuous]
    low, high = np.fmin.reduce(np.fmin(A, B))[numbers], np.fmax.reduce(np.fmax(A, B))[numbers]
    B = B.copy()
    turn, shrink = np.full(len(B), _TURN), np.full(len(B), _SHRINK)
    for step in range(n_walk):
        if step % 2 == 0 or len(numbers) == 0:
            proposal = np.where(rng.random(B.shape) < turn[:, None], A, B)
        else:
            proposal = B.copy()
            row, partner = A[:, numbers] / scale, B[:, numbers] / scale
            difference = partner - row
            known = ~np.isnan(difference)
            # rotated randomly in the known columns, and shortened
            D = np.where(known, difference, 0.0)
            length = norm(D, axis=1, keepdims=True)
            g = rng.normal(size=D.shape) * (rng.random(D.shape) < max(_TURNED_COLUMNS, 1 / D.shape[1])) * known
            u = D + turn[:, None] * length * g / np.maximum(norm(g, axis=1, keepdims=True), _TINY)
            moved = row + (1 - shrink[:, None]) * length * u / np.maximum(norm(u, axis=1, keepdims=True), _TINY)
            proposal[:, numbers] = np.where(known, np.clip(moved * scale, low, high), B[:, numbers])
        accepted = model.labels(proposal) != label
        B[accepted] = proposal[accepted]
        factor = np.where(accepted, _BOLDER, _TIMIDER)
        turn, shrink = np.clip(turn * factor, *_TURNS), np.clip(shrink * factor, *_SHRINKS)
    return B
