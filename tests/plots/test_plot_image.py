"""Panels of an image: their pixels, their one scale, their shape."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest

from explanation_helpers import explanation
from gpec.errors import InputError
from gpec.plots import image


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def of(shape, classes=None, **changes):
    d = int(np.prod(shape))
    names = [f"x{j}" for j in range(d)]
    return explanation(n=2, d=d, classes=classes, feature_names=names, **changes)


def pixels(ax):
    return np.asarray(ax.images[0].get_array())


def test_the_panels_are_upper_bound_value_and_lower_bound():
    e = of((3, 4))[1]
    axes = image(e, shape=(3, 4))
    assert [ax.get_title() for ax in axes] == ["upper bound", "value", "lower bound"]
    for ax, expected in zip(axes, (e.upper, e.values, e.lower), strict=True):
        np.testing.assert_array_equal(pixels(ax), expected.reshape(3, 4))


def test_one_scale_for_all_with_0_in_its_middle():
    e = of((4, 4))[0]
    limits = {ax.images[0].get_clim() for ax in image(e)}
    most = max(np.abs(e.upper).max(), np.abs(e.lower).max())
    assert limits == {(-most, most)}


def test_nothing_but_zeros_is_drawn():
    zero = np.zeros((2, 16))
    e = of((4, 4), values=zero, model_variance=zero, noise_variance=zero)[0]
    axes = image(e)
    assert axes[0].images[0].get_clim() == (-1.0, 1.0)
    axes[0].figure.savefig(io.BytesIO())


@pytest.mark.parametrize(("d", "shape"), [(16, (4, 4)), (27, (3, 3)), (1, (1, 1))])
def test_a_square_is_recognised(d, shape):
    values = np.tile(np.arange(float(d)), (2, 1))
    if d == 27:
        values = np.tile(np.arange(9.0), (2, 3))  # the same in all three channels
    e = of((d,), values=values, model_variance=np.zeros((2, d)), noise_variance=np.zeros((2, d)))[0]
    np.testing.assert_array_equal(pixels(image(e)[1]), np.arange(float(np.prod(shape))).reshape(shape))


def test_the_picture_comes_first():
    e = of((4, 4))[0]
    axes = image(e, picture=True)
    assert len(axes) == 4
    np.testing.assert_array_equal(pixels(axes[0]), e.data.reshape(4, 4))
    np.testing.assert_array_equal(pixels(axes[1]), e.upper.reshape(4, 4))


def test_a_picture_in_colour_keeps_its_colours():
    values = np.zeros((2, 12))
    data = np.tile(np.repeat([0.0, 5.0, 10.0], 4), (2, 1))
    e = of((3, 2, 2), values=values, model_variance=values, noise_variance=values, data=data)[0]
    shown = pixels(image(e, shape=(3, 2, 2), picture=True)[0])
    np.testing.assert_allclose(shown, np.tile([0.0, 0.5, 1.0], (2, 2, 1)))


def test_channels_that_differ_are_chosen_from():
    e = of((2, 3, 3))[0]
    with pytest.raises(InputError, match=r"differ between the 2 channels; choose one by channel="):
        image(e, shape=(2, 3, 3))
    np.testing.assert_array_equal(pixels(image(e, shape=(2, 3, 3), channel=1)[1]), e.values.reshape(2, 3, 3)[1])
    with pytest.raises(InputError, match="channel=2 is out of range; there are 2"):
        image(e, shape=(2, 3, 3), channel=2)


def test_a_class_is_chosen_by_name_or_number():
    e = of((2, 2), classes=3)
    by_name, by_number, by_index = image(e[0], output="virginica"), image(e[0], output=2), image(e[0, :, 2])
    for axes in (by_name, by_number, by_index):
        np.testing.assert_array_equal(pixels(axes[1]), e.values[0, :, 2].reshape(2, 2))
        assert "virginica" in axes[0].figure.get_suptitle()
    with pytest.raises(InputError, match=r"choose it by output=, from \['setosa'"):
        image(e[0])
    with pytest.raises(InputError, match="output='rose' is not one of"):
        image(e[0, :, 2], output="rose")


def test_it_draws_where_it_is_told():
    figure, given = plt.subplots(3, 1)
    assert list(image(of((2, 2))[0], ax=given)) == list(given)
    assert figure.get_suptitle() == ""
    with pytest.raises(InputError, match="draws 4 panels, but ax holds 3"):
        image(of((2, 2))[0], ax=given, picture=True)


@pytest.mark.parametrize("shape", [(2, 3), (4,), (1, 1, 2, 2)])
def test_a_shape_that_does_not_fit_is_refused(shape):
    with pytest.raises(InputError, match="does not fit 4 attributions"):
        image(of((2, 2))[0], shape=shape)


def test_what_is_no_square_asks_for_its_shape():
    with pytest.raises(InputError, match=r"6 attributions make no square image; pass shape="):
        image(of((2, 3))[0])


def test_several_rows_are_refused_with_a_remedy():
    with pytest.raises(InputError, match=r"e\[0\]"):
        image(of((2, 2)))
