"""TreeSHAP of all libraries: equal to the definition of Shapley values, for what the trees add up to."""

import numpy as np
import pandas as pd
import pytest
from explainer_helpers import IRIS, SPECIES, fitted, shapley_by_definition
from scipy.special import expit, softmax
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, SplineTransformer, StandardScaler, TargetEncoder

from extras import catboost, lightgbm, xgboost
from gpec.errors import ExplainerError, ModelCallError
from gpec.explainers import TreeShap

LACKING = np.where(np.random.default_rng(3).random(IRIS.shape) < 0.2, np.nan, IRIS)


def people(n=300, seed=0, missing=True):
    """Two numbers and two categories, with values missing in each kind of column, and what depends on all of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.normal(size=n), "town": rng.choice(list("abcdefgh"), n), "pay": rng.normal(size=n)}
    )
    frame["job"] = rng.choice(["cook", "nurse", "smith"], n)
    score = frame["age"] * frame["town"].isin(list("bdg")) - (frame["job"] == "cook") * frame["pay"]
    score += 0.1 * rng.normal(size=n)
    if missing:
        for name in ("age", "town"):
            frame.loc[rng.random(n) < 0.15, name] = np.nan
    return frame.astype({"town": "category", "job": "category"}), score


def codes(frame):
    return np.column_stack(
        [frame["age"], frame["town"].cat.codes.replace(-1, 99), frame["pay"], frame["job"].cat.codes]
    )


def grouped(score, classes):
    return np.argsort(np.argsort(score)) * classes // len(score)


def xgb(kind="XGBClassifier", **options):
    return getattr(xgboost, kind)(**{"n_estimators": 12, "max_depth": 4, "n_jobs": 1, **options})


def light(kind="LGBMClassifier", **options):
    small = {"n_estimators": 12, "num_leaves": 12, "verbose": -1, "n_jobs": 1, "min_child_samples": 5}
    return getattr(lightgbm, kind)(**{**small, "min_data_per_group": 5, **options})


def cats(kind="CatBoostClassifier", **options):
    return getattr(catboost, kind)(
        **{"iterations": 12, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1, **options}
    )


def hist(**options):
    return HistGradientBoostingClassifier(**{"max_iter": 12, "min_samples_leaf": 5, **options})


def raw(model, rows):
    """What the trees add up to, by the model itself."""
    if hasattr(model, "get_booster"):
        return model.predict(rows, output_margin=True)
    if isinstance(model, xgboost.Booster):
        return model.predict(xgboost.DMatrix(rows), output_margin=True)
    if isinstance(model, lightgbm.Booster) and isinstance(rows, pd.DataFrame):
        rows = rows[model.feature_name()]
    if hasattr(model, "booster_") or isinstance(model, lightgbm.Booster):
        rounds = model.n_estimators_ if getattr(model, "boosting_type", "") == "rf" else 1  # it forgets to average
        return model.predict(rows, raw_score=True) / rounds
    if hasattr(model, "get_scale_and_bias"):
        return model.predict(rows, prediction_type="RawFormulaVal")
    if hasattr(model, "steps"):
        return raw(model[-1], model[:-1].transform(rows))
    if hasattr(model, "decision_function"):
        return model.decision_function(rows)
    answer = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    return answer[:, 1] if answer.ndim == 2 and answer.shape[1] == 2 else answer


def of_numbers(model, classes=2, rows=IRIS):
    target = {0: IRIS @ [1.0, -2.0, 0.5, 1.0] + SPECIES, 2: SPECIES == 1, 3: SPECIES}[classes]
    return model.fit(rows, target), rows


def of_people(model, classes=2, missing=True, **options):
    frame, score = people(missing=missing)
    return model.fit(frame, score if classes == 0 else grouped(score, classes), **options), frame


def of_codes(model, classes=2, **options):
    frame, score = people()
    return model.fit(codes(frame), grouped(score, classes), **options), codes(frame)


def stopped_early():
    frame, score = people()
    model = xgb(n_estimators=60, early_stopping_rounds=2, learning_rate=1.0, enable_categorical=True)
    model.fit(frame[::2], score[::2] > 0, eval_set=[(frame[1::2], score[1::2] > 0)], verbose=False)
    assert model.best_iteration < 20
    return model, frame


def marked():
    rows = np.nan_to_num(LACKING, nan=-1.0)
    return xgb(missing=-1.0).fit(rows, SPECIES == 1), rows


def with_zeros():
    rows = np.where(np.random.default_rng(5).random(IRIS.shape) < 0.3, 0.0, LACKING)
    return light(zero_as_missing=True).fit(rows, SPECIES == 1), rows


def shuffled_booster():
    frame = pd.DataFrame(IRIS, columns=list("wxyz"))
    return light().fit(frame, SPECIES == 1).booster_, frame[list("zwyx")]


def one_hot(model, classes=2, sparse=True):
    words = OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=sparse)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    encoded = ColumnTransformer([("words", words, ["town", "job"]), ("numbers", numbers, ["age", "pay"])])
    return of_people(make_pipeline(encoded, model), classes)


def with_umlauts():
    """XGBoost counts letters where it should count bytes, and so stores other names of the categories."""
    frame, score = people()
    frame["town"] = frame["town"].cat.rename_categories({"b": "Köln", "d": "Zürich", "h": "Århus"})
    return xgb(enable_categorical=True).fit(frame, grouped(score, 2)), frame


def of_columns(step, names, model, classes=2):
    return of_people(make_pipeline(ColumnTransformer([("step", step, names)]), model), classes, missing=False)


MODELS = {
    "forest": lambda: of_numbers(RandomForestClassifier(12, random_state=0)),
    "forest, several": lambda: of_numbers(ExtraTreesClassifier(12, random_state=0), 3, LACKING),
    "forest, value": lambda: of_numbers(RandomForestRegressor(12, random_state=0), 0),
    "boosting": lambda: of_numbers(GradientBoostingClassifier(n_estimators=12)),
    "boosting, several": lambda: of_numbers(GradientBoostingClassifier(n_estimators=12), 3),
    "boosting, value": lambda: of_numbers(GradientBoostingRegressor(n_estimators=12), 0),
    "histograms": lambda: of_numbers(hist(), 2, LACKING),
    "histograms, categories": lambda: of_people(hist(categorical_features="from_dtype")),
    "histograms, codes": lambda: of_codes(hist(categorical_features=[1, 3])),
    "histograms, several": lambda: of_people(hist(), 4),
    "histograms, value": lambda: of_people(HistGradientBoostingRegressor(max_iter=12), 0),
    "xgboost": lambda: of_numbers(xgb(), 2, LACKING),
    "xgboost, booster": lambda: (of_numbers(xgb())[0].get_booster(), IRIS),
    "xgboost, categories": lambda: of_people(xgb(enable_categorical=True)),
    "xgboost, umlauts": with_umlauts,
    "xgboost, codes": lambda: of_codes(xgb(enable_categorical=True, feature_types=["q", "c", "q", "c"])),
    "xgboost, five classes": lambda: of_people(xgb(enable_categorical=True, max_cat_to_onehot=2), 5),
    "xgboost, value": lambda: of_people(xgb("XGBRegressor", enable_categorical=True, base_score=0.3), 0),
    "xgboost, dropped trees": lambda: of_numbers(xgb(booster="dart", rate_drop=0.3)),
    "xgboost, forest": lambda: of_numbers(xgb("XGBRFClassifier"), 3),
    "xgboost, stopped early": stopped_early,
    "xgboost, missing is -1": marked,
    "lightgbm": lambda: of_numbers(light(), 2, LACKING),
    "lightgbm, booster": shuffled_booster,
    "lightgbm, categories": lambda: of_people(light()),
    "lightgbm, codes": lambda: of_codes(light(), categorical_feature=[1, 3]),
    "lightgbm, several": lambda: of_people(light(), 4),
    "lightgbm, value": lambda: of_people(light("LGBMRegressor"), 0),
    "lightgbm, forest": lambda: of_numbers(light(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7)),
    "lightgbm, dropped trees": lambda: of_numbers(light(boosting_type="dart"), 3),
    "lightgbm, zero is missing": with_zeros,
    "lightgbm, missing not used": lambda: of_numbers(light(use_missing=False), 2, LACKING),
    "catboost": lambda: of_numbers(cats(), 2, LACKING),
    "catboost, missing last": lambda: of_numbers(cats(nan_mode="Max"), 2, LACKING),
    "catboost, several": lambda: of_numbers(cats(), 3),
    "catboost, value": lambda: of_numbers(cats("CatBoostRegressor"), 0),
    "catboost, lossguide": lambda: of_numbers(cats(grow_policy="Lossguide")),
    "one-hot forest": lambda: one_hot(RandomForestClassifier(12, max_depth=6, random_state=0)),
    "one-hot forest, several": lambda: one_hot(RandomForestClassifier(8, random_state=0), 4, sparse=False),
    "one-hot xgboost": lambda: one_hot(xgb()),
    "one-hot lightgbm": lambda: one_hot(light(), 3),
    "bins": lambda: of_columns(KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), ["age", "pay"], xgb()),
    "targets": lambda: of_columns(TargetEncoder(), ["town", "job"], hist(), 3),
    "splines": lambda: of_columns(make_union(SplineTransformer(4), StandardScaler()), ["age", "pay"], hist()),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_the_definition(name):
    model, rows = MODELS[name]()
    background, some = rows[:: len(rows) // 12], rows[5 :: len(rows) // 4]
    explainer = fitted(TreeShap(perturbation="interventional"), model, rows, background=background)
    encoded = explainer.model_.schema.encode(some)

    def answer(encoded):
        return raw(model, explainer.model_.schema.for_model(encoded))

    expected = np.array([shapley_by_definition(answer, row, explainer.background_) for row in encoded])
    found = explainer(some)
    largest = np.abs(answer(explainer.background_)).max()
    np.testing.assert_allclose(found.values, expected.reshape(found.values.shape), rtol=0, atol=1e-6 * max(1, largest))
    assert np.abs(expected).max() > 0.01
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, answer(encoded).reshape(total.shape), rtol=0, atol=2e-6 * max(1, largest))
    assert explainer.perturbation_ == "interventional"


UNITS = {
    "forest": "probability",
    "forest, value": "output",
    "boosting": "log-odds",
    "xgboost, five classes": "margin",
    "lightgbm, booster": "log-odds",
    "catboost, value": "output",
    "one-hot forest": "probability",
}


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_is_what_the_trees_add_up_to(name):
    model, rows = MODELS[name]()
    assert fitted("tree", model, rows).unit == UNITS[name]


def test_a_row_has_the_same_bits_alone_and_among_others():
    """Its values come from tables, or are computed for it; both are sums of the same numbers in the same order."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 12))
    target = rng.random(1_500) < expit(X[:, 0] * X[:, 1] + X[:, 2:5].sum(axis=1))
    for model in (RandomForestClassifier(4, random_state=0), xgb(max_depth=8)):
        explainer = fitted("tree", model.fit(X, target), X, background=X[:200])
        together = explainer(X[:900])
        for size in (1, 7, 100):
            np.testing.assert_array_equal(explainer(X[400 : 400 + size]).values, together.values[400 : 400 + size])
        np.testing.assert_array_equal(explainer(X[:900], n_jobs=2).values, together.values)


