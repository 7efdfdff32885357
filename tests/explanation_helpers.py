"""An explanation made of random numbers, for the tests of what explanations do."""

import numpy as np

from gpec import Explanation

NAMES = ["age", "bmi", "dose"]
CLASSES = ["setosa", "versicolor", "virginica", "other"]


def explanation(n=5, d=3, classes=None, **changes):
    """``n`` rows of ``d`` features, for two classes or for several; ``changes`` replace parts."""
    rng = np.random.default_rng(0)
    shape = (n, d) if classes is None else (n, d, classes)
    parts = {
        "values": rng.normal(size=shape),
        "model_variance": rng.random(shape),
        "noise_variance": rng.random(shape),
        "explainer_variance": rng.random(shape),
        "base_values": rng.random((n,) if classes is None else (n, classes)),
        "data": rng.normal(size=(n, d)),
        "feature_names": NAMES[:d],
        "output_names": "sick" if classes is None else CLASSES[:classes],
        "diagnostics": {"seed": 3, "settings": {"lam": "auto"}},
        "axes": ("row", "feature") if classes is None else ("row", "feature", "output"),
    }
    return Explanation(**{**parts, **changes})
