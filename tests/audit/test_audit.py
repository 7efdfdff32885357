"""The audit: on tables and models nobody tuned for, every explainer and every posterior against its definition."""

import math
import warnings
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from audit_tables import MAKERS, TREES
from scipy.special import logit

import gpec
from gpec.errors import ExplainerError, FewBoundaryPointsWarning
from gpec.explainers import CXPlain, Lime, ShapleySampling, TreeShap
from gpec.gp.posterior import JITTER

pytestmark = [
    pytest.mark.filterwarnings("ignore::gpec.errors.FewBoundaryPointsWarning"),
    pytest.mark.filterwarnings("ignore::gpec.errors.PosteriorWarning"),  # LIME on few rows is hard to predict
]

N_BACKGROUND, N_EXPLAINED, N_BOUNDARY = 12, 25, 60
BRUTE = 4  # explained rows that are compared with brute force
# By name, or with a smaller budget than that of the name.
EXPLAINERS = {
    "exact": "exact",
    "kernelshap": "kernelshap",
    "tree": TreeShap(link="identity"),
    "shapley_sampling": ShapleySampling(200),
    "lime": Lime(200),
    "bayeslime": "bayeslime",
    "bayesshap": "bayesshap",
    "cxplain": CXPlain(2, n_train=200, n_epochs=5),
    "captum:IntegratedGradients": "captum:IntegratedGradients",
}
APPLIES_TO = {"tree": TREES, "captum:IntegratedGradients": ("network",)}
ADDITIVE = {"exact": 1e-9, "kernelshap": 1e-9, "shapley_sampling": 1e-9, "tree": 1e-5}
NOISY = ("shapley_sampling", "bayesshap")
PAIRS = [
    (name, explainer) for name, explainer in product(MAKERS, EXPLAINERS) if name in APPLIES_TO.get(explainer, MAKERS)
]


def each(pairs):
    return pytest.mark.parametrize(("name", "explainer"), pairs, ids=["-".join(pair) for pair in pairs])


def background(case):
    return case.X.iloc[np.random.default_rng(0).permutation(len(case.X))[:N_BACKGROUND]]


@cache
def fitted(name, explainer):
    """Each explainer gets the boundary of the first."""
    case = MAKERS[name]()
    boundary = "auto" if explainer == "exact" else fitted(name, "exact").boundary_
    g = gpec.GPEC(
        case.model,
        EXPLAINERS[explainer],
        boundary=boundary,
        background=background(case),
        n_boundary=N_BOUNDARY,
        n_explained=N_EXPLAINED,
        model_output="logit" if name == "network" else "auto",
        random_state=0,
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewBoundaryPointsWarning)
        return g.fit(case.X)


def outputs(values):
    """``(n, d, c)`` of what users see."""
    return values[:, :, None] if values.ndim == 2 else values


def worths(case, row, link):
    """``v(S)`` for every coalition, ``(2^d, c)``, and the coalitions ``(2^d, d)``."""
    rows = background(case)
    d = rows.shape[1]
    masks = np.array(list(product([False, True], repeat=d)))
    both = pd.concat([rows, row])  # the row itself stands last
    columns = {}
    for j, column in enumerate(rows.columns):
        place = np.where(np.repeat(masks[:, j], len(rows)), len(rows), np.tile(np.arange(len(rows)), len(masks)))
        columns[column] = both[column].array.take(place)
    answers = link(case.probabilities(pd.DataFrame(columns)))
    return masks, answers.reshape(len(masks), len(rows), -1).mean(axis=1)


@cache
def brute_force(name, link=lambda p: p):
    """Shapley values of the first explained rows, from the definition."""
    case, found = MAKERS[name](), []
    explained = fitted(name, "exact").X_explained_.iloc[:BRUTE]
    for i in range(BRUTE):
        masks, v = worths(case, explained.iloc[[i]], link)
        d = masks.shape[1]
        place = {tuple(mask): k for k, mask in enumerate(masks.tolist())}
        values = np.zeros((d, v.shape[1]))
        for mask, worth in zip(masks.tolist(), v, strict=True):
            size = sum(mask)
            for j in np.flatnonzero(~np.array(mask)):
                joined = place[(*mask[:j], True, *mask[j + 1 :])]
                weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
                values[j] += weight * (v[joined] - worth)
        found.append(values)
    return np.stack(found)


def test_enough_tables():
    assert len(MAKERS) >= 12


# Explainers


