"""Rejection curves: their points, what lies between them, oracle and chance."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpec.errors import InputError, ParameterTypeError
from gpec.metrics import rejection_curve
from gpec.plots import rejection

SAID, ERROR = [1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 1.0, 5.0]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def named(ax, start):
    return next(line for line in ax.lines if line.get_label().startswith(start))


def at(line, share):
    return float(np.interp(share, *line.get_data()))


def test_curve_oracle_and_chance_go_through_their_points():
    ax = rejection(rejection_curve(SAID, ERROR))
    for share, error in zip((0.0, 0.25, 0.5, 0.75), (2.0, 1.0, 1.0, 0.0), strict=True):
        assert at(named(ax, "uncertainty"), share) == pytest.approx(error)
    for share, error in zip((0.0, 0.25, 0.5, 0.75), (2.0, 1.0, 0.5, 0.0), strict=True):
        assert at(named(ax, "oracle"), share) == pytest.approx(error)
    np.testing.assert_allclose(named(ax, "at random").get_ydata(), 2.0)
    assert named(ax, "uncertainty").get_label() == "uncertainty (gain 0.90)"


def test_what_is_equally_uncertain_goes_in_proportion():
    # six of error 1 are called uncertain, two of error 0 are not
    ax = rejection(rejection_curve([1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0, 0]))
    for rejected in (0.1, 0.4, 0.6):
        kept_of_error_1 = 0.75 - rejected
        assert at(named(ax, "uncertainty"), rejected) == pytest.approx(kept_of_error_1 / (1 - rejected), abs=1e-4)


def test_the_mean_height_of_a_line_is_the_area_of_its_curve():
    rng = np.random.default_rng(0)
    error = rng.exponential(size=200)
    curve = rejection_curve(error + rng.normal(size=200), error)
    ax = rejection(curve)
    for name, area in (("uncertainty", curve.area), ("oracle", curve.oracle_area), ("at random", curve.random_area)):
        x, y = named(ax, name).get_data()
        assert np.trapezoid(y, x) == pytest.approx(area, rel=5e-3)


def test_curves_of_the_same_errors_share_oracle_and_chance():
    curves = {"$a_1$": rejection_curve(SAID, ERROR), "b": rejection_curve(ERROR, ERROR)}
    ax = rejection(curves)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        r"\$a_1\$ (gain 0.90)",
        "b (gain 1.00)",
        "at random",
        "oracle",
    ]
    assert len(ax.lines) == 4


def test_curves_of_different_errors_have_each_their_own():
    curves = {"a": rejection_curve(SAID, ERROR), "b": rejection_curve(SAID, [9.0, 9.0, 1.0, 1.0])}
    ax = rejection(curves)
    assert len(ax.lines) == 6
    assert sorted(line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2) == [2.0, 5.0]
    assert len(rejection(curves, oracle=False, random=False).lines) == 2


def test_equal_errors_leave_no_gain_to_speak_of():
    ax = rejection(rejection_curve(SAID, [0.0, 0.0, 0.0, 0.0]))
    assert named(ax, "uncertainty").get_label() == "uncertainty"
    assert ax.get_ylim()[1] > 0


def test_the_last_entries_do_not_squeeze_the_picture():
    said = np.arange(100.0, 0.0, -1.0)
    error = np.ones(100)
    error[-1] = 50.0  # the most certain is the most wrong
    ax = rejection(rejection_curve(said, error))
    assert ax.get_ylim()[1] < 15


def test_many_curves_differ_without_colours_too():
    rng = np.random.default_rng(1)
    curves = {f"method {i}": rejection_curve(rng.random(20), rng.random(20)) for i in range(14)}
    lines = rejection(curves, oracle=False, random=False).lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 14


def test_it_draws_where_it_is_told():
    _, ax = plt.subplots()
    assert rejection(rejection_curve(SAID, ERROR), ax=ax, error="|error| in $", title="t_$") is ax
    assert (ax.get_ylabel(), ax.get_title()) == (r"|error| in \$", r"t_\$")


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="curves is empty"):
        rejection({})
    with pytest.raises(ParameterTypeError, match="list under 'a'; give what gpec"):
        rejection({"a": [1.0]})
