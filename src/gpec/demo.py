"""The demonstration: which breast-cancer diagnoses of a gradient-boosting model have explanations worth believing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split

from gpec.estimator import GPEC
from gpec.explainers import KernelShap
from gpec.explanation import Explanation
from gpec.trust import firm_share, trust_words
from gpec.typing import FloatArray, IntArray

__all__ = ["run"]

_PATIENTS = 12
_TOP = 5
_SUSPICIOUS = 1.4


def run(picture: Path, console: Console) -> None:
    """Fit, explain, print and draw."""
    data = load_breast_cancer(as_frame=True)
    X, malignant = data.data, 1 - data.target  # the data set codes malignant as 0
    X_train, X_test, y_train, y_test = train_test_split(X, malignant, random_state=0, stratify=malignant)
    model = GradientBoostingClassifier(random_state=0).fit(X_train, y_train)
    console.print(
        f"A gradient-boosting model tells malignant from benign tumours with an accuracy of "
        f"{model.score(X_test, y_test):.1%} on {len(X_test)} new patients.\n"
        "KernelSHAP explains 60 training patients and knows its own noise; GPEC samples the model's decision "
        "boundary ...",
        soft_wrap=True,
    )
    g = GPEC(
        model,
        KernelShap(n_samples=256),
        n_explained=60,
        background=50,
        random_state=0,
    ).fit(X_train)
    risk = model.predict_proba(X_test)[:, 1]
    # from the most doubtful diagnosis to the clearest
    order = np.argsort(np.abs(risk - 0.5), kind="stable")
    patients = order[np.linspace(0, len(order) - 1, _PATIENTS).astype(int)]
    explanation = g.explain(X_test.iloc[patients])
    seconds = g.diagnostics_["seconds"]
    console.print(
        "Done: " + ", ".join(f"{stage} {seconds[stage]:.1f} s" for stage in seconds) + f"; {len(g.boundary_)} boundary "
        f"points, {g.diagnostics_['model_rows']:,} model rows.\n",
        soft_wrap=True,
    )
    shares = firm_share(explanation)
    ranked = np.argsort(shares, kind="stable").astype(np.int64)
    for i in (ranked[0], ranked[len(ranked) // 2], ranked[-1]):
        console.print(_patient_table(explanation[int(i)], X_test.index[patients[i]], float(risk[patients[i]])))
    _print_suspects(console, explanation, shares, X_test.index[patients], risk[patients])
    _draw(picture, explanation, shares, ranked, X_test.index[patients], risk[patients])
    console.print(f"\nPicture saved to {picture}", soft_wrap=True)


def _patient_table(row: Explanation, name: int, risk: float) -> TextTable:
    table = TextTable(title=f"Patient {name}: P(malignant) = {risk:.2f}", title_justify="left")
    table.add_column("feature")
    for column in ("value", "pushes by", "95% interval"):
        table.add_column(column, justify="right")
    table.add_column("direction")
    top = row[np.argsort(-np.abs(row.values), kind="stable")[:_TOP]]
    for feature, value, push, low, high, word in zip(
        top.feature_names, top.data, top.values, top.lower, top.upper, trust_words(top), strict=True
    ):
        table.add_row(str(feature), f"{value:.4g}", f"{push:+.3f}", f"{low:+.3f} to {high:+.3f}", word)
    return table


def _print_suspects(
    console: Console, explanation: Explanation, shares: FloatArray, names: FloatArray, risk: FloatArray
) -> None:
    boundary = explanation.boundary_variance.sum(axis=1)
    noise = explanation.noise_variance.sum(axis=1)
    times = (boundary + noise) / np.median(boundary + noise)
    suspects = np.flatnonzero(times > _SUSPICIOUS)
    console.print(
        f"\nExplanations that deserve suspicion: {len(suspects)} of {len(times)} patients have more than "
        f"{_SUSPICIOUS:g} times the usual variance.",
        soft_wrap=True,
    )
    for i in suspects[np.argsort(-times[suspects], kind="stable")]:
        noise_share = noise[i] / (noise[i] + boundary[i])
        if noise_share > 0.5:
            why = "mostly KernelSHAP's own sampling noise; more samples would help"
        elif abs(risk[i] - 0.5) < 0.25:
            why = "the patient sits at the decision boundary, where no explained patient is alike"
        else:
            why = "few explained patients lie along the same stretch of the decision boundary"
        console.print(
            f"  patient {names[i]} (P = {risk[i]:.2f}): {times[i]:.1f} times the usual variance, {shares[i]:.0%} of "
            f"the attribution firm: {why} (noise {noise_share:.1%}, boundary {1 - noise_share:.1%}).",
            soft_wrap=True,
        )


def _draw(
    picture: Path,
    explanation: Explanation,
    shares: FloatArray,
    ranked: IntArray,
    names: FloatArray,
    risk: FloatArray,
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from gpec.plots import bars

    chosen = [*ranked[:2], *ranked[-2:]]
    figure, axes = plt.subplots(2, 2, figsize=(12, 7), layout="constrained")
    for ax, i in zip(axes.flat, chosen, strict=True):
        bars(explanation[int(i)], ax, max_features=6, legend=ax is axes[0, 0])
        ax.set_title(f"Patient {names[i]}: P(malignant) {risk[i]:.2f}, {shares[i]:.0%} firm", fontsize=10)
    figure.suptitle("KernelSHAP with 95% GPEC intervals: least trustworthy explanations above, most below")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
