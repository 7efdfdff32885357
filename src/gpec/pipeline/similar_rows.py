"""Similar rows that are explained: all of them, which makes intervals exact, or some, to predict the others better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gpec._validation import check_count
from gpec.data import Rows
from gpec.data._equality import distinct_rows
from gpec.errors import ExplainerError, InputError, ModelCallError, ModelOutputError
from gpec.explainers import Attribution
from gpec.intervals.order_statistics import AllExplained, BoundsOnly, draws_needed, require_enough_draws
from gpec.intervals.rules import IntervalRule, SimilarRows
from gpec.intervals.trust import SIGN_LEVELS
from gpec.pipeline.explain import Intervals, explain_rows
from gpec.pipeline.fitted import Fitted
from gpec.pipeline.prediction import SimilarExplained, choose_similar, predict_changes
from gpec.pipeline.sampling import other_than
from gpec.runtime.blocks import Execution
from gpec.similar import SimilaritySampler
from gpec.typing import FloatArray, IntArray

Attributions = Literal["explainer", "posterior"]

_NUMBERS = 2**23  # of similar rows and their attributions at once
_KEPT = 2**26  # attributions of similar rows that an explanation keeps at most: 512 MB


def similar_to_explain(fitted: Fitted, attribution: Attributions, level: float, wanted: Any) -> int | Literal["all"]:
    """Of how many similar rows the explainer is run; raise unless there are such intervals at this level."""
    found = _similar_to_explain(fitted, attribution, wanted)
    if attribution == "posterior":
        fitted.require_prediction("attribution='posterior'")
    if found != "all":
        fitted.calibration.require_enough_calibration_rows(attribution, level)
    elif fitted.similarity is not None and fitted.similarity.random:
        require_enough_draws(fitted.n_similar, level)
    return found


def _similar_to_explain(fitted: Fitted, attribution: Attributions, wanted: Any) -> int | Literal["all"]:
    calibration, explains_all = fitted.calibration, fitted.context.mode == "explain"
    if attribution == "posterior" or fitted.similarity is None:
        if wanted:
            raise InputError(
                f"n_similar_explained={wanted!r} is for intervals about similar rows; they need similar rows and "
                "attribution='explainer'."
            )
        return 0
    if wanted is None:
        return "all" if explains_all else calibration.n_similar_explained
    if check_count("n_similar_explained", wanted, least=0) >= fitted.n_similar:
        return "all"
    if explains_all:
        raise InputError(
            f"n_similar_explained={wanted}, but mode='explain' explains all {fitted.n_similar} similar rows; leave it "
            "out, or fit with mode='predict'."
        )
    scores, calibrated = calibration.similar, calibration.n_similar_explained
    if scores is not None and scores.fresh and wanted != calibrated:
        raise InputError(
            f"n_similar_explained={wanted}, but the intervals were calibrated with {calibrated}; leave it out, or call "
            f"calibrate(X, n_similar_explained={wanted}) first."
        )
    return int(wanted)


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
        there = _explain_similar(fitted, rows, nearby.rows(Z[rows]), execution)
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


def some_explained_intervals(
    fitted: Fitted, nearby: SimilaritySampler, rows: Rows, answer: Attribution, m: int, execution: Execution
) -> Intervals:
    """The explainer's answers, with the change to be expected among similar rows, ``m`` of which are explained."""
    similar, calibration = nearby.rows(rows.encoded), fitted.calibration
    explained = explain_some_similar(fitted, rows, answer, similar, m, execution) if m else None
    changes = predict_changes(fitted, rows, answer, similar, execution, explained)
    calibrated = calibration.n_similar_explained == m
    below, above = changes.sizes(calibration.mixed if calibrated else 0.0)
    scores = calibration.similar if calibrated else None
    rule = SimilarRows(changes.offset, changes.deviation, scores, nearby.phrase, below, above)
    square = (below**2 + above**2) / 2.0
    of_model = np.maximum(square - changes.noise_variance, 0.0)  # of a constant, rounding alone would be left
    return Intervals(answer, of_model, changes.noise_variance, rule)


def explain_some_similar(
    fitted: Fitted,
    rows: Rows,
    answer: Attribution,
    similar: FloatArray,
    m: int,
    execution: Execution,
    *,
    one_more: bool = False,
) -> SimilarExplained:
    """``m`` of the rows ``similar (n, K, d)``, chosen by the kernel, and perhaps one more at random, explained."""
    chosen = np.empty((len(rows), 0), dtype=np.int64)
    if m:
        chosen = choose_similar(fitted, rows, similar, m, execution)
    if one_more:
        chosen = np.hstack((chosen, other_than(similar, chosen)))
    there = similar[np.arange(len(rows))[:, None], chosen]
    return SimilarExplained(chosen, _explain_similar(fitted, np.arange(len(rows)), there, execution).values)


def _explain_similar(fitted: Fitted, rows: IntArray, similar: FloatArray, execution: Execution) -> Attribution:
    """Attributions of the rows ``similar (n, K, d)`` to the rows of these numbers, with ``K`` as the last axis."""
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
