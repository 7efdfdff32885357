"""The stages of ``refine``: rows are chosen and explained, and the posterior is conditioned on them, too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.data._equality import unique_rows
from gpec.explainers import Attribution
from gpec.gp import Posterior
from gpec.gp.tasks import TaskPosterior
from gpec.intervals.rules import Value
from gpec.pipeline.calibration import loo_calibrate
from gpec.pipeline.context import ExplainedSample
from gpec.pipeline.effort import MOST_TARGETS, candidate_rows, most_rows
from gpec.pipeline.explain import bound_explainer, explain_rows, value_intervals, with_samples
from gpec.pipeline.fitted import Fitted, OutputModel
from gpec.pipeline.gaussian_process import fit_posterior
from gpec.pipeline.groups import in_their_groups
from gpec.pipeline.sampling import PAIRS
from gpec.runtime.blocks import Execution, one_blas_thread
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

_LEVEL = 0.95
_BATCHES = 4  # in which rows are chosen in fit
_NUMBERS = 3e7  # in the covariances of targets and candidates


def mean_width(fitted: Fitted, rows: Rows, execution: Execution) -> float:
    """Mean width of the value's 95% intervals of some rows."""
    fitted = in_their_groups(fitted, rows, {})
    found = value_intervals(fitted, rows, execution)
    std = np.sqrt(found.model_variance + found.noise_variance)
    return float(2.0 * (Value(fitted.calibration.value).multiple(_LEVEL) * std).mean())


def refine_once(fitted: Fitted, Z: FloatArray, n: int, execution: Execution) -> tuple[Fitted, FloatArray]:
    """The fit with ``n`` more explained rows, chosen for the sake of the rows ``Z``, and these rows (encoded)."""
    d, c = fitted.observations.U.shape[1:]
    n_targets = min(len(Z), MOST_TARGETS)
    most = max(int(np.sqrt(_NUMBERS / (d * c))) - 2 * n_targets, 2 * n)
    chosen = _Candidates(fitted, Z, n_targets, most, execution).choose(fitted, n)
    return add_rows(fitted, chosen, execution) if len(chosen) else fitted, chosen


