"""LIME, BayesLIME and BayesSHAP: linear regressions on perturbations of a row."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from gpec._validation import check_count, check_positive
from gpec.explainers._bayes_regression import LinearPosterior, Moments, sandwich_variance
from gpec.explainers._linked import Link
from gpec.explainers._local_regression import BayesRegression, LimeRegression
from gpec.explainers._perturbation import CoalitionSampler, PerturbationSampler, Perturbed, batch
from gpec.explainers.attribution import Attribution
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray


@dataclass(eq=False, repr=False)
class BayesLime(LimeRegression, BayesRegression):
    """BayesLIME (Slack et al., NeurIPS 2021): LIME with a Bayesian regression, which gives credible intervals.

    ``n_samples`` perturbations of a row are drawn as in LIME, with the weights ``exp(-D^2 / (2 width^2))``, where D is
    the distance to the row in standard deviations; a different category has the distance 1. The posterior of the
    coefficients has a closed form: a Student t distribution whose degrees of freedom are the number of perturbations
    (see ``_bayes_regression.LinearPosterior``). Numbers are not discretised, and all features are explained.

    Values ``(n, d)`` or ``(n, d, c)`` are coefficients. For a number, the value is the change of the answer for one
    standard deviation of the training rows. For a category, it is the difference between the row's own category and
    others. The variance is their posterior variance. The authors' own code regresses on unscaled numbers, whose
    coefficients cannot be compared.

    Perturbed values are missing as often as values of the training rows. If the row's own number is missing, its value
    is the difference between a missing value and a number. If it is not missing, missing values do not bias the slope.

    If all weights are small, as for rows far from the training rows, the prior dominates: values and variance shrink to
    0 together. Use ``around="row"`` then.

    Parameters
    ----------
    n_samples : int, default 200
        Perturbations of a row; with a ``target_width``, the number in the first batch.
    kernel_width : float or "auto"
        "auto" is LIME's ``0.75 sqrt(d)``.
    around : {"data", "row"}
        Draw numbers around the mean of the training rows, LIME's default, or around the explained row.
    sampling : {"plain", "focused"}
        "focused" selects half of the perturbations, in four batches, from ten times as many candidates. Their
        probability is proportional to ``exp(s / temperature)``, where s is the predictive scale of the weighted answer.
        The coefficients are then those of the selected perturbations.
    target_width : float, optional
        Draw until the 95% credible half-width of every coefficient is at most this: estimate the number of
        perturbations needed, draw them (in batches of ``n_samples / 4``), and estimate again.
    max_samples : int, default 10_000
        Largest number of perturbations of a row, even if ``target_width`` is not reached.
    prior : float, default 1.0
        Prior precision of the coefficients, ``beta ~ N(0, sigma^2 / prior)``.
    temperature : float, default 5e-4
        In units of what is explained; for a regressor, of the spread of its values.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds; ``target_width`` has the same unit.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.explainers.lime import BayesLime
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = BayesLime().fit(lambda X: 1 / (1 + np.exp(-X[:, 0])), X)
    >>> answer = explainer(X[:3])
    >>> answer.values.shape, answer.variance.shape, explainer.half_width(X[:3], 0.95).shape
    ((3, 2), (3, 2), (3, 2))
    >>> bool((answer.values[:, 0] > answer.values[:, 1]).all())
    True
    """

    n_samples: int = 200
    _: KW_ONLY
    kernel_width: float | str = "auto"
    around: Literal["data", "row"] = "data"
    sampling: Literal["plain", "focused"] = "plain"
    target_width: float | None = None
    max_samples: int = 10_000
    prior: float = 1.0
    temperature: float = 5e-4
    link: Link = "identity"


@dataclass(eq=False, repr=False)
class BayesShap(BayesRegression):
    """BayesSHAP (Slack et al., NeurIPS 2021): SHAP values by a Bayesian regression, with credible intervals.

    Features in a coalition have the row's values; the others come from background rows. Coalitions are drawn with a
    probability proportional to the SHAP kernel ``(d - 1) / (C(d, k) k (d - k))``, and have equal weights. The full
    coalition (the row) and the empty one (the mean over all background rows) are always included. Their fraction of the
    weight is the same as that of their kernel weight 1 among all coalitions. The posterior of the coefficients has a
    closed form: a Student t distribution whose degrees of freedom are the number of coalitions
    (see ``_bayes_regression.LinearPosterior``).

    Values ``(n, d)`` or ``(n, d, c)`` estimate Shapley values of the answer. Together with the intercept
    (``base_values``) they add up to the model's answer approximately, not exactly. The variance is their posterior
    variance.

    The authors' own code draws coalitions uniformly and multiplies by the kernel. The weights are then small compared
    with a prior precision of 1: values shrink to 0, and the intervals depend more on the level of the probability than
    on the spread of the model's answers. Drawing coalitions by the kernel avoids this.

    Parameters
    ----------
    n_samples : int, default 200
        Coalitions of a row; with a ``target_width``, the number in the first batch.
    n_background : int, default 4
        Background rows drawn for each coalition, over which the model's answers are averaged. A row costs
        ``n_samples * n_background`` model rows.
    sampling, target_width, max_samples, prior
        As for :class:`BayesLime`.
    temperature : float, default 0.01
        In units of what is explained; for a regressor, of the spread of its values.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds, which are then averaged over background rows.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.explainers.lime import BayesShap
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = BayesShap().fit(lambda X: 1 / (1 + np.exp(-X[:, 0])), X)
    >>> answer = explainer(X[:3])
    >>> answer.values.shape, answer.base_values.shape, explainer.half_width(X[:3], 0.95).shape
    ((3, 2), (3,), (3, 2))
    >>> bool((np.abs(answer.values[:, 1]) < 0.05).all())
    True
    """

    remedy = "a smaller n_samples or n_background costs less"

    n_samples: int = 200
    _: KW_ONLY
    n_background: int = 4
    sampling: Literal["plain", "focused"] = "plain"
    target_width: float | None = None
    max_samples: int = 10_000
    prior: float = 1.0
    temperature: float = 1e-2
    link: Link = "identity"

    def check(self) -> None:
        super().check()
        check_count("n_background", self.n_background)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._empty = self.outputs_of(background).mean(axis=0)

    def _sampler(self) -> PerturbationSampler:
        return CoalitionSampler(self.background_, self.n_background)

    def _outputs(self, perturbed: Perturbed) -> FloatArray:
        outputs = super()._outputs(perturbed)
        # the exact value, as its weight is large
        outputs[~perturbed.features.any(axis=2)] = self._empty
        return outputs

    def _base_values(self, posterior: LinearPosterior) -> FloatArray:
        return posterior.intercept


@dataclass(eq=False, repr=False)
class Lime(LimeRegression):
    """LIME (Ribeiro et al., KDD 2016) for tables, without discretisation: weighted ridge regression on perturbations.

    Like the ``lime`` package with ``discretize_continuous=False`` and without feature selection: perturbations and
    weights as in :class:`BayesLime`, then ``argmin sum w (y - b - z beta)^2 + alpha |beta|^2`` with a free intercept b.
    Values ``(n, d)`` or ``(n, d, c)`` are the coefficients, in the order of the columns and the units of
    :class:`BayesLime`.

    The variance of the coefficients over random perturbations is the sandwich formula
    ``V (sum w^2 r^2 / (1 - h) z z') V`` with ``V = (Z'WZ + alpha I)^-1``, residuals r and leverages h. It does not
    assume that the model is linear or that its residuals have equal variance. It needs many perturbations with a
    substantial weight: for rows far from the training rows it is too small.

    Parameters
    ----------
    n_samples : int, default 5000
        Perturbations of a row, including the row itself, as in ``lime``.
    kernel_width : float or "auto"
        "auto" is ``0.75 sqrt(d)``.
    around : {"data", "row"}
        Draw numbers around the mean of the training rows, or around the explained row (lime's
        ``sample_around_instance``).
    alpha : float, default 1.0
        Ridge penalty.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.explainers.lime import Lime
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> answer = Lime(n_samples=500).fit(lambda X: 1 / (1 + np.exp(-X[:, 0])), X)(X[:3])
    >>> bool((answer.values[:, 0] > 0.1).all()), bool((np.abs(answer.values[:, 1]) < 0.02).all())
    (True, True)
    """

    n_samples: int = 5_000
    _: KW_ONLY
    kernel_width: float | str = "auto"
    around: Literal["data", "row"] = "data"
    alpha: float = 1.0
    link: Link = "identity"

    def check(self) -> None:
        super().check()
        check_count("n_samples", self.n_samples, least=3)
        check_positive("alpha", self.alpha)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        drawn = batch(self._sampler(), Z, [stream(seed, "perturbations") for seed in seeds], self.n_samples, first=True)
        y = self._outputs(drawn)
        fit = Moments.of(drawn.features, y, drawn.weights).solve(self.alpha, intercept_prior=0.0)
        random = slice(1, None)  # the first is always the row itself
        variance = sandwich_variance(fit, drawn.features[:, random], y[:, random], drawn.weights[:, random])
        explained = slice(Z.shape[1])
        return Attribution(fit.coefficients[:, explained], variance[:, explained])
