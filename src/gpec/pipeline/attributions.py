"""The attributions of the rows that ``fit`` explains, and the explainer's noise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gpec.data import Rows
from gpec.data._equality import contents_of
from gpec.errors import InputError, NoiseFloorWarning
from gpec.explainers import Attribution, Explainer
from gpec.explainers.attribution import check_attribution
from gpec.explainers.noise import noise_variance, observe
from gpec.gp import NOISE_FLOOR
from gpec.models import Model
from gpec.pipeline.context import ExplainedSample, FitContext, FitInputs
from gpec.pipeline.fitted import Observations
from gpec.pipeline.given import GivenRows, find_unit
from gpec.pipeline.settings import Settings
from gpec.runtime.blocks import Execution
from gpec.typing import FloatArray

_LARGEST_NOISE = 1e30  # in squared attributions
_ROUNDED = 1e-3  # of the deviation of their sums: given attributions, or the model's answers, in single precision


def explain_sample(
    inputs: FitInputs,
    sample: ExplainedSample,
    known: Observations | None,
    execution: Execution,
    n_samples: int | None = None,
    pilot: tuple[FloatArray, Attribution] | None = None,
) -> Observations:
    """The attributions of the rows to explain, and their noise, with a number of samples or the explainer's own.

    What is ``known`` with this number, or from the ``pilot``, is not computed again.
    """
    context, rows = inputs.context, sample.rows
    model, explainer = context.model, context.explainer
    if explainer is not None and (inputs.given is None or explainer.learns):
        bind_explainer(inputs, execution)
    learned = {} if explainer is None else explainer.fitted_state()
    if inputs.given is not None:
        whole = cast(FloatArray, inputs.explained)
        answer = check_attribution(inputs.given, len(whole), context.schema.n_features, model, given=True)
        answer = answer.add_groups(context.groups)
        U, source = noise_variance(context.settings.noise, answer, None, whole, context.seed)
        _check_noise_size(answer, U, context.settings)
        given = GivenRows(whole, **vars(answer))
        if sample.places is not None:  # of many, some are learned from
            answer, U = answer.map(lambda array: array[sample.places]), U[sample.places]
        return Observations(sample, answer, U, source, "as given", learned, given=given)
    if explainer is None:
        raise InputError("explainer=None needs attributions: pass fit(X, attributions=...).")
    explainer, own = explainer.with_samples(n_samples), explainer
    if known is not None and known.n_samples == n_samples:
        pilot = known.rows, known.attribution
    else:
        known = None
    answer = answer_unknown(pilot, rows, lambda new: run_explainer(context, explainer, new, execution))
    U, source = noise_variance(context.settings.noise, answer, explainer, rows, context.seed)
    if n_samples is not None:
        # where a feature does not differ from the background rows, 0 is exact: many such rows would outweigh the others
        U = np.maximum(U, U.mean(axis=0))
    _check_noise_size(answer, U, context.settings)
    similar = None
    if known is not None and np.array_equal(known.rows, rows[: len(known.rows)]):
        similar = known.similar_values  # of the first rows, which are the same
    ratio = 1.0
    if n_samples is not None:  # variances are about in inverse proportion to the number of samples
        ratio = n_samples / max(n_samples, *own.sample_sizes(rows[:1]))
    return Observations(
        sample,
        answer,
        U,
        source,
        explainer.unit,
        learned,
        similar_values=similar,
        n_samples=n_samples,
        noise_later=ratio,
    )


def bind_explainer(inputs: FitInputs, execution: Execution) -> Explainer:
    """The explainer, bound to the model; if it learns, it has learned from all rows."""
    context = inputs.context
    explainer = cast(Explainer, context.explainer)
    if hasattr(explainer, "model_"):
        return explainer
    explainer.bind(context.model, context.background)
    if not explainer.learns:
        return explainer

    def learn(_: slice) -> dict[str, Any]:
        explainer.learn(inputs.rows, context.seed)
        return explainer.fitted_state()

    learned = execution.cached("learning", learn, inputs.rows)
    explainer.restore(learned(slice(0, len(inputs.rows))))
    return explainer


def detect_sum(observations: Observations, explained: Rows, model: Model) -> Observations:
    """With a note of what base value and attributions of every row add up to, found by trying.

    If attributions were given, their unit is found, and a base value that was not given; they may be rounded.
    """
    answer, given, rounding = observations.attribution, observations.given, 0.0
    if answer.base_values is None and given is None:
        return observations
    outputs = model.outputs(explained.encoded) if explained.outputs is None else explained.outputs
    if given is not None:
        unit, base = find_unit(answer, outputs, model)
        answer = replace(answer, base_values=base)
        if given.base_values is None and base is not None:
            given = replace(given, base_values=np.tile(base[0], (len(given.rows), 1)))
        observations = replace(observations, attribution=answer, given=given, unit=unit or observations.unit)
        if unit is None or base is None:
            return observations
        rounding = _ROUNDED
    totals = answer.values.sum(axis=1) + answer.base_values
    sums = model.kind.sums(outputs)
    found = [name for name, sum_, most in sums if np.abs(totals - sum_).max() <= max(most, rounding * sum_.std())]
    return replace(observations, adds_up_to=found[0] if found else None)


def _check_noise_size(answer: Attribution, U: FloatArray, settings: Settings) -> None:
    """Refuse noise that drowns everything; warn of noise that is too small to be used as it is."""
    size = float(np.abs(answer.values).max())
    if U.max() > _LARGEST_NOISE * max(size, np.finfo(np.float64).tiny) ** 2 and size > 0:
        raise InputError(
            f"The noise variance reaches {U.max():.3g} where attributions reach {size:.3g}: nothing could be learned; "
            "give noise in squared units of the attributions."
        )
    if not settings.learns_scale and U.any() and (least := U[U > 0].min() / float(settings.output_scale)) < NOISE_FLOOR:
        warnings.warn(
            f"The noise variance is {least:.2g} of the output scale in places; with a fixed output_scale at least "
            f"{NOISE_FLOOR:g} of it is used.",
            NoiseFloorWarning,
            stacklevel=4,
        )


def answer_unknown(
    known: tuple[FloatArray, Attribution] | None, Z: FloatArray, explain: Callable[[FloatArray], Attribution]
) -> Attribution:
    """Attributions of the rows ``Z``: the known ones, and what ``explain`` answers for the others."""
    if known is None:
        return explain(Z)
    place = {content: i for i, content in reversed(list(enumerate(contents_of(known[0]))))}
    found = np.array([place.get(content, -1) for content in contents_of(Z)])
    if (found < 0).all():
        return explain(Z)
    old = known[1].map(lambda array: array[found[found >= 0]])
    if (found >= 0).all():
        return old
    new = explain(Z[found < 0])
    if old.variance is None and new.variance is not None:
        old = replace(old, variance=np.zeros_like(old.values))
    joined = Attribution.join([old, new])
    order = np.argsort(np.argsort(found < 0, kind="stable"), kind="stable")  # as the rows came
    return joined.map(lambda array: array[order])


def run_explainer(context: FitContext, explainer: Explainer, Z: FloatArray, execution: Execution) -> Attribution:
    """The explainer's answers with the settings of the fit; threads and bars are those of ``now``."""
    s = context.settings
    return observe(explainer, Z, noise=s.noise, n_resamples=s.n_resamples, seed=context.seed, execution=execution)
