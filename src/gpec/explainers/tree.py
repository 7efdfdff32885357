"""TreeSHAP: attributions of tree models, read from their trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from scipy.special import expit, softmax

from gpec._validation import check_choice
from gpec.data.rows import evenly_spaced
from gpec.errors import ExplainerError, InputError
from gpec.explainers._tree_inputs import MixedColumns, find_tree_inputs
from gpec.explainers._tree_readers import find_tree_model
from gpec.explainers._tree_shapley import TreeShapley
from gpec.explainers._trees import UnreadableTrees
from gpec.explainers.adapters import for_each_row
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import Explainer
from gpec.models import Model, labels_in_order
from gpec.typing import FloatArray

_UNITS = {"auto": "as the trees add up", "identity": "probability", "logit": "log-odds"}  # before it has a model
_CHECKED_ROWS = 20
_TOLERANCE = 1e-4  # libraries add up in single precision
_VALUES_AT_ONCE = 4_000_000
_ROWS_AT_ONCE = 20_000
_NO_SLOPE = 1e-9  # difference of log-odds below which the slope of the probability is used


class TreeShap(Explainer):
    """Shapley values of tree models, read from the trees; deterministic, and without calls of the model.

    It explains decision trees, forests and boosted trees of scikit-learn, XGBoost, LightGBM and CatBoost, with missing
    values, categories and any number of classes. They can be the last step of a pipeline if each other step makes each
    of its columns from one feature. All columns of a feature, such as those of a one-hot encoding, are one player.

    Parameters
    ----------
    link : {"auto", "logit", "identity"}
        "auto" explains what the trees add up to: the log-odds of boosted trees with two classes ("logit" is the same),
        the margins of boosted trees with several classes, the probabilities of forests, the values of regressors.
        "identity" of boosted trees with two classes is the rescaling that shap uses: Shapley values of the log-odds
        against each background row, times the ratio of the differences in probability and in log-odds. They add up to
        the probability, but are not its Shapley values.
    perturbation : {"auto", "interventional", "tree_path_dependent"}
        "interventional" takes features outside of a coalition from background rows; these Shapley values are exact.
        "tree_path_dependent" takes the values that XGBoost, LightGBM or CatBoost compute themselves: features outside
        of a coalition follow the training rows that reached each node. "auto" is interventional, and path-dependent
        only where gpec cannot read the trees, such as those of CatBoost with categories.

    Attributes
    ----------
    perturbation_ : {"interventional", "tree_path_dependent"}
        Which it was; ``unit`` says it, too.

    Raises
    ------
    ExplainerError
        If the model is of another kind, or if its trees cannot be read: for some rows, the sum of values and base value
        is compared with the model's answer.

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
    cheap = True
    most_background = 1_000  # so that with usual tables nothing depends on a draw
    threads = True

    def __init__(
        self,
        *,
        link: Literal["auto", "identity", "logit"] = "auto",
        perturbation: Literal["auto", "interventional", "tree_path_dependent"] = "auto",
    ) -> None:
        self.link = link
        self.perturbation = perturbation

    def check(self) -> None:
        super().check()
        check_choice("link", self.link, ("auto", "identity", "logit"))
        check_choice("perturbation", self.perturbation, ("auto", "interventional", "tree_path_dependent"))

    @property
    def unit(self) -> str:  # type: ignore[override]  # read-only: it follows from the model
        """The unit of the attributions, and how they were computed if they are not Shapley values of it."""
        if not hasattr(self, "perturbation_"):
            return _UNITS[self.link]
        if self.model_.is_regressor or self._trees.adds_up_to == "probability":
            unit = self.model_.kind.explained("identity")
        else:
            unit = "log-odds" if self.model_.n_outputs == 1 else "margin"
        if self._rescaled:
            return "probability, rescaled from log-odds"
        return unit if self.perturbation_ == "interventional" else f"{unit}, path-dependent"

    def bind(self, model: Model, background: FloatArray) -> None:
        if self.link == "logit" and model.is_regressor:
            raise InputError("link='logit' explains the log-odds of a classifier; for a regressor leave out the link.")
        super().bind(model, background)
        try:
            whole = getattr(model.user_model, "__self__", model.user_model)  # of a method, such as predict_proba
            self._own = labels_in_order(model.user_model, model.schema.labels)
            self._inputs = find_tree_inputs(whole, len(self._own or background[0]))
            trees = find_tree_model(self._inputs.trees)
        except (MixedColumns, UnreadableTrees) as error:
            raise self._refusal(str(error)) from error
        if trees is None:
            raise self._refusal(
                "it is not a tree model of scikit-learn, XGBoost, LightGBM or CatBoost, nor a pipeline that ends in one"
            )
        self._trees = trees
        boosted = trees.adds_up_to == "margin" and not model.is_regressor
        self._rescaled = boosted and self.link == "identity"
        if self.link == "logit" and not boosted:
            raise self._refusal("its trees add up to a probability, not to log-odds")
        if boosted and self.link != "auto" and model.n_outputs > 1:
            raise self._refusal(
                "with several classes boosted trees add up to margins, which are neither probabilities nor log-odds",
                "use link='auto', which explains the margins.",
            )
        why = "" if self.perturbation == "tree_path_dependent" else self._read(background)
        if why or self.perturbation == "tree_path_dependent":
            self._use_contributions(why, background)

    def prepare(self, model: Model, background: FloatArray, rows: FloatArray, seed: int) -> Self:
        super().prepare(model, background, rows, seed)
        if why := self._gap(rows):  # with a single background row, the check in bind always passes
            raise self._refusal(why)
        return self

    def model_rows(self, Z: FloatArray) -> int:
        return 0

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        values, base = self._values(self._input(Z))
        return Attribution(values, base_values=base)

    def _values(self, rows: Any) -> tuple[FloatArray, FloatArray]:
        """Attributions of rows of the trees' input, ``(n, d, outputs)``, and base values ``(n, outputs)``."""
        if self.perturbation_ == "tree_path_dependent":
            of_columns = self._trees.contributions(rows)  # type: ignore[misc]  # _use_contributions looked for it
            of_feature = self._feature == np.arange(self.background_.shape[1])[:, None]
            values = np.einsum("fp,npc->nfc", of_feature.astype(np.float64), of_columns[:, :-1])
            return values, of_columns[:, -1].astype(np.float64)
        columns = self._trees.columns(rows)
        if self._rescaled:
            odds, others = self._trees.total(rows)[:, 0], self._total[:, 0, None]
            near = np.abs(odds - others) < _NO_SLOPE
            ratio = (expit(odds) - expit(others)) / np.where(near, 1.0, odds - others)
            ratio[near] = (expit(odds) * expit(-odds) * near)[near]
            values, base = self._shapley.rescaled(columns, ratio), expit(self._total).mean(axis=0)
        else:
            values, base = self._shapley.values(columns), self._total.mean(axis=0)
        return values, for_each_row(base, len(values))

    def _input(self, Z: FloatArray) -> Any:
        """The input of the trees' model for encoded rows."""
        schema, transform = self.model_.schema, self._inputs.transform
        rows = self.model_.in_order(schema.decode(Z) if transform is None else schema.for_model(Z))
        return rows if transform is None else transform(rows)

    @property
    def _feature(self) -> Any:
        """The feature to which each column of the trees belongs."""
        found, labels = self._inputs.feature, self.model_.schema.labels or ()
        found = found if self._own is None else np.array([labels.index(label) for label in self._own])[found]
        return found if self._trees.order is None else found[self._trees.order]

    def _read(self, background: FloatArray) -> str:
        """Read the trees; why they cannot be read, or an empty string."""
        self.perturbation_ = "interventional"
        try:
            trees = self._trees.read()
            rows = self._input(background)
            columns = self._trees.columns(rows)
            if columns.shape[1] != len(self._feature):
                return "its steps drop columns"
            self._total = self._trees.total(rows)
            self._shapley = TreeShapley(trees, self._feature, background.shape[1], columns)
            self._trees = replace(self._trees, read=list)  # frees what the library's file was parsed to
        except UnreadableTrees as error:
            return str(error)
        except Exception as error:  # a library may have changed its format
            return f"gpec cannot read its trees ({type(error).__name__}: {error})"
        most = _VALUES_AT_ONCE // (background.shape[1] * self.model_.n_outputs)
        self.rows_at_once = max(1, 256 if self._rescaled else min(most, _ROWS_AT_ONCE))
        return self._gap(background)

    def _use_contributions(self, why: str, background: FloatArray) -> None:
        """Use the library's own values; ``why`` the trees are not read."""
        if self._trees.contributions is None:
            remedy = "" if why else "use perturbation='interventional'."
            raise self._refusal(why or "scikit-learn computes no path-dependent values", remedy)
        if self._rescaled:
            raise self._refusal(why or "path-dependent values are not rescaled to probabilities", "use link='auto'.")
        if self.perturbation == "interventional":
            raise self._refusal(why, "use perturbation='tree_path_dependent', which is the library's own way.")
        self.perturbation_ = "tree_path_dependent"
        self.rows_at_once = 4_096
        try:
            gap = self._gap(background)
        except Exception as error:
            raise self._refusal(why or f"{type(error).__name__}: {error}") from error
        if gap:
            raise self._refusal(gap)

    def _gap(self, Z: FloatArray) -> str:
        """Why values and base value do not add up to the answer for some rows, or an empty string."""
        kind = self.model_.kind
        lacking = np.flatnonzero(np.isnan(Z).any(axis=1))
        places = evenly_spaced(len(Z), _CHECKED_ROWS), lacking[evenly_spaced(len(lacking), _CHECKED_ROWS)]
        checked = Z[np.unique(np.concatenate(places))]
        rows, answers = self._input(checked), self.model_.answers(checked)
        values, base = self._values(rows)
        total, sums = self._trees.total(rows), values.sum(axis=1) + base
        found = expit(total) if self._rescaled else total
        gap = float(np.abs(sums - found).max())
        if not gap <= _TOLERANCE * max(kind.unit(found) if kind.is_regression else 1.0, kind.tolerance(found)):
            return f"values and base value add up to a number that is off by {gap:.2g}: gpec does not read its trees"
        if not kind.is_regression and self._trees.adds_up_to == "margin":
            total = expit(total) if total.shape[1] == 1 else softmax(total, axis=1)
        gap = float(np.abs(total - answers).max()) if total.shape == answers.shape else np.inf
        if not gap <= max(_TOLERANCE * kind.unit(answers), kind.tolerance(answers)):
            number = "the logarithm or another function of its value" if kind.is_regression else "other log-odds"
            return f"its trees add up to {number} (off by {gap:.2g})"
        return ""

    def _refusal(self, why: str, remedy: str = "") -> ExplainerError:
        kind = type(self.model_.user_model).__name__
        link, others = "", ("'kernelshap'", "'exact'")
        if self.link == "logit":
            link, others = " with link='logit'", ("KernelShap(link='logit')", "ExactShapley(link='logit')")
        remedy = remedy or (f"use {others[0]} or, with up to 16 features, {others[1]}, which work for any model.")
        return ExplainerError(f"explainer='tree' cannot explain this {kind}{link}: {why}; {remedy}")
