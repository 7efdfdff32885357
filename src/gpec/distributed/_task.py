"""What is the same for every partition: the task that is sent to the workers, and the layout of results."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from gpec._validation import check_choice, check_level
from gpec.data import Schema
from gpec.errors import PosteriorWarning
from gpec.explanation import Explanation
from gpec.models._torch import is_module
from gpec.pipeline.fitted import Fitted
from gpec.pipeline.similar_rows import similar_to_explain
from gpec.runtime.payload import Payload, one_at_a_time


@dataclass(frozen=True, eq=False)
class ResultLayout:
    """The lines of :meth:`gpec.Explanation.to_frame`, with the same types in every partition.

    ``of_one`` are those of one row, a template.
    """

    of_one: pd.DataFrame
    keeps_errors: bool

    @classmethod
    def like(cls, one: Explanation, fitted: Fitted, *, keeps_errors: bool) -> ResultLayout:
        """The layout of the explanation of one row. ``data`` is numeric only if all features are."""
        frame = one.to_frame()
        if not (fitted.context.schema.plain and fitted.context.groups.single):
            frame["data"] = frame["data"].astype(object)
        return cls(frame, keeps_errors)

    @property
    def per_row(self) -> int:
        return len(self.of_one)

    @property
    def numeric(self) -> bool:
        """Whether ``data`` holds numbers only."""
        return self.of_one["data"].dtype != object

    def empty(self, labels: Any) -> pd.DataFrame:
        """An empty frame with the types of a result for rows with these labels."""
        texts = pd.api.types.is_string_dtype(labels.dtype) and len(labels) == 0
        none = self.of_one.iloc[:0].assign(row=_as_column(["a"] if texts else labels)[:0])
        return none.assign(error=_texts(0, None)) if self.keeps_errors else none

    def of(self, e: Explanation, labels: Any) -> pd.DataFrame:
        """The lines of explained rows."""
        frame = replace(e, row_names=np.asarray(labels)).to_frame()
        frame["row"] = _repeated(labels, self.per_row)
        if not self.numeric:
            frame["data"] = frame["data"].astype(object)
        return frame.assign(error=_texts(len(frame), None)) if self.keeps_errors else frame

    def of_failed(self, labels: Any, reason: str) -> pd.DataFrame:
        """The lines of rows that could not be explained, with missing numbers."""
        n = len(labels)
        frame = pd.concat([self.of_one] * n, ignore_index=True)
        for name in frame.columns.difference(["row", "feature", "output"]):
            frame[name] = np.nan if self.numeric or name != "data" else None
        frame["row"] = _repeated(labels, self.per_row)
        return frame.assign(error=_texts(len(frame), reason))

    def joined(self, parts: list[pd.DataFrame], labels: Any) -> pd.DataFrame:
        """All lines, numbered from 0."""
        filled = [part for part in parts if len(part)]
        return pd.concat(filled, ignore_index=True) if filled else self.empty(labels)


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
        n_similar = similar_to_explain(fitted, attribution, level, None)
        if attribution == "explainer" and (fitted.observations.given is None or n_similar):
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
            explanation: Explanation = g.explain(
                rows, attribution=self.attribution, confidence_level=self.confidence_level, keep_similar=False
            )
        return explanation

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
        runs = self.attribution == "explainer" and explainer is not None
        return is_module(g.model) or (runs and not explainer.threads)


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


def _texts(n: int, text: str | None) -> pd.Series[Any]:
    return pd.Series([text] * n, dtype=pd.Series(["a"]).dtype)


def _as_column(labels: Any) -> pd.Series[Any]:
    """As :meth:`Explanation.to_frame` would have them."""
    return pd.DataFrame({"row": np.asarray(labels)})["row"]


def _repeated(labels: Any, times: int) -> Any:
    return _as_column(labels).repeat(times).reset_index(drop=True)
