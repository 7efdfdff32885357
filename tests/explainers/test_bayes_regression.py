"""The batched Bayesian regression against dense formulas, its own stated model, and scikit-learn."""

import numpy as np
import pytest
from scipy.stats import t as student_t
from sklearn.linear_model import Ridge

from gpec.errors import InputError, ParameterTypeError
from gpec.explainers._bayes_regression import Moments, sandwich_variance


def problem(n=4, s=50, d=3, c=2, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, s, d))
    y = features @ rng.normal(size=(d, c)) + 0.7 + 0.3 * rng.normal(size=(n, s, c))
    return features, y, rng.uniform(0.01, 1.0, size=(n, s))


def solved(features, y, weights, prior=1.0, intercept_prior=None):
    y = y[:, :, None] if y.ndim == 2 else y
    return Moments.of(features, y, weights).solve(prior, intercept_prior=intercept_prior)


def dense(features, y, weights, P):
    """The conjugate formulas for one regression with one output, as one writes them down."""
    Z = np.column_stack((np.ones(len(features)), features))
    W = np.diag(weights)
    V = np.linalg.inv(Z.T @ W @ Z + P)
    phi = V @ Z.T @ W @ y
    r = y - Z @ phi
    return phi, V, (r @ W @ r + phi @ P @ phi) / len(y)


@pytest.mark.parametrize(("prior", "intercept_prior"), [(1.0, None), (0.01, None), (30.0, 0.0), (1.0, 5.0)])
def test_dense_conjugate_formula(prior, intercept_prior):
    features, y, weights = problem()
    found = solved(features, y, weights, prior=prior, intercept_prior=intercept_prior)
    P = prior * np.eye(4)
    P[0, 0] = prior if intercept_prior is None else intercept_prior
    for i in range(4):
        for k in range(2):
            phi, V, s2 = dense(features[i], y[i, :, k], weights[i], P)
            scale = np.sqrt(s2 * np.diag(V))[1:]
            np.testing.assert_allclose(found.intercept[i, k], phi[0], rtol=0, atol=1e-10)
            np.testing.assert_allclose(found.coefficients[i, :, k], phi[1:], rtol=0, atol=1e-10)
            np.testing.assert_allclose(found.V[i], V, rtol=0, atol=1e-10)
            np.testing.assert_allclose(found.s2[i, k], s2, rtol=0, atol=1e-10)
            np.testing.assert_allclose(found.variance[i, :, k], scale**2 * 50 / 48, rtol=0, atol=1e-10)
            for level in (0.5, 0.95):
                expected = student_t.ppf((1 + level) / 2, 50) * scale
                np.testing.assert_allclose(found.half_width(level)[i, :, k], expected, rtol=0, atol=1e-10)


def test_interval_and_variance_are_those_of_posterior_draws():
    features, y, weights = problem(1, 12, 2, 1)
    found = solved(features, y, weights)
    rng = np.random.default_rng(0)
    sigma2 = 0.5 * 12 * found.s2[0, 0] / rng.gamma(6.0, size=400_000)
    noise = rng.multivariate_normal(np.zeros(3), found.V[0], size=400_000)[:, 1:]
    draws = np.sqrt(sigma2)[:, None] * noise
    np.testing.assert_allclose(found.half_width(0.95)[0, :, 0], np.quantile(np.abs(draws), 0.95, axis=0), rtol=0.01)
    np.testing.assert_allclose(found.variance[0, :, 0], draws.var(axis=0), rtol=0.02)


