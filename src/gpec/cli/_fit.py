"""``gpec fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpec.cli import _options as o
from gpec.cli._outputs import check_out

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)


def fit(
    background: Annotated[
        Path,
        typer.Argument(metavar="BACKGROUND", help="Rows like those the model was trained on (CSV, Parquet, Feather)."),
    ],
    model: o.Model,
    out: Annotated[Path, typer.Option(help="Where to save the fit: a .gpec file.")],
    explainer: o.Explainer = None,
    calibrate: o.Calibrate = None,
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
    """Learn how far a model's explanations can be trusted, once for many tables.

    What is done is kept in OUT.partial until all is done; a run that was stopped goes on from there.
    """
    from gpec.cli._work import FitOptions, Work

    check_out(out, ".gpec")
    options = FitOptions(
        explainer, n_boundary, n_explained, n_background, model_output, tuple(categorical or ()) or None, seed
    )
    work = Work(
        model, model_name, output_name, trust_pickle, trust_type, drop, index, options, calibrate, jobs, progress
    )
    g, kept = work.fit(work.tables.read(background), checkpoint or out.with_name(f"{out.name}.partial"), restart)
    g.save(out)
    if not keep:
        kept.remove()
    found = g.diagnostics_
    typer.echo(
        f"Wrote {out}: {sum(found['boundary_points']):,} boundary points and {len(g.X_explained_):,} explained rows, "
        f"{found['model_rows']:,} model rows asked."
    )
