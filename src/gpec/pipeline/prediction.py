r"""Attributions predicted without running the explainer: of rows similar to a row, of new rows, of left-out rows.

A row ``x`` with its attribution ``y`` joins the explained rows. With ``m`` and ``C`` the latent posterior mean and
covariance, ``g`` the nugget and ``u`` the explainer's variance (all in squared attribution units), and
``c = C(x, x) + g + u``, the attribution of a similar row ``x'`` has

    mean m(x') + C(x', x) (y - m(x)) / c,      variance C(x', x') + g + u - C(x', x)^2 / c.

A row that was explained in ``fit`` is among the explained rows already; there ``y`` tells nothing more. Similar rows
that are explained, too, join in the same way, one after the other. Where the attributions of a row add up to the
model's answer, the sum at ``x'`` is known, too: with variances ``v_f`` and ``r`` what the sum lacks, the mean of
feature ``f`` moves by ``r v_f / sum(v)`` and its variance shrinks by ``v_f^2 / sum(v)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpec.data import Rows, same_values
from gpec.explainers import Attribution
from gpec.gp import Prediction
from gpec.intervals.rules import sizes_by_side, squares_by_side
from gpec.pipeline.fitted import Fitted, OutputModel
from gpec.runtime.blocks import Execution, in_tiles, run_blocks
from gpec.typing import BoolArray, FloatArray, IntArray

_BLOCK = 128  # rows whose similar rows are looked at together
_ROWS = 2_048  # whose difficulty is looked up together
_LEAST = 1e-12  # of the scale: the least variance of what was not observed
_VARIED = 1e-24  # of the largest scale: a scale below it is rounding, and the feature did not vary
_LEAST_SCALE = 0.01  # of the largest: features that matter less have little say in which similar rows are explained


@dataclass(frozen=True, eq=False)
class SimilarExplained:
    """Similar rows that were explained: ``m`` of those of each row, ``chosen (n, m)``, with ``values (n, d, c, m)``."""

    chosen: IntArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Changes:
    """Attributions of similar rows minus that of the row: normal, with these means and deviations ``(n, d, c, K)``."""

    offset: FloatArray
    deviation: FloatArray  # 0 where the change is known
    noise_variance: FloatArray  # what the explainer's noise adds to the expected squared change, (n, d, c)
    explained: BoolArray  # the similar rows that were explained, (n, K)

    def sizes(self, mixed: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Typical changes downwards and upwards ``(n, d, c)``; their mean square is the expected squared change.

        The mean square of the explained rows counts for those that are not known, too, with the weight ``mixed``.
        """
        explained = self.explained[:, None, None]
        n_explained, unknown = np.maximum(explained.sum(axis=-1, keepdims=True), 1), self.deviation > 0

        def mix(squares: FloatArray) -> FloatArray:
            known = (squares * explained).sum(axis=-1, keepdims=True) / n_explained
            return np.where(unknown, (1.0 - mixed) * squares + mixed * known, squares)

        return sizes_by_side(*(mix(squares) for squares in squares_by_side(self.offset, self.deviation)))


def choose_similar(fitted: Fitted, X: Rows, similar: FloatArray, m: int, execution: Execution) -> IntArray:
    """Which ``m`` of the rows ``similar (n, K, d)`` to explain ``(n, m)``: one after the other, the least known.

    That is the one with the largest deviation given the row and those chosen before, over all features in units of
    their scale. The kernel alone tells it: the rows explained in fit would make the choice depend on their draw.
    """

    def block(part: slice) -> dict[str, IntArray]:
        at, rows, others, same = _with_similar(fitted, X, similar, part)
        each, taken, chosen = np.arange(len(at)), same.copy(), np.empty((len(at), m), dtype=np.int64)
        priors = [_Prior(output_model, rows, others) for output_model in fitted.output_models]
        for t in range(m):
            chosen[:, t] = np.where(taken, -1.0, np.sum([prior.deviation() for prior in priors], axis=0)).argmax(axis=1)
            taken |= _the_row_itself(similar[at], similar[at, chosen[:, t]])
            pivots = others[each * similar.shape[1] + chosen[:, t]]
            for prior in priors:
                prior.latent.observe_similar(chosen[:, t], prior.covariance(pivots))
        return {"chosen": chosen[: part.stop - part.start]}

    found = np.empty((len(X), m), dtype=np.int64)
    for part, some in execution.run("choice of similar rows", block, X.encoded, _BLOCK):
        found[part] = some["chosen"]
    return found