def explain_for_targets(fitted: Fitted, Z: FloatArray, n: int, allowed: float, execution: Execution) -> Fitted:
    """The fit with up to ``n`` more explained rows, chosen batch after batch for the sake of the rows ``Z``.

    They take up to ``allowed`` model rows.
    """
    most, budget = candidate_rows(fitted.context), fitted.context.settings.budget
    candidates, size = _Candidates(fitted, Z, most, most, execution), -(-n // _BATCHES)
    explainer = bound_explainer(with_samples(fitted, fitted.observations.n_samples))
    while n > 0:
        chosen = candidates.choose(fitted, min(n, size))
        price = np.cumsum(most_rows(explainer, chosen, budget) + fitted.context.rows_for_kernel)
        chosen = chosen[price <= allowed]
        if not len(chosen):
            break
        n, allowed = n - len(chosen), allowed - price[len(chosen) - 1]
        fitted = _condition(fitted, chosen, execution)
    return fitted


class _Candidates:
    """Rows to choose from, for the sake of some of the rows ``Z``, which are among them."""

    def __init__(self, fitted: Fitted, Z: FloatArray, n_targets: int, n_others: int, execution: Execution) -> None:
        rng = stream(fitted.context.seed, "refined rows", len(fitted.observations.rows))
        targets = Z[np.sort(rng.permutation(len(Z))[:n_targets])]
        others = fitted.pool[rng.permutation(len(fitted.pool))[:n_others]]
        both = unique_rows(np.concatenate((targets, others)))[0]
        self._encoded = both[~fitted.was_explained(both)]
        with one_blas_thread():
            self._targets, self._rows = (
                fitted.with_effects(fitted.rows(part, n_jobs=execution.n_jobs), execution.n_jobs)
                for part in (targets, self._encoded)
            )

    def choose(self, fitted: Fitted, n: int) -> FloatArray:
        """Rows that are not explained yet (encoded), in order."""
        fresh = np.flatnonzero(~fitted.was_explained(self._encoded))
        if not len(fresh):
            return self._encoded[fresh]
        posteriors = [output_model.posterior for output_model in fitted.output_models]
        with one_blas_thread():
            chosen = choose_rows(posteriors, fitted.observations.U.mean(axis=0), self._targets, self._rows[fresh], n)
        return self._encoded[fresh[chosen]]


def add_rows(fitted: Fitted, Z: FloatArray, execution: Execution) -> Fitted:
    """The fit with further rows explained; scales and lengths stay, scores are computed anew."""
    seen = fitted.observations
    n_pairs = PAIRS if seen.similar_values is None else len(seen.similar_values)
    return loo_calibrate(_condition(fitted, Z, execution), execution, n_pairs)


def _condition(fitted: Fitted, Z: FloatArray, execution: Execution) -> Fitted:
    context, seen = fitted.context, fitted.observations
    answer = explain_rows(with_samples(fitted, seen.n_samples), Z, execution)
    U = np.concatenate((seen.U, fitted.noise_at(answer)))
    # chosen rows are not a random sample: their weight in calibration is 0
    sample = ExplainedSample(
        np.concatenate((seen.rows, Z)),
        np.concatenate((seen.sample.weights, np.zeros(len(Z)))),
        seen.sample.answers,
        (*seen.sample.refined, len(seen.rows)),
    )
    observations = replace(seen, sample=sample, attribution=Attribution.join([seen.attribution, answer]), U=U)
    before, n_jobs = fitted.output_models[0].posterior.rows, execution.n_jobs
    new = fitted.with_effects(fitted.rows(Z, n_jobs=n_jobs, outputs=before.outputs is not None), n_jobs)
    rows, output_models = Rows.join([before, new]), []
    for output, (graph, kernel, learned) in enumerate(
        (one.graph, one.kernel, one.posterior) for one in fitted.output_models
    ):
        tasks = learned.tasks if isinstance(learned, TaskPosterior) else None
        # anew, as when a file is loaded: so the bits agree
        posterior = fit_posterior(context, kernel, rows, observations, output, learned.parameters, tasks)
        output_models.append(OutputModel(graph, kernel, posterior))
    return replace(fitted, observations=observations, output_models=tuple(output_models))


@dataclass(frozen=True, eq=False)
class Refinement:
    """What :meth:`gpec.GPEC.refine` did.

    Attributes
    ----------
    X : rows
        The rows it explained, in the order in which they were chosen.
    width_before, width_after : float
        Mean width of the value's intervals of the rows given to it.
    """

    X: Any
    width_before: float
    width_after: float

    def __str__(self) -> str:
        change = 1.0 - self.width_after / self.width_before if self.width_before > 0 else 0.0
        return (
            f"{len(self.X)} more rows explained: intervals of the value are {change:.0%} narrower on average "
            f"({self.width_before:.3g} before, {self.width_after:.3g} after)."
        )


def choose_rows(posteriors: list[Posterior], noise: FloatArray, targets: Rows, candidates: Rows, n: int) -> IntArray:
    """The ``n`` candidates to explain, in order; ``noise (d, c)`` is the explainer's variance."""
    both, T = Rows.join([targets, candidates]), len(targets)
    parts, drops = [], []
    for c, posterior in enumerate(posteriors):
        covariance = np.moveaxis(posterior.covariance(both), 2, 0)
        own = posterior.scale * posterior.parameters.nugget
        usual = np.einsum("fii->fi", covariance)[:, :T].mean(axis=1) + own
        varies = usual > 0
        parts.append(covariance[varies] / usual[varies, None, None])
        drops.append((own + noise[:, c])[varies] / usual[varies])
    C, h = np.concatenate(parts), np.concatenate(drops)
    chosen: list[int] = []
    left = np.ones(len(candidates), dtype=bool)
    for _ in range(min(n, len(candidates))):
        size = np.maximum(np.einsum("fii->fi", C)[:, T:], 0.0) + h[:, None] + np.finfo(np.float64).tiny
        gain = (np.einsum("ftr,ftr->fr", C[:, :T, T:], C[:, :T, T:]) / size).sum(axis=0)
        best = int(np.where(left, gain, -np.inf).argmax())
        chosen.append(best)
        left[best] = False
        column = C[:, :, T + best] / np.sqrt(size[:, best])[:, None]
        C -= column[:, :, None] * column[:, None, :]
    return np.array(chosen, dtype=np.int64)
