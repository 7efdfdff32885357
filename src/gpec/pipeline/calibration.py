"""The stages of ``calibrate``: rows whose answer is known, scored against what was predicted for them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from gpec._validation import check_finite_array
from gpec.data import Rows
from gpec.errors import CalibrationWarning, InputError
from gpec.explainers import Attribution
from gpec.explainers.attribution import check_attribution
from gpec.intervals.conformal import Calibration, ConformityScores
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.pipeline.explain import explain_rows, value_intervals, with_samples
from gpec.pipeline.fitted import Fitted
from gpec.pipeline.prediction import left_out_values, predict_changes
from gpec.pipeline.sampling import PAIRS, one_of_each
from gpec.runtime.blocks import Execution, one_blas_thread
from gpec.runtime.randomness import derived_seed
from gpec.typing import FloatArray

_ROUNDING = 1e-9  # of the size of a row's attributions


def calibrate_on(fitted: Fitted, Z: FloatArray, given: Attribution | None, execution: Execution) -> Calibration:
    """Scores of fresh rows, each with one of its similar rows; with given attributions, of the value only."""
    if fitted.similarity is None:
        raise InputError("similar=None gives the paper's intervals, which promise nothing that calibrate could check.")
    seen = fitted.was_explained(Z)
    if seen.any():
        warnings.warn(
            f"{int(seen.sum())} of the {len(Z)} rows were explained in fit; the guarantee needs fresh rows.",
            CalibrationWarning,
            stacklevel=3,
        )
    answer = explain_rows(fitted, Z, execution) if given is None else given
    weights = np.ones(len(Z))
    fresh = not seen.any()
    rows = fitted.rows(Z, n_jobs=execution.n_jobs)
    found = value_intervals(fitted, rows, execution)
    std = np.sqrt(found.model_variance + found.noise_variance)
    value = ConformityScores(_score(answer.values - found.shown.values, std, answer.values), weights, fresh)
    if given is not None:
        return replace(fitted.calibration, value=value)
    similar = fitted.similarity.rows(Z)
    there = explain_rows(fitted, one_of_each(fitted.context.seed, similar), execution).values
    return Calibration(
        ConformityScores(_score_changes(fitted, rows, answer, similar, there, execution), weights, fresh), value
    )


def check_given(fitted: Fitted, attributions: Any, n: int) -> Attribution | None:
    """Attributions given to ``calibrate``, in the one shape used inside."""
    if attributions is None:
        return None
    values = check_finite_array("attributions", attributions)
    context = fitted.context
    answer = check_attribution(Attribution(values), n, context.schema.n_features, context.model, given=True)
    return answer.add_groups(context.groups)


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
    scores = _score(residual[drawn], std[drawn], seen.attribution.values[drawn])
    value, similar = ConformityScores(scores, seen.sample.weights[drawn], fresh=False), None
    if not seen.given and fitted.context.explainer is not None:
        there = seen.similar_values
        few = np.flatnonzero(drawn)[:n_pairs]
        nearby = similar_to.rows(seen.rows[few])
        if there is None or len(there) != len(few):
            chosen = one_of_each(fitted.context.seed, nearby)
            there = explain_rows(with_samples(fitted, seen.n_samples), chosen, execution).values
            fitted = replace(fitted, observations=replace(seen, similar_values=there))
        answer = Attribution(seen.attribution.values, seen.U, seen.attribution.base_values)
        known = answer.map(lambda array: array[few])
        changed = _score_changes(fitted, fitted.rows(seen.rows[few]), known, nearby, there, execution)
        similar = ConformityScores(changed, seen.sample.weights[few], fresh=False)
    loo_r2 = _r_squared(residual[drawn], seen.attribution.values[drawn], seen.sample.weights[drawn])
    return replace(fitted, calibration=Calibration(similar, value), loo_r2=loo_r2)


def _r_squared(residual: FloatArray, values: FloatArray, weights: FloatArray) -> float:
    """Share of the attributions' variation that left-out predictions explain; 1 where they do not vary."""
    spread = (weights[:, None, None] * (values - np.average(values, axis=0, weights=weights)) ** 2).sum()
    return float(1.0 - (weights[:, None, None] * residual**2).sum() / spread) if spread > 0 else 1.0


def _score_changes(
    fitted: Fitted, rows: Rows, answer: Attribution, similar: FloatArray, there: FloatArray, execution: Execution
) -> FloatArray:
    """For each row, how much the attributions of one of its similar rows differ, over what was expected."""
    expected = predict_changes(fitted, rows, answer, similar, execution).expected_square
    return _score(there - answer.values, np.sqrt(expected), answer.values)


def _score(off: FloatArray, std: FloatArray, values: FloatArray) -> FloatArray:
    """``|off| / std``; where no change at all is expected, 0 if there is none but rounding."""
    off = np.abs(off)
    rounding = _ROUNDING * np.abs(values).max(axis=1, keepdims=True)
    certain = np.where(off > rounding, np.finfo(np.float64).max, 0.0)
    with np.errstate(over="ignore"):
        score = np.divide(off, std, out=certain, where=std > 0)
    return np.asarray(np.minimum(score, np.finfo(np.float64).max))
