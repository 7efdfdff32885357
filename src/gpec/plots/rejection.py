"""Rejection curves: the error that remains when the most uncertain entries are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from gpec._colors import INK
from gpec.errors import InputError, ParameterTypeError
from gpec.metrics import RejectionCurve
from gpec.plots._plane import title_over_legend
from gpec.plots._style import label, look, new_axes
from gpec.typing import FloatArray

_FINE = 400  # points of a curve
_STEADY = 0.95  # share rejected up to which the whole curve is visible


def rejection(
    curves: RejectionCurve | Mapping[str, RejectionCurve],
    *,
    ax: Axes | None = None,
    error: str = "mean error of what remains",
    oracle: bool = True,
    random: bool = True,
    title: str = "",
) -> Axes:
    """Draw the mean error of what remains against the share rejected, the most uncertain first.

    The lower a curve runs, the better the uncertainty finds the errors. None can run below that of the oracle, which
    rejects the greatest errors first; one that knows nothing runs along that of chance.

    Parameters
    ----------
    curves : RejectionCurve, or dict of them by name
        From :func:`gpec.metrics.rejection_curve`.
    ax : Axes, optional
        Where to draw; by default a new figure.
    error : str
        Label of the vertical axis.
    oracle, random : bool
        Draw the oracle; draw chance. Each is drawn once if it is the same for all curves.
    title : str
        Title of the plot.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    named = _named(curves)
    ax = new_axes(ax, (5.6, 4.2))
    first = next(iter(named.values()))
    alike = all(_same_errors(first, curve) for curve in named.values())
    for i, (name, curve) in enumerate(named.items()):
        gain = "" if np.isnan(curve.gain) else f" (gain {curve.gain:.2f})"
        words = f"{label(name, width=26)}{gain}"
        style = {**look(i), "marker": "", "linewidth": 1.8, "zorder": 3}
        ax.plot(*_fine(curve.shares, curve.errors), label=words, **style)
    for i, curve in enumerate([first] if alike else named.values()):
        color = INK if alike else look(i)["color"]
        _draw_bounds(ax, curve, color, oracle=oracle, random=random, named=curve is first)
    ax.set(xlim=(0, 1), ylim=_reach(list(named.values())), xlabel="share rejected", ylabel=label(error, width=60))
    title_over_legend(ax, label(title, width=60), columns=2)
    return ax


def _named(curves: Any) -> dict[str, RejectionCurve]:
    named = dict(curves) if isinstance(curves, Mapping) else {"uncertainty": curves}
    if not named:
        raise InputError("curves is empty; give at least one RejectionCurve.")
    for name, curve in named.items():
        if not isinstance(curve, RejectionCurve):
            raise ParameterTypeError(
                f"curves has {type(curve).__name__} under {name!r}; give what gpec.metrics.rejection_curve returns."
            )
    return {str(name): curve for name, curve in named.items()}


def _same_errors(one: RejectionCurve, other: RejectionCurve) -> bool:
    """Whether both have the same errors, so that oracle and random curve are the same."""
    same = one.oracle_errors.shape == other.oracle_errors.shape
    return same and np.allclose(one.oracle_errors, other.oracle_errors, rtol=1e-9, atol=0.0)


def _fine(shares: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The curve between its points: entries of equal uncertainty are rejected in any proportion."""
    share = np.union1d(shares, np.linspace(0.0, 1.0, _FINE))
    retained = 1.0 - share
    total = np.interp(share, shares, (1.0 - shares) * errors)  # sum of the errors that remain
    return share, np.divide(total, retained, out=np.full_like(total, errors[-1]), where=retained > 1e-12)


def _draw_bounds(ax: Axes, curve: RejectionCurve, color: str, *, oracle: bool, random: bool, named: bool) -> None:
    """The oracle and the random curve; each is named once."""
    words = ("at random", "oracle") if named else (None, None)
    if random:
        ax.axhline(curve.random_area, color=color, linestyle=(0, (1, 2)), linewidth=1.2, zorder=2, label=words[0])
    if oracle:
        fine = _fine(curve.oracle_shares, curve.oracle_errors)
        ax.plot(*fine, color=color, linestyle=(0, (6, 2)), linewidth=0.9, zorder=2, label=words[1])


def _reach(curves: list[RejectionCurve]) -> tuple[float, float]:
    """Vertical limits: the end of a curve, with few entries left, may leave the plot."""
    drawn = [_fine(curve.shares, curve.errors) for curve in curves]
    steady = np.concatenate([error[share <= _STEADY] for share, error in drawn])
    low, high = min(0.0, float(steady.min())), max(0.0, float(steady.max()))
    room = 0.08 * (high - low) or 1.0
    return low - (room if low < 0 else 0.0), high + room
