"""The base class of explainers."""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from gpec.data import Groups, Schema
from gpec.data._background import check_background
from gpec.data._equality import contents_of
from gpec.errors import ExplainerError, GPECError, ModelCallError, ModelOutputError, NotFittedError
from gpec.explainers._cost import n_workers, warn_if_long
from gpec.explainers.attribution import Attribution, check_attribution
from gpec.models import Model
from gpec.models._torch import is_module
from gpec.runtime.blocks import Execution, on_cluster
from gpec.runtime.randomness import derived_seed, make_seed
from gpec.typing import FloatArray

_STEP = 1.5  # between numbers of samples
_MODEL_ROWS_AT_ONCE = 262_144  # in one block: enough for full batches, and few enough for several threads


class Explainer(BaseEstimator, ABC):
    """Base class of explainers: implement :meth:`_explain`, and :meth:`bind` or :meth:`learn` if needed.

    :class:`gpec.GPEC` calls ``bind``, then ``learn``, then ``explain`` any number of times. Without it, use
    ``explainer.fit(model, X)`` and then ``explainer(X)``.

    Attributes
    ----------
    stochastic : bool or None
        Whether another run gives other attributions; None if unknown.
    unit : str
        The unit of the attributions.
    rows_at_once : int
        Largest number of rows explained in one call.
    cheap : bool
        Whether explaining ten similar rows costs about as much as predicting how their attributions change.
    learns : bool
        Whether it learns from all rows, in :meth:`learn`.
    samples : str or None
        The parameter that holds the number of samples of a row; None if there is none.
    threads : bool
        Whether several threads can explain at the same time. False if it uses global state, such as NumPy's generator,
        or code that may not be thread-safe.
    remedy : str
        How to reduce the cost, for the warning about a long run.
    zero_where_equal : bool
        Whether a feature has the attribution 0 wherever all background rows have the same value of it as the row.
    """

    stochastic: bool | None = None
    unit: str = "as the explainer gives them"
    rows_at_once: int = 1_024
    cheap: bool = False
    learns: bool = False
    samples: str | None = None
    threads: bool = False
    remedy: str = "explaining fewer rows costs less"
    zero_where_equal: bool = False
    most_background: int = 100  # rows that ``background="auto"`` draws at most
    _other_samples: str = ""
    groups_: Groups | None = None  # attributions are added within groups of features

    def check(self) -> None:
        """Raise for invalid parameters; called before the first model call."""

    def bind(self, model: Model, background: FloatArray) -> None:
        """Store the model, which has been called before, and the encoded background rows."""
        self.model_ = model
        self.background_ = background

    def learn(self, rows: FloatArray, seed: int) -> None:
        """Learn from all encoded rows what :meth:`_explain` needs. Called after :meth:`bind`, if ``learns`` is True."""

    def prepare(self, model: Model, background: FloatArray, rows: FloatArray, seed: int) -> Self:
        """:meth:`bind`, then :meth:`learn`."""
        self.bind(model, background)
        if self.learns:
            self.learn(rows, seed)
        return self

    def fitted_state(self) -> dict[str, Any]:
        """What :meth:`learn` learned, as numbers, strings and arrays, for files."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`fitted_state`; called after :meth:`bind`, instead of :meth:`learn`."""

    def fit(
        self,
        model: Any,
        X: Any,
        *,
        background: Any = "auto",
        model_output: Literal["auto", "probability", "logit", "value"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        random_state: Any = 0,
    ) -> Self:
        """Prepare to explain a model's predictions without a :class:`gpec.GPEC`.

        Parameters
        ----------
        model, background, model_output, threshold, categorical_features, random_state
            As for :class:`gpec.GPEC`.
        X : array or DataFrame of shape (n, d)
            Rows from the same population as the model's training rows.
        """
        self.check()
        schema, Z = Schema.learn(X, categorical_features=categorical_features)
        seed = make_seed(random_state)
        checked = Model(model, schema, model_output=model_output, threshold=threshold)
        rows = check_background(background, schema, Z, seed, self.most_background)
        checked.answers(Z[:1])  # gives the number of classes
        self.prepare(checked, rows, Z, seed)
        self.seed_ = seed
        return self

    def __call__(self, X: Any, *, n_jobs: int | None = None) -> Attribution:
        """Attributions of the rows ``X``, on ``n_jobs`` threads; call :meth:`fit` first."""
        if not hasattr(self, "seed_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(model, X) first.")
        Z = self.model_.schema.encode(X)
        with self.model_.during(None, n_jobs):
            return self.explain(Z, seed=self.seed_, execution=Execution(n_jobs)).squeeze_single_output()

    @abstractmethod
    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        """Attributions of encoded rows, in any shape that :func:`check_attribution` accepts; one seed for each row."""

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
        other rows. ``execution`` runs the blocks of rows, on several threads if the explainer allows it and the
        model is not a torch Module. The size of a block does not depend on the number of threads.

        Warns
        -----
        SlowExplainerWarning
            If ``n_runs`` runs will need many model rows, or more than a minute; checked in the first run.
        """
        n, expected = len(Z), self.model_rows(Z)
        size = self._block_size(n, expected)
        run_of = type(self).__name__, n, expected and expected * n_runs, Z.shape[1], self.remedy
        warned = run > 0 or warn_if_long(*run_of)
        execution = execution or Execution()
        alone = self._is_alone
        function, n_jobs = on_cluster(
            partial(self._explain_block, Z, seed, run),
            1 if alone or self.model_.asked_by_row else execution.n_jobs,
            alone=alone,
            model=self.model_.user_model,
            explainer=self,
        )
        answers: list[Attribution] = []
        started = time.perf_counter()
        execution = replace(execution, n_jobs=n_jobs)
        stage = f"explainer {run}{self._other_samples}"
        for part, answer in execution.run(stage, function, Z, size, label="explaining"):
            if not warned and not answers:
                share = part.stop / (n * n_runs)
                warn_if_long(*run_of, (time.perf_counter() - started) / share / n_workers(n_jobs, 1 / share))
            answers.append(Attribution(**answer))
        joined = Attribution.join(answers)
        return joined if self.groups_ is None else joined.add_groups(self.groups_)

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

    def _block_size(self, n: int, model_rows: int | None) -> int:
        """Rows in a block if ``n`` rows need so many model rows."""
        most = _MODEL_ROWS_AT_ONCE * n // model_rows if model_rows else self.rows_at_once
        return max(1, min(self.rows_at_once, most))

    @property
    def _is_alone(self) -> bool:  # a Module is switched to evaluation mode and back around each call
        return not self.threads or is_module(self.model_.user_model)

    def n_workers(self, n: int, model_rows: int | None, n_jobs: int | None) -> int:
        """How many threads explain ``n`` rows that need so many model rows, or ask the model for them."""
        if self.model_.asked_by_row:
            return n_workers(n_jobs, (model_rows or 0) / self.model_.rows_at_once)
        return 1 if self._is_alone else n_workers(n_jobs, n / self._block_size(n, model_rows))

    def model_rows(self, Z: FloatArray) -> int | None:
        """Approximate number of model rows needed to explain ``Z``; None if unknown."""
        return None

    def most_model_rows(self, Z: FloatArray) -> FloatArray | None:
        """Model rows needed at most to explain each of ``Z``, ``(n,)``; None if unknown."""
        return np.zeros(len(Z)) if self.model_rows(Z) == 0 else None

    def learning_rows(self, rows: FloatArray) -> int | None:
        """Model rows that :meth:`learn` needs at most; None if unknown."""
        return None if self.learns else 0

    def background_within(self, budget: int, d: int) -> int:
        """How many background rows ``background="auto"`` draws within a budget of model rows, with ``d`` features."""
        return self.most_background

    def sample_sizes(self, Z: FloatArray) -> tuple[int, ...]:
        """Numbers of samples with which rows like ``Z`` can be explained, the fewest first and its own last.

        There is only its own number, or none, unless fewer samples give the same attributions with more noise, and the
        variance says how much.
        """
        return ()

    def with_samples(self, n: int | None) -> Self:
        """The same explainer, bound to the same model, with another number of samples; None: its own."""
        if self.samples is None or n is None:
            return self
        other = copy(self)
        setattr(other, self.samples, n)
        other._other_samples = f", {n} samples"  # part of the name in a cache
        return other

    def outputs_of(self, Z: FloatArray) -> FloatArray:
        """The explained function of encoded rows, ``(n, c)``: probabilities, or the values of a regressor."""
        return self.model_.answers(Z)

    def predict(self, perturbed: FloatArray, first: int = 0) -> FloatArray:
        """:meth:`outputs_of` of ``s`` perturbations of each of ``n`` rows, ``(n, s, d)``, as ``(n, s, c)``.

        ``first`` is the position of the first of these rows among those given to :meth:`_explain`. If the model fails,
        the error names the explained rows.
        """
        n, s, d = perturbed.shape
        try:
            answer = self.outputs_of(perturbed.reshape(n * s, d))
        except (ModelCallError, ModelOutputError) as error:
            error.explained = (first + error.rows[0] // s, first + error.rows[1] // s)
            raise
        return answer.reshape(n, s, answer.shape[1])


def _with_rows(error: ModelCallError | ModelOutputError, start: int, last: int) -> ModelCallError | ModelOutputError:
    """The model's error, with the rows that were explained when it happened."""
    if error.explained is not None:
        start, last = start + error.explained[0], start + error.explained[1]
    which = f"row {start}" if start == last else f"rows {start} to {last}"
    place = f"; this was while explaining {which}"
    return type(error)(f"{str(error).rstrip('.')}{place}.").at(*error.places, place)


def sizes_between(least: int, most: int) -> tuple[int, ...]:
    """Numbers from ``least`` to ``most``, each about one and a half times the one before."""
    steps = round(np.log(max(most / least, 1.0)) / np.log(_STEP))
    return tuple(dict.fromkeys(np.geomspace(min(least, most), most, steps + 1).round().astype(int).tolist()))


def row_seed(seed: int, run: int, row: FloatArray) -> int:
    return derived_seed(seed, "explainer", run, zlib.crc32(contents_of(row[None])[0]))
