"""``gpec explain`` of a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from gpec.cli._errors import note
from gpec.cli._work import RunOptions, Work
from gpec.distributed import explain_parquet
from gpec.errors import GPECError

__all__ = ["check_folders", "explain_folder"]

_OF_FOLDERS = ("scheduler", "errors", "resume")
_OF_TABLES = {"checkpoint": "what is done is kept in OUT and OUT.partial", "keep": "what is done is kept in OUT"}


def check_folders(ctx: typer.Context, data: Path, background: Path | None, fitted: Path | None) -> bool:
    """Whether DATA is a folder; refuse what goes only with a folder, or only without."""
    given = {name for name in (*_OF_FOLDERS, *_OF_TABLES) if _on_command_line(ctx, name)}
    if not data.is_dir():
        for name in given.intersection(_OF_FOLDERS):
            raise typer.BadParameter(
                f"this is for a folder of Parquet files, and {data} is none.", param_hint=f"--{name}"
            )
        return False
    for name in given.intersection(_OF_TABLES):
        raise typer.BadParameter(f"leave it out for a folder: {_OF_TABLES[name]}.", param_hint=f"--{name}")
    if background is None and fitted is None:
        raise typer.BadParameter(
            "a folder needs rows to learn from: give --background FILE, or a file of gpec fit as --fitted.",
            param_hint="DATA",
        )
    return True


def explain_folder(
    work: Work,
    data: Path,
    out: Path,
    background: Path | None,
    fitted: Path | None,
    run: RunOptions,
    *,
    scheduler: str | None,
    errors: Literal["raise", "keep"],
    resume: bool,
) -> None:
    """Fit or load, explain each file, and say what came of it."""
    source = fitted if fitted is not None else work.tables.read(background or data, labelled=False)
    g, kept = work.fit(source, out.with_name(f"{out.name}.partial"), run.restart)
    try:
        done = explain_parquet(
            g,
            data,
            out,
            attribution=run.attribution,
            confidence_level=run.level,
            errors=errors,
            resume=resume,
            overwrite=run.restart,
            index=work.index,
            scheduler=scheduler,
        )
    except GPECError as error:
        if fitted is not None and work.calibration_rows is None:  # the fit has its own file
            kept.remove()
        told = type(error)(_in_options(str(error)))
        for more in getattr(error, "__notes__", []):
            told.add_note(_in_options(more))
        raise told from error
    kept.remove()
    if done.n_resumed:
        note(f"{done.n_resumed:,} of the {done.n_partitions:,} files were there already.")
    if done.n_failed:
        note(f"{done.n_failed:,} of the {done.n_rows:,} rows could not be explained; the column error says why.")
    typer.echo(f"Wrote {out}: {done.n_partitions:,} files, {done.n_rows:,} rows.\n{done.statement}")


def _in_options(text: str) -> str:
    return text.replace("resume=True", "--resume").replace("overwrite=True", "--restart")


def _on_command_line(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
