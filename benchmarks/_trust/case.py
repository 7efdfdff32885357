"""One case: a table, a model and a seed. The truth is the explainer run on every similar row of every test row.

Arrays of attributions are ``(n, D)`` here, with one column for each feature of each explained class.
"""

import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import shap
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import gpec
from benchmarks._trust.problems import N_EXPLAINED, Problem, Remembering, filled, problem
from gpec.errors import InputError
from gpec.explainers import Explainer
from gpec.metrics import coverage, interval_score, mean_width, nlpd, rank_correlation, worst_slab_coverage
from gpec.similar import NearestRows

LEVEL = 0.95
ROUNDING = 1e-9  # of the largest attribution: less is no change
SLAB_SPLITS = 5
BUDGETS = (1, 2, 4, 10)  # similar rows that are explained themselves
OTHER_KERNELS = ("rbf", "weg")


@dataclass(frozen=True, eq=False)
class Truth:
    """What the explainer says of the test rows ``(n, D)`` and of their similar rows ``(n, K, D)``."""

    values: np.ndarray
    similar_rows: np.ndarray  # (n, K, d)
    similar_values: np.ndarray

    @property
    def rounding(self) -> float:
        return ROUNDING * float(np.abs(self.values).max())

    @property
    def changes(self) -> np.ndarray:
        """Attributions of similar rows less those of the row, 0 where they differ by rounding only."""
        change = self.similar_values - self.values[:, None]
        return np.where(np.abs(change) <= self.rounding, 0.0, change)

    @property
    def size(self) -> np.ndarray:
        """Root mean square change over all similar rows."""
        return np.sqrt((self.changes**2).mean(axis=1))

    @property
    def spread(self) -> np.ndarray:
        """Deviation of each attribution over the test rows; 0 where it is but rounding."""
        found = self.values.std(axis=0)
        return np.where(found <= self.rounding, 0.0, found)


class KnownTruth:
    """A problem, its explainer, and the truth about its test rows."""

    def __init__(self, table: str, kind: str, seed: int, explainer: Explainer | None = None) -> None:
        self.seed, self.seconds = seed, {}
        self.problem: Problem = problem(table, kind, seed, explainer)
        p = self.problem
        self.explainer = Remembering(p.explainer, {})
        with self.clock("truth"):
            self.alone = self.explainer.fit(
                p.model, p.fit, background=p.background, random_state=seed, categorical_features=p.categorical or "auto"
            )
            rows = NearestRows().learn(self.alone.model_.schema, p.fit, self.alone.seed_).rows(p.test)
            n, K, d = rows.shape
            there = self.alone(rows.reshape(-1, d)).values.reshape(n, K, -1)
            self.truth = Truth(flat(self.alone(p.test).values), rows, there)

    def clock(self, stage: str) -> "Clock":
        return Clock(self.seconds, stage)


class Case(KnownTruth):
    """With a fitted and calibrated GPEC."""

    def __init__(self, table: str, kind: str, seed: int) -> None:
        super().__init__(table, kind, seed)
        self._others: dict[str, gpec.Explanation] = {}
        p = self.problem
        self.g = gpec.GPEC(p.model, self.explainer, n_explained=N_EXPLAINED, **self.common)
        with self.clock("fit"):
            self.g.fit(p.fit)
        with self.clock("explain"):
            self.before = self.g.explain(p.test)
            self.value_before = self.g.explain(p.test, attribution="posterior")
        with self.clock("calibrate"):
            self.g.calibrate(p.calibration)
        self.similar = self.g.explain(p.test)
        self.value = self.g.explain(p.test, attribution="posterior")
        assert np.array_equal(self.g._fitted.similarity.rows(p.test), self.truth.similar_rows, equal_nan=True)

    @property
    def common(self) -> dict[str, Any]:
        p = self.problem
        settings = {"background": p.background, "random_state": self.seed, "progress": False}
        return {**settings, "categorical_features": p.categorical or "auto"}

    def refit(self, **settings: Any) -> gpec.GPEC:
        """The same explained rows, their attributions and the same boundary with other settings."""
        answer = self.alone(self.g.X_explained_)
        given = shap.Explanation(values=answer.values, base_values=answer.base_values)
        own = {} if "noise" in settings else {"attribution_variance": answer.variance}
        other = gpec.GPEC(self.problem.model, None, boundary=self.g.boundary_, **self.common, **settings)
        return other.fit(self.problem.fit, X_explained=self.g.X_explained_, attributions=given, **own)

    def with_kernel(self, kernel: str) -> gpec.Explanation:
        """Calibrated values of the test rows by another kernel."""
        if kernel not in self._others:
            calibration = self.problem.calibration
            g = self.refit(kernel=kernel).calibrate(calibration, attributions=self.alone(calibration).values)
            self._others[kernel] = g.explain(self.problem.test, attribution="posterior")
        return self._others[kernel]


