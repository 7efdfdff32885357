"""What ``fit``, ``calibrate`` and ``explain`` cost: runs of the explainer, model rows and seconds, before they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd

from gpec.data._equality import distinct_rows
from gpec.data.rows import evenly_spaced
from gpec.explainers import Explainer
from gpec.explainers.noise import n_runs
from gpec.pipeline.context import ExplainedSample, FitContext, FitInputs
from gpec.pipeline.effort import affordable, budget_left, most_rows, n_pairs
from gpec.pipeline.explain import bound_explainer
from gpec.pipeline.fitted import Fitted
from gpec.pipeline.reuse import PROBE_ROWS
from gpec.pipeline.sampling import TRIED_ROWS, boundary_rows, fit_similarity, pool_rows
from gpec.similar import SimilaritySampler
from gpec.typing import FloatArray

_COUNTED_ROWS = 200  # whose similar rows are looked at
_TIMED_ROWS = 1_000
_ENOUGH = 0.2  # seconds
_COLUMNS = {"explainer_runs": "Int64", "model_rows": "Int64", "seconds": "float64"}


def cost_of_unfitted(inputs: FitInputs, n_jobs: int | None, m: int) -> pd.DataFrame:
    """The cost of a fit, and of calibrating on and explaining its rows."""
    context, Z = inputs.context, inputs.rows
    model, predicts = context.model, context.mode == "predict"
    explainer = cast(Explainer, context.explainer)  # without one, attributions would have to be given
    model.answers(Z[:PROBE_ROWS])  # gives the number of classes
    rows_before, started = model.n_rows, time.perf_counter()
    explainer.bind(model, context.background)
    bound = np.array([0, model.n_rows - rows_before, time.perf_counter() - started])
    if explainer.learns:
        explainer.learn(Z[:TRIED_ROWS], context.seed)
        if model.n_rows - rows_before > bound[1]:
            bound[1:] = np.nan  # how often it asks to learn from all rows
    similarity = fit_similarity(inputs)
    price = _Price(context, explainer, similarity, Z, n_jobs)
    n, share = min(context.settings.most_explained, len(Z), TRIED_ROWS), 1.0
    if predicts:
        some = ExplainedSample(Z[evenly_spaced(len(Z), context.settings.most_explained)], np.ones(0))
        n, share = _dearest(explainer, some, affordable(inputs, some, similarity, explainer))
    steps = {
        "fit: draw": price.asking(pool_rows(inputs) + 2 * min(len(Z), PROBE_ROWS)),
        "fit: boundary": price.asking(boundary_rows(inputs)),
        "fit: explainer": bound + [1, share, share] * price.explaining(n, Z),
    }
    if predicts:
        steps["fit: kernel"] = price.asking(n * price.rows_for_kernel)
        steps["fit: check"] = price.checking(n_pairs(n, context.settings), share)
    total = np.sum(list(steps.values()), axis=0)
    return _table({**steps, "fit: total": total, **price.later_calls(budget_left(context.settings, total[1]), m)})


def _dearest(explainer: Explainer, sample: ExplainedSample, choices: dict[int | None, int]) -> tuple[int, float]:
    """Of what ``fit`` chooses from: how many rows it explains, and the share of a row's usual model rows it needs."""
    needed = {n: most_rows(explainer.with_samples(n), sample.rows, None).sum() for n in choices}
    usual = most_rows(explainer, sample.rows, None).sum()
    shares = {n: each / usual if usual > 0 else 1.0 for n, each in needed.items()}
    dearest = max(choices, key=lambda n: choices[n] * shares[n])
    return choices[dearest], float(shares[dearest])


def cost_of_fitted(
    fitted: Fitted, diagnostics: dict[str, Any], Z: FloatArray, n_jobs: int | None, m: int | None
) -> pd.DataFrame:
    """What the fit has cost, and the cost of calibrating on and explaining the rows ``Z``."""
    seen, price = fitted.observations, _Price(fitted.context, bound_explainer(fitted), fitted.similarity, Z, n_jobs)
    n = 0 if seen.given else len(seen.rows) + (0 if seen.similar_values is None else len(seen.similar_values))
    spent = np.array([n * price.runs, diagnostics["model_rows"], sum(diagnostics["seconds"].values())])
    left = budget_left(fitted.context.settings, fitted.spent)
    return _table(
        {"fit: total": spent, **price.later_calls(left, fitted.calibration.n_similar_explained if m is None else m)}
    )


