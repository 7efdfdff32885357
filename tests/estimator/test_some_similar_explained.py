"""Some similar rows of each row are explained, and the others are predicted from them."""

import numpy as np
import pytest
from scipy.stats import spearmanr

import gpec
from gpec import GPEC
from gpec.errors import InputError, ParameterTypeError
from gpec.kernels import Matern, Own, Rest

K, D = 10, 3


def curved(X):
    return 1 / (1 + np.exp(-np.sin(2 * X[:, 0]) - X[:, 1] * X[:, 2]))


def slopes(X):
    """Attributions of a curved function, which add up to nothing in particular."""
    return np.stack((np.sin(2 * X[:, 0]), X[:, 1] * np.abs(X[:, 2]), np.cos(X[:, 0] + X[:, 2])), axis=1)


def rows(n, seed):
    return np.random.default_rng(seed).normal(size=(n, D))


@pytest.fixture(scope="module")
def X():
    return rows(300, 0)


@pytest.fixture(scope="module")
def fitted(X):
    settings = {"kernel": "rbf", "standardize": False, "n_explained": 40, "random_state": 0, "progress": False}
    return GPEC(curved, slopes, **settings).fit(X)


def through_file(g, path, explainer=slopes):
    """The same fit again, which calibrate may change."""
    g.save(path)
    return GPEC.load(path, model=curved, explainer=explainer)


@pytest.fixture
def g(fitted, tmp_path):
    return through_file(fitted, tmp_path / "g")


def given(C, noise, known):
    """What the values at ``known`` points say of all points: weights, and the covariance that is left."""
    A = C[np.ix_(known, known)] + noise * np.eye(len(known))
    gain = np.linalg.solve(A, C[known]).T
    return gain, C - gain @ C[known]


def conditioned(g, row, m):
    """Mean and deviation of the attributions of similar rows, by the dense formula, and the rows explained."""
    points = np.vstack((row, g.similar_rows(row[None])))
    known, nugget = [0], g.posterior_.parameters.nugget
    for _ in range(m):
        left = np.diag(given(g.kernel_.gram(points), nugget.mean(), known)[1]).copy()
        left[known] = -1
        known.append(int(left.argmax()))
    mean, C = g.posterior_.predict(points).mean, np.moveaxis(g.posterior_.covariance(points), 2, 0)
    y, value, deviation = slopes(points), np.empty((D, K)), np.empty((D, K))
    for f, noise in enumerate(g.posterior_.scale * nugget):
        gain, left = given(C[f], noise, known)
        value[f] = (mean[:, f] + gain @ (y[known, f] - mean[known, f]))[1:]
        deviation[f] = np.sqrt(np.diag(left)[1:] + noise)
    return value - y[0][:, None], deviation, np.array(known[1:]) - 1, (y[1:] - y[0]).T


