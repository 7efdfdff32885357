"""The stages of ``calibrate``: rows whose answer is known, scored against what was predicted for them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from gpec._validation import check_count
from gpec.data import Rows
from gpec.errors import CalibrationWarning, InputError
from gpec.explainers import Attribution
from gpec.intervals.conformal import Calibration, ConformityScores
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.pipeline.explain import explain_rows, require_unit_of_fit, value_intervals, with_samples
from gpec.pipeline.fitted import Fitted
from gpec.pipeline.groups import DrawnRows
from gpec.pipeline.prediction import SimilarExplained, left_out_values, predict_changes
from gpec.pipeline.sampling import PAIRS, other_than
from gpec.pipeline.similar_rows import explain_some_similar
from gpec.runtime.blocks import Execution, one_blas_thread
from gpec.runtime.randomness import derived_seed
from gpec.typing import FloatArray

_ROUNDING = 1e-9  # of the size of a row's attributions
_MIXED = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)  # weights to choose from
_LEVEL = 0.95  # at which they are compared


def calibrate_on(
    fitted: Fitted,
    Z: FloatArray,
    given: Attribution | None,
    n_similar_explained: int,
    draw: DrawnRows | None,
    execution: Execution,
) -> Calibration:
    """Scores of fresh rows and of similar rows of theirs; with given attributions, of the value only.

    Those of rows drawn by groups are by group.
    """
    if fitted.similarity is None:
        raise InputError("similar=None gives the paper's intervals, which promise nothing that calibrate could check.")
    if given is None and fitted.context.explainer is None:
        raise InputError(
            "There is no explainer, which calibrate runs on similar rows; pass one to GPEC or load. With attributions "
            "of these rows, calibrate checks the value (attribution='posterior') only."
        )
    seen = fitted.was_explained(Z)
    if seen.any():
        warnings.warn(
            f"{int(seen.sum())} of the {len(Z)} rows were explained in fit; the guarantee needs fresh rows.",
            CalibrationWarning,
            stacklevel=3,
        )
    if given is None:
        answer = explain_rows(fitted, Z, execution)
    rows = fitted.rows(Z, n_jobs=execution.n_jobs)
    if given is not None:
        answer = require_unit_of_fit(fitted, given, rows)
    found = value_intervals(fitted, rows, execution)
    std = np.sqrt(found.model_variance + found.noise_variance)
    fresh, weights = not seen.any(), np.ones(len(Z))
    scores = ConformityScores(_score(answer.values - found.shown.values, std, std, answer.values), weights, fresh)
    value = scores if draw is None else draw.scores(scores)
    if given is not None:
        return replace(fitted.calibration, value=value)
    similar = fitted.similarity.rows(Z)
    explained = explain_some_similar(fitted, rows, answer, similar, n_similar_explained, execution, one_more=True)
    scores, mixed = _score_changes(fitted, rows, answer, similar, explained, weights, fresh, execution)
    return Calibration(scores if draw is None else draw.scores(scores), value, n_similar_explained, mixed)


def check_some_explained(fitted: Fitted, n: Any, given: Attribution | None) -> None:
    """Raise unless some of the similar rows are left to be predicted when ``n`` of them are explained."""
    check_count("n_similar_explained", n, least=0)
    if n and given is not None:
        raise InputError(
            f"n_similar_explained={n} runs the explainer on similar rows, but attributions that are given calibrate "
            "the value only; leave one of the two out."
        )
    if n and fitted.similarity is not None and n >= fitted.n_similar:
        raise InputError(
            f"n_similar_explained={n} explains all {fitted.n_similar} similar rows of each row, which needs no "
            f"calibration; call explain with it, or calibrate with at most {fitted.n_similar - 1}."
        )


def loo_calibrate(fitted: Fitted, execution: Execution, n_pairs: int = PAIRS) -> Fitted:
    """The fit with approximate scores: of its own rows, each left out, and of some with one similar row each."""
    seen, similar_to = fitted.observations, fitted.similarity
    if similar_to is None or fitted.context.mode == "explain":
        return fitted
    drawn = seen.sample.weights > 0  # rows chosen by refine are not a random sample: weight 0
    with one_blas_thread():
        residual, std = left_out_values(replace(fitted, normalizer=None))
        rows, seed = fitted.output_models[0].posterior.rows, derived_seed(fitted.context.seed, "difficulty")
        fitted = replace(fitted, normalizer=ResidualNormalizer.learn(rows, residual, std, seen.sample.weights, seed))
        residual, std = left_out_values(fitted)
    scores = _score(residual[drawn], std[drawn], std[drawn], seen.attribution.values[drawn])
    value, similar = ConformityScores(scores, seen.sample.weights[drawn], fresh=False), None
    if not seen.given and fitted.context.explainer is not None:
        there = seen.similar_values
        few = np.flatnonzero(drawn)[:n_pairs]
        nearby = similar_to.rows(seen.rows[few])
        one = other_than(nearby, np.empty((len(few), 0), dtype=np.int64))
        if there is None or len(there) != len(few):
            chosen = nearby[np.arange(len(few)), one[:, 0]]
            there = explain_rows(with_samples(fitted, seen.n_samples), chosen, execution).values
            fitted = replace(fitted, observations=replace(seen, similar_values=there))
        answer = Attribution(seen.attribution.values, seen.U, seen.attribution.base_values)
        known, rows = answer.map(lambda array: array[few]), fitted.rows(seen.rows[few])
        explained = SimilarExplained(one, there[..., None])
        weights = seen.sample.weights[few]
        similar, _ = _score_changes(fitted, rows, known, nearby, explained, weights, False, execution)
    loo_r2 = _r_squared(residual[drawn], seen.attribution.values[drawn], seen.sample.weights[drawn])
    return replace(fitted, calibration=Calibration(similar, value), loo_r2=loo_r2)


def _r_squared(residual: FloatArray, values: FloatArray, weights: FloatArray) -> float:
    """Share of the attributions' variation that left-out predictions explain; 1 where they do not vary."""
    spread = (weights[:, None, None] * (values - np.average(values, axis=0, weights=weights)) ** 2).sum()
    return float(1.0 - (weights[:, None, None] * residual**2).sum() / spread) if spread > 0 else 1.0


