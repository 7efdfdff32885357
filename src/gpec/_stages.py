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
from weakref import WeakSet

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from gpec._execution import one_blas_thread, run_blocks
from gpec._fitted import Draw, Fitted, Layer, Memory, Observation, Probe
from gpec._problem import Ground, Problem, fingerprint
from gpec._randomness import derived_seed, stream
from gpec._settings import Settings
from gpec._shapes import at_the_door
from gpec.boundary import BoundarySample, Sampler
from gpec.data import Rows, Schema
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError, NoiseFloorWarning, NumericalError
from gpec.explainers import Attribution, Explainer, make_explainer
from gpec.explainers.base import check_attribution
from gpec.explainers.noise import noise_variance, observe
from gpec.explanation import Explanation
from gpec.geometry import GeodesicGraph
from gpec.gp import (
    ExactPosterior,
    LowRankPosterior,
    Parameters,
    Posterior,
    Prediction,
    fit_parameters,
    fixed_parameters,
    learn_kernel,
)
from gpec.gp._gram import feature_grams
from gpec.gp.evidence import LEAST_NUGGET as NOISE_FLOOR
from gpec.kernels import Kernel
from gpec.models import Model
from gpec.promises import IntervalRule
from gpec.typing import FloatArray

__all__ = [
    "Clock",
    "answer_rows",
    "ask_model",
    "condition",
    "draw_rows",
    "encode_rows",
    "fit_kernel",
    "make_explanation",
    "measure",
    "names_of_rows",
    "objects_of",
    "observe_rows",
    "predict",
    "recall",
    "restore",
    "sample_boundary",
]

_BLOCK = 1_024
_DENSE_ROWS = 3_000  # explained rows up to which the posterior is dense
_EVIDENCE_ROWS = 1_000  # explained rows from which scales and nuggets are learned
_PROBE_ROWS = 20
_LANDMARKS_OF_SEVERAL = 800  # for each of several outputs, where time and files are multiplied by their number
_POOL = 10_000  # rows from which those to explain are drawn
_OUTPUT_BINS = 10
_NOISE_WIDTHS = 4.0
_LARGEST_GAP = 0.25  # between given attributions and the explainer's, as a share of their size
_LARGEST_NOISE = 1e30  # in squared attributions
_GIVEN_ROWS = 5  # given attributions that are compared with the explainer's

_AGREED: WeakSet[Fitted] = WeakSet()  # fits whose given attributions were compared with the explainer's


def ask_model(problem: Problem) -> Probe:
    """The first call of the model; it tells the number of classes, too."""
    rows = problem.rows[:_PROBE_ROWS]
    return Probe(rows, problem.ground.model.probabilities(rows))


def recall(problem: Problem, probe: Probe, earlier: Fitted | None) -> tuple[Problem, Memory]:
    """What the earlier fit can spare this one.

    A problem on the same ground takes over the model and, if it is the same, the explainer as they are now.
    """
    g, s = problem.ground, problem.ground.settings
    of_model = (id(g.model.user_model), g.model.output, g.model.threshold, probe.answer)
    prints = {"ground": fingerprint(g.schema.state(), problem.rows, g.seed, *of_model)}
    prints["boundary"] = fingerprint(prints["ground"], problem.sampler, s.n_boundary)
    prints["graph"] = fingerprint(prints["boundary"], s.n_neighbors, s.n_landmarks, s.components)
    prints["explainer"] = fingerprint(prints["ground"], g.explainer, g.background, s.noise, s.n_resamples)
    memory = Memory(prints, earlier)
    if earlier is None or memory.of("ground") is None:
        return problem, memory
    try:
        earlier.boundary.require_belongs(g.model, g.seed)  # the model may have been changed where it stood
    except (InputError, ModelMismatchError):
        return problem, Memory(prints, None)
    model, explainer = earlier.ground.model, earlier.ground.explainer if memory.of("explainer") else g.explainer
    model.n_calls, model.n_rows = g.model.n_calls, g.model.n_rows
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
    if ground.settings.draw == "uniform" or n >= _POOL:
        return Draw(Z[order[:n]], np.ones(n))
    pool = order[:_POOL]
    earlier = memory.of("ground")
    known = None if earlier is None else earlier.observation.draw.answers
    answers = ground.model.probabilities(Z[pool]) if known is None else known
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