class Clock:
    """Processor seconds by stage: the machine may be busy with other things."""

    def __init__(self, seconds: dict[str, float], stage: str) -> None:
        self.seconds, self.stage = seconds, stage

    def __enter__(self) -> None:
        self.started = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.stage] = time.process_time() - self.started


def flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), -1)


def measure(case: Case) -> dict[str, Any]:
    """All figures of a case that need no other method's explanations."""
    with case.clock("other kernels"):
        values = {"auto": value_figures(case, case.value)}
        values |= {kernel: value_figures(case, case.with_kernel(kernel)) for kernel in OTHER_KERNELS}
    with case.clock("regressors"):
        regressors = conformal_regressors(case)
    fitted = case.g._fitted
    return {
        "similar": similar_figures(case),
        "value": values,
        "value_before": value_figures(case, case.value_before),
        "regressors": regressors,
        "neighbours": neighbour_figures(case.truth, case.problem.test),
        "adds_up_to": fitted.observations.adds_up_to,
        "pool": len(case.problem.fit),
        "rows": {"calibration": len(case.problem.calibration), "test": len(case.problem.test)},
        "explainer_runs": len(case.explainer.known),
        "kernel": plain(case.g.diagnostics_["kernel"]),
        "nugget": plain(case.g.diagnostics_["nugget"]),
        "statements": [case.similar.statement(), case.value.statement()],
        "seconds": case.seconds,
    }


def similar_figures(case: Case) -> dict[str, Any]:
    truth, changes = case.truth, case.truth.changes

    def figures(e: gpec.Explanation) -> dict[str, float]:
        lower, upper = changes_inside(truth, e)
        by_feature = ((lower <= changes) & (changes <= upper)).mean(axis=(0, 1))
        return {
            "coverage": coverage(changes, lower, upper),
            "worst_feature": float(by_feature.min()),
            "worst_slab": worst_slab(case, changes, lower, upper),
            "rank": rank(flat(e.width), truth.size),
            "width": standardised_width(truth, flat(e.lower), flat(e.upper)),
        }

    constant = (changes == 0).all(axis=(0, 1))
    return {
        **figures(case.similar),
        "before": figures(case.before),
        "ties": float((changes == 0).mean()),
        "constant_features": float(constant.mean()),
        "uncertain": float(uncertain_coverage(case)),
    }


def uncertain_coverage(case: Case) -> float:
    """Coverage of similar rows whose attribution is another one."""
    changes, (lower, upper) = case.truth.changes, changes_inside(case.truth, case.similar)
    differs = changes != 0
    return float(((lower <= changes) & (changes <= upper))[differs].mean()) if differs.any() else 1.0


def changes_inside(truth: Truth, e: gpec.Explanation) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest change of similar rows that an interval holds, as often as there are similar rows."""
    values, K = flat(e.values), truth.changes.shape[1]
    lower, upper = flat(e.lower) - values - truth.rounding, flat(e.upper) - values + truth.rounding
    return np.repeat(lower[:, None], K, axis=1), np.repeat(upper[:, None], K, axis=1)


def worst_slab(case: Case, truth: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Mean over splits; of few rows, the half that is measured may have none in the slab, and the split is left out."""
    X, found = filled(case.problem.test, case.problem.fit), []
    for split in range(2 * SLAB_SPLITS):
        with suppress(InputError):
            how = {"share": 0.2, "n_directions": 200, "random_state": split}
            found.append(worst_slab_coverage(X, truth, lower, upper, **how))
        if len(found) == SLAB_SPLITS:
            break
    return float(np.mean(found))


def rank(said: np.ndarray, actual: np.ndarray) -> float:
    """NaN, which JSON has not, is None."""
    found = rank_correlation(said, actual)
    return None if np.isnan(found) else float(found)


def standardised_width(truth: Truth, lower: np.ndarray, upper: np.ndarray) -> float:
    some = truth.spread > 0
    return mean_width(lower[:, some] / truth.spread[some], upper[:, some] / truth.spread[some])


def value_figures(case: Case, e: gpec.Explanation) -> dict[str, float]:
    truth = case.truth
    lower, upper = flat(e.lower) - truth.rounding, flat(e.upper) + truth.rounding
    y, mean, std = truth.values, flat(e.values), flat(e.std)
    some = truth.spread > 0
    s = truth.spread[some]
    return {
        "coverage": coverage(y, lower, upper),
        "worst_slab": worst_slab(case, y, lower, upper),
        "width": standardised_width(truth, lower, upper),
        "interval_score": interval_score(y[:, some] / s, lower[:, some] / s, upper[:, some] / s),
        "R2": pooled_r2(y, mean),
        "R2_standardised": pooled_r2(y[:, some] / s, mean[:, some] / s),
        "nlpd": nlpd(y[:, some] / s, mean[:, some] / s, std[:, some] / s),
        "rank_error": rank(std, np.abs(y - mean)),
        "rank_change": rank(std, truth.size),
    }


