"""A fit read from a file, joined with its model."""

from __future__ import annotations

from inspect import isroutine
from typing import Any

from gpec.data import Groups
from gpec.explainers import make_explainer
from gpec.models import Model
from gpec.pipeline.context import FitContext
from gpec.pipeline.fitted import Fitted, OutputModel, SavedFit
from gpec.pipeline.gaussian_process import fit_posterior
from gpec.pipeline.kernel_inputs import explained_rows
from gpec.pipeline.settings import Settings
from gpec.similar import FunctionOfRows, SimilarFunction, make_similar


def restore(saved: SavedFit, model: Any, settings: Settings) -> Fitted:
    """The fit that a file holds, joined with its model."""
    schema, observations = saved.schema, saved.observations
    stated = settings.model_output
    if stated == "auto" and isroutine(model):  # a function does not tell what it returns; the model that was fitted did
        stated = saved.model_output
    checked = Model(model, schema, model_output=stated, threshold=settings.threshold, batch_size=settings.batch_size)
    saved.model_fingerprint.require_same(checked)
    if saved.boundary is not None:
        saved.boundary.require_on_boundary(checked, saved.seed)
    groups = Groups.of(settings.groups, schema)
    explainer = None if settings.explainer is None else make_explainer(settings.explainer)
    context = FitContext(settings, schema, checked, groups, explainer, saved.background, saved.seed, saved.mode)
    kernels = [one.kernel for one in saved.output_models]
    rows, output_models = explained_rows(context, observations.sample, kernels), []
    for output, (kernel, one) in enumerate(zip(kernels, saved.output_models, strict=True)):
        posterior = fit_posterior(context, kernel, rows, observations, output, one.parameters, one.tasks)
        output_models.append(OutputModel(one.graph, kernel, posterior))
    similarity, again = saved.similarity, make_similar(settings.similar)
    if isinstance(similarity, FunctionOfRows) and isinstance(again, SimilarFunction):
        similarity = similarity.with_function(again.function)
    learned = {**saved.learned(), "similarity": similarity}
    return Fitted(**learned, context=context, output_models=tuple(output_models))


def replacement_parameters(saved: SavedFit) -> dict[str, Any]:
    """Parameters that were objects when the fit was saved, and are not in the file, replaced by what the fit stored."""
    return {
        "explainer": None,
        "kernel": saved.output_models[0].kernel.copy() if saved.output_models else "auto",
        "background": saved.schema.decode(saved.background),
    }
