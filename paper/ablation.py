"""Fig. 6 and 13: the two parts of GPEC's uncertainty, and what fewer samples of the explainer do to them."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gpec.explainers import BayesShap
from gpec.gp import make_posterior
from paper._ablation_report import (
    BAYES,
    ERRORS,
    EXPLAINERS,
    FEW,
    MANY,
    MEAN,
    RESAMPLED,
    report,
    tables,
    verdicts,
)
from paper._methods import fit_gpec
from paper._planes import Plane, draw_plane, pack, plane, unpack
from paper._runs import Run

__all__ = ["changes", "dense_variance", "draw", "report", "run", "sampled", "settings", "tables", "verdicts"]

_FLOOR = 1e-6  # variance, below which noise is taken for rounding


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "planes": ["German Credit"] if size == "toy" else ["Census, age and hours", "German Credit"],
        "draws": seeds or {"toy": 2, "small": 4, "paper": 8}[size],
        "runs": {"toy": 3, "small": 6, "paper": 20}[size],
        "n_train": {"toy": 20}.get(size, 100),
        "n_boundary": {"toy": 100}.get(size, 1_000),
        "n_grid": {"toy": 8, "small": 25, "paper": 60}[size],
        "lam": 1.0,
        "rho": 0.1,
    }


def run(run: Run) -> None:
    for name in run.settings["planes"]:
        for draw in range(run.settings["draws"]):
            run.once(f"{name}, draw {draw}", lambda name=name, draw=draw: _one(run.settings, name, draw))


def _one(s: dict[str, Any], name: str, draw: int) -> dict[str, Any]:
    """Both parts of the variance over the plane for each explainer, with many samples and with few, run after run."""
    scene = plane(name, n_train=s["n_train"], seed=draw)
    g = fit_gpec(
        scene.model, scene.X_train, published=True, lam=s["lam"], rho=s["rho"], boundary=scene.boundary,
        n_boundary=s["n_boundary"], pool=scene.pool, seed=draw,
    )  # fmt: skip
    rows, grid = scene.X_train.to_numpy(), scene.grid(s["n_grid"]).to_numpy()

    def parts(noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Boundary and noise part of the first feature's variance, under unit scale."""
        at = make_posterior(g.kernel_, rows, np.zeros_like(noise), noise, 1.0, 0).predict(grid)
        return at.model_variance[:, 0], at.noise_variance[:, 0]

    near, K = np.split(g.kernel_.gram(np.vstack((rows, grid)))[:, : len(rows)], [len(rows)])[::-1]
    alone = parts(np.full(rows.shape, _FLOOR))[0]
    contributions = _contributions(scene)
    found: dict[str, Any] = {}
    for explainer in EXPLAINERS:
        total, noise, gap = {}, {}, {}
        for n in (MANY, FEW):
            drawn = [_noise(explainer, scene, contributions, n, (draw, i)) for i in range(s["runs"])]
            runs = [parts(one) for one in drawn]
            noise[n] = np.array([part for _, part in runs])
            total[n] = np.array([sum(both) for both in runs])
            gap[n] = np.abs(dense_variance(K, near, drawn[0][:, 0]) - alone - noise[n][0]).max()
        found[explainer] = {
            "boundary part": alone.mean(),
            "noise part": noise[MANY].mean(),
            "noise part, few": noise[FEW].mean(),
            "gap": max(gap.values()),
            **changes(total[MANY], total[FEW]),
        }
        if draw == 0:
            surfaces = {
                "combined": total[MANY][0],
                "boundary part": alone,
                "noise part": noise[MANY][0],
                f"{MANY} samples": total[MANY][0],
                f"{FEW} samples": total[FEW][0],
                "difference": total[FEW][0] - total[MANY][0],
            }
            found[explainer]["surfaces"] = {word: pack(surface) for word, surface in surfaces.items()}
    return found


