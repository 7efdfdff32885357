"""What ``fit``, ``explain`` and ``report`` have in common: a model, a fit, and rows explained by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from gpec._checkpoint import other_work
from gpec._fingerprint import fingerprint
from gpec.cli._errors import note
from gpec.cli._folder import Folder
from gpec.cli._inputs import Tables, open_model, usual_explainer
from gpec.cli._options import ExplainOptions, FitOptions
from gpec.cli._outputs import write
from gpec.errors import ModelMismatchError
from gpec.estimator import GPEC
from gpec.explanation import Explanation

__all__ = ["Work"]


@dataclass
class Work:
    """One run of a command. Files are read when they are first needed."""

    source: str
    options: FitOptions

    @cached_property
    def model(self) -> Any:
        o = self.options
        return open_model(self.source, o.model_name, o.output_name, o.trust_pickle, o.trust_type)

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
            "n_boundary": o.n_boundary,
            "n_explained": o.n_explained,
            "background": o.n_background,
            "model_output": o.model_output,
            "categorical_features": o.categorical or "auto",
            "random_state": o.seed,
        }

    @contextmanager
    def fitted(self, source: pd.DataFrame | Path, out: Path) -> Iterator[tuple[GPEC, Path]]:
        """A fit to rows, or one from a file, and the folder in which what is done is kept until the block ends."""
        kept = Folder(self.options.folder(out), self._identity(source))
        with kept.working(restart=self.options.restart, keep=self.options.keep):
            yield self._fitted(source, kept), kept.path

    def explain(self, data: Path, out: Path, options: ExplainOptions) -> Explanation:
        """Explain the rows of a file, and write the result."""
        rows, source = self.tables.read(data), options.fitted
        if options.background is None and source is None:
            note(f"No background is given, so the rows of {data} themselves are taken for it.")
        like = rows if options.background is None else self.tables.read(options.background, labelled=False)
        with self.fitted(like if source is None else source, out) as (g, folder):
            e = g.explain(
                rows, attribution=options.attribution, confidence_level=options.level, checkpoint=folder / "rows"
            )
            resumed = max(e.diagnostics["rows_resumed"].values(), default=0)
            if resumed:
                note(f"{resumed:,} of the {len(rows):,} rows were there already.")
            write(e, out, g)
        return e

    def _identity(self, source: pd.DataFrame | Path) -> dict[str, str]:
        """What the fit depends on besides the model, which only its answers can tell."""
        if isinstance(source, Path):
            of: dict[str, Any] = {"the fit": source.read_bytes()}
        else:
            of = {"the background rows": source, **self._parameters}
        of["the calibration rows"] = self._calibration_rows
        self.tables.require_dropped()
        return {name: fingerprint(part) for name, part in of.items()}

    def _fitted(self, source: pd.DataFrame | Path, kept: Folder) -> GPEC:
        """The fit that is kept, that of a file, or a new one, calibrated if there are rows for it."""
        if kept.fit.exists():
            try:
                return self._loaded(kept.fit)
            except ModelMismatchError as error:
                raise other_work(kept.path, "the model") from error
        rows = self._calibration_rows
        if isinstance(source, Path):
            g = self._loaded(source)
            if rows is None:
                return g
        else:
            chosen = self.options.explainer or usual_explainer(self.model, source)
            g = self._tuned(GPEC(self.model, **{**self._parameters, "explainer": chosen}))
            g.fit(source, checkpoint=kept.path / "fitting")
        if rows is not None:
            g.calibrate(rows, checkpoint=kept.path / "calibrating")
        g.save(kept.fit)
        return g

    def _loaded(self, path: Path) -> GPEC:
        return self._tuned(GPEC.load(path, model=self.model, explainer=self.options.explainer))

    def _tuned(self, g: GPEC) -> GPEC:
        progress = "auto" if self.options.progress is None else self.options.progress
        tuned: GPEC = g.set_params(n_jobs=self.options.jobs, progress=progress)
        return tuned
