"""What an interrupted ``fit`` goes on with: stages that are done once, and how its checkpoint knows it again."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from gpec._checkpoint import Checkpoint, notes_in
from gpec._fitted import Memory, Observation, Probe, learned_by
from gpec._problem import Ground, Problem, fingerprint
from gpec._randomness import make_seed
from gpec._settings import Settings
from gpec._stages import condition, fit_kernel, measure
from gpec.boundary import BoundarySample
from gpec.data import Rows
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters, Posterior
from gpec.gp.tasks import Tasks
from gpec.kernels import Kernel
from gpec.models import Model

__all__ = ["condition_once", "fit_kernel_once", "known_model", "measure_once", "open_fit", "seed_of"]

_FREE = ("n_jobs", "progress")  # what may differ: no bit depends on it


def seed_of(settings: Settings, folder: str | os.PathLike[str] | None) -> int:
    """The seed of a fit. One that was drawn is drawn once: the call that goes on takes that of the first."""
    seed = make_seed(settings.random_state)
    return seed if folder is None or _is_number(settings.random_state) else int(notes_in(folder).get("seed", seed))


def open_fit(problem: Problem, folder: str | os.PathLike[str] | None) -> AbstractContextManager[Checkpoint | None]:
    """Where the work of this fit is kept, if anywhere; what it depends on must be as it was."""
    if folder is None:
        return nullcontext()
    return Checkpoint(folder, "fit", _identity(problem), {"seed": problem.ground.seed})


def known_model(probe: Probe, model: Model, kept: Checkpoint | None) -> Probe:
    """The answers by which the first call knew the model, which must be the same now."""
    if kept is None:
        return probe
    first = Probe(probe.rows, kept.once("model", lambda: {"answer": probe.answer})["answer"])
    if first.difference(probe.answer, model) is not None:
        raise kept.other("the model")
    return first


def measure_once(problem: Problem, boundary: BoundarySample, output: int, memory: Memory) -> GeodesicGraph:
    """The graph of an output and its distances."""

    def unpack(state: dict[str, Any]) -> GeodesicGraph:
        graph = GeodesicGraph.from_state(state["graph"])
        vars(graph)["distances"] = state["distances"]
        return graph

    work = partial(measure, problem, boundary, output, memory)
    return memory.once(
        f"graph {output}", work, lambda graph: {"graph": graph.state(), "distances": graph.distances}, unpack
    )


def fit_kernel_once(
    problem: Problem,
    graph: GeodesicGraph,
    rows: Rows,
    observation: Observation,
    output: int,
    start: Kernel | None,
    memory: Memory,
) -> Kernel:
    """The kernel of an output, fitted and learned."""
    work = partial(fit_kernel, problem, graph, rows, observation, output, start)
    return memory.once(f"kernel {output}", work, Kernel.state, Kernel.from_state)


def condition_once(
    ground: Ground, kernel: Kernel, rows: Rows, observation: Observation, output: int, memory: Memory
) -> Posterior:
    """The posterior of an output; what is kept are its parameters."""
    work = partial(condition, ground, kernel, rows, observation, output)

    def unpack(state: dict[str, Any]) -> Posterior:
        tasks = None if state["tasks"] is None else Tasks(**state["tasks"])
        return work(parameters=Parameters(**state["parameters"]), tasks=tasks)

    return memory.once(f"posterior {output}", work, learned_by, unpack)


def _identity(problem: Problem) -> dict[str, str]:
    """All that a fit depends on but the model, which only its answers can tell."""
    ground, given = problem.ground, problem.given
    how_many, seed = ground.settings.background, ground.settings.random_state
    parts = {
        **{name: value for name, value in vars(ground.settings).items() if name not in _FREE},
        "explainer": ground.explainer,
        "background": how_many if _is_number(how_many) else ground.background,
        "similar": problem.similar,
        "boundary": problem.sampler,
        "random_state": seed if _is_number(seed) else "drawn",
        "the rows": (ground.schema.state(), problem.rows),
        "the rows to explain": problem.explained,
        "the attributions given": None if given is None else vars(given),
    }
    return {name: fingerprint(value, lasting=True) for name, value in parts.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer))
