"""Kernels as plain data and back."""

import numpy as np
import pytest

from archive_helpers import kernel_through_file
from gpec.errors import CorruptFileError, InputError, NotFittedError
from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, RBF, WEG, Kernel, Product, Scaled, Sum

RNG = np.random.default_rng(0)
POINTS, X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=(20, 3)), RNG.normal(size=(9, 3))
KERNELS = {
    "EG": EG(),
    "WEG": WEG(),
    "WEG plain": WEG(lam=2.0, rho=0.5, normalize=False),
    "RBF": RBF(),
    "RBF to be learned": RBF("evidence"),
    "composed": 0.5 * WEG() + RBF(2.0) * (2 * EG()),
    "composed to be learned": Scaled("evidence", WEG()) + RBF("evidence"),
}


@pytest.mark.parametrize("n_landmarks", ["auto", 12])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_round_trip_through_a_file(kernel, n_landmarks):
    graph = GeodesicGraph.build(np.vstack((POINTS, POINTS[:5])), n_neighbors=4, n_landmarks=n_landmarks)
    kernel = kernel.__sklearn_clone__().fit(graph, X)
    kernel.theta = kernel.theta + 0.1  # as if learned
    loaded = kernel_through_file(kernel)
    assert type(loaded) is type(kernel)
    assert loaded == kernel  # the same parameters
    assert loaded.diagnostics() == kernel.diagnostics()
    np.testing.assert_array_equal(loaded.gram(X), kernel.gram(X))
    np.testing.assert_array_equal(loaded.cross(X, Y), kernel.cross(X, Y))
    np.testing.assert_array_equal(loaded.diag(Y), kernel.diag(Y))
    np.testing.assert_array_equal(loaded.theta, kernel.theta)
    np.testing.assert_array_equal(loaded.bounds, kernel.bounds)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_state_of_an_unfitted_kernel_is_an_unfitted_kernel(kernel):
    again = Kernel.from_state(kernel.state())
    assert again == kernel
    with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
        again.gram(X)
    np.testing.assert_array_equal(again.fit(POINTS, X).gram(X), kernel.__sklearn_clone__().fit(POINTS, X).gram(X))


def test_a_state_is_not_changed_by_using_what_came_from_it():
    state = (0.5 * WEG() + RBF(2.0)).fit(POINTS, X).state()
    first = Kernel.from_state(state)
    before = first.gram(X)
    Kernel.from_state(state).fit(POINTS[:30] * 2, X * 2)
    np.testing.assert_array_equal(Kernel.from_state(state).gram(X), before)


class Mine(RBF):
    """A class from elsewhere; it has an array of its own."""

    def _fit(self, graph, rows):
        super()._fit(graph, rows)
        self.weights_ = np.arange(1.0, 4.0)
        self.word_ = "bent"

    def cross_to(self, Y, feature=None):
        inner = super().cross_to(Y, feature)

        def cross_and_diagonal(X):
            K, diagonal = inner(X)
            a, b = (rows.embedded @ self.weights_ for rows in (X, Y))
            return K + np.outer(a, b), diagonal + a**2

        return cross_and_diagonal


@pytest.mark.parametrize(
    "kernel", [Mine(1.0), 0.5 * WEG() + Mine("evidence"), Mine() * Mine(2.0)], ids=["alone", "in a sum", "twice"]
)
def test_a_kernel_of_another_class_is_saved_like_ours(kernel):
    fitted = kernel.__sklearn_clone__().fit(POINTS, X)
    loaded = kernel_through_file(fitted)
    assert type(loaded) is type(kernel)
    np.testing.assert_array_equal(loaded.gram(X), fitted.gram(X))
    if type(loaded) is Mine:
        assert loaded.word_ == "bent"


def test_a_class_that_borrows_a_name_is_another_kind():
    borrowed = type("RBF", (RBF,), {"__init__": RBF.__init__, "__module__": __name__})
    state = borrowed(1.0).fit().state()
    assert state["kind"] != RBF(1.0).state()["kind"]
    assert type(Kernel.from_state(state)) is borrowed
    assert type(Kernel.from_state(RBF(1.0).state())) is RBF


def test_what_cannot_be_written_is_refused():
    kernel = RBF(1.0).fit()
    kernel.function_ = lambda x: x
    with pytest.raises(InputError, match="Cannot save a value of type function"):
        kernel_through_file(kernel)


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(1.0) + WEG()], ids=["alone", "in a sum"])
def test_an_unknown_kind_is_named(kernel):
    state = kernel.state()
    inner = state if "first" not in state["parameters"] else state["parameters"]["first"]["kernel"]
    inner["kind"] = "Popen"
    with pytest.raises(CorruptFileError, match="unknown kind 'Popen'; import the module that defines it"):
        Kernel.from_state(state)


def test_kinds_of_ours_are_their_names():
    """Files of other releases must find them again."""
    kernels = [EG(), WEG(), RBF(), RBF() + RBF(), RBF() * RBF(), 2.0 * RBF()]
    assert [kernel.state()["kind"] for kernel in kernels] == ["EG", "WEG", "RBF", "Sum", "Product", "Scaled"]
    assert (type(kernels[3]), type(kernels[4]), type(kernels[5])) == (Sum, Product, Scaled)


GARBLED = {
    "a part is missing": (lambda s: s.pop("learned"), "kernel that lacks a part"),
    "a number for a kind": (lambda s: s.update(kind=[1]), "unknown kind"),
    "an unknown parameter": (
        lambda s: s["parameters"].update(depth=1),
        "WEG kernel in the file .*depth",
    ),
    "a parameter out of range": (lambda s: s["parameters"].update(lam=-1.0), "cannot be used: lam=-1"),
    "an unknown name": (lambda s: s["learned"].update(depth_=1.0), "'depth_' is unknown"),
    "a method": (lambda s: s["learned"].update(fit=1.0), "'fit' is unknown"),
    "not finite": (lambda s: s["learned"].update(B_=np.full((60, 3), np.nan)), r"WEG kernel\.B_ has numbers"),
    "another size": (lambda s: s["learned"].update(r_=np.ones(3)), r"WEG kernel\.\w+ has shape"),
    "a negative remainder": (lambda s: s["learned"].update(r_=-np.ones(60)), r"r_ is from -1 to -1, but must be"),
    "no length": (lambda s: s["learned"].update(lam_=0.0), r"lam_ is 0\.0, but must be greater than 0"),
    "a text for points": (lambda s: s["learned"].update(points_="a"), r"points_ is 'a', but must be an array"),
}


@pytest.mark.parametrize("case", GARBLED)
def test_a_state_is_checked(case):
    change, message = GARBLED[case]
    state = WEG().fit(POINTS, X).state()
    assert isinstance(Kernel.from_state(state), WEG)
    change(state)
    with pytest.raises(CorruptFileError, match=message):
        Kernel.from_state(state)


def test_what_a_part_learned_is_checked():
    state = (RBF(1.0) + RBF("evidence")).fit(None, X).state()
    del state["learned"]["second_"]["kernel"]["learned"]["median_"]
    with pytest.raises(CorruptFileError, match="median_"):
        Kernel.from_state(state)


def test_arrays_of_another_class_are_finite():
    state = Mine(1.0).fit(None, X).state()
    state["learned"]["weights_"] = np.array([np.inf])
    with pytest.raises(CorruptFileError, match=r"Mine kernel\.weights_ has numbers that are not finite"):
        Kernel.from_state(state)