def sample_boundary(problem: Problem, probe: Probe, memory: Memory) -> BoundarySample:
    """Points on the decision boundary, sampled or as given."""
    earlier = memory.of("boundary")
    if earlier is not None:
        return earlier.boundary
    ground, sampler = problem.ground, problem.sampler
    try:
        if isinstance(sampler, Sampler):
            settings = ground.settings
            return sampler.draw(
                ground.model, problem.rows, settings.n_boundary, seed=ground.seed, progress=settings.progress
            )
        sampler.require_belongs(ground.model, ground.seed)
        return sampler
    except (BoundaryNotFoundError, ModelMismatchError):
        ground.model.require_repeatable(probe.rows, probe.answer)  # if this is why, say so
        raise


def observe_rows(problem: Problem, draw: Draw, memory: Memory) -> Observation:
    """The attributions of the rows to explain, and their noise; rows explained before are not explained again."""
    ground, rows = problem.ground, draw.rows
    model, explainer = ground.model, ground.explainer
    earlier = memory.of("explainer")
    if explainer is not None and not hasattr(explainer, "model_") and (problem.given is None or explainer.learns):
        explainer.prepare(model, ground.background, problem.rows, ground.seed)
    learned = {} if explainer is None else explainer.fitted_state()
    if problem.given is not None:
        answer = check_attribution(problem.given, len(rows), ground.schema.n_features, model, given=True)
        U, source = noise_variance(ground.settings.noise, answer, None, rows, ground.seed)
        _check_noise_size(answer, U, ground.settings)
        return Observation(draw, answer, U, source, "as given", learned, given=True)
    if explainer is None:
        raise InputError("explainer=None needs attributions: pass fit(X, attributions=...).")
    known = earlier.observation if earlier is not None and not earlier.observation.given else None
    answer = _answer_unknown(ground, explainer, rows, known)
    U, source = noise_variance(ground.settings.noise, answer, explainer, rows, ground.seed)
    _check_noise_size(answer, U, ground.settings)
    return Observation(draw, answer, U, source, explainer.unit, learned)


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


def _answer_unknown(ground: Ground, explainer: Explainer, rows: FloatArray, known: Observation | None) -> Attribution:
    place = {} if known is None else {row.tobytes(): i for i, row in enumerate(known.rows)}
    found = np.array([place.get(row.tobytes(), -1) for row in rows])
    if known is None or (found < 0).all():
        return _answer(ground, explainer, rows, ground.settings)
    old = known.attribution.map(lambda array: array[found[found >= 0]])
    if (found >= 0).all():
        return old
    new = _answer(ground, explainer, rows[found < 0], ground.settings)
    joined = Attribution.join([old, new])
    order = np.argsort(np.argsort(found < 0, kind="stable"), kind="stable")  # as the rows came
    return joined.map(lambda array: array[order])


def _answer(ground: Ground, explainer: Explainer, Z: FloatArray, now: Settings) -> Attribution:
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


def fit_kernel(problem: Problem, graph: GeodesicGraph, rows: Rows, observation: Observation, output: int) -> Kernel:
    """The kernel, fitted to one output's boundary; its free parameters learned from the attributions."""
    kernel = problem.kernel.__sklearn_clone__().fit(graph, rows)
    Y, U = observation.attribution.values[:, :, output], observation.U[:, :, output]
    with one_blas_thread():
        return learn_kernel(kernel, rows, Y, U, problem.ground.settings.output_scale)


