"""The parameters of a GPEC, checked before the first model call."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from gpec._validation import check_auto, check_auto_count, check_choice, check_count, check_n_jobs
from gpec.errors import InputError, ParameterTypeError
from gpec.explainers import Explainer
from gpec.explainers.noise import check_noise
from gpec.models import Model
from gpec.runtime.blocks import Execution
from gpec.runtime.checkpoint import BlockCache

_PLAIN = (str, int, float, bool, type(None))
FREE = ("batch_size", "n_jobs", "progress", "budget")  # what may differ when work goes on
USUAL_ROWS = 200  # explained in fit, if the number of their samples is fixed
_MOST_GIVEN = 500  # whose attributions are given, from which fit learns
_MOST_ROWS, _MOST_WITHIN = 300, 2_000  # with fewer samples, and within a budget
_FEWEST, _LEAST_PRICE = 20, 80  # rows, and model rows of one in fit and calibrate, that a budget is thought to buy
_KEPT_ELSEWHERE = ("random_state", "boundary", "mode")  # a file holds the seed, the boundary points, and the mode used


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of :class:`gpec.GPEC` except the model; making one refuses what can never be used."""

    explainer: Any
    mode: Literal["auto", "explain", "predict"]
    kernel: Any
    similar: Any
    task_kernel: Any
    groups: Any
    lam: float | Literal["auto", "evidence"]
    rho: float | Literal["auto", "evidence"]
    boundary: Any
    n_boundary: int | Literal["auto"]
    n_neighbors: int
    n_landmarks: int | Literal["auto"]
    components: Literal["separate", "bridge"]
    n_explained: int | Literal["auto"]
    fit_samples: int | Literal["auto", "full"]
    budget: int | None
    draw: Literal["output", "uniform"]
    background: Any
    noise: Any
    n_resamples: int
    output_scale: float | Literal["evidence"]
    standardize: bool
    model_output: Literal["auto", "probability", "logit", "value"]
    threshold: float
    categorical_features: Any
    random_state: Any
    batch_size: int | None
    n_jobs: int | None
    progress: Literal["auto"] | bool

    def __post_init__(self) -> None:
        if self.mode in ("classification", "regression"):
            raise InputError(
                f"mode={self.mode!r} must be 'auto', 'explain' or 'predict', which say how attributions of similar "
                "rows are found; model_output says what the model returns."
            )
        check_choice("mode", self.mode, ("auto", "explain", "predict"))
        check_auto_count("n_boundary", self.n_boundary, least=10)
        check_count("n_neighbors", self.n_neighbors)
        check_auto_count("n_landmarks", self.n_landmarks)
        check_choice("components", self.components, ("separate", "bridge"))
        check_auto_count("n_explained", self.n_explained)
        if self.fit_samples != "full":
            check_auto_count("fit_samples", self.fit_samples)
        if self.budget is not None:
            check_count("budget", self.budget)
        check_choice("draw", self.draw, ("output", "uniform"))
        check_noise(self.noise)
        check_count("n_resamples", self.n_resamples, least=2)
        check_choice("standardize", self.standardize, (True, False))
        check_choice("progress", self.progress, ("auto", True, False))
        check_auto("output_scale", self.output_scale, word="evidence")
        check_auto("lam", self.lam, word=("auto", "evidence"))
        check_auto("rho", self.rho, word=("auto", "evidence"), zero=True)
        if self.batch_size is not None:
            check_count("batch_size", self.batch_size)
        check_n_jobs(self.n_jobs)
        if self.categorical_features is not None and not isinstance(self.categorical_features, Iterable):
            raise ParameterTypeError(
                f"categorical_features={self.categorical_features!r} must be 'auto', None or a list of columns."
            )

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> Settings:
        """From ``GPEC.get_params(deep=False)``."""
        return cls(**{name: value for name, value in parameters.items() if name != "model"})

    def execution(self, cache: BlockCache | None = None) -> Execution:
        """How blocks of rows run."""
        return Execution(self.n_jobs, self.progress, cache)

    def asking(self, model: Model, cache: BlockCache | None = None) -> AbstractContextManager[None]:
        """A context in which the model is asked as the settings say, and its answers are kept in a checkpoint."""
        return model.during(self.batch_size, self.n_jobs, cache)

    def usual_rows(self, explainer: Explainer | None) -> int:
        """Rows that fit explains if it explains as many as it can; 0 if a pilot or a budget decides."""
        if not isinstance(self.n_explained, str):
            return self.n_explained
        by_pilot = explainer is not None and explainer.samples is not None and self.fit_samples == "auto"
        return 0 if by_pilot or self.budget is not None else USUAL_ROWS

    @property
    def most_explained(self) -> int:
        """Rows that fit explains at most."""
        if not isinstance(self.n_explained, str):
            return self.n_explained
        chosen = self.fit_samples == "auto" and isinstance(self.noise, str) and self.noise == "auto"
        if not chosen and self.budget is None:
            return USUAL_ROWS
        return _MOST_ROWS if self.budget is None else max(_FEWEST, min(_MOST_WITHIN, self.budget // _LEAST_PRICE))

    @property
    def most_given(self) -> int:
        """Rows with given attributions from which fit learns at most."""
        return _MOST_GIVEN if isinstance(self.n_explained, str) else self.n_explained

    @property
    def learns_scale(self) -> bool:
        return isinstance(self.output_scale, str)

    def describe(self) -> dict[str, Any]:
        """As numbers and short texts, for results that carry their settings."""
        return {name: value if _is_plain(value) else f"<{type(value).__name__}>" for name, value in self._items()}

    def state(self) -> dict[str, Any]:
        """What of them a file can hold; objects are left out."""
        plain = {name: value for name, value in self._items() if _is_plain(value) and name not in _KEPT_ELSEWHERE}
        if isinstance(self.noise, (list, tuple, np.ndarray)):
            plain["noise"] = np.asarray(self.noise)
        if not _is_plain(self.categorical_features):
            plain["categorical_features"] = list(np.asarray(self.categorical_features, dtype=object))
        if not _is_plain(self.task_kernel):
            graph = isinstance(self.task_kernel, dict)
            plain["task_kernel"] = dict(self.task_kernel) if graph else np.asarray(self.task_kernel)
        if self.groups is not None:
            plain["groups"] = {name: list(columns) for name, columns in self.groups.items()}
        return plain

    def _items(self) -> list[tuple[str, Any]]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return [(name, value.item() if isinstance(value, np.generic) else value) for name, value in values]


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN)
