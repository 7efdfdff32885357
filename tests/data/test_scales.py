"""Scales that a few extreme values do not move."""

import numpy as np
import pytest

from gpec.data import Schema


def embedded(X, **options):
    schema, Z = Schema.learn(X, **options)
    return schema.embed(Z)


@pytest.mark.parametrize("n", [20, 100, 1000])
@pytest.mark.parametrize("far", [1e3, 1e6, -1e9, 1e140])
def test_one_far_value_does_not_squash_the_rest(n, far):
    X = np.random.default_rng(0).normal(size=(n, 1))
    X[3] = far
    rest = np.delete(embedded(X), 3, axis=0)
    assert 0.9 < rest.std() < 1.1
    assert abs(rest.mean()) < 0.2


@pytest.mark.parametrize("heavy", [lambda z: np.exp(3 * z), lambda z: np.sinh(2 * z)], ids=["exp(3z)", "sinh(2z)"])
def test_heavy_tails_leave_the_bulk_its_room(heavy):
    z = np.random.default_rng(0).normal(size=(2000, 1))
    bulk = np.quantile(embedded(heavy(z)), [0.05, 0.95])
    plain = np.quantile((heavy(z) - heavy(z).mean()) / heavy(z).std(), [0.05, 0.95])
    assert np.ptp(bulk) > 0.99 * np.ptp(plain)
    assert np.ptp(bulk) > 1.0


def test_a_cauchy_column_is_measured_by_its_bulk():
    X = np.random.default_rng(0).standard_cauchy((2000, 1))
    assert np.ptp(np.quantile(embedded(X), [0.05, 0.95])) > 1.5
    assert np.ptp(np.quantile((X - X.mean()) / X.std(), [0.05, 0.95])) < 0.5


def test_scales_are_the_same_after_a_change_of_sign_or_order():
    X = np.random.default_rng(0).standard_cauchy((137, 2))
    E = embedded(X)
    np.testing.assert_allclose(embedded(-X), -E, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(embedded(X[::-1])[::-1], E, rtol=1e-9, atol=1e-12)


def test_few_rows_have_no_tails():
    X = np.arange(19.0)[:, None]
    np.testing.assert_allclose(embedded(X), (X - X.mean()) / X.std(), rtol=1e-12)


@pytest.mark.parametrize("ones", [1, 2, 5, 50])
def test_where_only_the_tail_varies_it_counts(ones):
    X = np.zeros((500, 1))
    X[:ones] = 1.0
    np.testing.assert_allclose(embedded(X).std(), 1.0, rtol=1e-9)


def test_missing_values_do_not_count():
    X = np.random.default_rng(0).normal(3.0, 5.0, size=(300, 2))
    holes, whole = (Schema.learn(rows)[0] for rows in (np.insert(X, [0, 10, 10, 300], np.nan, axis=0), X))
    np.testing.assert_allclose(holes.center, whole.center, rtol=1e-12)
    np.testing.assert_allclose(holes.scale, whole.scale, rtol=1e-12)


def test_moments_of_missing_columns():
    schema, _ = Schema.learn(np.array([[np.nan, np.nan, 1.0], [np.nan, 4.0, 2.0], [np.nan, np.nan, 3.0]]))
    np.testing.assert_allclose(schema.center, [0.0, 4.0, 2.0])
    np.testing.assert_allclose(schema.scale, [1.0, 1.0, np.sqrt(2 / 3)])