def _table(steps: dict[str, FloatArray]) -> pd.DataFrame:
    table = pd.DataFrame.from_dict(steps, orient="index", columns=list(_COLUMNS))
    return table.round({"explainer_runs": 0, "model_rows": 0}).astype(_COLUMNS)


class _Price:
    """Costs as arrays: explainer runs, model rows, seconds; unknown ones are NaN."""

    def __init__(
        self,
        context: FitContext,
        explainer: Explainer,
        nearby: SimilaritySampler | None,
        Z: FloatArray,
        n_jobs: int | None,
    ) -> None:
        self.explainer, self.Z, self.n_jobs, self.mode = explainer, Z, n_jobs, context.mode
        self.runs = n_runs(explainer, context.settings.noise, context.settings.n_resamples)
        self.explainer_pace = _Pace(lambda rows: explainer.explain(rows, seed=context.seed, run=1), Z)
        self.model_pace = _Pace(context.model.answers, Z)
        self.different = Z[distinct_rows(Z)[0]]
        some = self.different[evenly_spaced(len(self.different), _COUNTED_ROWS)]
        found = some[:, None][:, :0] if nearby is None else nearby.rows(some)
        self.K, self.similar = found.shape[1], found.reshape(-1, Z.shape[1])
        self.rows_for_kernel = context.rows_for_kernel

    def asking(self, n: float) -> FloatArray:
        """Of asking the model for ``n`` rows."""
        return np.array([0.0, n, self.model_pace.seconds(n)])

    def explaining(self, n: float, like: FloatArray) -> FloatArray:
        """Of explaining ``n`` rows like these."""
        needed, usual = (self._model_rows_each(rows) for rows in (like, self.Z[: self.explainer_pace.n]))
        seconds = self.explainer_pace.seconds(n * self.runs) * (needed / usual if needed > 0 and usual > 0 else 1.0)
        workers = self.explainer.n_workers(max(1, round(n)), 0 if np.isnan(needed) else round(n * needed), self.n_jobs)
        return np.array([n * self.runs, n * self.runs * needed, seconds / workers])

    def _model_rows_each(self, Z: FloatArray) -> float:
        rows = self.explainer.model_rows(Z)
        return np.nan if rows is None else rows / len(Z)

    def checking(self, n: int, share: float = 1.0) -> FloatArray:
        """Of explaining one of the rows similar to each of ``n`` rows for a share of its price, and predicting it."""
        if not self.K:
            return np.zeros(3)
        predicted = self.asking(n * self.rows_for_kernel * (1 + self.K))
        return [1, share, share] * self.explaining(n, self.similar) + predicted

    def later_calls(self, left: float, m: int) -> dict[str, FloatArray]:
        """Of calibrate, with what is ``left`` of a budget, and of explain; ``m`` similar rows of each are explained."""
        n, none = len(self.Z), np.zeros(3)
        own = self.explaining(n, self.Z)
        if self.mode == "predict":
            predicted = self.asking(n * self.rows_for_kernel * (1 + self.K))
            explain, similar = own + predicted, self.explaining(n, self.similar) if self.K else none
            if m and self.K:  # the model is asked for similar rows to choose among them, and then to predict the others
                explain = explain + m * similar + predicted
            calibrate = explain + similar if self.K else none
            return {"calibrate": calibrate * (left / calibrate[1] if calibrate[1] > left else 1.0), "explain": explain}
        different = self.similar[distinct_rows(self.similar)[0]]  # of equal rows one is explained
        n_similar = len(self.different) * self.K * len(different) / len(self.similar)
        return {"calibrate": none, "explain": own + self.explaining(n_similar, different) + self.asking(n)}


class _Pace:
    """The time that some work takes on ``n`` rows, measured with one row, and with more if that takes little time."""

    def __init__(self, work: Callable[[FloatArray], Any], Z: FloatArray) -> None:
        self.n, self._first, self._further = 0, 0.0, 0.0
        while self._first < _ENOUGH and self.n < min(len(Z), _TIMED_ROWS):
            known, before, self.n = self.n, self._first, min(max(1, 4 * self.n), len(Z), _TIMED_ROWS)
            started = time.perf_counter()
            work(Z[: self.n])
            self._first = time.perf_counter() - started
            self._further = max(0.0, self._first - before) / (self.n - known)

    def seconds(self, n: float) -> float:
        """For ``n`` rows: in proportion to those measured, and for more of them by what the last ones added."""
        return float(self._first * np.minimum(1.0, n / self.n) + self._further * np.maximum(0.0, n - self.n))
