"""The stages of ``explain``: the explainer's answers and the posterior at new rows, made into an explanation."""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any
from weakref import WeakSet

import numpy as np
import pandas as pd

from gpec.data import Rows
from gpec.data._labels import require_utf8
from gpec.errors import CorruptFileError, InputError, NumericalError, PosteriorWarning
from gpec.explainers import Attribution, Explainer
from gpec.explainers.attribution import check_attribution
from gpec.explanation import Explanation
from gpec.gp import Prediction
from gpec.intervals.rules import IntervalRule, Latent, Value
from gpec.pipeline.attributions import answer_unknown, run_explainer
from gpec.pipeline.fitted import Fitted
from gpec.pipeline.given import find_unit, read_given
from gpec.pipeline.prediction import predict_values
from gpec.runtime.blocks import Execution, in_tiles
from gpec.runtime.checkpoint import BlockCache
from gpec.runtime.fingerprint import fingerprint
from gpec.typing import FloatArray

_BLOCK = 512
_NOISE_WIDTHS = 4.0
_LARGEST_GAP = 0.25  # between given attributions and the explainer's, as a share of their size
_LEAST_SKILL = 0.05
_KNOWN_UNITS = ("probability", "log-odds", "margin", "output")
_GIVEN_ROWS = 5  # given attributions that are compared with the explainer's

_BINDING = RLock()  # partitions are explained in threads, and the first of them binds the explainer
_AGREED: WeakSet[Fitted] = WeakSet()  # fits whose given attributions were compared with the explainer's


def open_checkpoint(
    folder: str | os.PathLike[str] | None,
    work: str,
    fitted: Fitted,
    Z: FloatArray,
    more: dict[str, str] | None = None,
    notes: dict[str, Any] | None = None,
) -> AbstractContextManager[BlockCache | None]:
    """The checkpoint of this call, if there is one; raise if it belongs to another fit or other rows."""
    if folder is None:
        return nullcontext()
    fitted.model_fingerprint.require_same(fitted.context.model)
    return BlockCache(folder, work, {**fitted.identity(), "the rows": fingerprint(Z), **(more or {})}, notes)


def row_labels(X: Any) -> Any:
    """The labels of a DataFrame's rows, unless they are just numbered."""
    if not isinstance(X, pd.DataFrame) or (
        isinstance(X.index, pd.RangeIndex) and X.index.equals(pd.RangeIndex(len(X)))
    ):
        return None
    labels = X.index.to_numpy()
    if labels.dtype == object:
        require_utf8("row label", labels)
    return labels


def bound_explainer(fitted: Fitted) -> Explainer:
    """The explainer of a fit, which is bound to the model on first use."""
    explainer = fitted.require_explainer()
    with _BINDING:
        if not hasattr(explainer, "model_"):
            try:
                explainer.bind(fitted.context.model, fitted.context.background)
                if explainer.learns:
                    _restore(explainer, fitted)
            except BaseException:
                explainer.__dict__.pop("model_", None)  # it is not ready
                raise
    return explainer


def with_samples(fitted: Fitted, n: int | None) -> Fitted:
    """The fit with an explainer that takes ``n`` samples of each row; None: its own number."""
    if n is None:
        return fitted
    explainer, seen = bound_explainer(fitted), fitted.observations
    in_fit = seen.n_samples or max(explainer.sample_sizes(seen.rows[:1]), default=n)
    context = replace(fitted.context, explainer=explainer.with_samples(n))
    return replace(fitted, context=context, observations=replace(seen, noise_later=in_fit / n))


