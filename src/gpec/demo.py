"""The demonstration: which explanations of breast-cancer diagnoses hold among similar patients, and which do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split

from gpec.estimator import GPEC
from gpec.explanation import Explanation
from gpec.metrics import coverage
from gpec.trust import firm_share
from gpec.typing import FloatArray, IntArray

__all__ = ["run"]

_TOP = 4
_PATIENTS = 24  # whose similar patients are explained, to check the intervals
_HOLDS, _FAILS = 0.975, 0.5  # of the weight of an explanation whose direction is firm
_WORDS = {"high": "holds", "medium": "probably", "low": "may turn"}


def run(picture: Path, console: Console) -> None:
    """Fit, calibrate, explain, check, print and draw."""
    data = load_breast_cancer(as_frame=True)
    X, malignant = data.data, 1 - data.target  # the data set codes malignant as 0
    X_train, X_rest, y_train, y_rest = train_test_split(X, malignant, test_size=0.4, random_state=0, stratify=malignant)
    X_cal, X_new = X_rest.iloc[:114], X_rest.iloc[114:]
    model = GradientBoostingClassifier(random_state=0).fit(X_train, y_train)
    console.print(
        f"A gradient-boosting model tells malignant from benign tumours, right for {model.score(X_rest, y_rest):.1%} "
        f"of {len(X_rest)} new patients. TreeSHAP explains each diagnosis exactly. But would a patient much like this "
        "one be told the same story? gpec learns this from 100 explained patients, and checks itself on "
        f"{len(X_cal)} others ...",
        soft_wrap=True,
    )
    g = GPEC(model, "tree", n_boundary=500, n_explained=100, background=30, random_state=0, progress=False)
    g.fit(X_train).calibrate(X_cal)
    explanation = g.explain(X_new)
    seconds = g.diagnostics_["seconds"]
    console.print(f"Done: {', '.join(f'{stage} {time:.1f} s' for stage, time in seconds.items())}.\n", soft_wrap=True)
    console.print(f"What an interval promises. {explanation.statement()}\n", soft_wrap=True)
    risk = model.predict_proba(X_new)[:, 1]
    nearby = model.predict_proba(g.similar_rows(X_new))[:, 1].reshape(len(X_new), -1)
    share = firm_share(explanation)
    ranked = np.argsort(share, kind="stable").astype(np.int64)
    for i in (ranked[-1], ranked[len(ranked) // 3], ranked[0]):
        console.print(_patient_table(explanation[int(i)], X_new.index[i], float(risk[i])))
    _print_verdict(console, explanation, share, ranked, X_new.index, risk, nearby)
    _print_check(console, g, explanation, X_new)
    _draw(picture, explanation, share, ranked, X_new.index, risk)
    console.print(f"\nPicture saved to {picture}", soft_wrap=True)


def _patient_table(row: Explanation, name: int, risk: float) -> TextTable:
    table = TextTable(title=f"Patient {name}: P(malignant) = {risk:.2f}", title_justify="left")
    table.add_column("feature")
    for column in ("value", "pushes by", "95% interval"):
        table.add_column(column, justify="right")
    table.add_column("its direction")
    top = row[np.argsort(-np.abs(row.values), kind="stable")[:_TOP]]
    for feature, value, push, low, high, level in zip(
        top.feature_names, top.data, top.values, top.lower, top.upper, top.trust(), strict=True
    ):
        table.add_row(str(feature), f"{value:.4g}", f"{push:+.3f}", f"{low:+.3f} to {high:+.3f}", _WORDS[level])
    return table


def _print_verdict(
    console: Console,
    explanation: Explanation,
    share: FloatArray,
    ranked: IntArray,
    names: Any,
    risk: FloatArray,
    nearby: FloatArray,
) -> None:
    """How many explanations hold, and why the least firm do not."""
    holds, fails = int((share >= _HOLDS).sum()), np.flatnonzero(share < _FAILS)
    console.print(
        f"\nAmong patients like them the explanation keeps its direction for {holds} of {len(share)} patients (the "
        f"features that are firm carry {_HOLDS:.1%} of its weight). For {len(fails)} more than half of it may turn:",
        soft_wrap=True,
    )
    for i in ranked[:_TOP]:
        row = explanation[int(i)]
        worst = int(np.argmax(row.width))
        low, high = nearby[i].min(), nearby[i].max()
        if low < 0.5 < high:
            why = f"similar patients get another diagnosis: P(malignant) runs from {low:.2f} to {high:.2f} among them"
        elif high - low > 0.1:
            why = (
                f"the model changes quickly here: P(malignant) runs from {low:.2f} to {high:.2f} among similar patients"
            )
        else:
            why = "the pushes are all small, so little turns them"
        console.print(
            f"  patient {names[i]} (P = {risk[i]:.2f}): {share[i]:.0%} firm; {why}; least sure is "
            f"{row.feature_names[worst]}.",
            soft_wrap=True,
        )


def _print_check(console: Console, g: GPEC, explanation: Explanation, X: Any) -> None:
    """Explain the similar patients after all, and count."""
    some = explanation[:_PATIENTS]
    truth = g.explain(g.similar_rows(X.iloc[:_PATIENTS])).values.reshape(_PATIENTS, -1, X.shape[1])
    lower, upper = (np.broadcast_to(bound[:, None], truth.shape) for bound in some.interval())
    console.print(
        f"\nChecked on the spot: the {truth.shape[1]} patients similar to each of {_PATIENTS} were explained as well; "
        f"{coverage(truth, lower, upper):.1%} of their {truth.size:,} attributions lie inside the 95% intervals.",
        soft_wrap=True,
    )


def _draw(
    picture: Path, explanation: Explanation, share: FloatArray, ranked: IntArray, names: Any, risk: FloatArray
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from gpec.plots import bars

    figure, axes = plt.subplots(2, 2, figsize=(12, 7), layout="constrained")
    for ax, i in zip(axes.flat, [*ranked[-2:], *ranked[:2]], strict=True):
        bars(explanation[int(i)], ax=ax, max_features=6, legend=ax is axes[0, 0])
        ax.set_title(f"Patient {names[i]}: P(malignant) {risk[i]:.2f}, {share[i]:.0%} firm", fontsize=10)
    figure.suptitle("How far each explanation holds among similar patients: firmest above, least firm below")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
