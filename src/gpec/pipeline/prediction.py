r"""Attributions predicted without running the explainer: of rows similar to a row, of new rows, of left-out rows.

A row ``x`` with its attribution ``y`` joins the explained rows. With ``m`` and ``C`` the latent posterior mean and
covariance, ``g`` the nugget and ``u`` the explainer's variance (all in squared attribution units), and
``c = C(x, x) + g + u``, the attribution of a similar row ``x'`` has

    mean m(x') + C(x', x) (y - m(x)) / c,      variance C(x', x') + g + u - C(x', x)^2 / c.

A row that was explained in ``fit`` is among the explained rows already; there ``y`` tells nothing more. Where the
attributions of a row add up to the model's answer, the sum at ``x'`` is known, too: with variances ``v_f`` and ``r``
what the sum lacks, the mean of feature ``f`` moves by ``r v_f / sum(v)`` and its variance shrinks by
``v_f^2 / sum(v)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpec.data import Rows, same_values
from gpec.explainers import Attribution
from gpec.gp import PairPosterior, Prediction
from gpec.pipeline.fitted import Fitted
from gpec.runtime.blocks import Execution, in_tiles, run_blocks
from gpec.typing import BoolArray, FloatArray, IntArray

_BLOCK = 128  # rows whose similar rows are looked at together
_ROWS = 2_048  # whose difficulty is looked up together
_LEAST = 1e-12  # of the scale: the least variance of what was not observed
_VARIED = 1e-24  # of the largest scale: a scale below it is rounding, and the feature did not vary


@dataclass(frozen=True, eq=False)
class Changes:
    """Attributions of similar rows minus that of the row: normal, with these means and deviations ``(n, d, c, K)``."""

    offset: FloatArray
    deviation: FloatArray
    noise_variance: FloatArray  # what the explainer's noise adds to the expected squared change, (n, d, c)

    @property
    def expected_square(self) -> FloatArray:
        """``(n, d, c)``."""
        return np.asarray((self.offset**2 + self.deviation**2).mean(axis=-1))


def predict_changes(fitted: Fitted, X: Rows, answer: Attribution, similar: FloatArray, execution: Execution) -> Changes:
    """Of rows with their attributions, towards ``similar (n, K, d)``; the model is asked, the explainer is not."""
    Z = X.encoded
    n, K, _ = similar.shape
    shape = (n, answer.values.shape[1], len(fitted.output_models))
    whole = {"offset": np.empty((*shape, K)), "deviation": np.empty((*shape, K)), "noise_variance": np.empty(shape)}
    known = fitted.was_explained(Z)
    own_noise = fitted.noise_at(answer)
    least = _least_variance(fitted)

    def block(part: slice) -> dict[str, FloatArray]:
        at = in_tiles(part)
        place = at - part.start  # rows that fill up the last tile are copies: the model is not called for them
        some = {name: np.empty((len(at), *array.shape[1:])) for name, array in whole.items()}
        rows = fitted.with_effects(X[part])[place]
        nearby = fitted.rows(similar[part].reshape(-1, Z.shape[1]), "a similar row")
        others = fitted.with_effects(nearby)[(place[:, None] * K + np.arange(K)).ravel()]
        same = _the_row_itself(similar[at], Z[at])
        for c, output_model in enumerate(fitted.output_models):
            y, u = answer.values[at, :, c], own_noise[at, :, c]
            total = _total(fitted, rows, others, answer, at, c)
            posterior = output_model.posterior
            nugget = posterior.scale * posterior.parameters.nugget
            found, without_noise = posterior.pairs(rows, others)
            mean, variance = _condition_on_own(found, y, nugget + u, known[at], total)
            quiet = variance
            if u.any() or posterior.U.any():
                quiet = _condition_on_own(without_noise, y, nugget + 0.0 * u, known[at], total)[1]
            change, spread = mean - y[:, None], np.sqrt(np.maximum(variance, least[:, c]))
            change[same], spread[same] = 0.0, 0.0
            added = np.where(same[:, :, None], 0.0, np.maximum(variance - quiet, 0.0))
            some["offset"][:, :, c], some["deviation"][:, :, c] = change.transpose(0, 2, 1), spread.transpose(0, 2, 1)
            some["noise_variance"][:, :, c] = added.mean(axis=1)
        return {name: array[: part.stop - part.start] for name, array in some.items()}

    for part, found in execution.run("similar rows", block, Z, _BLOCK):
        for name, array in whole.items():
            array[part] = found[name]
    return Changes(**whole)


def predict_values(fitted: Fitted, rows: Rows, found: Prediction, n_jobs: int | None = None) -> Prediction:
    """What the explainer would answer: the posterior with its own noise, given what attributions add up to."""
    u = fitted.noise_at(None)
    of_model, variance, mean = found.model_variance, found.variance + u, found.mean
    base = fitted.common_base(len(rows))
    if fitted.observations.adds_up_to is not None and base is not None:
        lack = fitted.attribution_totals(rows) - base - mean.sum(axis=1)
        share, variance = _shares(variance)
        mean, of_model = mean + share * lack[:, None], _shares(of_model)[1]
    of_model = np.maximum(of_model, _least_variance(fitted))
    noise = np.maximum(variance - of_model, 0.0)
    normalizer = fitted.normalizer
    if normalizer is not None:
        std = np.sqrt(of_model + noise)
        sizes = run_blocks(lambda part: normalizer.at(rows[part]), len(rows), _ROWS, n_jobs=n_jobs)
        wider = (normalizer.scaled(std, np.concatenate(list(sizes))) / std) ** 2
        of_model, noise = of_model * wider, noise * wider
    return Prediction(mean, of_model, noise, found.clamped)


def left_out_values(fitted: Fitted) -> tuple[FloatArray, FloatArray]:
    """Residuals and deviations ``(N, d, c)`` of the explained rows, each predicted from the others."""
    parts = [output_model.posterior.leave_one_out() for output_model in fitted.output_models]
    residual, variance = (
        np.stack([getattr(part, name) for part in parts], axis=2) for name in ("residual", "variance")
    )
    if fitted.observations.adds_up_to is not None and fitted.common_base(1) is not None:  # then residuals add up to 0
        share, variance = _shares(variance)
        residual = residual - share * residual.sum(axis=1, keepdims=True)
    std = np.sqrt(np.maximum(variance, _least_variance(fitted)))
    return residual, std if fitted.normalizer is None else fitted.normalizer.scaled(std, fitted.normalizer.left_out)


def _least_variance(fitted: Fitted) -> FloatArray:
    """The smallest variance of each feature, ``(d, c)``; for a constant one it comes from the largest scale."""
    scale = np.stack([output_model.posterior.scale for output_model in fitted.output_models], axis=1)
    largest = float(scale.max())
    least = _LEAST * np.where(scale > _VARIED * largest, scale, largest)
    return np.maximum(least, np.finfo(np.float64).tiny)


def _condition_on_own(
    found: PairPosterior, y: FloatArray, noise: FloatArray, known: BoolArray, total: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance ``(n, K, d)`` of the attributions of similar rows, given those of the rows.

    ``noise (n, d)`` is the nugget and the explainer's variance.
    """
    own = found.variance + noise
    observed = (own[:, None] > 0) & ~known[:, None, None]
    weight = np.divide(found.covariance, own[:, None], out=np.zeros_like(found.covariance), where=observed)
    mean = found.similar_mean + weight * (y - found.mean)[:, None]
    variance = np.maximum(found.similar_variance + noise[:, None] - weight * found.covariance, 0.0)
    if total is not None:
        share, left = _shares(variance, axis=2)
        mean, variance = mean + share * (total - mean.sum(axis=2))[:, :, None], left
    return mean, variance


def _the_row_itself(similar: FloatArray, Z: FloatArray) -> BoolArray:
    """Which similar rows ``(n, K)`` are no other than the row."""
    return np.asarray(np.all(same_values(similar, Z[:, None]), axis=2), dtype=np.bool_)


def _shares(variance: FloatArray, axis: int = 1) -> tuple[FloatArray, FloatArray]:
    """Each feature's share of what a sum lacks, and the variance that is left when the sum is known."""
    whole = variance.sum(axis=axis, keepdims=True)
    share = np.divide(variance, whole, out=np.zeros_like(variance), where=whole > 0)
    return share, variance * (1.0 - share)


def _total(
    fitted: Fitted, rows: Rows, others: Rows, answer: Attribution, at: IntArray, output: int
) -> FloatArray | None:
    """What the attributions of similar rows add up to, ``(n, K)``; None where they do not."""
    if fitted.observations.adds_up_to is None or answer.base_values is None:
        return None
    answers = fitted.attribution_totals(others)[:, output].reshape(len(rows), -1)
    return np.asarray(answers - answer.base_values[at, output, None])