@pytest.mark.parametrize("s", [20, 200])
@pytest.mark.parametrize("binary", [False, True])
def test_coverage_on_its_own_model(s, binary):
    rng = np.random.default_rng(s + binary)
    n, d, sigma = 2_000, 6, 0.3
    features = rng.normal(size=(n, s, d)) if not binary else (rng.random((n, s, d)) < 0.5).astype(float)
    weights = np.exp(-0.1 * (features**2).sum(axis=2))
    beta = sigma * rng.normal(size=(n, d + 1))
    y = beta[:, :1] + np.einsum("nsd,nd->ns", features, beta[:, 1:])
    y += sigma / np.sqrt(weights) * rng.normal(size=(n, s))
    found = solved(features, y, weights)
    inside = np.abs(found.coefficients[..., 0] - beta[:, 1:]) <= found.half_width(0.95)[..., 0]
    assert abs(inside.mean() - 0.95) < 0.005  # 12,000 intervals; the wish is 0.015
    assert np.abs(inside.mean(axis=0) - 0.95).max() < 0.015


def test_batches_add_up():
    features, y, weights = problem(5, 60)
    moments = Moments.of(features[:, :20], y[:, :20], weights[:, :20])
    rows = np.array([1, 3])
    moments.add(Moments.of(features[rows, 20:], y[rows, 20:], weights[rows, 20:]), rows)
    found = moments.solve(2.0)
    whole = solved(features, y, weights, prior=2.0)
    part = solved(features[:, :20], y[:, :20], weights[:, :20], prior=2.0)
    assert found.count.tolist() == [20, 60, 20, 60, 20]
    for name in ("mean", "V", "s2", "variance"):
        np.testing.assert_allclose(getattr(found, name)[rows], getattr(whole, name)[rows], rtol=0, atol=1e-12)
        np.testing.assert_allclose(getattr(found, name)[[0, 2, 4]], getattr(part, name)[[0, 2, 4]], rtol=0, atol=1e-12)


def test_a_regression_does_not_depend_on_those_beside_it():
    features, y, weights = problem(7, 33)
    together = solved(features, y, weights)
    for i in range(7):
        alone = solved(features[i : i + 1], y[i : i + 1], weights[i : i + 1])
        np.testing.assert_array_equal(alone.mean[0], together.mean[i])
        np.testing.assert_array_equal(alone.variance[0], together.variance[i])


@pytest.mark.parametrize("alpha", [0.1, 1.0, 100.0])
def test_ridge_with_a_free_intercept_is_sklearns(alpha):
    features, y, weights = problem(3, 40)
    found = solved(features + 5.0, y, weights, prior=alpha, intercept_prior=0.0)
    for i in range(3):
        ridge = Ridge(alpha=alpha).fit(features[i] + 5.0, y[i], sample_weight=weights[i])
        np.testing.assert_allclose(found.coefficients[i].T, ridge.coef_, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.intercept[i], ridge.intercept_, rtol=0, atol=1e-10)


def test_scaling_the_output():
    features, y, weights = problem()
    one, five = (solved(features, factor * y, weights) for factor in (1.0, 5.0))
    np.testing.assert_allclose(five.coefficients, 5 * one.coefficients, rtol=1e-12)
    np.testing.assert_allclose(five.variance, 25 * one.variance, rtol=1e-9)


def test_nothing_to_explain_has_no_variance():
    features, y, weights = problem()
    found = solved(features, 0 * y, weights)
    assert (found.coefficients == 0).all()
    assert (found.variance == 0).all()


def test_a_perfect_fit_has_no_negative_variance():
    features, _, weights = problem(200, 100)
    found = solved(1e3 * features, 1e3 * features @ np.ones((3, 1)), weights, prior=1e-12)
    assert (found.s2 >= 0).all()
    assert np.abs(found.coefficients - 1).max() < 1e-9
    assert np.isfinite(found.half_width()).all()


def test_predictive_scale():
    features, y, weights = problem()
    found = solved(features, y, weights)
    z = np.array([1.0, 0.5, -2.0, 3.0])
    weights = np.linspace(0, 1, 5)
    expected = np.sqrt(found.s2[2].mean() * (1 + weights * (z @ found.V[2] @ z)))
    scale = found.predictive_std(np.tile(z[1:], (4, 5, 1)), np.tile(weights, (4, 1)))
    np.testing.assert_allclose(scale[2], expected, rtol=1e-12)


