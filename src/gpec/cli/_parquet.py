"""``gpec explain`` of a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import typer

from gpec.cli._errors import note
from gpec.cli._work import RunOptions, Work
from gpec.distributed import explain_parquet
from gpec.distributed._parquet import check_folders
from gpec.distributed._running import running_on
from gpec.errors import GPECError

__all__ = ["explain_folder", "is_folder"]

_OF_FOLDERS = ("scheduler", "errors", "resume")
_OF_TABLES = {"checkpoint": "what is done is kept in OUT and OUT.partial", "keep": "what is done is kept in OUT"}


def is_folder(ctx: typer.Context, data: Path, background: Path | None, fitted: Path | None) -> bool:
    """Whether DATA is a folder; refuse what goes only with a folder, or only without."""
    given = {name for name in (*_OF_FOLDERS, *_OF_TABLES) if _on_command_line(ctx, name)}
    if not data.is_dir():
        for name in given.intersection(_OF_FOLDERS):
            raise typer.BadParameter(
                f"this is for a folder of Parquet files, and {data} is none.", param_hint=f"--{name}"
            )
        return False
    if _on_command_line(ctx, "resume") and _on_command_line(ctx, "restart"):
        raise typer.BadParameter("leave out --resume or --restart.", param_hint="--resume")
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
    with _in_words_of_options():
        check_folders(data, out, resume=resume, overwrite=run.restart)
        with running_on(scheduler) as where:  # before the fit, which may take long
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
                    scheduler=where,
                )
            except BaseException:
                if fitted is not None and work.calibration_rows is None:  # the fit has its own file
                    kept.remove()
                raise
    kept.remove()
    if done.n_resumed:
        note(f"{done.n_resumed:,} of the {done.n_partitions:,} files were there already.")
    if done.n_failed:
        note(f"{done.n_failed:,} of the {done.n_rows:,} rows could not be explained; the column error says why.")
    typer.echo(f"Wrote {out}: {done.n_partitions:,} files, {done.n_rows:,} rows.\n{done.statement}")


@contextmanager
def _in_words_of_options() -> Iterator[None]:
    """A context whose errors name options instead of parameters."""
    try:
        yield
    except BaseException as error:
        notes = [_in_options(more) for more in getattr(error, "__notes__", [])]
        told = type(error)(_in_options(str(error))) if isinstance(error, GPECError) else error
        told.__notes__ = notes
        if told is error:
            raise
        raise told from error


def _in_options(text: str) -> str:
    return text.replace("resume=True", "--resume").replace("overwrite=True", "--restart")


def _on_command_line(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
