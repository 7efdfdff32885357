"""What the uncertainty means for a reader: how sure a sign is, in numbers and in words."""

import numpy as np
import pytest
from scipy.stats import norm

from explanation_helpers import explanation
from gpec.trust import firm_share, sign_certainty, trust_words


def known(values, std):
    """An explanation with these values and standard deviations."""
    values, std = np.atleast_2d(np.asarray(values, float)), np.atleast_2d(np.asarray(std, float))
    names = [f"f{j}" for j in range(values.shape[1])]
    return explanation(
        *values.shape, values=values, boundary_variance=std**2, noise_variance=np.zeros_like(std), feature_names=names
    )


def test_sign_certainty_is_the_normal_probability_of_the_shown_sign():
    e = known([1.0, -2.0, 0.0], [1.0, 1.0, 1.0])
    assert sign_certainty(e)[0] == pytest.approx([norm.cdf(1), norm.cdf(2), 0.5])


def test_without_uncertainty_a_sign_is_certain_and_zero_has_none():
    e = known([1.0, 0.0], [0.0, 0.0])
    assert sign_certainty(e)[0].tolist() == [1.0, 0.5]


def test_words_follow_the_interval():
    e = known([1.97, 1.95, 1.1, 0.9, 0.0], [1.0] * 5)
    assert trust_words(e)[0].tolist() == ["firm", "likely", "likely", "unclear", "unclear"]
    lower, upper = e.interval(0.95)
    assert ((lower * upper > 0) == (trust_words(e) == "firm")).all()


def test_firm_share_weighs_features_by_size():
    e = known([[3.0, -1.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]])
    assert firm_share(e) == pytest.approx([0.75, 1.0])
    assert firm_share(e[0]) == pytest.approx(0.75)
