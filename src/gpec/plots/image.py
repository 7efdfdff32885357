"""The attributions of an image's pixels, between their bounds."""

from __future__ import annotations

from math import isqrt
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from gpec._colors import DIVERGING
from gpec._numbers import level_text
from gpec._validation import check_count
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.plots._plane import choose_output
from gpec.plots._style import label, plain, require_axes, unit_label
from gpec.typing import FloatArray

_INCHES = 2.6  # of a panel


def image(
    e: Explained,
    *,
    ax: Any = None,
    shape: tuple[int, ...] | None = None,
    output: Any = None,
    channel: int | None = None,
    picture: bool = False,
    title: str | None = None,
) -> npt.NDArray[Any]:
    """Draw the upper bound, the value and the lower bound of each pixel's attribution, in one scale of colours.

    Where all three panels have one colour, red or blue, the interval lies on one side of zero; at 95% the sign is firm.

    Parameters
    ----------
    e : Explanation
        Of a single image: ``e[0]``; with several classes also ``e[0, :, "class"]``, or choose by ``output``.
    ax : three Axes, optional
        Where to draw (four with ``picture``); by default a new figure.
    shape : tuple, optional
        ``(height, width)`` or ``(channels, height, width)``; by default a square, of one channel or of three.
    output : str or int, optional
        The class, if there are several.
    channel : int, optional
        The channel whose attributions are shown; needed only if they differ between channels, which those of
        superpixels do not.
    picture : bool
        Draw the image itself before the three.
    title : str, optional
        Title of a new figure; by default the class.

    Returns
    -------
    array of Axes
        The three axes drawn on, or four; the colour bar has its own.
    """
    several = e.axes == ("feature", "output")
    if several:
        e = e[:, choose_output(output, e.output_names, "image")]
    elif output is not None:
        choose_output(output, e.output_names, "image")
    require_axes(e, ("feature",), "image")
    shape = _shape(shape, len(e.values))
    panels = {"upper bound": e.upper, "value": e.values, "lower bound": e.lower}
    shown = {name: _one_channel(array.reshape(shape), channel) for name, array in panels.items()}
    most = max(float(np.abs(array).max()) for array in shown.values()) or 1.0
    axes = _panels(ax, 3 + picture, shape)
    if picture:
        _draw_picture(axes[0], e.data, shape)
    for one, (name, array) in zip(axes[int(picture) :], shown.items(), strict=True):
        drawn = one.imshow(array, cmap=DIVERGING, vmin=-most, vmax=most, interpolation="nearest")
        one.set_title(name, fontsize="medium")
    axes[-1].figure.colorbar(drawn, ax=list(axes[int(picture) :]), label=unit_label(e), shrink=0.9)
    for one in axes:
        one.set(xticks=[], yticks=[])
    if ax is None:
        level = f"{level_text(e.confidence_level)} intervals"
        of_class = "" if e.output_names is None else f"class {label(e.output_names)}, "
        axes[0].figure.suptitle(of_class + level if title is None else plain(title))
    return axes


def _shape(shape: Any, d: int) -> tuple[int, ...]:
    """The given shape, or that of a square image of ``d`` numbers."""
    if shape is not None:
        sizes = tuple(check_count("shape", size) for size in shape)
        if len(sizes) not in (2, 3) or int(np.prod(sizes)) != d:
            raise InputError(
                f"shape={shape} does not fit {d} attributions; give (height, width) or (channels, height, width)."
            )
        return sizes
    for channels in (1, 3):
        side = isqrt(d // channels)
        if channels * side**2 == d:
            return (side, side) if channels == 1 else (channels, side, side)
    raise InputError(f"{d} attributions make no square image; pass shape=(height, width).")


def _one_channel(array: FloatArray, channel: int | None) -> FloatArray:
    """The attributions of one channel, or of all if these are the same."""
    if array.ndim == 2:
        return array
    if channel is not None:
        if check_count("channel", channel, least=0) >= len(array):
            raise InputError(f"channel={channel} is out of range; there are {len(array)} channels.")
        return np.asarray(array[channel])
    if (array != array[:1]).any():
        raise InputError(f"The attributions differ between the {len(array)} channels; choose one by channel=.")
    return np.asarray(array[0])


def _panels(ax: Any, n: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if ax is None:
        tall = _INCHES * min(max(shape[-2] / shape[-1], 0.3), 3.0)
        return np.ravel(plt.subplots(1, n, figsize=(_INCHES * n + 0.9, tall + 0.7), layout="constrained")[1])
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) != n:
        raise InputError(f"image draws {n} panels, but ax holds {len(axes)} Axes; give {n} of them, or none.")
    return axes


def _draw_picture(ax: Any, data: Any, shape: tuple[int, ...]) -> None:
    pixels = np.asarray(data, dtype=np.float64).reshape(shape)
    if len(shape) == 3 and shape[0] == 3:
        low, span = pixels.min(), float(np.ptp(pixels))
        ax.imshow(np.moveaxis((pixels - low) / (span or 1.0), 0, -1), interpolation="nearest")
    else:
        ax.imshow(pixels if len(shape) == 2 else pixels.mean(axis=0), cmap="gray_r", interpolation="nearest")
    ax.set_title("image", fontsize="medium")
