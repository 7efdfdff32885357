"""The search for pivots ends where only rounding is left of the kernel."""

import numpy as np
import pytest

from gpec.data import Rows
from gpec.gp import lowrank
from gpec.gp._gram import Gram
from gpec.kernels import RBF


@pytest.mark.parametrize("tolerance", [1e-9, 1e-16, 0.0])
@pytest.mark.parametrize("lengthscale", [10.0, 1_000.0])
def test_a_tolerance_below_rounding(tolerance, lengthscale, monkeypatch):
    """Sums of squares leave a little of the diagonal that the block itself does not have."""
    blocks = []

    def counted(*arguments, factorise=lowrank.dpstrf, **options):
        blocks.append(len(arguments[0]))
        assert len(blocks) < 200, "the search goes on without finding a pivot"
        return factorise(*arguments, **options)

    monkeypatch.setattr(lowrank, "dpstrf", counted)
    kernel = RBF(lengthscale).fit()
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        pivots, Z, residual = lowrank._features(Gram(kernel, Rows.of(X)), tolerance, 4_096, rng)
        np.testing.assert_allclose(Z @ Z.T, kernel.gram(X), atol=1e-8 if tolerance == 1e-9 else 1e-13)
        assert 0 <= residual <= max(tolerance, 1e-14)
        assert len(np.unique(pivots)) == len(pivots) < 60
