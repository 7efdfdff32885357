"""The stages of ``fit`` and ``explain``: plain functions from one frozen object to the next.

    problem ──> boundary ──> graph ──> kernel ──┐
       └──────> observation ────────────────────┴──> layer ──> prediction

Each stage is determined by its inputs and the seed. A stage whose inputs have the fingerprint that they had in the
earlier fit is not run again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from gpec._checkpoint import Checkpoint, other_work
from gpec._execution import Execution, one_blas_thread
from gpec._fingerprint import fingerprint
from gpec._fitted import Draw, Fitted, Memory, Observation, Probe
from gpec._problem import Ground, Problem
from gpec._randomness import stream
from gpec._settings import Settings
from gpec.boundary import BoundarySample
from gpec.data import Rows
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError, NoiseFloorWarning
from gpec.explainers import Attribution, Explainer
from gpec.explainers._grouped import grouped
from gpec.explainers.base import check_attribution
from gpec.explainers.noise import noise_variance, observe
from gpec.geometry import GeodesicGraph
from gpec.gp import NOISE_FLOOR, Parameters, Posterior, learn_kernel, make_posterior
from gpec.gp.tasks import TaskPosterior, Tasks, make_task_posterior
from gpec.kernels import Kernel, make_kernel
from gpec.models import Model
from gpec.models._remembered import remembered
from gpec.similar import Neighbourhood
from gpec.typing import FloatArray

__all__ = [
    "Clock",
    "ask_explainer",
    "ask_model",
    "condition",
    "draw_rows",
    "fit_kernel",
    "keep_rows",
    "measure",
    "meet_neighbours",
    "observe_rows",
    "recall",
    "sample_boundary",
]

_PROBE_ROWS = 20
_LANDMARKS_OF_SEVERAL = 800  # for each of several outputs, where time and files are multiplied by their number
_POOL = 10_000  # rows from which fewer than as many are drawn; ten times as many as more rows
_OUTPUT_BINS = 10
_KEPT_ROWS = 2_000  # of ``fit``, in memory and in files, where no neighbours are sought among them
_LARGEST_NOISE = 1e30  # in squared attributions
_SUM_TOLERANCE = 1e-6
_SUM_OF_SPREAD = 1e-2  # what a sum may be off at most, where rounding is coarse beside the spread of the answers


def ask_model(problem: Problem, kept: Checkpoint | None) -> Probe:
    """The first call of the model; it tells the number of classes, too. Answers that are kept must be the same."""
    rows, model = problem.rows[:_PROBE_ROWS], problem.ground.model
    answer = model.answers(rows)
    if kept is None:
        return Probe(rows, answer)
    answered = kept.remember("model", lambda _: {"answer": answer}, rows)
    first = Probe(rows, answered(slice(0, len(rows)))["answer"])
    if first.difference(answer, model) is not None:
        raise other_work(kept.folder, "the model")
    return first


def recall(problem: Problem, probe: Probe, earlier: Fitted | None, now: Execution) -> tuple[Problem, Memory]:
    """What the earlier fit can spare this one, and how this one runs.

    A problem on the same ground takes over the model and, if it is the same, the explainer as they are now.
    """
    g, s = problem.ground, problem.ground.settings
    of_model = (id(g.model.user_model), g.model.output, g.model.threshold, probe.answer)
    prints = {"ground": fingerprint(g.schema.state(), problem.rows, g.seed, *of_model)}
    prints["boundary"] = fingerprint(prints["ground"], problem.sampler, s.n_boundary)
    prints["graph"] = fingerprint(prints["boundary"], s.n_neighbors, s.n_landmarks, s.components)
    prints["explainer"] = fingerprint(prints["ground"], g.explainer, g.groups, g.background, s.noise, s.n_resamples)
    prints["similar"] = fingerprint(prints["explainer"], problem.similar)
    memory = Memory(prints, earlier, now)
    if earlier is None or memory.of("ground") is None:
        return problem, memory
    try:
        earlier.boundary.require_belongs(g.model, g.seed)  # the model may have been changed where it stood
    except (InputError, ModelMismatchError):
        return problem, Memory(prints, None, now)
    model, explainer = earlier.ground.model, earlier.ground.explainer if memory.of("explainer") else g.explainer
    model.goes_on_from(g.model)
    return replace(problem, ground=replace(g, model=model, explainer=explainer)), memory


def draw_rows(problem: Problem, memory: Memory) -> Draw:
    """The rows to explain: those given, or some of ``X``.

    ``draw="output"`` takes half of them evenly and half evenly over the range of the model's answers, so that a rare
    class is not left out; each row's weight undoes this. More rows contain fewer ones of the same seed.
    """
    ground, Z, n = problem.ground, problem.rows, problem.ground.settings.n_explained
    if problem.explained is not None:
        return Draw(problem.explained, np.ones(len(problem.explained)))
    rng = stream(ground.seed, "explained rows")
    order = rng.permutation(len(Z))
    if ground.settings.draw == "uniform":
        return Draw(Z[order[:n]], np.ones(n))
    pool = order[: _POOL if n < _POOL else 10 * n]
    earlier = memory.of("ground")
    known = None if earlier is None else earlier.observation.draw.answers
    model = remembered(ground.model, memory.now.kept, "drawn rows")
    parts = [] if known is None else [known[: len(pool)]]  # the pool of an earlier draw starts with the same rows
    if known is None or len(known) < len(pool):
        parts.append(model.answers(Z[pool if known is None else pool[len(known) :]]))
    answers = np.concatenate(parts)
    chance = np.full(len(pool), 0.5 / len(pool))
    for p in answers.T:
        place = np.digitize(p, np.linspace(p.min(), p.max(), _OUTPUT_BINS + 1)[1:-1])
        counts = np.bincount(place, minlength=_OUTPUT_BINS)
        chance += 0.5 / (answers.shape[1] * (counts > 0).sum() * counts[place])
    # The n least of exponential times over chances are a draw without replacement; then 1 - exp(-chance t) is drawn.
    first = np.argsort(rng.exponential(size=len(pool)) / chance, kind="stable")[:n]
    t = brentq(lambda t: -np.expm1(-chance * t).sum() - n, 0.0, 1e3 * n / chance.min())
    weights = 1.0 / -np.expm1(-chance[first] * t)
    return Draw(Z[pool[first]], weights / weights.mean(), answers)


def meet_neighbours(problem: Problem) -> Neighbourhood | None:
    """What similar rows are, learned from the rows of ``fit``."""
    ground = problem.ground
    return None if problem.similar is None else problem.similar.learn(ground.schema, problem.rows, ground.seed)


def keep_rows(problem: Problem, neighbourhood: Neighbourhood | None) -> FloatArray:
    """Rows of ``fit`` for later: those among which neighbours are sought, else at most 2,000 at random."""
    pool: FloatArray | None = getattr(neighbourhood, "pool", None)
    if pool is not None:
        return pool
    order = stream(problem.ground.seed, "kept rows").permutation(len(problem.rows))
    return problem.rows[order[:_KEPT_ROWS]]


def sample_boundary(problem: Problem, probe: Probe, memory: Memory) -> BoundarySample:
    """Points on the decision boundary, sampled or as given."""
    earlier = memory.of("boundary")
    if earlier is not None:
        return earlier.boundary
    ground, sampler, kept = problem.ground, problem.sampler, memory.now.kept
    settings, seed = ground.settings, ground.seed
    try:
        if isinstance(sampler, BoundarySample):
            sampler.require_belongs(ground.model, seed)
            return sampler
        model = remembered(ground.model, kept, "boundary")
        sample = sampler.draw(model, problem.rows, settings.n_boundary, seed=seed, progress=settings.progress)
    except (BoundaryNotFoundError, ModelMismatchError):
        ground.model.require_repeatable(probe.rows, probe.answer)  # if this is why, say so
        raise
    if kept is not None and kept.resumed:  # what was kept are answers of the model as it was
        try:
            sample.require_belongs(ground.model, seed)
        except (InputError, ModelMismatchError) as error:
            raise other_work(kept.folder, "the model") from error
    return sample


def observe_rows(problem: Problem, draw: Draw, explained: Rows, memory: Memory) -> Observation:
    """The attributions of the rows to explain, and their noise; rows explained before are not explained again."""
    ground, rows = problem.ground, draw.rows
    model, explainer = ground.model, ground.explainer
    earlier = memory.of("explainer")
    if explainer is not None and not hasattr(explainer, "model_") and (problem.given is None or explainer.learns):
        _prepare(explainer, problem, memory)
    learned = {} if explainer is None else explainer.fitted_state()
    if problem.given is not None:
        answer = check_attribution(problem.given, len(rows), ground.schema.n_features, model, given=True)
        answer = grouped(answer, ground.groups)
        U, source = noise_variance(ground.settings.noise, answer, None, rows, ground.seed)
        _check_noise_size(answer, U, ground.settings)
        adds_up_to = _sum_of(answer, explained, model)
        return Observation(draw, answer, U, source, "as given", learned, given=True, adds_up_to=adds_up_to)
    if explainer is None:
        raise InputError("explainer=None needs attributions: pass fit(X, attributions=...).")
    known = earlier.observation if earlier is not None and not earlier.observation.given else None
    answer = _answer_unknown(ground, explainer, rows, known, memory.now)
    U, source = noise_variance(ground.settings.noise, answer, explainer, rows, ground.seed)
    _check_noise_size(answer, U, ground.settings)
    same = (
        known is not None and memory.of("similar") is not None and np.array_equal(known.rows, rows[: len(known.rows)])
    )
    similar = known.similar_values if same and known is not None else None  # of the first rows, which are the same
    adds_up_to = _sum_of(answer, explained, model)
    return Observation(draw, answer, U, source, explainer.unit, learned, similar_values=similar, adds_up_to=adds_up_to)


def _prepare(explainer: Explainer, problem: Problem, memory: Memory) -> None:
    """The explainer gets to know the model, and learns from all rows if it learns at all."""
    ground = problem.ground
    explainer.bind(ground.model, ground.background)
    if not explainer.learns:
        return

    def learn(_: slice) -> dict[str, Any]:
        explainer.learn(problem.rows, ground.seed)
        return explainer.fitted_state()

    if memory.now.kept is None:
        learn(slice(0))
    else:
        learned = memory.now.kept.remember("learning", learn, problem.rows)
        explainer.restore(learned(slice(0, len(problem.rows))))


def _sum_of(answer: Attribution, explained: Rows, model: Model) -> str | None:
    """What base value and attributions of every row add up to, found by trying."""
    if answer.base_values is None:
        return None
    totals = answer.values.sum(axis=1) + answer.base_values
    with one_blas_thread():  # also when loading, so that the bits agree
        outputs = explained.outputs
    if model.is_regressor:
        tolerance = min(model.tolerance(outputs), _SUM_OF_SPREAD * model.unit(outputs))
        return "output" if np.abs(totals - outputs).max() <= tolerance else None
    for unit, answers in (("probability", model.answers_of(outputs)), ("log-odds", outputs)):
        if np.abs(totals - answers).max() <= _SUM_TOLERANCE * max(1.0, np.abs(answers).max()):
            return unit
    return None


def _check_noise_size(answer: Attribution, U: FloatArray, settings: Settings) -> None:
    """Refuse noise that drowns everything; warn of noise that is too small to be used as it is."""
    size = float(np.abs(answer.values).max())
    if U.max() > _LARGEST_NOISE * max(size, np.finfo(np.float64).tiny) ** 2 and size > 0:
        raise InputError(
            f"The noise variance reaches {U.max():.3g} where attributions reach {size:.3g}: nothing could be learned; "
            "give noise in squared units of the attributions."
        )
    if not settings.learns_scale and U.any() and (least := U[U > 0].min() / float(settings.output_scale)) < NOISE_FLOOR:
        warnings.warn(
            f"The noise variance is {least:.2g} of the output scale in places; with a fixed output_scale at least "
            f"{NOISE_FLOOR:g} of it is used.",
            NoiseFloorWarning,
            stacklevel=4,
        )


def _answer_unknown(
    ground: Ground, explainer: Explainer, rows: FloatArray, known: Observation | None, now: Execution
) -> Attribution:
    place = {} if known is None else {row.tobytes(): i for i, row in enumerate(known.rows)}
    found = np.array([place.get(row.tobytes(), -1) for row in rows])
    if known is None or (found < 0).all():
        return ask_explainer(ground, explainer, rows, now)
    old = known.attribution.map(lambda array: array[found[found >= 0]])
    if (found >= 0).all():
        return old
    new = ask_explainer(ground, explainer, rows[found < 0], now)
    joined = Attribution.join([old, new])
    order = np.argsort(np.argsort(found < 0, kind="stable"), kind="stable")  # as the rows came
    return joined.map(lambda array: array[order])


def ask_explainer(ground: Ground, explainer: Explainer, Z: FloatArray, now: Execution) -> Attribution:
    """The explainer's answers with the settings of the fit; threads and bars are those of ``now``."""
    s = ground.settings
    return observe(
        explainer,
        Z,
        noise=s.noise,
        n_resamples=s.n_resamples,
        seed=ground.seed,
        n_jobs=now.n_jobs,
        progress=now.progress,
        kept=now.kept,
    )


