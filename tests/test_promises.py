"""Interval rules: the paper's, and one of one's own, from bounds to files."""

import numpy as np
import pytest
from scipy.stats import norm

from explanation_helpers import CLASSES, NAMES, explanation
from gpec import Explanation
from gpec.errors import InputError
from gpec.promises import IntervalRule, Latent


class Widths(IntervalRule):
    """Half-widths that were found elsewhere, one for each attribution, at any level."""

    promise = "widths of a test"

    def __init__(self, half):
        self.half = half

    def bounds(self, values, std, level):
        return values - level * self.half, values + level * self.half

    def select(self, cut):
        return Widths(np.asarray(self.half[cut]))

    def state(self):
        return {**super().state(), "half": self.half}

    @classmethod
    def restore(cls, state):
        return cls(state["half"])


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
    with pytest.raises(InputError, match="Doubled has no promise of its own"):
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
    assert isinstance(IntervalRule.from_state(One().state()), One)
