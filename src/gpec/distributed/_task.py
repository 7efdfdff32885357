"""The task that is the same for every partition: a GPEC and the arguments of explain, sent to the workers."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpec._validation import check_choice, check_level
from gpec.data import Schema
from gpec.distributed._layout import ResultLayout
from gpec.errors import PosteriorWarning
from gpec.explanation import Explanation
from gpec.models._torch import is_module
from gpec.pipeline.fitted import Fitted
from gpec.runtime.payload import Payload, one_at_a_time


@dataclass(frozen=True, eq=False)
class ExplainTask:
    """How to explain rows; sent to every worker once."""

    payload: Payload
    attribution: Literal["explainer", "posterior"]
    confidence_level: float
    errors: Literal["raise", "keep"]
    layout: ResultLayout

    @classmethod
    def of(cls, g: Any, attribution: Any, confidence_level: float, errors: Any) -> ExplainTask:
        """Check the arguments, and learn the layout of results from one row; where possible, no explainer is run."""
        fitted: Fitted = g._require_fitted()
        check_choice("attribution", attribution, ("explainer", "posterior"))
        check_choice("errors", errors, ("raise", "keep"))
        level = check_level(confidence_level)
        fitted.require_level(attribution, level)
        if attribution == "explainer":
            fitted.require_explainer()
        payload = _packed(g, fitted, attribution)
        with warnings.catch_warnings():
            if attribution == "explainer":
                warnings.simplefilter("ignore", PosteriorWarning)
            cheapest: Any = "posterior" if fitted.context.mode == "predict" else attribution
            one = g.explain(fitted.context.schema.decode(fitted.observations.rows[:1]), attribution=cheapest)
        return cls(payload, attribution, level, errors, ResultLayout.like(one, fitted, keeps_errors=errors == "keep"))

    @property
    def schema(self) -> Schema:
        """The columns given to ``fit``."""
        schema: Schema = self.payload.open()["GPEC"]._fitted.context.schema
        return schema

    def explain(self, rows: Any) -> Explanation:
        """Explain rows with the GPEC of this process."""
        g = self.payload.open()["GPEC"]
        with one_at_a_time(self._alone(g)):
            found: Explanation = g.explain(
                rows, attribution=self.attribution, confidence_level=self.confidence_level, keep_similar=False
            )
        return found

    def model_still_answers(self) -> bool:
        """Whether the model still gives the answers of ``fit``; if so, the rows are at fault."""
        fitted = self.payload.open()["GPEC"]._fitted
        try:
            fitted.model_fingerprint.require_same(fitted.context.model)
        except Exception:
            return False
        return True

    def _alone(self, g: Any) -> bool:
        """Whether threads must take turns: a Module switches its mode, and some explainers set a seed."""
        explainer = g._fitted.context.explainer
        return is_module(g.model) or (self.attribution == "explainer" and not explainer.threads)


def _packed(g: Any, fitted: Fitted, attribution: str) -> Payload:
    """A GPEC for workers: one thread, no progress bars, and no boundary, which only ``fit`` needs.

    Prediction needs no explainer, so it is not sent, and its packages are not imported.
    """
    nothing: Any = None
    output_models = tuple(replace(output_model, graph=nothing) for output_model in fitted.output_models)
    lean, context = copy.copy(g), fitted.context
    for name in ("boundary_", "graph_", "kernel_", "posterior_"):
        vars(lean).pop(name, None)
    lean.n_jobs, lean.progress = 1, False
    if attribution == "posterior":
        lean.explainer, context = nothing, replace(context, explainer=nothing)
    # the user was warned of a low R2 already
    lean._fitted = replace(fitted, context=context, output_models=output_models, boundary=nothing, loo_r2=None)
    return Payload.of(model=g.model, explainer=lean.explainer, similar=lean.similar, GPEC=lean)
