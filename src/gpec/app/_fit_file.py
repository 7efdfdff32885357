"""What a saved fit tells without its model: a page cannot have the model, and needs none for this."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec.data import Groups, Schema
from gpec.explanation import Explanation
from gpec.intervals.conformal import Calibration
from gpec.intervals.rules import SimilarRows, Value
from gpec.runtime.shapes import squeeze_single_output
from gpec.similar import SimilaritySampler

__all__ = ["describe_fit"]

_LEVEL = 0.95
_SHOWN = ("explainer", "kernel", "similar", "lam", "rho", "n_boundary", "n_explained", "noise", "output_scale")


def describe_fit(tree: dict[str, Any], name: str) -> tuple[Explanation, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The rows that were explained in fit, sentences on what the fit promises, and facts about it."""
    state, diagnostics = tree["fitted"], tree["diagnostics"]
    schema = Schema.from_state(state["schema"])
    groups = Groups.of(state["settings"].get("groups"), schema)
    seen = state["observation"]
    values, U = (np.asarray(seen["attribution"][part]) for part in ("values", "variance"))
    several = values.shape[2] > 1
    classes = [str(c) for c in range(values.shape[2])]  # files do not keep their names
    base = seen["attribution"]["base_values"]
    explanation = Explanation(
        values=squeeze_single_output(values),
        boundary_variance=np.zeros_like(squeeze_single_output(values)),
        noise_variance=squeeze_single_output(U),
        explainer_variance=squeeze_single_output(U),
        base_values=None if base is None else squeeze_single_output(base, axis=1),
        data=groups.data(seen["draw"]["rows"], schema),
        feature_names=list(groups.names),
        output_names=classes if several else None if diagnostics.get("regression") else "1",
        diagnostics=diagnostics,
        axes=("row", "feature", "output") if several else ("row", "feature"),
    )
    return explanation, _statements(state, schema, name), _facts(state, diagnostics, len(values), schema)


def _statements(state: dict[str, Any], schema: Schema, name: str) -> tuple[str, ...]:
    scores = Calibration.from_state(state["calibration"])
    nothing = np.zeros((1, 1))
    if state["similarity"] is None:
        promises = ["This fit has the paper's intervals, which promise no coverage."]
    else:
        phrase = SimilaritySampler.from_state(state["similarity"], schema).phrase
        promises = [
            f"With the explainer: {_small(SimilarRows(nothing, nothing, scores.similar, phrase).statement(_LEVEL))}",
            f"With the posterior: {_small(Value(scores.value).statement(_LEVEL))}",
        ]
    return (
        "Below are the rows that were explained in fit; their bars show the explainer's own noise and nothing else, "
        "since intervals need the model.",
        *promises,
        f"To explain new rows: gpec explain DATA --fitted {name} --model MODEL",
    )


def _small(statement: str) -> str:
    return statement[0].lower() + statement[1:]


def _facts(state: dict[str, Any], diagnostics: dict[str, Any], n: int, schema: Schema) -> tuple[tuple[str, str], ...]:
    settings = {**diagnostics.get("settings", {}), **state["settings"]}
    points = diagnostics.get("boundary_points", [])
    return (
        ("Explained rows", f"{n:,}"),
        ("Features", f"{schema.n_features:,}"),
        ("Boundary points", ", ".join(f"{count:,}" for count in points)),
        ("Model", str(settings.get("model", "unknown")).strip("<>")),
        *((key, str(settings[key]).strip("<>")) for key in _SHOWN if key in settings),
        ("Unit", str(diagnostics.get("unit", "unknown"))),
        ("gpec", str(diagnostics.get("version", "unknown"))),
    )
