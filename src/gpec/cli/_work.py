"""What ``fit``, ``explain`` and ``report`` have in common: a model, a fit, and rows explained by it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from gpec._checkpoint import other_work
from gpec._fingerprint import fingerprint
from gpec.cli._errors import note
from gpec.cli._folder import Folder
from gpec.cli._inputs import Tables, open_model, usual_explainer
from gpec.errors import ModelMismatchError
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
        kept = Folder(folder, self._identity(source))
        with kept.working(restart):
            return self._fitted(source, kept), kept

    def explain(
        self, data: Path, background: Path | None, fitted: Path | None, folder: Path, run: RunOptions
    ) -> tuple[Explanation, GPEC, Folder]:
        """The rows of a file explained; what is done is kept in a folder, and taken from there."""
        rows = self.tables.read(data)
        if background is None and fitted is None:
            note(f"No background is given, so the rows of {data} themselves are taken for it.")
        like = rows if background is None else self.tables.read(background, labelled=False)
        source = like if fitted is None else fitted
        kept = Folder(folder, self._identity(source))
        with kept.working(run.restart):
            g = self._fitted(source, kept)
            e = g.explain(rows, attribution=run.attribution, confidence_level=run.level, checkpoint=kept.path / "rows")
        resumed = max(e.diagnostics["rows_resumed"].values(), default=0)
        if resumed:
            note(f"{resumed:,} of the {len(rows):,} rows were there already.")
        return e, g, kept

    def _identity(self, source: pd.DataFrame | Path) -> dict[str, str]:
        """What the fit depends on besides the model, which only its answers can tell."""
        if isinstance(source, Path):
            of: dict[str, Any] = {"the fit": source.read_bytes()}
        else:
            of = {"the background rows": source, **asdict(self.options)}
        of["the calibration rows"] = self._calibration_table
        self.tables.require_dropped()
        return {name: fingerprint(part) for name, part in of.items()}

    def _fitted(self, source: pd.DataFrame | Path, kept: Folder) -> GPEC:
        """The fit that is kept, that of a file, or a new one, calibrated if there are rows for it."""
        if kept.fit.exists():
            try:
                return self._loaded(kept.fit)
            except ModelMismatchError as error:
                raise other_work(kept.path, "the model") from error
        rows = self._calibration_table
        if isinstance(source, Path):
            g = self._loaded(source)
            if rows is None:
                return g
        else:
            chosen = self.options.explainer or usual_explainer(self.model, source)
            g = self._tuned(GPEC(self.model, **{**self.options.parameters(), "explainer": chosen}))
            g.fit(source, checkpoint=kept.path / "fitting")
        if rows is not None:
            g.calibrate(rows, checkpoint=kept.path / "calibrating")
        g.save(kept.fit)
        return g

    def _loaded(self, path: Path) -> GPEC:
        return self._tuned(GPEC.load(path, model=self.model, explainer=self.options.explainer))

    def _tuned(self, g: GPEC) -> GPEC:
        progress: Any = "auto" if self.progress is None else self.progress
        tuned: GPEC = g.set_params(n_jobs=self.jobs, progress=progress)
        return tuned