class _Prior:
    """Rows similar to each row, by the kernel of one output, where the row itself is observed."""

    def __init__(self, output_model: OutputModel, rows: Rows, others: Rows) -> None:
        self.kernel, self.others = output_model.kernel, others
        scale, nugget = output_model.posterior.scale, output_model.posterior.parameters.nugget
        least = max(_LEAST_SCALE * scale.max(), np.finfo(np.float64).tiny)
        self.weight = np.minimum(scale / least, 1.0)  # all features count alike, but those that hardly matter less
        self.features: list[int | None] = list(range(len(scale)))
        if not self.kernel.varies_by_feature:
            self.features, self.weight, nugget = [None], self.weight.sum(keepdims=True), nugget.mean(keepdims=True)
        own, there = (np.stack([self.kernel.diag(each, f) for f in self.features], axis=-1) for each in (rows, others))
        zero = np.zeros_like(own)
        self.latent = _Latent(np.zeros(()), there.reshape(len(rows), -1, len(self.features)), zero + nugget)
        self.latent.observe(zero, zero, own, self.covariance(rows), np.ones(len(rows), dtype=np.bool_))

    def covariance(self, rows: Rows) -> FloatArray:
        """Of each row with its own similar rows ``(n, K, F)``."""
        paired = self.kernel.paired(rows, self.others)
        return np.stack([paired(feature) for feature in self.features], axis=-1)

    def deviation(self) -> FloatArray:
        """Of each similar row, over all features ``(n, K)``."""
        return np.asarray(np.sqrt(self.latent.variance) @ self.weight)


def _with_similar(fitted: Fitted, X: Rows, similar: FloatArray, part: slice) -> tuple[IntArray, Rows, Rows, BoolArray]:
    """A block of rows: their places, rows and similar rows as kernels read them, and which of these are the row."""
    at, K = in_tiles(part), similar.shape[1]
    place = at - part.start  # rows that fill up the last tile are copies: the model is not called for them
    rows = fitted.with_effects(X[part])[place]
    nearby = fitted.rows(similar[part].reshape(-1, similar.shape[2]), "a similar row")
    others = fitted.with_effects(nearby)[(place[:, None] * K + np.arange(K)).ravel()]
    return at, rows, others, _the_row_itself(similar[at], X.encoded[at])


def predict_changes(
    fitted: Fitted,
    X: Rows,
    answer: Attribution,
    similar: FloatArray,
    execution: Execution,
    explained: SimilarExplained | None = None,
) -> Changes:
    """Of rows with their attributions, towards ``similar (n, K, d)``; the model is asked, the explainer is not."""
    (n, K), shape = similar.shape[:2], answer.values.shape
    whole = {"offset": np.empty((*shape, K)), "deviation": np.empty((*shape, K)), "noise_variance": np.empty(shape)}
    whole["explained"] = np.empty((n, K), dtype=np.bool_)

    def block(part: slice) -> dict[str, FloatArray]:
        pairs = _Pairs(fitted, X, answer, similar, part)
        if explained is not None:
            for t in range(explained.chosen.shape[1]):
                pairs.observe(explained.chosen[pairs.at, t], explained.values[pairs.at, :, :, t])
        return {name: array[: part.stop - part.start] for name, array in pairs.changes().items()}

    for part, found in execution.run("similar rows", block, X.encoded, _BLOCK):
        for name, array in whole.items():
            array[part] = found[name]
    return Changes(**whole)


class _Pairs:
    """A block of ``n`` rows and the ``K`` rows similar to each, with what was observed of them."""

    def __init__(self, fitted: Fitted, X: Rows, answer: Attribution, similar: FloatArray, part: slice) -> None:
        self.fitted, K = fitted, similar.shape[1]
        self.at, rows, self.others, self.same = _with_similar(fitted, X, similar, part)
        self.similar = similar[self.at]
        self.explained = np.zeros_like(self.same)  # by themselves, or equal to one that was
        self.y, self.totals = answer.values[self.at], _totals(fitted, self.others, answer, self.at)
        self.values = np.zeros((*self.y.shape, K))  # of the similar rows that were explained
        known, noise = fitted.was_explained(X.encoded)[self.at], fitted.noise_at(answer)[self.at]
        self.latent: list[list[_Latent]] = []  # of each output: as it is and, if there is noise, as if there were none
        for c, output_model in enumerate(fitted.output_models):
            posterior, u = output_model.posterior, noise[:, :, c]
            nugget = posterior.scale * posterior.parameters.nugget
            noises = (nugget + u, nugget + 0.0 * u) if u.any() or posterior.U.any() else (nugget + u,)
            self.latent.append([])
            for found, own_noise in zip(posterior.pairs(rows, self.others), noises, strict=False):
                latent = _Latent(found.similar_mean, found.similar_variance, own_noise)
                latent.observe(self.y[:, :, c], found.mean, found.variance, found.covariance, ~known)
                self.latent[c].append(latent)

    def observe(self, chosen: IntArray, values: FloatArray) -> None:
        """Condition on one similar row of each row with its attributions ``(n, d, c)``."""
        each = np.arange(len(chosen))
        pivots = self.others[each * self.same.shape[1] + chosen]
        for c, (output_model, latent) in enumerate(zip(self.fitted.output_models, self.latent, strict=True)):
            for one, found in zip(latent, output_model.posterior.pairs(pivots, self.others), strict=False):
                one.observe_similar(chosen, found.covariance, values[:, :, c])
        equal = _the_row_itself(self.similar, self.similar[each, chosen])
        self.explained |= equal
        self.values = np.where(equal[:, None, None], values[..., None], self.values)

    def changes(self) -> dict[str, FloatArray]:
        """The arrays of :class:`Changes`."""
        least, zero, parts = _least_variance(self.fitted), self.fitted.surely_zero(self.similar), []
        for c, (latent, total) in enumerate(zip(self.latent, self.totals, strict=True)):
            mean, variance = latent[0].given_total(total, zero)
            quiet = latent[-1].given_total(total, zero)[1]
            deviation = np.where(zero, 0.0, np.sqrt(np.maximum(variance, least[:, c])))
            offset = mean - self.y[:, None, :, c]
            parts.append((offset, deviation, np.maximum(variance - quiet, 0.0)))
        # (n, d, c, K) from (n, K, d) of each output
        offset, deviation, noise = (np.stack(part, axis=-1).transpose(0, 2, 3, 1) for part in zip(*parts, strict=True))
        offset = np.where(self.explained[:, None, None], self.values - self.y[..., None], offset)
        offset = np.where(self.same[:, None, None], 0.0, offset)
        known = (self.explained | self.same)[:, None, None]
        return {
            "offset": offset,
            "deviation": np.where(known, 0.0, deviation),
            "noise_variance": np.where(known, 0.0, noise).mean(axis=-1),
            "explained": self.explained & ~self.same,
        }