# The library's own values


def of_words():
    frame = pd.DataFrame(IRIS, columns=list("wxyz"))
    frame["words"] = np.random.default_rng(1).choice(["good day", "bad day", "good night"], len(IRIS))
    return cats(text_features=["words"]).fit(frame, frame["words"].str.startswith("good")), frame


PATH_DEPENDENT = {
    "xgboost": lambda: MODELS["xgboost, five classes"](),
    "lightgbm": lambda: MODELS["lightgbm, several"](),
    "catboost": lambda: MODELS["catboost, several"](),
    "catboost, categories": lambda: of_people(cats(cat_features=["town", "job"]), missing=False),
    "catboost, words": of_words,
    "lightgbm, one-hot": lambda: MODELS["one-hot lightgbm"](),
}


@pytest.mark.parametrize("name", PATH_DEPENDENT)
def test_path_dependent_values_are_the_librarys(name):
    model, rows = PATH_DEPENDENT[name]()
    explainer = fitted(TreeShap(perturbation="tree_path_dependent"), model, rows)
    found = explainer(rows[40:50])
    answer = raw(model, rows[40:50])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, answer, atol=1e-5)
    assert explainer.perturbation_ == "tree_path_dependent"
    assert explainer.unit == ("log-odds" if answer.ndim == 1 else "margin") + ", path-dependent"
    if name == "lightgbm":
        own = model.predict(rows[40:50], pred_contrib=True).reshape(10, 4, 5)
        np.testing.assert_allclose(found.values, own[:, :, :4].swapaxes(1, 2), atol=1e-12)


