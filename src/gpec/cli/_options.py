"""The options of the commands, each written once.

A command takes one of the dataclasses below as its parameter ``options``; :func:`takes_options` makes each field an
option for typer. So a new option is one field, and one line where it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from gpec.cli._errors import remember_debug


def _listed_under(panel: str) -> Callable[..., Any]:
    """Makes options, from their help and their names, that --help lists under a heading."""
    return lambda text, *names, **more: typer.Option(*names, help=text, rich_help_panel=panel, **more)


_model, _table, _fit, _run = map(_listed_under, ("The model", "The table", "The fit", "The run"))
_folder = _listed_under("A folder of Parquet files")
A_FILE: Any = {"exists": True, "dir_okay": False}  # of a path that must be that of a file


def _between(value: float) -> float:
    """Raise before the work if a probability is not between 0 and 1."""
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value:g} must lie between 0 and 1, such as 0.95.")
    return value


Model = Annotated[
    str,
    _model(
        "XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm, .onnx, .skops, "
        "package.module:function, or the http:// address of an Open Inference Protocol server."
    ),
]
Debug = Annotated[bool, _run("Show details of an error.", "--debug", callback=remember_debug)]


@dataclass(frozen=True)
class FitOptions:
    """Of every command that fits."""

    explainer: Annotated[
        str | None,
        _fit(
            "kernelshap, tree, exact, shapley_sampling, lime, bayeslime, bayesshap, cxplain or captum:NAME; by "
            "default tree where the model allows it, else kernelshap."
        ),
    ] = None
    mode: Annotated[
        Literal["auto", "explain", "predict"],
        _fit(
            "How attributions of similar rows are found: explain runs the explainer on them, predict learns to "
            "predict them; auto is explain where that is cheap, as for trees."
        ),
    ] = "auto"
    calibrate: Annotated[
        Path | None, _fit("Mode predict: a few hundred rows not used in fit, to check the intervals.")
    ] = None
    n_similar_explained: Annotated[
        int,
        _fit(
            "Mode predict, with --calibrate: of how many similar rows of each row the explainer is run; the others are "
            "predicted.",
            min=0,
        ),
    ] = 0
    n_boundary: Annotated[
        int | None, _fit("Points of the decision boundary; by default 300, if the fit needs any.", min=10)
    ] = None
    n_explained: Annotated[
        int | None,
        _fit("Rows explained in fit; by default 200, or up to 300 with fewer samples; a few in mode explain.", min=1),
    ] = None
    budget: Annotated[
        int | None, _fit("Most model rows of fit and calibrate together; it decides how many are explained.", min=1)
    ] = None
    n_background: Annotated[
        int | None, _fit("Number of background rows; by default 100, and for trees up to 1,000.", min=1)
    ] = None
    seed: Annotated[int, _fit("Random seed.", min=0)] = 0
    model_name: Annotated[str | None, _model("Name of the model on the server, if the address has none.")] = None
    model_output: Annotated[
        Literal["auto", "probability", "logit", "value"], _model("What the model returns; 'value' for a regressor.")
    ] = "auto"
    output_name: Annotated[str | None, _model("Which output of an ONNX file or a server holds the answers.")] = None
    threshold: Annotated[float, _model("Probability from which the model predicts the class.", callback=_between)] = 0.5
    trust_pickle: Annotated[bool, _model("Allow pickles: loading one executes arbitrary code.", "--trust-pickle")] = (
        False
    )
    trust_type: Annotated[list[str] | None, _model("A type in a .skops file that you trust; may be repeated.")] = None
    drop: Annotated[list[str] | None, _table("A column that is not a feature, such as the label; may be repeated.")] = (
        None
    )
    index: Annotated[str | None, _table("The column with the labels of the rows.")] = None
    categorical: Annotated[list[str] | None, _table("A column of numbers that are categories; may be repeated.")] = None
    batch_size: Annotated[
        int | None, _run("Most rows in a call of the model; by default 16,384, and 1,000 for a server.", min=1)
    ] = None
    jobs: Annotated[
        int | None, _run("Number of threads, and of calls of a server at a time; -1 for one on each core.")
    ] = None
    progress: Annotated[bool | None, _run("Progress bars; by default on a terminal.", "--progress/--no-progress")] = (
        None
    )
    yes: Annotated[bool, _run("Do not ask before a run of more than a minute.", "--yes")] = False
    checkpoint: Annotated[Path | None, _run("Folder for finished work; by default OUT.partial.")] = None
    keep: Annotated[bool, _run("Keep that folder at the end.", "--keep")] = False
    restart: Annotated[bool, _run("Delete what an earlier run left there.", "--restart")] = False
    debug: Debug = False


@dataclass(frozen=True)
class _RowOptions:
    """Options of commands that explain rows, listed first."""

    background: Annotated[Path | None, _fit("Rows like those the model was trained on; by default DATA itself.")] = None
    fitted: Annotated[Path | None, _fit("A file of gpec fit, in place of a new fit.", **A_FILE)] = None
    attribution: Annotated[
        Literal["explainer", "posterior"],
        _run(
            "Run the explainer on each row, with intervals about similar rows; or predict its answers, with "
            "intervals about the value: cheap for many rows."
        ),
    ] = "explainer"
    level: Annotated[float, _run("Confidence level of the intervals.", callback=_between)] = 0.95


@dataclass(frozen=True)
class ExplainOptions(FitOptions, _RowOptions):
    """Of every command that explains rows."""


@dataclass(frozen=True)
class FolderOptions(ExplainOptions):
    """Of the command that explains a folder of Parquet files, too."""

    scheduler: Annotated[
        str | None,
        _folder(
            "A Dask scheduler, such as tcp://host:8786, whose workers explain a folder of Parquet files.",
            metavar="ADDRESS",
        ),
    ] = None
    errors: Annotated[
        Literal["raise", "keep"],
        _folder("What to do about a row that cannot be explained: stop, or write the reason beside it."),
    ] = "raise"
    safe_csv: Annotated[
        bool, _run("In a .csv file, put ' before texts that a spreadsheet would run as a formula.", "--safe-csv")
    ] = False


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer needs it: with a parameter for each field of its parameter ``options``."""
    hints = get_type_hints(command, include_extras=True)
    kind = hints["options"]
    args = [(name, each.default) for name, each in inspect.signature(command).parameters.items() if name != "options"]
    hints |= get_type_hints(kind, include_extras=True)
    options = [(field.name, field.default) for field in fields(kind)]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in args + options
    ]

    @wraps(command)
    def flat(**given: Any) -> None:
        command(options=kind(**{name: given.pop(name) for name, _ in options}), **given)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    return flat


def given(ctx: typer.Context) -> dict[str, str]:
    """The options on the command line: the name of the parameter, and the option as it is written."""
    return {
        each.name: each.opts[0]
        for each in ctx.command.params
        if (source := ctx.get_parameter_source(each.name)) is not None and source.name == "COMMANDLINE"
    }
