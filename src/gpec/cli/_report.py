"""``gpec report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpec.cli import _options as o
from gpec.cli._explain import require_one_source
from gpec.cli._outputs import check_out, write

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    ctx: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Rows to explain (CSV, Parquet, Feather), or a saved explanation.")
    ],
    model: Annotated[
        str | None, typer.Option(help="The model, as for explain; not needed for a saved explanation.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The .html file; by default SOURCE-report.html here.")] = None,
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
    debug: o.Debug = False,
) -> None:
    """Write a page about a table's explanations that opens in any browser, without a network."""
    from gpec.cli._work import FitOptions, RunOptions, Work
    from gpec.explanation import Explanation

    out = check_out(out or Path(f"{source.name.partition('.')[0]}-report.html"), ".html")
    require_one_source(ctx, fitted)
    options = FitOptions(
        explainer, n_boundary, n_explained, n_background, model_output, tuple(categorical or ()) or None, seed
    )
    if source.suffix.lower() == ".gpec":
        if not source.is_file():
            raise typer.BadParameter(f"there is no file {source}.", param_hint="SOURCE")
        write(Explanation.load(source), out)
    elif model is None:
        raise typer.BadParameter("a table needs the model that is to be explained.", param_hint="--model")
    else:
        work = Work(
            model, model_name, output_name, trust_pickle, trust_type, drop, index, options, calibrate, jobs, progress
        )
        run = RunOptions(attribution, level, restart)
        e, g, kept = work.explain(source, background, fitted, checkpoint or out.with_name(f"{out.name}.partial"), run)
        write(e, out, g)
        if not keep:
            kept.remove()
    typer.echo(f"Wrote {out}; open it in a browser.")