@pytest.mark.parametrize("name", MAKERS)
def test_explained_rows_are_rows_of_the_table(name):
    X, explained = MAKERS[name]().X, fitted(name, "exact").X_explained_
    for column in X:
        whole = X[column].dtype == np.int64  # these become floats: boundary points lie between them
        assert explained[column].dtype == (np.float64 if whole else X[column].dtype)
    known = set(X.astype(object).where(X.notna(), None).itertuples(index=False, name=None))
    assert set(explained.astype(object).where(explained.notna(), None).itertuples(index=False, name=None)) <= known


@pytest.mark.parametrize("explainer", ["exact", "kernelshap"])
@pytest.mark.parametrize("name", MAKERS)
def test_shapley_values(name, explainer):
    values = outputs(fitted(name, explainer).attributions_.values)
    np.testing.assert_allclose(values[:BRUTE], brute_force(name), atol=1e-8)
    assert np.abs(brute_force(name)).max() > 0.01


@pytest.mark.parametrize("explainer", NOISY)
@pytest.mark.parametrize("name", MAKERS)
def test_shapley_values_within_their_noise(name, explainer):
    g = fitted(name, explainer)
    values, exact = outputs(g.attributions_.values), outputs(fitted(name, "exact").attributions_.values)
    width = 4 * np.sqrt(outputs(g.attributions_.variance)) + 1e-8
    assert (np.abs(values - exact) <= width).mean() >= 0.97


@pytest.mark.parametrize("name", MAKERS)
def test_trees(name):
    case = MAKERS[name]()
    if name not in TREES:
        with pytest.raises(ExplainerError, match=r"explainer='tree' cannot explain .*; use 'kernelshap'"):
            fitted(name, "tree")
    elif TREES[name] == "forest":
        values = outputs(fitted(name, "tree").attributions_.values)
        np.testing.assert_allclose(values[:BRUTE], brute_force(name), atol=1e-6)
    else:
        tree = TreeShap(link="logit").fit(case.model, background(case))
        values = outputs(tree(fitted(name, "exact").X_explained_.iloc[:BRUTE]).values)
        exact = brute_force(name, logit)
        np.testing.assert_allclose(values, exact, atol=2e-5 * max(1.0, np.abs(exact).max()))


@each([pair for pair in PAIRS if pair[1] in ADDITIVE])
def test_additivity(name, explainer):
    g, case = fitted(name, explainer), MAKERS[name]()
    for e, rows in ((g.attributions_, g.X_explained_), (g.explain(case.X[30:37]), case.X[30:37])):
        base = e.base_values if e.base_values.ndim == 2 else e.base_values[:, None]
        total = outputs(e.values).sum(axis=1) + base
        np.testing.assert_allclose(total, case.probabilities(rows), atol=ADDITIVE[explainer])
        np.testing.assert_allclose(base[0], case.probabilities(background(case)).mean(axis=0), atol=1e-6)


# Posteriors


def dense(K, k, diagonal, y, u, s, g):
    """Mean, variance and its model part, as Eq. 2 has them with an unknown mean and a nugget, for one feature."""
    N, ones = len(K), np.ones(len(K))

    def variance(noise):
        A = s * (K + (g + JITTER) * np.eye(N)) + np.diag(noise)
        c, inverse = s * k, np.linalg.inv(A)
        gap = 1 - c @ inverse @ ones
        return inverse, s * (diagonal + g) - np.einsum("ij,jk,ik->i", c, inverse, c) + gap**2 / (ones @ inverse @ ones)

    _, boundary = variance(np.zeros(N))
    inverse, total = variance(u)
    m = ones @ inverse @ y / (ones @ inverse @ ones)
    return m + s * k @ inverse @ (y - m), np.maximum(total, 0.0), np.maximum(boundary, 0.0)


def given_the_sum(variance):
    """What is left of independent variances ``(n, d)`` when the sum is known, and each one's share of what it lacks."""
    whole = variance.sum(axis=1, keepdims=True)
    share = np.divide(variance, whole, out=np.zeros_like(variance), where=whole > 0)
    return variance - share * variance, share


