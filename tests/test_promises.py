"""Interval rules: the paper's, those that can be checked, and one of one's own, from bounds to files."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from archive_helpers import through_file
from check_all import check_all
from explanation_helpers import CLASSES, NAMES, explanation
from gpec import Explanation
from gpec.errors import InputError
from gpec.intervals.conformal import ConformityScores
from gpec.intervals.rules import IntervalRule, Latent, SimilarRows, Value, mixture_quantile, squares_by_side
from gpec.typing import FloatArray


@dataclass
class Widths(IntervalRule):
    """Half-widths that were found elsewhere, one for each attribution, at any level."""

    promise = "widths of a test"

    half: FloatArray

    def bounds(self, values, std, level):
        return values - level * self.half, values + level * self.half

    def select(self, cut):
        return Widths(np.asarray(self.half[cut]))


@pytest.fixture(params=[None, 4], ids=["two classes", "several classes"])
def wide(request):
    """An explanation with a rule of one's own."""
    shape = (5, 3) if request.param is None else (5, 3, 4)
    return explanation(classes=request.param, rule=Widths(np.random.default_rng(1).random(shape)))


def test_the_default_is_the_papers():
    e = explanation()
    assert e.promise == "latent"
    assert isinstance(e.rule, Latent)
    z = norm.ppf(0.975)
    np.testing.assert_allclose(e.lower, e.values - z * e.std, rtol=1e-12)
    np.testing.assert_allclose(e.upper, e.values + z * e.std, rtol=1e-12)


def test_a_fitted_gpec_promises_the_papers(make, X, tmp_path):
    e = make().fit(X).explain(X[:2])
    assert e.promise == "latent"
    e.save(tmp_path / "e")
    assert Explanation.load(tmp_path / "e").promise == "latent"


def test_rule_of_ones_own(wide):
    assert wide.promise == "widths of a test"
    half = wide.rule.half
    for level in (0.5, 0.95):
        lower, upper = wide.interval(level)
        np.testing.assert_array_equal(lower, wide.values - level * half)
        np.testing.assert_array_equal(upper, wide.values + level * half)
    np.testing.assert_array_equal(wide.lower, wide.values - 0.95 * half)
    np.testing.assert_allclose(wide.width, 2 * 0.95 * half)


SELECTIONS = {
    "row": (np.s_[2], np.s_[2]),
    "rows": (np.s_[[3, 1, 1]], np.s_[[3, 1, 1]]),
    "mask": (np.array([True, False, True, False, False]), np.s_[[0, 2]]),
    "feature": (np.s_[:, "bmi"], np.s_[:, 1]),
    "features": (np.s_[1:, ["dose", "age"]], np.s_[1:, [2, 0]]),
    "row and feature": (np.s_[4, "dose"], np.s_[4, 2]),
    "nothing": (np.s_[[]], np.s_[[]]),
}


@pytest.mark.parametrize("case", SELECTIONS)
def test_rule_follows_the_selection(wide, case):
    key, expected = SELECTIONS[case]
    part = wide[key]
    np.testing.assert_array_equal(part.rule.half, wide.rule.half[expected])
    for name in ("lower", "upper", "width"):
        np.testing.assert_array_equal(getattr(part, name), getattr(wide, name)[expected])


def test_rule_follows_the_outputs():
    half = np.random.default_rng(1).random((5, 3, 4))
    part = explanation(classes=4, rule=Widths(half))[[3, 0], "age", CLASSES[2]]
    np.testing.assert_array_equal(part.rule.half, half[[3, 0], 0, 2])
    np.testing.assert_array_equal(part.upper, part.values + 0.95 * half[[3, 0], 0, 2])


@pytest.mark.parametrize("key", [np.s_[...], np.s_[1:, "bmi"], np.s_[2]])
def test_rule_comes_back_from_a_file(wide, tmp_path, key):
    part = wide[key]
    part.save(tmp_path / "e")
    loaded = Explanation.load(tmp_path / "e")
    assert loaded.promise == "widths of a test"
    assert isinstance(loaded.rule, Widths)
    for name in ("lower", "upper"):
        assert getattr(loaded, name).tobytes() == getattr(part, name).tobytes()


def test_rule_reaches_frames_and_shap(wide):
    frame, s = wide.to_frame(), wide.to_shap()
    np.testing.assert_array_equal(frame["upper"], wide.upper.ravel())
    np.testing.assert_array_equal(s.lower_bounds, wide.lower)
    assert set(frame["feature"]) == set(NAMES)


