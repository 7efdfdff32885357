"""The stages of ``refine``: rows are chosen and explained, and the posterior is conditioned on them, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpec._calibrating import check_itself
from gpec._execution import Execution, one_blas_thread
from gpec._explaining import answer_rows, likely_values
from gpec._fitted import Draw, Fitted, Layer
from gpec._randomness import stream
from gpec._stages import condition
from gpec.data import Rows
from gpec.data._same import unique_rows
from gpec.explainers import Attribution
from gpec.gp.tasks import TaskPosterior
from gpec.promises import Value
from gpec.refinement import choose_rows
from gpec.typing import FloatArray

__all__ = ["mean_width", "refined"]

_LEVEL = 0.95
_TARGETS = 300
_NUMBERS = 3e7  # in the covariances of targets and candidates


def mean_width(fitted: Fitted, rows: Rows, now: Execution) -> float:
    """Mean width of the value's 95% intervals of some rows."""
    found = likely_values(fitted, rows, now)
    std = np.sqrt(found.boundary_variance + found.noise_variance)
    return float(2.0 * Value(fitted.calibration.value).half_width(std, _LEVEL).mean())


def refined(fitted: Fitted, Z: FloatArray, n: int, now: Execution) -> tuple[Fitted, FloatArray]:
    """The fit with ``n`` more explained rows, chosen for the sake of the rows ``Z``, and these rows (encoded)."""
    ground, seen = fitted.ground, fitted.observation
    rng = stream(ground.seed, "refined rows", len(seen.rows))
    targets = Z[np.sort(rng.permutation(len(Z))[:_TARGETS])]
    d, c = seen.U.shape[1:]
    most = max(int(np.sqrt(_NUMBERS / (d * c))) - 2 * len(targets), 2 * n)
    others = fitted.pool[rng.permutation(len(fitted.pool))[:most]]
    fresh = unique_rows(np.concatenate((targets, others)))[0]
    candidates = fresh[~fitted.explained_before(fresh)]
    if not len(candidates):
        return fitted, candidates
    with one_blas_thread():
        posteriors = [layer.posterior for layer in fitted.layers]
        wanted, offered = (ground.rows(part, n_jobs=now.n_jobs) for part in (targets, candidates))
        chosen = choose_rows(posteriors, seen.U.mean(axis=0), wanted, offered, n)
    return extended(fitted, candidates[chosen], now), candidates[chosen]


def extended(fitted: Fitted, Z: FloatArray, now: Execution) -> Fitted:
    """The fit with further rows explained; scales and lengths stay, scores are computed anew."""
    ground, seen = fitted.ground, fitted.observation
    answer = answer_rows(fitted, Z, now)
    U = np.concatenate((seen.U, fitted.noise_at(answer)))
    # rows chosen by their place speak for none but themselves: they weigh nothing in scores
    draw = Draw(
        np.concatenate((seen.rows, Z)),
        np.concatenate((seen.draw.weights, np.zeros(len(Z)))),
        seen.draw.answers,
        (*seen.draw.refined, len(seen.rows)),
    )
    observation = replace(seen, draw=draw, attribution=Attribution.join([seen.attribution, answer]), U=U)
    rows, layers = Rows.join([fitted.layers[0].posterior.rows, ground.rows(Z, n_jobs=now.n_jobs)]), []
    for output, (graph, kernel, learned) in enumerate((one.graph, one.kernel, one.posterior) for one in fitted.layers):
        tasks = learned.tasks if isinstance(learned, TaskPosterior) else None
        # anew, as when a file is loaded: so the bits agree
        posterior = condition(ground, kernel, rows, observation, output, learned.parameters, tasks)
        layers.append(Layer(graph, kernel, posterior))
    return check_itself(replace(fitted, observation=observation, layers=tuple(layers)), now)
