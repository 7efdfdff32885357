"""The condition number that dependent features report."""

import numpy as np
import pytest
from gp_helpers import problem

from gpec.gp import Parameters
from gpec.gp.tasks import TaskPosterior, Tasks

T = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]])


@pytest.mark.parametrize("nugget", [1e-4, 1e-2, 0.5])
def test_it_is_that_of_the_whole_matrix(nugget):
    """Rows so alike that the kernel matrix itself cannot be inverted."""
    p = problem(lengthscale=20.0)
    parameters = Parameters(np.ones(3), np.full(3, nugget), free_mean=True)
    found = TaskPosterior(p.kernel, p.X, p.Y, np.zeros_like(p.U), parameters, tasks=Tasks(T, 1.0, 0.0, 0.0)).condition
    whole = np.kron(T, p.kernel.gram(p.X)) + nugget * np.eye(p.Y.size)
    assert found == pytest.approx(np.linalg.cond(whole), rel=1e-3)
