"""``calibrate(X, n=, groups=)``: rows drawn for each group, and the widest interval of a row's groups."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import beta

import gpec
from gpec.errors import InputError
from gpec.kernels import Matern, Own, Rest

KERNEL = Matern(Own(1.0), Rest(2.0))  # nothing to be learned: quick, and the same in every fit
FEW = 59  # rows that are drawn of each group


def table(n, seed, odd=0.05):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 2))
    kind = np.where(rng.random(n) < odd, "odd", "even")
    return pd.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "kind": kind})


def risk(X):
    return expit(2 * np.asarray(X["a"], float) - np.asarray(X["b"], float) - 1)


def amount(X):
    return 2 * np.asarray(X["a"], float) - np.asarray(X["b"], float)


def of_three(X):
    scores = np.exp(np.column_stack((X["a"], X["b"], 0.3 * X["a"] - X["b"])).astype(float))
    return scores / scores.sum(axis=1, keepdims=True)


def rough(X):
    """Attributions that are three times as rough in one group."""
    Z = np.asarray(X[["a", "b"]], dtype=float)
    values = np.column_stack((np.sin(2 * Z), Z[:, 0] + 0.5 * np.sign(Z[:, 1])))
    return values * np.where(X["kind"] == "odd", 3.0, 1.0)[:, None]


def rough_of_three(X):
    return np.stack([rough(X), -rough(X), rough(X) ** 2], axis=-1)


def fitted(model=risk, explainer=rough, **settings):
    settings = {"n_explained": 40, "background": 10, "random_state": 0, **settings}
    return gpec.GPEC(model, explainer, mode="predict", kernel=KERNEL, **settings).fit(table(300, 0))


@pytest.fixture(scope="module")
def g():
    return fitted()


@pytest.fixture(scope="module")
def pool():
    return table(3_000, 1)


def line(g, group):
    return g.calibration_.set_index("group").loc[group]


def value_scores(g, X):
    e = g.explain(X, attribution="posterior", groups=None)
    return np.abs(rough(X) - e.values) / e.std


class TestQuantiles:
    def test_each_group_has_its_own_and_a_row_takes_the_widest(self, pool):
        g = fitted()
        X = pool[:800]
        g.calibrate(X)
        scores, new = value_scores(g, X), table(200, 2)
        g.calibrate(X, groups="kind")
        classes = (risk(X) > 0.5).astype(int)
        groups = [(classes == k, (risk(new) > 0.5).astype(int) == k) for k in (0, 1)]
        groups += [((X["kind"] == k).to_numpy(), (new["kind"] == k).to_numpy()) for k in ("even", "odd")]
        widest = np.zeros((len(new), 3))
        for of_pool, of_new in groups:  # the tails have 16 rows, too few
            n = of_pool.sum()
            quantile = np.sort(scores[of_pool], axis=0)[int(np.ceil((n + 1) * 0.95 - 1e-9)) - 1]
            widest = np.maximum(widest, np.where(of_new[:, None], quantile, 0))
        e = g.explain(new, attribution="posterior")
        np.testing.assert_allclose(e.upper - e.values, widest * e.std, rtol=1e-9)
        assert g.calibration_["group"].tolist() == [
            "all rows", "predicted 0", "predicted 1", "kind = even", "kind = odd",
        ]  # fmt: skip
        assert line(g, "kind = odd")["rows"] == (X["kind"] == "odd").sum()

    def test_what_was_drawn_for_one_group_does_not_count_in_another(self, g, pool):
        """All rows are calibrated by a simple random sample, though half of the rows drawn are of a rare group."""
        g.calibrate(pool, n=320, groups="kind")
        scores = g._fitted.calibration.value
        drawn = scores.drawn[:, 0]
        names = [group.name for group in scores.groups]
        odd = scores.drawn[:, names.index("kind = odd")]
        assert odd.sum() == FEW
        assert (drawn & odd).sum() < 15  # as often as among all rows, 5%
        assert len(drawn) <= 320

    def test_without_both_nothing_changes(self, g, pool):
        plain = g.calibrate(pool[:100]).explain(pool[200:220])
        assert g.calibration_.to_dict("records") == [
            {"group": "all rows", "rows": 100, "rows_in_pool": 100, "holds": pytest.approx(beta.ppf(0.1, 96, 5))}
        ]
        quantile = np.sort(g._fitted.calibration.similar.values[:, :, 0], axis=0)[95]
        np.testing.assert_array_equal(plain.rule.multiple(0.95), np.maximum(quantile, plain.rule.multiple(0.95)))
        assert "100 rows not used in fitting; holds" in plain.statement()
        assert "With 90% certainty, these rows give at least 92.2%." in plain.statement()

    def test_masks_may_overlap_and_all_must_be_known_later(self, g, pool):
        masks = {"high a": (pool["a"] > 0.5).to_numpy(), "high b": (pool["b"] > 0.5).to_numpy()}
        g.calibrate(pool, n=400, groups=masks)
        new = table(50, 3)
        of_new = {"high a": (new["a"] > 0.5).to_numpy(), "high b": (new["b"] > 0.5).to_numpy()}
        both, only_a = (g.explain(new, groups={**of_new, **other}) for other in ({}, {"high b": np.zeros(50, bool)}))
        assert (both.width >= only_a.width).all()
        assert (both.width > only_a.width)[of_new["high b"]].any()
        np.testing.assert_array_equal(both.width[~of_new["high b"]], only_a.width[~of_new["high b"]])

    def test_labels_equal_the_column(self, g, pool):
        new = table(40, 4)
        e = g.calibrate(pool, n=300, groups="kind").explain(new)
        again = g.calibrate(pool, n=300, groups=pool["kind"].to_numpy()).explain(new, groups=new["kind"])
        np.testing.assert_array_equal(again.upper, e.upper)

    def test_row_by_row_equals_all_at_once(self, g, pool):
        new = table(12, 5)
        e = g.calibrate(pool, n=300, groups=["kind"]).explain(new)
        for i in range(len(new)):
            np.testing.assert_allclose(g.explain(new[i : i + 1]).upper[0], e.upper[i], rtol=1e-9)
            np.testing.assert_array_equal(e[i].upper, e.upper[i])
        np.testing.assert_array_equal(e[3:7, "b"].upper, e.upper[3:7, 1])
        np.testing.assert_array_equal(e[2:5, ["a", "kind"]].lower, e.lower[2:5][:, [0, 2]])


class TestDraws:
    def test_they_depend_on_the_content_and_the_seed_alone(self, g, pool):
        first = g.calibrate(pool, n=200, groups="kind").explain(pool[:5]).upper
        mixed = pool.sample(frac=1, random_state=3)
        np.testing.assert_allclose(g.calibrate(mixed, n=200, groups="kind").explain(pool[:5]).upper, first, rtol=1e-9)
        other = fitted(random_state=1).calibrate(pool, n=200, groups="kind")
        rows = [set(one._fitted.calibration.value.scores.values[:, 0, 0].round(9)) for one in (g, other)]
        assert rows[0] != rows[1]

    @pytest.mark.parametrize(("n", "each"), [(120, 19), (200, 39), (240, 59)])
    def test_groups_get_as_many_as_fit_in(self, g, pool, n, each):
        found = g.calibrate(pool, n=n).calibration_
        assert found["rows"].iloc[1:].tolist() == [each] * 4
        assert found["rows"].iloc[0] >= each
        assert (found["rows"] % 20 == 19).all()
        assert len(g._fitted.calibration.value) <= n

    def test_the_explainer_runs_for_drawn_rows_only(self, pool):
        seen = []

        def explainer(X):
            seen.append(len(X))
            return rough(X)

        g = fitted(explainer=explainer)
        seen.clear()
        g.calibrate(pool, n=150)
        assert sum(seen) == 2 * len(g._fitted.calibration.value) <= 300

    def test_given_attributions(self, g, pool):
        whole = g.calibrate(pool, n=200).explain(pool[:9], attribution="posterior")
        given = g.calibrate(pool, n=200, attributions=rough(pool)).explain(pool[:9], attribution="posterior")
        np.testing.assert_allclose(given.upper, whole.upper, rtol=1e-9)


class TestKinds:
    def test_a_regressor_has_tails(self, pool):
        g = fitted(amount, model_output="value").calibrate(pool, n=240)
        assert g.calibration_["group"].tolist() == [
            "all rows", "lowest 2% of answers", "highest 2% of answers", "other answers",
        ]  # fmt: skip
        tails = g._fitted.calibration.similar.groups
        assert tails[2].value == np.sort(amount(pool))[-60]
        assert g.explain(pool[:5]).upper.shape == (5, 3)

    def test_several_classes_and_some_similar_explained(self, pool):
        g = fitted(of_three, rough_of_three).calibrate(pool, n=200, groups="kind", n_similar_explained=2)
        e = g.explain(pool[:6])
        assert e.upper.shape == (6, 3, 3)
        assert g.calibration_["group"].tolist()[1:4] == ["predicted 0", "predicted 1", "predicted 2"]
        np.testing.assert_array_equal(e[:, :, 1].upper, e.upper[:, :, 1])
        np.testing.assert_array_equal(e[2, "b"].upper, e.upper[2, 1])

    def test_files(self, g, pool, tmp_path):
        g.calibrate(pool, n=200, groups="kind")
        g.save(tmp_path / "g")
        loaded = gpec.GPEC.load(tmp_path / "g", model=risk, explainer=rough)
        pd.testing.assert_frame_equal(loaded.calibration_, g.calibration_)
        for attribution in ("explainer", "posterior"):
            e, again = (one.explain(pool[:9], attribution=attribution) for one in (g, loaded))
            assert again.upper.tobytes() == e.upper.tobytes()
            assert again.statement() == e.statement()
        e.save(tmp_path / "e")
        kept = gpec.Explanation.load(tmp_path / "e")
        assert kept[2:5].upper.tobytes() == e.upper[2:5].tobytes()
        assert "at least 39 of them from each of these groups: predicted 0" in kept.statement()

    def test_a_budget_and_a_checkpoint(self, pool, tmp_path):
        g = fitted(explainer="kernelshap", budget=400_000)
        plain = fitted(explainer="kernelshap", budget=400_000).calibrate(pool[:1000], n=110)
        for _ in range(2):  # the second time everything is there
            g = g.calibrate(pool[:1000], n=110, checkpoint=tmp_path / "c")
            np.testing.assert_array_equal(g.explain(pool[:3]).upper, plain.explain(pool[:3]).upper)
        assert plain.diagnostics_["spent"] <= 400_000


class TestWrongUse:
    def test_before_calibrate(self):
        with pytest.raises(AttributeError, match=r"no calibration_; call calibrate\(X\) with rows"):
            _ = fitted().calibration_

    @pytest.mark.parametrize(
        ("n", "groups", "words"),
        [
            (0, None, "^n=0 must be at least 1"),
            (60, "kind", "^n=60 is too small: 19 rows of each of 7 groups, which 95% needs, are [0-9]+ rows"),
            (200, "colour", "^groups='colour' is not a column of X, which has 'a', 'b', 'kind'"),
            (200, "a", "^groups='a' is a column of 3000 different numbers; pass masks"),
            (200, ["odd", "even"], r"^groups is 2 labels, but must be one label for each of the 3000 rows"),
            (200, {}, "^groups={} names no group"),
            (200, {"all": np.ones(3)}, r"^groups\['all'\] is float64 of shape \(3,\); it must be a boolean mask"),
            (200, {"few": np.arange(3_000) < 10}, "^9 more rows of 'few' are needed for 95%; pass a larger X"),
            (200, {"few": np.arange(3_000) < 18}, "^1 more row of 'few' is needed for 95%"),
            (200, {"none": np.zeros(3_000, bool)}, "^19 more rows of 'none' are needed"),
            (200, {"predicted 1": np.ones(3_000, bool)}, "^Two groups have the name 'predicted 1'"),
        ],
    )
    def test_calibrate(self, g, pool, n, groups, words):
        with pytest.raises(InputError, match=words):
            g.calibrate(pool, n=n, groups=groups)

    def test_copies_count_once(self, g):
        copies = pd.concat([table(10, 1)] * 30)
        with pytest.raises(InputError, match="more rows of 'mine' are needed"):
            g.calibrate(copies, groups={"mine": np.ones(300, dtype=bool)})

    def test_explain(self, g, pool):
        new = pool[:5]
        g.calibrate(pool, n=200, groups={"high": (pool["a"] > 0).to_numpy()})
        with pytest.raises(InputError, match=r"groups of its own rows \('high'\); pass groups= with those of these"):
            g.explain(new)
        with pytest.raises(InputError, match="groups has no mask for 'high'"):
            g.explain(new, groups={"low": np.ones(5, dtype=bool)})
        g.calibrate(pool, n=200)
        with pytest.raises(InputError, match="groups= is for intervals calibrated with labels or masks"):
            g.explain(new, groups=new["kind"])

    def test_a_level_with_too_few_rows_names_the_group(self, g, pool):
        g.calibrate(pool, n=200)
        with pytest.raises(InputError, match=r"A level of 0\.99 needs at least 99 rows of 'predicted 0' .*, got 39"):
            g.explain(pool[:5], confidence_level=0.99)


@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
def test_a_rare_group_of_another_kind_is_covered(attribution):
    """5% of the rows are three times as rough; 59 of them are drawn. One quantile for all rows covers fewer."""
    g, new = fitted(), table(500, 9, odd=1.0)
    truth, covered = rough(new)[:, None], {"drawn": [], "plain": []}
    if attribution == "explainer":
        truth = rough(g.similar_rows(new)).reshape(len(new), 10, 3)
    for run in range(15):
        pool = table(1_500, 100 + run)
        for name, options in (("drawn", {"n": 300, "groups": "kind"}), ("plain", {})):
            e = g.calibrate(pool if options else pool[:300], **options).explain(new, attribution=attribution)
            inside = (e.lower[:, None] <= truth) & (truth <= e.upper[:, None])
            covered[name].append(inside[:, :, :2].mean())
    assert abs(np.mean(covered["drawn"]) - 0.95) < 0.02
    assert np.mean(covered["plain"]) < 0.9
