"""``calibrate``: what it costs, what it promises, and that it keeps it."""

import warnings

import numpy as np
import pytest

from gpec import GPEC
from gpec.errors import CalibrationWarning, ExplainerError, GPECError, InputError, NotFittedError
from gpec.kernels import Matern, Own, Rest
from small_models import CountingModel, curved, slopes_of_three, three_classes

KERNEL = Matern(Own(1.0), Rest(2.0))  # nothing to be learned: quick, and the same in every fit


def rows(n, seed):
    return np.random.default_rng(seed).normal(size=(n, 3))


def rough(X):
    """Attributions that no kernel of these lengths can follow everywhere."""
    X = np.asarray(X, dtype=float)
    return np.sin(3 * X) + 0.5 * np.sign(X[:, :1] * X[:, 1:2]) * X


@pytest.fixture
def build(make_auto):
    def made(model=curved, explainer=rough, **parameters):
        return make_auto(model, explainer, **{"kernel": KERNEL, **parameters})

    return made


def brute_force(g, X, level):
    """The conformal half-widths of the value, from the explainer and the posterior alone."""
    e = g.explain(X, attribution="posterior")
    scores = np.abs(g.explainer(X) - e.values) / e.std
    k = int(np.ceil((len(X) + 1) * level - 1e-9))
    return np.sort(scores, axis=0)[k - 1]


class TestScores:
    def test_the_value_has_the_conformal_quantile(self, build, X):
        fresh, new = rows(60, 1), rows(5, 2)
        g = build().fit(X).calibrate(fresh)
        for level in (0.8, 0.95):
            e = g.explain(new, attribution="posterior", confidence_level=level)
            np.testing.assert_allclose(e.upper - e.values, brute_force(g, fresh, level) * e.std, rtol=1e-6)
        assert "Checked on 60 rows not used in fitting" in e.statement()

    def test_similar_rows_have_the_quantile_of_one_similar_row_of_each(self, build, X):
        fresh, new = rows(60, 1), rows(5, 2)
        seen = []

        def explainer(rows):
            seen.append(np.array(rows))
            return rough(rows)

        g = build(explainer=explainer).fit(X)
        seen.clear()
        g.calibrate(fresh)
        explained = np.vstack(seen)
        assert len(explained) == 120  # each row, and one of its similar rows
        np.testing.assert_array_equal(explained[:60], fresh)
        near = g._fitted.similarity.rows(fresh)
        which = [(near[i] == explained[60 + i]).all(axis=1).argmax() for i in range(60)]
        assert all((near[i] == explained[60 + i]).all(axis=1).any() for i in range(60))
        assert len(set(which)) > 5  # drawn at random
        change, of_fresh = rough(explained[60:]) - rough(fresh), g.explain(fresh).rule
        scores = np.where(change < 0, -change / of_fresh.below, change / of_fresh.above)
        quantile = np.sort(scores, axis=0)[57]  # ceil(61 * 0.95)
        e = g.explain(new)
        np.testing.assert_allclose(e.upper - e.values, quantile * e.rule.above, rtol=1e-6)
        assert "Checked on 60 rows not used in fitting" in e.statement()

    def test_fit_alone_leaves_each_explained_row_out(self, build, X):
        g = build(draw="uniform").fit(X)
        left = g.posterior_.leave_one_out()
        scores = np.abs(left.residual) / np.sqrt(left.variance)
        e = g.explain(X[:4], attribution="posterior")
        quantile = np.sort(scores, axis=0)[int(np.ceil(26 * 0.95)) - 1]
        np.testing.assert_allclose(e.upper - e.values, quantile * e.std, rtol=1e-6)
        assert "Checked approximately, on 25 rows" in e.statement()

    def test_fit_alone_explains_one_similar_row_of_40(self, build, X):
        count = []

        def explainer(rows):
            count.append(len(rows))
            return rough(rows)

        g = build(explainer=explainer, n_explained=60, draw="uniform").fit(X)
        assert count == [60, 1, 40]  # one is asked again to see whether the explainer is repeatable
        assert "Checked approximately, on 40 rows" in g.explain(X[:2]).statement()
        assert "Checked approximately, on 60 rows" in g.explain(X[:2], attribution="posterior").statement()

    def test_uneven_draws_are_weighted(self, build, X):
        g = build(draw="output").fit(X)
        found = g._fitted.calibration
        np.testing.assert_array_equal(found.value.weights, g.explained_weights_)
        assert np.ptp(found.value.weights) > 0.1
        np.testing.assert_array_equal(found.similar.weights, g.explained_weights_[:40])

    def test_too_few_explained_rows_are_called_uncalibrated(self, build, X):
        e = build(n_explained=12, draw="uniform").fit(X).explain(X[:3])
        assert "Not checked at this level (uncalibrated): that needs 19 rows; there are 12." in e.statement()
        assert (e.upper > e.values).all()

    def test_given_attributions_of_fit(self, build, X):
        """There is no explainer to run on similar rows; the value can still be checked."""
        g = build(explainer=None).fit(X, X_explained=X[:30], attributions=rough(X[:30]))
        assert "Checked approximately" in g.explain(X[:3], attribution="posterior").statement()
        assert g._fitted.calibration.similar is None


