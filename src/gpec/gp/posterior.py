"""Posterior of the latent explanation (Eq. 2) at rows, given the attributions of the explained rows.

For one feature, with ``A = K + diag(h)`` in units of the output scale ``s`` and ``h = g + u / s``,

    V(x) / s = k(x, x) + g - k(x, X) A^-1 k(X, x) + (1 - 1' A^-1 k(X, x))^2 / (1' A^-1 1),

where the last term is the uncertainty of the constant mean (absent when the mean is fixed at 0). ``V`` has two
parts. The model's part is ``V`` with ``u = 0`` at the same parameters. The noise part is the difference, which is
never negative. ``FlatMean`` of :mod:`gpec.gp._linalg` integrates the mean out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import NumericalError
from gpec.gp._gram import Covariances, CrossCovariance, Gram, feature_grams
from gpec.gp._linalg import Cholesky, FlatMean, Spectral
from gpec.gp._reml import LEAST_NUGGET
from gpec.gp.evidence import LARGEST_NOISE, Parameters
from gpec.kernels import Kernel
from gpec.typing import FloatArray, IntArray

JITTER = 1e-12  # added to the diagonal, in units of the scale
_EPS = float(np.finfo(np.float64).eps)
_EXACT_VARIANCES = 1_000  # rows up to which the variances of a kernel by feature are predicted from all of them
_VARIANCE_ROWS = 500  # rows from which they are predicted beyond that


@dataclass(frozen=True, eq=False)
class Prediction:
    """Posterior at some rows; all arrays ``(n, d)``, or ``(n, d, c)`` for several outputs."""

    mean: FloatArray
    model_variance: FloatArray
    noise_variance: FloatArray
    clamped: IntArray  # for each row, how many variances were negative by rounding

    @property
    def variance(self) -> FloatArray:
        return self.model_variance + self.noise_variance

    @property
    def n_clamped(self) -> int:
        return int(np.sum(self.clamped))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Each explained row predicted from the others; both arrays ``(N, d)``.

    ``residual`` is the attribution minus its prediction, ``variance`` that of the residual, noise and nugget included.
    """

    residual: FloatArray
    variance: FloatArray


@dataclass(frozen=True, eq=False)
class PairPosterior:
    """Latent posterior at rows ``(n, d)``, at ``K`` rows similar to each ``(n, K, d)``, and between them."""

    mean: FloatArray
    similar_mean: FloatArray
    variance: FloatArray
    similar_variance: FloatArray
    covariance: FloatArray  # of a row with each similar one


