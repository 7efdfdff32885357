"""How many points are still to be found."""

from types import SimpleNamespace

import pytest

from gpec.boundary._search import Collection


@pytest.mark.parametrize(
    ("n_outputs", "wanted", "missing"),
    [(1, 7, {0: 7}), (3, 7, {0: 4, 1: 4, 2: 4}), (3, 8, {0: 4, 1: 4, 2: 4}), (2, 1, {0: 1, 1: 1})],
)
def test_every_point_serves_two_of_several_classes(n_outputs, wanted, missing):
    found = Collection(SimpleNamespace(n_outputs=n_outputs), SimpleNamespace(tolerance=1e-6), wanted)
    assert found.missing() == missing