def pooled_r2(y: np.ndarray, mean: np.ndarray) -> float:
    """Share of the variance around each column's mean that is explained, all columns together."""
    return float(1 - ((y - mean) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum())


def conformal_regressors(case: Case) -> dict[str, dict[str, float]]:
    """Split conformal around regressors of each attribution on the row and the model's answers."""
    p, truth = case.problem, case.truth
    explained = np.asarray(case.g.X_explained_)
    explained, calibration, test = (_with_answers(case, rows) for rows in (explained, p.calibration, p.test))
    Y = flat(case.alone(case.g.X_explained_).values)
    Y_calibration = flat(case.alone(p.calibration).values)
    place = int(np.ceil((len(Y_calibration) + 1) * LEVEL)) - 1
    regressors = {
        "forest": lambda: RandomForestRegressor(100, random_state=case.seed),
        "boosting": lambda: GradientBoostingRegressor(random_state=case.seed),
    }
    found = {}
    for name, make in regressors.items():
        mean, half = np.empty_like(truth.values), np.empty(truth.values.shape[1])
        for f in range(Y.shape[1]):
            fitted = make().fit(explained, Y[:, f])
            mean[:, f] = fitted.predict(test)
            half[f] = np.sort(np.abs(Y_calibration[:, f] - fitted.predict(calibration)))[place]
        lower, upper = mean - half - truth.rounding, mean + half + truth.rounding
        found[name] = {
            "coverage": coverage(truth.values, lower, upper),
            "worst_slab": worst_slab(case, truth.values, lower, upper),
            "width": standardised_width(truth, lower, upper),
            "R2": pooled_r2(truth.values, mean),
        }
    return found


def _with_answers(case: Case, rows: np.ndarray) -> np.ndarray:
    p = case.problem
    probability = p.model.predict_proba(rows)
    probability = probability[:, 1:] if probability.shape[1] == 2 else probability
    clipped = np.clip(probability, 1e-7, 1 - 1e-7)
    return np.hstack((filled(rows, p.fit), np.log(clipped / (1 - clipped)), probability))


def neighbour_figures(truth: Truth, rows: np.ndarray) -> dict[str, Any]:
    """What explaining some similar rows tells of all ten, and of those that were not explained.

    Three measures of other libraries, given all ten similar rows: for each feature, the deviation over the row and its
    similar rows of its share in the sum of absolute attributions, over the mean size of the share (shapash's
    stability); for each row, the largest ``|a(x') - a(x)| / |x' - x|`` (Quantus' local Lipschitz estimate) and the
    largest ``|a(x') - a(x)| / |a(x)|`` (captum's sensitivity).
    """
    changes = truth.changes
    found: dict[str, Any] = {"runs": {}, "held_out": {}}
    for k in BUDGETS:
        some = np.sqrt((changes[:, :k] ** 2).mean(axis=1))
        found["runs"][str(k)] = rank(some, truth.size)
        if k < changes.shape[1]:
            found["held_out"][str(k)] = rank(some, np.sqrt((changes[:, k:] ** 2).mean(axis=1)))
    far = np.linalg.norm(changes, axis=2)  # (n, K)
    step = np.linalg.norm(np.nan_to_num((truth.similar_rows - rows[:, None]) / _spread(rows)), axis=2)
    ratio = np.divide(far, step, out=np.zeros_like(far), where=step > 0)
    size = np.maximum(np.linalg.norm(truth.values, axis=1), np.finfo(float).tiny)
    both = np.concatenate((truth.values[:, None], truth.similar_values), axis=1)
    total = np.abs(both).sum(axis=2, keepdims=True)
    shares = np.divide(both, total, out=np.zeros_like(both), where=total > 0)
    usual = np.abs(shares).mean(axis=1)
    unsteady = np.divide(shares.std(axis=1), usual, out=np.zeros_like(usual), where=usual > ROUNDING)
    for name, said in {
        "shapash": unsteady,
        "lipschitz": np.repeat(ratio.max(axis=1)[:, None], truth.values.shape[1], axis=1),
        "sensitivity": np.repeat((far.max(axis=1) / size)[:, None], truth.values.shape[1], axis=1),
    }.items():
        found[name] = rank(said, truth.size)
    return found


def _spread(rows: np.ndarray) -> np.ndarray:
    spread = np.nanstd(rows, axis=0)
    return np.where(spread > 0, spread, 1.0)


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (str, bool)) else float(value)


def quietly(function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)