def measure(problem: Problem, boundary: BoundarySample, output: int, memory: Memory) -> GeodesicGraph:
    """Distances along the boundary of one output."""
    earlier = memory.of("graph")
    if earlier is not None:
        return earlier.layers[output].graph
    ground, s = problem.ground, problem.ground.settings
    several = ground.model.n_outputs > 1 and s.n_landmarks == "auto"
    graph = GeodesicGraph.build(
        ground.schema.embed(boundary.of(output).points, "boundary"),
        n_neighbors=s.n_neighbors,
        n_landmarks=_LANDMARKS_OF_SEVERAL if several else s.n_landmarks,
        components=s.components,
        random_state=ground.seed,
        progress=s.progress,
    )
    graph.distances  # noqa: B018  computed on demand; asked for here so that their time is counted here
    return graph


def fit_kernel(
    problem: Problem, graph: GeodesicGraph, rows: Rows, observation: Observation, output: int, start: Kernel | None
) -> Kernel:
    """The kernel, fitted to one output's boundary; its free parameters learned from the attributions."""
    s, values = problem.ground.settings, observation.attribution.values
    kernel = make_kernel(
        s.kernel,
        s.lam,
        s.rho,
        values.shape[1] * values.shape[2],
        shared=s.task_kernel is not None,
        regression=problem.ground.model.is_regressor,
    )
    with one_blas_thread():
        kernel = kernel.__sklearn_clone__().fit(graph, rows)
        Y, U = values[:, :, output], observation.U[:, :, output]
        return learn_kernel(kernel, rows, Y, U, s.output_scale, start)


def condition(
    ground: Ground,
    kernel: Kernel,
    rows: Rows,
    observation: Observation,
    output: int,
    parameters: Parameters | None = None,
    tasks: Tasks | None = None,
) -> Posterior:
    """The posterior of one output given its attributions; parameters and tasks are learned unless they are known."""
    Y, U = observation.attribution.values[:, :, output], observation.U[:, :, output]
    s = ground.settings
    with one_blas_thread():  # also when loading, so that the bits agree
        if parameters is not None and tasks is not None:
            return TaskPosterior(kernel, rows, Y, U, parameters, tasks=tasks)
        if s.task_kernel is not None:
            return make_task_posterior(kernel, rows, Y, U, s.task_kernel, s.output_scale, ground.seed)
        return make_posterior(kernel, rows, Y, U, s.output_scale, ground.seed, parameters)


class Clock:
    """Seconds spent, by stage."""

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = dict(seconds or {})

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
