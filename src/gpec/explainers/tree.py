"""TreeSHAP, for tree models that the shap library can read."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy.special import expit

from gpec.errors import ExplainerError
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.explainers._tree_inputs import MixedColumns, TreeInputs, find_tree_inputs
from gpec.explainers._tree_shapley import MOST_FEATURES, TreeShapley
from gpec.explainers.adapters import for_each_row
from gpec.explainers.attribution import Attribution
from gpec.models import Model
from gpec.typing import FloatArray

__all__ = ["TreeShap"]

_BOOSTERS = {("lightgbm", "Booster"), ("xgboost", "Booster")}
_OF_FORESTS = [("sklearn", kind) for kind in ("DecisionTree", "ExtraTree", "ExtraTrees", "RandomForest")]
_OF_BOOSTING = [
    ("catboost", "CatBoost"),
    ("lightgbm", "LGBM"),
    ("sklearn", "GradientBoosting"),
    ("sklearn", "HistGradientBoosting"),
    ("xgboost", "XGB"),
]
_FORESTS = {(package, f"{kind}Classifier") for package, kind in _OF_FORESTS}
_BOOSTED = _BOOSTERS | {(package, f"{kind}Classifier") for package, kind in _OF_BOOSTING}
_REGRESSORS = _BOOSTERS | {(package, f"{kind}Regressor") for package, kind in _OF_FORESTS + _OF_BOOSTING}
_MOST_NODES = 32_767  # shap numbers them with 16-bit integers and crashes with more
_REASONS = {  # why the sum of the trees may not be the model's answer
    "probability": "boosting of another kind",
    "value": "trees that add up to its logarithm or another function of it",
}
_CHECKED_ROWS = 20
_TOLERANCE = 1e-3  # shap sums in single precision
_WALKS = 250_000  # tree traversals in one call of shap, about a second; after ten seconds it shows a progress bar


class TreeShap(LinkedExplainer):
    """Interventional TreeSHAP for tree models that the shap library can read; deterministic.

    It supports decision trees, forests and boosted trees of scikit-learn, and those of XGBoost, LightGBM and CatBoost
    with two classes or as regressors. They can be the last step of a pipeline if each other step makes one column from
    each feature.

    The trees of forests and regressors add up to the answer, and the values are its Shapley values. The trees of
    boosted classifiers add up to log-odds. For them shap computes Shapley values of the log-odds against each
    background row and rescales them to the difference in probability. They add up, but are not the Shapley values of
    the probability: on Census they differ from :class:`~gpec.explainers.ExactShapley` by 0.008 on average, where the
    mean size of values is 0.047. With ``link="logit"`` they are not rescaled, and are the Shapley values of the
    log-odds.

    Parameters
    ----------
    link : {"identity", "logit"}
        Explain answers, or log-odds; log-odds only for boosted classifiers.

    Raises
    ------
    ExplainerError
        If the model is of another kind, or if shap does not read its trees correctly: for some rows, the sum of values
        and base value is compared with the model's answer.

    Notes
    -----
    shap compares values with thresholds in single precision, which can move a value to the other side of a threshold.
    To avoid this, shap gets ranks instead of values: the number of thresholds of a feature that a value exceeds.

    shap traverses the trees once for each output. For values of the sum itself (forests, regressors, and boosted trees
    with ``link="logit"``) gpec therefore has its own code, which computes all outputs together: on digits, with a
    forest of ten classes, in a thirteenth of the time. shap's code is used where values are rescaled for each
    background row (probabilities of boosted trees), and for trees with more than 56 features on a path.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(20, random_state=0).fit(X, y == 1)
    >>> answer = TreeShap().fit(forest, X)(X[:3])
    >>> bool(abs(answer.values.sum(axis=1) + answer.base_values - forest.predict_proba(X[:3])[:, 1]).max() < 1e-6)
    True
    """

    stochastic = False

    def __init__(self, *, link: Link = "identity") -> None:
        self.link = link

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        try:
            self._tree_inputs = find_tree_inputs(model.user_model, background.shape[1])
            self._refuse_kinds(self._tree_inputs)
            columns = self._columns(background)
        except MixedColumns as error:
            raise self._refusal(str(error)) from error
        self._trees = self._read(self._tree_inputs.trees, columns)
        self.rows_at_once = self._trees.rows_at_once
        self._require_additive(background)

    def prepare(self, model: Model, background: FloatArray, rows: FloatArray, seed: int) -> Self:
        super().prepare(model, background, rows, seed)
        self._require_additive(rows)  # with a single background row, the check in bind always passes
        return self

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        values, base = self._trees.values(self._columns(Z)), self._trees.base
        found = np.zeros((*Z.shape, values.shape[2]))
        found[:, self._tree_inputs.feature] = values
        return Attribution(found, base_values=for_each_row(base, len(Z)))

    def _columns(self, Z: FloatArray) -> FloatArray:
        """The input columns of the trees for encoded rows."""
        schema, route = self.model_.schema, self._tree_inputs
        try:
            return route.columns(schema.decode(Z) if route.transform is None else schema.for_model(Z))
        except (TypeError, ValueError) as error:
            raise self._refusal("it uses columns that are not numbers, which shap does not support") from error

    def _refuse_kinds(self, route: TreeInputs) -> None:
        kinds = {(of.__module__.partition(".")[0], of.__name__) for of in type(route.trees).__mro__}
        if not kinds & (_REGRESSORS if self.model_.is_regressor else _FORESTS | _BOOSTED):
            raise self._refusal(
                "it is not a tree model of scikit-learn, XGBoost, LightGBM or CatBoost, nor a pipeline that ends in one"
            )
        if self.link == "logit" and kinds & _FORESTS:
            raise self._refusal("its trees add up to a probability, not to log-odds")
        if kinds & _BOOSTED and self.model_.n_outputs > 1:
            raise self._refusal(
                "with several classes boosted trees add up to margins, which shap converts neither to probabilities "
                "nor to log-odds"
            )
        if hasattr(route.trees, "get_cat_feature_indices") and any(
            len(getattr(route.trees, f"get_{kind}_feature_indices")()) for kind in ("cat", "text", "embedding")
        ):
            raise self._refusal("it splits on categories or text, which shap does not support")

    def _read(self, trees: Any, columns: FloatArray) -> _Trees:
        try:
            output = "probability" if self.model_.kind.explained(self.link) == "probability" else "raw"
            read = _Trees(trees, columns, output, self.model_.n_outputs)
        except Exception as error:
            raise self._refusal("shap cannot read its trees") from error
        if read.has_categories:
            raise self._refusal("it splits on categories, which shap does not support")
        if read.n_nodes > _MOST_NODES:
            raise self._refusal(f"a tree has {read.n_nodes:,} nodes, more than shap supports ({_MOST_NODES:,})")
        return read.ranked(columns)

    def _require_additive(self, Z: FloatArray) -> None:
        """Raise unless values and base value add up to the answer, for some rows with and without missing values."""
        lacking = np.flatnonzero(np.isnan(Z).any(axis=1))
        some = Z[np.unique(np.concatenate([_evenly_spaced(np.arange(len(Z))), _evenly_spaced(lacking)]))]
        total = self._trees.values(self._columns(some)).sum(axis=1) + self._trees.base
        # log-odds of a probability in single precision are inaccurate near 0 and 1
        total = expit(total) if self.link == "logit" else total
        answers = self.model_.answers(some)
        gap = float(np.abs(total - answers).max())
        if not gap <= max(_TOLERANCE * self.model_.kind.unit(answers), self.model_.kind.tolerance(answers)):
            answer = self.model_.kind.answer
            raise self._refusal(
                f"shap does not read its trees correctly: values and base value add up to a {answer} that is off by "
                f"{gap:.2g} (possible reasons: {_REASONS[answer]}, categories, or another code for missing values)"
            )

    def _refusal(self, why: str) -> ExplainerError:
        kind = type(self.model_.user_model).__name__
        link, others = "", ("'kernelshap'", "'exact'")
        if self.link == "logit":
            link, others = " with link='logit'", ("KernelShap(link='logit')", "ExactShapley(link='logit')")
        return ExplainerError(
            f"explainer='tree' cannot explain this {kind}{link}: {why}; use {others[0]} or, with up to 16 features, "
            f"{others[1]}, which work for any model."
        )


class _Trees:
    """Trees in shap's format; the last ``n_outputs`` of their outputs are explained."""

    def __init__(self, trees: Any, columns: FloatArray, model_output: str, n_outputs: int) -> None:
        import shap

        # otherwise shap would sample a hundred rows
        background = shap.maskers.Independent(columns, max_samples=len(columns))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._shap = shap.TreeExplainer(
                trees, data=background, feature_perturbation="interventional", model_output=model_output
            )
        self._ensemble, self._n_outputs = self._shap.model, n_outputs
        if hasattr(trees, "get_scale_and_bias"):  # the bias of CatBoost, which shap ignores
            self._ensemble.base_offset = self._ensemble.base_offset + trees.get_scale_and_bias()[1]
        # XGBoost always rounds to single precision
        self._dtype = np.float32 if self._ensemble.model_type == "xgboost" else self._ensemble.input_dtype
        self.n_nodes = int(self._ensemble.children_left.shape[1])
        of_xgboost = self._ensemble.model_type == "xgboost" and self._ensemble.cat_feature_indices is not None
        self.has_categories = of_xgboost or bool((self._ensemble.threshold_types == 1).any())

    def ranked(self, columns: FloatArray) -> _Trees:
        """Replace thresholds and the background's values by their ranks."""
        ensemble, splits = self._ensemble, self._ensemble.children_left >= 0
        self._cuts = []
        for j in range(columns.shape[1]):
            splits_on_j = splits & (ensemble.features == j)
            cuts, place = np.unique(ensemble.thresholds[splits_on_j], return_inverse=True)
            ensemble.thresholds[splits_on_j] = place
            self._cuts.append(cuts)
        ranks = self._ranks(columns)
        self._shap.data, self._shap.data_missing = ranks, np.isnan(columns)
        self.base = self._answer(ranks).mean(axis=0)
        add_up = ensemble.get_transform() == "identity"  # otherwise values are rescaled for each background row
        self._exact = None
        if add_up and min(ensemble.max_depth, columns.shape[1]) <= MOST_FEATURES:
            self._exact = TreeShapley(ensemble, ranks, self._n_outputs)
        self.rows_at_once = 64 if self._exact is None else 256
        return self

    def values(self, columns: FloatArray) -> FloatArray:
        """Shapley values of rows of input columns, ``(n, p, outputs)``."""
        ranks = self._ranks(columns)
        values = self._by_shap(ranks) if self._exact is None else self._exact.values(ranks)
        answer = self._answer(ranks)
        gap = np.abs(values.sum(axis=1) + self.base - answer) / np.maximum(1.0, np.abs(answer))
        if not gap.max() <= _TOLERANCE:
            raise ExplainerError(
                f"TreeSHAP failed: the sum of values and base value differs from the trees' answer by {gap.max():.2g}; "
                "use explainer='kernelshap'."
            )
        return values

    def _by_shap(self, ranks: FloatArray) -> FloatArray:
        walks = len(self._ensemble.values) * self._ensemble.num_outputs * len(self._shap.data)
        step = max(1, _WALKS // walks)
        found = [
            np.reshape(self._shap.shap_values(some, check_additivity=False), (*some.shape, -1))
            for some in (ranks[start : start + step] for start in range(0, len(ranks), step))
        ]
        return np.concatenate(found)[:, :, -self._n_outputs :].astype(np.float64)

    def _answer(self, ranks: FloatArray) -> FloatArray:
        """The trees' answers, ``(n, outputs)``."""
        answer = np.asarray(self._ensemble.predict(ranks), dtype=np.float64)
        return answer.reshape(len(ranks), -1)[:, -self._n_outputs :]

    def _ranks(self, columns: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            rounded = columns.astype(self._dtype)
        # x <= the k-th threshold, from 0, if and only if at most k thresholds are below x
        ranks = np.column_stack([np.searchsorted(cuts, rounded[:, j]) for j, cuts in enumerate(self._cuts)])
        return np.where(np.isnan(columns), np.nan, ranks)


def _evenly_spaced(places: Any) -> Any:
    """At most 20 of these, evenly spaced."""
    return places[np.linspace(0, len(places) - 1, min(len(places), _CHECKED_ROWS)).astype(np.int64)]
