"""Table 2, 3 and 4: how long each method takes to learn, and to give the uncertainty of 100 rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from gpec.boundary import AdversarialSampler, BisectionSampler, BoundarySample, Sampler
from gpec.errors import SlowExplainerWarning
from gpec.explainers import BayesLime, BayesShap, CXPlain, make_explainer
from gpec.gp import learn_kernel, make_posterior
from gpec.kernels import RBF
from paper._methods import METHODS, attributions_of, fit_gpec
from paper._models import images, network, problem
from paper._runs import Run
from paper._times_numbers import IMAGES, LEARNING, LEAST, PAPER_INFERENCE, PAPER_TRAINING, ours_of
from paper._times_report import report, tables, verdicts

__all__ = ["draw", "naive", "report", "run", "settings", "tables", "timed", "verdicts"]

_REPEATS = 3  # of each inference; the fastest counts
_COLORS = ("#0072B2", "#56B4E9", "#009E73", "#D55E00", "#E69F00")


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    toy, paper = size == "toy", size == "paper"
    tables, shown = [name for name in PAPER_INFERENCE if name != IMAGES], {IMAGES: 1}
    return {
        "seeds": {"German Credit": 2} if toy else {**dict.fromkeys(tables, seeds or (5 if paper else 3)), **shown},
        "n_boundary": 100 if toy else 10_000 if paper else 1_000,
        "n_explained": 10 if toy else 100,
        "n_query": 10 if toy else 100,
        "n_samples": 30 if toy else 200,
        "n_networks": 2 if toy else 10,
        "n_learned": 50 if toy else 1_000,
        "lam": 1.0,
        "rho": 0.1,
        "images": {
            "rho": 0.01,
            "hidden": [700, 400, 200, 100] if paper else [100, 50],
            "n_train": 10_000 if paper else 6_000,
            "n_epochs": 5 if paper else 3,
            "n_pool": 2_000 if paper else 600,
            "attacks": [100, 10] if paper else [50, 5],
            "n_perturbed": 20 if paper else 10,
            "n_networks": 3 if paper else 2,
            "n_learned": 300 if paper else 100,
        },
    }


@dataclass(frozen=True, eq=False)
class Case:
    """A model, its rows, and what the methods need to know besides."""

    model: Any
    pool: np.ndarray
    explained: np.ndarray
    query: np.ndarray
    attributions: Callable[[], np.ndarray]
    cxplain: CXPlain
    n_perturbed: int  # query rows for the methods that perturb; their time is scaled up to all
    n_samples: int
    sampler: Sampler
    n_boundary: int
    gpec: dict[str, Any]


def run(run: Run) -> None:
    _warm_up()
    for name, seeds in run.settings["seeds"].items():
        for seed in range(seeds):
            make = _images if name == IMAGES else _table
            run.once(
                f"{name}, seed {seed}",
                lambda make=make, name=name, seed=seed: time_all(make(run.settings, name, seed), seed),
            )


def _warm_up() -> None:
    """Train once what nobody needs, so that no method is charged for loading torch."""
    rows = np.random.default_rng(0).normal(size=(20, 2))
    CXPlain(2, n_train=20, n_epochs=1).fit(lambda X: 1 / (1 + np.exp(-X[:, 0])), rows, background=5, random_state=0)


def _table(s: dict[str, Any], name: str, seed: int) -> Case:
    drawn = problem(name, (0.0,), seed, n_explained=s["n_explained"], n_query=s["n_query"])
    model = drawn.models[0.0]
    return Case(
        model, drawn.pool, drawn.explained, drawn.query, lambda: attributions_of(model, drawn.explained, seed=seed),
        CXPlain(s["n_networks"], n_train=s["n_learned"]), s["n_query"], s["n_samples"],
        BisectionSampler(), s["n_boundary"], {"lam": s["lam"], "rho": s["rho"]},
    )  # fmt: skip


def _images(s: dict[str, Any], name: str, seed: int) -> Case:
    how = s["images"]
    X, _, X_test, _ = images(name)
    model, _ = network(
        name, "l2", 0.0, hidden=how["hidden"], n_train=how["n_train"], n_epochs=how["n_epochs"], seed=seed
    )
    rng = np.random.default_rng([seed, 5])
    pool = X[rng.choice(len(X), how["n_pool"], replace=False)].astype(float)
    query = X_test[rng.choice(len(X_test), s["n_query"], replace=False)].astype(float)
    return image_case(s, model, pool, query, seed)


def image_case(s: dict[str, Any], model: Any, pool: np.ndarray, query: np.ndarray, seed: int) -> Case:
    """Images ``(n, side, side)`` for all classes of a network, with DeepLIFT as the explainer."""
    how, explained = s["images"], pool[: s["n_explained"]]
    shape = (1, *pool.shape[1:])
    return Case(
        model, pool, explained, query,
        lambda: make_explainer("captum:DeepLift").fit(model, explained, random_state=seed)(explained).values,
        CXPlain(how["n_networks"], n_train=how["n_learned"], image_shape=shape), how["n_perturbed"], s["n_samples"],
        AdversarialSampler(*how["attacks"]), s["n_boundary"], {"lam": s["lam"], "rho": how["rho"]},
    )  # fmt: skip


def time_all(case: Case, seed: int) -> dict[str, Any]:
    """Seconds of every method in one go, so that their ratios share whatever else the machine was doing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowExplainerWarning)
        explanations, attributions = timed(case.attributions)
        sampling, _ = timed(lambda: _sample(case, seed))  # apart; GPEC samples it again in its training
        found: dict[str, Any] = {"explanations": explanations, "sampling": sampling, "training": {}, "inference": {}}
        for method in METHODS:
            learn, infer, share = _steps(case, method, attributions, seed)
            found["training"][method], learned = timed(learn)
            fastest = min(timed(lambda infer=infer, learned=learned: infer(learned))[0] for _ in range(_REPEATS))
            found["inference"][method] = fastest / share
    return found


