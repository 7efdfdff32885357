"""``gpec explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpec.cli import _options as o
from gpec.cli._outputs import check_out, write

__all__ = ["register", "require_one_source"]

_OF_THE_FIT = (
    "background", "n_boundary", "n_explained", "n_background", "seed", "categorical", "model_output",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


def require_one_source(ctx: typer.Context, fitted: Path | None) -> None:
    """Refuse what a fit has already, together with a fit."""
    if fitted is None:
        return
    if not fitted.is_file():
        raise typer.BadParameter(f"there is no file {fitted}.", param_hint="--fitted")
    for name in _OF_THE_FIT:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"a fit has this already; leave out {option} or --fitted.", param_hint=option)


def explain(
    ctx: typer.Context,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Rows to explain: CSV, Parquet or Feather, or a folder of Parquet.")
    ],
    model: o.Model,
    out: Annotated[
        Path, typer.Option(help="Where to write: .parquet, .feather, .csv, .json, .html or .gpec; a folder.")
    ],
    background: o.Background = None,
    fitted: o.Fitted = None,
    explainer: o.Explainer = None,
    calibrate: o.Calibrate = None,
    attribution: o.Attribution = "explainer",
    level: o.Level = 0.95,
    n_boundary: o.NBoundary = 2_000,
    n_explained: o.NExplained = 200,
    n_background: o.NBackground = 100,
    seed: o.Seed = 0,
    model_name: o.ModelName = None,
    model_output: o.ModelOutput = "auto",
    output_name: o.OutputName = None,
    trust_pickle: o.TrustPickle = False,
    trust_type: o.TrustType = None,
    drop: o.Drop = None,
    index: o.Index = None,
    categorical: o.Categorical = None,
    jobs: o.Jobs = None,
    progress: o.Progress = None,
    checkpoint: o.Checkpoint = None,
    keep: o.Keep = False,
    restart: o.Restart = False,
    scheduler: o.Scheduler = None,
    errors: o.Errors = "raise",
    resume: o.Resume = False,
    debug: o.Debug = False,
) -> None:
    """Explain the rows of a table, with an interval on every attribution.

    What is done is kept in OUT.partial until all is done; a run that was stopped goes on from there. A folder of
    Parquet files is explained into the folder OUT, one file for each, here or on the workers of a Dask scheduler.
    """
    from gpec.cli._parquet import explain_folder, is_folder
    from gpec.cli._work import FitOptions, RunOptions, Work

    whole_folder = is_folder(ctx, data, background, fitted)
    if not whole_folder:
        check_out(out)
    require_one_source(ctx, fitted)
    options = FitOptions(
        explainer, n_boundary, n_explained, n_background, model_output, tuple(categorical or ()) or None, seed
    )
    work = Work(
        model, model_name, output_name, trust_pickle, trust_type, drop, index, options, calibrate, jobs, progress
    )
    run = RunOptions(attribution, level, restart)
    if whole_folder:
        explain_folder(work, data, out, background, fitted, run, scheduler=scheduler, errors=errors, resume=resume)
        return
    e, g, kept = work.explain(data, background, fitted, checkpoint or out.with_name(f"{out.name}.partial"), run)
    write(e, out, g)
    if not keep:
        kept.remove()
    typer.echo(f"Wrote {out}: {e.shape[0]:,} rows x {e.shape[1]:,} features.\n{e.statement()}")
