"""Images: superpixels, explainers over them, and attributions back to pixels.

Superpixels differ from image to image, so a Gaussian process over "superpixel 17" would mean nothing. Attributions are
therefore expanded to pixels before they leave this module; with one segmentation shared by all images every pixel of a
superpixel simply has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from gpec._validation import check_choice, check_count, check_finite_array, check_installed, check_positive
from gpec.data import Schema
from gpec.errors import InputError, ModelCallError
from gpec.explainers import Attribution, Explainer, make_explainer
from gpec.explainers._linked import explained_by
from gpec.explainers.attribution import check_attribution
from gpec.models import Model
from gpec.typing import FloatArray, IntArray

__all__ = ["SuperpixelExplainer", "superpixels"]

_ENTRIES_AT_ONCE = 8_000_000  # 64 MB of masked images
_BLUR = 0.1  # standard deviation, in widths of the image


class _Game(Model):
    """A model of coalitions of superpixels: the user's model on masked images."""

    def __init__(self, model: Model, images: Callable[[Any], Iterator[FloatArray]], schema: Schema) -> None:
        self._user_model, self._images = model, images
        super().__init__(self._worth, schema, model_output=model.kind.model_output)

    def _worth(self, present: Any) -> FloatArray:
        return np.concatenate([self._user_model.answers(some) for some in self._images(present)])

    def outputs(self, Z: FloatArray) -> FloatArray:
        # from the model, as log-odds of probabilities lose precision near 0 and 1
        return np.concatenate([self._user_model.outputs(some) for some in self._images(Z)])


def superpixels(image: Any, n_segments: int = 50, *, compactness: float = 0.1) -> IntArray:
    """Segment one image by SLIC, into about ``n_segments`` connected pieces of similar colour.

    Parameters
    ----------
    image : array of shape (height, width) or (channels, height, width)
    n_segments : int
        Number of pieces; there may be fewer.
    compactness : float
        Weight of distance against colour, both divided by their range.

    Returns
    -------
    int array of shape (height, width)
        The piece of each pixel, numbered from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.images import superpixels
    >>> image = np.zeros((8, 8))
    >>> image[:, 4:] = 1.0
    >>> pieces = superpixels(image, 4)
    >>> int(pieces.max()) + 1, bool((pieces[:, :4] != pieces[:, 4:]).all())
    (4, True)
    """
    segmentation = check_installed("skimage.segmentation", "Segmentation into superpixels", '"gpec[data]"')
    image = check_finite_array("image", image)
    check_count("n_segments", n_segments)
    check_positive("compactness", compactness)
    if image.ndim not in (2, 3):
        raise InputError(f"image must have shape (height, width) or (channels, height, width), got {image.shape}.")
    span = float(np.ptp(image))
    scaled = (image - image.min()) / span if span else np.zeros_like(image)
    channels_last = scaled if image.ndim == 2 else np.moveaxis(scaled, 0, -1)
    pieces = segmentation.slic(
        channels_last,
        n_segments=n_segments,
        compactness=compactness,
        channel_axis=None if image.ndim == 2 else -1,
        convert2lab=False,  # channels need not be sRGB colours
        start_label=0,
    )
    return np.unique(pieces, return_inverse=True)[1].reshape(pieces.shape).astype(np.int64)


