"""The sampled boundary, the shortest path along it between two points, and similarity balls of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.spatial import cKDTree

from gpec._colors import INK, PALETTE, UP
from gpec._numbers import number
from gpec._validation import check_count, check_level
from gpec.boundary import BoundarySample
from gpec.data import Rows, Schema
from gpec.errors import InputError, ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.intervals.protocol import Fitted
from gpec.kernels import WEG, Kernel
from gpec.plots._plane import Plane, choose_columns, choose_output, position_of, title_over_legend
from gpec.plots._style import new_axes, plain
from gpec.typing import FloatArray, IntArray

_BALL, _PATH = PALETTE[4], PALETTE[1]


def boundary(
    g: Any,
    *,
    ax: Axes | None = None,
    features: Any = None,
    output: Any = None,
    ends: Any = None,
    centers: Any = None,
    level: float = 0.9,
    feature: Any = None,
    kernel: Kernel | None = None,
    limits: Any = None,
    n_grid: int = 100,
    title: str = "",
) -> Axes:
    """Draw boundary points, the shortest path along them between two rows, and the similarity balls of some rows.

    The similarity ball of a row ``x`` is the set of rows ``x'`` with ``k(x, x') >= level``: small where the boundary
    nearby is complex, large where it is plain. It is drawn in the plane through its row. With more than two features,
    points and path are projected.

    Parameters
    ----------
    g : GPEC, BoundarySample, GeodesicGraph or array of shape (points, features)
        A fitted GPEC; or boundary points, with distances in their own units.
    ax : Axes, optional
        Where to draw; by default a new figure.
    features : two columns, optional
        The horizontal and the vertical axis; by default the first two.
    output : str or int, optional
        The class whose boundary is drawn, if there are several.
    ends : two rows, optional
        The path is drawn between the boundary points nearest to them.
    centers : rows, optional
        Rows whose similarity balls are drawn.
    level : float
        Least similarity inside a ball; a row's similarity to itself is 1.
    feature : str or int, optional
        The feature whose kernel is used, if a GPEC's kernel differs by feature, as with ``kernel="auto"``.
    kernel : Kernel, optional
        Another kernel, fitted to the boundary: ``WEG(lam=1.0, rho=0.1)`` is the paper's. By default that of
        the GPEC, or ``WEG()`` for mere points.
    limits : pair of (low, high), optional
        Limits of both axes; None for one of them shows all points and centres.
    n_grid : int
        Cells along each axis in which similarity is computed.
    title : str
        Title of the plot.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    check_level(level, "level")
    check_count("n_grid", n_grid, least=2)
    sheet = _of_gpec(g, output) if hasattr(g, "_require_fitted") else _of_points(g, output)
    columns = choose_columns(features, sheet.schema, (0, 1), "boundary")
    middle = None if centers is None else sheet.schema.encode(_rows(centers), "centers")
    path = None if ends is None else sheet.path(ends)
    plane = Plane.of(sheet.schema, columns, sheet.points[0], sheet.points, limits, inside=middle)
    ax = new_axes(ax, (6.4, 4.8), framed=True)
    if middle is not None:
        _draw_balls(ax, plane, middle, _kernel(sheet, kernel, feature), level, n_grid)
        ax.fill([], [], facecolor=_BALL, alpha=0.35, edgecolor=_BALL, label=f"similarity at least {level:g}")
    dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 2.4, "markeredgewidth": 0, "color": INK}
    ax.plot(*plane.spread(sheet.points), zorder=3, label="boundary points", **dots)
    if path is not None:
        _draw_path(ax, plane.spread(sheet.points)[:, path], sheet.graph.points[path])
    if middle is not None:
        x, y = middle[:, columns].T
        ax.scatter(x, y, s=36, color=UP, edgecolors="white", linewidths=0.8, zorder=5, label="centres of balls")
    plane.dress(ax)
    title_over_legend(ax, plain(title))
    return ax


@dataclass(frozen=True, eq=False)
class _Sheet:
    """A boundary: its distinct points as encoded rows, and the graph over them."""

    schema: Schema
    points: FloatArray
    graph: GeodesicGraph
    rows: Callable[[FloatArray, Kernel], Rows]  # encoded rows as input of a kernel
    own: Kernel | None = None  # kernel of a fitted GPEC
    names: tuple[str, ...] = ()  # features or groups of the GPEC
    explained: FloatArray | None = None

    def path(self, ends: Any) -> IntArray:
        """Points from the one nearest to the first row to the one nearest to the second."""
        Z = self.schema.encode(_rows(ends), "ends")
        if len(Z) != 2:
            raise InputError(f"ends has {len(Z)} rows; give the two ends of the path.")
        start, stop = cKDTree(self.graph.points).query(self.schema.embed(Z, "ends"))[1].tolist()
        return self.graph.path(start, stop)


