import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.patches import Rectangle
from scipy import stats

from drawn import bars_of, constant, draw_all, made, mixed, notes, tick_texts, whiskers_of
from gpec.errors import InputError
from gpec.plots import summary


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def gauges(ax):
    """The filled part of each gauge, from the highest to the lowest."""
    found = [artist for artist in ax.patches if isinstance(artist, Rectangle) and artist.get_x() == 1.02]
    full, part = found[::2], found[1::2]
    return [b.get_width() / a.get_width() for a, b in zip(full, part, strict=True)]


def test_bars_are_mean_sizes_largest_first():
    e = made()
    ax = draw_all(summary(e, max_features=3))
    mean = np.abs(e.values).mean(axis=0)
    assert [width for _, width in bars_of(ax)] == pytest.approx(sorted(mean, reverse=True)[:3])
    assert tick_texts(ax) == [f"x{i}" for i in np.argsort(-mean)[:3]]
    assert ax.get_xlabel() == "mean size of attribution to sick (probability)"
    assert "40 rows, 95% interval of the mean; sign firm: share of rows; 3 of 5 features" in notes(ax)


def test_the_interval_is_students_where_attributions_have_no_variance_of_their_own():
    zero = np.zeros((40, 5))
    e = made(model_variance=zero, noise_variance=zero)
    sizes = np.abs(e.values)[:, np.argsort(-np.abs(e.values).mean(axis=0))]
    low, high = stats.t.interval(0.95, 39, loc=sizes.mean(axis=0), scale=stats.sem(sizes, axis=0))
    assert np.ravel(whiskers_of(summary(e))) == pytest.approx(np.ravel(np.column_stack([np.maximum(low, 0), high])))


def test_the_attributions_own_variance_widens_the_interval():
    n = 30
    e = made(n, 1, values=np.full((n, 1), 0.5), model_variance=np.full((n, 1), 0.04), noise_variance=np.zeros((n, 1)))
    low, high = whiskers_of(summary(e))[0]
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, n - 1) * 0.2 / np.sqrt(n))


def test_the_interval_holds_the_mean_of_other_rows():
    """Over many tables of rows drawn alike, the interval holds the true mean size at its level."""
    tables = 400  # each a feature here: features are summarised one by one
    values = np.random.default_rng(0).normal(1.0, 0.25, size=(25, tables))  # negative values are 4 deviations away
    zero = np.zeros((25, tables))
    e = made(25, tables, values=values, model_variance=zero, noise_variance=zero)
    low, high = np.transpose(whiskers_of(summary(e, max_features=tables)))
    assert np.mean((low <= 1.0) & (high >= 1.0)) == pytest.approx(0.95, abs=0.025)


def test_the_interval_of_a_size_does_not_go_below_zero():
    ax = summary(made(4, 1, values=np.full((4, 1), 0.01)))
    low, high = whiskers_of(ax)[0]
    assert low == 0.0
    assert high > 0.02


def test_shares_of_firm_signs():
    values = np.full((10, 2), 0.5)
    values[:3, 1] = [0.01, 0.3, -0.3]  # up to 1.5 deviations: unclear, likely, likely
    variance = np.full((10, 2), 0.04)
    e = made(10, 2, values=values, model_variance=variance, noise_variance=np.zeros((10, 2)))
    ax = summary(e)
    assert gauges(ax) == pytest.approx([1.0, 0.7])
    assert [note for note in notes(ax) if note.endswith("%")] == ["100%", "70%"]


def test_several_classes_are_stacked_or_chosen():
    e = made(30, 4, 3)
    ax = draw_all(summary(e))
    mean = np.abs(e.values).mean(axis=0)
    order = np.argsort(-mean.sum(axis=1))
    right_ends = [max(left + width for left, width in bars_of(ax)[3 * k : 3 * k + 3]) for k in range(4)]
    assert right_ends == pytest.approx(mean.sum(axis=1)[order])
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [f"kind {k}" for k in np.argsort(-mean.sum(axis=0))]
    low, high = whiskers_of(ax)[0]
    assert (low + high) / 2 == pytest.approx(mean.sum(axis=1)[order[0]])
    assert any("share of rows and classes" in note for note in notes(ax))

    for output in ("kind 1", 1):
        ax = summary(e, output=output)
        assert [width for _, width in bars_of(ax)] == pytest.approx(sorted(mean[:, 1], reverse=True))
        assert ax.get_xlabel() == "mean size of attribution to kind 1 (probability)"


def test_of_many_classes_the_smallest_are_joined():
    e = made(20, 3, 25)
    ax = draw_all(summary(e))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(names) == 7
    assert names[-1] == "19 other classes"
    total = np.abs(e.values).mean(axis=0).sum(axis=1).max()
    assert max(left + width for left, width in bars_of(ax)) == pytest.approx(total)
    assert len(summary(made(20, 3, 7)).get_legend().get_texts()) == 7


def test_one_row_has_no_interval_and_says_nothing_of_one():
    ax = summary(made(1, 3))
    assert whiskers_of(ax) == []
    assert "1 row; sign firm: share of rows" in notes(ax)


def test_odd_tables():
    for e in (constant(0.0), constant(0.1), made(5, 1), made(5, 300), mixed()):
        ax = draw_all(summary(e))
        assert ax.get_xlim()[0] == 0.0
    assert gauges(summary(constant(0.0))) == [0.0] * 4


def test_wrong_use_gets_a_sentence():
    with pytest.raises(InputError, match=r"output='kind 0' cannot be chosen: the explanation has one class"):
        summary(made(), output="kind 0")
    with pytest.raises(InputError, match="summary draws many rows of one class"):
        summary(made()[0])
    with pytest.raises(InputError, match="summary has nothing to draw: the explanation has no rows"):
        summary(made()[:0])
    with pytest.raises(InputError, match="No output is called 'kind 9'"):
        summary(made(5, 3, 2), output="kind 9")
