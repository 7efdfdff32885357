"""Mode "explain": the explainer is run on all similar rows, so intervals are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpec.data._equality import distinct_rows
from gpec.errors import ExplainerError, ModelCallError, ModelOutputError
from gpec.explainers import Attribution
from gpec.intervals.order_statistics import AllExplained, BoundsOnly, draws_needed
from gpec.intervals.rules import IntervalRule
from gpec.intervals.trust import SIGN_LEVELS
from gpec.pipeline.explain import Intervals, explain_rows
from gpec.pipeline.fitted import Fitted
from gpec.runtime.blocks import Execution
from gpec.similar import SimilaritySampler
from gpec.typing import FloatArray, IntArray

_NUMBERS = 2**23  # of similar rows and their attributions at once
_KEPT = 2**26  # attributions of similar rows that an explanation keeps at most: 512 MB


def explained_intervals(
    fitted: Fitted,
    nearby: SimilaritySampler,
    Z: FloatArray,
    answer: Attribution,
    level: float,
    execution: Execution,
    *,
    keep: bool,
) -> Intervals:
    """The explainer's answers, with the attributions of all similar rows; of equal rows one is explained."""
    first, place = distinct_rows(Z)
    K, d = nearby.rows(Z[:1]).shape[1:]
    keep = keep and answer.values.size * K <= _KEPT
    levels = [one for one in sorted({level, *SIGN_LEVELS.values()}) if not nearby.random or draws_needed(one) <= K]
    size = max(1, _NUMBERS // (K * (d + answer.values[0].size)))
    blocks = []
    for start in range(0, len(first), size):
        rows = first[start : start + size]
        there = _explain_similar(fitted, Z, rows, nearby.rows(Z[rows]), execution)
        values, noise = answer.values[rows], fitted.noise_at(answer)[rows]
        block = {
            "square": ((there.values - values[..., None]) ** 2).mean(axis=-1),
            "noise": noise + np.asarray(there.variance).mean(axis=-1),
        }
        if keep:
            block["similar"] = there.values
        else:
            all_kept = AllExplained(there.values, nearby.phrase, nearby.random)
            bounds = [all_kept.bounds(values, noise, one) for one in levels]
            block["low"], block["high"] = (np.stack(side, axis=-1) for side in zip(*bounds, strict=True))
            block["same_sign"] = all_kept.sign_certainty(values, noise)
        blocks.append(block)
    whole = {name: np.concatenate([block[name] for block in blocks])[place] for name in blocks[0]}
    noise = np.minimum(whole["noise"], whole["square"])
    rule: IntervalRule
    if keep:
        rule = AllExplained(whole["similar"], nearby.phrase, nearby.random)
    else:
        rule = BoundsOnly(
            whole["low"], whole["high"], np.array(levels), whole["same_sign"], K, nearby.phrase, nearby.random
        )
    return Intervals(answer, whole["square"] - noise, noise, rule)


def _explain_similar(
    fitted: Fitted, Z: FloatArray, rows: IntArray, similar: FloatArray, execution: Execution
) -> Attribution:
    """Attributions of the rows ``similar (n, K, d)`` to some rows of ``Z``, with ``K`` as the last axis."""
    n, K, d = similar.shape
    first, place = distinct_rows(similar.reshape(-1, d))
    different = similar.reshape(-1, d)[first]
    try:
        found = explain_rows(fitted, different, execution)
    except (ExplainerError, ModelCallError, ModelOutputError) as error:
        position = _failing(fitted, different, execution)
        if position is None:
            raise
        place_in_text = f" similar to row {rows[first[position] // K]}"
        raise type(error)(
            f"A row{place_in_text} cannot be explained (pass similar= with rows that the model takes, and name columns "
            f"of codes in categorical_features): {error.reason}"
        ).at(place_in_text) from error
    found = replace(found, variance=fitted.noise_at(found))
    return found.map(lambda array: np.moveaxis(array[place].reshape(n, K, *array.shape[1:]), 1, -1))


def _failing(fitted: Fitted, Z: FloatArray, execution: Execution) -> int | None:
    """The position of a row that cannot be explained by itself, by bisection; None if each can be."""
    low, high = 0, len(Z)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _fails(fitted, Z[low:middle], execution) else (middle, high)
    return low if _fails(fitted, Z[low:high], execution) else None


def _fails(fitted: Fitted, Z: FloatArray, execution: Execution) -> bool:
    try:
        explain_rows(fitted, Z, execution)
    except (ExplainerError, ModelCallError, ModelOutputError):
        return True
    return False
