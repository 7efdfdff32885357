"""Calls of a torch Module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.typing import FloatArray

_ENOUGH = 10  # this many answers in a row between 0 and 1 are hardly logits


def is_module(model: Any) -> bool:
    """Whether it is a Module; torch is not imported to find out."""
    # while another thread is importing torch, it may be incomplete; then no model can be a Module yet
    kind = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    return kind is not None and isinstance(model, kind)


def torch_predict(module: Any) -> Callable[[Any], npt.NDArray[Any]]:
    import torch

    def predict(rows: Any) -> npt.NDArray[Any]:
        tensor = as_tensor(module, rows)
        with evaluation_mode(module), torch.no_grad():
            output = module(tensor)
        return np.asarray(output.detach().cpu().double().numpy())

    return predict


def as_tensor(module: Any, rows: Any) -> Any:
    """Rows as a tensor of the module's data type, on its device."""
    import torch

    dtype, device = torch_settings(module)
    if isinstance(rows, pd.DataFrame):
        rows = rows.to_numpy(dtype=np.float64, na_value=np.nan)
    return torch.as_tensor(np.array(rows, dtype=np.float64), dtype=dtype, device=device)


def torch_settings(module: Any) -> tuple[Any, Any]:
    """Data type and device of a module's parameters."""
    import torch

    parameter = next(module.parameters(), None)
    if parameter is None:
        return torch.get_default_dtype(), torch.device("cpu")
    return parameter.dtype, parameter.device


def final_activation(module: Any, output: FloatArray, seen: int) -> str | None:
    """The module's final activation, guessed from its last layer and its output.

    None if it returns logits, "" if more answers are needed. ``seen`` is the number of earlier answers, all between 0
    and 1. With several classes, logarithms of probabilities count as logits.
    """
    last = type(list(module.modules())[-1]).__name__
    several = output.shape[1] > 1
    if not ((output >= 0) & (output <= 1)).all():
        return last if last == "LogSigmoid" and not several and bool((output <= 0).all()) else None
    if last in ("Sigmoid", "Softmax"):
        return last
    if several:
        return "Softmax" if np.allclose(output.sum(axis=1), 1.0, rtol=0, atol=1e-4) else None
    return "Sigmoid" if seen + len(output) >= _ENOUGH else ""


@contextmanager
def evaluation_mode(module: Any) -> Iterator[None]:
    """A context with the module in evaluation mode; afterwards the mode of every part is restored."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
