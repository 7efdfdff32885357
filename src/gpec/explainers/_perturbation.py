"""How rows are perturbed for a local regression: which features describe a perturbation, and how much it weighs.

A maker draws perturbations (``draw``) and knows those that each regression should contain (``anchors``). Solving
(:mod:`gpec.explainers._bayes_regression`) knows nothing of it, so that other makers can be put in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from gpec.data import Schema, same_values
from gpec.data.schema import column_moments
from gpec.typing import BoolArray, FloatArray, IntArray

__all__ = ["Coalitions", "LimeSampler", "Perturbed", "Perturbs", "batch"]


@dataclass(frozen=True, eq=False)
class Perturbed:
    """``s`` perturbations of each of ``n`` rows.

    Attributes
    ----------
    features : array of shape (n, s, p)
        What the regression sees: the features that are explained, and then, perhaps, some that are not.
    rows : array of shape (n, s, b, d)
        What the model sees; its answers to the ``b`` rows of a perturbation are averaged.
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


class Perturbs(Protocol):
    """Makes perturbations of encoded rows ``Z``."""

    def draw(self, Z: FloatArray, generators: Sequence[np.random.Generator], size: int) -> Perturbed:
        """``size`` perturbations of each row, drawn from the generator of that row."""
        ...

    def anchors(self, Z: FloatArray, size: int, *, first: bool) -> Perturbed:
        """The fixed ones among ``size`` perturbations, perhaps none; ``first`` tells whether others came before."""
        ...


def batch(
    maker: Perturbs, Z: FloatArray, generators: Sequence[np.random.Generator], size: int, *, first: bool
) -> Perturbed:
    """``size`` perturbations of each row: the anchors, then drawn ones."""
    anchors = maker.anchors(Z, size, first=first)
    return anchors.join(maker.draw(Z, generators, size - anchors.weights.shape[1]))


@dataclass(frozen=True, eq=False)
class LimeSampler:
    """LIME's perturbations of a table's rows.

    Numbers are drawn from N(mean, std^2) of the training rows (or from N(x, std^2)) and described in standard
    deviations from the mean; categories are drawn with their frequency in the training rows and described by 1 where
    they are the row's own, else 0. The weight is ``exp(-D^2 / (2 width^2))``, D being the distance to the row in these
    features. The anchor is the row itself.

    Values are missing as often as in the training rows. A missing category is one more category. A number that may be
    missing has two features: where the row has the number, the number and, beside the others, 1 if it is missing; where
    the row lacks it, 1 if it is missing and, beside the others, the number. So neither sways the other's coefficient.
    To be missing where the row is not, or the reverse, counts 1 in D.

    Attributes
    ----------
    mean, scale : arrays of shape (d,)
        0 and 1 for categorical columns.
    frequencies : dict of int to array
        Shares of the categories of each categorical column among the rows that have one.
    missing : array of shape (d,)
        Share of the rows in which a column is missing.
    width : float
        Kernel width.
    around : {"data", "row"}
        Where numbers are drawn: around the mean of the data, or around the explained row.
    """

    mean: FloatArray
    scale: FloatArray
    frequencies: dict[int, FloatArray]
    missing: FloatArray
    width: float
    around: Literal["data", "row"] = "data"

    @staticmethod
    def statistics(
        rows: FloatArray, schema: Schema
    ) -> tuple[FloatArray, FloatArray, dict[int, FloatArray], FloatArray]:
        """Mean and scale of the columns, shares of the categories and of missing values, of encoded rows."""
        mean, scale = column_moments(rows)
        absent = np.isnan(rows)
        frequencies = {}
        for j in schema.categorical.tolist():
            mean[j], scale[j] = 0.0, 1.0
            codes = rows[~absent[:, j], j].astype(np.int64)
            frequencies[j] = np.bincount(codes, minlength=len(schema.categories[j])) / max(1, len(codes))
        return mean, scale, frequencies, absent.mean(axis=0)

    def draw(self, Z: FloatArray, generators: Sequence[np.random.Generator], size: int) -> Perturbed:
        rows = np.stack([generator.standard_normal((size, Z.shape[1])) for generator in generators])
        middle = self.mean if self.around == "data" else np.where(np.isnan(Z), self.mean, Z)[:, None, :]
        rows = rows * self.scale + middle
        categorical, holes = list(self.frequencies), np.flatnonzero(self.missing)
        if categorical:
            uniform = np.stack([generator.random((size, len(categorical))) for generator in generators])
            for place, j in enumerate(categorical):
                steps = np.cumsum(self.frequencies[j])[:-1]
                rows[:, :, j] = np.searchsorted(steps, uniform[:, :, place], side="right")
        if len(holes):
            lacks = np.stack([generator.random((size, len(holes))) < self.missing[holes] for generator in generators])
            rows[:, :, holes] = np.where(lacks, np.nan, rows[:, :, holes])
        features, own = self.describe(rows, Z), self.describe(Z[:, None, :], Z)
        squared = ((features - own)[:, :, : Z.shape[1]] ** 2).sum(axis=2)
        squared += (np.isnan(rows[:, :, self._holes]) & ~np.isnan(Z[:, None, self._holes])).sum(axis=2)
        return Perturbed(features, rows[:, :, None, :], np.exp(-0.5 * squared / self.width**2))

    def anchors(self, Z: FloatArray, size: int, *, first: bool) -> Perturbed:
        rows = Z[:, None, :]
        own = Perturbed(self.describe(rows, Z), rows[:, :, None, :], np.ones((len(Z), 1)))
        return own if first else own[:, :0]

    def describe(self, rows: FloatArray, Z: FloatArray) -> FloatArray:
        """Features of perturbations ``rows (n, s, d)`` of the rows ``Z (n, d)``: ``d``, then those beside them."""
        features = (rows - self.mean) / self.scale
        for j in self.frequencies:
            features[:, :, j] = same_values(rows[:, :, j], Z[:, None, j])
        holes = self._holes
        if len(holes) == 0:
            return features
        own, drawn, number = np.isnan(Z[:, None, holes]), np.isnan(rows[:, :, holes]), features[:, :, holes]
        stays = ((Z[:, holes] - self.mean[holes]) / self.scale[holes])[:, None, :]
        features[:, :, holes] = np.where(own, drawn, np.where(drawn, stays, number))
        beside = np.where(own, np.where(drawn, 0.0, number), drawn)
        return np.concatenate((features, beside), axis=2)

    @property
    def _holes(self) -> IntArray:
        """Numbers that may be missing."""
        return np.array([j for j in np.flatnonzero(self.missing) if j not in self.frequencies], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Coalitions:
    """SHAP's perturbations: a coalition of features keeps the row's values, the others come from a background row.

    In the SHAP kernel a coalition of k of d features has the weight ``(d - 1) / (C(d, k) k (d - k))``, the empty and
    the full one 1. Here coalitions are drawn with that probability and weigh 1: of a few hundred drawn evenly, nearly
    all the weight would lie on a few. The empty and the full coalition are anchors; they have the share of the weight
    of each batch that they have among all coalitions.

    Attributes
    ----------
    background : array of shape (m, d)
    n_background : int
        Background rows drawn for each coalition, over which the model's answers are averaged.
    """

    background: FloatArray
    n_background: int = 1

    def _kernel(self) -> tuple[IntArray, FloatArray]:
        """Sizes of coalitions, and the weight of all coalitions of each size together."""
        d = self.background.shape[1]
        if d == 1:
            return np.arange(2), np.ones(2)  # there are only the empty and the full one
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
