"""One Matern kernel of distances that add: values, gradients, copies and files."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from archive_helpers import kernel_through_file
from gpec.data import Rows, Schema
from gpec.errors import InputError, NotFittedError, ParameterTypeError
from gpec.kernels import EG, RBF, WEG, Between, Kernel, Matern, Output, Own, Rest, make_kernel

RNG = np.random.default_rng(0)
POINTS, Z, Q = RNG.normal(size=(50, 3)), RNG.normal(size=(25, 3)), RNG.normal(size=(9, 3))
W = np.array([[1.0, -2.0], [0.5, 0.3], [0.0, 1.0]])


def log_odds(rows):
    """Log-odds of two classes, some of them beyond all measure."""
    return rows @ W * np.where(rows[:, :1] > 1.5, 40.0, 1.0)


def rows_of(array):
    return Rows(array, array, outputs=log_odds(array))


X = rows_of(Z)
TERMS = {
    "own": lambda: Matern(Own()),
    "rest": lambda: Matern(Rest()),
    "output": lambda: Matern(Output()),
    "boundary": lambda: Matern(WEG()),
    "own and rest": lambda: Matern(Own(), Rest()),
    "rest and output": lambda: Matern(Rest(), Output(1.3)),
    "some lengths given": lambda: Matern(Own(0.5), Rest(), WEG()),
    "all": lambda: Matern(Own(), Rest(), Output(), WEG()),
    "kernels": lambda: Matern(Between(RBF("evidence")), Between(EG(), 0.4), Own()),
    "a sum": lambda: Matern(0.5 * WEG() + RBF(2.0), Rest(2.0)),
}


def fitted(name):
    kernel = TERMS[name]().fit(POINTS, X)
    kernel.theta = kernel.theta + np.random.default_rng(1).uniform(-0.4, 0.4, size=kernel.n_dims)
    return kernel


def answers(rows):
    """The answers that Output compares, over their deviations at the rows of the fit."""

    def both(array):
        odds = log_odds(array)
        return np.hstack((np.clip(odds, -8, 8), 1 / (1 + np.exp(-odds))))

    return both(rows) / both(Z).std(axis=0)


def by_hand(kernel, A, B, feature):
    """The formula, pair by pair."""
    names = kernel.terms_
    total = np.zeros((len(A), len(B)))
    for name, part in names.items():
        for i, a in enumerate(A):
            for j, b in enumerate(B):
                if name == "own":
                    squared = (a[feature] - b[feature]) ** 2
                elif name == "rest":
                    squared = ((a - b) ** 2).sum() - ((a[feature] - b[feature]) ** 2 if "own" in names else 0.0)
                elif name == "output":
                    squared = ((answers(a[None]) - answers(b[None])) ** 2).sum()
                else:
                    K = part.kernel_.gram(np.vstack((a, b)))
                    squared = K[0, 0] + K[1, 1] - 2 * K[0, 1]
                total[i, j] += squared / part.length_**2
    d = np.sqrt(3 * np.maximum(total, 0.0))
    return (1 + d) * np.exp(-d)


@pytest.mark.parametrize("feature", [0, 2])
@pytest.mark.parametrize("name", TERMS)
def test_it_is_the_formula(name, feature):
    kernel = fitted(name)
    K = kernel.cross(rows_of(Q), X, feature)
    np.testing.assert_allclose(K, by_hand(kernel, Q, Z, feature), atol=2e-7)  # rounding of 2 - 2 k grows by its root
    np.testing.assert_array_equal(kernel.diag(X, feature), np.ones(25))
    gram = kernel.gram(X, feature)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, by_hand(kernel, Z, Z, feature), atol=2e-6)


@pytest.mark.parametrize("name", TERMS)
def test_it_is_positive_semidefinite(name):
    kernel, doubled = fitted(name), rows_of(np.vstack((Z, Z[:3], 10 * Z[:5])))
    for feature in range(3):
        assert np.linalg.eigvalsh(kernel.gram(doubled, feature)).min() > -1e-7


def test_one_squared_distance_inside_is_not_a_product():
    both, own, rest = (kernel.fit(None, Z) for kernel in (Matern(Own(1.0), Rest(1.0)), Matern(Own(1.0)), Rest(1.0)))
    product = own.gram(Z, 1) * rest.gram(Z, 1)
    assert np.abs(both.gram(Z, 1) - product).max() > 0.01


@pytest.mark.parametrize("term", [Own(0.8), Rest(1.5), Output(1.1), Between(WEG(), 0.7)], ids=repr)
def test_a_distance_alone_is_the_matern_of_it(term):
    alone, inside = term.__sklearn_clone__().fit(POINTS, X), Matern(Own(1e9), term).fit(POINTS, X)
    np.testing.assert_allclose(alone.gram(X, 1), inside.gram(X, 1), atol=1e-6)
    np.testing.assert_allclose(alone.paired(X, X)(1)[:, 0], np.ones(25), atol=1e-6)


@pytest.mark.parametrize("feature", [0, 2])
@pytest.mark.parametrize("name", [*TERMS, "WEG", "sum"])
def test_pairs_are_entries_of_the_matrix(name, feature):
    """Those of a Matern by its own way, those of other kernels from few rows at a time."""
    kernels = {"WEG": lambda: WEG().fit(POINTS, X), "sum": lambda: (WEG() + RBF(1.0)).fit(POINTS, X)}
    kernel = kernels[name]() if name in kernels else fitted(name)
    others = np.random.default_rng(2).normal(size=(25 * 4, 3))
    others[5] = Z[1]  # the row itself
    found = kernel.paired(X, rows_of(others))(feature)
    matrix = kernel.cross(X, rows_of(others), feature)
    expected = np.array([matrix[i, 4 * i : 4 * i + 4] for i in range(25)])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[1, 1] == pytest.approx(kernel.diag(X, feature)[1], abs=1e-6)


@pytest.mark.parametrize("feature", [0, 2])
@pytest.mark.parametrize("name", TERMS)
def test_gradient_and_pullback_are_central_differences(name, feature):
    kernel = fitted(name)
    K, gradient = kernel.gram_gradient(X, feature)
    np.testing.assert_allclose(K, kernel.gram(X, feature), atol=1e-6)
    (again,), pull_all = kernel.grams_pullback(X, (feature,))
    np.testing.assert_allclose(again, K, atol=1e-12)

    def pull(V):
        return pull_all(V[None])

    V = np.random.default_rng(3).normal(size=K.shape)
    V = V + V.T
    assert gradient.shape == (25, 25, kernel.n_dims)
    assert len(pull(V)) == kernel.n_dims
    off = ~np.eye(25, dtype=bool)

    def difference(unit, step):
        ahead, behind = (kernel.with_theta(kernel.theta + sign * step * unit).gram(X, feature) for sign in (1, -1))
        return (ahead - behind) / (2 * step)

    for p, unit in enumerate(np.eye(kernel.n_dims)):
        numeric = (4 * difference(unit, 1e-3) - difference(unit, 2e-3)) / 3
        np.testing.assert_allclose(gradient[:, :, p][off], numeric[off], rtol=1e-4, atol=1e-7)
        assert np.abs(numeric).max() > 1e-3
        assert pull(V)[p] == pytest.approx((V * numeric)[off].sum(), rel=1e-4, abs=1e-5)


def test_free_parameters_are_the_lengths_in_order_and_those_of_the_kernels_inside():
    kernel = TERMS["kernels"]().fit(POINTS, X)
    assert kernel.n_dims == 3
    rbf, own = kernel.terms_["rbf"], kernel.terms_["own"]
    np.testing.assert_allclose(np.exp(kernel.theta), [rbf.length_, rbf.kernel_.lengthscale_, own.length_])
    assert len(kernel.hyperparameters) == 3
    assert kernel.bounds.shape == (3, 2)
    assert (kernel.bounds[:, 0] < kernel.theta).all()
    assert (kernel.theta < kernel.bounds[:, 1]).all()
    assert Matern(Own(1.0), Rest(2.0)).fit(None, Z).n_dims == 0


def test_lengths_start_at_the_median_distance():
    kernel = TERMS["all"]().fit(POINTS, X)
    apart = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    assert kernel.terms_["rest"].length_ == pytest.approx(np.median(apart[apart > 0]), rel=1e-4)
    medians = []
    for z in Z.T:
        gaps = np.abs(z[:, None] - z)
        medians.append(np.median(gaps[gaps > 0]))
    assert kernel.terms_["own"].length_ == pytest.approx(np.median(medians), rel=1e-4)


def test_categories_are_0_or_1_and_belong_to_one_feature():
    frame = pd.DataFrame({"colour": ["red", "blue", "green", "red"], "size": [1.0, 2.0, 4.0, 4.0]})
    schema, encoded = Schema.learn(frame)
    rows = Rows(schema.embed(encoded), encoded, schema.coordinates)
    squared = Own(1.0).fit(None, rows).squared_to(rows)(rows)(0)
    assert squared[0, 3] == 0
    assert squared[0, 1] == pytest.approx(squared[0, 2]) == pytest.approx(squared[1, 2])
    assert squared[0, 1] > 0
    rest = Rest(1.0).fit(None, rows).squared_to(rows)(rows)(0)
    size = rows.own(1)[:, 0]
    np.testing.assert_allclose(rest, (size[:, None] - size) ** 2, atol=1e-12)


def test_without_own_the_rest_is_the_whole_row_and_one_matrix_serves_all():
    kernel = Matern(Rest(1.0), Output(1.0)).fit(POINTS, X)
    assert not kernel.varies_by_feature
    np.testing.assert_array_equal(kernel.gram(X, 0), kernel.gram(X, 2))
    np.testing.assert_array_equal(kernel.gram(X, 0), kernel.gram(X))
    assert TERMS["all"]().varies_by_feature


def test_a_term_can_be_taken_out():
    kernel = fitted("all")
    less = kernel.without("rest")
    assert list(less.terms_) == ["own", "output", "weg"]
    np.testing.assert_allclose(less.gram(X, 1), by_hand(less, Z, Z, 1), atol=2e-6)
    before = kernel.gram(X, 1)
    less.theta = less.theta + 1.0
    np.testing.assert_array_equal(kernel.gram(X, 1), before)
    # a length without bound says the same
    far = kernel.with_theta(kernel.theta + np.array([0.0, 30.0, 0.0, 0.0]))
    np.testing.assert_allclose(far.gram(X, 1), kernel.without("rest").gram(X, 1), atol=1e-7)


@pytest.mark.parametrize("name", TERMS)
def test_files_and_copies(name):
    kernel = fitted(name)
    loaded = kernel_through_file(kernel)
    assert type(loaded) is Matern
    assert loaded == kernel
    assert repr(loaded) == repr(kernel)
    assert loaded.diagnostics() == kernel.diagnostics()
    for other in (loaded, clone(kernel), kernel.with_theta(kernel.theta)):
        np.testing.assert_array_equal(other.theta, kernel.theta)
        np.testing.assert_array_equal(other.bounds, kernel.bounds)
        np.testing.assert_allclose(other.gram(rows_of(Z), 1), kernel.gram(X, 1), atol=1e-15)
    moved = kernel.with_theta(kernel.theta + 0.3)
    if kernel.n_dims:
        assert np.abs(moved.gram(X, 1) - kernel.gram(X, 1)).max() > 1e-3
    unfitted = Kernel.from_state(TERMS[name]().state())
    assert unfitted == TERMS[name]()
    with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
        unfitted.gram(X, 1)


def test_copies_do_not_share_what_rows_remember():
    """Distances are kept with the rows; a kernel that is being learned inside must not find old ones."""
    rows, kernel = rows_of(Z), TERMS["kernels"]().fit(POINTS, X)
    first = kernel.gram(rows, 1)
    theta = kernel.theta + np.array([0.0, 1.0, 0.0])  # of the RBF inside
    second = kernel.with_theta(theta).gram(rows, 1)
    np.testing.assert_allclose(second, kernel.with_theta(theta).gram(rows_of(Z), 1), atol=1e-14)
    assert np.abs(first - second).max() > 1e-2
    np.testing.assert_allclose(kernel.fit(POINTS * 2, rows_of(Z)).gram(rows, 1), kernel.gram(rows_of(Z), 1), atol=1e-14)


def test_its_terms_are_parameters():
    """As of every class with parameters, though there may be any number of them."""
    kernel = TERMS["all"]()
    assert list(kernel.get_params(deep=False)) == ["term0", "term1", "term2", "term3"]
    assert kernel.get_params()["term1"] is kernel.term1
    assert kernel.set_params(term1=RBF(1.0), term0__length=0.7) is kernel
    assert kernel.term0.length == 0.7
    assert list(kernel.fit(POINTS, X).terms_) == ["own", "rbf", "output", "weg"]
    with pytest.raises(ValueError, match="Invalid parameter"):
        kernel.set_params(term4=Rest())
    for twin in (clone(kernel), copy.copy(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert twin == kernel
        assert repr(twin) == repr(kernel)
        np.testing.assert_allclose(twin.gram(X, 1), kernel.gram(X, 1), atol=1e-14)
    other = clone(kernel).set_params(term1=Rest())
    assert other != kernel


def test_repr_says_how_to_make_it():
    kernel = Matern(Own(0.5), Rest(), Output(), WEG())
    assert repr(kernel).startswith("Matern(Own(length=0.5), Rest(length='evidence'), Output(length='evidence'), WEG(")


def test_it_multiplies_and_adds_like_others():
    kernel = (Matern(Own(), Rest()) * RBF(2.0) + 0.5 * Matern(WEG())).fit(POINTS, X)
    assert kernel.varies_by_feature
    assert kernel.n_dims == 3
    expected = kernel.first_.first_.gram(X, 1) * RBF(2.0).fit().gram(X) + 0.5 * kernel.second_.kernel_.gram(X)
    np.testing.assert_allclose(kernel.gram(X, 1), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Matern().fit(), InputError, "Matern needs at least one distance"),
        (lambda: Matern(Own(), "rest").fit(None, Z), ParameterTypeError, "term1 must be a kernel"),
        (lambda: Own(-1.0).fit(None, Z), InputError, "length"),
        (lambda: Own("auto").fit(None, Z), InputError, "length"),
        (lambda: Own().fit(POINTS), InputError, r"Own\('evidence'\) needs rows"),
        (lambda: Output(1.0).fit(POINTS), InputError, "Output needs the model's outputs"),
        (lambda: Output().fit(None, Z), InputError, "These rows come without outputs"),
        (lambda: Between("weg").fit(POINTS, Z), ParameterTypeError, "kernel must be a kernel of gpec.kernels, got str"),
        (lambda: Own(1.0).fit().gram(Z), InputError, "say which"),
    ],
    ids=range(9),
)
def test_what_cannot_be_used(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_the_automatic_kernel_has_all_four_terms_and_few_for_many_features():
    small = make_kernel("auto", 2.0, 0.3)
    assert small == Matern(Own(), Rest(), Output(), WEG(2.0, 0.3))
    assert make_kernel("auto", n_attributions=200).varies_by_feature
    large = make_kernel("auto", n_attributions=201)
    assert large == Matern(Rest(), Output(), WEG())
    assert not large.varies_by_feature


@pytest.mark.parametrize("stored", [0, 2**22])
@pytest.mark.parametrize("name", TERMS)
def test_several_features_at_once(name, stored, monkeypatch):
    """With stored distances, also for copies with other lengths, and for kernels lacking a term."""
    monkeypatch.setattr("gpec.kernels.matern._STORED", stored)
    kernel, features = fitted(name), (2, 0)
    shorter = kernel.with_theta(kernel.theta - 0.5)
    distances = kernel.distances(X)
    names = kernel.terms_ if len(kernel.terms_) > 1 else ()
    others = [(kernel.without(name), distances and distances[:i] + distances[i + 1 :]) for i, name in enumerate(names)]
    W = np.random.default_rng(3).normal(size=(2, 25, 25))
    W = W + W.transpose(0, 2, 1)
    for one, known in ((kernel, None), (kernel, distances), (shorter, distances), *others, (kernel, distances)):
        K, pull = one.grams_pullback(X, features, known)
        alone = [one.grams_pullback(X, (feature,)) for feature in features]
        np.testing.assert_allclose(K, [matrix[0] for matrix, _ in alone], atol=1e-12)
        np.testing.assert_allclose(one.grams(X, features), K, atol=1e-6)
        expected = np.sum([pull_one(own[None]) for (_, pull_one), own in zip(alone, W, strict=True)], axis=0)
        np.testing.assert_allclose(pull(W), expected, rtol=1e-9, atol=1e-12)