def _sample(case: Case, seed: int) -> BoundarySample:
    return case.sampler.sample(
        case.model, case.pool, case.n_boundary, standardize=False, random_state=seed, progress=False
    )


def _steps(case: Case, method: str, attributions: np.ndarray, seed: int) -> tuple[Any, Any, float]:
    """What a method does once, what it then does for query rows, and the share of them that it does it for."""
    model, rows, query = case.model, case.explained, case.query
    if method == "GPEC":
        return (
            lambda: fit_gpec(
                model,
                rows,
                published=True,
                boundary=case.sampler,
                n_boundary=case.n_boundary,
                pool=case.pool,
                attributions=attributions,
                seed=seed,
                **case.gpec,
            ),
            lambda g: g.explain(query, attribution="posterior"),
            1.0,
        )
    if method == "Naive-GP":
        flat = query.reshape(len(query), -1)
        return lambda: naive(rows, attributions), lambda learned: [one.predict(flat) for one in learned], 1.0
    if method == "CXPlain":
        pool, flat = (one.reshape(len(one), -1) for one in (case.pool, query))
        return (
            lambda: case.cxplain.fit(model, pool, background=50, random_state=seed),
            lambda fitted: fitted(flat),
            1.0,
        )
    local = {"BayesSHAP": BayesShap, "BayesLIME": BayesLime}[method](case.n_samples)
    some = query[: case.n_perturbed]
    return (
        lambda: local.fit(model, case.pool, background=50, random_state=seed),
        lambda fitted: fitted.half_width(some, 0.95),
        len(some) / len(query),
    )


def naive(rows: np.ndarray, attributions: np.ndarray) -> list[Any]:
    """Gaussian processes with learned lengths: one for each feature of a table, one for all pixels of an image."""
    rows, Y = rows.reshape(len(rows), -1), attributions.reshape(len(rows), -1)
    found = []
    for columns in [Y] if attributions.ndim > 2 else Y.T[:, :, None]:
        noise = np.full(columns.shape, 1e-4)
        kernel = learn_kernel(RBF("evidence").fit(None, rows), rows, columns, noise, 1.0)
        found.append(make_posterior(kernel, rows, columns, noise, 1.0, 0))
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor, which do not count what else the machine does, and the result."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def draw(run: Run) -> None:
    names = list(run.settings["seeds"])
    figure, axes = plt.subplots(
        2, len(names), figsize=(1.2 + 3.2 * len(names), 5.4), layout="constrained", squeeze=False, sharex="row"
    )
    for column, name in zip(axes.T, names, strict=True):
        published = {method: 60 * minutes for method, minutes in PAPER_TRAINING[name].items() if method in METHODS}
        for ax, what, paper, shown in (
            (column[0], "inference", PAPER_INFERENCE[name], METHODS),
            (column[1], "training", published, ("GPEC", *LEARNING)),
        ):
            for i, method in enumerate(shown):
                color = _COLORS[METHODS.index(method)]
                ours, theirs = ours_of(run, name, what, method).mean(), max(paper[method], LEAST)
                ax.plot([ours, theirs], [i, i], color="#D9D9D9", zorder=1)
                ax.scatter(ours, i, color=color, s=45, zorder=2, label="ours" if i == 0 else None)
                ax.scatter(
                    theirs, i, facecolor="white", edgecolor=color, s=45, zorder=2, label="paper" if i == 0 else None
                )
            ax.set_xscale("log")
            ax.set_yticks(range(len(shown)), shown if name == names[0] else [""] * len(shown))
            ax.set_ylim(len(shown) - 0.5, -0.5)
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_title(f"{name}: {what}", loc="left", fontsize="medium")
            ax.set_xlabel("seconds")
    axes[0, 0].legend(frameon=False, fontsize="small", loc="lower right")
    run.save(figure, "table02_times")