def dense_variance(K: np.ndarray, near: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Eq. 2 as it stands, for a kernel with ``k(x, x) = 1``: an independent check of the sum of both parts."""
    return 1.0 - np.einsum("ij,ji->i", near, np.linalg.solve(K + np.diag(noise), near.T))


def changes(many: np.ndarray, few: np.ndarray) -> dict[str, Any]:
    """What fewer samples change, from runs ``(runs, cells)`` of both; an error is that of the mean difference."""
    mean = few.mean(axis=0) - many.mean(axis=0)
    error = np.sqrt((few.var(axis=0, ddof=1) + many.var(axis=0, ddof=1)) / len(few))
    errors = mean / np.maximum(error, 1e-9 * many.max())
    return {
        "mean change": mean.mean(),
        "share higher": (mean > 0).mean(),
        "least change in errors": errors.min(),
        "share lower beyond error": (errors < -ERRORS).mean(),
    }


def _noise(explainer: str, scene: Plane, contributions: np.ndarray, n: int, seed: tuple[int, int]) -> np.ndarray:
    """The explainer's variance at the training rows: its own, or by Eq. 3 from repeated runs."""
    if explainer == BAYES:
        own = BayesShap(n).fit(
            scene.model, scene.X_train, background=scene.X_train, random_state=1_000 * seed[0] + seed[1]
        )
        return np.maximum(own(scene.X_train).variance, _FLOOR)
    rng = np.random.default_rng([*seed, n])
    chosen = contributions[:, :1] if explainer == MEAN else contributions[:, 1:]
    return np.maximum(sampled(chosen, n, rng).var(axis=0), _FLOOR)


def sampled(contributions: np.ndarray, n: int, rng: np.random.Generator, repeats: int = RESAMPLED) -> np.ndarray:
    """Shapley values, ``(repeats, rows, 2)``: means of ``n`` draws of an order of the features and a background row."""
    N, B = contributions.shape[:2]
    size = (repeats, N, n)
    rows = np.arange(N)[None, :, None]
    return contributions[rows, rng.integers(B, size=size), rng.integers(2, size=size)].mean(axis=2)


def _contributions(scene: Plane) -> np.ndarray:
    """What each feature adds, ``(rows, background, order, feature)``; the first background row is the mean of all."""
    X = scene.X_train.to_numpy()
    B = np.vstack((X.mean(axis=0), X))
    x, b = np.broadcast_arrays(X[:, None], B[None])

    def answer(rows: np.ndarray) -> np.ndarray:
        return scene.probability(pd.DataFrame(rows.reshape(-1, 2), columns=scene.features)).reshape(rows.shape[:2])

    whole, none = answer(x), answer(b)
    first = [answer(np.where(np.arange(2) == j, x, b)) for j in range(2)]  # feature j alone is the row's own
    orders = [
        np.stack((first[0] - none, whole - first[0]), axis=-1),
        np.stack((whole - first[1], first[1] - none), axis=-1),
    ]
    return np.stack(orders, axis=2)


def draw(run: Run) -> None:
    names = run.settings["planes"]
    columns = [(name, explainer) for name in names for explainer in (BAYES, MEAN)]
    scenes = {name: plane(name, n_train=run.settings["n_train"], seed=0) for name in names}
    for figure_name, words in (
        ("fig06_ablation", ("combined", "boundary part", "noise part")),
        ("fig13_samples", (f"{MANY} samples", f"{FEW} samples", "difference")),
    ):
        figure, axes = plt.subplots(
            3, len(columns), figsize=(3.7 * len(columns), 8.6), layout="constrained", squeeze=False
        )
        for column, (name, explainer) in zip(axes.T, columns, strict=True):
            kept = run.values[f"{name}, draw 0"][explainer]["surfaces"]
            shown = [unpack(kept[word]) for word in words]
            top = float(max(shown[0].max(), shown[1].max()))
            for ax, surface, word in zip(column, shown, words, strict=True):
                most = float(np.abs(surface).max()) or 1.0
                limits = {"noise part": (0.0, most), "difference": (-most, most)}.get(word, (0.0, top))
                cmap = "RdBu_r" if word == "difference" else None
                draw_plane(ax, scenes[name], surface, title=f"{explainer}: {word}", color_limits=limits, cmap=cmap)
        what = "its parts" if "ablation" in figure_name else "what fewer samples change"
        figure.suptitle(f"Variance of the horizontal feature's attribution under unit scale, and {what}")
        run.save(figure, figure_name)
