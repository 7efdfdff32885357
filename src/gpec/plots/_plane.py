"""Two features of a fitted GPEC as the axes of a plot: grid, ticks, and the values of the other features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpec._numbers import shorten
from gpec.data import Schema
from gpec.data._dates import as_dates, date_numbers
from gpec.data._labels import column_of
from gpec.errors import InputError
from gpec.plots._style import label, plain
from gpec.typing import FloatArray

_MARGIN = 0.05  # of the range, on both sides
_RARE = 0.005  # share of rows at either end that may lie outside the plot
_MOST_TICKS = 25  # names of categories
_SPREAD = 0.7  # of a cell, over which the rows of a category are drawn
_STEPS = (0.6180339887, 0.7548776662)  # fill a cell evenly for any number of rows
_INSIDE = 0.4999  # of a cell: the border between two categories


@dataclass(frozen=True, eq=False)
class PlaneAxis:
    """One axis: numbers from ``low`` to ``high``, or categories, which lie at 0, 1, 2 and so on."""

    name: str
    low: float
    high: float
    categories: tuple[str, ...] | None = None
    as_text: Callable[[float], str] | None = None  # of dates

    def centers(self, n: int) -> FloatArray:
        """Centres of the cells of a grid."""
        if self.categories is not None:
            return np.arange(len(self.categories), dtype=np.float64)
        edges = np.linspace(self.low, self.high, n + 1)
        return np.asarray((edges[1:] + edges[:-1]) / 2)

    def contours(self, centers: FloatArray, surface: FloatArray, along: int) -> tuple[FloatArray, FloatArray]:
        """Centres and surface for contours, extended to the frame and to the borders between categories."""
        if self.categories is None:
            first, last = (np.take(surface, [i, i + step], axis=along) for i, step in ((0, 1), (-1, -1)))
            ends = [np.take(end, [0], along) - np.diff(end, axis=along) / 2 for end in (first, last)]
            reaching = np.concatenate(([self.low], centers, [self.high]))
            return reaching, np.concatenate((ends[0], surface, ends[1]), axis=along)
        both = (centers[:, None] + np.array([-_INSIDE, _INSIDE])).ravel()
        return both, np.repeat(surface, 2, axis=along)

    def dress(self, axis: Axis) -> None:
        """Write name and ticks."""
        axis.set_label_text(label(self.name))
        if self.categories is not None:
            shown = range(0, len(self.categories), -(-len(self.categories) // _MOST_TICKS))
            axis.set_ticks(list(shown), [plain(shorten(self.categories[i], 20)) for i in shown])
        elif self.as_text is not None:
            as_text = self.as_text
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(FuncFormatter(lambda value, _: plain(as_text(value))))


@dataclass(frozen=True, eq=False)
class Plane:
    """Two columns as axes, and the encoded row with the fixed values of all other columns."""

    columns: tuple[int, int]
    axes: tuple[PlaneAxis, PlaneAxis]
    row: FloatArray

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: tuple[int, int],
        row: FloatArray,
        rows: FloatArray,
        limits: Any,
        inside: FloatArray | None = None,
    ) -> Plane:
        """Axes that show nearly all encoded ``rows`` and all of those ``inside``, or have the given ``limits``."""
        given = (None, None) if limits is None else tuple(limits)
        if len(given) != 2:
            raise InputError(f"limits={limits!r} must be two pairs (low, high), the first for the horizontal axis.")
        always = rows[:0] if inside is None else inside
        first, second = (_axis(schema, j, rows[:, j], always[:, j], given[k]) for k, j in enumerate(columns))
        return cls(columns, (first, second), row)

    def grid(self, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centres along both axes, and the encoded rows of all cells, line by line from below."""
        across, up = (axis.centers(n) for axis in self.axes)
        rows = np.tile(self.row, (len(across) * len(up), 1))
        rows[:, self.columns[0]], rows[:, self.columns[1]] = np.tile(across, len(up)), np.repeat(up, len(across))
        return across, up, rows

    def spread(self, rows: FloatArray) -> FloatArray:
        """Positions of encoded rows, ``(2, n)``: rows of one category are spread over its cell."""
        places = rows[:, self.columns].T.copy()
        for axis, place, step in zip(self.axes, places, _STEPS, strict=True):
            if axis.categories is not None:
                place += _SPREAD * (np.arange(len(place)) * step % 1.0 - 0.5)
        return places

    def contours(self, across: FloatArray, up: FloatArray, surface: FloatArray) -> tuple[FloatArray, ...]:
        """The same centres and surface ``(up, across)`` for contours."""
        across, surface = self.axes[0].contours(across, surface, 1)
        up, surface = self.axes[1].contours(up, surface, 0)
        return across, up, surface

    def dress(self, ax: Axes) -> None:
        """Limits, names and ticks."""
        ax.set_xlim(self.axes[0].low, self.axes[0].high)
        ax.set_ylim(self.axes[1].low, self.axes[1].high)
        for side, axis in zip((ax.xaxis, ax.yaxis), self.axes, strict=True):
            axis.dress(side)
        crowded = self.axes[0].categories is not None and sum(map(len, self.axes[0].categories)) > 40
        if crowded or self.axes[0].as_text is not None:
            ax.tick_params(axis="x", rotation=30)
            for tick in ax.get_xticklabels():
                tick.set_horizontalalignment("right")


