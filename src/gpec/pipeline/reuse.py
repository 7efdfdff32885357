"""What of an earlier fit of the same object can be used again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpec.boundary import BoundarySample
from gpec.errors import InputError, ModelMismatchError
from gpec.geometry import GeodesicGraph
from gpec.pipeline.context import FitInputs
from gpec.pipeline.fitted import Fitted, ModelFingerprint, Observations
from gpec.runtime.checkpoint import BlockCache, different_work
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.state import to_state
from gpec.typing import FloatArray

PROBE_ROWS = 20


def fingerprint_model(inputs: FitInputs, cache: BlockCache | None) -> ModelFingerprint:
    """Call the model for the first time, which gives the number of classes; compare with a checkpoint's answers."""
    rows, model = inputs.rows[:PROBE_ROWS], inputs.context.model
    with model.asked_anew():
        answer = model.answers(rows)
    if cache is None:
        return ModelFingerprint(rows, answer)
    cached = cache.cached("model", lambda _: {"answer": answer}, rows)
    first = ModelFingerprint(rows, cached(slice(0, len(rows)))["answer"])
    if first.difference(answer, model) is not None:
        raise different_work(cache.folder, "the model")
    return first


@dataclass(frozen=True, eq=False)
class StageCache:
    """What stages of the object's earlier fit gave, where their inputs are the same now; else None."""

    fingerprints: dict[str, str]  # of what each stage is made from
    pool_answers: FloatArray | None = None  # the model's, by which rows were drawn
    boundary: BoundarySample | None = None
    graphs: tuple[GeodesicGraph | None, ...] = ()
    observations: Observations | None = None
    spent: int = 0  # model rows that count towards a budget, which is larger than before


def reuse_previous_fit(
    inputs: FitInputs, model_fingerprint: ModelFingerprint, earlier: Fitted | None
) -> tuple[FitInputs, StageCache]:
    """What of the object's earlier fit can be used again, by fingerprints of the inputs of each stage.

    If rows, seed and model are the same, the counted model and, if unchanged, the bound explainer are taken over.
    """
    context, s = inputs.context, inputs.context.settings
    of_model = (id(context.model.user_model), context.model.output, context.model.threshold, model_fingerprint.answer)
    prints = {"context": fingerprint(to_state(context.schema), inputs.rows, context.seed, *of_model)}
    prints["boundary"] = fingerprint(prints["context"], inputs.sampler, context.n_boundary)
    prints["graph"] = fingerprint(prints["boundary"], s.n_neighbors, s.n_landmarks, s.components)
    prints["explainer"] = fingerprint(
        prints["context"], context.explainer, context.groups, context.background, s.noise, s.n_resamples
    )
    prints["similar"] = fingerprint(prints["explainer"], inputs.similar)
    if earlier is None:
        return inputs, StageCache(prints)
    same = {stage for stage, value in prints.items() if earlier.fingerprints.get(stage) == value}
    if "context" not in same:
        return inputs, StageCache(prints)
    try:
        if earlier.boundary is not None:  # the model may have been changed in place
            earlier.boundary.require_on_boundary(context.model, context.seed)
    except (InputError, ModelMismatchError):
        return inputs, StageCache(prints)
    model, explainer = earlier.context.model, earlier.context.explainer if "explainer" in same else context.explainer
    model.continue_count_of(context.model)
    seen = earlier.observations
    known = seen if "similar" in same else replace(seen, similar_values=None)
    return replace(inputs, context=replace(context, model=model, explainer=explainer)), StageCache(
        prints,
        seen.sample.answers if not seen.given and inputs.given is None else None,  # of rows of X
        earlier.boundary if "boundary" in same else None,
        tuple(one.graph for one in earlier.output_models) if "graph" in same else (),
        known if "explainer" in same and not seen.given else None,
        earlier.spent if (s.budget or 0) > (earlier.context.settings.budget or np.inf) else 0,
    )
