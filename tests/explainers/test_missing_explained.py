"""Rows with missing values: a missing value is a state of its column, equal to itself."""

import struct

import numpy as np
import pandas as pd
import pytest
from explainer_helpers import fitted, network, shapley_by_definition
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from extras import torch
from gpec.errors import InputError
from gpec.explainers import (
    BayesLime,
    BayesShap,
    CXPlain,
    ExactShapley,
    KernelShap,
    Lime,
    Precomputed,
    ShapKernel,
    ShapleySampling,
    TreeShap,
)
from gpec.explainers.base import row_seed
from gpec.images import SuperpixelExplainer

NAN = np.nan
OTHER_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8000000000123))[0]


@pytest.fixture(scope="module")
def lacking():
    """Rows of four numbers, the first and the third with gaps, and a model that was trained on them."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0) | (rng.random(200) < 0.05)
    X[rng.random(200) < 0.3, 0] = NAN
    X[rng.random(200) < 0.2, 2] = NAN
    return X, HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def frame():
    """Text, numbers and a bool, with gaps in text and numbers, and a model with an imputer."""
    rng = np.random.default_rng(6)
    rows = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], 150),
            "price": rng.normal(10.0, 3.0, 150),
            "weight": rng.normal(size=150),
            "new": rng.random(150) < 0.5,
        }
    )
    target = (rows["colour"] == "red") ^ (rows["weight"] > 0)
    rows.loc[rng.random(150) < 0.5, "colour"] = None
    rows.loc[rng.random(150) < 0.3, "price"] = NAN

    def model(table):
        score = (table["colour"] == "red") * 2.0 + table["colour"].isna() * 0.7 + table["weight"]
        return 1 / (1 + np.exp(-score.to_numpy(dtype=float) - 0.1 * table["price"].fillna(20.0).to_numpy()))

    assert target.any()
    return rows, model


EXPLAINERS = [
    BayesLime(60),
    BayesLime(60, sampling="focused", around="row"),
    BayesShap(60),
    CXPlain(2, n_train=60, n_epochs=3),
    ExactShapley(),
    ExactShapley(link="logit"),
    KernelShap(10),
    Lime(80),
    Lime(80, around="row"),
    ShapKernel(10),
    ShapleySampling(64),
]


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=repr)
def test_every_explainer_is_finite_and_repeats_itself(explainer, lacking):
    X, model = lacking
    first, again = (fitted(explainer, model, X)(X[:12]) for _ in range(2))
    assert np.isfinite(first.values).all()
    assert np.abs(first.values).max() > 1e-3
    np.testing.assert_array_equal(first.values, again.values)
    ready = fitted(explainer, model, X)
    alone = np.concatenate([ready(X[i : i + 1]).values for i in range(12)])
    np.testing.assert_allclose(alone, first.values, rtol=0, atol=1e-10)


@pytest.mark.parametrize("explainer", EXPLAINERS, ids=repr)
def test_every_explainer_takes_gaps_in_text(explainer, frame):
    rows, model = frame
    found = fitted(explainer, model, rows, background=25)(rows[:8])
    assert np.isfinite(found.values).all()
    assert np.abs(found.values[:, 0]).max() > 1e-2


@pytest.mark.parametrize("explainer", [*EXPLAINERS, TreeShap()], ids=repr)
def test_a_column_without_gaps_is_never_given_one(explainer, lacking):
    X, trained = lacking

    class Strict(HistGradientBoostingClassifier):
        def predict_proba(self, rows):
            assert not np.isnan(np.asarray(rows)[:, [1, 3]]).any()
            return super().predict_proba(rows)

    strict = Strict()
    strict.__setstate__(trained.__getstate__())
    fitted(explainer, strict, X)(X[:6])


def test_shapley_values_by_definition(lacking):
    X, model = lacking
    background = X[:12]

    def p(rows):
        return model.predict_proba(rows)[:, 1]

    expected = [shapley_by_definition(p, x, background) for x in X[20:26]]
    assert np.isnan(X[20:26]).any()
    for explainer in (ExactShapley(), KernelShap()):
        found = fitted(explainer, model, X, background=background)(X[20:26])
        np.testing.assert_allclose(found.values, expected, atol=1e-12)
    sampled = fitted(ShapleySampling(4_000), model, X, background=background)(X[20:26])
    np.testing.assert_allclose(sampled.values, expected, atol=0.02)
    by_shap = fitted(ShapKernel(), model, X, background=background)(X[20:26])
    np.testing.assert_allclose(by_shap.values, expected, atol=1e-6)


def test_trees_are_read_with_gaps_too(lacking):
    X, model = lacking
    found, exact = (fitted(kind(link="logit"), model, X)(X[:20]).values for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found, exact, atol=1e-5)


@pytest.mark.parametrize("kind", [ExactShapley, KernelShap, ShapleySampling])
def test_a_feature_that_both_rows_lack_has_no_say_and_costs_nothing(kind, counting):
    X = np.array([[NAN, NAN, 1.0, 5.0], [NAN, NAN, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0]])
    model = counting(lambda rows: 0.1 * rows[:, 2] + 0.2 * np.isnan(rows[:, 0]))
    explainer = fitted(kind(), model, X, background=X[1:2])
    before = model.n_rows
    found = explainer(X[:1])
    np.testing.assert_allclose(found.values, [[0.0, 0.0, -0.1, 0.0]], atol=1e-12)
    assert model.n_rows - before == 1  # the row itself


def test_equal_background_rows_become_one(counting):
    model = counting(lambda rows: np.full(len(rows), 0.5))
    X = np.array([[NAN, 1.0], [NAN, 1.0], [NAN, 2.0], [0.0, NAN], [NAN, 1.0]])
    fitted(ExactShapley(), model, X, background=X)
    assert model.n_rows == 1 + 3


@pytest.mark.parametrize("around", ["data", "row"])
def test_lime_draws_gaps_as_often_as_they_occur_and_takes_them_for_features(frame, around):
    """A number that may be missing is two features: the number, and whether it is missing."""
    X, model = frame
    known = X["colour"].dropna().value_counts(normalize=True).sort_index()
    lacks, has = X[X["price"].isna()].index[0], X[X.notna().all(axis=1)].index[0]
    for i in (lacks, has):
        asked = []

        def watched(rows, asked=asked):
            asked.append(rows)
            return model(rows)

        explainer = Lime(20_000, around=around, kernel_width=1.5).fit(watched, X, background=25)
        asked.clear()
        row, found = X.loc[[i]], explainer(X.loc[[i]]).values[0]
        drawn = pd.concat(asked, ignore_index=True)
        pd.testing.assert_frame_equal(drawn[:1], row.reset_index(drop=True), check_dtype=False)
        np.testing.assert_allclose(drawn.isna().mean(), X.isna().mean(), atol=0.015)
        shares = drawn["colour"].dropna().value_counts(normalize=True).sort_index()
        np.testing.assert_allclose(shares, known, atol=0.015)
        same = lambda name: (drawn[name] == row[name].item()) | (drawn[name].isna() & pd.isna(row[name].item()))  # noqa: B023, E731
        gap, number = drawn["price"].isna(), (drawn["price"] - X["price"].mean()) / X["price"].std(ddof=0)
        weight = (drawn["weight"] - X["weight"].mean()) / X["weight"].std(ddof=0)
        first, second = (gap, number.fillna(0.0)) if i == lacks else (number.fillna(number[0]), gap)
        features = np.column_stack((same("colour"), first, weight, same("new"), second)).astype(float)
        squared = ((features[:, :4] - features[0, :4]) ** 2).sum(axis=1) + (gap & (i == has))
        ridge = Ridge(alpha=1.0).fit(features, model(drawn), sample_weight=np.exp(-0.5 * squared / 1.5**2))
        np.testing.assert_allclose(found, ridge.coef_[:4], atol=1e-9)


def test_lime_finds_the_slope_of_a_number_that_is_sometimes_missing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    X[rng.random(500) < 0.4, 0] = NAN

    def model(rows):
        return 0.5 + 0.02 * np.where(np.isnan(rows[:, 0]), 9.0, rows[:, 0]) + 0.05 * rows[:, 1]

    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    explainer = fitted(Lime(20_000), model, X)
    has, lacks = (X[np.isnan(X[:, 0]) == gap][:3] for gap in (False, True))
    np.testing.assert_allclose(explainer(has).values, np.tile(scale * [0.02, 0.05], (3, 1)), atol=2e-3)
    # missing rather than a number: 9 against 0 on average
    np.testing.assert_allclose(explainer(lacks).values[:, 0], 0.02 * (9.0 - mean[0]), atol=4e-3)


def test_cxplain_sees_gaps_in_a_column_of_their_own(lacking):
    X, model = lacking
    explainer = fitted(CXPlain(2, n_train=60, n_epochs=2), model, X)
    inputs = explainer._inputs(X[:30])
    assert inputs.shape == (30, 4 + 2)
    assert np.isfinite(inputs).all()
    np.testing.assert_array_equal(inputs[:, 4:], np.isnan(X[:30, [0, 2]]))
    assert not inputs[:, 0][np.isnan(X[:30, 0])].any()
    other = CXPlain(2, n_train=60, n_epochs=2)
    other.bind(explainer.model_, explainer.background_)
    other.restore(explainer.fitted_state())
    np.testing.assert_array_equal(
        other.explain(X[:5], seed=0).values, explainer.explain(X[:5], seed=0).values
    )  # as after loading a file


def test_known_attributions_are_found_by_rows_with_gaps(lacking):
    X, model = lacking
    assert np.isnan(OTHER_NAN)
    assert np.array([OTHER_NAN]).tobytes() != np.array([NAN]).tobytes()
    values = np.arange(800.0).reshape(200, 4)
    changed = np.where(np.isnan(X), OTHER_NAN, X)
    found = fitted(Precomputed(X, values), model, X)(changed[5:9])
    np.testing.assert_array_equal(found.values, values[5:9])


def test_equal_rows_have_equal_seeds():
    assert row_seed(1, 0, np.array([0.0, NAN])) == row_seed(1, 0, np.array([-0.0, OTHER_NAN]))
    assert row_seed(1, 0, np.array([0.0, NAN])) != row_seed(1, 0, np.array([NAN, 0.0]))


def test_images_must_be_whole():
    images = np.random.default_rng(0).uniform(size=(6, 4, 4))
    images[2, 1, 1] = NAN

    def model(X):
        return np.nan_to_num(X.reshape(len(X), -1)).mean(axis=1)

    with pytest.raises(InputError, match="Superpixels need complete images, but some have missing values"):
        fitted(SuperpixelExplainer("kernelshap", segments=np.arange(16).reshape(4, 4)), model, images)
    with pytest.raises(InputError, match="image_shape is for images, but some rows have missing values"):
        fitted(CXPlain(2, image_shape=(1, 4, 4)), model, images.reshape(6, 16))


def test_captum_computes_with_values_that_must_be_there():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[::3, 1] = NAN
    fills = network(3, 1)
    fills.register_forward_pre_hook(lambda module, rows: torch.nan_to_num(rows[0]))
    with pytest.raises(InputError, match="does not support missing values, and some rows have them; impute them"):
        fitted("captum:IntegratedGradients", fills, X)
    assert np.isfinite(fitted("kernelshap", fills, X)(X[:3]).values).all()


def test_an_imputing_pipeline(lacking):
    X, _ = lacking
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(X, X[:, 1] > 0)
    found = fitted("exact", model, X)(X[:5])
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, model.predict_proba(X[:5])[:, 1], atol=1e-12
    )
