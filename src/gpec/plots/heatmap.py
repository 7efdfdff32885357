"""The uncertainty of one attribution as a surface over two features."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, get_args

import numpy as np
from matplotlib.axes import Axes

from gpec._colors import DIVERGING, INK, UNCERTAINTY, UP
from gpec._numbers import level_text
from gpec._validation import check_choice, check_count, check_finite_array
from gpec.errors import BoundaryNotFoundError, InputError
from gpec.intervals.protocol import Fitted
from gpec.plots._plane import Plane, choose_columns, choose_output, one_row, position_of, title_over_legend
from gpec.plots._style import label, new_axes, plain
from gpec.typing import FloatArray

_MOST_POINTS = 2_000  # boundary points drawn

Quantity = Literal["width", "std", "value", "model_variance", "noise_variance"]


def heatmap(
    g: Fitted,
    feature: Any,
    *,
    ax: Axes | None = None,
    features: Any = None,
    output: Any = None,
    data: Any = None,
    quantity: Quantity | Callable[[Any], Any] = "width",
    attribution: Literal["posterior", "explainer"] | None = None,
    confidence_level: float = 0.95,
    limits: Any = None,
    color_limits: tuple[float, float] | None = None,
    n_grid: int = 60,
    boundary: bool = True,
    explained: bool = True,
    cmap: Any = None,
    bar_label: str | None = None,
    title: str | None = None,
) -> Axes:
    """Draw the uncertainty of one feature's attribution over two features.

    The decision boundary is black: its sampled points if the rows have two features; if they have more, the line
    at which the model changes its answer in the slice shown. The rows that a fit in mode "predict" learned from are
    circles, hollow ones where their other features differ from the slice. Rows of one category are spread over its
    cell.

    Parameters
    ----------
    g : GPEC
        A fitted one.
    feature : str or int
        The feature (or group) whose attribution is shown.
    ax : Axes, optional
        Where to draw; by default a new figure.
    features : two columns, optional
        The horizontal and the vertical axis; by default both features, or if there are more, ``feature`` and, of
        the others, the one with the largest attributions.
    output : str or int, optional
        The class, if there are several.
    data : one row, optional
        Values of all other features; by default those of the explained row nearest to the mean.
    quantity : {"width", "std", "value", "model_variance", "noise_variance"} or function
        What the colour shows: the width of the interval, the standard deviation, the attribution itself, or one part of
        the variance. A function is given rows and returns one number for each: so other methods can be drawn, too.
    attribution : {"posterior", "explainer"}, optional
        As in ``g.explain``. By default the posterior, which is cheap; in mode "explain" the explainer, which runs for
        each cell of the grid and its similar rows.
    confidence_level : float
        Level of the interval.
    limits : pair of (low, high), optional
        Limits of both axes; None for one of them shows the rows of ``fit``.
    color_limits : (low, high), optional
        Range of the colours, to compare several plots.
    n_grid : int
        Cells along each axis; a category is one cell.
    boundary, explained : bool
        Draw the boundary; draw the explained rows.
    cmap : colormap, optional
        By default bright is uncertain; for values, red raises and blue lowers the model's answer.
    bar_label : str, optional
        Label of the colour bar; by default the quantity and its unit.
    title : str, optional
        By default the feature and its class.

    Returns
    -------
    Axes
        The axes drawn on; the colour bar has its own.
    """
    fitted = g._require_fitted()
    schema, groups, model = fitted.context.schema, fitted.context.groups, fitted.context.model
    check_count("n_grid", n_grid, least=2)
    if attribution is None:
        attribution = "explainer" if fitted.context.mode == "explain" else "posterior"
    check_choice("attribution", attribution, ("posterior", "explainer"))
    place = position_of(feature, groups.names)
    several = model.n_outputs > 1
    chosen = choose_output(output, model.output_names, "heatmap")
    columns = choose_columns(features, schema, _usual(fitted, place, chosen), "heatmap")
    row = _middle(schema, fitted.observations.rows) if data is None else one_row("data", data, schema)
    plane = Plane.of(schema, columns, row, fitted.pool, limits)
    across, up, cells = plane.grid(n_grid)
    rows = schema.decode(cells)
    if callable(quantity):
        amounts, bar = _numbers(quantity(rows), len(cells)), "uncertainty"
    else:
        check_choice("quantity", quantity, get_args(Quantity))
        e = g.explain(rows, attribution=attribution, confidence_level=confidence_level)
        e = e[:, place, chosen] if several else e[:, place]
        amounts = e.values if quantity == "value" else getattr(e, quantity)
        bar = _bar_label(quantity, confidence_level, str(e.diagnostics.get("unit", "")))
    surface = amounts.reshape(len(up), len(across))
    ax = new_axes(ax, (6.4, 4.8), framed=True)
    low, high = _color_limits(surface, color_limits, quantity == "value")
    colors = cmap or (DIVERGING if quantity == "value" else UNCERTAINTY)
    mesh = ax.pcolormesh(across, up, surface, cmap=colors, vmin=low, vmax=high, shading="nearest", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label=plain(bar if bar_label is None else bar_label))
    sample = None
    if boundary and (schema.n_features == 2 or model.is_regressor):
        with suppress(BoundaryNotFoundError):  # then there is none to draw
            sample = g.sample_boundary()._require_fitted().boundary
    if sample is not None and schema.n_features == 2:
        points = sample.of(chosen).points
        _draw_points(ax, plane.spread(points[:: -(-len(points) // _MOST_POINTS)]), model.kind.sampled)
    elif boundary and schema.n_features > 2:
        levels = [] if sample is None else sample.levels
        for margin in model.kind.margins(model.answers(cells), chosen, model.threshold, levels):
            _draw_slice(ax, *plane.contours(across, up, margin.reshape(surface.shape)), named=model.kind.boundary)
    if explained and fitted.context.mode == "predict":
        _draw_explained(ax, plane.spread(fitted.observations.rows), apart=schema.n_features > 2)
    plane.dress(ax)
    of_class = f", class {label(model.output_names[chosen])}" if several else ""
    title_over_legend(ax, f"{label(groups.names[place])}{of_class}" if title is None else plain(title))
    return ax


def _usual(fitted: Any, place: int, output: int) -> tuple[int, int]:
    """The column of the feature, and that of the other feature with the largest attributions."""
    members = fitted.context.groups.members
    if fitted.context.schema.n_features <= 2 or len(members) == 1:
        return 0, 1
    first = int(members[place][0])
    size = np.abs(fitted.observations.attribution.values[:, :, output]).mean(axis=0)
    size[place] = -1.0
    return first, int(members[int(size.argmax())][0])


def _middle(schema: Any, rows: FloatArray) -> FloatArray:
    """The row nearest to the mean of all rows."""
    embedded = schema.embed(rows)
    away = np.abs(embedded - np.median(embedded, axis=0)).sum(axis=1)
    return np.asarray(rows[int(away.argmin())])


def _numbers(answer: Any, n: int) -> FloatArray:
    surface = check_finite_array("what quantity returned", answer)
    if surface.shape != (n,):
        raise InputError(f"quantity returned the shape {surface.shape}; it must give one number for each of {n} rows.")
    return surface


def _bar_label(quantity: Any, level: float, unit: str) -> str:
    words = {
        "width": f"width of the {level_text(level)} interval",
        "std": "standard deviation",
        "value": "attribution",
        "model_variance": "variance, model part",
        "noise_variance": "variance, noise part",
    }
    squared = f"{unit}, squared" if quantity.endswith("variance") else unit
    return f"{words[quantity]} ({squared})" if unit else words[quantity]


def _color_limits(surface: FloatArray, given: Any, signed: bool) -> tuple[float, float]:
    """Range of the colours; a constant surface gets a margin, so that its colour bar has numbers."""
    if given is not None:
        low, high = check_finite_array("color_limits", given).tolist()
        if low >= high:
            raise InputError(f"color_limits={given!r} must be (low, high) with low < high.")
        return low, high
    most = float(np.abs(surface).max())
    if signed:
        return (-most, most) if most else (-1.0, 1.0)
    low, high = float(surface.min()), float(surface.max())
    if high - low > 1e-9 * most:
        return low, high
    return (0.0, 2 * most) if most else (0.0, 1.0)


def _draw_points(ax: Axes, places: FloatArray, of: str) -> None:
    """Small black points with a white edge, visible on bright and dark colours."""
    dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markeredgewidth": 0}
    ax.plot(*places, markersize=3.6, color="white", zorder=2, **dots)
    ax.plot(*places, markersize=2.2, color=INK, zorder=3, label=f"sampled {of}", **dots)


def _draw_slice(ax: Axes, across: FloatArray, up: FloatArray, margin: FloatArray, *, named: str) -> None:
    """The line where the model changes its class or passes a level; none if it predicts one class everywhere."""
    if (margin > 0).all() or not (margin > 0).any():
        return
    for color, width in (("white", 3.2), (INK, 1.6)):
        ax.contour(across, up, margin, levels=[0.0], colors=[color], linewidths=[width], zorder=2)
    if named not in ax.get_legend_handles_labels()[1]:  # one entry for several levels
        ax.plot([], [], color=INK, linewidth=1.6, label=named)


def _draw_explained(ax: Axes, places: FloatArray, *, apart: bool) -> None:
    """The explained rows; hollow if they lie ``apart`` from the plane shown."""
    x, y = places
    if apart:
        ax.scatter(x, y, s=24, zorder=4, linewidths=2.4, edgecolors="white", facecolors="none")
        ax.scatter(x, y, s=24, zorder=5, linewidths=1.2, edgecolors=UP, facecolors="none", label="explained rows")
    else:
        ax.scatter(x, y, s=22, zorder=5, linewidths=0.8, edgecolors="white", facecolors=UP, label="explained rows")
