"""Adapters for callables, explainers of the shap library, and attributions computed before."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from gpec._validation import check_choice
from gpec.data._equality import contents_of
from gpec.errors import ExplainerError, InputError
from gpec.explainers._coalitions import CoalitionExplainer
from gpec.explainers.attribution import Attribution, check_attribution
from gpec.explainers.base import Explainer
from gpec.models import Model, labels_in_order
from gpec.typing import FloatArray


@dataclass(eq=False, repr=False)
class CallableExplainer(Explainer):
    """A function of rows that returns attributions, or a pair of attributions and their variance.

    ``cheap=True`` states that ten rows are explained in little time, so that ``mode="auto"`` explains all similar rows.
    """

    rows_at_once = 64  # the cost of a row is unknown: with few rows, an interruption loses little work

    function: Callable[[Any], Any]
    _: KW_ONLY
    cheap: bool = False

    def check(self) -> None:
        check_choice("cheap", self.cheap, (True, False))

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        return _as_attribution(self.function(self.model_.schema.for_model(Z)))


@dataclass(eq=False, repr=False)
class Precomputed(Explainer):
    """Attributions that were computed before, looked up by the content of a row.

    Parameters
    ----------
    rows : array or DataFrame of shape (n, d)
        The rows that were explained; of equal rows the first is used.
    values : array of shape (n, d) or (n, d, c)
        Their attributions.
    variance : array of the same shape, optional
        The variance of the values.
    base_values : number or array of shape (n,), (c,) or (n, c), optional
        The value to which the attributions of a row are added.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.explainers.adapters import Precomputed
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> explainer = Precomputed(X, values=10 * X).fit(lambda X: np.full(len(X), 0.5), X)
    >>> explainer(X[1:2]).values
    array([[20., 30.]])
    """

    stochastic = False
    unit = "as given"
    rows_at_once = sys.maxsize  # so that errors use the user's row numbers

    rows: Any
    values: Any
    variance: Any = None
    base_values: Any = None

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        rows = model.schema.encode(self.rows, "rows")
        answer = Attribution(self.values, self.variance, self.base_values)
        self._attribution = check_attribution(answer, len(rows), rows.shape[1], model)
        self._place = {content: i for i, content in reversed(list(enumerate(contents_of(rows))))}

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        places = [self._place.get(content, -1) for content in contents_of(Z)]
        if -1 in places:
            raise InputError(
                f"Row {places.index(-1)} is not among the {len(self._place)} rows whose attributions were given. To "
                "use attributions that you have, call GPEC(model, None).fit(X, attributions=...); an explainer must "
                "work for any row."
            )
        return self._attribution.map(lambda part: part[places])


@dataclass(eq=False, repr=False)
class ShapAdapter(Explainer):
    """An explainer object of the shap library, already bound to its model.

    Explainers that draw from NumPy's global generator run row by row, each row with its own seed. Explainers of a torch
    Module that need tensors (Deep and Gradient) get tensors.

    For a PermutationExplainer a variance is computed. Its own ``error_std`` is not used: it is the spread over single
    forward and backward passes, and ignores that the two passes of a permutation partly cancel. Instead its budget
    ``max_evals`` is divided into calls of ``2 d + 1``, one permutation forward and backward (more if features equal the
    background). The value is the mean of the calls. The variance is their variance (ddof 1) divided by their number.
    """

    explainer: Any

    @property
    def cheap(self) -> bool:  # type: ignore[override]  # read-only: it follows from the object
        """True for trees, linear and additive models."""
        return type(self.explainer).__name__ in _CHEAP

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        kind = type(self.explainer).__name__
        own = labels_in_order(model.user_model, model.schema.labels)
        if self.cheap and own is not None and tuple(own) != model.schema.labels:  # it reads the model itself
            raise InputError(
                f"shap's {kind} takes columns by position, and those of X are not in the model's order; pass X[{own}]."
            )
        self.stochastic = False if kind in _DETERMINISTIC else None
        if kind == "TreeExplainer":
            self.unit = _unit_of_trees(self.explainer.model, model)
        self.rows_at_once = 64 if self.stochastic is False else 1
        parameters = inspect.signature(self.explainer.__call__).parameters
        # gpec shows one progress bar for all rows; shap would show one for each call
        self._options: dict[str, Any] = {"silent": True} if "silent" in parameters else {}
        self._n_calls = 1
        if kind == "PermutationExplainer":
            d, budget = background.shape[1], parameters["max_evals"].default
            n_calls = (20 * d if isinstance(budget, str) else int(budget)) // (2 * d + 1)
            if n_calls >= 2:
                self._n_calls = n_calls
                self._options["max_evals"] = 2 * d + 1

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        rows = self._rows(Z)
        with preserved_numpy_seed(seeds[0]):
            answers = [_as_attribution(self._call_shap(rows)) for _ in range(self._n_calls)]
        if self._n_calls == 1:
            return answers[0]
        values = np.stack([np.asarray(answer.values) for answer in answers])
        variance = values.var(axis=0, ddof=1) / self._n_calls
        return Attribution(values.mean(axis=0), variance, answers[0].base_values)

    def _call_shap(self, rows: Any) -> Any:
        try:
            return self.explainer(rows, **self._options)
        except Exception as error:
            if "Additivity check failed" not in str(error):
                raise
            raise ExplainerError(
                "shap's values do not add up to the model's answer for some rows, probably because a value is at a "
                "threshold of a tree and rounding to single precision moves it to the other side; use "
                "explainer='tree', which computes the same values in double precision."
            ) from error

    def _rows(self, Z: FloatArray) -> Any:
        rows = self.model_.schema.decode(Z)
        torch = sys.modules.get("torch")
        data = getattr(getattr(self.explainer, "explainer", None), "data", None)  # of Deep and Gradient
        first = data[0] if isinstance(data, list) and data else None
        if torch is None or not isinstance(first, torch.Tensor):
            return rows
        return torch.as_tensor(np.array(rows, dtype=np.float64), dtype=first.dtype, device=first.device)


class ShapKernel(CoalitionExplainer):
    """KernelSHAP of the shap library, without feature selection, for the model's answers or log-odds.

    Parameters
    ----------
    n_samples : int or "auto"
        Coalitions for each row; "auto" is shap's ``2 d + 2048``. Any number is used as it is, but fewer than ``d`` do
        not determine the values.
    link : {"identity", "logit"}
        Passed to shap, with shap's meaning: the value of a coalition is the log-odds of the mean probability over
        background rows. :class:`~gpec.explainers.KernelShap` uses the mean of log-odds.
    """

    rows_at_once = 1

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        import shap

        d = background.shape[1]
        budget = 2 * d + 2048 if isinstance(self.n_samples, str) else int(self.n_samples)
        # All coalitions are enumerated if there are few.
        self.stochastic = d > 30 or 2**d - 2 > budget
        self._coalitions = int(min(budget, 2.0 ** min(d, 60) - 2))
        self._shap = shap.KernelExplainer(self._answers, background, link=self.link)

    def model_rows(self, Z: FloatArray) -> int:
        return len(Z) * self._coalitions * len(self.background_)

    def _answers(self, Z: FloatArray) -> FloatArray:
        if self.link == "identity":
            return self.model_.answers(Z)
        return np.asarray(expit(self.model_.log_odds(Z)))  # shap would take the logarithm of 0

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        with preserved_numpy_seed(seeds[0]):
            values = self._shap.shap_values(Z, nsamples=self.n_samples, l1_reg=False, silent=True)
        return Attribution(values, base_values=for_each_row(self._shap.expected_value, len(Z)))


_CHEAP = ("AdditiveExplainer", "GPUTreeExplainer", "LinearExplainer", "TreeExplainer")
_DETERMINISTIC = (*_CHEAP, "DeepExplainer", "ExactExplainer")


def _unit_of_trees(trees: Any, model: Model) -> str:
    """What shap's TreeExplainer explains."""
    if trees.model_output == "log_loss":
        raise InputError("model_output='log_loss' of a TreeExplainer needs labels; use 'raw' or 'probability'.")
    if trees.model_output != "raw":
        return str(trees.model_output)  # "probability"
    if model.is_regressor or trees.tree_output == "probability":
        return model.kind.explained("identity")
    return "log-odds" if model.n_outputs == 1 else "margin"


def _as_attribution(answer: Any) -> Attribution:
    if isinstance(answer, Attribution):
        return answer
    if type(answer).__module__.partition(".")[0] == "shap":
        return Attribution(answer.values, base_values=answer.base_values)
    if isinstance(answer, tuple) and len(answer) == 2:
        return Attribution(*answer)
    return Attribution(answer)


def for_each_row(expected_value: Any, n: int) -> FloatArray:
    """Shap's expected value, one number or one for each output, as ``(n, outputs)``."""
    return np.tile(np.asarray(expected_value, dtype=np.float64).reshape(1, -1), (n, 1))


@contextmanager
def preserved_numpy_seed(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator, which shap uses, and restore its state afterwards."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
