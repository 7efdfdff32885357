"""What a boundary point costs, and whether all of them lie on the boundary."""

import time

import numpy as np

from benchmarks import census
from gpec.boundary import BisectionSampler


def run(count=10_000):
    model, X = census.model_and_rows()
    started = time.perf_counter()
    sample = BisectionSampler().sample(model, X, count, random_state=0, progress=False)
    seconds = time.perf_counter() - started
    length = np.linalg.norm(sample.direction / X.std(axis=0), axis=1)[:, None]  # 1 standardised unit, to rounding
    step = 0.5e-4 * sample.direction / length
    before, beyond = model.predict(sample.points - step), model.predict(sample.points + step)
    return {
        "points": len(sample),
        "distinct": len(np.unique(sample.points, axis=0)),
        "rows_per_point": sample.n_model_rows / len(sample),
        "on_boundary": float((before != beyond).mean()),
        "longest_bracket": float(2 * sample.residual.max()),
        "seconds": seconds,
    }


def report(x):
    return [
        f"{x['points']:,} points asked for and found, {x['distinct']:,} distinct: **{x['rows_per_point']:.1f} model "
        f"rows** a point (target 45), the label differs across a step of 1e-4 standardised units at "
        f"**{x['on_boundary']:.2%}** of them, longest bracket {x['longest_bracket']:.1e}, {x['seconds']:.1f} s."
    ]
