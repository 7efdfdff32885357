"""A fit read from a file, joined with its model."""

from __future__ import annotations

from inspect import isroutine
from typing import Any

from gpec._fitted import Fitted, Layer, Observation, Probe
from gpec._problem import Ground
from gpec._settings import Settings
from gpec._stages import condition
from gpec.boundary import BoundarySample
from gpec.calibration import Calibration
from gpec.data import Groups, Schema
from gpec.difficulty import Difficulty
from gpec.explainers import make_explainer
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters
from gpec.gp.tasks import Tasks
from gpec.kernels import Kernel
from gpec.models import Model
from gpec.similar import FunctionOfRows, Neighbourhood, SimilarFunction, make_similar

__all__ = ["objects_of", "restore"]


def restore(state: dict[str, Any], model: Any, settings: Settings) -> Fitted:
    """The fit whose :meth:`Fitted.state` this is, joined with its model."""
    schema, probe, boundary = (
        Schema.from_state(state["schema"]),
        Probe(**state["probe"]),
        BoundarySample.from_state(state["boundary"]),
    )
    stated = settings.model_output
    if stated == "auto" and isroutine(model):  # a function does not tell what it returns; the model that was fitted did
        stated = state["model_output"]
    checked = Model(model, schema, model_output=stated, threshold=settings.threshold)
    probe.require_same(checked)
    boundary.require_belongs(checked, int(state["seed"]))
    groups = Groups.of(settings.groups, schema)
    explainer = None if settings.explainer is None else make_explainer(settings.explainer)
    ground = Ground(settings, schema, checked, groups, explainer, state["background"], int(state["seed"]))
    observation = Observation.from_state(state["observation"])
    rows, layers = observation.draw.known_to(ground), []
    for output, layer in enumerate(state["layers"]):
        graph, kernel = GeodesicGraph.from_state(layer["graph"]), Kernel.from_state(layer["kernel"])
        parameters = Parameters(**layer["parameters"])
        tasks = None if layer["tasks"] is None else Tasks(**layer["tasks"])
        layers.append(Layer(graph, kernel, condition(ground, kernel, rows, observation, output, parameters, tasks)))
    kept = state["neighbourhood"]
    neighbourhood = None if kept is None else Neighbourhood.from_state(kept, schema)
    again = make_similar(settings.similar)
    if isinstance(neighbourhood, FunctionOfRows) and isinstance(again, SimilarFunction):
        neighbourhood = neighbourhood.with_function(again.function)
    calibration = Calibration.from_state(state["calibration"])
    difficulty = None if state["difficulty"] is None else Difficulty(**state["difficulty"])
    return Fitted(
        ground,
        probe,
        boundary,
        observation,
        tuple(layers),
        state["pool"],
        neighbourhood,
        difficulty,
        calibration,
        state["skill"],
    )


def objects_of(state: dict[str, Any]) -> dict[str, Any]:
    """Parameters that were objects when the fit was saved, as far as what they led to can stand for them."""
    schema = Schema.from_state(state["schema"])
    return {
        "explainer": None,
        "kernel": Kernel.from_state(state["layers"][0]["kernel"]),
        "background": schema.decode(state["background"]),
    }
