"""How many landmarks there are at most."""

import numpy as np
import pytest

from gpec.geometry import GeodesicGraph


@pytest.mark.parametrize(("wanted", "n"), [(4_999, 4_999), (5_000, 5_000), (5_001, 5_000), (100_000, 5_000)])
def test_never_more_than_5000(monkeypatch, wanted, n):
    """Choosing so many takes long, so that the first ones are taken here."""
    monkeypatch.setattr("gpec.geometry.graph.choose_landmarks", lambda points, count, rng: np.arange(count))
    points = np.random.default_rng(0).normal(size=(5_001, 2))
    assert len(GeodesicGraph.build(points, n_neighbors=3, n_landmarks=wanted).landmarks) == n
