"""Calls of an XGBoost Booster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.errors import InputError

__all__ = ["booster_output", "booster_predict"]


def booster_predict(booster: Any) -> Callable[[Any], npt.NDArray[Any]]:
    import xgboost

    def predict(rows: Any) -> npt.NDArray[Any]:
        names = booster.feature_names if isinstance(rows, np.ndarray) else None
        categorical = not isinstance(rows, np.ndarray)
        matrix = xgboost.DMatrix(rows, feature_names=names, enable_categorical=categorical)
        return np.asarray(booster.predict(matrix))

    return predict


def booster_output(booster: Any, stated: str = "auto") -> str:
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    outputs = {"binary:logistic": "probability", "multi:softprob": "probability", "binary:logitraw": "logit"}
    if objective.startswith(("reg:", "count:", "survival:")):
        return "value"
    if objective not in outputs and (stated != "value" or objective.startswith(("binary:", "multi:"))):
        raise InputError(
            f"The Booster has the objective {objective!r}; gpec needs one of {sorted(outputs)}, one for regression "
            "(reg:, count:, survival:), or a callable that returns probabilities or, with model_output='value', values."
        )
    return outputs.get(objective, "value")
