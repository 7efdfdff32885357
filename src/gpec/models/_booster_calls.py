"""Calls of XGBoost and LightGBM Boosters, and what they return."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.errors import InputError

_PROBABILITIES = ("binary", "cross_entropy", "multiclass")
_REGRESSIONS = (
    "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie",
)  # fmt: skip


def is_booster(model: Any, package: str) -> bool:
    """Whether it is the package's Booster; the package is not imported to find out."""
    module = sys.modules.get(package)
    return module is not None and isinstance(model, module.Booster)


def xgboost_predict(booster: Any) -> Callable[[Any], npt.NDArray[Any]]:
    import xgboost

    def predict(rows: Any) -> npt.NDArray[Any]:
        names = booster.feature_names if isinstance(rows, np.ndarray) else None
        categorical = not isinstance(rows, np.ndarray)
        matrix = xgboost.DMatrix(rows, feature_names=names, enable_categorical=categorical)
        return np.asarray(booster.predict(matrix))

    return predict


def xgboost_output(booster: Any, stated: str = "auto") -> str:
    """What the Booster returns: a "probability", a "logit" or a "value"; ``stated`` by the user."""
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    outputs = {"binary:logistic": "probability", "multi:softprob": "probability", "binary:logitraw": "logit"}
    if objective in outputs:
        return outputs[objective]
    regressions = ("reg:", "count:", "survival:")
    is_value = objective.startswith(regressions)
    return _as_value(objective, is_value, stated, ("binary:", "multi:"), [*sorted(outputs), *regressions])


def lightgbm_output(booster: Any, stated: str = "auto") -> str:
    """The same for LightGBM."""
    lines = booster.model_to_string(num_iteration=1).splitlines()
    named = [line.removeprefix("objective=").split()[0] for line in lines if line.startswith("objective=")]
    objective = named[0] if named else "custom"
    if objective in _PROBABILITIES:
        return "probability"
    return _as_value(objective, objective in _REGRESSIONS, stated, ("multiclass",), [*_PROBABILITIES, *_REGRESSIONS])


def _as_value(objective: str, is_value: bool, stated: str, of_classes: tuple[str, ...], known: list[str]) -> str:
    """The word "value"; raise unless a regressor has the objective, or the user says so of one that is not known."""
    if not is_value and (stated != "value" or objective.startswith(of_classes)):
        raise InputError(
            f"The Booster has the objective {objective!r}; gpec needs one of {known}, or a callable that returns "
            "probabilities or, with model_output='value', values."
        )
    return "value"
