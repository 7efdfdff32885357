from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

from drawn import NASTY, bars_of, constant, draw_all, made, mixed, notes, tick_texts, whiskers_of
from gpec.errors import InputError
from gpec.intervals import AllExplained, BoundsOnly
from gpec.intervals.rules import SimilarRows
from gpec.plots import waterfall


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def small(**changes):
    parts = {
        "values": np.array([[0.2, -0.5, 0.1]]),
        "model_variance": np.full((1, 3), 0.01),
        "noise_variance": np.zeros((1, 3)),
        "data": np.array([[1.0, 2.0, np.nan]]),
        "base_values": np.array([0.4]),
        "predictions": np.array([0.2]),
    }
    return made(1, 3, **{**parts, **changes})


def test_steps_lead_from_the_base_value_to_the_answer():
    ax = draw_all(waterfall(small()[0]))
    assert tick_texts(ax) == ["base value", "x1 = 2", "x0 = 1", "x2 = missing", "model's answer"]
    assert np.ravel(bars_of(ax)) == pytest.approx([0.4, -0.5, -0.1, 0.2, 0.1, 0.1])
    half = 1.959964 * 0.1
    centres = [-0.1, 0.1, 0.2]  # where each step ends
    assert np.ravel(whiskers_of(ax)) == pytest.approx([end for c in centres for end in (c - half, c + half)])
    ends = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines]
    assert np.ravel(ends) == pytest.approx([0.4, 4, 0.2, 0])
    assert notes(ax)[:3] == ["\N{MINUS SIGN}0.500", "+0.200", "+0.100"]


def test_an_answer_of_zero_shows_no_rounding_error():
    values = np.array([[-0.3, -0.1]])
    flat = np.zeros((1, 2))
    base = np.array([0.3 + 0.1 + 1e-16])
    e = made(1, 2, values=values, base_values=base, predictions=np.zeros(1), model_variance=flat, noise_variance=flat)
    assert e.base_values[0] + e.values.sum() != 0.0
    ax = waterfall(e[0])
    assert notes(ax)[2:4] == ["0.400", "0.000"]
    assert tick_texts(ax)[-1] == "model's answer"


def test_without_base_values_it_starts_at_zero_and_says_so():
    ax = waterfall(small(base_values=None)[0])
    assert tick_texts(ax)[0] == "start (no base value)"
    assert bars_of(ax)[0] == pytest.approx((0.0, -0.5))


@pytest.mark.parametrize(
    ("answer", "last", "note"),
    [(0.2, "model's answer", ""), (None, "sum", ""), (0.75, "sum", "; the model's answer is 0.750")],
)
def test_the_answer_is_named_only_where_the_steps_reach_it(answer, last, note):
    ax = waterfall(small(predictions=None if answer is None else np.array([answer]))[0])
    assert tick_texts(ax)[-1] == last
    assert notes(ax)[-1] == "95% intervals of the latent explanation (no coverage promised)" + note


def test_other_features_are_joined_with_the_interval_of_a_sum():
    e = made(1, 12)[0]
    ax = waterfall(e, max_features=3)
    order = np.argsort(-np.abs(e.values))
    assert tick_texts(ax)[4] == "9 others"
    assert bars_of(ax)[3][1] == pytest.approx(e.values[order[3:]].sum())
    low, high = whiskers_of(ax)[3]
    # independent normals: variances add
    assert high - low == pytest.approx(2 * 1.959964 * np.sqrt(e.variance[order[3:]].sum()), rel=1e-6)
    assert bars_of(ax)[3][0] + bars_of(ax)[3][1] == pytest.approx(0.4 + e.values.sum())


@pytest.mark.parametrize(("d", "others"), [(4, 0), (5, 2)])
def test_a_single_other_feature_stands_by_itself(d, others):
    texts = tick_texts(waterfall(made(1, d)[0], max_features=3))
    assert len(texts) == 2 + (d if others == 0 else 4)
    assert any("others" in text for text in texts) == (others > 0)