class SuperpixelExplainer(Explainer):
    """Explain images by their superpixels, with any explainer of coalitions; values come back as pixels.

    Each superpixel is a feature that is present or absent; if absent, the image shows the baseline. The explainer sees
    nothing but these features: ``"kernelshap"``, ``"shapley_sampling"``, ``"bayesshap"``, ``"bayeslime"``, ``"lime"``
    or an object of :mod:`gpec.explainers`.

    Parameters
    ----------
    explainer : str or Explainer
        The explainer of coalitions.
    n_segments, compactness
        See :func:`superpixels`.
    segments : int array of shape (height, width), optional
        One segmentation for all images, instead of one for each.
    baseline : "mean", "blur", number, or array of the image's shape
        Replacement of absent superpixels: the mean colour of each superpixel, the blurred image, a constant, or an
        image.
    image_shape : tuple, optional
        ``(height, width)`` or ``(channels, height, width)``; needed only if rows are flattened images.

    Notes
    -----
    A pixel's value and variance are those of its superpixel, not a share of them: they say what the superpixel does.
    All classes are explained with the same predictions. Log-odds are explained if the explainer explains them, as
    ``KernelShap(link="logit")`` does.
    """

    rows_at_once = 4  # images are explained one by one, so threads can share them

    def __init__(
        self,
        explainer: Any = "kernelshap",
        *,
        n_segments: int = 50,
        compactness: float = 0.1,
        segments: Any = None,
        baseline: Literal["mean", "blur"] | float | npt.NDArray[Any] = "mean",
        image_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.explainer = explainer
        self.n_segments = n_segments
        self.compactness = compactness
        self.segments = segments
        self.baseline = baseline
        self.image_shape = image_shape

    @property
    def unit(self) -> str:  # type: ignore[override]  # read-only: it follows from the explainer's link
        """What the attributions measure."""
        return f"{explained_by(self, getattr(self.explainer, 'link', 'identity'))}, of the whole superpixel"

    def check(self) -> None:
        make_explainer(self.explainer)
        check_count("n_segments", self.n_segments)
        check_positive("compactness", self.compactness)
        if self.segments is not None and np.ndim(self.segments) != 2:
            raise InputError(f"segments must have shape (height, width), got {np.shape(self.segments)}.")
        if isinstance(self.baseline, str):
            check_choice("baseline", self.baseline, ("mean", "blur"))
        else:
            check_finite_array("baseline", self.baseline)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        shape, d = self.image_shape or model.schema.shape, background.shape[1]
        if shape is None or len(shape) not in (2, 3) or int(np.prod(shape)) != d:
            raise InputError(
                f"image_shape={shape} does not fit rows of {d} numbers; give (height, width) or (channels, "
                "height, width)."
            )
        if len(model.schema.categorical):
            raise InputError("Superpixels need images of numbers, but some columns are categorical.")
        if model.schema.missing.any():
            raise InputError("Superpixels need complete images, but some have missing values; impute them first.")
        self._shape = tuple(int(size) for size in shape)
        self.threads = make_explainer(self.explainer).threads
        if self.segments is not None and np.shape(self.segments) != self._shape[-2:]:
            raise InputError(f"segments has shape {np.shape(self.segments)}, but images are {self._shape[-2:]}.")
        if not isinstance(self.baseline, str) and np.shape(self.baseline) not in ((), self._shape):
            raise InputError(f"baseline has shape {np.shape(self.baseline)}; expected a number or {self._shape}.")

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        return Attribution.join([self._explain_image(*each, i) for i, each in enumerate(zip(Z, seeds, strict=True))])

    def _explain_image(self, row: FloatArray, seed: int, position: int) -> Attribution:
        pieces = self._pieces(row.reshape(self._shape))
        absent = self._baseline(row.reshape(self._shape), pieces).reshape(-1)
        m = int(pieces.max()) + 1
        owner = np.broadcast_to(pieces, self._shape).reshape(-1)  # the same superpixels in all channels
        both = np.array([np.zeros(m), np.ones(m)])
        schema, coalitions = Schema.learn(both, categorical_features=range(m), standardize=False)

        def images(present: Any) -> Iterator[FloatArray]:
            present = np.asarray(present, dtype=bool)
            step = max(1, _ENTRIES_AT_ONCE // len(row))
            for start in range(0, len(present), step):
                yield np.where(present[start : start + step][:, owner], row, absent)

        inner = make_explainer(self.explainer)
        game = _Game(self.model_, images, schema)
        try:
            game.answers(coalitions[:1])
            inner.prepare(game, coalitions[:1], coalitions, seed)
            answer = check_attribution(inner._explain(coalitions[1:], [seed]), 1, m, game)
        except ModelCallError as error:
            cause = error.__cause__
            failed = cause if isinstance(cause, ModelCallError) else error  # the user's model, not ours
            failed.explained = (position, position)
            raise failed from failed.__cause__
        variance = None if answer.variance is None else answer.variance[:, owner]
        return Attribution(answer.values[:, owner], variance, answer.base_values)

    def _pieces(self, image: FloatArray) -> IntArray:
        if self.segments is None:
            return superpixels(image, self.n_segments, compactness=self.compactness)
        flat = np.unique(np.asarray(self.segments), return_inverse=True)[1]
        return flat.reshape(self._shape[-2:]).astype(np.int64)

    def _baseline(self, image: FloatArray, pieces: IntArray) -> FloatArray:
        """The image where superpixels are absent."""
        if not isinstance(self.baseline, str):
            return np.broadcast_to(np.asarray(self.baseline, dtype=np.float64), image.shape)
        channels = image.reshape(-1, *image.shape[-2:])
        if self.baseline == "blur":
            sigma = _BLUR * image.shape[-1]
            return np.stack([gaussian_filter(channel, sigma) for channel in channels]).reshape(image.shape)
        count = np.bincount(pieces.ravel())
        means = [np.bincount(pieces.ravel(), weights=channel.ravel()) / count for channel in channels]
        return np.stack([mean[pieces] for mean in means]).reshape(image.shape)
