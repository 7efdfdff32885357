"""Packages that the core does not need. A test that uses one is skipped where it is not installed.

``from extras import torch`` instead of ``import torch``: what else is in the file runs without it.
"""

from importlib.util import find_spec
from typing import Any

import pytest

_SEVERAL = ("catboost", "dash", "dask", "onnxruntime", "plotly", "polars", "skimage", "skops", "torch")
MISSING = [name for name in _SEVERAL if find_spec(name) is None]


class _Extra:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest and doctest look for their marks
            raise AttributeError(attribute)
        return getattr(pytest.importorskip(self._name), attribute)


catboost = _Extra("catboost")
lightgbm = _Extra("lightgbm")
lime_tabular = _Extra("lime.lime_tabular")
mpmath = _Extra("mpmath")
nn = _Extra("torch.nn")
polars = _Extra("polars")
torch = _Extra("torch")
xgboost = _Extra("xgboost")
