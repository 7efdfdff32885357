"""Cholesky factors in place: what SciPy's functions give, with SciPy's functions and without."""

import threading

import numpy as np
import pytest
from scipy.linalg import cho_solve, solve_triangular

from gpec.gp import _lapack


@pytest.fixture(params=["by address", "by SciPy's functions"])
def way(request, monkeypatch):
    if request.param != "by address":
        monkeypatch.setattr(_lapack, "_routine", lambda name: None)


def matrices(F, n, seed=0):
    B = np.random.default_rng(seed).normal(size=(F, n, n + 2))
    return B @ B.transpose(0, 2, 1)


@pytest.mark.parametrize(("F", "n", "m"), [(1, 1, 1), (3, 7, 2), (2, 130, 5)])
def test_factor_solutions_and_inverse(way, F, n, m):
    A = matrices(F, n)
    L, B = A.copy(), np.random.default_rng(1).normal(size=(F, m, n))
    assert _lapack.cholesky(L)
    for f in range(F):
        np.testing.assert_allclose(np.tril(L[f]), np.linalg.cholesky(A[f]), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(np.triu(L[f], 1), np.triu(A[f], 1))
    X = B.copy()
    _lapack.forward(L, X)
    for f in range(F):
        expected = solve_triangular(np.tril(L[f]), B[f].T, lower=True).T
        np.testing.assert_allclose(X[f], expected, rtol=1e-9, atol=1e-12)
    _lapack.backward(L, X)
    for f in range(F):
        np.testing.assert_allclose(X[f], cho_solve((L[f], True), B[f].T).T, rtol=1e-7, atol=1e-10)
    _lapack.inverse(L)
    for f in range(F):
        np.testing.assert_allclose(np.tril(L[f]), np.tril(np.linalg.inv(A[f])), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_matrix_that_has_none(way, which):
    A = matrices(3, 5)
    A[which, 2, 2] = -1.0
    assert not _lapack.cholesky(A)


def test_arrays_that_lapack_would_misread():
    A = matrices(2, 4)
    for wrong in (A.transpose(0, 2, 1), A[:, ::2, ::2], A.astype(np.float32)):
        with pytest.raises(TypeError, match="C-contiguous arrays of 64-bit numbers"):
            _lapack.cholesky(wrong)


def test_other_integers_are_noticed(monkeypatch):
    """Where SciPy is built with 64-bit integers its routines must not be given pointers to others."""
    assert (
        _lapack._plain("void (char *, int *, __pyx_t_5scipy_6linalg_13cython_lapack_d *)") == "void (char *,int *,d *)"
    )
    monkeypatch.setitem(_lapack._PARAMETERS, "dpotrf", "char *,int64_t *,d *,int64_t *,int64_t *")
    _lapack._routine.cache_clear()
    try:
        assert _lapack._routine("dpotrf") is None
        A = matrices(1, 4)
        L = A.copy()
        assert _lapack.cholesky(L)
        np.testing.assert_allclose(np.tril(L[0]), np.linalg.cholesky(A[0]), rtol=1e-12)
    finally:
        _lapack._routine.cache_clear()


def test_other_threads_go_on_meanwhile():
    """Python's lock is let go: a thread that counts gets on while LAPACK computes."""
    if _lapack._routine("dpotrf") is None:
        pytest.skip("SciPy offers other routines here")
    A, stop, count = matrices(1, 1500), threading.Event(), [0]

    def work():
        while not stop.is_set():
            count[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while not count[0]:
            pass
        before = count[0]
        _lapack.cholesky(A)
        assert count[0] > before + 100
    finally:
        stop.set()
        thread.join()
