r"""CXPlain (Schwab and Karlen, NeurIPS 2019): a network that predicts how much each feature reduces the model's loss.

For a row ``x`` and truth ``t``, masking part ``i`` increases the loss by (Eq. 3 and 4 of that paper)

    D_i = max(0, L(t, f(x without i)) - L(t, f(x))),   share_i = D_i / sum_j D_j,

and the network is trained on the shares with the Kullback-Leibler divergence. A part is a feature, or a patch of an
image.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from gpec._validation import check_auto_count, check_choice, check_count
from gpec.data._background import typical_row
from gpec.data._scales import column_moments
from gpec.errors import InputError, MissingExtraError, ModelCallError, ModelOutputError, ParameterTypeError
from gpec.explainers._cxplain_networks import MLP, Architecture, UNet, train
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import Explainer
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.runtime.state import Limits, Shape, from_state, to_state
from gpec.typing import BoolArray, FloatArray, IntArray

_NUMBERS_AT_ONCE = 4_000_000  # in one array: 32 MB
_MOST_PATCHES = 64
_LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class _Learned:
    """What files hold of a trained explainer."""

    center: Annotated[FloatArray, Shape("column")]
    scale: Annotated[FloatArray, Shape("column"), Limits(least=0)]
    missing: Annotated[BoolArray, Shape("column")]
    weights: tuple[FloatArray, ...]


@dataclass(eq=False, repr=False)
class CXPlain(Explainer):
    r"""CXPlain: shares of the increase in the model's loss, predicted by an ensemble of networks.

    Attributions are not negative and add up to 1 over the features of a row (with several classes, for each class).
    Masking feature ``i`` increases the loss by ``D_i``, and its attribution is the share ``D_i / sum_j D_j``. A masked
    number is replaced by the background's mean, a masked category by the most frequent one, which may be a missing
    value. The networks get a missing number as the mean, and an indicator column. The loss is the cross-entropy of a
    class against all others: of the positive class with two classes, ``(n, d)``, else of each class, ``(n, d, c)``. For
    a regressor it is the squared difference from its own value. If masking never changes a row's answer, its shares are
    equal.

    Parameters
    ----------
    n_estimators : int
        Number of networks, each trained on its own bootstrap sample.
    n_train : int
        Largest number of training rows. Training costs ``n_train * (d + 1)`` model rows, for images
        ``n_train * (patches + 1)``.
    truth : {"probability", "label"}
        The target of the loss. "probability" is the model's own probability: ``D_i`` is then the divergence of
        ``f(x without i)`` from ``f(x)``, and every change has an effect. "label" is the predicted class: features that
        reduce its probability then have the share 0.
    hidden : int or "auto"
        Units of the two hidden layers, or channels of the U-Net's first layer. "auto" is 64 and 8.
    n_epochs : int
        Largest number of epochs; training stops earlier if the loss on rows outside the bootstrap samples no longer
        falls.
    image_shape : (channels, height, width), optional
        Shape of a row that is a flattened image. A U-Net is trained instead of an MLP, and square patches are masked in
        all channels. The share of a patch is divided equally among its entries.
    patch : int or "auto"
        Side of a patch in pixels; "auto" gives at most 64 patches.

    Notes
    -----
    The value is the mean over the ensemble. The variance is the variance of the networks (ddof 1), not divided by their
    number: by the bootstrap, the spread of refitted networks estimates how much one fit varies with its training rows.
    The mean over members varies as much, because all members share these rows. Divided by ``n_estimators``, the
    variance would vanish for large ensembles and ignore the data. It includes the effect of random initial weights, so
    it is rather too large. The paper's own 95% interval, percentiles of the same networks, uses the same spread.

    After training it is deterministic. It uses only its own random generators.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.explainers.cxplain import CXPlain
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explainer = CXPlain(n_estimators=3).fit(lambda X: 1 / (1 + np.exp(-3 * X[:, 0])), X)
    >>> explainer(X[:5]).values.mean(axis=0).round(1)
    array([1., 0., 0.])
    """

    stochastic = False
    unit = "share of the increase in loss"
    learns = True

    n_estimators: int = 10
    n_train: int = 1_000
    truth: Literal["probability", "label"] = "probability"
    hidden: int | Literal["auto"] = "auto"
    n_epochs: int = 100
    image_shape: tuple[int, int, int] | None = None
    patch: int | Literal["auto"] = "auto"

    def check(self) -> None:
        check_count("n_estimators", self.n_estimators, least=2)
        check_count("n_train", self.n_train, least=2)
        check_count("n_epochs", self.n_epochs)
        check_choice("truth", self.truth, ("probability", "label"))
        check_auto_count("hidden", self.hidden)
        check_auto_count("patch", self.patch)
        if self.image_shape is not None:
            shape = self.image_shape
            if not isinstance(shape, (tuple, list)) or len(shape) != 3:
                raise ParameterTypeError(f"image_shape={shape!r} must be (channels, height, width) or None.")
            for size in shape:
                check_count("image_shape", size)
        if importlib.util.find_spec("torch") is None:
            raise MissingExtraError('CXPlain needs torch, which is not installed; pip install "gpec[torch]".')

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        if model.is_regressor and self.truth == "label":
            raise InputError("truth='label' is for classifiers; for a regressor leave it at 'probability'.")
        d, schema = background.shape[1], model.schema
        self._typical = typical_row(background, schema)
        self._part_of, self._n_parts = np.arange(d), d
        if self.image_shape is not None:
            if schema.missing.any():
                raise InputError("image_shape is for images, but some rows have missing values; impute them first.")
            if int(np.prod(self.image_shape)) != d or len(schema.categorical):
                raise InputError(
                    f"image_shape={tuple(self.image_shape)!r} does not fit rows of {len(schema.continuous)} numbers "
                    f"and {len(schema.categorical)} categories; give the shape of one flattened image."
                )
            side = _patch_side(self.image_shape, self.patch)
            self._part_of = np.tile(_patches(self.image_shape, side), int(self.image_shape[0]))
            self._n_parts = int(self._part_of.max()) + 1

    def learn(self, rows: FloatArray, seed: int) -> None:
        chosen = np.sort(stream(seed, "cxplain rows").permutation(len(rows))[: self.n_train])
        rows = rows[chosen]
        self._center, self._scale = column_moments(rows)
        self._build(np.asarray(np.isnan(rows).any(axis=0)))
        targets = _shares(self._increases(rows, chosen))
        rngs = [stream(seed, "cxplain members", member) for member in range(self.n_estimators)]
        self.weights_ = train(self._architecture, self._inputs(rows), targets, rngs, int(self.n_epochs))

    def fitted_state(self) -> dict[str, Any]:
        found: dict[str, Any] = to_state(_Learned(self._center, self._scale, self._missing, tuple(self.weights_)))
        return found

    def restore(self, state: dict[str, Any]) -> None:
        found = from_state(_Learned, state)
        self._center, self._scale, self.weights_ = found.center, found.scale, list(found.weights)
        self._build(found.missing)

    def model_rows(self, Z: FloatArray) -> int:
        return 0

    def learning_rows(self, rows: FloatArray) -> int:
        return int(min(len(rows), self.n_train) * (rows.shape[1] + 1))

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        shares = self._architecture.shares(self.weights_, self._inputs(Z))
        size = np.bincount(self._part_of)[self._part_of][:, None]
        values = shares.mean(axis=0)[:, self._part_of] / size
        variance = shares.var(axis=0, ddof=1)[:, self._part_of] / size**2
        return Attribution(values, variance)

    def _build(self, missing: BoolArray) -> None:
        """Make the networks; ``missing`` marks the columns with missing values."""
        self._missing = np.asarray(missing, dtype=bool)
        schema, outputs = self.model_.schema, self.model_.n_outputs
        if self.image_shape is None:
            hidden = 64 if isinstance(self.hidden, str) else int(self.hidden)
            n_inputs = len(schema.continuous) + sum(len(names) for names in schema.categories.values())
            n_inputs += int(self._missing[schema.continuous].sum())
            self._architecture: Architecture = MLP(n_inputs, self._n_parts, outputs, hidden)
        else:
            c, h, w = (int(size) for size in self.image_shape)
            hidden = 8 if isinstance(self.hidden, str) else int(self.hidden)
            self._architecture = UNet((c, h, w), _patch_side(self.image_shape, self.patch), outputs, hidden)
        self.rows_at_once = self._architecture.rows_at_once(self.n_estimators)

    def _inputs(self, Z: FloatArray) -> FloatArray:
        """Standardised numbers, a 0/1 column for each category, and one for each number that can be missing."""
        schema = self.model_.schema
        numbers, absent = schema.continuous, np.isnan(Z)
        parts = [np.where(absent[:, numbers], 0.0, (Z[:, numbers] - self._center[numbers]) / self._scale[numbers])]
        parts += [1.0 * (Z[:, [j]] == np.arange(len(schema.categories[int(j)]))) for j in schema.categorical]
        parts.append(1.0 * absent[:, numbers[self._missing[numbers]]])
        return np.ascontiguousarray(np.hstack(parts))

    def _increases(self, rows: FloatArray, places: IntArray) -> FloatArray:
        """Increase of the loss for each masked part, ``(n, parts, outputs)``; errors number the rows by ``places``."""
        masks = np.arange(self._n_parts)[:, None] == self._part_of
        step = max(_NUMBERS_AT_ONCE // masks.size, 1)
        blocks = []
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            # the row itself is the first, so that one call is enough
            masked = np.concatenate((block[:, None], np.where(masks, self._typical, block[:, None])), axis=1)
            try:
                p = self.predict(masked)
            except (ModelCallError, ModelOutputError) as error:
                first, last = (int(places[start + i]) for i in error.explained or (0, len(block) - 1))
                which = f"row {first}" if first == last else f"rows {first} to {last}"
                raise type(error)(
                    f"{str(error).rstrip('.')}; this was while CXPlain masked parts of {which}.", error.rows
                ) from error.__cause__
            blocks.append(self._increase(p[:, :1], p[:, 1:]))
        return np.concatenate(blocks)

    def _increase(self, before: FloatArray, after: FloatArray) -> FloatArray:
        if self.model_.is_regressor:  # squared difference from the model's own value
            change = np.abs(after - before)
            largest = change.max(axis=1, keepdims=True)
            return np.asarray((change / np.where(largest > 0, largest, 1.0)) ** 2)
        if self.truth == "probability":
            return _increase(before, after, before)
        if self.model_.is_binary:
            label = before > self.model_.threshold
        else:
            label = before.argmax(axis=2)[:, :, None] == np.arange(before.shape[2])
        return _increase(before, after, label.astype(np.float64))


def _increase(before: FloatArray, after: FloatArray, truth: FloatArray) -> FloatArray:
    def loss(p: FloatArray) -> FloatArray:
        p = np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        return np.asarray(-truth * np.log(p) - (1 - truth) * np.log1p(-p))

    return np.maximum(loss(after) - loss(before), 0.0)


def _shares(increases: FloatArray) -> FloatArray:
    """Increases as shares of their sum over the parts; equal shares if the sum is 0."""
    total = increases.sum(axis=1, keepdims=True)
    is_zero = total <= 1e-12
    return np.where(is_zero, 1.0 / increases.shape[1], increases / np.where(is_zero, 1.0, total))


def _patch_side(image_shape: tuple[int, int, int], patch: int | str) -> int:
    if not isinstance(patch, str):
        return int(patch)
    _, h, w = image_shape
    side = 1
    while -(-h // side) * -(-w // side) > _MOST_PATCHES:
        side += 1
    return side


def _patches(image_shape: tuple[int, int, int], side: int) -> IntArray:
    """The patch of each pixel, ``(h * w,)``."""
    _, h, w = image_shape
    across = -(-w // side)
    return np.asarray((np.arange(h)[:, None] // side * across + np.arange(w) // side).ravel(), dtype=np.int64)
