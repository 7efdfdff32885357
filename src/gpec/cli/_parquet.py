"""``gpec explain`` of a folder of Parquet files."""

from __future__ import annotations

from pathlib import Path

import typer

from gpec.cli._errors import note
from gpec.cli._options import FolderOptions, given
from gpec.cli._run import CommandRun
from gpec.distributed import explain_parquet
from gpec.distributed._parquet import check_folders
from gpec.distributed._scheduler import running_on


def is_folder(ctx: typer.Context, data: Path, options: FolderOptions) -> bool:
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


def explain_folder(run: CommandRun, data: Path, out: Path, options: FolderOptions) -> None:
    """Fit or load, explain each file that is not explained yet, and print the counts."""
    how = {"resume": not options.restart, "overwrite": options.restart}
    check_folders(data, out, **how)
    with running_on(options.scheduler) as where:  # before the fit, which may take long
        source = options.fitted or run.tables.read(options.background or data, labelled=False)
        with run.fitted(source, out) as (g, _):
            done = explain_parquet(
                g,
                data,
                out,
                attribution=options.attribution,
                confidence_level=options.level,
                errors=options.errors,
                index=options.index,
                scheduler=where,
                **how,
            )
    if done.n_resumed:
        note(f"{done.n_resumed:,} of the {done.n_partitions:,} files were explained already.")
    if done.n_failed:
        note(f"{done.n_failed:,} of the {done.n_rows:,} rows could not be explained; the column error says why.")
    typer.echo(f"Wrote {out}: {done.n_partitions:,} files, {done.n_rows:,} rows.\n{done.statement}")
