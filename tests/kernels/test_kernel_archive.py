"""Kernels as plain data and back."""

import numpy as np
import pytest

from gpec import _files
from gpec.errors import CorruptFileError, InputError, NotFittedError
from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, RBF, WEG
from gpec.kernels.archive import kernel_from_state, kernel_state

RNG = np.random.default_rng(0)
POINTS, X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=(20, 3)), RNG.normal(size=(9, 3))
KERNELS = {
    "EG": EG(),
    "WEG": WEG(),
    "WEG plain": WEG(lam=2.0, rho=0.5, normalize=False),
    "RBF": RBF(),
    "composed": 0.5 * WEG() + RBF(2.0) * (2 * EG()),
}


@pytest.mark.parametrize("n_landmarks", ["auto", 12])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_round_trip_through_a_file(kernel, n_landmarks, tmp_path):
    graph = GeodesicGraph.build(np.vstack((POINTS, POINTS[:5])), n_neighbors=4, n_landmarks=n_landmarks)
    kernel = kernel.__sklearn_clone__().fit(graph, X)
    _files.write(tmp_path / "kernel", "kernel", kernel_state(kernel))
    loaded = kernel_from_state(_files.read(tmp_path / "kernel", "kernel"))
    assert type(loaded) is type(kernel)
    assert loaded == kernel  # the same parameters
    assert loaded.diagnostics() == kernel.diagnostics()
    np.testing.assert_array_equal(loaded.gram(X), kernel.gram(X))
    np.testing.assert_array_equal(loaded.cross(X, Y), kernel.cross(X, Y))
    np.testing.assert_array_equal(loaded.diag(Y), kernel.diag(Y))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_restore_of_fitted_state(kernel):
    fitted = kernel.__sklearn_clone__().fit(POINTS, X)
    restored = kernel.__sklearn_clone__()
    assert restored.restore(fitted.fitted_state()) is restored
    np.testing.assert_array_equal(restored.gram(X), fitted.gram(X))
    with pytest.raises(NotFittedError):
        kernel.gram(X)


def test_a_kernel_of_another_class_is_not_saved():
    class Mine(RBF):
        pass

    with pytest.raises(InputError, match="class Mine cannot be saved"):
        kernel_state(Mine(1.0).fit())
    with pytest.raises(InputError, match="class Mine cannot be saved"):
        kernel_state((WEG() + Mine(1.0)).fit(POINTS))


def test_a_class_that_borrows_a_name_is_not_saved():
    borrowed = type("RBF", (RBF,), {"__init__": RBF.__init__})
    with pytest.raises(InputError, match="class RBF cannot be saved"):
        kernel_state(borrowed(1.0).fit())


def test_an_unknown_kind_is_named():
    state = kernel_state(RBF(1.0).fit())
    state["description"]["kind"] = "Popen"
    with pytest.raises(CorruptFileError, match="unknown kind 'Popen'"):
        kernel_from_state(state)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        kernel_state(WEG())
