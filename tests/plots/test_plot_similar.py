import matplotlib as mpl
import numpy as np
import pytest

from drawn import constant, dots_of, draw_all, made, mixed, notes, tick_texts
from gpec.errors import InputError
from gpec.plots import similar


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def pair(**changes):
    """A row with intervals from -0.2 to 0.2 around each value, and three similar rows."""
    deviation = 0.2 / 1.959964
    variance = {"model_variance": np.full((1, 3), deviation**2), "noise_variance": np.zeros((1, 3))}
    e = made(1, 3, values=np.array([[1.0, -0.5, 0.1]]), predictions=np.array([0.9]), **variance)[0]
    values = np.array([[1.1, -0.6, 0.1], [0.7, -0.5, 0.0], [1.0, 0.4, 0.25]])
    others = made(3, 3, values=values, **{"predictions": np.array([0.8, 0.95, 0.25]), **changes})
    return e, others


def test_bands_are_intervals_and_dots_are_similar_rows():
    e, others = pair()
    ax = draw_all(similar(e, others))
    bands = [(p.get_x(), p.get_width()) for p in ax.containers[0]]
    assert np.ravel(bands) == pytest.approx([0.8, 0.4, -0.7, 0.4, -0.1, 0.4], abs=1e-6)
    inside, outside = dots_of(ax)
    assert np.sort(np.asarray(outside.get_offsets())[:, 0]) == pytest.approx([0.4, 0.7])
    assert np.sort(np.asarray(inside.get_offsets())[:, 0]) == pytest.approx(
        np.sort([1.1, 1.0, -0.6, -0.5, 0.1, 0.0, 0.25])
    )
    assert tick_texts(ax)[0].startswith("x0 = ")
    assert any("; 2 of 9 attributions of 3 similar rows outside" in note for note in notes(ax))


def test_a_similar_row_has_the_same_height_in_every_band():
    e, others = pair()
    ax = similar(e, others)
    offsets = np.concatenate([np.asarray(dots.get_offsets()) for dots in dots_of(ax)])
    for value, height in ((1.1, 0.27), (-0.6, 0.27), (0.7, 0.0), (-0.5, 0.0), (0.4, -0.27), (0.25, -0.27)):
        y = offsets[np.isclose(offsets[:, 0], value), 1]
        assert np.any(np.isclose(y - np.round(y), height)), value


def test_answers_are_told_in_the_title_and_by_colours_from_0_to_1():
    e, others = pair()
    ax = similar(e, others)
    assert ax.get_title() == "model's answer 0.900; similar rows 0.250 to 0.950"
    inside, outside = dots_of(ax)
    assert inside.get_clim() == outside.get_clim() == (0.0, 1.0)
    where = np.asarray(outside.get_offsets())[:, 0]
    assert np.asarray(outside.get_array())[np.argsort(where)] == pytest.approx([0.25, 0.95])  # 0.4 is of the third row

    _, others = pair(predictions=np.array([10.0, 12.0, 14.0]))
    ax = similar(e, others)
    assert dots_of(ax)[0].get_clim() == (10.0, 14.0)
    assert ax.get_title() == "model's answer 0.900; similar rows 10.0 to 14.0"


def test_without_answers_there_is_no_title_and_no_colour_bar():
    e, others = pair(predictions=None)
    ax = draw_all(similar(e, others))
    assert ax.get_title() == ""
    assert len(ax.figure.axes) == 1


def test_of_several_classes_the_rows_own_is_taken():
    many = made(12, 4, 3)
    e = many[0, :, "kind 1"]
    offsets = np.concatenate([np.asarray(dots.get_offsets()) for dots in dots_of(similar(e, many[1:]))])
    assert np.sort(offsets[:, 0]) == pytest.approx(np.sort(np.ravel(many.values[1:, :, 1])))


def test_features_are_those_that_move_most():
    values = np.zeros((4, 3))
    values[:, 0], values[2, 2] = 0.5, -3.0
    ax = similar(constant(0.0, d=3)[0], made(4, 3, values=values), max_features=2)
    assert [text.split(" = ")[0] for text in tick_texts(ax)] == ["x2", "x0"]


@pytest.mark.parametrize("e", [constant(0.0), constant(0.1), made(2, 1), made(30, 300), mixed()])
def test_odd_tables(e):
    draw_all(similar(e[0], e[1:]))


def test_wrong_use_gets_a_sentence():
    e, others = pair()
    with pytest.raises(InputError, match="similar draws a single row of one class"):
        similar(others, others)
    with pytest.raises(InputError, match="similar needs others of many rows and the class of e"):
        similar(e, e)
    with pytest.raises(InputError, match="others must have the features of e"):
        similar(e, made(4, 2))
    with pytest.raises(InputError, match="others has no rows"):
        similar(e, others[:0])
