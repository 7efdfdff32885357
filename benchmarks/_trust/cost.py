"""What the interval costs beside the explainer that gave the value: KernelSHAP with its defaults, Census."""

import numpy as np

import gpec
from benchmarks._trust.problems import problem

ROWS = 100
REPEATS = 5


def cost() -> dict[str, float]:
    """Seconds of the explainer and of the interval for some rows; those of the median ratio."""
    p = problem("census", "trees", 0)
    g = gpec.GPEC(p.model, "kernelshap", random_state=0, progress=False).fit(p.fit)
    runs = [g.explain(p.test[:ROWS]).diagnostics["seconds"] for _ in range(REPEATS)]
    middle = np.argsort([run["gp"] / run["explainer"] for run in runs])[REPEATS // 2]
    return {"rows": ROWS, **runs[middle]}
