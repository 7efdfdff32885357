"""How the checkpoint of an interrupted ``fit`` knows it again."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpec._checkpoint import Checkpoint, notes_in, other_work
from gpec._fingerprint import fingerprint
from gpec._fitted import Probe
from gpec._problem import Problem
from gpec._randomness import make_seed
from gpec._settings import Settings
from gpec.models import Model

__all__ = ["known_model", "open_fit", "seed_of"]

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
    answered = kept.remember("model", lambda _: {"answer": probe.answer}, probe.rows)
    first = Probe(probe.rows, answered(slice(0, len(probe.rows)))["answer"])
    if first.difference(probe.answer, model) is not None:
        raise other_work(kept.folder, "the model")
    return first


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