def condition(
    ground: Ground,
    kernel: Kernel,
    rows: Rows,
    observation: Observation,
    output: int,
    parameters: Parameters | None = None,
) -> Posterior:
    """The posterior of one output given its attributions; parameters are learned unless they are known."""
    Y, U = observation.attribution.values[:, :, output], observation.U[:, :, output]
    N, d = Y.shape
    with one_blas_thread():  # also when loading, so that the bits agree
        grams = feature_grams(kernel, rows, d)
        if parameters is None and not ground.settings.learns_scale:
            parameters = fixed_parameters(float(ground.settings.output_scale), d)
        elif parameters is None:
            some = np.sort(stream(ground.seed, "evidence rows").permutation(N)[:_EVIDENCE_ROWS])
            seen = grams if len(some) == N else feature_grams(kernel, rows[some], d)
            parameters = fit_parameters(seen, Y[some], U[some], average=True)
        if N <= _DENSE_ROWS:
            return ExactPosterior(kernel, rows, Y, U, parameters, grams=grams)
        seed = derived_seed(ground.seed, "posterior pivots")
        return LowRankPosterior(kernel, rows, Y, U, parameters, seed=seed)


def restore(state: dict[str, Any], model: Any, settings: Settings) -> Fitted:
    """The fit whose :meth:`Fitted.state` this is, joined with its model."""
    schema, probe, boundary = (
        Schema.from_state(state["schema"]),
        Probe(**state["probe"]),
        BoundarySample.from_state(state["boundary"]),
    )
    checked = Model(model, schema, model_output=settings.model_output, threshold=settings.threshold)
    probe.require_same(checked)
    boundary.require_belongs(checked, int(state["seed"]))
    explainer = None if settings.explainer is None else make_explainer(settings.explainer)
    ground = Ground(settings, schema, checked, explainer, state["background"], int(state["seed"]))
    observation = Observation.from_state(state["observation"])
    rows, layers = ground.rows(observation.rows), []
    for output, layer in enumerate(state["layers"]):
        graph, kernel = GeodesicGraph.from_state(layer["graph"]), Kernel.from_state(layer["kernel"])
        parameters = Parameters(**layer["parameters"])
        layers.append(Layer(graph, kernel, condition(ground, kernel, rows, observation, output, parameters)))
    return Fitted(ground, probe, boundary, observation, tuple(layers))


def objects_of(state: dict[str, Any]) -> dict[str, Any]:
    """Parameters that were objects when the fit was saved, as far as what they led to can stand for them."""
    schema = Schema.from_state(state["schema"])
    return {
        "explainer": None,
        "kernel": Kernel.from_state(state["layers"][0]["kernel"]),
        "background": schema.decode(state["background"]),
    }


def encode_rows(fitted: Fitted, X: Any) -> FloatArray:
    """Rows given to ``explain``, checked and encoded."""
    schema = fitted.ground.schema
    Z = schema.encode(X)
    schema.embed(Z)  # refuses rows that lie too far away
    return Z


def names_of_rows(X: Any) -> Any:
    """The labels of a DataFrame's rows, unless they are just numbered."""
    if not isinstance(X, pd.DataFrame) or (isinstance(X.index, pd.RangeIndex) and X.index.start == 0):
        return None
    return X.index.to_numpy()


def answer_rows(fitted: Fitted, Z: FloatArray, now: Settings) -> Attribution:
    """The explainer's answers for new rows; it meets the model when it is first needed."""
    explainer = fitted.ground.explainer
    if explainer is None:
        raise InputError("There is no explainer; pass attribution='posterior', or an explainer to GPEC or load.")
    if not hasattr(explainer, "model_"):
        explainer.bind(fitted.ground.model, fitted.ground.background)
        if explainer.learns:
            explainer.restore(fitted.observation.learned)
    if fitted.observation.given and fitted not in _AGREED:
        _require_same_units(fitted, explainer, now)
        _AGREED.add(fitted)
    return _answer(fitted.ground, explainer, Z, now)