@pytest.mark.parametrize("name", ["catboost, categories", "catboost, words"])
def test_categories_of_catboost_are_left_to_catboost(name):
    model, rows = PATH_DEPENDENT[name]()
    explainer = fitted("tree", model, rows)
    assert explainer.perturbation_ == "tree_path_dependent"
    expected = fitted(TreeShap(perturbation="tree_path_dependent"), model, rows)(rows[40:50]).values
    np.testing.assert_array_equal(explainer(rows[40:50]).values, expected)
    why = r"text features .*\)" if name == "catboost, words" else "it splits on statistics of categories"
    with pytest.raises(ExplainerError, match=f"{why}; use perturbation='tree_path_dependent'"):
        fitted(TreeShap(perturbation="interventional"), model, rows)


def test_codes_that_catboost_takes_as_categories_must_be_named():
    frame = pd.DataFrame(LACKING, columns=list("wxyz")).assign(zip=SPECIES + 7)[["zip", *"wxyz"]]
    model = cats(cat_features=["zip"]).fit(frame, SPECIES == 1)
    with pytest.raises(ModelCallError, match=r"takes \['zip'\] as categories, .*: name them in categorical_features.$"):
        fitted("tree", model, frame[["w", "zip", "x", "y", "z"]])
    with pytest.raises(ModelCallError, match=r"no trained model"):
        fitted("tree", cats(cat_features=["zip"]), frame)
    named = TreeShap().fit(model, frame, categorical_features=["zip"])
    assert named.unit == "log-odds, path-dependent"


