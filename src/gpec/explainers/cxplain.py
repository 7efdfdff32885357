r"""CXPlain (Schwab and Karlen, NeurIPS 2019): a network that learns which features the model's loss needs.

For a row ``x``, part ``i`` masked, and truth ``t``, the increase of the loss is (Eq. 3 and 4 of that paper)

    D_i = max(0, L(t, f(x without i)) - L(t, f(x))),   share_i = D_i / sum_j D_j,

and the network learns the shares by Kullback-Leibler divergence. A part is a feature, or a patch of an image.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Literal

import numpy as np

from gpec._validation import check_auto_count, check_choice, check_count
from gpec.data.schema import column_moments
from gpec.errors import InputError, MissingExtraError, ModelCallError, ModelOutputError, ParameterTypeError
from gpec.explainers._baseline import typical_row
from gpec.explainers._cxplain_networks import MLP, Architecture, UNet, train
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import Explainer
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import BoolArray, FloatArray, IntArray

__all__ = ["CXPlain"]

_NUMBERS_AT_ONCE = 4_000_000  # in one array: 32 MB
_MOST_PATCHES = 64
_LEAST_PROBABILITY = 1e-9


class CXPlain(Explainer):
    r"""CXPlain: shares of the increase in the model's loss, predicted by an ensemble of networks.

    Attributions are not negative and add up to 1 over the features of a row (and, with several classes, for each
    class): feature ``i`` has the share ``D_i / sum_j D_j`` of the increases in loss ``D_i`` when ``i`` is masked. A
    masked number is the background's mean, a masked category its most frequent one, which may be none. The networks see
    a missing number as the mean, with a 1 in a column of its own. The loss is the cross-entropy of a class against all
    others: of the positive class with two classes, ``(n, d)``, else of each class in turn, ``(n, d, c)``; of a
    regressor it is the squared difference from its own value. A row that no masking changes has equal shares.

    Parameters
    ----------
    n_estimators : int
        Networks, each trained on a bootstrap sample of its own.
    n_train : int
        Most rows to train on; this costs ``n_train * (d + 1)`` model rows, or one for each patch instead of ``d``.
    truth : {"probability", "label"}
        What the loss compares with. "probability" is the model's own probability, so that ``D_i`` is the divergence of
        ``f(x without i)`` from ``f(x)`` and every change counts. "label" is the class the model predicts, so that
        features that speak against it count as nothing.
    hidden : int or "auto"
        Units of the two hidden layers; channels of the U-Net's first one. "auto" is 64 and 8.
    n_epochs : int
        Most epochs; training stops when the rows left out of the bootstrap samples say so.
    image_shape : (channels, height, width), optional
        Rows are flattened images: a U-Net is trained instead of an MLP, and square patches are masked, all channels
        together. The entries of a patch have equal parts of its share, because masking cannot tell them apart.
    patch : int or "auto"
        Side of a patch in pixels; "auto" makes at most 64 of them.

    Notes
    -----
    The value is the mean over the ensemble and the variance is the networks' variance (ddof 1), not divided by their
    number. By the bootstrap's argument the spread of the refitted networks estimates how much one fit varies with its
    training rows. Averaging over members does not undo that variation, since all members share the same rows; divided
    by their number the variance would vanish with ``n_estimators`` and say nothing about the data. It includes the
    networks' random start, so it errs on the large side. The paper's own 95% interval, percentiles of the same
    networks, rests on the same spread.

    Once trained it is deterministic. All it draws comes from generators of its own.

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

    def __init__(
        self,
        n_estimators: int = 10,
        n_train: int = 1_000,
        truth: Literal["probability", "label"] = "probability",
        hidden: int | Literal["auto"] = "auto",
        n_epochs: int = 100,
        image_shape: tuple[int, int, int] | None = None,
        patch: int | Literal["auto"] = "auto",
    ) -> None:
        self.n_estimators = n_estimators
        self.n_train = n_train
        self.truth = truth
        self.hidden = hidden
        self.n_epochs = n_epochs
        self.image_shape = image_shape
        self.patch = patch

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
        return {
            "center": self._center,
            "scale": self._scale,
            "missing": self._missing,
            "weights": list(self.weights_),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._center, self._scale = state["center"], state["scale"]
        self._build(state["missing"])
        self.weights_ = [np.asarray(weight) for weight in state["weights"]]

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        shares = self._architecture.shares(self.weights_, self._inputs(Z))
        size = np.bincount(self._part_of)[self._part_of][:, None]
        values = shares.mean(axis=0)[:, self._part_of] / size
        variance = shares.var(axis=0, ddof=1)[:, self._part_of] / size**2
        return Attribution(values, variance)

    def _build(self, missing: BoolArray) -> None:
        """Make the networks for columns of which some have missing values."""
        self._missing = np.asarray(missing, dtype=bool)
        self._architecture = self._make_architecture()
        self.rows_at_once = self._architecture.rows_at_once(self.n_estimators)

    def _make_architecture(self) -> Architecture:
        outputs = self.model_.n_outputs
        if self.image_shape is None:
            hidden = 64 if isinstance(self.hidden, str) else int(self.hidden)
            schema = self.model_.schema
            n_inputs = len(schema.continuous) + sum(len(names) for names in schema.categories.values())
            n_inputs += int(self._missing[schema.continuous].sum())
            return MLP(n_inputs, self._n_parts, outputs, hidden)
        c, h, w = (int(size) for size in self.image_shape)
        hidden = 8 if isinstance(self.hidden, str) else int(self.hidden)
        return UNet((c, h, w), _patch_side(self.image_shape, self.patch), outputs, hidden)

    def _inputs(self, Z: FloatArray) -> FloatArray:
        """Standardised numbers, a 0/1 column for each category, and one for each number that may be missing."""
        schema = self.model_.schema
        numbers, absent = schema.continuous, np.isnan(Z)
        parts = [np.where(absent[:, numbers], 0.0, (Z[:, numbers] - self._center[numbers]) / self._scale[numbers])]
        parts += [1.0 * (Z[:, [j]] == np.arange(len(schema.categories[int(j)]))) for j in schema.categorical]
        parts.append(1.0 * absent[:, numbers[self._missing[numbers]]])
        return np.ascontiguousarray(np.hstack(parts))

    def _increases(self, rows: FloatArray, places: IntArray) -> FloatArray:
        """Increase of the loss for each part masked, ``(n, parts, outputs)``; ``places`` number the rows in errors."""
        masks = np.arange(self._n_parts)[:, None] == self._part_of
        step = max(_NUMBERS_AT_ONCE // masks.size, 1)
        blocks = []
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            # the row itself comes first, so that one call answers all
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
        if self.model_.is_regressor:  # squared error, against the model's own value
            change = np.abs(after - before)
            largest = change.max(axis=1, keepdims=True)
            return np.asarray((change / np.where(largest > 0, largest, 1.0)) ** 2)
        return _increase(before, after, self._truth(before))

    def _truth(self, p: FloatArray) -> FloatArray:
        if self.truth == "probability":
            return p
        if self.model_.is_binary:
            return np.asarray(p > self.model_.threshold, dtype=np.float64)
        return np.asarray(p.argmax(axis=2)[:, :, None] == np.arange(p.shape[2]), dtype=np.float64)


def _increase(before: FloatArray, after: FloatArray, truth: FloatArray) -> FloatArray:
    def loss(p: FloatArray) -> FloatArray:
        p = np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        return np.asarray(-truth * np.log(p) - (1 - truth) * np.log1p(-p))

    return np.maximum(loss(after) - loss(before), 0.0)


def _shares(increases: FloatArray) -> FloatArray:
    """Increases as shares of their sum over the parts; equal ones where there is none."""
    total = increases.sum(axis=1, keepdims=True)
    nothing = total <= 1e-12
    return np.where(nothing, 1.0 / increases.shape[1], increases / np.where(nothing, 1.0, total))


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
