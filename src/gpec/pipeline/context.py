"""The arguments of ``fit``: strings become objects, and all are checked before the first model call."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from gpec.boundary import BoundarySample, Sampler
from gpec.boundary._registry import make_sampler
from gpec.data import Groups, Schema
from gpec.data._background import check_background
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError
from gpec.explainers import Attribution, Explainer, make_explainer
from gpec.explainers.noise import RESAMPLED, check_noise_shape
from gpec.gp.tasks import check_task_kernel, require_one_kernel
from gpec.kernels import Kernel, make_kernel
from gpec.models import Model
from gpec.pipeline.given import read_given
from gpec.pipeline.settings import FREE, Settings
from gpec.runtime.checkpoint import BlockCache, read_notes
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.randomness import make_seed
from gpec.runtime.state import MAY_BE_MISSING, NOT_STORED, Limits, Shape, to_state
from gpec.similar import Similar, make_similar
from gpec.typing import FloatArray, IntArray

_POINTS, _MANY_POINTS = 300, 2_000  # of the boundary: beside other terms of a kernel, and where it rests on them alone


@dataclass(frozen=True, eq=False)
class FitContext:
    """Objects that every stage of ``fit`` and every later call use."""

    settings: Settings
    schema: Schema
    model: Model
    groups: Groups  # what attributions are about: columns, or groups of them
    explainer: Explainer | None
    background: FloatArray  # encoded
    seed: int
    mode: Literal["explain", "predict"] = "predict"  # how attributions of similar rows are found
    no_boundary: str = ""  # why kernel="auto" goes without the term along the boundary

    def __post_init__(self) -> None:
        if self.explainer is not None:
            self.explainer.groups_ = self.groups
            remedy = type(self.explainer).remedy
            if self.mode == "explain" and not self.explainer.cheap:
                remedy = f"mode='predict' explains few similar rows, and {remedy}"
            self.explainer.remedy = remedy

    @property
    def kernel(self) -> Kernel:
        """The kernel that the settings mean, not fitted; the number of outputs must be known."""
        s = self.settings
        return make_kernel(
            s.kernel,
            s.lam,
            s.rho,
            len(self.groups) * self.model.n_outputs,
            shared=s.task_kernel is not None,
            effect=self.model.kind.has_effect,
            boundary=not self.no_boundary,
        )

    @property
    def rows_for_kernel(self) -> int:
        """Model rows that the kernel needs to read a row."""
        return 1 + self.kernel.needs_effects * len(self.groups)

    @property
    def n_boundary(self) -> int:
        """The number of boundary points that the settings mean."""
        n = self.settings.n_boundary
        return n if not isinstance(n, str) else _MANY_POINTS if self.kernel.rests_on_boundary else _POINTS


@dataclass(frozen=True, eq=False)
class ExplainedSample:
    """Rows to explain (encoded), in the order in which they were drawn, and how many rows each represents."""

    rows: Annotated[FloatArray, Shape("explained", "column"), MAY_BE_MISSING]
    weights: Annotated[FloatArray, Shape("explained"), Limits(least=0)]  # of mean 1
    answers: Annotated[FloatArray | None, NOT_STORED] = None  # the model's, by which the rows were drawn
    refined: tuple[int, ...] = ()  # where the rows of each refinement begin
    places: Annotated[IntArray | None, NOT_STORED] = None  # among the rows from which they were drawn

    def evenly_spaced(self, n: int) -> FloatArray:
        """At most ``n`` of the rows explained in ``fit``."""
        first = self.rows[: self.refined[0]] if self.refined else self.rows
        return first[evenly_spaced(len(first), n)]


@dataclass(frozen=True, eq=False)
class FitInputs:
    """What ``fit`` works on. Rows are encoded."""

    context: FitContext
    similar: Similar | None
    sampler: Sampler | BoundarySample
    rows: FloatArray
    explained: FloatArray | None  # None: to be drawn from the rows
    given: Attribution | None  # attributions computed elsewhere
    targets: FloatArray | None = None  # rows for whose sake some of the rows to explain are chosen


def check_fit_inputs(
    model: Any,
    settings: Settings,
    seed: int,
    X: Any,
    X_explained: Any = None,
    attributions: Any = None,
    variance: Any = None,
    targets: Any = None,
) -> FitInputs:
    """Check the rows of ``fit`` and find out what the words among the settings mean."""
    kernel = make_kernel(settings.kernel, settings.lam, settings.rho, shared=settings.task_kernel is not None)
    similar = make_similar(settings.similar)
    explainer = None if settings.explainer is None else make_explainer(settings.explainer)
    if not isinstance(settings.fit_samples, str) and explainer is not None and explainer.samples is None:
        raise InputError(
            f"fit_samples={settings.fit_samples} is a number, but {type(explainer).__name__} takes none; leave it at "
            "'auto'."
        )
    schema, Z = Schema.learn(
        X, categorical_features=settings.categorical_features, standardize=bool(settings.standardize)
    )
    if similar is not None:
        similar.check(schema)
    mode = _mode(settings, similar, explainer, given=attributions is not None)
    if targets is not None:
        if mode == "explain":
            raise InputError("targets are for mode='predict'; mode='explain' explains all similar rows of every row.")
        if X_explained is not None or attributions is not None:
            raise InputError("targets choose which rows are explained, but X_explained or attributions are given.")
        targets = schema.encode(targets, "targets")
        schema.embed(targets, "targets")  # refuses rows that lie too far away
    groups = Groups.of(settings.groups, schema)
    if settings.task_kernel is not None:
        require_one_kernel(kernel)
        check_task_kernel(settings.task_kernel, len(groups), groups.names)
    checked = Model(
        model,
        schema,
        model_output=settings.model_output,
        threshold=settings.threshold,
        batch_size=settings.batch_size,
    )
    sampler = make_sampler(settings.boundary, schema, checked.kind)
    if isinstance(sampler, Sampler):
        sampler.check()
    explained: FloatArray | None
    if X_explained is not None:
        explained = schema.encode(X_explained, "X_explained")
        schema.embed(explained, "X_explained")  # refuses rows that lie too far away
    else:
        explained = Z if attributions is not None or len(Z) <= settings.usual_rows(explainer) else None
    n = min(len(Z), settings.most_explained) if explained is None else len(explained)
    given = _given_attribution(settings.noise, attributions, variance, Z if explained is None else explained, schema)
    check_noise_shape(settings.noise, n, len(groups))
    if given is not None:
        n = min(n, settings.most_given)
    if given is None and explainer is None:
        raise InputError("explainer=None needs attributions: pass fit(X, attributions=...).")
    if mode == "predict" and settings.learns_scale and n < 3:
        raise InputError(
            f"output_scale='evidence' needs at least 3 explained rows, got {n}; explain more rows or give a number."
        )
    usual = Explainer.most_background if explainer is None else explainer.most_background
    if explainer is not None and settings.budget is not None:
        usual = explainer.background_within(settings.budget, schema.n_features)
    background = check_background(settings.background, schema, Z, seed, usual)
    context = FitContext(settings, schema, checked, groups, explainer, background, seed, mode)
    return FitInputs(context, similar, sampler, Z, explained, given, targets)


def _mode(
    settings: Settings, similar: Similar | None, explainer: Explainer | None, *, given: bool
) -> Literal["explain", "predict"]:
    """How attributions of similar rows are found; "auto" explains them if that is cheap and nothing speaks against."""
    names = ("kernel", "task_kernel", "boundary")
    set_by_user = [name for name in names if not _is_default(getattr(settings, name))]
    if settings.mode == "auto":
        cheap = explainer is not None and explainer.cheap and similar is not None
        return "explain" if cheap and not given and not set_by_user else "predict"
    if settings.mode == "explain":
        if similar is None:
            raise InputError("mode='explain' explains similar rows, but similar=None names none; pass mode='predict'.")
        if given or explainer is None:
            but = "attributions are given to fit; pass mode='predict'" if given else "explainer=None; pass an explainer"
            raise InputError(f"mode='explain' runs the explainer on similar rows, but {but}.")
        for name in set_by_user:
            if name != "boundary":  # plots can show it
                raise InputError(f"mode='explain' uses no {name}; leave {name} out, or pass mode='predict'.")
    return settings.mode


def _is_default(value: Any) -> bool:  # an array cannot be compared with a word
    return value is None or (isinstance(value, str) and value == "auto")


def seed_of(settings: Settings, folder: str | os.PathLike[str] | None) -> int:
    """The seed of a fit. If no integer is given, the first call draws it; a resumed call reads it from the folder."""
    seed = make_seed(settings.random_state)
    return seed if folder is None or _is_number(settings.random_state) else int(read_notes(folder).get("seed", seed))


def open_fit_checkpoint(
    inputs: FitInputs, folder: str | os.PathLike[str] | None
) -> AbstractContextManager[BlockCache | None]:
    """The checkpoint of this fit, if there is one; raise if it belongs to other settings or rows."""
    if folder is None:
        return nullcontext()
    return BlockCache(folder, "fit", _identity(inputs), {"seed": inputs.context.seed})


def _identity(inputs: FitInputs) -> dict[str, str]:
    """Everything a fit depends on, except the model, which is compared by its answers."""
    context, given = inputs.context, inputs.given
    how_many, seed = context.settings.background, context.settings.random_state
    parts = {
        **{name: value for name, value in vars(context.settings).items() if name not in FREE},
        "explainer": context.explainer,
        "background": how_many if _is_number(how_many) else context.background,
        "similar": inputs.similar,
        "boundary": inputs.sampler,
        "random_state": seed if _is_number(seed) else "drawn",
        "the rows": (to_state(context.schema), inputs.rows),
        "the rows to explain": inputs.explained,
        "the targets": inputs.targets,
        "the attributions given": None if given is None else vars(given),
    }
    return {name: fingerprint(value, lasting=True) for name, value in parts.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def _given_attribution(
    noise: Any, attributions: Any, variance: Any, rows: FloatArray, schema: Schema
) -> Attribution | None:
    if variance is not None:
        if attributions is None:
            raise InputError("attribution_variance is given without attributions.")
        if not (isinstance(noise, str) and noise == "auto"):
            raise InputError(
                f"attribution_variance is given together with noise={noise!r}; leave noise='auto' to use it."
            )
    if attributions is None:
        return None
    if isinstance(noise, str) and noise in RESAMPLED:
        raise InputError(
            f"noise={noise!r} runs the explainer again, but attributions are given; pass their attribution_variance "
            "with noise='auto', or a number."
        )
    return read_given(attributions, variance, rows, schema, "X_explained, by default X")