def explain_rows(fitted: Fitted, Z: FloatArray, execution: Execution) -> Attribution:
    """Attributions of rows: those that were given to ``fit``, and of others what the explainer answers."""
    given = fitted.observations.given
    if given is None:
        return run_explainer(fitted.context, bound_explainer(fitted), Z, execution)
    if fitted.context.explainer is None and not (among := given.contain(Z)).all():
        place = f"Row {int(among.argmin())}"
        raise InputError(
            f"{place} is not among the {len(given.rows)} rows whose attributions were given to fit, and there is no "
            "explainer. For other rows pass one to GPEC or load, pass their attributions to explain, or ask for "
            "attribution='posterior'."
        ).at(place)

    def explain(new: FloatArray) -> Attribution:
        explainer = bound_explainer(fitted)
        if fitted not in _AGREED:
            _require_same_units(fitted, explainer, execution)
            _AGREED.add(fitted)
        return run_explainer(fitted.context, explainer, new, execution)

    return answer_unknown((given.rows, given.attribution), Z, explain)


def read_answer(fitted: Fitted, attributions: Any, Z: FloatArray) -> Attribution:
    """Attributions given with the rows ``Z``, checked without the model."""
    context = fitted.context
    given = read_given(attributions, None, Z, context.schema, "X")
    return check_attribution(given, len(Z), context.schema.n_features, context.model, given=True).add_groups(
        context.groups
    )


def require_unit_of_fit(fitted: Fitted, answer: Attribution, rows: Rows) -> Attribution:
    """Given attributions with the base value that they add up with; raise if they are seen to be in another unit."""
    if rows.outputs is None:
        return answer
    model, seen = fitted.context.model, fitted.observations
    usual = answer if answer.base_values is not None else replace(answer, base_values=fitted.common_base(len(rows)))
    unit, _ = find_unit(usual, rows.outputs, model)
    found = unit or find_unit(answer, rows.outputs, model)[0]
    if found is not None and seen.unit in _KNOWN_UNITS and found != seen.unit:
        raise InputError(f"attributions are in {found}, but those of fit are in {seen.unit}; pass them in {seen.unit}.")
    return usual if unit is not None else replace(answer, base_values=None)


def _restore(explainer: Explainer, fitted: Fitted) -> None:
    """Give an explainer what one like it learned in the fit."""
    try:
        explainer.restore(fitted.observations.learned)
    except (CorruptFileError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"The explainer {type(explainer).__name__} learns from the rows of fit, and the fit was made with another "
            "one; fit again with it, or pass the explainer of the fit."
        ) from error


def _require_same_units(fitted: Fitted, explainer: Explainer, execution: Execution) -> None:
    """Raise if the attributions given to ``fit`` are not what the explainer would have answered."""
    seen, some = fitted.observations, slice(0, _GIVEN_ROWS)
    own, given = run_explainer(fitted.context, explainer, seen.rows[some], execution), seen.attribution.values[some]
    noise = np.sqrt(seen.U[some] + (0.0 if own.variance is None else own.variance))
    beyond = np.maximum(np.abs(own.values - given) - _NOISE_WIDTHS * noise, 0.0)
    size = max(float(np.linalg.norm(own.values)), float(np.linalg.norm(given)))
    off = float(np.linalg.norm(beyond)) / size if size > 0 else 0.0
    if off > _LARGEST_GAP:
        name, links = type(explainer).__name__, {"log-odds": "logit", "probability": "identity"}
        remedy = "pass the explainer that the attributions came from"
        if seen.unit in links and seen.unit != explainer.unit and "link" in explainer.get_params():
            remedy = f"pass {name}(link={links[seen.unit]!r}), or the explainer that the attributions came from"
        differ = ""
        if seen.unit == explainer.unit:
            differ = ", as they do with another background or way to perturb"
        elif seen.unit not in links:
            differ = f", as they do when they are in {fitted.context.model.kind.other_units}"
        raise InputError(
            f"The attributions given to fit (unit: {seen.unit}) and those of {name} (unit: {explainer.unit}) differ by "
            f"{off:.0%} of their size on {len(given)} rows{differ}; {remedy}, or ask for attribution='posterior'."
        )


