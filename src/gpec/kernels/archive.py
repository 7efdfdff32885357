"""Kernels as plain data, for files."""

from __future__ import annotations

from typing import Any

from gpec.errors import CorruptFileError, InputError
from gpec.kernels.base import Kernel
from gpec.kernels.compose import Product, Scaled, Sum
from gpec.kernels.rbf import RBF
from gpec.kernels.weg import EG, WEG

__all__ = ["kernel_from_state", "kernel_state"]

_KINDS: dict[str, type[Kernel]] = {kind.__name__: kind for kind in (EG, RBF, WEG, Product, Scaled, Sum)}


def kernel_state(kernel: Kernel) -> dict[str, Any]:
    """Parameters and fitted state of a kernel."""
    return {"description": _describe(kernel), "fitted": kernel.fitted_state()}


def kernel_from_state(state: dict[str, Any]) -> Kernel:
    """The kernel that gave ``state``."""
    return _build(state["description"]).restore(state["fitted"])


def _describe(kernel: Kernel) -> dict[str, Any]:
    kind = type(kernel).__name__
    if _KINDS.get(kind) is not type(kernel):
        raise InputError(f"A kernel of the class {kind} cannot be saved; only those of gpec.kernels can.")
    parameters = kernel.get_params(deep=False)
    described = {name: _describe(value) if isinstance(value, Kernel) else value for name, value in parameters.items()}
    return {"kind": kind, "parameters": described}


def _build(description: dict[str, Any]) -> Kernel:
    kind = description["kind"]
    if kind not in _KINDS:
        raise CorruptFileError(f"The file holds a kernel of the unknown kind {kind!r}.")
    parameters = {
        name: _build(value) if isinstance(value, dict) else value for name, value in description["parameters"].items()
    }
    return _KINDS[kind](**parameters)