def test_refined_rule_does_not_take_the_place_of_the_one_it_refines(tmp_path):
    """A class without a promise of its own is not what a file of that promise holds."""

    class Doubled(Latent):
        def bounds(self, values, std, level):
            return super().bounds(values, 2 * std, level)

    e = explanation()
    e.save(tmp_path / "e")
    loaded = Explanation.load(tmp_path / "e")
    assert type(loaded.rule) is Latent
    np.testing.assert_array_equal(loaded.upper, e.upper)
    doubled = explanation(rule=Doubled())
    np.testing.assert_allclose(doubled.width, 2 * e.width)
    with pytest.raises(InputError, match="Doubled has no kind of its own"):
        doubled.save(tmp_path / "doubled")
    assert not (tmp_path / "doubled").exists()


def test_rule_must_say_how_bounds_are_made():
    class Empty(IntervalRule):
        promise = "nothing, in a test"

    with pytest.raises(TypeError, match="abstract"):
        Empty()


def test_base_of_several_rules_needs_no_promise():
    class Symmetric(IntervalRule):
        def bounds(self, values, std, level):
            half = self.half(level) * std
            return values - half, values + half

    class One(Symmetric):
        promise = "one deviation, in a test"

        def half(self, level):
            return 1.0

    e = explanation(rule=One())
    np.testing.assert_array_equal(e.upper, e.values + e.std)
    assert isinstance(through_file(IntervalRule, One()), One)


# The two promises that can be checked


K = 6


def scores(shape, n=60, fresh=True, seed=3):
    return ConformityScores(np.random.default_rng(seed).gamma(2.0, size=(n, *shape)), np.ones(n), fresh)


def mixture(shape, seed=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(*shape, K)), rng.uniform(0.1, 1.5, size=(*shape, K))


def similar(classes=None, of=None, **changes):
    """An explanation that promises for similar rows; variances are the expected squared change."""
    shape = (5, 3) if classes is None else (5, 3, classes)
    offset, deviation = mixture(shape)
    rule = SimilarRows(offset, deviation, of, "a test row")
    square = (offset**2 + deviation**2).mean(axis=-1)
    return explanation(
        classes=classes, rule=rule, model_variance=0.75 * square, noise_variance=0.25 * square, **changes
    )


CHECKED = {
    "uncalibrated": lambda shape: None,
    "approximate": lambda shape: scores(shape, fresh=False),
    "calibrated": lambda shape: scores(shape),
    "too few": lambda shape: scores(shape, n=12, fresh=False),
}


@pytest.fixture(params=[None, 4], ids=["two classes", "several classes"])
def classes(request):
    return request.param


@pytest.fixture(params=CHECKED)
def checked(request, classes):
    """Explanations of both promises in each state."""
    shape = (3,) if classes is None else (3, classes)
    found = CHECKED[request.param](shape)
    return {"similar rows": similar(classes, found), "value": explanation(classes=classes, rule=Value(found))}


@pytest.mark.parametrize("promise", ["similar rows", "value"])
class TestChecked:
    def test_values_lie_inside_and_higher_levels_are_wider(self, checked, promise):
        e = checked[promise]
        assert e.promise == promise
        widths = []
        for level in (0.3, 0.6, 0.8, 0.9, 0.92, 0.95, 0.98):
            lower, upper = e.interval(level)
            assert (lower <= e.values).all()
            assert (e.values <= upper).all()
            widths.append(upper - lower)
        assert (np.diff(widths, axis=0) >= -1e-12).all()
        assert (widths[-1] > widths[0]).all()

    def test_selections_have_the_same_bounds(self, checked, promise, tmp_path):
        e = checked[promise]

        def check(case):
            key, expected = case
            part = e[key]
            for level in (0.6, 0.95):
                for found, whole in zip(part.interval(level), e.interval(level), strict=True):
                    np.testing.assert_allclose(found, whole[expected], rtol=1e-12)
            np.testing.assert_allclose(part.sign_certainty, e.sign_certainty[expected], rtol=1e-9)
            assert part.statement() == e.statement()
            part.save(tmp_path / "e")
            loaded = Explanation.load(tmp_path / "e")
            assert loaded.promise == promise
            assert loaded.statement(0.9) == e.statement(0.9)
            for name in ("lower", "upper", "sign_certainty"):
                assert getattr(loaded, name).tobytes() == getattr(part, name).tobytes()

        check_all(SELECTIONS.items(), check)

    def test_steps_of_a_selection_may_come_in_any_order(self, checked, promise):
        e = checked[promise]
        np.testing.assert_allclose(e[2]["bmi"].upper, e[:, "bmi"][2].upper, rtol=1e-12)
        np.testing.assert_allclose(e[1:][:, 1:][0].upper, e[1, 1:].upper, rtol=1e-12)

    def test_outputs(self, promise):
        e = (
            similar(4, scores((3, 4)))
            if promise == "similar rows"
            else explanation(classes=4, rule=Value(scores((3, 4))))
        )
        for key, place in (
            (np.s_[:, :, "virginica"], np.s_[:, :, 2]),
            (np.s_[2, :, ["other", "setosa"]], np.s_[2, :, [3, 0]]),
            (np.s_[[3, 0], "age", "virginica"], np.s_[[3, 0], 0, 2]),
            (np.s_[1, "age", 3], np.s_[1, 0, 3]),
        ):
            expected = e.upper[place]
            if place == np.s_[2, :, [3, 0]]:
                expected = e.upper[2][:, [3, 0]]
            np.testing.assert_allclose(e[key].upper, expected, rtol=1e-12)


