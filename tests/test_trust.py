"""What the uncertainty means for a reader: how sure a sign is, in numbers and in words."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

from explanation_helpers import explanation
from gpec.errors import InputError
from gpec.intervals.conformal import ConformityScores
from gpec.intervals.rules import IntervalRule, SimilarRows, Value
from gpec.intervals.trust import shown_words, sign_certainty, trust_words


def known(values, std):
    """An explanation with these values and standard deviations."""
    values, std = np.atleast_2d(np.asarray(values, float)), np.atleast_2d(np.asarray(std, float))
    names = [f"f{j}" for j in range(values.shape[1])]
    return explanation(
        *values.shape, values=values, model_variance=std**2, noise_variance=np.zeros_like(std), feature_names=names
    )


def test_sign_certainty_is_the_normal_probability_of_the_shown_sign():
    e = known([1.0, -2.0, 0.0], [1.0, 1.0, 1.0])
    assert sign_certainty(e)[0] == pytest.approx([norm.cdf(1), norm.cdf(2), 0.5])


def test_without_uncertainty_a_sign_is_certain_and_zero_has_none():
    e = known([1.0, 0.0], [0.0, 0.0])
    assert sign_certainty(e)[0].tolist() == [1.0, 0.5]


def test_words_follow_the_intervals():
    e = known([[1.97, -1.95, 1.29, -1.27, 0.0], [-1.97, 1.95, -1.29, 1.27, 5.0]], [[1.0] * 5, [1.0] * 4 + [9.0]])
    words = ["firm", "likely", "likely", "unclear", "unclear"]
    assert e.firmness.tolist() == [words, words]
    for level, found in ((0.95, ["firm"]), (0.8, ["firm", "likely"])):
        lower, upper = e.interval(level)
        np.testing.assert_array_equal(lower * upper > 0, np.isin(e.firmness, found))


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_words_do_not_depend_on_the_level_that_is_shown(level):
    e = explanation(20)
    np.testing.assert_array_equal(dataclasses.replace(e, confidence_level=level).firmness, e.firmness)


@pytest.mark.parametrize("classes", [None, 4])
def test_words_have_the_shape_of_the_values(classes):
    e = explanation(20, classes=classes)
    assert e.firmness.shape == e.shape
    assert set(e.firmness.flat) == {"firm", "likely", "unclear"}
    np.testing.assert_array_equal(e[3, 1].firmness, e.firmness[3, 1])


@dataclasses.dataclass(frozen=True, eq=False)
class Touching(IntervalRule):
    """From 0 to twice the value."""

    promise = "touching zero in a test"

    def bounds(self, values, std, level):
        return np.minimum(0.0, 2 * values), np.maximum(0.0, 2 * values)


def test_an_interval_that_touches_zero_is_on_no_side():
    e = dataclasses.replace(known([1.0, -1.0], [1.0, 1.0]), rule=Touching())
    assert e.firmness[0].tolist() == shown_words(e)[0].tolist() == ["unclear", "unclear"]


def test_a_feature_without_effect_has_no_sign_and_no_part_in_the_firm_share():
    e = known([2.0, 0.0, 0.0], [0.1, 0.0, 1.0])
    assert e.firmness[0].tolist() == ["firm", "unclear", "unclear"]
    assert shown_words(e)[0].tolist() == ["firm", "none", "unclear"]
    assert e.firm_share.tolist() == [1.0]


def test_firm_share_weighs_features_by_size():
    e = known([[3.0, -1.5, 0.5], [0.0, 0.0, 0.0]], np.ones((2, 3)))
    assert e.firmness[0].tolist() == ["firm", "likely", "unclear"]
    assert e.firm_share == pytest.approx([0.6, 1.0])
    assert e[0].firm_share == pytest.approx(0.6)


def test_firm_share_of_several_classes():
    e = explanation(20, classes=4)
    assert e.firm_share.shape == (20, 4)
    np.testing.assert_array_equal(e[:, :, 2].firm_share, e.firm_share[:, 2])
    with pytest.raises(InputError, match=r"firm_share needs all features of a row; select them with e\[row\]"):
        _ = e["age"].firm_share


def test_trust_warns_and_returns_the_words():
    e = explanation(20)
    with pytest.warns(FutureWarning, match="deprecated: use firmness"):
        words = e.trust()
    np.testing.assert_array_equal(words, e.firmness)
    np.testing.assert_array_equal(trust_words(e), e.firmness)


# Over similar rows


def among_similar(values, offset, deviation, scores=None):
    """An explanation whose similar rows differ by these offsets and deviations ``(n, d, K)``."""
    values, offset = np.asarray(values, float), np.asarray(offset, float)
    deviation = np.broadcast_to(np.asarray(deviation, float), offset.shape)
    square = (offset**2 + deviation**2).mean(axis=-1)
    names = [f"f{j}" for j in range(values.shape[1])]
    parts = {"values": values, "model_variance": square, "noise_variance": np.zeros_like(square)}
    rule = SimilarRows(offset, deviation, scores, "a test row")
    return explanation(*values.shape, rule=rule, feature_names=names, **parts)


def test_sign_certainty_is_the_share_of_similar_rows_that_keep_the_sign():
    offset = [[[0.0, -0.5, -1.5, -2.5], [0.0, 0.0, 0.0, 0.0]]]
    known = among_similar([[1.0, -1.0]], offset, 0.0)
    assert known.sign_certainty[0].tolist() == [0.5, 1.0]
    likely = among_similar([[1.0, -1.0]], offset, 0.5)
    expected = norm.cdf(np.array([1.0, 0.5, -0.5, -1.5]) / 0.5).mean()
    assert likely.sign_certainty[0] == pytest.approx([expected, norm.cdf(2.0)])


def test_an_exact_value_whose_neighbourhood_agrees_is_firm():
    e = among_similar([[-0.107, 0.0]], [[[0.01, -0.01], [0.0, 0.0]]], 1e-3)
    assert e.sign_certainty[0] == pytest.approx([1.0, 0.5])
    assert e.firmness[0].tolist() == ["firm", "unclear"]


def test_certainties_widen_with_the_intervals():
    """Calibration that makes intervals twice as wide makes signs less certain, as if similar rows differed twice."""
    values, offset = np.array([[1.0, -2.0]]), np.random.default_rng(0).normal(size=(1, 2, 5))
    plain = among_similar(values, offset, 0.4)
    ratio = (plain.interval(0.95)[1] - values) / plain.rule.above  # the multiple without scores
    scores = ConformityScores(np.tile(2 * ratio, (40, 1)), np.ones(40), fresh=True)
    calibrated = among_similar(values, offset, 0.4, scores)
    np.testing.assert_allclose(calibrated.width, 2 * plain.width)
    expected = among_similar(values, 2 * offset, 0.8).sign_certainty
    np.testing.assert_allclose(calibrated.sign_certainty, expected, rtol=1e-9)


@pytest.mark.parametrize("n", [60, 12])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("promise", ["value", "similar rows"])
def test_firm_and_likely_signs_are_those_whose_intervals_exclude_zero(promise, fresh, n):
    """Few fresh rows give no interval at 95%, and no firm sign; others widen the interval."""
    rng = np.random.default_rng(1)
    scores = ConformityScores(rng.gamma(2.0, size=(n, 3)), np.ones(n), fresh=fresh)
    values = 3 * rng.normal(size=(40, 3))
    if promise == "value":
        e = explanation(40, values=values, rule=Value(scores))
    else:
        e = among_similar(values, rng.normal(size=(40, 3, 5)), 0.5, scores)
    highest = n / (n + 1) * (1 - 1e-9) if fresh else 1.0
    for level, words in ((0.95, ["firm"]), (0.8, ["firm", "likely"])):
        lower, upper = e.interval(min(level, highest))
        excludes = (lower * upper > 0) & (level <= highest)
        assert 5 < excludes.sum() < 115 or (level > highest and not excludes.any())
        np.testing.assert_array_equal(np.isin(e.firmness, words), excludes)


class TestRanks:
    def test_against_draws(self):
        rng = np.random.default_rng(2)
        values, offset = rng.normal(size=(3, 4)), 0.5 * rng.normal(size=(3, 4, 8))
        deviation = rng.uniform(0.1, 0.8, size=(3, 4, 8))
        e = among_similar(values, offset, deviation)
        drawn = values[None, :, :, None] + offset + deviation * rng.normal(size=(20_000, 3, 4, 8))
        order = np.argsort(-np.abs(drawn), axis=2)
        for k in (1, 2, 3):
            top = np.stack([(order[:, :, :k] == f).any(axis=2).mean(axis=(0, 2)) for f in range(4)], axis=1)
            np.testing.assert_allclose(e.rank_certainty(k), top, atol=0.11)  # of 320 draws: four standard errors
        np.testing.assert_array_equal(e.rank_certainty(4), np.ones((3, 4)))

    def test_known_ranks(self):
        e = among_similar([[3.0, -2.0, 1.0]], np.zeros((1, 3, 5)), 0.0)
        assert e.rank_certainty(1)[0].tolist() == [1.0, 0.0, 0.0]
        assert e.rank_certainty(2)[0].tolist() == [1.0, 1.0, 0.0]
        # one of four similar rows turns the order of the first two around
        turned = among_similar([[3.0, -2.0, 1.0]], [[[0, 0, 0, -2.5], [0] * 4, [0] * 4]], 0.0)
        assert turned.rank_certainty(1)[0].tolist() == [0.75, 0.25, 0.0]
        assert turned[0].rank_certainty(1).tolist() == [0.75, 0.25, 0.0]

    @pytest.mark.parametrize("classes", [None, 4])
    def test_they_add_up_to_k_for_each_row_and_output(self, classes):
        e = explanation(classes=classes)
        for k in (1, 2, 3):
            found = e.rank_certainty(k)
            assert found.shape == e.shape
            assert found.sum(axis=1) == pytest.approx(k)
        np.testing.assert_array_equal(e.rank_certainty(2), e.rank_certainty(2))

    def test_rows_do_not_depend_on_those_beside_them(self, monkeypatch):
        e = explanation(50)
        whole = e.rank_certainty(1)
        monkeypatch.setattr("gpec.intervals.trust._NUMBERS", 4_000)
        np.testing.assert_array_equal(e.rank_certainty(1), whole)
        np.testing.assert_array_equal(e[7].rank_certainty(1), whole[7])

    @pytest.mark.parametrize("k", [0, 4, -1, 1.5, True, "two", None])
    def test_numbers_that_are_none(self, k):
        with pytest.raises((InputError, TypeError), match="k="):
            explanation().rank_certainty(k)

    def test_one_feature_has_no_rank(self):
        with pytest.raises(InputError, match="needs all features of a row"):
            explanation()["age"].rank_certainty(1)
