"""The demo: which explanations of breast-cancer diagnoses hold among similar patients, and which do not."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as TextTable
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import train_test_split

from gpec._numbers import number, share_text, value_text
from gpec.estimator import GPEC
from gpec.explanation import Explanation
from gpec.typing import FloatArray

_TOP = 4


def run(picture: Path, console: Console) -> None:
    """Fit, explain, print and draw."""
    say = partial(console.print, soft_wrap=True)
    data = load_breast_cancer(as_frame=True)
    X, malignant = data.data, 1 - data.target  # the data set codes malignant as 0
    X_train, X_new, y_train, y_new = train_test_split(X, malignant, test_size=0.4, random_state=0, stratify=malignant)
    model = GradientBoostingClassifier(random_state=0).fit(X_train, y_train)
    say(
        "A gradient-boosting model classifies tumours as malignant or benign, correctly for "
        f"{model.score(X_new, y_new):.1%} of {len(X_new)} new patients. TreeSHAP explains each diagnosis: how much "
        "each measurement adds to the log-odds of malignant, exactly. But would a very similar patient get the same "
        "explanation? gpec explains ten patients similar to each one, too ..."
    )
    g = GPEC(model, "tree", progress=False).fit(X_train)
    explanation = g.explain(X_new)
    seconds = sum(g.diagnostics_["seconds"].values()) + sum(explanation.diagnostics["seconds"].values())
    say(f"Done in {seconds:.1f} s.\n\nWhat an interval promises. {explanation.statement()}\n")
    risk = model.predict_proba(X_new)[:, 1]
    nearby = model.predict_proba(g.similar_rows(X_new))[:, 1].reshape(len(X_new), -1)
    share = explanation.firm_share
    ranked = np.argsort(share, kind="stable")
    shown = [int(i) for i in (*ranked[-2:], *ranked[:2])]
    titles = [f"Patient {X_new.index[i]}: P(malignant) {risk[i]:.2f}, {share_text(share[i])} firm" for i in shown]
    for i, title in zip(shown, titles, strict=True):
        console.print(_patient_table(explanation[i], title, explanation.values))
        say(f"{_why(nearby[i])}\n")
    say(
        f"For {(share >= 0.975).sum()} of {len(share)} patients, features with a firm sign make up at least 97.5% of "
        f"the explanation. For {(share < 0.5).sum()} patients, more than half of the explanation could change sign."
    )
    _draw(picture, [explanation[i] for i in shown], titles)
    say(f"\nPicture of the four patients saved to {picture}")


def _patient_table(row: Explanation, title: str, like: FloatArray) -> TextTable:
    table = TextTable(title=title, title_justify="left")
    table.add_column("feature")
    for column in ("value", "attribution", "95% interval"):
        table.add_column(column, justify="right")
    table.add_column("sign")
    top = row[np.argsort(-np.abs(row.values), kind="stable")[:_TOP]]
    for name, value, *ends, word in zip(
        top.feature_names, top.data, top.values, top.lower, top.upper, top.firmness, strict=True
    ):
        push, low, high = (number(end, like, sign=True, minus="-") for end in ends)
        table.add_row(name, value_text(value, digits=4), push, f"{low} to {high}", word)
    return table


def _why(nearby: FloatArray) -> str:
    """What the model answers for similar patients."""
    low, high = nearby.min(), nearby.max()
    range_of_answers = f"P(malignant) is {low:.2f} to {high:.2f} among similar patients"
    return f"{range_of_answers}: some get another diagnosis." if low < 0.5 < high else f"{range_of_answers}."


def _draw(picture: Path, rows: list[Explanation], titles: list[str]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from gpec.plots import bars

    figure, axes = plt.subplots(2, 2, figsize=(12, 7), layout="constrained")
    for ax, row, title in zip(axes.flat, rows, titles, strict=True):
        bars(row, ax=ax, max_features=6, legend=ax is axes[0, 0])
        ax.set_title(title, fontsize=10)
    figure.suptitle("How far each explanation holds among similar patients: firmest above, least firm below")
    figure.savefig(picture, dpi=110)
    plt.close(figure)