class TestCoverage:
    """Marginal coverage over fits and rows, within what chance allows."""

    @pytest.mark.parametrize("attribution", ["explainer", "posterior"])
    def test_it_keeps_its_promise(self, build, X, attribution):
        g = build(n_explained=40).fit(X)
        covered, narrower = np.zeros(3), np.zeros(3)
        rng = np.random.default_rng(7)
        runs, each = 12, 60
        for run in range(runs):
            g.calibrate(rows(59, 100 + run))
            new = rows(each, 200 + run)
            e = g.explain(new, attribution=attribution, confidence_level=0.9)
            truth = rough(new)
            if attribution == "explainer":
                near = g._fitted.similarity.rows(new)
                truth = rough(near[np.arange(each), rng.integers(10, size=each)])
            covered += ((e.lower <= truth) & (truth <= e.upper)).sum(axis=0)
            narrower += (np.abs(truth - e.values) <= 0.35 * e.width).sum(axis=0)
        # calibration rows differ by run, so that coverage given them has the deviation of a beta distribution
        total = runs * each
        deviation = np.sqrt(0.9 * 0.1 / total + 0.9 * 0.1 / (61 * runs))
        assert (np.abs(covered / total - 0.9) < 4 * deviation).all()
        assert (narrower / total < 0.9 - 4 * deviation).all()  # seven tenths of the width would not do