def _require_same_units(fitted: Fitted, explainer: Explainer, now: Settings) -> None:
    """Raise if the attributions given to ``fit`` are not what the explainer would have answered."""
    seen, some = fitted.observation, slice(0, _GIVEN_ROWS)
    own, given = _answer(fitted.ground, explainer, seen.rows[some], now), seen.attribution.values[some]
    noise = np.sqrt(seen.U[some] + (0.0 if own.variance is None else own.variance))
    beyond = np.maximum(np.abs(own.values - given) - _NOISE_WIDTHS * noise, 0.0)
    size = max(float(np.linalg.norm(own.values)), float(np.linalg.norm(given)))
    off = float(np.linalg.norm(beyond)) / size if size > 0 else 0.0
    if off > _LARGEST_GAP:
        raise InputError(
            f"The attributions given to fit and those of the explainer differ by {off:.0%} of their size on "
            f"{len(given)} rows, as they do when one is in units of probability and the other of log-odds; pass the "
            "explainer that the attributions came from, or ask for attribution='posterior'."
        )


def predict(fitted: Fitted, Z: FloatArray, now: Settings) -> Prediction:
    """Posterior at new rows ``(n, d, c)``, in fixed blocks."""
    rows = fitted.ground.rows(Z)
    shape = (len(Z), Z.shape[1], len(fitted.layers))
    mean, boundary, noise = np.empty(shape), np.empty(shape), np.empty(shape)

    def block(part: slice) -> int:
        some, clamped = rows[part], 0
        for c, layer in enumerate(fitted.layers):
            found = layer.posterior.predict(some)
            mean[part, :, c], boundary[part, :, c] = found.mean, found.boundary_variance
            noise[part, :, c] = found.noise_variance
            clamped += found.n_clamped
        return clamped

    counts = run_blocks(block, len(Z), _BLOCK, n_jobs=now.n_jobs, what="posterior", progress=now.progress)
    return Prediction(mean, boundary, noise, sum(counts))


def make_explanation(
    fitted: Fitted,
    Z: FloatArray,
    answer: Attribution | None,
    posterior: Prediction,
    rule: IntervalRule,
    level: float,
    row_names: Any,
    diagnostics: dict[str, Any],
) -> Explanation:
    """The result as users see it; values are the explainer's, or the posterior mean where it was not asked."""
    shown, noise = Attribution(posterior.mean, None, _common_base(fitted, len(Z))), posterior.noise_variance
    if answer is not None:
        shown, noise = answer, noise + _own_noise(fitted, answer)
    if not (np.isfinite(shown.values).all() and np.isfinite(posterior.boundary_variance + noise).all()):
        raise NumericalError("The posterior is not finite; rescale the attributions or add noise.")
    schema, several = fitted.ground.schema, len(fitted.layers) > 1
    names, shown = [str(name) for name in fitted.ground.model.classes], shown.at_the_door()
    return Explanation(
        values=shown.values,
        boundary_variance=at_the_door(posterior.boundary_variance),
        noise_variance=at_the_door(noise),
        explainer_variance=shown.variance,
        base_values=shown.base_values,
        data=Z if schema.plain else np.asarray(schema.decode(Z), dtype=object),
        feature_names=list(schema.names),
        output_names=names if several else names[1],
        confidence_level=level,
        diagnostics=diagnostics,
        axes=("row", "feature", "output") if several else ("row", "feature"),
        rule=rule,
        row_names=row_names,
    )


def _own_noise(fitted: Fitted, answer: Attribution) -> FloatArray | float:
    """The explainer's variance at the rows themselves; noise that was given speaks of the explained rows only."""
    noise = fitted.ground.settings.noise
    return answer.variance if isinstance(noise, str) and noise != "none" and answer.variance is not None else 0.0


def _common_base(fitted: Fitted, n: int) -> FloatArray | None:
    """The value that the attributions of all explained rows start from, ``(n, c)``, if it is the same for all."""
    base = fitted.observation.attribution.base_values
    if base is None or (np.ptp(base, axis=0) > 1e-9 * np.maximum(np.abs(base).max(axis=0), 1.0)).any():
        return None
    return np.tile(base[0], (n, 1))


class Clock:
    """Seconds spent, by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