@dataclass(eq=False)
class _FeatureGroup:
    """Features that are predicted together, with attributions ``y (N, d)`` in units of the root of their scales."""

    features: IntArray
    gram: Gram
    y: FloatArray
    noisy: FlatMean
    noise_free: FlatMean
    condition: float

    def __post_init__(self) -> None:
        self.mean, self.weights = self.noisy.fit(self.y)
        self.gram.forget()

    def mean_at(self, cross: CrossCovariance) -> FloatArray:
        """R&W, Eqs. 2.25 and 2.42."""
        return np.asarray(self.mean + cross.k @ self.weights)

    def predict(self, cross: CrossCovariance) -> tuple[FloatArray, ...]:
        """Mean, prior variance, and its reduction as if the attributions had no noise and with it, all ``(n, d)``."""
        mean = self.mean_at(cross)
        noise_free = self.noise_free.variance_reduction(cross)
        noisy = noise_free if self.noisy is self.noise_free else self.noisy.variance_reduction(cross)
        return mean, *(np.broadcast_to(part, mean.shape) for part in (cross.diagonal[:, None], noise_free, noisy))

    def pair_variances(
        self, here: CrossCovariance, there: CrossCovariance, between: FloatArray, P: FlatMean
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Variance at rows ``(n, d)`` and at ``K`` rows similar to each, and their covariance ``(n, K, d)``."""
        (n, K), d = between.shape, len(self.features)
        variance, of_similar, covariance = np.empty((n, d)), np.empty((n, K, d)), np.empty((n, K, d))
        for f in range(d):
            V, W = P.factor(here, f), P.factor(there, f)
            variance[:, f] = np.maximum(here.diagonal - V.diagonal(), 0.0)
            of_similar[:, :, f] = np.maximum(there.diagonal - W.diagonal(), 0.0).reshape(n, K)
            covariance[:, :, f] = between - V.paired(W)
        return variance, of_similar, covariance

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        residual, variance = self.noisy.leave_one_out(self.y)
        self.gram.forget()
        return residual, np.broadcast_to(variance, self.y.shape)


class Posterior(ABC):
    """Gaussian processes of ``d`` features, conditioned on attributions ``Y`` with noise variance ``U``.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel. One that does not differ by feature costs one factorisation for all features.
    rows : Rows or array of shape (N, D)
        The explained rows.
    Y, U : arrays of shape (N, d)
        Their attributions and noise variance.
    parameters : Parameters
        Scale, nugget and whether the mean is free.

    Attributes
    ----------
    mean, scale : arrays of shape (d,)
        The constant mean and the output scale of each feature.
    condition : float
        Largest condition number of a matrix that was inverted.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Any,
        Y: FloatArray,
        U: FloatArray,
        parameters: Parameters,
        *,
        grams: list[tuple[IntArray, Gram]] | None = None,
    ) -> None:
        self.kernel, self.rows, self.Y, self.U, self.parameters = kernel, Rows.of(rows), Y, U, parameters
        self._flat = parameters.scale == 0
        self._scale = np.where(self._flat, 1.0, parameters.scale)
        self._noisy = np.asarray(U.any(axis=0))
        with np.errstate(divide="ignore", over="ignore"):
            self._flat_noise = 1.0 / (1.0 / U).sum(axis=0)  # variance of the mean of attributions that do not vary
        grams = feature_grams(kernel, self.rows, Y.shape[1]) if grams is None else grams
        self._groups = [group for features, gram in grams for group in self._split(features, gram)]
        self._order = np.argsort(np.concatenate([group.features for group in self._groups]))
        self.mean = np.sqrt(self._scale) * self._gather([group.mean for group in self._groups])
        self._condition = self._gather([np.full(len(group.features), group.condition) for group in self._groups])
        self.scale, self.condition = parameters.scale, float(self._condition.max())

    @abstractmethod
    def _conditioned(self, features: IntArray, gram: Gram, h: FloatArray) -> FlatMean:
        """The algebra of features of one group, with noise ``h (N, d)`` in units of the scale."""

    def _alike(self, h: FloatArray) -> list[IntArray]:
        """Groups among features that share a kernel matrix, as columns of their noise ``h``.

        Features whose noise is the same at all rows share eigenvectors, others a Cholesky factor if it is equal.
        """
        _, group = np.unique(np.where(np.ptp(h, axis=0) == 0, 0.0, h), axis=1, return_inverse=True)
        return [np.flatnonzero(group.ravel() == i) for i in np.unique(group)]

    def _split(self, features: IntArray, gram: Gram) -> Iterator[_FeatureGroup]:
        """The groups of features that share a kernel matrix."""
        nugget, scale = self.parameters.nugget[features], self._scale[features]
        with np.errstate(over="ignore"):
            noise = np.minimum(self.U[:, features] / scale, LARGEST_NOISE)
        # the least nugget keeps a matrix without noise invertible
        with_noise, nuggets = (
            np.maximum(nugget + u, LEAST_NUGGET) + JITTER + gram.residual for u in (noise, 0 * noise)
        )
        y = self.Y[:, features] / np.sqrt(scale)
        for columns in self._alike(with_noise):
            group, least = features[columns], nuggets[:, columns]
            noise_free = self._conditioned(group, gram, least)
            noisy = self._conditioned(group, gram, with_noise[:, columns]) if self._noisy[group].any() else noise_free
            condition = 1.0 + self._largest_eigenvalue(group, gram) / float(least.min())
            yield _FeatureGroup(group, gram, y[:, columns], noisy, noise_free, condition)

    def _largest_eigenvalue(self, features: IntArray, gram: Gram) -> float:
        return gram.largest_eigenvalue

    def predict(self, X: Any) -> Prediction:
        """Mean and variance of the latent explanation at other rows (R&W, Alg. 2.1, lines 4 to 6)."""
        mean, prior, noise_free, reduction = self._collect(
            group.predict(cross) for group, cross in self._crosses(Rows.of(X))
        )
        of_model, clamped = self._variance(prior, noise_free)
        noise = np.zeros_like(of_model)
        if self._noisy.any():
            total, clamped_with_noise = self._variance(prior, reduction)
            noise = np.where(self._noisy, np.maximum(total - of_model, 0.0), 0.0)
            clamped = clamped + clamped_with_noise
        return Prediction(
            self._in_units(mean), self._scaled(of_model, 0.0), self._scaled(noise, self._flat_noise), clamped
        )

    def covariance(self, X: Any) -> FloatArray:
        """Joint covariance ``(n, n, d)`` of the latent explanations of a few rows, without the nugget.

        With the nugget, ``scale * nugget``, on its diagonal, that is the variance of :meth:`predict`.
        """
        rows, parts = Rows.of(X), []
        between = Covariances(self.kernel, rows)
        for group, cross in self._crosses(rows):
            K, P = between.matrix(group.gram.feature), group.noisy
            parts.append(np.stack([K - P.factor(cross, f).matrix() for f in range(len(group.features))], axis=-1))
        return self._scaled(self._gather(parts), self._flat_noise)  # a flat feature is one unknown constant

    def pairs(self, X: Any, similar: Any) -> tuple[PairPosterior, PairPosterior]:
        """Rows ``X`` and the ``K`` rows similar to each: ``similar`` has ``n K`` rows, those of the first row first.

        Twice: with the noise of the explained rows, and as if they had none, at the same parameters.
        """
        rows, others = Rows.of(X), Rows.of(similar, "similar")
        paired = cache(self.kernel.paired(rows, others))
        parts = []
        for (group, here), (_, there) in zip(self._crosses(rows), self._crosses(others), strict=True):
            between = paired(group.gram.feature)
            means = group.mean_at(here), group.mean_at(there).reshape(*between.shape, -1)
            variants = (group.noisy, group.noise_free) if self._noisy.any() else (group.noisy,)
            spreads = (group.pair_variances(here, there, between, P) for P in variants)
            parts.append((*means, *chain.from_iterable(spreads)))
        mean, similar_mean, *variances = self._collect(parts)
        means = self._in_units(mean), self._in_units(similar_mean)
        with_noise = PairPosterior(*means, *(self._scaled(part, self._flat_noise) for part in variances[:3]))
        if not self._noisy.any():
            return with_noise, with_noise
        return with_noise, PairPosterior(*means, *(self._scaled(part, 0.0) for part in variances[3:]))

    def leave_one_out(self) -> LeaveOneOut:
        """Residuals of the explained rows, each predicted from all others at the same parameters."""
        residual, variance = self._collect(group.leave_one_out() for group in self._groups)
        residual = np.where(self._flat, 0.0, np.sqrt(self._scale) * residual)
        # of equal attributions, only the noise is uncertain
        return LeaveOneOut(residual, self._scaled(variance, self.U + _variance_of_others(self.U)))

    def _crosses(self, rows: Rows) -> Iterator[tuple[_FeatureGroup, CrossCovariance]]:
        """Each group of features with the cross-covariance of the rows; neighbours share what they can."""
        of_feature = lru_cache(1)(lambda covariances: covariances.cross(rows))
        cross = lru_cache(1)(lambda gram: gram.cross_covariance(*of_feature(gram.covariances)(gram.feature)))
        return ((group, cross(group.gram)) for group in self._groups)

    def _gather(self, parts: list[FloatArray]) -> FloatArray:
        """Arrays whose last axis are the features of each group, as one."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)[..., self._order]

    def _collect(self, groups: Iterable[tuple[FloatArray, ...]]) -> list[FloatArray]:
        return [self._gather(list(parts)) for parts in zip(*groups, strict=True)]

    def _in_units(self, mean: FloatArray) -> FloatArray:
        """Means in units of attributions; a feature of scale 0 is constant."""
        return np.where(self._flat, self.mean, np.sqrt(self._scale) * mean)

    def _scaled(self, variance: FloatArray, constant: FloatArray | float) -> FloatArray:
        """Variances in units of attributions; those of features of scale 0 are ``constant``."""
        return np.where(self._flat, constant, self._scale * variance)

    def _variance(self, prior: FloatArray, reduction: FloatArray) -> tuple[FloatArray, IntArray]:
        """The variance in units of the scale, and for each row how many were negative by rounding."""
        variance = prior + self.parameters.nugget - reduction
        negative = variance < 0
        if negative.any():
            beyond_rounding = variance < -10 * self._condition * _EPS * prior.max(axis=0)
            if beyond_rounding.any():
                row, f = np.unravel_index(int(np.where(beyond_rounding, variance, 0.0).argmin()), variance.shape)
                raise NumericalError(
                    f"The variance of feature {f} at row {row} came out as {variance[row, f]:.3g}, more than "
                    f"rounding explains (condition {self._condition[f]:.2g}); add noise or use output_scale='evidence'."
                )
            variance = np.maximum(variance, 0.0)
        return variance, negative.sum(axis=1)


def _variance_of_others(U: FloatArray) -> FloatArray:
    """Variance of the weighted mean of all rows but one, for each row."""
    with np.errstate(divide="ignore", over="ignore"):
        precision = np.pad(1.0 / U, ((1, 1), (0, 0)))
        return np.asarray(1.0 / (precision.cumsum(axis=0)[:-2] + precision[::-1].cumsum(axis=0)[-3::-1]))


class ExactPosterior(Posterior):
    """Exact posterior from the dense kernel matrix."""

    def _conditioned(self, features: IntArray, gram: Gram, h: FloatArray) -> FlatMean:
        free_mean = self.parameters.free_mean
        if gram.feature is None and not np.ptp(h, axis=0).any():
            return FlatMean(Spectral(gram.spectrum, h[0]), free_mean)
        if gram.feature is not None and len(h) > _EXACT_VARIANCES:
            return _VariancesOfFew(gram, h[:, 0], free_mean)
        return FlatMean(Cholesky(gram.matrix, h[:, 0]), free_mean)


class _VariancesOfFew(FlatMean):
    """A feature with a kernel matrix of its own and more than 1,000 rows.

    A variance costs the square of the number of rows it is predicted from. It is predicted from 500 rows, evenly
    spaced: never smaller than from all, and calibrated like any other. Means and joint covariances use all rows.
    """

    def __init__(self, gram: Gram, h: FloatArray, free: bool) -> None:
        super().__init__(Cholesky(gram.matrix, h), free)
        self._gram, self._h = gram, h
        K, self._few = gram.matrix, evenly_spaced(len(h), _VARIANCE_ROWS)
        few = self._few
        self._of_few = FlatMean(Cholesky(K[np.ix_(few, few)], h[few]), free)

    def variance_reduction(self, cross: CrossCovariance) -> FloatArray:
        return self._of_few.variance_reduction(cross.at(self._few))

    def leave_one_out(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual, _ = super().leave_one_out(y)
        K = self._gram.matrix
        cross = CrossCovariance(K, np.diag(K), self._gram)
        variance = (cross.diagonal + self._h)[:, None] - self.variance_reduction(cross)
        variance[self._few] = 1.0 / self._of_few.diag()
        return residual, variance