class TestWhatChanges:
    def test_only_the_intervals(self, build, X):
        g = build().fit(X)
        before = g.explain(X[:5])
        assert g.calibrate(rows(40, 1)) is g
        after = g.explain(X[:5])
        for name in ("values", "variance", "model_variance", "noise_variance"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        assert (after.width != before.width).any()
        assert before.statement() != after.statement()

    def test_again_replaces_and_fit_forgets(self, build, X):
        g = build().fit(X).calibrate(rows(40, 1))
        first = g.explain(X[:5]).width
        g.calibrate(rows(60, 2))
        assert "on 60 rows" in g.explain(X[:5]).statement()
        g.calibrate(rows(40, 1))
        np.testing.assert_array_equal(g.explain(X[:5]).width, first)
        assert "Checked approximately" in g.fit(X).explain(X[:5]).statement()

    def test_files_keep_it(self, build, X, tmp_path):
        g = build().fit(X).calibrate(rows(40, 1))
        g.save(tmp_path / "g")
        loaded = GPEC.load(tmp_path / "g", model=curved, explainer=rough)
        for attribution in ("explainer", "posterior"):
            a, b = (each.explain(X[:5], attribution=attribution) for each in (g, loaded))
            assert a.statement() == b.statement()
            assert a.upper.tobytes() == b.upper.tobytes()
        loaded.calibrate(rows(30, 2))
        assert "on 30 rows" in loaded.explain(X[:5]).statement()

    def test_three_classes(self, build, X):
        g = build(three_classes, slopes_of_three).fit(X).calibrate(rows(30, 1))
        found = g._fitted.calibration
        assert found.similar.values.shape == found.value.values.shape == (30, 3, 3)
        for attribution in ("explainer", "posterior"):
            e = g.explain(X[:4], attribution=attribution)
            quantile = np.sort(found.of(attribution).values, axis=0)[29]  # ceil(31 * 0.95)
            size = e.std if attribution == "posterior" else e.rule.above
            np.testing.assert_allclose(e.upper - e.values, quantile * size, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(e[:, :, 1].upper, e.upper[:, :, 1], rtol=1e-12)

    def test_given_attributions_serve_the_value_only(self, build, X):
        fresh = rows(40, 1)
        model = CountingModel(curved)
        g = build(model).fit(X)
        similar = g.explain(X[:5])
        count = model.n_rows
        g.calibrate(fresh, attributions=rough(fresh))
        assert model.n_rows == count  # neither the explainer nor similar rows
        assert "Checked on 40 rows not used in fitting" in g.explain(X[:5], attribution="posterior").statement()
        after = g.explain(X[:5])
        assert after.statement() == similar.statement()  # what was known of similar rows stays
        np.testing.assert_array_equal(after.width, similar.width)
        whole = build().fit(X).calibrate(fresh).explain(X[:5], attribution="posterior")
        np.testing.assert_allclose(g.explain(X[:5], attribution="posterior").upper, whole.upper, rtol=1e-9)

    def test_without_an_explainer_attributions_must_be_given(self, build, X):
        g = build(explainer=None).fit(X, X_explained=X[:30], attributions=rough(X[:30]))
        with pytest.raises(InputError, match="There is no explainer"):
            g.calibrate(rows(30, 1))
        fresh = rows(30, 1)
        g.calibrate(fresh, attributions=rough(fresh))
        assert "Checked on 30 rows not used in fitting" in g.explain(X[:3], attribution="posterior").statement()

    def test_threads_do_not_matter(self, build, X):
        widths = [build(n_jobs=n).fit(X).calibrate(rows(40, 1)).explain(X[:5]).width for n in (None, 3)]
        np.testing.assert_allclose(*widths, rtol=1e-9)

    def test_constant_attributions(self, build, X):
        g = build(explainer=lambda X: np.full((len(X), 3), [0.5, 0.0, -0.1])).fit(X).calibrate(rows(30, 1))
        for attribution in ("explainer", "posterior"):
            e = g.explain(X[:4], attribution=attribution)
            np.testing.assert_allclose(e.values, np.tile([0.5, 0.0, -0.1], (4, 1)), atol=1e-12)
            assert (e.width < 1e-6).all()


class TestWrongUse:
    def test_before_fit(self, build, X):
        with pytest.raises(NotFittedError, match=r"not fitted yet; call fit\(X\) first"):
            build().calibrate(X)

    def test_rows_explained_in_fit_are_warned_of(self, build, X):
        g = build().fit(X)
        mixed = np.vstack((g.X_explained_[:7], rows(33, 1)))
        with pytest.warns(CalibrationWarning, match="7 of the 40 rows were explained in fit; .* needs fresh rows"):
            g.calibrate(mixed)
        for attribution in ("explainer", "posterior"):
            assert "Checked approximately" in g.explain(X[:3], attribution=attribution).statement()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            g.calibrate(rows(40, 1))

    @pytest.mark.parametrize("attribution", ["explainer", "posterior"])
    def test_too_few_rows_for_the_level(self, build, X, attribution):
        count = []

        def explainer(rows):
            count.append(len(rows))
            return rough(rows)

        g = build(explainer=explainer).fit(X).calibrate(rows(18, 1))
        count.clear()
        with pytest.raises(InputError, match=r"A level of 0\.95 needs at least 19 rows to calibrate with, got 18"):
            g.explain(X[:3], attribution=attribution)
        assert not count  # nothing was explained in vain
        e = g.explain(X[:3], attribution=attribution, confidence_level=0.9)
        assert "Checked on 18 rows not used in fitting" in e.statement()
        with pytest.raises(InputError, match=r"A level of 0\.99 needs at least 99 rows"):
            e.interval(0.99)
        assert g.calibrate(rows(19, 1)).explain(X[:3], attribution=attribution).upper.shape == (3, 3)

    def test_the_papers_intervals_cannot_be_calibrated(self, make, X):
        g = make().fit(X)
        with pytest.raises(InputError, match="similar=None gives the paper's intervals"):
            g.calibrate(rows(40, 1))
        assert g.explain(X[:3]).promise == "latent"

    @pytest.mark.parametrize(
        ("fresh", "attributions", "words"),
        [
            (np.zeros((0, 3)), None, "^X has 0 rows"),
            (np.zeros((30, 4)), None, "^X has 4 features, but 3 are expected"),
            (np.full((30, 3), np.inf), None, "^X is infinite in row 0"),
            ("rows", None, "^X must be a table of rows"),
            (None, None, "^X must be a table of rows"),
            (rows(30, 1), np.zeros((29, 3)), r"^attributions has shape \(29, 3\); expected \(30, 3\)"),
            (rows(30, 1), np.zeros((30, 4)), r"^attributions has shape \(30, 4\); expected \(30, 3\)"),
            (rows(30, 1), np.full((30, 3), np.nan), r"^attributions has nan at index \(0, 0\)"),
            (rows(30, 1), "attributions", "^attributions must be an array of real numbers"),
            (rows(30, 1), 1.0, r"^attributions has shape \(\); expected \(30, 3\)"),
        ],
        ids=range(10),
    )
    def test_input_that_cannot_be_used_leaves_all_as_it_was(self, build, X, fresh, attributions, words):
        g = build().fit(X).calibrate(rows(40, 1))
        before = g.explain(X[:3])
        with pytest.raises(GPECError, match=words):
            g.calibrate(fresh, attributions=attributions)
        after = g.explain(X[:3])
        assert after.statement() == before.statement()
        np.testing.assert_array_equal(after.upper, before.upper)

    def test_an_explainer_that_fails_leaves_all_as_it_was(self, build, X):
        calls = []

        def moody(rows):
            calls.append(1)
            return np.full((len(rows), 3), np.nan) if len(calls) == bad else rough(rows)

        bad = 0
        g = build(explainer=moody).fit(X).calibrate(rows(40, 1))
        before = g.explain(X[:3])
        for later in (1, 2):  # at the rows, and at their similar rows
            bad = len(calls) + later
            with pytest.raises(ExplainerError, match=r"^The explainer's answer has nan at row 0"):
                g.calibrate(rows(40, 2))
        bad = 0
        after = g.explain(X[:3])
        assert after.statement() == before.statement()
        np.testing.assert_array_equal(after.upper, before.upper)


def covered(g, X):
    """The share of similar rows, and of values, whose attributions lie inside, by feature."""
    e, p = g.explain(X), g.explain(X, attribution="posterior")
    others = g.explain(g.similar_rows(X)).values.reshape(len(X), -1, X.shape[1])
    similar = (e.lower[:, None] <= others) & (others <= e.upper[:, None])
    return similar.mean(axis=(0, 1)), ((p.lower <= e.values) & (e.values <= p.upper)).mean(axis=0)


SMALL = {"n_explained": 50, "n_boundary": 100, "background": 8, "random_state": 0, "progress": False}


@pytest.mark.parametrize(
    "f",
    [
        lambda X: 1 / X[:, 0] + X[:, 1] * X[:, 2],  # and one calibration row has 1e10
        lambda X: 1e10 * X[:, 0] + X[:, 1] * X[:, 2],
    ],
    ids=["one huge attribution", "one huge feature"],
)
def test_a_huge_attribution_hides_no_others(f):
    X, fresh = rows(500, 20), rows(150, 21)
    fresh[50, 0] = 1e-10
    g = GPEC(f, "exact", model_output="value", **SMALL).fit(X[:150]).calibrate(fresh)
    for found in covered(g, X[150:300]):
        assert (found > 0.88).all(), found


def test_features_that_the_model_does_not_use():
    """Their attributions are rounding, and so are their intervals, which hold; nobody calls their sign certain."""
    X = np.random.default_rng(22).normal(size=(400, 5))
    g = GPEC(lambda X: np.exp(3 * X[:, 0]) + X[:, 1] * X[:, 2], "exact", model_output="value", **SMALL)
    g.fit(X[:150]).calibrate(X[150:300])
    for found in covered(g, X[300:]):
        assert (found > 0.88).all(), found
    e = g.explain(X[300:])
    assert np.abs(e.values[:, 3:]).max() < 1e-12
    assert e.width[:, 3:].max() < 1e-10
    assert (e.firmness[:, 3:] == "unclear").mean() > 0.9


def test_rows_that_change_keep_their_width_where_most_do_not():
    """A single split: few similar rows lie on its other side. The quantile of all is 0."""
    X = np.random.default_rng(23).uniform(size=(700, 2))

    def model(X):
        return np.where(X[:, 0] > 0.9, 5.0, 0.0)

    g = GPEC(model, "exact", model_output="value", **SMALL).fit(X[:200])
    g.calibrate(X[200:400])
    assert g._fitted.calibration.similar.quantile(0.95)[0, 0] == pytest.approx(0.0, abs=1e-6)
    new = X[400:]
    e, others = g.explain(new), g.explain(g.similar_rows(new)).values.reshape(len(new), -1, 2)
    turned = np.ptp(others[:, :, 0], axis=1) > 1
    assert turned.sum() > 10
    assert (e.width[turned, 0] > 1).mean() > 0.8
    assert (e.sign_certainty[turned, 0] >= 0.975).mean() < 0.3
    assert np.median(e.width[~turned, 0]) < 0.5
