"""LIME, BayesLIME and BayesSHAP: linear regressions on perturbations of a row."""

from __future__ import annotations

from typing import Literal

from gpec._validation import check_count, check_positive
from gpec.explainers._bayes_regression import LinearPosterior, Moments, sandwich_variance
from gpec.explainers._linked import Link
from gpec.explainers._local_regression import BayesRegression, PerturbsNeighbors
from gpec.explainers._perturbation import Coalitions, Perturbed, Perturbs, batch
from gpec.explainers.attribution import Attribution
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray

__all__ = ["BayesLime", "BayesShap", "Lime"]


class BayesLime(PerturbsNeighbors, BayesRegression):
    """BayesLIME (Slack et al., NeurIPS 2021): LIME with a Bayesian regression, so with credible intervals.

    ``n_samples`` perturbations of a row are drawn as LIME does and weighted by ``exp(-D^2 / (2 width^2))``, where D is
    the distance to the row in standard deviations, a different category counting 1. The posterior of the coefficients
    is in closed form, a Student t with as many degrees of freedom as perturbations
    (see ``_bayes_regression.LinearPosterior``). Nothing is discretised and all features are explained.

    Values ``(n, d)`` or ``(n, d, c)`` are coefficients: for a number, the change of the answer for one standard
    deviation of the training rows; for a category, for having the row's own rather than another. The variance is their
    posterior variance. The authors' own code regresses on unscaled numbers, whose coefficients cannot be compared.

    Values are drawn missing as often as they are in the training rows. Where the row's own number is missing, its value
    is for that rather than for having one; where it is not, missing ones do not sway the slope.

    Where all weights are small, as for rows far from the training rows, the prior wins: values and variance shrink to 0
    together. ``around="row"`` is the remedy.

    Parameters
    ----------
    n_samples : int, default 200
        Perturbations of a row; with a ``target_width``, those drawn at first.
    kernel_width : float or "auto"
        "auto" is LIME's ``0.75 sqrt(d)``.
    around : {"data", "row"}
        Draw numbers around the mean of the training rows, as LIME does by default, or around the explained row.
    sampling : {"plain", "focused"}
        "focused" picks half of the perturbations, in four batches, from ten times as many candidates with chances
        proportional to ``exp(s / temperature)``, s being the predictive scale of the weighted answer. The coefficients
        are then those of the picked ones.
    target_width : float, optional
        Draw until the 95% credible half-width of every coefficient is at most this, by estimating how many
        perturbations that takes, drawing them (in batches of ``n_samples / 4``), and estimating anew.
    max_samples : int, default 10_000
        Not more perturbations of a row than this, reached or not.
    prior : float, default 1.0
        Prior precision of the coefficients, ``beta ~ N(0, sigma^2 / prior)``.
    temperature : float, default 5e-4
        In units of what is explained; for a regressor, of the spread of its values.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds; ``target_width`` is then in log-odds, too.

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

    def __init__(
        self,
        n_samples: int = 200,
        *,
        kernel_width: float | str = "auto",
        around: Literal["data", "row"] = "data",
        sampling: Literal["plain", "focused"] = "plain",
        target_width: float | None = None,
        max_samples: int = 10_000,
        prior: float = 1.0,
        temperature: float = 5e-4,
        link: Link = "identity",
    ) -> None:
        self.n_samples = n_samples
        self.kernel_width = kernel_width
        self.around = around
        self.sampling = sampling
        self.target_width = target_width
        self.max_samples = max_samples
        self.prior = prior
        self.temperature = temperature
        self.link = link


class BayesShap(BayesRegression):
    """BayesSHAP (Slack et al., NeurIPS 2021): SHAP values by a Bayesian regression, with credible intervals.

    Coalitions of features keep the row's values, the other features are taken together from background rows. Coalitions
    are drawn with the probability that the SHAP kernel ``(d - 1) / (C(d, k) k (d - k))`` gives them and then weigh the
    same; the full coalition (the row) and the empty one (the mean over all background rows) are always there, with
    the share of the weight that their kernel weight 1 is of all coalitions'. The posterior of the coefficients is in
    closed form, a Student t with as many degrees of freedom as coalitions
    (see ``_bayes_regression.LinearPosterior``).

    Values ``(n, d)`` or ``(n, d, c)`` estimate Shapley values of the answer; with the intercept (``base_values``)
    they add to the model's answer nearly, not exactly. The variance is their posterior variance.

    The authors' own code draws coalitions evenly and multiplies by the kernel. With a prior precision of 1 the few tiny
    weights then hardly count: values are drawn towards 0, and the intervals depend more on the level of the probability
    than on the spread of the model's answers. That is why coalitions are drawn by the kernel here.

    Parameters
    ----------
    n_samples : int, default 200
        Coalitions of a row; with a ``target_width``, those drawn at first.
    n_background : int, default 4
        Background rows drawn for each coalition, over which the model's answers are averaged: a row costs
        ``n_samples * n_background`` predictions.
    sampling, target_width, max_samples, prior
        As for :class:`BayesLime`.
    temperature : float, default 0.01
        In units of what is explained; for a regressor, of the spread of its values.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds: the mean over background rows is then that of log-odds.

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

    def __init__(
        self,
        n_samples: int = 200,
        *,
        n_background: int = 4,
        sampling: Literal["plain", "focused"] = "plain",
        target_width: float | None = None,
        max_samples: int = 10_000,
        prior: float = 1.0,
        temperature: float = 1e-2,
        link: Link = "identity",
    ) -> None:
        self.n_samples = n_samples
        self.n_background = n_background
        self.sampling = sampling
        self.target_width = target_width
        self.max_samples = max_samples
        self.prior = prior
        self.temperature = temperature
        self.link = link

    def check(self) -> None:
        super().check()
        check_count("n_background", self.n_background)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._empty = self.outputs_of(background).mean(axis=0)

    def _perturbed_rows(self) -> int:
        return super()._perturbed_rows() * self.n_background

    def model_rows(self, Z: FloatArray) -> int:
        return super().model_rows(Z) * self.n_background

    def _maker(self) -> Perturbs:
        return Coalitions(self.background_, self.n_background)

    def _outputs(self, perturbed: Perturbed) -> FloatArray:
        outputs = super()._outputs(perturbed)
        # known without drawing background rows, and of great weight
        outputs[~perturbed.features.any(axis=2)] = self._empty
        return outputs

    def _base_values(self, posterior: LinearPosterior) -> FloatArray:
        return posterior.intercept