class _Latent:
    """Latent attributions of similar rows, normal with ``mean`` and ``variance (n, K, d)``, as they are observed.

    ``noise (n, d)`` is the nugget and the explainer's variance, of a row and of those similar to it.
    """

    def __init__(self, mean: FloatArray, variance: FloatArray, noise: FloatArray) -> None:
        self.mean, self.variance, self.noise = mean, variance, noise
        self._columns: list[FloatArray] = []  # of the factor L: what was observed takes L L' off the covariance

    def observe(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray, covariance: FloatArray, which: BoolArray
    ) -> None:
        """Condition on ``y (n, d)`` at another row, where it is new: ``covariance`` with it is ``(n, K, d)``."""
        own = variance + self.noise
        observed = (own > 0) & which[:, None]
        root = np.sqrt(np.where(observed, own, 1.0))
        column = np.where(observed[:, None], covariance / root[:, None], 0.0)
        self.mean = self.mean + column * ((y - mean) / root)[:, None]
        self.variance = np.maximum(self.variance - column**2, 0.0)
        self._columns.append(column)

    def observe_similar(self, chosen: IntArray, covariance: FloatArray, y: FloatArray | None = None) -> None:
        """Condition on one of the similar rows; without its attributions, means stay as they are."""
        each = np.arange(len(chosen))
        for column in self._columns:
            covariance = covariance - column * column[each, chosen][:, None]
        variance, mean = self.variance[each, chosen], np.zeros(()) if y is None else self.mean[each, chosen]
        self.observe(mean if y is None else y, mean, variance, covariance, np.ones(len(chosen), dtype=np.bool_))

    def given_total(self, total: FloatArray | None, zero: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of what the explainer would answer, whose features may add up to ``total (n, K)``.

        Some are ``zero (n, K, d)`` for certain.
        """
        mean, variance = np.where(zero, 0.0, self.mean), np.where(zero, 0.0, self.variance + self.noise[:, None])
        if total is None:
            return mean, variance
        share, left = _shares(variance, axis=2)
        return mean + share * (total - mean.sum(axis=2))[:, :, None], left


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


def _the_row_itself(similar: FloatArray, Z: FloatArray) -> BoolArray:
    """Which similar rows ``(n, K)`` are no other than the row."""
    return np.asarray(np.all(same_values(similar, Z[:, None]), axis=2), dtype=np.bool_)


def _shares(variance: FloatArray, axis: int = 1) -> tuple[FloatArray, FloatArray]:
    """Each feature's share of what a sum lacks, and the variance that is left when the sum is known."""
    whole = variance.sum(axis=axis, keepdims=True)
    share = np.divide(variance, whole, out=np.zeros_like(variance), where=whole > 0)
    return share, variance * (1.0 - share)


def _totals(fitted: Fitted, others: Rows, answer: Attribution, at: IntArray) -> Iterable[FloatArray | None]:
    """For each output, what the attributions of similar rows add up to, ``(n, K)``; None where they do not."""
    if fitted.observations.adds_up_to is None or answer.base_values is None:
        return [None] * len(fitted.output_models)
    answers = fitted.attribution_totals(others).reshape(len(at), -1, len(fitted.output_models))
    return np.moveaxis(answers - answer.base_values[at][:, None], 2, 0)
