"""One run of ``fit``, ``explain`` or ``report``: the model, the fit, and the rows to explain."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from gpec._version import __version__
from gpec.cli._errors import note
from gpec.cli._inputs import Tables, open_model, usual_explainer
from gpec.cli._options import ExplainOptions, FitOptions, FolderOptions
from gpec.cli._outputs import write
from gpec.distributed import explain_parquet
from gpec.distributed._parquet import check_folders
from gpec.distributed._scheduler import running_on
from gpec.errors import CheckpointError, GPECError, InputError, ModelMismatchError
from gpec.estimator import GPEC
from gpec.explainers._cost import LONG, in_words
from gpec.explanation import Explanation
from gpec.runtime.checkpoint import IDENTITY, has_results, is_begun, write_identity
from gpec.runtime.fingerprint import fingerprint

_WORK = "the command line"
_PARTS = ("fitting", "calibrating", "rows")  # the checkpoints of fit, calibrate and explain


@dataclass
class CommandRun:
    """One run of a command. Files are read when they are first needed."""

    source: str
    options: FitOptions

    @cached_property
    def model(self) -> Any:
        return open_model(self.source, self.options)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.model, self.options.drop, self.options.index)

    @cached_property
    def _calibration_rows(self) -> pd.DataFrame | None:
        path = self.options.calibrate
        return None if path is None else self.tables.read(path, labelled=False)

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        o = self.options
        return {
            "explainer": o.explainer,
            "mode": o.mode,
            "n_boundary": o.n_boundary or "auto",
            "n_explained": o.n_explained or "auto",
            "budget": o.budget,
            "background": o.n_background or "auto",
            "threshold": o.threshold,
            "model_output": o.model_output,
            "categorical_features": o.categorical or "auto",
            "random_state": o.seed,
        }

    @property
    def _execution(self) -> dict[str, Any]:
        """How the run is done; the fit is identified without these."""
        o = self.options
        return {"batch_size": o.batch_size, "n_jobs": o.jobs, "progress": "auto" if o.progress is None else o.progress}

    @contextmanager
    def fitted(
        self, source: pd.DataFrame | Path, out: Path, explained: pd.DataFrame | None = None
    ) -> Iterator[tuple[GPEC, Path]]:
        """A fit to rows, or one from a file, and the folder of its checkpoints, deleted when the block ends.

        ``explained`` are the rows that the explainer will be run on.
        """
        folder, rows = self.options.checkpoint or out.with_name(f"{out.name}.partial"), self._calibration_rows
        self.tables.require_dropped()
        with _working_in(folder, restart=self.options.restart, keep=self.options.keep):
            yield self._fitted(source, rows, folder, explained), folder

    def explain(self, data: Path, out: Path, options: ExplainOptions, *, safe_csv: bool = False) -> Explanation:
        """Explain the rows of a file, and write the result."""
        rows, source = self.tables.read(data), options.fitted
        if options.background is None and source is None:
            note(
                f"No --background file: comparing with the rows of {data} itself. "
                "Pass training rows for better intervals."
            )
        like = rows if options.background is None else self.tables.read(options.background, labelled=False)
        explained = rows if options.attribution == "explainer" else None
        with self.fitted(like if source is None else source, out, explained) as (g, folder):
            e = g.explain(
                rows, attribution=options.attribution, confidence_level=options.level, checkpoint=folder / "rows"
            )
            resumed = max(e.diagnostics["rows_resumed"].values(), default=0)
            if resumed:
                note(f"{resumed:,} of the {len(rows):,} rows were explained already.")
            write(e, out, g, safe_csv=safe_csv)
        return e

    def explain_folder(self, data: Path, out: Path, options: FolderOptions) -> None:
        """Explain each file of a folder of Parquet files that is not explained yet, and print the counts."""
        how = {"resume": not options.restart, "overwrite": options.restart}
        check_folders(data, out, **how)
        with running_on(options.scheduler) as where:  # before the fit, which may take long
            source = options.fitted or self.tables.read(options.background or data, labelled=False)
            with self.fitted(source, out) as (g, _):
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

    def _fitted(
        self, source: pd.DataFrame | Path, rows: pd.DataFrame | None, folder: Path, explained: pd.DataFrame | None
    ) -> GPEC:
        """The fit in the checkpoint, in a file, or a new one, calibrated on rows if there are any."""
        if self.options.n_similar_explained and rows is None:
            raise InputError("--n-similar-explained needs --calibrate: rows not used in fit, to check the intervals.")
        content = source.read_bytes() if isinstance(source, Path) else source
        n_similar = self.options.n_similar_explained
        stored = folder / f"fit-{fingerprint(content, rows, self._parameters, n_similar, __version__)}.gpec"
        if stored.exists():
            with suppress(ModelMismatchError):  # the checkpoint below reports it, too
                return self._loaded(stored)
        if isinstance(source, Path):
            g = self._loaded(source)
        else:
            chosen = self.options.explainer or usual_explainer(self.model, source)
            g = GPEC(self.model, **{**self._parameters, **self._execution, "explainer": chosen})
        if not _has_work(folder):
            self._tell_cost(g, {"fit: total": source, "calibrate": rows, "explain": explained})
        if not isinstance(source, Path):
            g.fit(source, checkpoint=folder / "fitting")
        if rows is not None:
            g.calibrate(rows, n_similar_explained=n_similar, checkpoint=folder / "calibrating")
        if rows is not None or not isinstance(source, Path):
            g.save(stored)
        return g

    def _tell_cost(self, g: GPEC, rows: dict[str, Any]) -> None:
        """Print what these calls cost for their rows, and ask on a terminal before a long run."""
        tables = {call: table for call, table in rows.items() if isinstance(table, pd.DataFrame)}
        if not tables:
            return
        like, sizes = next(iter(tables.values())), np.array([len(table) for table in tables.values()])
        try:
            m = self.options.n_similar_explained or None
            cost = g.cost(like, n_similar_explained=m).loc[list(tables)].to_numpy("float64", na_value=np.nan)
        except GPECError:  # about a row that the run may not need; if it does, it says so
            return
        runs, model_rows, seconds = (sizes / len(like) @ cost).tolist()
        note(f"Cost: {runs:,.0f} explainer runs, {in_words(None if np.isnan(model_rows) else model_rows, seconds)}.")
        if seconds > LONG and not self.options.yes and sys.stdin.isatty():
            typer.confirm("Go on?", abort=True, err=True)

    def _loaded(self, path: Path) -> GPEC:
        g: GPEC = GPEC.load(path, model=self.model, explainer=self.options.explainer).set_params(**self._execution)
        return g


@contextmanager
def _working_in(folder: Path, *, restart: bool, keep: bool) -> Iterator[None]:
    """Resume from what an earlier run left in a folder, or delete it; the folder is deleted when the block ends.

    The checkpoints in it have their own identity files. The folder is only marked as one of a command.
    """
    try:
        if restart:
            _remove(folder)
        if is_begun(folder, _WORK) and _has_work(folder):
            note(f"Resuming from what an earlier run left in {folder}.")
        else:
            write_identity(folder, _WORK, {})
        yield
    except CheckpointError as error:
        error.add_note("--checkpoint FOLDER uses another folder, --restart deletes what an earlier run left.")
        raise
    except BaseException as error:
        if _has_work(folder):
            error.add_note(f"Finished work is kept in {folder}; run the same command to resume.")
        else:
            _remove(folder)
        raise
    if not keep:
        _remove(folder)


def _has_work(folder: Path) -> bool:
    return any(folder.glob("fit-*.gpec")) or any(has_results(folder / part) for part in _PARTS)


def _remove(folder: Path) -> None:
    """Delete the files of a run, and the folder if nothing else is in it."""
    if is_begun(folder, _WORK):
        for part in _PARTS:
            shutil.rmtree(folder / part, ignore_errors=True)
        for name in ("fit-*.gpec", ".fit-*.gpec.*", IDENTITY, f".{IDENTITY}.*"):  # with a dot: half written
            for file in folder.glob(name):
                file.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
