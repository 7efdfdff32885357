"""Graph of the boundary, kernel and posterior of one output."""

from __future__ import annotations

from gpec.boundary import BoundarySample
from gpec.data import Rows
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters, Posterior, learn_kernel, make_posterior
from gpec.gp.tasks import TaskPosterior, Tasks, make_task_posterior
from gpec.kernels import Kernel
from gpec.pipeline.context import FitContext
from gpec.pipeline.fitted import Observations
from gpec.runtime.blocks import one_blas_thread

_LANDMARKS_OF_SEVERAL = 800  # for each of several outputs, where time and files are multiplied by their number


def build_graph(
    context: FitContext, boundary: BoundarySample | None, output: int, known: tuple[GeodesicGraph | None, ...]
) -> GeodesicGraph | None:
    """Distances along the boundary of one output, if the kernel needs them; ``known`` are those of an earlier fit."""
    s = context.settings
    if boundary is None or not context.kernel.needs_boundary:
        return None
    if output < len(known) and known[output] is not None:
        return known[output]
    several = context.model.n_outputs > 1 and s.n_landmarks == "auto"
    graph = GeodesicGraph.build(
        context.schema.embed(boundary.of(output).points, "boundary"),
        n_neighbors=s.n_neighbors,
        n_landmarks=_LANDMARKS_OF_SEVERAL if several else s.n_landmarks,
        components=s.components,
        random_state=context.seed,
        progress=s.progress,
    )
    graph.distances  # noqa: B018  computed on demand; asked for here so that their time is counted here
    return graph


def fit_kernel(
    context: FitContext,
    graph: GeodesicGraph | None,
    rows: Rows,
    observations: Observations,
    output: int,
    start: Kernel | None,
) -> Kernel:
    """The kernel, fitted to one output's boundary; its free parameters learned from the attributions."""
    with one_blas_thread():
        kernel = context.kernel.copy().fit(graph, rows)
        Y, U = observations.attribution.values[:, :, output], observations.U[:, :, output]
        return learn_kernel(kernel, rows, Y, U, context.settings.output_scale, start)


def fit_posterior(
    context: FitContext,
    kernel: Kernel,
    rows: Rows,
    observations: Observations,
    output: int,
    parameters: Parameters | None = None,
    tasks: Tasks | None = None,
) -> Posterior:
    """The posterior of one output given its attributions; parameters and tasks are learned unless they are known."""
    Y, U = observations.attribution.values[:, :, output], observations.U[:, :, output]
    s, c = context.settings, context.model.n_outputs
    with one_blas_thread():  # also when loading, so that the bits agree
        if parameters is not None and tasks is not None:
            return TaskPosterior(kernel, rows, Y, U, parameters, tasks=tasks)
        if s.task_kernel is not None:
            return make_task_posterior(kernel, rows, Y, U, s.task_kernel, s.output_scale, context.seed)
        return make_posterior(kernel, rows, Y, U, s.output_scale, context.seed, parameters, c)
