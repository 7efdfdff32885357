"""What ``fit`` learned, as frozen objects, and what of them a file holds."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

import numpy as np

from gpec._version import __version__
from gpec.boundary import BoundarySample
from gpec.data import Groups, Rows, Schema, same_values
from gpec.errors import GPECError, InputError, ModelMismatchError
from gpec.explainers import Attribution, Explainer
from gpec.geometry import GeodesicGraph
from gpec.gp import NOISE_FLOOR, Parameters, Posterior
from gpec.gp.posterior import JITTER
from gpec.gp.tasks import TaskPosterior, Tasks
from gpec.intervals.conformal import Calibration
from gpec.intervals.groups import GroupedScores
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.kernels import Kernel
from gpec.models import Model
from gpec.pipeline.context import ExplainedSample, FitContext
from gpec.pipeline.given import GivenRows
from gpec.pipeline.kernel_inputs import add_effects, make_rows
from gpec.pipeline.settings import FREE, Settings
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.state import MAY_BE_MISSING, Limits, OneOf, Shape, Stored, to_state
from gpec.similar import SimilaritySampler, TypicalSteps
from gpec.typing import BoolArray, FloatArray

_KERNEL = Stored(Kernel.state, lambda state, _: Kernel.from_state(state))


@dataclass(frozen=True, eq=False)
class ModelFingerprint:
    """A few rows and the model's answers to them, which identify the model later."""

    rows: Annotated[FloatArray, Shape("n", "column"), MAY_BE_MISSING]
    answer: Annotated[FloatArray, Shape("n", "c")]

    def difference(self, answer: FloatArray, model: Model) -> str | None:
        """How other answers to these rows differ from the stored ones; None if by rounding at most."""
        if answer.shape != self.answer.shape:
            return "in its number of classes"
        most = np.abs(answer - self.answer).max()
        return f"by {most:.3g}" if most > model.kind.tolerance(self.answer) else None

    def require_same(self, model: Model) -> None:
        """Raise unless the model is the one that was asked before."""
        with model.asked_anew():
            how = self.difference(model.answers(self.rows), model)
        if how is not None:
            raise ModelMismatchError(
                f"The model is not the one that was fitted: its answers to {len(self.rows)} stored rows differ {how}. "
                "Load with the original model, or fit again."
            )


@dataclass(frozen=True, eq=False)
class Observations:
    """Explained rows, their attributions, and the noise variance ``U (n, d, c)`` used for them."""

    sample: ExplainedSample
    attribution: Attribution
    U: Annotated[FloatArray, Shape("explained", "feature", "output"), Limits(least=0)]
    source: str  # of the noise
    unit: str
    learned: dict[str, Any]  # by the explainer, from all rows
    given: GivenRows | None = None  # computed elsewhere, not by the explainer
    n_samples: Annotated[int | None, Limits(least=1)] = None  # of each row; None: the explainer's own number
    noise_later: Annotated[float, Limits(least=0)] = 1.0  # the variance with that number, over the variance with these
    # of one row similar to each of the first rows
    similar_values: Annotated[FloatArray, Shape("n", "feature", "output")] | None = None
    adds_up_to: Annotated[str, OneOf("probability", "log-odds", "output")] | None = None  # what base and values give

    @property
    def rows(self) -> FloatArray:
        return self.sample.rows


@dataclass(frozen=True, eq=False)
class SavedOutput:
    """What a file holds of an :class:`OutputModel`."""

    graph: GeodesicGraph | None
    kernel: Annotated[Kernel, _KERNEL]
    parameters: Parameters
    tasks: Tasks | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned:
    """What ``fit`` learned and a file holds as it is."""

    model_fingerprint: ModelFingerprint
    boundary: BoundarySample | None
    observations: Observations
    pool: Annotated[FloatArray, Shape("p", "column"), MAY_BE_MISSING]  # rows of ``fit``, encoded: all of them, or some
    similarity: SimilaritySampler | None = None
    steps: TypicalSteps | None = None  # of similar rows; None where they mean nothing or are unknown
    normalizer: ResidualNormalizer | None = None  # where values are harder to predict than the posterior says
    calibration: Calibration = field(default_factory=Calibration)
    loo_r2: float | None = None  # R2 of the value on left-out rows

    def learned(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(Learned)}


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedFit(Learned):
    """What a file holds of a :class:`Fitted`."""

    settings: dict[str, Any]
    mode: Annotated[Any, OneOf("explain", "predict")]
    model_output: Annotated[Any, OneOf("probability", "logit", "value")]
    schema: Schema
    background: Annotated[FloatArray, Shape("b", "column"), MAY_BE_MISSING]
    seed: Annotated[int, Limits(least=0)]
    output_models: tuple[SavedOutput, ...]

    def check_state(self) -> None:
        """Raise a ValueError for a setting that no GPEC has, and for labels of outputs that do not exist."""
        unknown = set(self.settings) - {one.name for one in fields(Settings)}
        if unknown:
            raise ValueError(f"has the unknown setting {min(unknown)!r}")
        n_outputs = self.observations.U.shape[2]
        if len(self.output_models) != (n_outputs if self.mode == "predict" else 0):
            raise ValueError(f"has {len(self.output_models)} Gaussian processes for {n_outputs} outputs")
        if self.mode == "explain" and self.similarity is None:
            raise ValueError("has mode 'explain' without similar rows")
        if self.boundary is not None and self.boundary.label.max(initial=0) >= n_outputs:
            raise ValueError(f"has boundary points of more than {n_outputs} outputs")
        try:
            Groups.of(self.settings.get("groups"), self.schema)
        except (GPECError, TypeError, AttributeError) as error:
            raise ValueError(f"has groups that cannot be used ({str(error)[:200]})") from error


