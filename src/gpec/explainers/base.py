"""What an explainer must do."""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator

from gpec.data import Groups, Schema
from gpec.data._background import check_background
from gpec.data._equality import contents_of
from gpec.errors import ExplainerError, GPECError, ModelCallError, ModelOutputError, NotFittedError
from gpec.explainers._cost import Watch
from gpec.explainers._grouped import grouped
from gpec.explainers.attribution import Attribution, check_attribution
from gpec.models import Model
from gpec.models._torch import is_module
from gpec.runtime.blocks import Execution, on_cluster
from gpec.runtime.randomness import derived_seed, make_seed
from gpec.typing import FloatArray

__all__ = ["Attribution", "Explainer", "check_attribution", "row_seed"]

_MODEL_ROWS_AT_ONCE = 262_144  # in one block: enough for full batches, few enough that threads share the work


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
        Most rows explained in one call.
    learns : bool
        Whether it learns from all rows, as :meth:`learn` does.
    threads : bool
        Whether several threads may explain at once. False where that would touch what is global, such as the state of
        NumPy's generator, or code of others.
    remedy : str
        What costs less, for the warning that a run is going to be long.
    """

    stochastic: bool | None = None
    unit: str = "as the explainer gives them"
    rows_at_once: int = 1_024
    learns: bool = False
    threads: bool = False
    remedy: str = "explaining fewer rows costs less"
    groups_: Groups | None = None  # of features, whose attributions are added

    def check(self) -> None:
        """Refuse parameters that can never be used; called before the first model call."""

    def bind(self, model: Model, background: FloatArray) -> None:
        """Get to know the model (it has been called before) and the encoded background rows."""
        self.model_ = model
        self.background_ = background

    def learn(self, rows: FloatArray, seed: int) -> None:
        """Learn what :meth:`_explain` needs from all encoded rows. Called after :meth:`bind`, if ``learns`` is True."""

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

    def fit(
        self,
        model: Any,
        X: Any,
        *,
        background: Any = 100,
        model_output: Literal["auto", "probability", "logit", "value"] = "auto",
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
        checked.answers(Z[:1])  # tells the number of classes
        self.prepare(checked, rows, Z, seed)
        self.seed_ = seed
        return self

    def __call__(self, X: Any, *, n_jobs: int | None = None) -> Attribution:
        """Attributions of the rows ``X``, on ``n_jobs`` threads; call :meth:`fit` first."""
        if not hasattr(self, "seed_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(model, X) first.")
        Z = self.model_.schema.encode(X)
        return self.explain(Z, seed=self.seed_, execution=Execution(n_jobs)).squeeze_single_output()

    @abstractmethod
    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        """Attributions of encoded rows, in any shape :func:`check_attribution` takes; a seed for each row."""

    def explain(
        self,
        Z: FloatArray,
        *,
        seed: int,
        run: int = 0,
        n_runs: int = 1,
        execution: Execution | None = None,
    ) -> Attribution:
        """Checked attributions of encoded rows, ``(n, d, c)``, where ``c`` is ``model.n_outputs``.

        Each row has its own seed, made from ``seed``, ``run`` and its content. So its answer does not depend on the
        rows beside it. ``execution`` runs the blocks of rows, on several threads if the explainer allows it and the
        model is not a torch Module. The size of a block does not depend on the number of threads.

        Warns
        -----
        SlowExplainerWarning
            If the first of ``n_runs`` runs shows that they will need many model rows, or minutes.
        """
        n, expected = len(Z), self.model_rows(Z)
        size = self.rows_at_once
        if expected:
            size = max(1, min(size, _MODEL_ROWS_AT_ONCE * n // expected))
        watch = None
        if run == 0:
            watch = Watch(type(self).__name__, n, expected and expected * n_runs, self.remedy)
        execution = execution or Execution()
        # a Module is switched to evaluation mode and back around each call
        alone = not self.threads or is_module(self.model_.user_model)
        function, n_jobs = on_cluster(
            partial(self._explain_block, Z, seed, run),
            1 if alone else execution.n_jobs,
            alone=alone,
            model=self.model_.user_model,
            explainer=self,
        )
        answers: list[Attribution] = []
        started = time.perf_counter()
        execution = replace(execution, n_jobs=n_jobs)
        for part, answer in execution.run(f"explainer {run}", function, Z, size, label="explaining"):
            if watch is not None and not answers:
                watch.first_block(time.perf_counter() - started, part.stop / (n * n_runs), n_jobs)
            answers.append(Attribution(**answer))
        joined = Attribution.join(answers)
        return joined if self.groups_ is None else grouped(joined, self.groups_)

    def _explain_block(self, Z: FloatArray, seed: int, run: int, part: slice) -> dict[str, Any]:
        """Checked attributions of the rows ``Z[part]``, as a dict of arrays: a pure function of its arguments."""
        block, start, last = Z[part], part.start, part.stop - 1
        try:
            answer = self._explain(block, [row_seed(seed, run, row) for row in block])
        except (ModelCallError, ModelOutputError) as error:
            raise _with_rows(error, start, last) from error.__cause__
        except GPECError:
            raise
        except Exception as error:
            place = f" on rows {start} to {last} of {len(Z)}"
            raise ExplainerError(f"The explainer raised {type(error).__name__}{place}: {error}").at(place) from error
        return vars(check_attribution(answer, len(block), block.shape[1], self.model_, start))

    def model_rows(self, Z: FloatArray) -> int | None:
        """How many model rows explaining ``Z`` takes, about; None if nobody knows."""
        return None

    def outputs_of(self, Z: FloatArray) -> FloatArray:
        """What is explained of the model's answers to encoded rows, ``(n, c)``: probabilities, or values."""
        return self.model_.answers(Z)

    def predict(self, perturbed: FloatArray, first: int = 0) -> FloatArray:
        """:meth:`outputs_of` ``s`` perturbations of each of ``n`` rows, ``(n, s, d)``, as ``(n, s, c)``.

        ``first`` is the place of the first of these rows among those given to :meth:`_explain`; if the model fails, the
        error names the rows that were being explained.
        """
        n, s, d = perturbed.shape
        try:
            answer = self.outputs_of(perturbed.reshape(n * s, d))
        except (ModelCallError, ModelOutputError) as error:
            error.explained = (first + error.rows[0] // s, first + error.rows[1] // s)
            raise
        return answer.reshape(n, s, answer.shape[1])


def _with_rows(error: ModelCallError | ModelOutputError, start: int, last: int) -> ModelCallError | ModelOutputError:
    """The model's error, saying which rows were being explained."""
    if error.explained is not None:
        start, last = start + error.explained[0], start + error.explained[1]
    which = f"row {start}" if start == last else f"rows {start} to {last}"
    place = f"; this was while explaining {which}"
    return type(error)(f"{str(error).rstrip('.')}{place}.").at(*error.places, place)


def row_seed(seed: int, run: int, row: FloatArray) -> int:
    return derived_seed(seed, "explainer", run, zlib.crc32(contents_of(row[None])[0]))
