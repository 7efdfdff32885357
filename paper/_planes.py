"""Models of two features, whose uncertainty can be drawn all over a plane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from matplotlib.axes import Axes
from scipy.spatial import cKDTree
from scipy.stats import spearmanr

import gpec
from gpec import plots
from gpec.datasets import cosine_boundary
from gpec.explainers import ExactShapley
from paper._methods import fit_gpec
from paper.data import census, german_credit

__all__ = ["PLANES", "Plane", "draw_plane", "pack", "plane", "rank_agreement", "real_changes", "unpack"]

_REACH = 12.0  # training rows of Synthetic are uniform over [-12, 12]^2
_FINE = 200  # cells along an axis, to draw the boundary
_ROUNDS = {"learning_rate": 0.5, "n_estimators": 500, "early_stopping_rounds": 20}

# The function that loads the data set, the features on both axes, and how far these go; as in the reference code.
PLANES: dict[str, tuple[Any, tuple[str, str], tuple[tuple[float, float], tuple[float, float]]]] = {
    "Synthetic": (cosine_boundary, ("x1", "x2"), ((-10, 10), (-10, 10))),
    "Census, age and hours": (census, ("Age", "Hours per week"), ((20, 70), (20, 75))),
    "Census, age and education": (census, ("Age", "Education-Num"), ((20, 70), (8, 16))),
    "German Credit": (german_credit, ("amount_hundreds", "duration_months"), ((0, 150), (0, 50))),
}


@dataclass(frozen=True, eq=False)
class Plane:
    """A model of two features, the rows it is explained at, and the part of the plane that is drawn."""

    name: str
    model: Any
    X_train: pd.DataFrame
    pool: pd.DataFrame  # rows between which the boundary is sought
    boundary: Any  # "auto", or the points where they are known
    limits: tuple[tuple[float, float], tuple[float, float]]

    @property
    def features(self) -> list[str]:
        return list(self.X_train.columns)

    def grid(self, n: int) -> pd.DataFrame:
        """The centres of ``n`` times ``n`` cells, line after line from below, as ``gpec.plots.heatmap`` orders them."""
        across, up = (low + (np.arange(n) + 0.5) * (high - low) / n for low, high in self.limits)
        return pd.DataFrame({self.features[0]: np.tile(across, n), self.features[1]: np.repeat(up, n)})

    @cached_property
    def canvas(self) -> gpec.GPEC:
        """A small fit, which tells ``gpec.plots.heatmap`` what the axes are."""
        few = self.boundary if isinstance(self.boundary, str) else self.boundary[::20]
        return fit_gpec(self.model, self.X_train, published=True, boundary=few, n_boundary=50, pool=self.pool)

    @cached_property
    def margin(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both coordinates of a fine grid, and how far the model's probability is above one half there."""
        fine = self.grid(_FINE)
        across, up = (fine[name].to_numpy().reshape(_FINE, _FINE) for name in self.features)
        return across, up, self.probability(fine).reshape(_FINE, _FINE) - 0.5

    def away(self, rows: pd.DataFrame) -> np.ndarray:
        """Distance to the nearest training row, each axis measured by its length."""
        size = np.ptp(self.limits, axis=1)
        return cKDTree(self.X_train.to_numpy() / size).query(rows.to_numpy() / size)[0]

    def probability(self, rows: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.model.predict_proba(rows))[:, 1]


def plane(name: str, *, n_train: int = 100, n_boundary: int = 1_000, seed: int = 0) -> Plane:
    """One of ``PLANES``, with ``n_train`` training rows drawn by ``seed``.

    ``n_boundary`` is for Synthetic, whose boundary is known in closed form.
    """
    source, features, limits = PLANES[name]
    rng = np.random.default_rng(seed)
    model, pool = _trained(source, features)
    if source is cosine_boundary:
        rows = pd.DataFrame(rng.uniform(-_REACH, _REACH, size=(n_train, 2)), columns=list(features))
        points = model.boundary(np.linspace(-_REACH, _REACH, n_boundary))
        return Plane(name, model, rows, rows, points, limits)
    rows = pool.iloc[np.sort(rng.choice(len(pool), n_train, replace=False))]
    return Plane(name, model, rows, pool, "auto", limits)


@cache
def _trained(source: Any, features: tuple[str, str]) -> tuple[Any, pd.DataFrame]:
    """The model of two features and the rows it was trained on."""
    data = source()
    if data.model is not None:
        return data.model, data.X
    train, test = (rows[list(features)].astype(float) for rows in (data.X_train, data.X_test))
    model = xgboost.XGBClassifier(**_ROUNDS, random_state=0, n_jobs=1)
    return model.fit(train, data.y_train, eval_set=[(test, data.y_test)], verbose=False), train


def real_changes(scene: Plane, n: int) -> np.ndarray:
    """How much exact Shapley values really differ over a cell of the grid and the eight around it, ``(n * n, 2)``."""
    explainer = ExactShapley().fit(scene.model, scene.X_train, background=scene.X_train)
    values = explainer(scene.grid(n)).values.reshape(n, n, 2)
    padded = np.pad(values, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = np.stack([padded[i : i + n, j : j + n] for i in range(3) for j in range(3)])
    return around.std(axis=0).reshape(n * n, 2)


def rank_agreement(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation; 0 where one of them is constant, which agrees with nothing."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(spearmanr(one, other).statistic)


def pack(surface: np.ndarray) -> str:
    """Numbers as a line of text, three digits each."""
    return " ".join(f"{number:.3g}" for number in np.ravel(surface))


def unpack(text: str) -> np.ndarray:
    return np.array(text.split(), dtype=float)


def draw_plane(
    ax: Axes,
    scene: Plane,
    surface: np.ndarray,
    *,
    title: str = "",
    color_limits: tuple[float, float] | None = None,
    cmap: Any = None,
) -> None:
    """A surface over the plane, the decision boundary as a black line, the training rows as red points."""
    plots.heatmap(
        scene.canvas, scene.features[0], ax=ax, features=scene.features, quantity=lambda rows: surface,
        limits=scene.limits, color_limits=color_limits or (0.0, float(surface.max())),
        n_grid=round(len(surface) ** 0.5), boundary=False, explained=False, cmap=cmap, bar_label="", title=title,
    )  # fmt: skip
    for color, width in (("white", 2.4), ("black", 1.2)):
        ax.contour(*scene.margin, levels=[0.0], colors=[color], linewidths=[width])
    ax.scatter(*scene.X_train.to_numpy().T, s=7, color="#D55E00", edgecolors="white", linewidths=0.4, zorder=4)