@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_others_are_predicted_by_the_dense_formula(g, m):
    new = rows(4, 1)
    e = g.explain(new, n_similar_explained=m)
    for i, row in enumerate(new):
        offset, deviation, chosen, truth = conditioned(g, row, m)
        np.testing.assert_array_equal(np.flatnonzero((e.rule.deviation[i] == 0).all(axis=0)), np.sort(chosen))
        others = np.setdiff1d(np.arange(K), chosen)
        np.testing.assert_allclose(e.rule.offset[i][:, others], offset[:, others], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(e.rule.deviation[i][:, others], deviation[:, others], rtol=1e-6)
        np.testing.assert_allclose(e.rule.offset[i][:, chosen], truth[:, chosen], rtol=1e-12, atol=1e-14)


def test_as_many_runs_of_the_explainer_as_asked_for(X):
    explained = []

    def counted(Z):
        explained.extend(np.array(Z))
        return slopes(Z)

    g = GPEC(curved, counted, kernel="rbf", n_explained=40, random_state=0, progress=False).fit(X)
    fresh, new = rows(25, 2), rows(6, 3)
    for m in (0, 3):
        cost = g.cost(fresh, n_similar_explained=m)["explainer_runs"]
        explained.clear()
        g.calibrate(fresh, n_similar_explained=m)
        assert len(explained) == cost["calibrate"] == 25 * (m + 2)
        explained.clear()
        g.explain(new)
        assert len(explained) == 6 * (m + 1)
        assert g.cost(fresh)["explainer_runs"]["explain"] == 25 * (m + 1)


def test_widths_follow_the_real_change_better_and_hold(g):
    fresh, new = rows(200, 4), rows(300, 5)
    changes = slopes(g.similar_rows(new)).reshape(-1, K, D) - slopes(new)[:, None]
    size, ranks = np.sqrt((changes**2).mean(axis=1)), []
    for m in (0, 1, 3):
        g.calibrate(fresh, n_similar_explained=m)
        e = g.explain(new)
        assert "Checked on 200 rows not used in fitting" in e.statement()
        inside = (e.lower[:, None] <= e.values[:, None] + changes) & (e.values[:, None] + changes <= e.upper[:, None])
        assert inside.mean() == pytest.approx(0.95, abs=0.02)
        ranks.append(np.mean([spearmanr(e.width[:, f], size[:, f])[0] for f in range(D)]))
    assert (np.diff(ranks) > 0).all()
    assert 1 - ranks[2] < 0.6 * (1 - ranks[0])


def test_all_of_them_are_exact_as_in_mode_explain(g, X):
    new = rows(5, 6)
    e = g.calibrate(rows(30, 7)).explain(new, n_similar_explained=K)
    exact = GPEC(curved, slopes, mode="explain", random_state=0, progress=False).fit(X).explain(new)
    np.testing.assert_array_equal(e.lower, exact.lower)
    np.testing.assert_array_equal(e.upper, exact.upper)
    said, expected = (one.statement().split(" Similar means")[0] for one in (e, exact))
    assert said == expected
    assert e.similar_values.shape == (5, K, D)


def test_without_calibration_it_says_so(g):
    e = g.explain(rows(3, 8), n_similar_explained=2)
    assert "Not checked" in e.statement()
    assert ((e.lower <= e.values) & (e.values <= e.upper)).all()


def test_a_batch_equals_row_by_row_and_files_keep_it(g, tmp_path):
    new = rows(7, 9)
    e = g.calibrate(rows(40, 10), n_similar_explained=3).explain(new)
    loaded = through_file(g, tmp_path / "again").explain(new)
    for name in ("lower", "upper", "variance", "noise_variance"):
        assert getattr(loaded, name).tobytes() == getattr(e, name).tobytes()
        one = np.vstack([getattr(g.explain(row[None]), name) for row in new])
        np.testing.assert_allclose(one, getattr(e, name), rtol=1e-10, atol=1e-14)
    e.save(tmp_path / "e")
    assert gpec.Explanation.load(tmp_path / "e").upper.tobytes() == e.upper.tobytes()
    again = g.explain(new, checkpoint=tmp_path / "kept")
    resumed = g.explain(new, checkpoint=tmp_path / "kept")
    assert resumed.upper.tobytes() == again.upper.tobytes() == e.upper.tobytes()


def test_a_feature_that_the_model_never_uses_does_not_decide(X):
    def two_of_three(Z):
        return slopes(Z) * [1.0, 1.0, 0.0]

    kernel = Matern(Own(), Rest())
    g = GPEC(curved, two_of_three, kernel=kernel, n_explained=40, random_state=0, progress=False).fit(X)
    g.calibrate(rows(40, 11), n_similar_explained=2)
    chosen = (g.explain(rows(60, 12)).rule.deviation[:, 0] == 0).argmax(axis=1)
    assert len(set(chosen.tolist())) > 3  # not the first row each time
    assert (g.explain(rows(4, 13)).width[:, 2] < 1e-6).all()


def test_equal_similar_rows_are_known_together(X):

    def two_equal(Z):
        return np.stack((Z + 0.1, Z + 0.1, Z - 0.2), axis=1)

    g = GPEC(curved, slopes, kernel="rbf", similar=two_equal, n_explained=40, random_state=0, progress=False).fit(X)
    e = g.explain(rows(5, 14), n_similar_explained=2)
    assert (e.rule.deviation == 0).all()


class TestRefused:
    def test_another_number_than_calibrated(self, g):
        g.calibrate(rows(30, 15), n_similar_explained=2)
        with pytest.raises(InputError, match="calibrated with 2; leave it out, or call calibrate"):
            g.explain(rows(2, 16), n_similar_explained=1)

    @pytest.mark.parametrize("number", [-1, 1.5, True, "3"])
    def test_no_number(self, g, number):
        for call in (g.calibrate, g.explain, g.cost):
            with pytest.raises((InputError, ParameterTypeError), match="n_similar_explained="):
                call(rows(30, 17), n_similar_explained=number)

    def test_all_of_them_in_calibrate(self, g):
        with pytest.raises(InputError, match="explains all 10 similar rows of each row, which needs no calibration"):
            g.calibrate(rows(30, 18), n_similar_explained=K)

    def test_with_given_attributions(self, g):
        fresh = rows(30, 23)
        with pytest.raises(InputError, match="calibrate the value only; leave one of the two out"):
            g.calibrate(fresh, attributions=slopes(fresh), n_similar_explained=1)

    def test_the_value(self, g):
        with pytest.raises(InputError, match="is for intervals about similar rows"):
            g.explain(rows(2, 19), attribution="posterior", n_similar_explained=2)

    def test_mode_explain(self, X):
        g = GPEC(curved, slopes, mode="explain", random_state=0, progress=False).fit(X)
        with pytest.raises(InputError, match="mode='explain' explains all 10 similar rows"):
            g.explain(X[:2], n_similar_explained=3)
        assert g.explain(X[:2], n_similar_explained=K).similar_values is not None


def test_attributions_that_are_zero_for_certain_are_not_uncertain():
    """A feature that has one value in all background rows adds nothing in rows with the same value."""
    X = rows(120, 20)
    X[:, 2] = X[:, 2] > 1
    background = np.column_stack((X[:8, :2], np.zeros(8)))
    g = GPEC(curved, "exact", mode="predict", background=background, n_explained=40, random_state=0, progress=False)
    e = g.fit(X).explain(X[:30])
    similar = g.similar_rows(X[:30]).reshape(30, -1, D)
    zero = similar[:, :, 2] == 0
    assert zero.any()
    assert not zero.all()
    assert (e.rule.deviation[:, 2] == 0)[zero].all()
    known = np.broadcast_to(e.values[:, 2, None], zero.shape)
    np.testing.assert_array_equal(e.rule.offset[:, 2][zero], -known[zero])
    assert (e.rule.deviation[:, 2] > 0)[~zero & (similar != X[:30, None]).any(axis=2)].all()
    assert (e.rule.deviation[:, :2] > 0).any()
    total = curved(similar.reshape(-1, D)).reshape(30, -1) - e.base_values[:, None]
    np.testing.assert_allclose((e.values[..., None] + e.rule.offset).sum(axis=1), total, atol=1e-9)


def test_rows_of_dask_are_explained_as_calibrated(g):
    dask_array = pytest.importorskip("dask.array")
    new = rows(6, 21)
    e = g.calibrate(rows(40, 22), n_similar_explained=2).explain(new)
    lazy = dask_array.from_array(new, chunks=(3, D))
    frame = g.explain(lazy).compute()
    np.testing.assert_allclose(frame["upper"].to_numpy().reshape(6, D), e.upper, rtol=1e-10)
    with pytest.raises(InputError, match="for Dask it is that of calibrate"):
        g.explain(lazy, n_similar_explained=2)
