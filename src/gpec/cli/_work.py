"""What ``fit``, ``explain`` and ``report`` have in common: a model, a fit, and rows explained by it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from gpec._version import __version__
from gpec.cli._errors import note
from gpec.cli._folder import Folder
from gpec.cli._inputs import Tables, digest, open_model, usual_explainer
from gpec.errors import CheckpointError, ModelMismatchError
from gpec.estimator import GPEC
from gpec.explanation import Explanation

__all__ = ["FitOptions", "RunOptions", "Work"]


@dataclass(frozen=True)
class FitOptions:
    """What a fit depends on, besides the model and the rows."""

    explainer: str | None = None
    n_boundary: int = 2_000
    n_explained: int = 200
    background: int = 100
    model_output: str = "auto"
    categorical_features: tuple[str, ...] | None = None
    random_state: int = 0

    def parameters(self) -> dict[str, Any]:
        chosen = self.categorical_features
        return {**asdict(self), "categorical_features": list(chosen) if chosen else "auto"}


@dataclass(frozen=True)
class RunOptions:
    """How rows are explained."""

    attribution: Literal["explainer", "posterior"] = "explainer"
    level: float = 0.95
    restart: bool = False


@dataclass
class Work:
    """One run of a command. Files are read when they are first needed."""

    source: str
    model_name: str | None
    output_name: str | None
    trust_pickle: bool
    trust_types: list[str] | None
    drop: list[str] | None
    index: str | None
    options: FitOptions
    calibration_rows: Path | None
    jobs: int | None
    progress: bool | None

    @cached_property
    def model(self) -> Any:
        return open_model(self.source, self.model_name, self.output_name, self.trust_pickle, self.trust_types)

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.model, self.drop, self.index)

    @cached_property
    def _calibration_table(self) -> pd.DataFrame | None:
        return None if self.calibration_rows is None else self.tables.read(self.calibration_rows, labelled=False)

    def fit(self, source: pd.DataFrame | Path, folder: Path, restart: bool) -> tuple[GPEC, Folder]:
        """A fit to rows, or one from a file; what is done is kept in a folder, and taken from there."""
        kept, make = self._plan(source, folder, restart)
        with _promise_to_keep(kept):
            return self._fitted(kept, make), kept

    def explain(
        self, data: Path, background: Path | None, fitted: Path | None, folder: Path, run: RunOptions
    ) -> tuple[Explanation, GPEC, Folder]:
        """The rows of a file explained; what is done is kept in a folder, and taken from there."""
        rows = self.tables.read(data)
        if background is None and fitted is None:
            note(f"No background is given, so the rows of {data} themselves are taken for it.")
        like = rows if background is None else self.tables.read(background, labelled=False)
        kept, make = self._plan(like if fitted is None else fitted, folder, run.restart)
        with _promise_to_keep(kept):
            g = self._fitted(kept, make)
            e = g.explain(rows, attribution=run.attribution, confidence_level=run.level, checkpoint=kept.rows)
        resumed = max(e.diagnostics["rows_resumed"].values(), default=0)
        if resumed:
            note(f"{resumed:,} of the {len(rows):,} rows were there already.")
        return e, g, kept

    def _plan(
        self, source: pd.DataFrame | Path, folder: Path, restart: bool
    ) -> tuple[Folder, Callable[[Folder], GPEC]]:
        """Where the work is kept, and how a fit is had: from its file, or made anew from rows."""
        make: Callable[[Folder], GPEC]
        if isinstance(source, Path):
            make, of = partial(self._load, source), {"fit": hashlib.sha256(source.read_bytes()).hexdigest()}
        else:
            make, of = partial(self._new_fit, source), self._source(source)
        return self._folder(folder, of, restart), make

    def _new_fit(self, background: pd.DataFrame, kept: Folder) -> GPEC:
        chosen = self.options.explainer or usual_explainer(self.model, background)
        parameters = {**self.options.parameters(), "explainer": chosen}
        g = self._tuned(GPEC(self.model, **parameters))
        return self._calibrated(g.fit(background, checkpoint=kept.fitting), kept)

    def _load(self, fitted: Path, kept: Folder) -> GPEC:
        g = self._tuned(GPEC.load(fitted, model=self.model, explainer=self.options.explainer))
        return self._calibrated(g, kept)

    def _source(self, background: pd.DataFrame) -> dict[str, str]:
        """What a new fit is made from."""
        options = {name.replace("_", " "): str(value) for name, value in asdict(self.options).items()}
        return {"background rows": digest(background), **options}

    def _folder(self, path: Path, source: dict[str, str], restart: bool) -> Folder:
        checked = "none" if self._calibration_table is None else digest(self._calibration_table)
        self.tables.require_dropped()
        kept = Folder(path, {"version": __version__, "calibration rows": checked, **source})
        if restart:
            kept.remove()
        return kept

    def _fitted(self, kept: Folder, make: Callable[[Folder], GPEC]) -> GPEC:
        """The fit that is kept, or a new one, calibrated if there are rows for it."""
        if kept.check():
            note(f"Going on with what an earlier run left in {kept.path}.")
        else:
            kept.start()
        if kept.fit.exists():
            return self._kept_fit(kept)
        g = make(kept)
        kept.keep(g)
        return g

    def _kept_fit(self, kept: Folder) -> GPEC:
        try:
            return self._tuned(GPEC.load(kept.fit, model=self.model, explainer=self.options.explainer))
        except ModelMismatchError as error:
            raise CheckpointError(
                f"{kept.path} holds an earlier run with another model; pass --restart to throw it away, or another "
                "folder as --checkpoint."
            ) from error

    def _tuned(self, g: GPEC) -> GPEC:
        progress: Any = "auto" if self.progress is None else self.progress
        tuned: GPEC = g.set_params(n_jobs=self.jobs, progress=progress)
        return tuned

    def _calibrated(self, g: GPEC, kept: Folder) -> GPEC:
        rows = self._calibration_table
        return g if rows is None else g.calibrate(rows, checkpoint=kept.calibrating)


@contextmanager
def _promise_to_keep(kept: Folder) -> Iterator[None]:
    """If the work ends early, the error says that what was done is kept; a folder without any is not left behind."""
    try:
        yield
    except CheckpointError:
        raise
    except BaseException as error:
        if not kept.has_work:
            kept.remove()
        else:
            error.add_note(f"What was computed is kept in {kept.path}; the same command goes on from there.")
        raise
