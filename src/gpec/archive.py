"""A fitted GPEC as a file."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from gpec import storage
from gpec.boundary import BoundarySample
from gpec.errors import CorruptFileError, GPECError, ModelMismatchError
from gpec.explainers import Attribution, make_explainer
from gpec.fitted import Fitted, Layer
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters
from gpec.kernels.archive import kernel_from_state, kernel_state
from gpec.model import Model
from gpec.table import Table

if TYPE_CHECKING:
    from gpec.estimator import GPEC

__all__ = ["describe_settings", "load", "save"]

_KIND = "GPEC"
# Objects of the user, or learned ones that stand elsewhere in the file.
_OBJECTS = ("model", "explainer", "kernel", "boundary", "background", "random_state")


def describe_settings(g: GPEC) -> dict[str, Any]:
    """The parameters as numbers and short texts, for results that carry their settings."""
    plain = (str, int, float, bool, type(None))
    parameters = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in g.get_params(deep=False).items()
    }
    return {
        name: value if isinstance(value, plain) else f"<{type(value).__name__}>" for name, value in parameters.items()
    }


def save(g: GPEC, fitted: Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted GPEC without its model and explainer."""
    parameters = {name: value for name, value in g.get_params(deep=False).items() if name not in _OBJECTS}
    for name in ("explainer", "kernel"):
        if isinstance(getattr(g, name), str):
            parameters[name] = getattr(g, name)
    if isinstance(g.background, (int, np.integer)):
        parameters["background"] = int(g.background)
    if not isinstance(parameters["categorical_features"], (str, type(None))):
        parameters["categorical_features"] = list(np.asarray(parameters["categorical_features"], dtype=object))
    if not isinstance(parameters["noise"], (str, int, float, np.generic)):
        parameters["noise"] = np.asarray(parameters["noise"])
    storage.write(
        path,
        _KIND,
        {
            "parameters": parameters,
            "table": fitted.table.state(),
            "boundary": {f.name: getattr(fitted.boundary, f.name) for f in fields(BoundarySample)},
            "layers": [_layer_state(layer) for layer in fitted.layers],
            "explained": fitted.explained,
            "background": fitted.background,
            "learned": fitted.learned,
            "attributions": fitted.observed.values,
            "base_values": fitted.observed.base_values,
            "noise": fitted.U,
            "probe": fitted.probe,
            "answer": fitted.answer,
            "seed": fitted.seed,
            "diagnostics": g.diagnostics_,
        },
    )


def load(cls: type[GPEC], path: str | os.PathLike[str], model: Any, explainer: Any) -> GPEC:
    """Read a fitted GPEC and join it with its model."""
    tree = storage.read(path, _KIND)
    try:
        return _restore(cls, tree, model, explainer)
    except GPECError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CorruptFileError(f"{path} lacks or garbles part of a fitted GPEC: {error!r}.") from error


def _restore(cls: type[GPEC], tree: dict[str, Any], model: Any, explainer: Any) -> GPEC:
    parameters, table, seed = dict(tree["parameters"]), Table.from_state(tree["table"]), int(tree["seed"])
    boundary = BoundarySample(**tree["boundary"])
    by_name = parameters.pop("explainer", None)
    parameters.setdefault("background", table.decode(tree["background"]))
    kernels = [kernel_from_state(layer["kernel"]) for layer in tree["layers"]]
    parameters.setdefault("kernel", kernels[0])
    g = cls(model, by_name if explainer is None else explainer, random_state=seed, **parameters)
    checked = Model(model, table, model_output=g.model_output, threshold=g.threshold)
    _require_same(checked, tree["probe"], tree["answer"])
    U, values, base_values = tree["noise"], tree["attributions"], tree["base_values"]
    E = table.embed(tree["explained"])
    layers: list[Layer] = []
    for c, (state, kernel) in enumerate(zip(tree["layers"], kernels, strict=True)):
        pick = (slice(None), slice(None)) if values.ndim == 2 else (slice(None), slice(None), c)
        graph, learned = _graph(state["graph"]), Parameters(**state["parameters"])
        with threadpool_limits(1, "blas"):  # as in fit, so that the bits agree
            layers.append(Layer.condition(graph, kernel, learned, E, values[pick], U[pick], seed))
    bound = None if g.explainer is None else make_explainer(g.explainer)
    g._keep(
        Fitted(
            table,
            checked,
            bound,
            tree["learned"],
            tree["background"],
            tree["explained"],
            Attribution(values, U, base_values),
            U,
            boundary,
            layers,
            tree["probe"],
            tree["answer"],
            seed,
        )
    )
    g.diagnostics_ = tree["diagnostics"]
    return g


def _require_same(model: Model, probe: Any, expected: Any) -> None:
    answer = model.probabilities(probe)
    same_shape = answer.shape == expected.shape
    if not same_shape or np.abs(answer - expected).max() > 1e-5:
        how = f"by {np.abs(answer - expected).max():.3g}" if same_shape else "in its number of classes"
        raise ModelMismatchError(
            f"The model is not the one that was fitted: its answers to {len(probe)} stored rows differ {how}. Load "
            "with the original model, or fit again."
        )


def _layer_state(layer: Layer) -> dict[str, Any]:
    graph, learned = layer.graph, layer.posterior.parameters
    adjacency = graph.adjacency
    return {
        "kernel": kernel_state(layer.kernel),
        "parameters": {"scale": learned.scale, "nugget": learned.nugget, "free_mean": learned.free_mean},
        "graph": {
            "points": graph.points,
            "adjacency": {"data": adjacency.data, "indices": adjacency.indices, "indptr": adjacency.indptr},
            "component": graph.component,
            "landmarks": graph.landmarks,
            "multiplicity": graph.multiplicity,
        },
    }


def _graph(state: dict[str, Any]) -> GeodesicGraph:
    J, edges = len(state["points"]), state["adjacency"]
    adjacency = csr_array((edges["data"], edges["indices"], edges["indptr"]), shape=(J, J))
    return GeodesicGraph(state["points"], adjacency, state["component"], state["landmarks"], state["multiplicity"])
