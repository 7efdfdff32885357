"""One row: from the base value to the model's answer, feature by feature, each step with its interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from gpec._colors import FAINT, GREY, INK
from gpec._numbers import answer_text, number
from gpec._validation import check_count
from gpec.intervals.protocol import Explained
from gpec.intervals.trust import SIGN_LEVELS
from gpec.plots._feature_axes import bar, feature_axes, firmness_legend, names_and_values, whiskers, zero_line
from gpec.plots._style import axis_note, largest, promise_label, require_axes, unit_label
from gpec.typing import IntArray

_ROUNDING = 1e-9  # of levels
_ALIKE = 0.005  # of the answer or the largest step: tolerated gap between the sum and the model's answer


class _Step(NamedTuple):
    name: str
    value: float
    lower: float
    upper: float
    word: str


def waterfall(e: Explained, *, ax: Axes | None = None, max_features: int = 10, legend: bool = True) -> Axes:
    """Draw how the attributions of one row lead from the base value to the model's answer.

    Read from top to bottom: each step starts where the one above ended. The line on a step is the interval of this step
    alone: it shows where the step could have ended. A full bar has a firm sign, a pale one a likely sign and a hatched
    one an unclear sign; see :func:`gpec.intervals.firmness`.

    Parameters
    ----------
    e : Explanation
        Of a single row and a single class: ``e[0]`` or ``e[0, :, "class"]``.
    ax : Axes, optional
        Where to draw; by default a new figure.
    max_features : int
        Number of features with their own step, largest first. The others are joined in one step.
    legend : bool
        Explain the fills.

    Returns
    -------
    Axes
        The axes drawn on.

    Notes
    -----
    Attributions of other features may move together or against each other, so their intervals do not simply add. Where
    similar rows were explained, the interval of the joined step is that of their sums (or, with
    ``keep_similar=False``, the sum of the intervals, which is wider). Else the predicted changes are added for each
    similar row, and what the prediction leaves open is added as if independent between features. That is an estimate:
    calibration checks features one by one, not their sum.

    Where an explainer gives no base value, the steps start at 0 and the picture says so. Where the steps do not add up
    to the model's answer (LIME, or log-odds), the last line is called "sum" and the model's answer stands below.
    """
    require_axes(e, ("feature",), "waterfall")
    steps = _steps(e, check_count("max_features", max_features))
    base = 0.0 if e.base_values is None else float(e.base_values)
    ends = base + np.cumsum([step.value for step in steps])
    starts = np.concatenate([[base], ends[:-1]])
    most = max(abs(step.value) for step in steps)
    first, last, missed = _ends(e, float(ends[-1]), most)
    ax, place = feature_axes(ax, [first, *(step.name for step in steps), last], 6.8, 0.36, 1.5)
    _connect(ax, np.concatenate([[base], ends]), place)
    for y, start, step in zip(place[1:-1], starts, steps, strict=True):
        bar(ax, start, step.value, y, step.word)
    lower, upper = (starts + [getattr(step, side) for step in steps] for side in ("lower", "upper"))
    whiskers(ax, lower, upper, place[1:-1])
    for y, step, right in zip(place[1:-1], steps, np.maximum(np.maximum(starts, ends), upper), strict=True):
        _write(ax, number(step.value, most, sign=True), right, y)
    for y, at in ((place[0], base), (place[-1], ends[-1])):
        ax.plot([at], [y], marker="D", markersize=5, color=INK, linestyle="none")
        _write(ax, number(float(at), [most, base, ends[-1]]), float(at), y)
    ax.use_sticky_edges = False
    ax.margins(x=0.14)
    axis_note(ax, f"{unit_label(e)}, added step by step", promise_label(e) + missed)
    if legend:
        firmness_legend(ax, len(place))
    return ax


def _steps(e: Explained, count: int) -> list[_Step]:
    """The largest attributions, and the others in one step if there are at least two."""
    order = largest(np.abs(e.values), len(e))
    alone = order if len(e) <= count + 1 else order[:count]
    shown = e[alone]
    parts = (names_and_values(shown), shown.values, *shown.interval(), shown.firmness)
    steps = [_Step(*step) for step in zip(*parts, strict=True)]
    return steps if len(alone) == len(e) else [*steps, _joined(e, order[len(alone) :])]


def _joined(e: Explained, rest: IntArray) -> _Step:
    """The sum of some attributions, with the interval of a sum."""
    part = e[rest]

    def bounds(level: float) -> tuple[float, float]:
        lower, upper = part.rule.bounds_of_sum(part.values, part.std, level)
        return float(lower), float(upper)

    known = {word: level for word, level in SIGN_LEVELS.items() if part.rule.attainable(level) > level - _ROUNDING}
    sides = {word: bounds(part.rule.attainable(level)) for word, level in known.items()}
    word = next((word for word, (lower, upper) in sides.items() if lower > 0 or upper < 0), "unclear")
    return _Step(f"{len(rest):,} others", float(part.values.sum()), *bounds(e.confidence_level), word)


def _ends(e: Explained, total: float, most: float) -> tuple[str, str, str]:
    """Names of the first and the last line, and a note if the steps do not reach the model's answer."""
    first = "start (no base value)" if e.base_values is None else "base value"
    if e.predictions is None:
        return first, "sum", ""
    answer = float(e.predictions)
    if abs(answer - total) <= _ALIKE * max(most, abs(answer)):
        return first, "model's answer", ""
    return first, "sum", f"; the model's answer is {answer_text(answer, e.output_names is not None)}"


def _connect(ax: Axes, ends: np.ndarray, place: IntArray) -> None:
    """Thin lines from each step down to the next."""
    zero_line(ax, len(place), at=float(ends[0]), color=FAINT)
    ax.vlines(ends, place[1:] - 0.33, place[:-1] + 0.33, color=GREY, linewidth=0.7, zorder=1)


def _write(ax: Axes, text: str, x: float, y: float) -> None:
    """A small number to the right of a mark."""
    ax.annotate(text, (x, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize="small", color=INK)
