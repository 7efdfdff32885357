"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gpec.cli._errors import remember_debug

__all__ = [
    "Attribution",
    "Background",
    "Calibrate",
    "Categorical",
    "Checkpoint",
    "Debug",
    "Drop",
    "Errors",
    "Explainer",
    "Fitted",
    "Index",
    "Jobs",
    "Keep",
    "Level",
    "Model",
    "ModelName",
    "ModelOutput",
    "NBackground",
    "NBoundary",
    "NExplained",
    "OutputName",
    "Progress",
    "Restart",
    "Resume",
    "Scheduler",
    "Seed",
    "TrustPickle",
    "TrustType",
]

_MODEL, _TABLE, _FIT, _RUN = "The model", "The table", "The fit", "The run"
_FOLDER = "A folder of Parquet files"

Model = Annotated[
    str,
    typer.Option(
        help="XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm, .onnx, .skops, torch.export .pt2, "
        "package.module:function, or the http:// address of an Open Inference Protocol server.",
        rich_help_panel=_MODEL,
    ),
]
ModelName = Annotated[
    str | None,
    typer.Option(help="Name of the model on the server, if the address has none.", rich_help_panel=_MODEL),
]
ModelOutput = Annotated[
    Literal["auto", "probability", "logit", "value"],
    typer.Option(help="What the model returns; 'value' for a regressor.", rich_help_panel=_MODEL),
]
OutputName = Annotated[
    str | None,
    typer.Option(help="Which output of an ONNX file or a server holds the answers.", rich_help_panel=_MODEL),
]
TrustPickle = Annotated[
    bool,
    typer.Option("--trust-pickle", help="Read a pickle, which runs its maker's code.", rich_help_panel=_MODEL),
]
TrustType = Annotated[
    list[str] | None,
    typer.Option(help="A type in a .skops file that you trust; may be repeated.", rich_help_panel=_MODEL),
]

Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        "--target",
        help="A column that is not a feature, such as the label; may be repeated.",
        rich_help_panel=_TABLE,
    ),
]
Index = Annotated[str | None, typer.Option(help="The column with the labels of the rows.", rich_help_panel=_TABLE)]
Categorical = Annotated[
    list[str] | None,
    typer.Option(help="A column of numbers that are categories; may be repeated.", rich_help_panel=_TABLE),
]

Background = Annotated[
    Path | None,
    typer.Option(help="Rows like those the model was trained on; by default DATA itself.", rich_help_panel=_FIT),
]
Fitted = Annotated[Path | None, typer.Option(help="A file of gpec fit, in place of a new fit.", rich_help_panel=_FIT)]
Explainer = Annotated[
    str | None,
    typer.Option(
        help="kernelshap, tree, exact, shapley_sampling, lime, bayeslime, bayesshap, cxplain or captum:NAME; by "
        "default tree where the model allows it, else kernelshap.",
        rich_help_panel=_FIT,
    ),
]
Calibrate = Annotated[
    Path | None,
    typer.Option(
        help="Rows that fit does not see, on which intervals are checked; some hundred.", rich_help_panel=_FIT
    ),
]
NBoundary = Annotated[int, typer.Option(min=10, help="Points of the decision boundary.", rich_help_panel=_FIT)]
NExplained = Annotated[int, typer.Option(min=1, help="Rows explained in fit.", rich_help_panel=_FIT)]
NBackground = Annotated[int, typer.Option(min=1, help="Rows that stand for features left out.", rich_help_panel=_FIT)]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.", rich_help_panel=_FIT)]

Attribution = Annotated[
    Literal["explainer", "posterior"],
    typer.Option(
        help="Run the explainer on each row, with intervals about similar rows; or predict its answers, with intervals "
        "about the value: cheap for many rows.",
        rich_help_panel=_RUN,
    ),
]


def _level(value: float) -> float:
    """Refused before the work begins."""
    if not 0 < value < 1:
        raise typer.BadParameter(f"{value:g} must lie between 0 and 1, such as 0.95.")
    return value


Level = Annotated[float, typer.Option(help="Confidence level of the intervals.", callback=_level, rich_help_panel=_RUN)]
Jobs = Annotated[int | None, typer.Option(help="Threads; -1 for one on each core.", rich_help_panel=_RUN)]
Progress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Bars; by default on a terminal.", rich_help_panel=_RUN),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="Folder for what is done already; by default OUT.partial.", rich_help_panel=_RUN),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep that folder when all is done.", rich_help_panel=_RUN)]
Restart = Annotated[
    bool, typer.Option("--restart", help="Throw away what an earlier run left there.", rich_help_panel=_RUN)
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A Dask scheduler, such as tcp://host:8786, whose workers explain a folder of Parquet files.",
        rich_help_panel=_FOLDER,
    ),
]
Errors = Annotated[
    Literal["raise", "keep"],
    typer.Option(
        help="What to do about a row that cannot be explained: stop, or write the reason beside it.",
        rich_help_panel=_FOLDER,
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with what an earlier run left in OUT.", rich_help_panel=_FOLDER)
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show details of an error.", callback=remember_debug, rich_help_panel=_RUN),
]