# Probabilities of boosted trees


@pytest.mark.parametrize("name", ["boosting", "xgboost", "lightgbm, categories", "one-hot xgboost", "catboost"])
def test_rescaled_probabilities_add_up_and_are_log_odds_scaled_by_background_row(name):
    model, rows = MODELS[name]()
    explainer = fitted(TreeShap(link="identity"), model, rows, background=rows[:6])
    found = explainer(rows[40:45])
    p, others = (model.predict_proba(some)[:, 1] for some in (rows[40:45], rows[:6]))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, p, atol=1e-6)
    odds, of_others = raw(model, rows[40:45]), raw(model, rows[:6])
    expected = np.zeros_like(found.values)
    for r in range(6):
        values = fitted("tree", model, rows, background=rows[r : r + 1])(rows[40:45]).values
        gap = odds - of_others[r]
        safe = np.where(np.abs(gap) < 1e-9, 1.0, gap)
        ratio = np.where(np.abs(gap) < 1e-9, p * (1 - p), (p - others[r]) / safe)
        expected += values * ratio[:, None] / 6
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert explainer.unit == "probability, rescaled from log-odds"


def test_softmax_of_margins_is_the_answer():
    """Sums of margins are checked against the model's probabilities when an explainer is made."""
    model, rows = MODELS["xgboost, five classes"]()
    found = fitted("tree", model, rows)(rows[:20])
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(softmax(total, axis=1), model.predict_proba(rows[:20]), atol=1e-5)
