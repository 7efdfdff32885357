"""What an explainer must do."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from gpec._progress import Progress
from gpec._randomness import derived_seed, make_seed
from gpec.data import Schema
from gpec.data._background import check_background
from gpec.errors import ExplainerError, GPECError, ModelCallError, ModelOutputError, NotFittedError
from gpec.explainers.attribution import Attribution, check_attribution
from gpec.models import Model
from gpec.typing import FloatArray

__all__ = ["Attribution", "Explainer", "check_attribution", "row_seed"]


class Explainer(BaseEstimator, ABC):
    """Base of the explainers: implement :meth:`_explain`, and :meth:`bind` or :meth:`learn` where there is need.

    :class:`gpec.GPEC` calls ``bind``, then ``learn``, then ``explain`` as often as it likes. Alone, an explainer is
    used as ``explainer.fit(model, X)`` and then ``explainer(X)``.

    Attributes
    ----------
    stochastic : bool or None
        Whether another run would answer differently; None if only trying tells.
    unit : str
        What the attributions measure.
    rows_at_once : int
        Rows explained in one call.
    learns : bool
        Whether it learns from all rows, as :meth:`learn` does.
    """

    stochastic: bool | None = None
    unit: str = "as the explainer gives them"
    rows_at_once: int = 1_024
    learns: bool = False

    def check(self) -> None:
        """Refuse parameters that can never be used; called before the first model call."""
        return

    def bind(self, model: Model, background: FloatArray) -> None:
        """Get to know the model (it has been called before) and the encoded background rows."""
        self.model_ = model
        self.background_ = background

    def learn(self, rows: FloatArray, seed: int) -> None:
        """Learn what :meth:`_explain` needs from all encoded rows. Called after :meth:`bind`, if ``learns`` is True."""
        return

    def prepare(self, model: Model, background: FloatArray, rows: FloatArray, seed: int) -> Self:
        """:meth:`bind`, then :meth:`learn`."""
        self.bind(model, background)
        if self.learns:
            self.learn(rows, seed)
        return self

    def fitted_state(self) -> dict[str, Any]:
        """What :meth:`learn` learned: numbers, texts and arrays, to be saved."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Set what :meth:`fitted_state` gave; called instead of :meth:`learn`, after :meth:`bind`."""
        return

    def fit(
        self,
        model: Any,
        X: Any,
        *,
        background: Any = 100,
        model_output: Literal["auto", "probability", "logit"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        random_state: Any = 0,
    ) -> Self:
        """Get ready to explain a model's predictions, without a :class:`gpec.GPEC`.

        Parameters
        ----------
        model, background, model_output, threshold, categorical_features, random_state
            As for :class:`gpec.GPEC`.
        X : array or DataFrame of shape (n, d)
            Rows like those the model was trained on.
        """
        self.check()
        schema, Z = Schema.learn(X, categorical_features=categorical_features)
        seed = make_seed(random_state)
        checked = Model(model, schema, model_output=model_output, threshold=threshold)
        rows = check_background(background, schema, Z, seed)
        checked.probabilities(Z[:1])  # tells the number of classes
        self.prepare(checked, rows, Z, seed)
        self.seed_ = seed
        return self

    def __call__(self, X: Any) -> Attribution:
        """Attributions of the rows ``X``; call :meth:`fit` first."""
        if not hasattr(self, "seed_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(model, X) first.")
        return self.explain(self.model_.schema.encode(X), seed=self.seed_).at_the_door()

    @abstractmethod
    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        """Attributions of encoded rows, in any shape :func:`check_attribution` takes; a seed for each row."""

    def explain(
        self, Z: FloatArray, *, seed: int, run: int = 0, progress: Literal["auto"] | bool = False
    ) -> Attribution:
        """Checked attributions of encoded rows, ``(n, d, c)``, where ``c`` is ``model.n_outputs``.

        Each row has a seed of its own, made from ``seed``, ``run`` and its content, so that its answer does not depend
        on the rows beside it.
        """
        parts = []
        with Progress(len(Z), "explaining", progress) as bar:
            for start in range(0, len(Z), self.rows_at_once):
                block = Z[start : start + self.rows_at_once]
                seeds = [row_seed(seed, run, row) for row in block]
                last = start + len(block) - 1
                try:
                    answer = self._explain(block, seeds)
                except (ModelCallError, ModelOutputError) as error:
                    raise _with_rows(error, start, last) from error.__cause__
                except GPECError:
                    raise
                except Exception as error:
                    raise ExplainerError(
                        f"The explainer raised {type(error).__name__} on rows {start} to {last} of {len(Z)}: {error}"
                    ) from error
                parts.append(check_attribution(answer, len(block), Z.shape[1], self.model_, start))
                bar.advance(len(block))
        return Attribution.join(parts)

    def predict(self, perturbed: FloatArray, first: int = 0) -> FloatArray:
        """Probabilities ``(n, s, c)`` for ``s`` perturbations of each of ``n`` rows, ``(n, s, d)``.

        ``first`` is the place of the first of these rows among those given to :meth:`_explain`; if the model fails, the
        error names the rows that were being explained.
        """
        n, s, d = perturbed.shape
        try:
            answer = self.model_.probabilities(perturbed.reshape(n * s, d))
        except (ModelCallError, ModelOutputError) as error:
            error.explained = (first + error.rows[0] // s, first + error.rows[1] // s)
            raise
        return answer.reshape(n, s, answer.shape[1])


def _with_rows(error: ModelCallError | ModelOutputError, start: int, last: int) -> ModelCallError | ModelOutputError:
    """The model's error, saying which rows were being explained."""
    if error.explained is not None:
        start, last = start + error.explained[0], start + error.explained[1]
    which = f"row {start}" if start == last else f"rows {start} to {last}"
    return type(error)(f"{str(error).rstrip('.')}; this was while explaining {which}.")


def row_seed(seed: int, run: int, row: FloatArray) -> int:
    key = zlib.crc32(np.ascontiguousarray(row + 0.0).tobytes())  # + 0.0: no negative zeros
    return derived_seed(seed, "explainer", run, key)