@dataclass(frozen=True, eq=False)
class SavedGPEC:
    """What the file of a fitted GPEC holds."""

    fitted: SavedFit
    diagnostics: dict[str, Any]


@dataclass(frozen=True, eq=False)
class OutputModel:
    """The Gaussian processes of one output's boundary."""

    graph: GeodesicGraph | None
    kernel: Kernel
    posterior: Posterior

    def saved(self) -> SavedOutput:
        tasks = self.posterior.tasks if isinstance(self.posterior, TaskPosterior) else None
        return SavedOutput(self.graph, self.kernel, self.posterior.parameters, tasks)

    def describe_tasks(self) -> dict[str, float] | None:
        """How much of the dependence between features is used, and what it adds in nats."""
        if not isinstance(self.posterior, TaskPosterior):
            return None
        tasks = self.posterior.tasks
        return {"weight": tasks.weight, "nats": tasks.log_evidence - tasks.log_evidence_independent}


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Learned):
    """All that ``fit`` learned."""

    context: FitContext
    output_models: tuple[OutputModel, ...]
    fingerprints: dict[str, str] = field(default_factory=dict)  # of what each stage was made from
    spent: int = 0  # model rows of fit and calibrate, and of the fits they go on from

    def __getstate__(self) -> dict[str, Any]:  # fingerprints hold addresses, which mean nothing to a copy
        return {**vars(self), "fingerprints": {}}

    def saved(self) -> SavedFit:
        """Everything but the model and the explainer."""
        context, seen = self.context, self.observations
        observations = replace(seen, attribution=replace(seen.attribution, variance=seen.U))
        return SavedFit(
            **{**self.learned(), "observations": observations},
            settings=context.settings.state(),
            mode=context.mode,
            model_output=context.model.output,
            schema=context.schema,
            background=context.background,
            seed=context.seed,
            output_models=tuple(output_model.saved() for output_model in self.output_models),
        )

    def identity(self) -> dict[str, str]:
        """What answers at rows depend on besides the rows; the same whether the fit comes from a file or not."""
        state = to_state(self.saved())
        how = {name: value for name, value in state["settings"].items() if name not in FREE}
        return {
            "the fit": fingerprint({**state, "settings": how, "calibration": None, "boundary": None, "steps": None}),
            "the explainer": fingerprint(self.context.explainer, lasting=True),
            "what is similar": fingerprint(self.context.settings.similar, lasting=True),
        }

    def require_prediction(self, what: str) -> None:
        """Raise if this fit has no Gaussian process."""
        if self.context.mode == "explain":
            raise InputError(f"{what} needs a Gaussian process, and mode='explain' uses none; fit with mode='predict'.")

    def require_similarity(self) -> SimilaritySampler:
        """What gives rows their similar rows; raise if there are none."""
        if self.similarity is None:
            raise InputError("With similar=None there are no similar rows; fit with similar='auto' or an object.")
        return self.similarity

    def require_explainer(self) -> Explainer:
        """The explainer; raise if there is none."""
        if self.context.explainer is None:
            other = "" if self.context.mode == "explain" else ", or ask for attribution='posterior'"
            raise InputError(f"There is no explainer; pass one to GPEC or load{other}.")
        return self.context.explainer

    @property
    def n_similar(self) -> int:
        """The number of rows similar to each row."""
        return 0 if self.similarity is None else int(self.similarity.rows(self.pool[:1]).shape[1])

    @property
    def kernels(self) -> list[Kernel]:
        return [output_model.kernel for output_model in self.output_models]

    def along_boundary(self, output: int) -> tuple[GeodesicGraph | None, Kernel | None]:
        """The graph and the kernel of one output; None if the fit has none."""
        if not self.output_models:
            return None, None
        return self.output_models[output].graph, self.output_models[output].kernel

    def encode(self, X: Any) -> FloatArray:
        """Rows given to a later call, checked and encoded."""
        Z = self.context.schema.encode(X)
        self.context.schema.embed(Z, "X")  # refuses rows that lie too far away, before anything else is done
        return Z

    def rows(self, Z: FloatArray, name: str = "X", n_jobs: int | None = 1, outputs: bool = False) -> Rows:
        """Encoded rows with what intervals and kernels read, except effects; with the model's outputs if asked for."""
        outputs = outputs or self.observations.adds_up_to is not None or self.normalizer is not None
        outputs = outputs or isinstance(self.calibration.value, GroupedScores)
        outputs = outputs or any(kernel.needs_outputs for kernel in self.kernels)
        return make_rows(self.context, Z, outputs=outputs, name=name, n_jobs=n_jobs)

    def rows_for(self, Z: FloatArray, kernel: Kernel) -> Rows:
        """Encoded rows with all that a kernel, which may not be of this fit, reads."""
        rows = make_rows(self.context, Z, outputs=kernel.needs_outputs)
        return add_effects(self.context, rows, self.observations.sample, [kernel])

    def with_effects(self, rows: Rows, n_jobs: int | None = 1) -> Rows:
        """The same rows with effects, if kernels read them; for a block of rows at a time."""
        return add_effects(self.context, rows, self.observations.sample, self.kernels, n_jobs)

    def was_explained(self, Z: FloatArray) -> BoolArray:
        """Which rows are among those explained in ``fit``."""
        seen = {row.tobytes() for row in self.observations.rows}
        return np.array([row.tobytes() in seen for row in Z], dtype=bool)

    def noise_at(self, answer: Attribution | None) -> FloatArray:
        """The explainer's variance at rows ``(n, d, c)``: as it says, or its mean over the explained rows."""
        noise, seen = self.context.settings.noise, self.observations
        usual = seen.noise_later * seen.U.mean(axis=0, keepdims=True)
        if answer is None:
            return np.asarray(usual)
        if isinstance(noise, str) and noise != "none" and answer.variance is not None:
            return answer.variance
        return np.asarray(np.tile(usual, (len(answer.values), 1, 1)))

    def surely_zero(self, Z: FloatArray) -> BoolArray:
        """Which attributions of encoded rows ``(..., columns)`` are 0 for certain, ``(..., d)``."""
        explainer, background, groups = self.context.explainer, self.context.background, self.context.groups
        if explainer is None or not explainer.zero_where_equal or self.observations.given or len(groups) < Z.shape[-1]:
            return np.zeros((*Z.shape[:-1], len(groups)), dtype=np.bool_)
        return np.asarray(same_values(background, background[0]).all(axis=0) & same_values(Z, background[0]))

    def attribution_totals(self, rows: Rows) -> FloatArray:
        """The model's answers ``(n, c)`` in the unit of the attributions that add up to them."""
        in_probability = self.observations.adds_up_to == "probability"
        outputs = rows.require("outputs")
        return self.context.model.kind.answers_from(outputs) if in_probability else outputs

    def common_base(self, n: int) -> FloatArray | None:
        """The value that the attributions of all explained rows start from, ``(n, c)``, if it is the same for all."""
        base = self.observations.attribution.base_values
        one = self.context.model.kind.absolute
        if base is None or (np.ptp(base, axis=0) > 1e-9 * np.maximum(np.abs(base).max(axis=0), one)).any():
            return None
        return np.tile(base[0], (n, 1))

    def diagnostics(self, seconds: dict[str, float]) -> dict[str, Any]:
        """What a fit that took so long found on its way."""
        context, output_models = self.context, self.output_models
        parameters = [output_model.posterior.parameters for output_model in output_models]
        graphs = [output_model.graph for output_model in output_models if output_model.graph is not None]
        return {
            "version": __version__,
            "seed": context.seed,
            "model_rows": context.model.n_rows,
            "model_calls": context.model.n_calls,
            "seconds": seconds,
            "mode": context.mode,
            "boundary_points": [] if self.boundary is None else np.bincount(self.boundary.label).tolist(),
            "boundary": self._boundary_in_words(),
            "regression": context.model.is_regressor,
            "levels": [] if self.boundary is None else self.boundary.levels,
            "components": [graph.n_components for graph in graphs],
            "landmarks": [len(graph.landmarks) for graph in graphs],
            "kernel": [output_model.kernel.diagnostics() for output_model in output_models],
            "kernel_by_feature": any(kernel.varies_by_feature for kernel in self.kernels),
            **self.diagnostics_of_rows(),
            "tasks": [output_model.describe_tasks() for output_model in output_models],
            "scale": [learned.scale.tolist() for learned in parameters],
            "nugget": [learned.nugget.tolist() for learned in parameters],
            "jitter": JITTER,
            "noise": self.observations.source,
            "noise_floor": None if context.settings.learns_scale else NOISE_FLOOR,  # as a share of the scale
            "unit": self.observations.unit,
            "settings": {"model": f"<{type(context.model.user_model).__name__}>", **context.settings.describe()},
        }

    def _boundary_in_words(self) -> str:
        if self.boundary is not None:
            return "sampled"
        reason = self.context.no_boundary
        return f"{reason}: the kernel goes without it" if reason else "not needed"

    def diagnostics_of_rows(self) -> dict[str, Any]:
        """What further explained rows change, except what they cost."""
        return {
            "explained_rows": len(self.observations.rows),
            "given_rows": 0 if self.observations.given is None else len(self.observations.given.rows),
            "left_out_R2": self.loo_r2,
            "difficulty": "predicted deviation" if self.normalizer is None else "learned from left-out rows",
            "condition": [output_model.posterior.condition for output_model in self.output_models],
        }
