"""Points on the decision boundary, sampled or as given."""

from __future__ import annotations

from gpec.boundary import BoundarySample
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError
from gpec.pipeline.cached_model import with_cache
from gpec.pipeline.context import FitInputs
from gpec.pipeline.fitted import ModelFingerprint
from gpec.runtime.blocks import Execution
from gpec.runtime.checkpoint import different_work

__all__ = ["sample_boundary"]


def sample_boundary(inputs: FitInputs, model_fingerprint: ModelFingerprint, now: Execution) -> BoundarySample:
    """Points on the decision boundary, sampled or as given."""
    context, sampler, cache = inputs.context, inputs.sampler, now.cache
    settings, seed = context.settings, context.seed
    try:
        if isinstance(sampler, BoundarySample):
            sampler.require_on_boundary(context.model, seed)
            return sampler
        model = with_cache(context.model, "boundary", now)
        sample = sampler.draw(model, inputs.rows, settings.n_boundary, seed=seed, progress=settings.progress)
    except (BoundaryNotFoundError, ModelMismatchError):
        context.model.require_repeatable(model_fingerprint.rows, model_fingerprint.answer)  # if this is why, say so
        raise
    if cache is not None and cache.resumed:  # the stored answers may come from another model
        try:
            sample.require_on_boundary(context.model, seed)
        except (InputError, ModelMismatchError) as error:
            raise different_work(cache.folder, "the model") from error
    return sample
