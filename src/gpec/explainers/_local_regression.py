"""Base classes of explainers that perturb a row, predict, and solve a local regression; for many rows together."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gpec._validation import check_auto, check_choice, check_count, check_positive
from gpec.errors import InputError, NotFittedError
from gpec.explainers._bayes_regression import LinearPosterior, Moments
from gpec.explainers._linked import LinkedExplainer
from gpec.explainers._perturbation import LimeSampler, PerturbationSampler, Perturbed, batch
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import row_seed, sizes_between
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.runtime.state import from_state, to_state
from gpec.typing import FloatArray, IntArray

_FLOATS_AT_ONCE = 2_000_000  # of an array of perturbations
_LEAST_SAMPLES = 100  # with fewer, what shrinks the coefficients shows
_CANDIDATES = 10  # for each perturbation that focused sampling selects
_FOCUSED_BATCHES = 4  # together half of the perturbations


class LocalRegression(LinkedExplainer):
    """Base of explainers that regress the model's answers to perturbations of a row.

    A subclass defines how perturbations are drawn (:meth:`_sampler`) and how the regression is solved (``_explain``).
    """

    stochastic = True
    threads = True
    samples = "n_samples"
    remedy = "a smaller n_samples costs less"
    n_samples: int
    n_background = 1  # model rows for each perturbation

    @abstractmethod
    def _sampler(self) -> PerturbationSampler: ...

    def _perturbed_rows(self) -> int:
        """Number of perturbed rows held in memory for one explained row."""
        return self.n_samples * self.n_background

    def sample_sizes(self, Z: FloatArray) -> tuple[int, ...]:
        return sizes_between(max(_LEAST_SAMPLES, 4 * Z.shape[1]), self.n_samples)

    def model_rows(self, Z: FloatArray) -> int:
        return len(Z) * self.n_samples * self.n_background

    def most_model_rows(self, Z: FloatArray) -> FloatArray:
        return np.full(len(Z), float(self.n_samples * self.n_background))

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self.rows_at_once = max(1, min(1_024, _FLOATS_AT_ONCE // (self._perturbed_rows() * background.shape[1])))

    def _outputs(self, perturbed: Perturbed) -> FloatArray:
        """The model's answers ``(n, s, c)`` to perturbations, averaged over the rows of each perturbation."""
        n, s, b, d = perturbed.rows.shape
        answers = self.predict(perturbed.rows.reshape(n, s * b, d))
        return np.asarray(answers.reshape(n, s, b, -1).mean(axis=2))


class LimeRegression(LocalRegression):
    """Local regression with LIME's perturbations, which use statistics of the training rows."""

    measures = "{} per standard deviation, or for the row's own category"
    learns = True
    kernel_width: float | str
    around: Literal["data", "row"]

    def check(self) -> None:
        super().check()
        check_auto("kernel_width", self.kernel_width)
        check_choice("around", self.around, ("data", "row"))

    def learn(self, rows: FloatArray, seed: int) -> None:
        self.sampler_ = LimeSampler.learn(rows, self.model_.schema)

    def learning_rows(self, rows: FloatArray) -> int:
        return 0

    def fitted_state(self) -> dict[str, Any]:
        found: dict[str, Any] = to_state(self.sampler_)
        return found

    def restore(self, state: dict[str, Any]) -> None:
        self.sampler_ = from_state(LimeSampler, state)

    def _sampler(self) -> PerturbationSampler:
        auto = 0.75 * np.sqrt(len(self.sampler_.mean))
        width = float(auto if isinstance(self.kernel_width, str) else self.kernel_width)
        return replace(self.sampler_, width=width, around=self.around)