def choose_columns(features: Any, schema: Schema, default: tuple[int, int], who: str) -> tuple[int, int]:
    """The two columns that ``features`` names."""
    if schema.n_features < 2:
        raise InputError(f"{who} draws over two features, and the rows have only one; use gpec.plots.scatter.")
    if features is None:
        return default
    chosen = [features] if isinstance(features, str) else list(features)
    if len(chosen) != 2:
        raise InputError(f"features={features!r} must name two columns, the horizontal axis first.")
    first, second = (column_of("features", one, schema.names, schema.labels) for one in chosen)
    if first == second:
        raise InputError(f"features={features!r} names one column twice; name two different ones.")
    return first, second


def choose_output(output: Any, names: Any, who: str) -> int:
    """The position of a class among ``names``, given by name or number; a single output needs no choice."""
    if names is None and output is not None:
        raise InputError(f"output={output!r} chooses among classes, and a regressor has none; leave it out.")
    known: list[str] = [] if names is None else [names] if isinstance(names, str) else [str(name) for name in names]
    if output is None:
        if len(known) > 1:
            raise InputError(f"{who} draws one class; choose it by output=, from {known}.")
        return 0
    return position_of(output, known, "output")


def position_of(given: Any, names: Any, argument: str = "feature") -> int:
    """The position among ``names`` of a name or position."""
    if str(given) in names:
        return list(names).index(str(given))
    if isinstance(given, int | np.integer) and not isinstance(given, bool) and 0 <= given < len(names):
        return int(given)
    raise InputError(f"{argument}={given!r} is not one of {list(names)}.")


def one_row(name: str, data: Any, schema: Schema) -> FloatArray:
    """Encode a single row (a Series, a one-row frame, numbers)."""
    if isinstance(data, pd.Series):
        data = data.to_frame().T.infer_objects()
    elif not hasattr(data, "columns") and np.ndim(data) == (1 if schema.shape is None else len(schema.shape)):
        data = np.asarray(data)[None]
    encoded = schema.encode(data, name)
    if len(encoded) != 1:
        raise InputError(f"{name} has {len(encoded)} rows; give one row with the values of the other features.")
    return np.asarray(encoded[0])


def title_over_legend(ax: Axes, title: str, columns: int = 3) -> None:
    """Write the title, and below it the legend if it has entries."""
    handles, _ = ax.get_legend_handles_labels()
    lines = -(-len(handles) // columns)
    ax.set_title(title, pad=6 + 16 * lines)
    if handles:
        ax.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, frameon=False, fontsize="small",
            borderaxespad=0.2, columnspacing=1.2, handletextpad=0.4,
        )  # fmt: skip


def _span(values: FloatArray, inside: FloatArray) -> tuple[float, float]:
    """Range of an axis: all but the rarest values, all of those ``inside``, and a margin."""
    known, inside = values[~np.isnan(values)], inside[~np.isnan(inside)]
    ends = np.append(inside, np.quantile(known, [_RARE, 1 - _RARE]) if len(known) else [])
    if not len(ends):
        return -0.5, 0.5
    low, high = float(ends.min()), float(ends.max())
    room = _MARGIN * (high - low) if high > low else 0.5 * max(abs(low), 1.0)
    return low - room, high + room


def _axis(schema: Schema, j: int, values: FloatArray, inside: FloatArray, limits: Any) -> PlaneAxis:
    name = schema.names[j]
    if j in schema.categories:
        if limits is not None:
            raise InputError(f"limits has {limits!r} for '{name}', whose categories are all drawn; give None for it.")
        categories = tuple(str(category) for category in schema.categories[j])
        return PlaneAxis(name, -0.5, len(categories) - 0.5, categories)
    low, high = _span(values, inside) if limits is None else _limits(schema, j, limits)

    def as_text(value: float) -> str:
        return str(as_dates(np.array([value]), schema.dtypes[j], schema.origins[j])[0])[:10]

    return PlaneAxis(name, low, high, as_text=as_text if j in schema.origins else None)


def _limits(schema: Schema, j: int, limits: Any) -> tuple[float, float]:
    """Given limits in encoded units."""
    wrong = InputError(f"limits has {limits!r} for '{schema.names[j]}'; give (low, high) with low < high.")
    try:
        column = pd.Series(list(limits))
        if j in schema.origins:
            ends = date_numbers(column, schema.dtypes[j], schema.origins[j], schema.names[j], "limits")
        else:
            ends = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise wrong from error
    if len(ends) != 2 or not np.isfinite(ends).all() or ends[0] >= ends[1]:
        raise wrong
    return float(ends[0]), float(ends[1])
