"""What of an earlier fit of the same object can be used again."""

from __future__ import annotations

from dataclasses import replace

from gpec.errors import InputError, ModelMismatchError
from gpec.pipeline.context import FitInputs
from gpec.pipeline.fitted import Fitted, ModelFingerprint, StageCache
from gpec.runtime.blocks import Execution
from gpec.runtime.checkpoint import BlockCache, different_work
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.state import to_state

__all__ = ["fingerprint_model", "reuse_previous_fit"]

_PROBE_ROWS = 20


def fingerprint_model(inputs: FitInputs, cache: BlockCache | None) -> ModelFingerprint:
    """Call the model for the first time, which gives the number of classes; compare with a checkpoint's answers."""
    rows, model = inputs.rows[:_PROBE_ROWS], inputs.context.model
    answer = model.answers(rows)
    if cache is None:
        return ModelFingerprint(rows, answer)
    cached = cache.cached("model", lambda _: {"answer": answer}, rows)
    first = ModelFingerprint(rows, cached(slice(0, len(rows)))["answer"])
    if first.difference(answer, model) is not None:
        raise different_work(cache.folder, "the model")
    return first


def reuse_previous_fit(
    inputs: FitInputs, model_fingerprint: ModelFingerprint, earlier: Fitted | None, now: Execution
) -> tuple[FitInputs, StageCache]:
    """Which stages of the object's earlier fit can be reused, by fingerprints of their inputs.

    If rows, seed and model are the same, the counted model and, if unchanged, the bound explainer are taken over.
    """
    g, s = inputs.context, inputs.context.settings
    of_model = (id(g.model.user_model), g.model.output, g.model.threshold, model_fingerprint.answer)
    prints = {"context": fingerprint(to_state(g.schema), inputs.rows, g.seed, *of_model)}
    prints["boundary"] = fingerprint(prints["context"], inputs.sampler, s.n_boundary)
    prints["graph"] = fingerprint(prints["boundary"], s.n_neighbors, s.n_landmarks, s.components)
    prints["explainer"] = fingerprint(prints["context"], g.explainer, g.groups, g.background, s.noise, s.n_resamples)
    prints["similar"] = fingerprint(prints["explainer"], inputs.similar)
    stage_cache = StageCache(prints, earlier, now)
    if earlier is None or stage_cache.of("context") is None:
        return inputs, stage_cache
    try:
        earlier.boundary.require_on_boundary(g.model, g.seed)  # the model may have been changed in place
    except (InputError, ModelMismatchError):
        return inputs, StageCache(prints, None, now)
    model, explainer = earlier.context.model, earlier.context.explainer if stage_cache.of("explainer") else g.explainer
    model.continue_count_of(g.model)
    return replace(inputs, context=replace(g, model=model, explainer=explainer)), stage_cache
