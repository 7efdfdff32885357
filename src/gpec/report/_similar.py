"""The similar rows of the rows in a report: their values, the model's answers and their attributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.errors import InputError
from gpec.intervals.protocol import Explained, Fitted
from gpec.intervals.rules import SimilarRows
from gpec.report._content import Content, columns_of, data_of, shortened, with_axes
from gpec.typing import FloatArray, IntArray

_CELLS = 200_000  # attributions of similar rows in one page
_LEAST = 2 / 3  # of the rows whose similar rows are stored, those with the smallest firm share; others have the largest


def similar_of(e: Explained, content: Content, fit: Fitted | None) -> dict[str, Any]:
    """The data on similar rows for the page's script; at least a sentence that says why there are none."""
    known, reason = _known(e, content), _why_unknown(fit, content)
    data = data_of(e)[content.shown]
    rows = answers = None
    if fit is None or reason:
        if known is None:
            return {"note": reason}
        chosen = _chosen(content, known.shape[1])
        values = known[chosen]
    else:
        count = len(fit.similar_rows(_as_fitted(data[:1], fit))) if known is None else known.shape[1]
        chosen = _chosen(content, count)
        known = None if known is None else known[chosen]
        values, rows, answers = _ask(fit, _as_fitted(data[chosen], fit), e.confidence_level, known)
    return {
        "note": " ".join(filter(None, [reason, _how_many(chosen, content)])),
        "count": values.shape[1],
        "explained": e.diagnostics.get("mode") == "explain",
        "rows": chosen.tolist(),
        "values": [shortened(values[..., k]) for k in range(values.shape[3])],
        "columns": None if rows is None else columns_of(rows),
        "answers": None if answers is None else [shortened(column, 6) for column in answers.T],
    }


def _known(e: Explained, content: Content) -> FloatArray | None:
    """Attributions of similar rows as they were explained, or as the intervals predict them, ``(rows, K, d, c)``."""
    similar = e.similar_values
    if similar is None and isinstance(e.rule, SimilarRows):
        similar = np.moveaxis(e.values[..., None] + e.rule.offset, -1, int("row" in e.axes))
    return None if similar is None else with_axes(e, similar)[content.shown]


def _why_unknown(fit: Fitted | None, content: Content) -> str:
    """A sentence on why the similar rows are unknown; empty if they are known."""
    if fit is None:
        return "To see similar rows, and what the model answers for them, pass the fit: e.to_html(path, gpec=g)."
    if fit.groups is not None:
        return "Which rows they are is not shown, because features were explained in groups."
    if fit.similar is None:
        return "This fit knows no similar rows (similar=None)."
    names = getattr(fit, "feature_names_in_", None)
    expected = content.plain["features"] if names is None else [str(name) for name in names]
    if content.plain["features"] != expected or len(expected) != fit.n_features_in_:
        raise InputError("gpec was fitted to other features than this explanation has; pass the fit that made it.")
    return ""


def _as_fitted(data: npt.NDArray[Any], fit: Fitted) -> Any:
    """The rows as given to ``fit``: a table if its columns had names, with dates parsed from text."""
    names = getattr(fit, "feature_names_in_", None)
    if names is None:
        return data
    rows = pd.DataFrame(data, columns=list(names)).infer_objects()
    seen = getattr(fit.X_explained_, "dtypes", [])
    dates = {name: dtype for name, dtype in zip(rows, seen, strict=False) if getattr(dtype, "kind", "") in ("m", "M")}
    return rows.astype(dates)


def _ask(
    fit: Fitted, rows: Any, level: float, known: FloatArray | None
) -> tuple[FloatArray, npt.NDArray[Any], FloatArray]:
    """Attributions ``(m, K, d, c)`` of similar rows, found unless they are known; those rows; the model's answers."""
    similar = fit.similar_rows(rows)
    count = len(similar) // len(rows)
    if known is not None and known.shape[1] != count:
        raise InputError(
            f"gpec finds {count} similar rows of each row, this explanation is about {known.shape[1]}; pass the "
            "fit that made it."
        )
    if known is None and fit.diagnostics_["mode"] == "explain":
        answer = fit.explain(rows, attribution="explainer", confidence_level=level)
        known = with_axes(answer, answer.similar_values)
    elif known is None:
        answer = fit.explain(similar, attribution="posterior", confidence_level=level)
        known = with_axes(answer, answer.values).reshape(len(rows), count, len(answer.feature_names), -1)
    context = fit._require_fitted().context
    answers = context.model.answers(context.schema.encode(similar))
    return known, np.asarray(similar, dtype=object).reshape(len(similar), -1), answers  # images flattened


def _chosen(content: Content, count: int) -> IntArray:
    """Positions among the rows shown: all, or as many with the smallest and the largest firm share as fit."""
    n, d, c = len(content.shown), len(content.plain["features"]), len(content.plain["outputs"])
    room = max(_CELLS // (count * d * c), 1)
    if n <= room:
        return np.arange(n)
    order = np.argsort(content.least_firm, kind="stable")
    least = int(np.ceil(room * _LEAST))
    return np.sort(np.concatenate([order[:least], order[n - (room - least) :]]))


def _how_many(chosen: IntArray, content: Content) -> str:
    if len(chosen) == len(content.shown):
        return ""
    least = int(np.ceil(len(chosen) * _LEAST))
    return (
        f"To keep the file small, similar rows are kept for the {least:,} of the {len(content.shown):,} rows with the "
        f"smallest firm share and the {len(chosen) - least:,} with the largest."
    )
