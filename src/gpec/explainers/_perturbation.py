"""Perturbations of rows for a local regression: their features and weights.

A sampler draws random perturbations (``draw``) and gives the fixed ones that each regression contains (``anchors``).
The regression itself (:mod:`gpec.explainers._bayes_regression`) does not depend on the sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from gpec.data import Schema, same_values
from gpec.data._scales import column_moments
from gpec.runtime.state import NOT_STORED, Limits, Shape
from gpec.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Perturbed:
    """``s`` perturbations of each of ``n`` rows.

    Attributes
    ----------
    features : array of shape (n, s, p)
        Inputs of the regression: the explained features, then others, if any.
    rows : array of shape (n, s, b, d)
        Inputs of the model, whose answers to the ``b`` rows of a perturbation are averaged.
    weights : array of shape (n, s)
    """

    features: FloatArray
    rows: FloatArray
    weights: FloatArray

    def __getitem__(self, index: Any) -> Perturbed:
        return Perturbed(self.features[index], self.rows[index], self.weights[index])

    def join(self, more: Perturbed) -> Perturbed:
        """These perturbations, then ``more`` of the same rows."""
        names = ("features", "rows", "weights")
        return Perturbed(*(np.concatenate((getattr(self, name), getattr(more, name)), axis=1) for name in names))


def batch(
    sampler: PerturbationSampler, Z: FloatArray, generators: Sequence[np.random.Generator], size: int, *, first: bool
) -> Perturbed:
    """``size`` perturbations of each row: the anchors, then drawn ones."""
    anchors = sampler.anchors(Z, size, first=first)
    return anchors.join(sampler.draw(Z, generators, size - anchors.weights.shape[1]))


@dataclass(frozen=True, eq=False)
class LimeSampler:
    """LIME's perturbations of a table's rows.

    Numbers are drawn from N(mean, std^2) of the training rows (or from N(x, std^2)). Their feature is the distance from
    the mean in standard deviations. Categories are drawn with their frequency in the training rows. Their feature is 1
    for the row's own category, else 0. The weight is ``exp(-D^2 / (2 width^2))``, where D is the distance to the row in
    these features. The anchor is the row itself.

    Values are missing as often as in the training rows. A missing category is a category of its own. A number that can
    be missing has two features, so that neither biases the coefficient of the other: the number, and an indicator that
    is 1 if it is missing. The explained feature is the number if the row has it, else the indicator; the other one is
    an additional feature. A value that is missing in only one of the two rows adds 1 to D^2.

    Attributes
    ----------
    mean, scale : arrays of shape (d,)
        0 and 1 for categorical columns.
    frequencies : dict of int to array
        Frequencies of the categories of each categorical column among the rows without a missing value.
    missing : array of shape (d,)
        Fraction of missing values in each column.
    width : float
        Kernel width.
    around : {"data", "row"}
        Draw numbers around the mean of the data, or around the explained row.
    """

    mean: Annotated[FloatArray, Shape("column")]
    scale: Annotated[FloatArray, Shape("column"), Limits(least=0)]
    frequencies: dict[int, FloatArray]
    missing: Annotated[FloatArray, Shape("column"), Limits(0, 1)]
    width: Annotated[float, NOT_STORED] = 1.0
    around: Annotated[Literal["data", "row"], NOT_STORED] = "data"

    @classmethod
    def learn(cls, rows: FloatArray, schema: Schema) -> LimeSampler:
        """The sampler with the statistics of encoded training rows."""
        mean, scale = column_moments(rows)
        absent = np.isnan(rows)
        frequencies = {}
        for j in schema.categorical.tolist():
            mean[j], scale[j] = 0.0, 1.0
            codes = rows[~absent[:, j], j].astype(np.int64)
            frequencies[j] = np.bincount(codes, minlength=len(schema.categories[j])) / max(1, len(codes))
        return cls(mean, scale, frequencies, absent.mean(axis=0))

    def draw(self, Z: FloatArray, generators: Sequence[np.random.Generator], size: int) -> Perturbed:
        """``size`` perturbations of each encoded row, drawn with the generator of that row."""
        rows = np.stack([generator.standard_normal((size, Z.shape[1])) for generator in generators])
        middle = self.mean if self.around == "data" else np.where(np.isnan(Z), self.mean, Z)[:, None, :]
        rows = rows * self.scale + middle
        categorical, nullable = list(self.frequencies), np.flatnonzero(self.missing)
        if categorical:
            uniform = np.stack([generator.random((size, len(categorical))) for generator in generators])
            for place, j in enumerate(categorical):
                steps = np.cumsum(self.frequencies[j])[:-1]
                rows[:, :, j] = np.searchsorted(steps, uniform[:, :, place], side="right")
        if len(nullable):
            is_missing = np.stack(
                [generator.random((size, len(nullable))) < self.missing[nullable] for generator in generators]
            )
            rows[:, :, nullable] = np.where(is_missing, np.nan, rows[:, :, nullable])
        features, own = self.describe(rows, Z), self.describe(Z[:, None, :], Z)
        squared = ((features - own)[:, :, : Z.shape[1]] ** 2).sum(axis=2)
        squared += (np.isnan(rows[:, :, self._nullable]) & ~np.isnan(Z[:, None, self._nullable])).sum(axis=2)
        return Perturbed(features, rows[:, :, None, :], np.exp(-0.5 * squared / self.width**2))

    def anchors(self, Z: FloatArray, size: int, *, first: bool) -> Perturbed:
        """The fixed ones among ``size`` perturbations, which may be none; ``first``: no batch came before."""
        rows = Z[:, None, :]
        own = Perturbed(self.describe(rows, Z), rows[:, :, None, :], np.ones((len(Z), 1)))
        return own if first else own[:, :0]

    def describe(self, rows: FloatArray, Z: FloatArray) -> FloatArray:
        """Features of perturbations ``rows (n, s, d)`` of the rows ``Z (n, d)``: ``d`` explained ones, then others."""
        features = (rows - self.mean) / self.scale
        for j in self.frequencies:
            features[:, :, j] = same_values(rows[:, :, j], Z[:, None, j])
        nullable = self._nullable
        if len(nullable) == 0:
            return features
        own, drawn, number = np.isnan(Z[:, None, nullable]), np.isnan(rows[:, :, nullable]), features[:, :, nullable]
        stays = ((Z[:, nullable] - self.mean[nullable]) / self.scale[nullable])[:, None, :]
        features[:, :, nullable] = np.where(own, drawn, np.where(drawn, stays, number))
        extra = np.where(own, np.where(drawn, 0.0, number), drawn)
        return np.concatenate((features, extra), axis=2)

    @property
    def _nullable(self) -> IntArray:
        """Numeric columns that can be missing."""
        return np.array([j for j in np.flatnonzero(self.missing) if j not in self.frequencies], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CoalitionSampler:
    """SHAP's perturbations: features in a coalition have the row's values, the others come from a background row.

    In the SHAP kernel a coalition of k of d features has the weight ``(d - 1) / (C(d, k) k (d - k))``, and the empty
    and the full coalition have the weight 1. Here coalitions are drawn with a probability proportional to that weight
    and have the weight 1: in a uniform sample of a few hundred, a few would have nearly all the weight. The empty and
    the full coalition are anchors. Their fraction of the weight of each batch is the same as among all coalitions.

    Attributes
    ----------
    background : array of shape (m, d)
    n_background : int
        Background rows drawn for each coalition, over which the model's answers are averaged.
    """

    background: FloatArray
    n_background: int = 1

    def _kernel(self) -> tuple[IntArray, FloatArray]:
        """Sizes of coalitions, and the total weight of the coalitions of each size."""
        d = self.background.shape[1]
        if d == 1:
            return np.arange(2), np.ones(2)  # only the empty and the full coalition exist
        sizes = np.arange(1, d)
        return sizes, (d - 1) / (sizes * (d - sizes))

    def draw(self, Z: FloatArray, generators: Sequence[np.random.Generator], size: int) -> Perturbed:
        n, d = Z.shape
        sizes, kernel = self._kernel()
        chance = kernel / kernel.sum()
        members = np.empty((n, size, d), dtype=bool)
        chosen = np.empty((n, size, self.n_background), dtype=np.int64)
        for i, generator in enumerate(generators):
            drawn = generator.choice(sizes, size=size, p=chance)
            rank = generator.random((size, d)).argsort(axis=1).argsort(axis=1)
            members[i] = rank < drawn[:, None]
            chosen[i] = generator.integers(len(self.background), size=(size, self.n_background))
        return self._perturbed(Z, members, chosen, np.ones((n, size)))

    def anchors(self, Z: FloatArray, size: int, *, first: bool) -> Perturbed:
        n, d = Z.shape
        members = np.repeat(np.array([[[True], [False]]]), n, axis=0).repeat(d, axis=2)
        chosen = np.broadcast_to(np.arange(self.n_background) % len(self.background), (n, 2, self.n_background))
        return self._perturbed(Z, members, chosen, np.full((n, 2), (size - 2) / self._kernel()[1].sum()))

    def _perturbed(self, Z: FloatArray, members: BoolArray, chosen: IntArray, weights: FloatArray) -> Perturbed:
        rows = np.where(members[:, :, None, :], Z[:, None, None, :], self.background[chosen])
        return Perturbed(members.astype(np.float64), rows, weights)


PerturbationSampler = LimeSampler | CoalitionSampler
