"""A fit read from a file, joined with its model."""

from __future__ import annotations

from inspect import isroutine
from typing import Any

from gpec.boundary import BoundarySample
from gpec.data import Groups, Schema
from gpec.explainers import make_explainer
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters
from gpec.gp.tasks import Tasks
from gpec.intervals.conformal import Calibration
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.kernels import Kernel
from gpec.models import Model
from gpec.pipeline.context import FitContext
from gpec.pipeline.fitted import Fitted, ModelFingerprint, Observation, OutputModel
from gpec.pipeline.gaussian_process import fit_posterior
from gpec.pipeline.settings import Settings
from gpec.similar import FunctionOfRows, SimilarFunction, SimilaritySampler, make_similar

__all__ = ["objects_of", "restore"]


def restore(state: dict[str, Any], model: Any, settings: Settings) -> Fitted:
    """The fit whose :meth:`Fitted.state` this is, joined with its model."""
    schema, model_fingerprint, boundary = (
        Schema.from_state(state["schema"]),
        ModelFingerprint(**state["model_fingerprint"]),
        BoundarySample.from_state(state["boundary"]),
    )
    stated = settings.model_output
    if stated == "auto" and isroutine(model):  # a function does not tell what it returns; the model that was fitted did
        stated = state["model_output"]
    checked = Model(model, schema, model_output=stated, threshold=settings.threshold)
    model_fingerprint.require_same(checked)
    boundary.require_belongs(checked, int(state["seed"]))
    groups = Groups.of(settings.groups, schema)
    explainer = None if settings.explainer is None else make_explainer(settings.explainer)
    context = FitContext(settings, schema, checked, groups, explainer, state["background"], int(state["seed"]))
    observation = Observation.from_state(state["observation"])
    rows, output_models = observation.draw.known_to(context), []
    for output, output_model in enumerate(state["output_models"]):
        graph, kernel = GeodesicGraph.from_state(output_model["graph"]), Kernel.from_state(output_model["kernel"])
        parameters = Parameters(**output_model["parameters"])
        tasks = None if output_model["tasks"] is None else Tasks(**output_model["tasks"])
        output_models.append(
            OutputModel(graph, kernel, fit_posterior(context, kernel, rows, observation, output, parameters, tasks))
        )
    saved = state["similarity"]
    similarity = None if saved is None else SimilaritySampler.from_state(saved, schema)
    again = make_similar(settings.similar)
    if isinstance(similarity, FunctionOfRows) and isinstance(again, SimilarFunction):
        similarity = similarity.with_function(again.function)
    calibration = Calibration.from_state(state["calibration"])
    normalizer = None if state["normalizer"] is None else ResidualNormalizer(**state["normalizer"])
    return Fitted(
        context,
        model_fingerprint,
        boundary,
        observation,
        tuple(output_models),
        state["pool"],
        similarity,
        normalizer,
        calibration,
        state["loo_r2"],
    )


def objects_of(state: dict[str, Any]) -> dict[str, Any]:
    """Parameters that were objects when the fit was saved, as far as what they led to can stand for them."""
    schema = Schema.from_state(state["schema"])
    return {
        "explainer": None,
        "kernel": Kernel.from_state(state["output_models"][0]["kernel"]),
        "background": schema.decode(state["background"]),
    }