def _rows(rows: Any) -> Any:
    """Lists and tuples of rows as an array; tables as they are."""
    return np.asarray(rows) if isinstance(rows, list | tuple) else rows


def _of_gpec(g: Fitted, output: Any) -> _Sheet:
    fitted = g.sample_boundary()._require_fitted()
    context = fitted.context
    chosen = choose_output(output, context.model.output_names, "boundary")
    points = fitted.boundary.of(chosen).points
    embedded = context.schema.embed(points, "boundary")
    graph, kernel = fitted.along_boundary(chosen)
    graph = GeodesicGraph.build(embedded) if graph is None else graph
    first = cKDTree(embedded).query(graph.points)[1]  # the graph keeps the first of several equal points
    names, explained = tuple(context.groups.names), fitted.observations.rows
    return _Sheet(context.schema, points[first], graph, fitted.rows_for, kernel, names, explained)


def _of_points(points: Any, output: Any) -> _Sheet:
    if isinstance(points, BoundarySample):
        labels = np.unique(points.label)
        names = [str(one) for one in labels.tolist()]
        points = points.of(int(labels[choose_output(output, names, "boundary")])).points
    elif output is not None:
        raise InputError("output= chooses among the classes of a GPEC or BoundarySample; an array of points has none.")
    try:
        graph = points if isinstance(points, GeodesicGraph) else GeodesicGraph.build(points)
    except ParameterTypeError as error:
        raise ParameterTypeError(
            f"boundary draws a fitted GPEC, a BoundarySample, a GeodesicGraph or an array, got {type(points).__name__}."
        ) from error
    schema, encoded = Schema.learn(graph.points, standardize=False)
    return _Sheet(schema, encoded, graph, lambda Z, _: Rows.of(Z))


def _kernel(sheet: _Sheet, kernel: Kernel | None, feature: Any) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """A function of ``m`` centres and ``n`` rows, encoded, that gives their similarity ``(n, m)``."""
    if kernel is not None or sheet.own is None:
        used: Kernel = WEG() if kernel is None else kernel.copy()
        used.fit(sheet.graph, None if sheet.explained is None else sheet.rows(sheet.explained, used))
    else:
        used = sheet.own
    place = None
    if used.varies_by_feature:
        if feature is None:
            raise InputError(
                "The kernel differs by feature; say feature=, or kernel=WEG() for similarity along the boundary alone."
            )
        place = position_of(feature, sheet.names)

    def similarity(centers: FloatArray, cells: FloatArray) -> FloatArray:
        middle = sheet.rows(centers, used)
        K, diagonal = used.cross_to(middle, place)(sheet.rows(cells, used))
        return np.asarray(K / np.sqrt(np.outer(diagonal, used.diag(middle, place))))

    return similarity


def _draw_balls(ax: Axes, plane: Plane, centers: FloatArray, similarity: Any, level: float, n_grid: int) -> None:
    """Each ball in the plane through its centre; without other features all lie in one plane."""
    together = centers.shape[1] == 2
    for group in [centers] if together else centers[:, None]:
        across, up, cells = Plane(plane.columns, plane.axes, group[0]).grid(n_grid)
        for to_center in similarity(group, cells).T:
            x, y, surface = plane.contours(across, up, to_center.reshape(len(up), len(across)))
            if surface.max() < level:  # smaller than a cell: only its centre is drawn
                continue
            ax.contourf(x, y, surface, levels=[level, np.inf], colors=[_BALL], alpha=0.35, zorder=1)
            if surface.min() < level:
                ax.contour(x, y, surface, levels=[level], colors=[_BALL], linewidths=[1.2], zorder=2)


def _draw_path(ax: Axes, places: FloatArray, points: FloatArray) -> None:
    """The path through these positions, with its length and that of the straight line, both from the graph."""
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    straight = float(np.linalg.norm(points[-1] - points[0]))
    ends = places[:, [0, -1]]
    ax.plot(*places, color=_PATH, linewidth=3, zorder=4, label=f"path along it: {number(steps.sum())}")
    ax.plot(*ends, color=INK, linestyle=":", linewidth=1.2, zorder=4, label=f"straight: {number(straight)}")
    ax.plot(*ends, linestyle="none", marker="s", markersize=7, color=_PATH, markeredgecolor=INK, zorder=5)
