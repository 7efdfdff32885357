"""Describes a saved fit without its model, which the page does not have."""

from __future__ import annotations

import numpy as np

from gpec.data import Groups
from gpec.explanation import Explanation
from gpec.intervals.order_statistics import AllExplained
from gpec.intervals.rules import SimilarRows, Value
from gpec.pipeline.fitted import SavedFit, SavedGPEC
from gpec.report._facts import facts_of, settings_of

_LEVEL = 0.95
_OF_KERNEL = ("kernel", "lam", "rho", "output_scale")  # settings that are facts of a fit in mode "predict"


def describe_fit(saved: SavedGPEC, name: str) -> tuple[Explanation, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The rows explained in fit, sentences on what the fit promises, and facts about it."""
    fitted = saved.fitted
    diagnostics = {name: value for name, value in saved.diagnostics.items() if name not in ("model_rows", "seconds")}
    diagnostics["settings"] = {**diagnostics.get("settings", {}), **fitted.settings}
    groups, seen = Groups.of(fitted.settings.get("groups"), fitted.schema), fitted.observations
    values, U = seen.attribution.values, seen.U
    classes = [str(c) for c in range(values.shape[2])]  # files do not store their names
    single = None if diagnostics.get("regression") else "1"
    explanation = Explanation.of_outputs(
        values=values,
        model_variance=np.zeros_like(values),
        noise_variance=U,
        explainer_variance=U,
        base_values=seen.attribution.base_values,
        data=groups.data(seen.rows, fitted.schema),
        feature_names=list(groups.names),
        output_names=classes if len(classes) > 1 else single,
        diagnostics=diagnostics,
    )
    facts = ("Mode", fitted.mode), ("Explained rows", f"{len(values):,}"), ("Features", f"{fitted.schema.n_features:,}")
    kernel = [fact for fact in settings_of(explanation) if fact[0] in _OF_KERNEL and fitted.mode == "predict"]
    return explanation, _statements(fitted, name), (*facts, *facts_of(explanation, saved.diagnostics), *kernel)


def _statements(fitted: SavedFit, name: str) -> tuple[str, ...]:
    scores = fitted.calibration
    nothing = np.zeros((1, 1))
    if fitted.similarity is None:
        promises = ["This fit has the paper's intervals, which promise no coverage."]
    elif fitted.mode == "explain":
        exact = AllExplained(nothing[..., :0], fitted.similarity.phrase, fitted.similarity.random)
        promises = [exact.statement(_LEVEL)]
    else:
        rule = SimilarRows(nothing, nothing, scores.similar, fitted.similarity.phrase)
        promises = [
            f"With the explainer: {rule.statement(_LEVEL)}",
            f"With the posterior: {Value(scores.value).statement(_LEVEL)}",
        ]
    return (
        "Below are the rows that were explained in fit; their bars show the explainer's own noise and nothing else, "
        "since intervals need the model.",
        *promises,
        f"To explain new rows: gpec explain DATA --fitted {name} --model MODEL",
    )