def predict(fitted: Fitted, rows: Rows, execution: Execution) -> Prediction:
    """Posterior at new rows ``(n, d, c)``, in fixed blocks."""
    shape = (len(rows), len(fitted.context.groups), len(fitted.output_models))
    whole = {name: np.empty(shape) for name in ("mean", "model_variance", "noise_variance")}

    def block(part: slice) -> dict[str, Any]:
        n, some = part.stop - part.start, fitted.with_effects(rows[part])[in_tiles(part) - part.start]
        found = [output_model.posterior.predict(some) for output_model in fitted.output_models]
        stacked = {name: np.stack([getattr(one, name)[:n] for one in found], axis=2) for name in whole}
        return {**stacked, "clamped": np.sum([one.clamped[:n] for one in found], axis=0)}

    clamped = np.zeros(len(rows), dtype=np.int64)
    for part, found in execution.run("posterior", block, rows.encoded, _BLOCK):
        for name, array in whole.items():
            array[part] = found[name]
        clamped[part] = found["clamped"]
    return Prediction(**whole, clamped=clamped)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Variances ``(n, d, c)`` and what makes an interval of them, for the values ``shown``."""

    shown: Attribution
    model_variance: FloatArray
    noise_variance: FloatArray
    rule: IntervalRule
    n_clamped: int = 0


def value_intervals(fitted: Fitted, rows: Rows, execution: Execution) -> Intervals:
    """What the explainer would answer."""
    if fitted.loo_r2 is not None and fitted.loo_r2 < _LEAST_SKILL:
        warnings.warn(
            f"Values predicted for left-out rows are hardly better than the mean of all (R2 {fitted.loo_r2:.2f}); "
            "explain more rows (n_explained), or run the explainer.",
            PosteriorWarning,
            stacklevel=3,
        )
    found = predict_values(fitted, rows, predict(fitted, rows, execution), execution.n_jobs)
    shown = Attribution(found.mean, None, fitted.common_base(len(rows)))
    rule = Value(fitted.calibration.value)
    return Intervals(shown, found.model_variance, found.noise_variance, rule, found.n_clamped)


def latent_intervals(fitted: Fitted, rows: Rows, answer: Attribution | None, execution: Execution) -> Intervals:
    """The paper's: the posterior of the latent explanation around the explainer's answer, or around its own mean."""
    found = predict(fitted, rows, execution)
    shown, noise = Attribution(found.mean, None, fitted.common_base(len(rows))), found.noise_variance
    if answer is not None:
        shown, noise = answer, noise + _own_noise(fitted, answer)
    return Intervals(shown, found.model_variance, noise, Latent(), found.n_clamped)


def make_explanation(
    fitted: Fitted, rows: Rows, found: Intervals, level: float, row_names: Any, diagnostics: dict[str, Any]
) -> Explanation:
    """The result as users see it."""
    if not (np.isfinite(found.shown.values).all() and np.isfinite(found.model_variance + found.noise_variance).all()):
        raise NumericalError("The posterior is not finite; rescale the attributions or add noise.")
    context, shown, steps = fitted.context, found.shown, {}
    in_units = fitted.similarity is None or fitted.similarity.in_units
    if found.rule.promise == "similar rows" and fitted.steps is not None and not in_units:
        by_size = np.argsort(-np.abs(shown.values).sum(axis=(0, 2)), kind="stable")
        steps = fitted.steps.words(context.schema, [j for i in by_size for j in context.groups.members[i]])
    return Explanation.of_outputs(
        values=shown.values,
        model_variance=found.model_variance,
        noise_variance=found.noise_variance,
        explainer_variance=shown.variance,
        base_values=shown.base_values,
        data=context.groups.data(rows.encoded, context.schema),
        feature_names=list(context.groups.names),
        output_names=context.model.output_names,
        confidence_level=level,
        diagnostics=diagnostics,
        rule=found.rule,
        row_names=row_names,
        similar_steps=steps,
        predictions=None if fitted.similarity is None else context.model.kind.answers_from(rows.require("outputs")),
    )


def _own_noise(fitted: Fitted, answer: Attribution) -> FloatArray | float:
    """The explainer's variance at the rows themselves; noise that was given speaks of the explained rows only."""
    noise = fitted.context.settings.noise
    return answer.variance if isinstance(noise, str) and noise != "none" and answer.variance is not None else 0.0
