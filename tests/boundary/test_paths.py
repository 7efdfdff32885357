"""Where categories switch on the way between two rows."""

import numpy as np

from gpec.boundary._search import Paths
from gpec.data import Schema


def test_each_switch_lies_in_the_middle_half_of_its_share_of_the_way():
    rng = np.random.default_rng(0)
    schema, Z = Schema.learn(rng.integers(4, size=(400, 5)).astype(float), categorical_features=range(5))
    A, B = np.split(Z, 2)
    paths = Paths(schema, A, B, rng)
    share = []
    for switches, at in zip(paths.switches, paths.switch_at, strict=True):
        n = switches.sum()
        share += (n * np.sort(at[switches]) - np.arange(n)).tolist()
    assert len(share) == (A != B).sum()
    assert 0.25 <= min(share) < 0.27
    assert 0.73 < max(share) <= 0.75
