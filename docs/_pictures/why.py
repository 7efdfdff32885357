"""Draw docs/why.png: two pairs of nearly equal rows, and what exact Shapley values tell of each.

    python docs/_pictures/why.py

Prints the numbers that docs/why.md names.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier

import gpec
from gpec.explanation import Explanation

BLUE, ORANGE = "#1f5f8b", "#c8690a"
APART = 0.15  # the largest distance between the rows of a pair
ALIKE = 0.2  # the largest difference between their predictions


@dataclass(frozen=True)
class Story:
    """A model of two features, its explained rows, and two pairs of rows."""

    g: gpec.GPEC
    X: np.ndarray
    e: Explanation
    near: tuple[int, int]  # the pair in which a sign turns, both values being as large as can be
    calm: tuple[int, int]  # the pair of the other class whose intervals are narrowest


def tell() -> Story:
    """Fit a network to two moons, explain new rows exactly, and choose the pairs."""
    X, y = make_moons(2_400, noise=0.2, random_state=0)
    model = MLPClassifier((32, 32), max_iter=600, random_state=0).fit(X[:600], y[:600])
    g = gpec.GPEC(model, "exact", n_boundary=500, n_explained=150, background=100, random_state=0, progress=False)
    g.fit(X[:600]).calibrate(X[600:900])
    new = X[900:]
    e = g.explain(new)
    chance = model.predict_proba(new)[:, 1]
    apart = np.linalg.norm(new[:, None] - new[None], axis=2)
    pairs = (apart < APART) & (apart > APART / 2) & (np.abs(chance[:, None] - chance) < ALIKE)
    pairs &= (chance[:, None] < 0.5) == (chance < 0.5)
    one, two = e.values[:, None], e.values[None]
    turned = np.where(one * two < 0, np.minimum(np.abs(one), np.abs(two)), 0.0).max(axis=2)
    width = e.width.sum(axis=1)
    near = np.unravel_index(np.where(pairs, turned, -1).argmax(), pairs.shape)
    pairs &= chance > 0.5  # of the other class, so that the pairs lie apart in the picture
    calm = np.unravel_index(np.where(pairs, width[:, None] + width, np.inf).argmin(), pairs.shape)
    return Story(g, new, e, tuple(map(int, near)), tuple(map(int, calm)))


def draw(story: Story, path: Path) -> None:
    """The map above, the four explanations below."""
    figure = plt.figure(figsize=(7, 7.6), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=[2.6, 1, 1])
    _map(figure.add_subplot(grid[0, :]), story)
    limit = 1.1 * np.abs(np.stack(story.e[list(story.near + story.calm)].interval())).max()
    for line, (pair, letter, color) in enumerate(((story.near, "A", ORANGE), (story.calm, "B", BLUE)), 1):
        for column, row in enumerate(pair):
            ax = figure.add_subplot(grid[line, column])
            _bars(ax, story.e[row], limit, last=line == 2)
            chance = float(story.g.model.predict_proba(story.X[row : row + 1])[0, 1])
            ax.set_title(f"{letter}{column + 1}: P = {chance:.2f}", color=color, weight="bold")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _map(ax, story: Story) -> None:
    low, high = story.X.min(axis=0) - 0.15, story.X.max(axis=0) + 0.15
    x1, x2 = np.meshgrid(np.linspace(low[0], high[0], 240), np.linspace(low[1], high[1], 200))
    chance = story.g.model.predict_proba(np.column_stack([x1.ravel(), x2.ravel()]))[:, 1].reshape(x1.shape)
    ax.contourf(x1, x2, chance, levels=np.linspace(0, 1, 11), cmap="PuOr_r", alpha=0.35)
    ax.contour(x1, x2, chance, levels=[0.5], colors="black", linewidths=1.6)
    ax.plot(*story.X[:300].T, ".", color="#777777", markersize=2.5)
    for pair, letter, color in ((story.near, "A", ORANGE), (story.calm, "B", BLUE)):
        points = story.X[list(pair)]
        ax.plot(*points.T, "o-", color=color, markersize=6, markeredgecolor="white")
        for number, point in enumerate(points, 1):
            away = np.sign(point[0] - points.mean(axis=0)[0])
            place = {"xytext": (18 * away, 5), "textcoords": "offset points", "ha": "center"}
            ax.annotate(f"{letter}{number}", point, color=color, weight="bold", size=13, **place)
    ax.set(xlabel="x1", ylabel="x2", title="P, the probability of orange; 0.5 at the black line")


def _bars(ax, row: Explanation, limit: float, last: bool) -> None:
    place = np.arange(2)[::-1]
    lower, upper = row.interval()
    ax.barh(place, row.values, color="#86b3d1", height=0.55)
    errors = np.stack([row.values - lower, upper - row.values])
    ax.errorbar(row.values, place, xerr=errors, fmt="none", color="black", capsize=3, linewidth=1.2)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set(yticks=place, yticklabels=["x1", "x2"], xlim=(-limit, limit), ylim=(-0.6, 1.6))
    if last:
        ax.set_xlabel("attribution (probability)")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


if __name__ == "__main__":
    story = tell()
    for pair in (story.near, story.calm):
        for row in pair:
            print(story.X[row].round(2), story.e[row], sep="\n")
    print(story.e.statement())
    draw(story, Path(__file__).parents[1] / "why.png")