def test_perturbations_to_go_is_the_papers_formula_for_balanced_features():
    rng = np.random.default_rng(0)
    features = (rng.random((20, 3_000, 4)) < 0.5).astype(float)
    y = features @ np.array([0.1, 0.2, 0.0, -0.1]) + 0.2 * rng.normal(size=(20, 3_000))
    weights = np.full((20, 3_000), 0.4)
    found = solved(features, y, weights)
    papers = 4 * found.s2[:, 0] / (0.4 * (0.01 / 1.96) ** 2)
    np.testing.assert_allclose(found.samples_needed(0.01), papers, rtol=0.1)


def test_that_many_give_the_width_asked_for():
    rng = np.random.default_rng(1)

    def width(count):
        features = rng.normal(size=(50, count, 5)) * np.array([1.0, 0.5, 2.0, 1.0, 1.0])
        y = np.tanh(features.sum(axis=2)) + 0.1 * rng.normal(size=(50, count))
        return solved(features, y, np.exp(-0.05 * (features**2).sum(axis=2)))

    first = width(200)
    assert (first.penalty > 0).all()
    needed = int(np.median(first.samples_needed(0.05)))
    assert needed > 500
    np.testing.assert_allclose(np.median(width(needed).half_width().max(axis=(1, 2))), 0.05, rtol=0.05)
    assert (first.samples_needed(1.0) < 200).all()  # enough already


def test_perturbations_to_go_know_of_the_prior():
    """Few observations, and most of s2 is the penalty of a large intercept, which does not grow with them."""
    rng = np.random.default_rng(2)

    def posterior(count):
        features = rng.normal(size=(30, count, 3))
        return solved(features, 3.0 + 0.1 * rng.normal(size=(30, count)), np.ones((30, count)))

    first = posterior(40)
    needed = int(np.median(first.samples_needed(0.02)))
    assert needed < 0.7 * np.median(40 * (first.half_width().max(axis=(1, 2)) / 0.02) ** 2)
    np.testing.assert_allclose(np.median(posterior(needed).half_width().max(axis=(1, 2))), 0.02, rtol=0.2)


def test_perturbations_to_go_do_not_overflow():
    features, y, weights = problem()
    assert (solved(features, y, weights).samples_needed(1e-30) > 10**15).all()


def test_sandwich_is_what_it_says():
    features, y, weights = problem(2, 30)
    fit = solved(features, y, weights, prior=2.0)
    found = sandwich_variance(fit, features, y, weights)
    for i in range(2):
        Z = np.column_stack((np.ones(30), features[i]))
        H = Z @ fit.V[i] @ Z.T * weights[i]
        for k in range(2):
            r = y[i, :, k] - Z @ fit.mean[i, :, k]
            middle = sum(weights[i, j] ** 2 * r[j] ** 2 / (1 - H[j, j]) * np.outer(Z[j], Z[j]) for j in range(30))
            np.testing.assert_allclose(found[i, :, k], np.diag(fit.V[i] @ middle @ fit.V[i])[1:], rtol=1e-10)


def test_sandwich_is_the_spread_over_draws_where_the_line_is_wrong():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1_000, 300, 2))
    weights = np.exp(-0.3 * (features**2).sum(axis=2))
    y = np.exp(features[:, :, :1])  # curved, no noise
    fit = solved(features, y, weights, intercept_prior=0.0)
    spread = fit.coefficients.var(axis=0, ddof=1)
    np.testing.assert_allclose(sandwich_variance(fit, features, y, weights).mean(axis=0), spread, rtol=0.15)
    assert fit.variance[:, 0].mean() < 0.8 * spread[0]  # the regression that trusts its model is too sure


def test_levels():
    found = solved(*problem())
    with pytest.raises(InputError, match="confidence_level=1"):
        found.half_width(1.0)
    with pytest.raises(ParameterTypeError, match="width='wide'"):
        found.samples_needed("wide")