def test_calibrated_half_widths_are_quantiles_times_deviations():
    found = scores((3,))
    of_similar, of_value = similar(of=found), explanation(rule=Value(found))
    sizes = {of_similar: (of_similar.rule.below, of_similar.rule.above), of_value: (of_value.std, of_value.std)}
    for e, (below, above) in sizes.items():
        for level, rank in ((0.95, 58), (0.5, 31)):
            quantile = np.sort(found.values, axis=0)[rank - 1]  # ceil(61 level)
            np.testing.assert_allclose(e.values - e.interval(level)[0], quantile * below, rtol=1e-12)
            np.testing.assert_allclose(e.interval(level)[1] - e.values, quantile * above, rtol=1e-12)


def test_half_widths_differ_by_side_and_have_the_expected_square():
    offset, deviation = mixture((4, 3))
    deviation[0, 0, :2] = 0.0  # known
    drawn = offset + deviation * np.random.default_rng(0).normal(size=(200_000, 1, 1, 1))
    below, above = (np.minimum(drawn, 0.0) ** 2).mean(axis=0), (np.maximum(drawn, 0.0) ** 2).mean(axis=0)
    for found, expected in zip(squares_by_side(offset, deviation), (below, above), strict=True):
        np.testing.assert_allclose(found, expected, atol=0.02)
    rule = SimilarRows(offset, deviation, None, "a test row")
    expected = (offset**2 + deviation**2).mean(axis=-1)
    np.testing.assert_allclose((rule.below**2 + rule.above**2) / 2, expected, rtol=1e-12)
    upwards = SimilarRows(np.abs(offset), 0 * deviation, None, "a test row")
    np.testing.assert_allclose(upwards.above / upwards.below, np.sqrt(7.0), rtol=1e-12)  # 3/4 of the square by side
    even = SimilarRows(0 * offset, deviation, None, "a test row")
    np.testing.assert_allclose(even.above, even.below, rtol=1e-12)


