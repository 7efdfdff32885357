"""The demo: which explanations of breast-cancer diagnoses hold among similar patients, and which do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split

from gpec._numbers import number, share_text, value_text
from gpec.estimator import GPEC
from gpec.explanation import Explanation
from gpec.intervals.trust import firm_share, row_levels
from gpec.metrics import coverage
from gpec.typing import FloatArray, IntArray

__all__ = ["run"]

_TOP = 4
_PATIENTS = 24  # whose similar patients are explained, to check the intervals
_WORDS = {"high": "firm", "medium": "likely", "low": "unclear"}


def run(picture: Path, console: Console) -> None:
    """Fit, calibrate, explain, check, print and draw."""
    say = partial(console.print, soft_wrap=True)
    data = load_breast_cancer(as_frame=True)
    X, malignant = data.data, 1 - data.target  # the data set codes malignant as 0
    X_train, X_rest, y_train, y_rest = train_test_split(X, malignant, test_size=0.4, random_state=0, stratify=malignant)
    X_cal, X_new = X_rest.iloc[:114], X_rest.iloc[114:]
    model = GradientBoostingClassifier(random_state=0).fit(X_train, y_train)
    say(
        "A gradient-boosting model classifies tumours as malignant or benign, correctly for "
        f"{model.score(X_rest, y_rest):.1%} of {len(X_rest)} new patients. TreeSHAP explains each diagnosis exactly. "
        "But would a very similar patient get the same explanation? gpec learns this from 100 explained patients, and "
        "checks itself on "
        f"{len(X_cal)} others ..."
    )
    g = GPEC(model, "tree", n_boundary=500, n_explained=100, background=30, random_state=0, progress=False)
    g.fit(X_train).calibrate(X_cal)
    explanation = g.explain(X_new)
    seconds = g.diagnostics_["seconds"]
    say(f"Done: {', '.join(f'{stage} {time:.1f} s' for stage, time in seconds.items())}.\n")
    say(f"What an interval promises. {explanation.statement()}\n")
    risk = model.predict_proba(X_new)[:, 1]
    nearby = model.predict_proba(g.similar_rows(X_new))[:, 1].reshape(len(X_new), -1)
    share = firm_share(explanation)
    ranked = np.argsort(share, kind="stable").astype(np.int64)
    titles = [f"Patient {name}: P(malignant) {p:.2f}" for name, p in zip(X_new.index, risk, strict=True)]
    for i in (ranked[-1], ranked[len(ranked) // 3], ranked[0]):
        console.print(_patient_table(explanation[int(i)], titles[i], explanation.values))
    levels = row_levels(share).tolist()
    say(
        f"\nFor {levels.count('high')} of {len(share)} patients, features with a firm sign make up at least 97.5% of "
        f"the explanation. For {levels.count('low')} patients, more than half of the explanation could change sign:"
    )
    for i in ranked[:_TOP]:
        row = explanation[int(i)]
        least = row.feature_names[int(np.argmax(row.width))]
        say(f"  {titles[i]}, {share_text(share[i])} firm; {_why(nearby[i])}; least sure is {least}.")
    _print_check(say, g, explanation, X_new)
    _draw(
        picture, explanation, [f"{title}, {share_text(p)} firm" for title, p in zip(titles, share, strict=True)], ranked
    )
    say(f"\nPicture saved to {picture}")


def _patient_table(row: Explanation, title: str, like: FloatArray) -> TextTable:
    table = TextTable(title=title, title_justify="left")
    table.add_column("feature")
    for column in ("value", "attribution", "95% interval"):
        table.add_column(column, justify="right")
    table.add_column("sign")
    top = row[np.argsort(-np.abs(row.values), kind="stable")[:_TOP]]
    for name, value, *ends, level in zip(
        top.feature_names, top.data, top.values, top.lower, top.upper, top.trust(), strict=True
    ):
        push, low, high = (number(end, like, sign=True, minus="-") for end in ends)
        table.add_row(name, value_text(value, digits=4), push, f"{low} to {high}", _WORDS[level])
    return table


def _why(nearby: FloatArray) -> str:
    """Why an explanation could change sign, by the model's answers for similar patients."""
    low, high = nearby.min(), nearby.max()
    if low < 0.5 < high:
        return f"similar patients get another diagnosis: P(malignant) runs from {low:.2f} to {high:.2f} among them"
    if high - low > 0.1:
        return f"the model changes quickly here: P(malignant) runs from {low:.2f} to {high:.2f} among similar patients"
    return "all attributions are small, so a small change reverses them"


def _print_check(say: Callable[[str], None], g: GPEC, explanation: Explanation, X: Any) -> None:
    """Explain the similar patients, and count how many attributions lie inside."""
    truth = g.explain(g.similar_rows(X.iloc[:_PATIENTS])).values.reshape(_PATIENTS, -1, X.shape[1])
    bounds = explanation[:_PATIENTS].interval()
    lower, upper = (np.broadcast_to(bound[:, None], truth.shape) for bound in bounds)
    say(
        f"\nChecked: the {truth.shape[1]} patients similar to each of {_PATIENTS} patients were explained as well; "
        f"{coverage(truth, lower, upper):.1%} of their {truth.size:,} attributions lie inside the 95% intervals."
    )


def _draw(picture: Path, explanation: Explanation, titles: list[str], ranked: IntArray) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from gpec.plots import bars

    figure, axes = plt.subplots(2, 2, figsize=(12, 7), layout="constrained")
    for ax, i in zip(axes.flat, [*ranked[-2:], *ranked[:2]], strict=True):
        bars(explanation[int(i)], ax=ax, max_features=6, legend=ax is axes[0, 0])
        ax.set_title(titles[i], fontsize=10)
    figure.suptitle("How far each explanation holds among similar patients: firmest above, least firm below")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
