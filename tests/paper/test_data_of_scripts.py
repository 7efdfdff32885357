"""Each data set that the scripts name, from made-up files."""

import numpy as np
import pytest
from paper._models import IMAGES, TABLES, images, table
from paper._planes import PLANES, plane

import made_up


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_numbers(name, small_data):
    X, y = table(name)
    assert X.shape[0] == len(y) == made_up.N
    assert np.isfinite(X).all()
    assert set(y) == {0, 1}


@pytest.mark.parametrize("name", PLANES)
def test_planes_have_both_classes(name, small_data):
    scene = plane(name, n_train=10, n_boundary=20)
    assert np.ptp(np.sign(scene.margin[2])) == 2
    assert len(scene.X_train) == 10


@pytest.mark.parametrize("name", [*IMAGES, "digits"])
def test_images_have_levels_from_0_to_1(name, small_data):
    X, y, X_test, y_test = images(name)
    assert (len(X), len(X_test)) == (len(y), len(y_test))
    assert X.shape[1:] == X_test.shape[1:]
    assert 0 <= X.min() < 0.1 < 0.9 < X.max() <= 1