def test_uncalibrated_value_is_normal():
    e = explanation(rule=Value(None))
    np.testing.assert_allclose(e.upper, e.values + norm.ppf(0.975) * e.std, rtol=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_mixture_quantile_against_draws(level):
    offset, deviation = mixture((4, 2))
    deviation[0, 0, :3] = 0.0  # rows whose attribution is known
    found = mixture_quantile(offset, deviation, level)
    z = np.random.default_rng(0).normal(size=(200_000, 1, 1, 1))
    which = np.random.default_rng(1).integers(K, size=200_000)
    for i, j in np.ndindex(4, 2):
        drawn = np.abs(offset[i, j][which] + deviation[i, j][which] * z[:, 0, 0, 0])
        assert (drawn <= found[i, j] * (1 + 1e-9)).mean() == pytest.approx(level, abs=0.004) or deviation[
            i, j
        ].min() == 0
        assert np.quantile(drawn, level) == pytest.approx(found[i, j], rel=0.03)


def test_mixture_quantile_in_closed_form():
    one = mixture_quantile(np.zeros((1, 1)), np.full((1, 1), 2.0), 0.95)
    assert one[0] == pytest.approx(2 * norm.ppf(0.975), rel=1e-9)
    # known changes: the least that contains 95% of them, be it 10 or 100
    known = np.arange(1.0, 11.0)[None]
    assert mixture_quantile(known, np.zeros((1, 10)), 0.95)[0] == pytest.approx(10.0, rel=1e-9)
    assert mixture_quantile(-known, np.zeros((1, 10)), 0.8)[0] == pytest.approx(8.0, rel=1e-9)
    np.testing.assert_array_equal(mixture_quantile(np.zeros((2, 3)), np.zeros((2, 3)), 0.95), [0.0, 0.0])
    assert mixture_quantile(np.zeros((0, 3)), np.zeros((0, 3)), 0.95).shape == (0,)


@pytest.mark.parametrize("unit", [1e-150, 1e-6, 1e6, 1e150])
def test_mixture_quantile_in_other_units(unit):
    offset, deviation = mixture((3,))
    expected = mixture_quantile(offset, deviation, 0.9)
    np.testing.assert_allclose(mixture_quantile(unit * offset, unit * deviation, 0.9), unit * expected, rtol=1e-9)


def test_beyond_what_approximate_scores_tell_intervals_follow_the_gaussian_process():
    few = ConformityScores(np.full((12, 3), 3.0), np.ones(12), fresh=False)  # enough for 12 / 13
    e = explanation(rule=Value(few))
    at = few.highest_level
    half = e.interval(at)[1] - e.values
    np.testing.assert_allclose(half, 3.0 * e.std)
    expected = half * norm.isf(0.025) / norm.isf((1 - at) / 2)
    np.testing.assert_allclose(e.upper - e.values, expected, rtol=1e-9)
    # never narrower than without scores
    narrow = explanation(rule=Value(ConformityScores(np.full((12, 3), 0.1), np.ones(12), fresh=False)))
    np.testing.assert_allclose(narrow.upper, explanation(rule=Value(None)).upper)


class TestTooFewFreshRows:
    @pytest.mark.parametrize("promise", ["similar rows", "value"])
    def test_a_level_that_they_cannot_tell_is_refused(self, promise):
        few = scores((3,), n=12)
        e = similar(of=few) if promise == "similar rows" else explanation(rule=Value(few))
        words = r"A level of 0\.95 needs at least 19 rows to calibrate with, got 12"
        for action in (e.interval, e.statement, lambda: e.lower, lambda: e.width, e.to_frame):
            with pytest.raises(InputError, match=words):
                action()
        with pytest.raises(InputError, match=r"A level of 0\.99 needs at least 99"):
            e.interval(0.99)
        assert (e.interval(0.9)[1] > e.values).all()
        assert "Checked on 12 rows not used in fitting" in e.statement(0.9)

    @pytest.mark.parametrize("promise", ["similar rows", "value"])
    def test_certainties_are_those_of_the_highest_level_told(self, promise):
        few = scores((3,), n=12)
        e = similar(of=few) if promise == "similar rows" else explanation(rule=Value(few))
        assert ((e.sign_certainty >= 0) & (e.sign_certainty <= 1)).all()
        assert e.rank_certainty(1).sum(axis=1) == pytest.approx(1.0)


STATEMENTS = {
    "uncalibrated": "Not checked (uncalibrated): calibrate runs the explainer on similar rows to check it.",
    "approximate": "Checked approximately, on 60 rows used in fitting: call calibrate to make it exact. It holds for "
    "each feature, not for all at once.",
    "calibrated": "Checked on 60 rows not used in fitting; holds for each feature, not for all at once. With 90% "
    "certainty, these rows give at least 91.4%.",
    "too few": "Not checked at this level (uncalibrated): that needs 19 rows; there are 12.",
}


@pytest.mark.parametrize("state", CHECKED)
@pytest.mark.parametrize("promise", ["similar rows", "value"])
def test_statements(promise, state):
    found = CHECKED[state]((3,))
    e = similar(of=found) if promise == "similar rows" else explanation(rule=Value(found))
    starts = {
        "similar rows": "Take a row and a test row: in 95% of cases the second row's attribution lies inside the first "
        "row's interval. ",
        "value": "If the explainer were run, its answer would lie inside the interval for 95% of rows. ",
    }
    said = e.statement()
    assert said == starts[promise] + STATEMENTS[state]
    assert "80%" in e.statement(0.8)
    if state == "too few":
        assert "Checked approximately, on 12 rows" in e.statement(0.9)


def test_statement_of_the_papers_interval():
    said = explanation().statement(0.9)
    assert said.startswith("The 90% interval is that of the paper: it shows where explanations are uncertain")
    assert "promises no coverage" in said


def test_statement_of_a_rule_of_ones_own(wide):
    assert wide.statement() == "The 95% interval comes from the rule 'widths of a test'."
