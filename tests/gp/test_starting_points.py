"""Where the search for the free parameters of a kernel sets out, and how many rows it looks at."""

import numpy as np
import pytest
from gp_helpers import OwnColumn

from gpec.gp import learn_kernel
from gpec.kernels import RBF

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.sin(2 * X) + 0.1 * RNG.normal(size=X.shape)


class SeenByFeature(OwnColumn):
    def with_theta(self, theta):
        seen.append(float(theta[0]))
        return super().with_theta(theta)


class SeenForAll(RBF):
    def with_theta(self, theta):
        seen.append(float(theta[0]))
        return super().with_theta(theta)


seen: list[float] = []


@pytest.mark.parametrize(
    ("kernel", "n", "factors"),
    [(SeenByFeature("evidence"), 24, (0.1, 30.0)), (SeenForAll("evidence"), 12, (1e-2, 1e2))],
    ids=["by feature", "for all"],
)
def test_they_fill_the_range_evenly(kernel, n, factors):
    """From a tenth to thirty times of where the kernel stands, or all that is allowed."""
    kernel.fit(None, X)
    here, (low, high) = float(kernel.theta[0]), np.log(factors)
    seen.clear()
    learn_kernel(kernel, X, Y, np.zeros_like(Y))
    assert seen[0] == pytest.approx(here)  # before all others, where the kernel stands
    share = (np.array(seen[1 : n + 1]) - here - low) / (high - low)
    # no part of the range is left out, and none is looked at twice
    edges = np.concatenate(([0.0], np.sort(share), [1.0]))
    assert np.diff(edges).min() > 0.5 / (n + 4)
    assert np.diff(edges).max() < 2.0 / n


class Counted(RBF):
    def cross_to(self, Y, feature=None):
        sizes.add(len(Y))
        return super().cross_to(Y, feature)


sizes: set[int] = set()


@pytest.mark.parametrize(("n", "used"), [(299, 299), (300, 300), (450, 300)])
def test_at_most_300_rows_are_used(n, used):
    rows = np.linspace(0, 10, n)[:, None]
    kernel = Counted("evidence").fit(None, rows)
    sizes.clear()
    learned = learn_kernel(kernel, rows, np.sin(3 * rows), np.zeros_like(rows))
    assert sizes == {used}
    assert 0.1 < learned.lengthscale_ < 2.0  # the wave repeats every 2.1
