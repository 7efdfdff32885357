"""Level sets of regressors: points lie on them, jumps count, and units do not matter."""

import re
from dataclasses import replace

import numpy as np
import pytest
from boundary_helpers import W, assert_same_bits, fitted_boundary, gauss
from sklearn.ensemble import RandomForestRegressor

import gpec
from archive_helpers import through_file
from gpec.boundary import AdversarialSampler, BisectionSampler, BoundarySample, LevelSetSampler
from gpec.data import Schema
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError
from gpec.models import Model

X = gauss(401)


def linear(X):
    return 50.0 * (X @ W) + 2_000.0


def sampled(function, X=X, n=60, sampler=None, **options):
    sampler = LevelSetSampler() if sampler is None else sampler
    return sampler.sample(function, X, n, model_output="value", random_state=0, progress=False, **options)


@pytest.mark.parametrize("rows", ["data", "box"])
@pytest.mark.parametrize("pairing", ["nearest", "random"])
def test_the_level_set_of_a_linear_function_is_a_plane(pairing, rows):
    sample = sampled(linear, sampler=LevelSetSampler(pairing=pairing, rows=rows))
    assert len(sample) == 60
    (level,) = sample.levels
    assert level == pytest.approx(np.median(linear(X)), abs=1.0)
    np.testing.assert_allclose(linear(sample.points), level, atol=50 * 3e-6)
    before, beyond = sample.ends()
    assert (linear(before) <= level).all()
    assert (linear(beyond) > level).all()


def test_several_quantiles_share_the_points():
    sample = sampled(linear, n=90, sampler=LevelSetSampler((0.9, 0.1, 0.5)))
    np.testing.assert_allclose(sample.levels, np.quantile(linear(X), (0.1, 0.5, 0.9)), rtol=2e-3)
    assert [int((sample.level == level).sum()) for level in sample.levels] == [30, 30, 30]
    np.testing.assert_allclose(linear(sample.points), sample.level, atol=2e-4)
    assert (sample.label == 0).all()


@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e4), (-1.0, 0.0)])
def test_units_do_not_matter(factor, shift):
    plain, other = sampled(linear, X[:400]), sampled(lambda X: factor * linear(X) + shift, X[:400])
    np.testing.assert_allclose(other.level, factor * plain.level + shift, rtol=1e-9)
    np.testing.assert_allclose(linear(other.points), linear(plain.points), atol=2e-4)


def test_heavy_tails():
    def heavy(X):
        return np.tan(1.55 * np.tanh(X[:, 0])) * 1e6

    sample = sampled(heavy)
    np.testing.assert_allclose(sample.points[:, 0], np.median(X[:, 0]), atol=0.01)


def test_trees_jump_over_the_level():
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, linear(X))
    sample = LevelSetSampler().sample(forest, X, 60, random_state=0, progress=False)
    before, beyond = (forest.predict(end) for end in sample.ends())
    assert (before <= sample.level).all()
    assert (beyond > sample.level).all()
    assert (beyond - before).min() > 1e-3  # it is never near the level


@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
def test_few_values_get_a_level_between_them(share):
    cut = np.quantile(X[:, 0], share)
    sample = sampled(lambda X: np.where(X[:, 0] > cut, 7.0, 3.0))
    assert sample.levels == [5.0]
    np.testing.assert_allclose(sample.points[:, 0], cut, atol=0.02)


def test_counts_are_levels_too():
    sample = sampled(lambda X: np.floor(X[:, 0] * 2), sampler=LevelSetSampler((0.2, 0.5, 0.8)), n=30)
    assert all(level % 1 == 0.5 for level in sample.levels)


def test_the_bits_are_the_same_again():
    assert_same_bits(sampled(linear), sampled(linear))


@pytest.mark.parametrize("name", ["auto", "levels"])
def test_names_of_level_sets(name):
    found = fitted_boundary(name, linear, X, n_boundary=60, model_output="value")
    expected = sampled(linear)
    assert_same_bits(found, replace(expected, n_model_rows=found.n_model_rows))


# What is refused


@pytest.mark.parametrize("value", [0.0, 5.0, -1e6])
def test_a_constant_has_no_level_sets(value):
    with pytest.raises(
        BoundaryNotFoundError, match=rf"predicts {re.escape(f'{value:.6g}')} for all 401 rows tried, so"
    ):
        sampled(lambda X: np.full(len(X), value))


def test_rounding_is_no_change():
    with pytest.raises(BoundaryNotFoundError, match="no level sets"):
        sampled(lambda X: 1e6 + 1e-9 * np.sign(X[:, 0]))


@pytest.mark.parametrize("quantiles", [(), 0.5, (0.0,), (1.0, 0.5), (np.nan,), ((0.5,),)])
def test_quantiles_that_are_none(quantiles):
    with pytest.raises(InputError, match="quantiles"):
        sampled(linear, sampler=LevelSetSampler(quantiles))


@pytest.mark.parametrize("sampler", [BisectionSampler(), AdversarialSampler()])
def test_samplers_of_classes(sampler):
    with pytest.raises(InputError, match=r"searches for a change of class, and the model is a regressor; use .*Lev"):
        sampled(linear, sampler=sampler)


def test_level_sets_of_a_classifier():
    with pytest.raises(InputError, match="needs a regressor, and the model is a classifier; use boundary=Bisection"):
        LevelSetSampler().sample(lambda X: (X[:, 0] > 0) * 1.0, X, 20)


def test_a_sample_belongs_to_its_model():
    sample, (schema, Z) = sampled(linear), Schema.learn(X)

    def require(function):
        model = Model(function, schema, model_output="value")
        model.answers(Z[:3])
        sample.require_on_boundary(model, 0)

    require(linear)
    for other in (lambda X: linear(X) + 5.0, lambda X: -linear(X), lambda X: X[:, 0]):
        with pytest.raises(ModelMismatchError, match="the predicted value does not pass its level across"):
            require(other)
    assert_same_bits(through_file(BoundarySample, sample), sample)


def test_points_on_trust():
    sample = sampled(linear)
    g = gpec.GPEC(
        linear, "exact", model_output="value", boundary=sample.points, n_explained=15, background=5, progress=False
    )
    assert g.fit(X).diagnostics_["levels"] == []
