"""The commands: ``gpec fit``, ``explain``, ``report``, ``demo`` and ``app``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gpec._version import __version__
from gpec.cli._errors import app
from gpec.cli._options import A_FILE, Debug, ExplainOptions, FitOptions, FolderOptions, Model, given, takes_options
from gpec.cli._outputs import check_out, write
from gpec.cli._run import CommandRun
from gpec.explanation import Explanation

_OF_THE_FIT = {"background", "mode", "n_boundary", "n_explained", "budget", "n_background", "seed", "categorical"}
_OF_THE_FIT |= {"model_output", "threshold"}
_OF_A_REPORT = {"source", "out", "level", "debug"}  # of a saved explanation


def _print_version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> None:
    """Error bars for feature attributions."""


@app.command()
@takes_options
def fit(
    background: Annotated[
        Path,
        typer.Argument(metavar="BACKGROUND", help="Rows like those the model was trained on (CSV, Parquet, Feather)."),
    ],
    model: Model,
    out: Annotated[Path, typer.Option(help="Where to save the fit: a .gpec file.")],
    options: FitOptions,
) -> None:
    """Learn how far a model's explanations hold; use it for many tables.

    Finished work is kept in OUT.partial until the end; run the same command to resume an interrupted run.
    """
    check_out(out, ".gpec")
    run = CommandRun(model, options)
    with run.fitted(run.tables.read(background), out) as (g, _):
        g.save(out)
    learned = g.diagnostics_
    points = f"{sum(learned['boundary_points']):,} boundary points, " if learned["boundary_points"] else ""
    typer.echo(
        f"Wrote {out}: mode {learned['mode']}, {points}{len(g.X_explained_):,} explained rows, "
        f"{learned['model_rows']:,} model rows."
    )


@app.command()
@takes_options
def explain(
    ctx: typer.Context,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Rows to explain: CSV, Parquet or Feather, or a folder of Parquet.")
    ],
    model: Model,
    out: Annotated[
        Path, typer.Option(help="Where to write: .parquet, .feather, .csv, .json, .html or .gpec; a folder.")
    ],
    options: FolderOptions,
) -> None:
    """Explain the rows of a table, with an interval on every attribution.

    Finished work is kept in OUT.partial until the end; run the same command to resume an interrupted run. A folder of
    Parquet files is explained into the folder OUT, one file for each, here or on the workers of a Dask scheduler.
    Files that are in OUT already are not explained again.
    """
    whole_folder = _is_folder(ctx, data, options)
    if not whole_folder:
        check_out(out)
    _require_one_source(ctx, options.fitted)
    run = CommandRun(model, options)
    if whole_folder:
        run.explain_folder(data, out, options)
        return
    if options.safe_csv and out.suffix.lower() != ".csv":
        raise typer.BadParameter(f"this is for .csv files, and {out} is none.", param_hint="--safe-csv")
    e = run.explain(data, out, options, safe_csv=options.safe_csv)
    typer.echo(f"Wrote {out}: {e.shape[0]:,} rows x {e.shape[1]:,} features.\n{e.statement()}")


@app.command()
@takes_options
def report(
    ctx: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="Rows to explain (CSV, Parquet, Feather), or a saved explanation.", **A_FILE
        ),
    ],
    options: ExplainOptions,
    model: Annotated[
        str | None, typer.Option(help="The model, as for explain; not needed for a saved explanation.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The .html file; by default SOURCE-report.html here.")] = None,
) -> None:
    """Write a page about a table's explanations that opens in any browser, without a network."""
    out = check_out(out or Path(f"{source.name.partition('.')[0]}-report.html"), ".html")
    if source.suffix.lower() == ".gpec":
        write(_saved(ctx, source, options.level), out)
    elif model is None:
        raise typer.BadParameter("a table needs the model to explain.", param_hint="--model")
    else:
        _require_one_source(ctx, options.fitted)
        CommandRun(model, options).explain(source, out, options)
    typer.echo(f"Wrote {out}; open it in a browser.")


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("gpec-demo.png"),
    debug: Debug = False,
) -> None:
    """Explain breast-cancer diagnoses, with error bars (a few seconds)."""
    from rich.console import Console

    from gpec.cli.demo import run

    if not picture.parent.is_dir():
        raise typer.BadParameter(f"the folder {picture.parent} does not exist.", param_hint="--picture")
    run(picture, Console())


@app.command("app")
def show_app(
    files: Annotated[list[Path] | None, typer.Argument(help="Saved explanations or fits.", **A_FILE)] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; by default this machine only.")] = "127.0.0.1",
    host_name: Annotated[
        list[str] | None, typer.Option(help="A name of this machine that browsers may use; can be repeated.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8050,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    debug: Debug = False,
) -> None:
    """Open a page with a playground and your own explanations, until Ctrl-C."""
    from gpec.app import run

    run(files or [], host=host, host_names=host_name or [], port=port, open_browser=browser)


def _is_folder(ctx: typer.Context, data: Path, options: FolderOptions) -> bool:
    """Whether DATA is a folder; refuse options that only apply to a folder."""
    if data.is_dir():
        if options.background is None and options.fitted is None:
            raise typer.BadParameter(
                "a folder needs rows to learn from: give --background FILE, or a file of gpec fit as --fitted.",
                param_hint="DATA",
            )
        return True
    for name, option in given(ctx).items():
        if name in ("scheduler", "errors"):
            raise typer.BadParameter(f"this is for a folder of Parquet files, and {data} is none.", param_hint=option)
    return False


def _saved(ctx: typer.Context, path: Path, level: float) -> Explanation:
    """A saved explanation, at another level if --level is given; no other option can change it."""
    options_given = given(ctx)
    for name, option in options_given.items():
        if name not in _OF_A_REPORT:
            raise typer.BadParameter(f"{path} is explained already; leave out {option}.", param_hint=option)
    e = Explanation.load(path)
    return replace(e, confidence_level=level) if "level" in options_given else e


def _require_one_source(ctx: typer.Context, fitted: Path | None) -> None:
    """Refuse options that a saved fit already fixes."""
    if fitted is None:
        return
    for name, option in given(ctx).items():
        if name in _OF_THE_FIT:
            raise typer.BadParameter(f"a fit has this already; leave out {option} or --fitted.", param_hint=option)