@pytest.mark.parametrize("together", [True, False])
def test_the_joined_interval_holds_the_sums_of_similar_rows(together):
    """Against draws: the predicted changes of features may add or cancel, which single intervals do not know."""
    rng = np.random.default_rng(2)
    d, K, rest = 8, 10, 6
    shift = rng.normal(size=K)
    sign = np.ones(d) if together else np.where(np.arange(d) % 2, 1.0, -1.0)
    offset = 0.05 * shift[None, None, :] * sign[None, :, None]
    deviation = np.full((1, d, K), 0.02)
    values = np.array([[3.0, 2.0, *np.full(rest, 0.1)]])
    square = (offset**2 + deviation**2).mean(axis=-1)
    rule = SimilarRows(offset, deviation, None, "a draw")
    e = made(1, d, values=values, model_variance=square, noise_variance=np.zeros((1, d)), rule=rule)[0]
    low, high = whiskers_of(waterfall(e, max_features=2))[2]
    drawn = values[0, 2:, None] + offset[0, 2:, rng.integers(K, size=40_000)].T
    drawn = (drawn + 0.02 * rng.normal(size=drawn.shape)).sum(axis=0)
    start = 0.4 + 5.0
    assert np.mean((drawn >= low - start) & (drawn <= high - start)) == pytest.approx(0.95, abs=0.006)


def explained_rows(**options):
    """One row of 12 features with ten similar rows that were explained, and their attributions."""
    similar = np.random.default_rng(0).normal(0.3, 1.0, size=(1, 12, 10))
    values = similar.mean(axis=2)
    return made(1, 12, values=values, rule=AllExplained(similar, "another", **options))[0], similar[0]


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_explained_similar_rows_give_the_interval_of_the_sum(level):
    e, similar = explained_rows(random=False)
    order = np.argsort(-np.abs(e.values))[4:]
    sums, value = similar[order].sum(axis=0), e.values[order].sum()
    lower, upper = whiskers_of(waterfall(replace(e, confidence_level=level), max_features=4))[4]
    start = 0.4 + e.values.sum() - value  # 0.4 is the base value
    inside = (sums >= lower - start - 1e-12) & (sums <= upper - start + 1e-12)
    assert lower <= start + value <= upper
    assert inside.sum() >= 10 * level
    if level == 0.95:
        assert [lower - start, upper - start] == pytest.approx([sums.min(), sums.max()])


def test_similar_rows_that_were_not_kept_give_the_sum_of_the_intervals():
    e, _ = explained_rows(random=False)
    bounds = [e.interval(level) for level in (0.8, 0.95)]
    low, high = (np.stack(side, axis=-1) for side in zip(*bounds, strict=True))
    rule = BoundsOnly(low, high, np.array([0.8, 0.95]), e.sign_certainty, 10, "another", random=False)
    order = np.argsort(-np.abs(e.values))[4:]
    lower, upper = whiskers_of(waterfall(replace(e, rule=rule), max_features=4))[4]
    start = 0.4 + e.values.sum() - e.values[order].sum()
    assert [lower - start, upper - start] == pytest.approx([e.lower[order].sum(), e.upper[order].sum()])


def test_a_joined_step_is_filled_by_its_own_certainty():
    faces = []
    for value in (0.5, 0.13, 0.02):
        values = np.array([[9.0, *np.full(4, value)]])  # the sum of four has twice the deviation of one
        e = made(1, 5, values=values, model_variance=np.full((1, 5), 0.04), noise_variance=np.zeros((1, 5)))
        patches = [patch for container in waterfall(e[0], max_features=1).containers for patch in container]
        faces.append((patches[1].get_facecolor()[3], patches[1].get_hatch()))
    assert faces == [(1.0, None), (0.45, None), (1.0, "////")]


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_constant_values(value):
    ax = draw_all(waterfall(constant(value)[0]))
    assert [width for _, width in bars_of(ax)] == pytest.approx([value] * 4)


def test_names_are_drawn_as_they_are():
    ax = draw_all(waterfall(mixed()[0]))
    drawn = {text.get_text() for text in ax.get_yticklabels()}
    assert r"\$\frac{1}\$ = missing" in drawn
    assert any(text.startswith("<script>alert(1)</script> = ") for text in drawn)
    assert all(len(text.replace("\\$", "$")) <= 40 for text in drawn)
    assert len(NASTY[0]) > 60


def test_hundreds_of_features_and_one():
    ax = draw_all(waterfall(made(1, 400)[0]))
    assert tick_texts(ax)[-2] == "390 others"
    assert len(bars_of(draw_all(waterfall(made(1, 1)[0])))) == 1


def test_wrong_shapes_get_a_sentence():
    for wrong in (made(), made(3, 4, 2)[0], made()[0, 0]):
        with pytest.raises(InputError, match="waterfall draws a single row of one class"):
            waterfall(wrong)
    with pytest.raises(InputError, match="max_features=0 must be at least 1"):
        waterfall(made()[0], max_features=0)