@each(PAIRS)
def test_posterior(name, explainer):
    """What the explainer would answer: the posterior of each feature, its noise, and the sum where it is known."""
    g, case = fitted(name, explainer), MAKERS[name]()
    context, seen, rows = g._fitted.context, g._fitted.observations, case.X[40:46]
    X, Q = (g._fitted.with_effects(g._fitted.rows(context.schema.encode(rows))) for rows in (g.X_explained_, rows))
    e = g.explain(rows, attribution="posterior")
    Y, U = outputs(g.attributions_.values), outputs(g.attributions_.variance)
    kernels, posteriors = ((part,) if Y.shape[2] == 1 else part for part in (g.kernel_, g.posterior_))
    for c, (kernel, posterior) in enumerate(zip(kernels, posteriors, strict=True)):
        learned, expected = posterior.parameters, []
        for f, (s, nugget) in enumerate(zip(learned.scale, learned.nugget, strict=True)):
            if s == 0:  # attributions that do not vary: one constant
                assert np.ptp(Y[:, f, c]) < 1e-9
                of_mean = 0.0 if (U[:, f, c] == 0).any() else 1 / (1 / U[:, f, c]).sum()
                expected.append((np.full(6, Y[0, f, c]), np.full(6, of_mean), np.zeros(6)))
                continue
            own = f if kernel.varies_by_feature else None
            matrices = kernel.gram(X, own), kernel.cross(Q, X, own), kernel.diag(Q, own)
            expected.append(dense(*matrices, Y[:, f, c], U[:, f, c], s, nugget))
        mean, total, boundary = np.array(expected).transpose(1, 2, 0)
        total = total + U[:, :, c].mean(axis=0)
        if seen.adds_up_to is not None:
            answer = case.probabilities(rows)[:, c]
            answer = logit(answer) if seen.adds_up_to == "log-odds" else answer
            base = g.attributions_.base_values.reshape(len(Y), -1)[0, c]
            total, share = given_the_sum(total)
            mean = mean + share * (answer - base - mean.sum(axis=1))[:, None]
            boundary, _ = given_the_sum(boundary)
        varies = learned.scale > 0
        # rounding times the condition number; how much of it shows differs between builds of BLAS
        slack = max(1e-8, 5 * N_EXPLAINED / learned.nugget[varies].min(initial=1.0) * 1e-15)
        unit = learned.scale.max()
        atol = slack * np.sqrt(unit) + 1e-8 * np.abs(Y[:, :, c]).max()
        np.testing.assert_allclose(outputs(e.values)[:, :, c], mean, atol=atol)
        np.testing.assert_allclose(outputs(e.variance)[:, :, c], total, atol=10 * slack * unit)
        np.testing.assert_allclose(outputs(e.model_variance)[:, :, c], boundary, atol=10 * slack * unit)
    assert (e.model_variance >= 0).all()
    assert (e.noise_variance >= 0).all()


def test_the_sum_is_known_of_additive_explainers():
    for name, explainer in PAIRS:
        if explainer in ADDITIVE and explainer != "tree":
            assert fitted(name, explainer)._fitted.observations.adds_up_to is not None, (name, explainer)
        elif explainer in ("lime", "cxplain"):
            assert fitted(name, explainer)._fitted.observations.adds_up_to is None, (name, explainer)


# The same answers again


PARTS = ("values", "model_variance", "noise_variance", "lower", "upper")


def assert_same(a, b, *, exactly):
    assert list(a.feature_names) == list(b.feature_names)
    for part in PARTS:
        first, second = getattr(a, part), getattr(b, part)
        if exactly:
            assert first.tobytes() == second.tobytes(), part
        else:
            scale = np.abs(first).max() if first.size else 0.0
            np.testing.assert_allclose(first, second, rtol=0, atol=1e-10 * max(scale, 1e-3), err_msg=part)


@each(PAIRS)
@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
def test_same_answers(tmp_path, name, explainer, attribution):
    g, case = fitted(name, explainer), MAKERS[name]()
    rows = case.X[50:57]
    whole = g.explain(rows, attribution=attribution)
    assert np.isfinite(whole.values).all()
    assert np.isfinite(whole.std).all()
    assert_same(whole, g.explain(rows, attribution=attribution), exactly=True)
    assert_same(whole, g.explain(rows[rows.columns[::-1]], attribution=attribution), exactly=True)
    assert_same(whole, g.explain(rows[::-1], attribution=attribution)[::-1], exactly=False)
    for cut in (slice(0, 3), slice(3, 7), slice(5, 6)):
        assert_same(whole[cut], g.explain(rows[cut], attribution=attribution), exactly=False)
    g.save(tmp_path / "g")
    given = EXPLAINERS[explainer] if not isinstance(EXPLAINERS[explainer], str) else None
    loaded = gpec.GPEC.load(tmp_path / "g", model=case.model, explainer=given)
    assert_same(whole, loaded.explain(rows, attribution=attribution), exactly=True)
    whole.save(tmp_path / "e")
    assert_same(whole, gpec.Explanation.load(tmp_path / "e"), exactly=True)