def _score_changes(
    fitted: Fitted,
    rows: Rows,
    answer: Attribution,
    similar: FloatArray,
    explained: SimilarExplained,
    weights: FloatArray,
    fresh: bool,
    execution: Execution,
) -> tuple[ConformityScores, float]:
    """How much attributions of similar rows differ, over what was expected, and the weight with which this is best.

    The last explained row of each is not used to predict: it stands for all that are not explained.
    """
    m, K = explained.chosen.shape[1] - 1, similar.shape[1]
    used = SimilarExplained(explained.chosen[:, :m], explained.values[..., :m]) if m else None
    changes = predict_changes(fitted, rows, answer, similar, execution, used)
    off = np.moveaxis(explained.values - answer.values[..., None], -1, 1)
    of_row = np.array([*[1.0 / K] * m, (K - m) / K])
    found = {}
    for mixed in _MIXED if m > 1 else (0.0,):
        below, above = (np.broadcast_to(size[:, None], off.shape) for size in changes.sizes(mixed))
        score = _score(off, below, above, np.broadcast_to(answer.values[:, None], off.shape), axis=2)
        score, shared = score.reshape(-1, *score.shape[2:]), np.outer(weights, of_row).ravel()
        scores = ConformityScores(score, shared, fresh, m + 1)
        found[mixed] = _interval_score(scores, off, below, above) if m > 1 else 0.0, scores
    best = min(found, key=lambda mixed: found[mixed][0])
    return found[best][1], best


def _interval_score(scores: ConformityScores, off: FloatArray, below: FloatArray, above: FloatArray) -> float:
    """Width and misses of the intervals that the scores give, in units of each feature's typical change."""
    level = min(_LEVEL, scores.highest_level)
    multiple, weights = scores.quantile(level), scores.weights.reshape(*off.shape[:2], 1, 1)
    beyond = np.maximum(np.maximum(off - multiple * above, -off - multiple * below), 0.0)
    each = multiple * (below + above) + 2.0 / (1.0 - level) * beyond
    typical = np.sqrt(np.average(off**2, axis=(0, 1), weights=np.broadcast_to(weights, off.shape)))
    mean = np.average(each, axis=(0, 1), weights=np.broadcast_to(weights, off.shape))
    return float(np.divide(mean, typical, out=np.zeros_like(mean), where=typical > 0).mean())


def _score(off: FloatArray, below: FloatArray, above: FloatArray, values: FloatArray, axis: int = 1) -> FloatArray:
    """``off`` over the size expected on its side; where no change is expected, 0 if there is none but rounding."""
    size, off = np.where(off < 0, below, above), np.abs(off)
    rounding = _ROUNDING * np.abs(values).max(axis=axis, keepdims=True)
    certain = np.where(off > rounding, np.finfo(np.float64).max, 0.0)
    with np.errstate(over="ignore"):
        score = np.divide(off, size, out=certain, where=size > 0)
    return np.asarray(np.minimum(score, np.finfo(np.float64).max))
