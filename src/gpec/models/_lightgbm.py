"""How a LightGBM Booster is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.errors import InputError
from gpec.models._regression import REGRESSION

__all__ = ["lightgbm_output", "lightgbm_predict"]

_PROBABILITIES = ("binary", "cross_entropy", "multiclass")
_REGRESSIONS = (
    "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie",
)  # fmt: skip


def lightgbm_predict(booster: Any) -> Callable[[Any], npt.NDArray[Any]]:
    names = booster.feature_name()

    def predict(rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, pd.DataFrame) and set(rows.columns) == set(names):
            rows = rows[names]  # it goes by position
        return np.asarray(booster.predict(rows))

    return predict


def lightgbm_output(booster: Any) -> str:
    lines = booster.model_to_string(num_iteration=1).splitlines()
    stated = [line.removeprefix("objective=").split()[0] for line in lines if line.startswith("objective=")]
    objective = stated[0] if stated else "custom"
    if objective in _REGRESSIONS:
        raise InputError(f"The Booster has the objective {objective!r}. {REGRESSION}")
    if objective not in _PROBABILITIES:
        raise InputError(
            f"The Booster has the objective {objective!r}; gpec needs one of {list(_PROBABILITIES)}, or a callable "
            "that returns probabilities."
        )
    return "probability"
