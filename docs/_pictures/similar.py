"""Draw docs/similar.png: one row, its nearest rows and its similar rows; and how many signs are firm for each step.

    python docs/_pictures/similar.py

Data and model are those of docs/similar.md.
"""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import gpec
from gpec.similar import NearestRows

BLUE, ORANGE, GREY = "#1f5f8b", "#c8690a", "#b8b8b8"
STEPS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


def example() -> dict:
    """What the first block of the page makes: X_train, X_new and model."""
    names: dict = {}
    page = (Path(__file__).parents[1] / "similar.md").read_text()
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], names)  # noqa: S102  the page is ours
    return names


def draw(path: Path) -> None:
    """The row and its neighbours at the left, firm shares at the right."""
    names = example()
    X, new, model = names["X_train"], names["X_new"], names["model"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=[1.25, 1])
    plane = new[["age", "income"]]
    place = int((((plane - plane.median()) / plane.std()) ** 2).sum(axis=1).argmin())  # the most usual one
    row = new[place : place + 1]
    there, between = (
        gpec.GPEC(model, "tree", similar=NearestRows(step=step), random_state=0).fit(X).similar_rows(row)
        for step in (1.0, 0.5)
    )
    left.plot(X["age"], X["income"], ".", color=GREY, markersize=3, label="rows given to fit")
    for k in range(len(there)):
        ends = [(row.iloc[0][name], there.iloc[k][name]) for name in ("age", "income")]
        left.plot(*ends, color=BLUE, linewidth=0.7, alpha=0.6)
    left.plot(there["age"], there["income"], "o", mfc="white", mec=BLUE, markersize=7, label="its 10 nearest rows")
    left.plot(between["age"], between["income"], "o", color=BLUE, markersize=4, label="its similar rows, step 0.5")
    left.plot(row["age"], row["income"], "D", color=ORANGE, markersize=8, label="the row")
    middle, reach = (f(np.vstack([there[["age", "income"]], row[["age", "income"]]]).astype(float), axis=0)
                     for f in (np.median, np.ptp))  # fmt: skip
    left.set(
        xlim=(middle[0] - reach[0], middle[0] + reach[0]), ylim=(middle[1] - reach[1], middle[1] + reach[1]),
        xlabel="age", ylabel="income", title="Two of five columns of one applicant",
    )  # fmt: skip
    left.legend(fontsize=8, loc="upper left")
    for n, style in ((5, ":"), (10, "-"), (40, "--")):
        share = []
        for step in STEPS:
            g = gpec.GPEC(model, "tree", similar=NearestRows(n, step), random_state=0, progress=False).fit(X)
            share.append((g.explain(new).firmness == "firm").mean())
        right.plot(STEPS, share, style, color=BLUE, marker="o", markersize=3.5, label=f"n_neighbors={n}")
        print(n, dict(zip(STEPS, np.round(share, 3).tolist(), strict=True)))
    right.set(xlabel="step", ylabel="share of attributions with a firm sign", ylim=(0, 1))
    right.set_title("The larger the step, the fewer firm signs")
    right.legend(fontsize=8)
    for ax in (left, right):
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "similar.png")
