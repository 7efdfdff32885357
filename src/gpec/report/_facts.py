"""The sentences and facts of a report: the model and the fit, the promise, and which rows are left out."""

from __future__ import annotations

from typing import Any

from gpec._numbers import value_text
from gpec.intervals.protocol import Explained
from gpec.report._content import Content, extremes, outputs_of

_VALUES = {
    "explainer": "the explainer's own",
    "posterior": "predicted from other rows that the explainer was run on",
}


def facts_of(e: Explained, learned: dict[str, Any]) -> list[tuple[str, str]]:
    """The model and the fit as pairs of a name and a text; unknown facts are left out.

    ``learned`` are the diagnostics of the fit, if it is there.
    """
    about = e.diagnostics
    settings = about.get("settings", {})
    several = "output" in e.axes
    points = _listed(learned["boundary_points"]) if "boundary_points" in learned else settings.get("n_boundary")
    of_prediction = [
        ("Rows explained to learn from", learned.get("explained_rows", settings.get("n_explained"))),
        ("Points on level sets" if e.output_names is None else "Points on the decision boundary", points),
        ("Levels", ", ".join(value_text(level) for level in learned.get("levels", ()))),
        ("Left-out rows predicted, R\N{SUPERSCRIPT TWO}", learned.get("left_out_R2")),
    ]
    facts = [
        ("Model", str(settings.get("model", "")).strip("<>")),
        ("Explainer", str(settings.get("explainer", "")).strip("<>")),
        ("Explained classes" if several else "Explained class", ", ".join(outputs_of(e))),
        ("Unit of attributions", about.get("unit")),
        ("Attributions are", _VALUES.get(about.get("attribution", ""))),
        ("Similar rows", _similar(e)),
        ("Noise of the explainer", about.get("noise")),
        *([] if about.get("mode") == "explain" else of_prediction),
        ("Model rows in the fit", learned.get("model_rows")),
        ("Model rows for this explanation", about.get("model_rows")),
        ("Seconds for the fit", _total(learned.get("seconds"))),
        ("Seconds for this explanation", _total(about.get("seconds"))),
        ("Seed", about.get("seed")),
        ("gpec version", about.get("version")),
    ]
    return [(name, _text(value)) for name, value in facts if value not in (None, "", "auto")]


def settings_of(e: Explained) -> list[tuple[str, str]]:
    """Every parameter of the fit, by name."""
    settings = e.diagnostics.get("settings", {})
    return [(str(name), str(settings[name]).strip("<>")) for name in sorted(settings)]


def how_to_read(e: Explained) -> str:
    """What a narrow and a wide interval mean under this promise."""
    return {
        "similar rows": "A narrow interval: rows much like this one get nearly the same explanation. A wide one: a "
        "small change of the row could give another explanation, although the attribution itself may be exact.",
        "value": "A narrow interval: the explainer, if it were run, would give nearly this value. A wide one: its "
        "answer may differ; run it on the row to know.",
    }.get(
        e.promise,
        "A wide interval means that explanations change near this row; how often it holds is not checked.",
    )


def left_out(content: Content) -> str:
    """Which rows are missing in the page, if any."""
    if len(content.shown) == content.n:
        return ""
    k = extremes(len(content.shown))
    return (
        f"{content.n:,} rows were explained; this page lists {len(content.shown):,} of them: the {k:,} with the "
        f"smallest and the {k:,} with the largest firm share, and others drawn at random. The global picture is that "
        "of all rows."
    )


def _similar(e: Explained) -> str:
    """How the attributions of similar rows were found, if the intervals are about them."""
    if e.promise != "similar rows":
        return ""
    count = getattr(e.rule, "n_similar", None)  # of rules in mode "explain"
    return "predicted" if count is None else f"explained, {count:,} for each row"


def _listed(numbers: Any) -> str:
    return ", ".join(f"{number:,}" for number in numbers) if isinstance(numbers, (list, tuple)) else ""


def _total(seconds: Any) -> float | None:
    return round(float(sum(seconds.values())), 1) if isinstance(seconds, dict) and seconds else None


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else value_text(value, digits=3)
