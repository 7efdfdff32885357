"""The command line: ``gpec demo``."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from gpec._version import __version__

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Error bars for feature attributions.")


@app.callback()
def main() -> None:
    """Error bars for feature attributions."""


@app.command()
def version() -> None:
    """Print the version."""
    Console().print(__version__)


@app.command()
def demo(picture: Path = typer.Option(Path("gpec-demo.png"), help="Where to save the picture.")) -> None:
    """Explain breast-cancer diagnoses, with error bars (about ten seconds)."""
    from gpec.demo import run

    if not picture.parent.is_dir():
        raise typer.BadParameter(f"the folder {picture.parent} does not exist", param_hint="--picture")
    run(picture, Console())
