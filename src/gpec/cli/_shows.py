"""``gpec demo`` and ``app``: what there is to see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpec._version import __version__
from gpec.cli._errors import app
from gpec.cli._options import Debug


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
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("gpec-demo.png"),
    debug: Debug = False,
) -> None:
    """Explain breast-cancer diagnoses, with error bars (about ten seconds)."""
    from rich.console import Console

    from gpec.demo import run

    if not picture.parent.is_dir():
        raise typer.BadParameter(f"the folder {picture.parent} does not exist.", param_hint="--picture")
    run(picture, Console())


@app.command("app")
def show_app(
    files: Annotated[list[Path] | None, typer.Argument(help="Saved explanations or fits to look at.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; this one is of this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8050,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    debug: Debug = False,
) -> None:
    """Open a page with a playground and your own explanations, until Ctrl-C."""
    from gpec.app import run

    missing = [str(file) for file in files or [] if not file.is_file()]
    if missing:
        raise typer.BadParameter(f"there is no file {missing[0]}.", param_hint="FILES")
    run(files or [], host=host, port=port, open_browser=browser)
