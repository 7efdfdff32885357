"""How a torch Module is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_tensor", "evaluation_mode", "is_module", "torch_predict", "torch_settings"]


def is_module(model: Any) -> bool:
    """Whether it is a Module; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


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
    return torch.as_tensor(np.array(rows, dtype=np.float64), dtype=dtype, device=device)


def torch_settings(module: Any) -> tuple[Any, Any]:
    """Data type and device of a module's parameters."""
    import torch

    parameter = next(module.parameters(), None)
    if parameter is None:
        return torch.get_default_dtype(), torch.device("cpu")
    return parameter.dtype, parameter.device


@contextmanager
def evaluation_mode(module: Any) -> Iterator[None]:
    """Evaluation mode inside, and every part of the module in its own mode again afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