class BayesRegression(LocalRegression):
    """A Bayesian regression, whose perturbations can be drawn in several batches."""

    sampling: str
    target_width: float | None
    max_samples: int
    prior: float
    temperature: float

    def check(self) -> None:
        super().check()
        check_count("n_samples", self.n_samples, least=3)
        check_choice("sampling", self.sampling, ("plain", "focused"))
        check_positive("prior", self.prior)
        check_positive("temperature", self.temperature)
        check_count("max_samples", self.max_samples)
        if self.target_width is not None:
            check_positive("target_width", self.target_width)
            if self.max_samples < self.n_samples:
                raise InputError(
                    f"max_samples={self.max_samples} is less than n_samples={self.n_samples}, which are drawn first; "
                    "increase it, or leave target_width at None."
                )

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._origin, self._unit = np.zeros(model.n_outputs), 1.0
        if model.is_regressor:  # the prior shrinks the intercept to 0, and the temperature is in units of answers
            answers = self.outputs_of(background)
            self._origin, self._unit = answers.mean(axis=0), model.kind.unit(answers)

    def sample_sizes(self, Z: FloatArray) -> tuple[int, ...]:
        fixed = self.target_width is not None or self.sampling == "focused"  # others would find other values
        return () if fixed else super().sample_sizes(Z)

    def most_model_rows(self, Z: FloatArray) -> FloatArray:
        most = self.n_samples if self.target_width is None else self.max_samples
        return np.full(len(Z), float(most * self.n_background))

    def _perturbed_rows(self) -> int:
        return super()._perturbed_rows() * (_CANDIDATES if self.sampling == "focused" else 1)

    def posterior(self, X: Any) -> LinearPosterior:
        """The posterior for the rows ``X``, from the same perturbations as ``explainer(X)``.

        Its ``half_width(level)`` gives the half-width of credible intervals, and ``samples_needed(width)`` the number
        of perturbations for a given half-width; see :class:`LinearPosterior`.
        """
        if not hasattr(self, "seed_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(model, X) first.")
        Z = self.model_.schema.encode(X)
        blocks = [Z[start : start + self.rows_at_once] for start in range(0, len(Z), self.rows_at_once)]
        parts = [self._posterior(block, [row_seed(self.seed_, 0, row) for row in block]) for block in blocks]
        return LinearPosterior.join(parts)

    def half_width(self, X: Any, level: float = 0.95) -> FloatArray:
        """Half-width of the credible intervals (Student t) of ``explainer(X).values``, in the same shape."""
        return Attribution(self.posterior(X).half_width(level)).squeeze_single_output().values

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        posterior = self._posterior(Z, seeds)
        return Attribution(posterior.coefficients, posterior.variance, self._base_values(posterior))

    def _base_values(self, posterior: LinearPosterior) -> FloatArray | None:
        return None

    def _posterior(self, Z: FloatArray, seeds: list[int]) -> LinearPosterior:
        sampler, generators = self._sampler(), [stream(seed, "perturbations") for seed in seeds]
        focused, d = self.sampling == "focused", Z.shape[1]
        later = self.n_samples // (2 * _FOCUSED_BATCHES) if focused else 0
        first = batch(sampler, Z, generators, self.n_samples - _FOCUSED_BATCHES * later, first=True)
        moments = Moments.of(first.features, self._outputs(first) - self._origin, first.weights)

        def further(posterior: LinearPosterior, rows: IntArray, size: int) -> LinearPosterior:
            """The posterior with ``size`` more perturbations of each of ``rows``."""
            own = [generators[i] for i in rows]
            if focused:
                drawn = self._pick(posterior[rows], size, Z[rows], own)
            else:
                drawn = batch(sampler, Z[rows], own, size, first=False)
            moments.add(Moments.of(drawn.features, self._outputs(drawn) - self._origin, drawn.weights), rows)
            return moments.solve(self.prior)

        posterior = moments.solve(self.prior)
        for _ in range(_FOCUSED_BATCHES if later else 0):
            posterior = further(posterior, np.arange(len(Z)), later)
        # Draw as many perturbations as estimated, in batches; then estimate again, until no more are needed.
        size, batches = max(8, self.n_samples // 4), np.zeros(len(Z), dtype=np.int64)
        while self.target_width is not None:
            idle = batches == 0
            needed = posterior.first(d).samples_needed(float(self.target_width))
            to_go = np.minimum(needed, self.max_samples) - posterior.count
            batches[idle] = -(-to_go[idle] // size)
            batches[posterior.count + size > self.max_samples] = 0
            batches = np.maximum(batches, 0)
            rows = np.flatnonzero(batches)
            if not len(rows):
                break
            posterior = further(posterior, rows, size)
            batches[rows] -= 1
        return posterior.first(d).shifted(self._origin)

    def _pick(
        self, posterior: LinearPosterior, size: int, Z: FloatArray, generators: list[np.random.Generator]
    ) -> Perturbed:
        """The anchors, and candidates with a probability that grows with the predictive scale; ``size`` in all."""
        anchors = self._sampler().anchors(Z, size, first=False)
        candidates = self._sampler().draw(Z, generators, _CANDIDATES * size)
        score = posterior.predictive_std(candidates.features, candidates.weights) / (self.temperature * self._unit)
        # Gumbel trick: the largest of score + noise are a sample without replacement, with probability ~ exp(score).
        score = score + np.stack([generator.gumbel(size=score.shape[1]) for generator in generators])
        best = np.argsort(-score, axis=1, kind="stable")[:, : size - anchors.weights.shape[1]]
        return anchors.join(candidates[np.arange(len(Z))[:, None], best])
