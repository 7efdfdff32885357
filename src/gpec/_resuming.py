"""What an interrupted ``fit`` goes on with, and how its checkpoint knows that it is the same fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpec._checkpoint import Checkpoint, notes_in
from gpec._fitted import Memory, Probe, learned_by
from gpec._problem import Problem, fingerprint
from gpec._randomness import make_seed
from gpec._settings import Settings
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters, Posterior
from gpec.gp.tasks import Tasks
from gpec.kernels import Kernel
from gpec.models import Model

__all__ = ["keep_graph", "keep_kernel", "keep_posterior", "known_model", "open_fit", "seed_of"]

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


def keep_graph(output: int, work: Callable[[], GeodesicGraph], memory: Memory) -> GeodesicGraph:
    """A graph and its distances, measured once."""

    def unpack(state: dict[str, Any]) -> GeodesicGraph:
        graph = GeodesicGraph.from_state(state["graph"])
        vars(graph)["distances"] = state["distances"]
        return graph

    return memory.once(
        f"graph {output}", work, lambda graph: {"graph": graph.state(), "distances": graph.distances}, unpack
    )


def keep_kernel(output: int, work: Callable[[], Kernel], memory: Memory) -> Kernel:
    """A kernel, learned once."""
    return memory.once(f"kernel {output}", work, Kernel.state, Kernel.from_state)


def keep_posterior(output: int, work: Callable[..., Posterior], memory: Memory) -> Posterior:
    """A posterior whose parameters are learned once; ``work`` takes them where they are known."""

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
