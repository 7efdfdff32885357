"""Explainers of others: any callable, any shap explainer, and shap's KernelSHAP and TreeSHAP by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gpec.errors import ExplainerError, InputError, ParameterTypeError
from gpec.explainers.base import Attribution, Explainer
from gpec.model import Model
from gpec.table import FloatArray
from gpec.validation import check_choice, check_count

__all__ = ["CallableExplainer", "KernelShap", "ShapAdapter", "TreeShap", "make_explainer"]


class CallableExplainer(Explainer):
    """A function of rows that returns attributions, or a pair of attributions and their variance."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        return _as_attribution(self.function(self.model_.table.decode(Z)))


class ShapAdapter(Explainer):
    """An explainer object of the shap library, already bound to its model.

    Those that draw from NumPy's global generator are run row by row, each with a seed of its own.
    """

    def __init__(self, explainer: Any) -> None:
        self.explainer = explainer

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self.stochastic = False if type(self.explainer).__name__ in _DETERMINISTIC else None
        self.rows_at_once = 64 if self.stochastic is False else 1
        # gpec shows one bar for all rows; shap would show one for each call
        self._options = {"silent": True} if "silent" in inspect.signature(self.explainer.__call__).parameters else {}

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        with _preserved_numpy_seed(seeds[0]):
            return _as_attribution(self.explainer(self.model_.table.decode(Z), **self._options))


class KernelShap(Explainer):
    """KernelSHAP by the shap library, without feature selection, of the model's probabilities.

    Parameters
    ----------
    n_samples : int or "auto"
        Coalitions a row; "auto" is shap's ``2 d + 2048``.
    """

    unit = "probability"
    rows_at_once = 1

    def __init__(self, n_samples: int | str = "auto") -> None:
        self.n_samples = n_samples

    def check(self) -> None:
        if isinstance(self.n_samples, str):
            check_choice("n_samples", self.n_samples, ("auto",))
        else:
            check_count("n_samples", self.n_samples)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        import shap

        d = background.shape[1]
        budget = 2 * d + 2048 if isinstance(self.n_samples, str) else int(self.n_samples)
        # All coalitions are enumerated when there are few of them.
        self.stochastic = d > 30 or 2**d - 2 > budget
        self._shap = shap.KernelExplainer(model.probabilities, background, link="identity")

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        with _preserved_numpy_seed(seeds[0]):
            values = self._shap.shap_values(Z, nsamples=self.n_samples, l1_reg=False, silent=True)
        return Attribution(values, base_values=_for_each_row(self._shap.expected_value, len(Z)))


class TreeShap(Explainer):
    """Interventional TreeSHAP by the shap library, of the model's probabilities; deterministic."""

    stochastic = False
    unit = "probability"
    rows_at_once = 64

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        import shap

        try:
            self._shap = shap.TreeExplainer(
                model.user_model,
                data=model.table.decode(background),
                feature_perturbation="interventional",
                model_output="probability",
            )
        except Exception as error:
            raise ExplainerError(
                f"shap's TreeExplainer does not take this {type(model.user_model).__name__} ({error}); use "
                "explainer='kernelshap', or pass a shap explainer of your own."
            ) from error
        # shap rounds explained rows to the model's precision but not the background: rows near a threshold would
        # fall on its other side.
        self._shap.data = self._shap.data.astype(self._shap.model.input_dtype)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        values = self._shap.shap_values(self.model_.table.decode(Z), check_additivity=False)
        return Attribution(values, base_values=_for_each_row(self._shap.expected_value, len(Z)))


_DETERMINISTIC = ("AdditiveExplainer", "ExactExplainer", "GPUTreeExplainer", "LinearExplainer", "TreeExplainer")
_BY_NAME: dict[str, type[Explainer]] = {"kernelshap": KernelShap, "tree": TreeShap}


def make_explainer(explainer: Any) -> Explainer:
    """The explainer meant by a name, an object of gpec or shap, or a function; new, not bound to a model."""
    if isinstance(explainer, Explainer):
        # a new object: binding it to a model leaves the user's alone, but what that holds is used, not copied
        fresh = type(explainer)(**explainer.get_params(deep=False))
        fresh.check()
        return fresh
    if isinstance(explainer, str):
        if explainer not in _BY_NAME:
            raise InputError(
                f"explainer={explainer!r} is not one of {sorted(_BY_NAME)}; a shap explainer or any function "
                "X -> (n, d) can be passed instead."
            )
        return _BY_NAME[explainer]()
    if isinstance(explainer, type):
        raise ParameterTypeError(f"explainer is the class {explainer.__name__}; pass an instance of it.")
    if callable(explainer):
        of_shap = type(explainer).__module__.partition(".")[0] == "shap"
        return ShapAdapter(explainer) if of_shap else CallableExplainer(explainer)
    raise ParameterTypeError(
        f"explainer must be a name, an explainer object or a callable, got {type(explainer).__name__}."
    )


def _as_attribution(answer: Any) -> Attribution:
    if isinstance(answer, Attribution):
        return answer
    if type(answer).__module__.partition(".")[0] == "shap":
        return Attribution(answer.values, base_values=answer.base_values)
    if isinstance(answer, tuple) and len(answer) == 2:
        return Attribution(*answer)
    return Attribution(answer)


def _for_each_row(expected_value: Any, n: int) -> FloatArray:
    """The expected value of shap, a number or one for each output, as ``(n, outputs)``."""
    return np.tile(np.asarray(expected_value, dtype=np.float64).reshape(1, -1), (n, 1))


@contextmanager
def _preserved_numpy_seed(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator, which shap draws from, and put it back as it was."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
