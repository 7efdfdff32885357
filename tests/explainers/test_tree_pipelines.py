"""TreeSHAP through pipelines: exact where each column stays with its feature, else one sentence."""

import numpy as np
import pandas as pd
import pytest
from explainer_helpers import IRIS, SPECIES, fitted
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OrdinalEncoder,
    QuantileTransformer,
    StandardScaler,
)

from extras import xgboost
from gpec.errors import ExplainerError
from gpec.explainers import ExactShapley, TreeShap

REFUSED = r"explainer='tree' cannot explain this Pipeline: {}; use 'kernelshap' or, with up to 16 features, 'exact'"


def table(n=120, lacking=False):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], n),
            "price": rng.normal(10.0, 3.0, n),
            "weight": rng.normal(size=n),
            "unused": rng.normal(size=n),
        }
    )
    target = (frame["colour"] == "red") ^ (frame["weight"] + 0.2 * frame["price"] > 2)
    if lacking:
        frame.loc[rng.random(n) < 0.2, "price"] = np.nan
        frame.loc[rng.random(n) < 0.2, "colour"] = None
    return frame, target


def forest():
    return RandomForestClassifier(10, random_state=0)


NUMBERS = ["price", "weight", "unused"]
APART = {
    "scaled": lambda: make_pipeline(StandardScaler(), forest()),
    "by rank": lambda: make_pipeline(QuantileTransformer(n_quantiles=20), forest()),
    "in bins": lambda: make_pipeline(KBinsDiscretizer(4, encode="ordinal"), forest()),
    "selected": lambda: make_pipeline(StandardScaler(), SelectKBest(k=2), forest()),
    "untouched": lambda: make_pipeline("passthrough", FunctionTransformer(), forest()),
    "searched": lambda: GridSearchCV(make_pipeline(StandardScaler(), forest()), {}, cv=2),
    "nested": lambda: make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), forest())),
    "boosted": lambda: make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=8)),
}


@pytest.mark.parametrize("name", APART)
def test_a_pipeline_of_numbers_is_exact(name):
    frame, target = table()
    model = APART[name]().fit(frame[NUMBERS], target)
    link = {"link": "logit"} if name == "boosted" else {}
    found, exact = (
        fitted(kind(**link), model, frame[NUMBERS], background=20)(frame[NUMBERS][:8])
        for kind in (TreeShap, ExactShapley)
    )
    np.testing.assert_allclose(found.values, exact.values, atol=1e-5)
    assert np.abs(exact.values).max() > 0.05


@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
def test_a_pipeline_of_columns_is_exact(lacking, remainder):
    """Text that becomes codes, an imputer, another order of columns, and some left out."""
    frame, target = table(lacking=lacking)
    text = OrdinalEncoder(encoded_missing_value=-1)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [("numbers", numbers, ["weight", "price"]), ("text", text, ["colour"])], remainder=remainder
    )
    model = make_pipeline(columns, forest()).fit(frame, target)
    found, exact = (fitted(kind(), model, frame, background=20)(frame[:10]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, exact.base_values, atol=1e-6)
    assert (np.abs(found.values).max(axis=0)[:3] > 0.02).all()
    if remainder == "drop":
        assert not found.values[:, 3].any()


@pytest.mark.parametrize("order", ["reversed", "with others"])
def test_a_table_may_have_the_columns_in_another_order(order):
    """A ColumnTransformer takes columns by name, so its own order is not the table's."""
    frame, target = table()
    columns = ColumnTransformer([("text", OrdinalEncoder(), ["colour"]), ("numbers", StandardScaler(), NUMBERS)])
    model = make_pipeline(columns, forest()).fit(frame, target)
    frame = frame[frame.columns[::-1]] if order == "reversed" else frame.assign(other=1.0)[["other", *frame.columns]]
    found, exact = (fitted(kind(), model, frame, background=20)(frame[:10]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)


def test_columns_by_number_by_slice_and_by_name():
    frame, target = table()
    rows = frame[NUMBERS].to_numpy()
    for columns in ([0, 2], slice(0, 2), [True, False, True]):
        step = ColumnTransformer([("numbers", StandardScaler(), columns)])
        model = make_pipeline(step, forest()).fit(rows, target)
        found, exact = (fitted(kind(), model, rows)(rows[:5]).values for kind in (TreeShap, ExactShapley))
        np.testing.assert_allclose(found, exact, atol=1e-6)


class Sums(TransformerMixin, BaseEstimator):
    """A transformer of the user's own, of which nothing is known."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.cumsum(np.asarray(X), axis=1)


def columns_of(*parts):
    return ColumnTransformer(list(parts))


MIXED = {
    "turned": (
        make_pipeline(columns_of(("n", "passthrough", NUMBERS)), PCA(2)),
        r"its step 'pca' \(PCA\) does not make each of its columns from one feature",
    ),
    "the user's own": (
        make_pipeline(columns_of(("n", "passthrough", NUMBERS)), Sums()),
        r"its step 'sums' \(Sums\) does not .*",
    ),
    "neighbours": (columns_of(("n", KNNImputer(), NUMBERS)), r"its step 'n' \(KNNImputer\) does not .*"),
    "a function": (
        columns_of(("n", FunctionTransformer(np.abs), NUMBERS)),
        r"its step 'n' \(FunctionTransformer\) does not .*",
    ),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_pipeline_that_mixes_columns_gets_one_sentence(case):
    step, why = MIXED[case]
    frame, target = table()
    model = make_pipeline(step, forest()).fit(frame, target)
    with pytest.raises(ExplainerError, match=REFUSED.format(why)):
        fitted("tree", model, frame, background=20)


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
def test_an_imputer_that_leaves_out_a_column():
    rows = IRIS.copy()
    rows[:, 1] = np.nan
    model = make_pipeline(SimpleImputer(), forest()).fit(rows, SPECIES)
    found = fitted("tree", model, rows)(rows[40:60])
    assert not found.values[:, 1].any()
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict_proba(rows[40:60]))


def test_a_feature_that_is_used_twice_is_one_player():
    frame, target = table()
    step = columns_of(("a", StandardScaler(), ["price"]), ("b", "passthrough", ["price", "weight"]))
    model = make_pipeline(step, forest()).fit(frame, target)
    found, exact = (fitted(kind(), model, frame, background=20)(frame[:10]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)


def test_a_pipeline_that_ends_in_no_tree():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(IRIS, SPECIES == 1)
    with pytest.raises(ExplainerError, match=REFUSED.format("it is not .* nor a pipeline that ends in one")):
        fitted("tree", model)
