"""DeepLift of a torch Module with several classes.

captum has no rule for a softmax, so its values for probabilities do not add up. Its rules hold up to the logits: the
contributions ``C_kj`` of the features to logit k add up to its change, ``sum_j C_kj = dl_k``. The change of an output
``f`` (a probability or its log-odds) is divided among the logits by the integral of its gradient along the straight
line from the baseline's logits to the row's,

    w_k = int_0^1 df/dl_k (l0 + t dl) dt,   sum_k w_k dl_k = f(l0 + dl) - f(l0),

and the value of a feature is ``sum_k w_k C_kj``. For a function of one variable this is DeepLift's own rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import softmax

from gpec.explainers._linked import Link
from gpec.typing import FloatArray

__all__ = ["deep_lift"]

_NODES = 256  # of the quadrature; the softmax can be steep


def deep_lift(module: Any, inputs: Any, baselines: Any, link: Link, options: dict[str, Any]) -> FloatArray:
    """Values for each class ``(n, ..., c)`` of rows given as tensors, averaged over baselines."""
    import torch
    from captum.attr import DeepLift

    n, b = len(inputs), len(baselines)
    rows = inputs.detach().repeat_interleave(b, dim=0).requires_grad_(True)
    references = baselines.repeat(n, *(1 for _ in baselines.shape[1:]))
    with torch.no_grad():
        end, start = (module(part).cpu().double().numpy() for part in (rows, references))
    lift = DeepLift(module)
    parts = [
        lift.attribute(rows, baselines=references, target=k, **options).detach().cpu().double().numpy()
        for k in range(end.shape[1])
    ]
    values = np.einsum("bck,kb...->b...c", _shares(start, end, link), np.stack(parts))
    return np.asarray(values.reshape(n, b, *values.shape[1:]).mean(axis=1))


def _shares(start: FloatArray, end: FloatArray, link: Link) -> FloatArray:
    """``w (b, c, k)``: the integrated derivative of output ``c`` by logit ``k``."""
    places, weights = _quadrature()
    logits = start[:, None] + places[:, None] * (end - start)[:, None]
    own = np.eye(logits.shape[2])
    if link == "identity":
        p = softmax(logits, axis=2)
        return np.asarray(
            np.einsum("t,btc,ck->bck", weights, p, own) - np.einsum("t,btc,btk->bck", weights, p, p, optimize=True)
        )
    others = [softmax(np.where(itself > 0, -np.inf, logits), axis=2) for itself in own]
    return np.asarray(own - np.stack([np.einsum("t,btk->bk", weights, q) for q in others], axis=1))


@lru_cache(maxsize=1)
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    return (places + 1) / 2, weights / 2
