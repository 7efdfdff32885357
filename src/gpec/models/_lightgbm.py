"""Calls of a LightGBM Booster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.errors import InputError

__all__ = ["lightgbm_output", "lightgbm_predict"]

_PROBABILITIES = ("binary", "cross_entropy", "multiclass")
_REGRESSIONS = (
    "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie",
)  # fmt: skip


def lightgbm_predict(booster: Any) -> Callable[[Any], npt.NDArray[Any]]:
    names = booster.feature_name()

    def predict(rows: Any) -> npt.NDArray[Any]:
        if isinstance(rows, pd.DataFrame) and set(rows.columns) == set(names):
            rows = rows[names]  # the Booster uses the position of columns, not their names
        return np.asarray(booster.predict(rows))

    return predict


def lightgbm_output(booster: Any, stated: str = "auto") -> str:
    lines = booster.model_to_string(num_iteration=1).splitlines()
    named = [line.removeprefix("objective=").split()[0] for line in lines if line.startswith("objective=")]
    objective = named[0] if named else "custom"
    if objective in _REGRESSIONS:
        return "value"
    if objective not in _PROBABILITIES and (stated != "value" or objective.startswith("multiclass")):
        raise InputError(
            f"The Booster has the objective {objective!r}; gpec needs one of {list(_PROBABILITIES)}, one for "
            "regression, or a callable that returns probabilities or, with model_output='value', numbers."
        )
    return "probability" if objective in _PROBABILITIES else "value"