class Lime(PerturbsNeighbors):
    """LIME (Ribeiro et al., KDD 2016) for tables, without discretising: a weighted ridge regression on perturbations.

    As the ``lime`` package with ``discretize_continuous=False`` and all features kept: perturbations and weights as in
    :class:`BayesLime`, then ``argmin sum w (y - b - z beta)^2 + alpha |beta|^2`` with a free intercept b. Values
    ``(n, d)`` or ``(n, d, c)`` are the coefficients, in the order of the columns and the units of :class:`BayesLime`.

    The variance is that of the coefficients over draws of the perturbations, the sandwich formula
    ``V (sum w^2 r^2 / (1 - h) z z') V`` with ``V = (Z'WZ + alpha I)^-1``, residuals r and leverages h. It does not
    assume that the model is linear or its residuals alike, but needs many perturbations of some weight: for rows far
    from the others, which all perturbations are far from, it is too small.

    Parameters
    ----------
    n_samples : int, default 5000
        Perturbations of a row, the row itself included, as in ``lime``.
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

    def __init__(
        self,
        n_samples: int = 5_000,
        *,
        kernel_width: float | str = "auto",
        around: Literal["data", "row"] = "data",
        alpha: float = 1.0,
        link: Link = "identity",
    ) -> None:
        self.n_samples = n_samples
        self.kernel_width = kernel_width
        self.around = around
        self.alpha = alpha
        self.link = link

    def check(self) -> None:
        super().check()
        check_count("n_samples", self.n_samples, least=3)
        check_positive("alpha", self.alpha)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        drawn = batch(self._maker(), Z, [stream(seed, "perturbations") for seed in seeds], self.n_samples, first=True)
        y = self._outputs(drawn)
        fit = Moments.of(drawn.features, y, drawn.weights).solve(self.alpha, intercept_prior=0.0)
        random = slice(1, None)  # the first is the row itself in every draw
        variance = sandwich_variance(fit, drawn.features[:, random], y[:, random], drawn.weights[:, random])
        explained = slice(Z.shape[1])
        return Attribution(fit.coefficients[:, explained], variance[:, explained])
