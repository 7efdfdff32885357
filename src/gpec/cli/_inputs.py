"""Models and tables from command-line arguments."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from gpec.cli._errors import note
from gpec.cli._options import FitOptions
from gpec.cli._trial import try_in_child
from gpec.data import read_table
from gpec.errors import ExplainerError, InputError
from gpec.explainers import TreeShap
from gpec.models import load_model, match_columns

_TRIED_ROWS = 20
_WITH_TREES = ("catboost", "lightgbm", "sklearn", "xgboost")


def open_model(source: str, options: FitOptions) -> Any:
    """The model; a file is tried in a child process first, ``package.module:function`` searched for here, too."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try_in_child(source)
    trusted, names = options.trust_type or (), {"model_name": options.model_name, "output_name": options.output_name}
    return load_model(source, trust_pickle=options.trust_pickle, trust_types=trusted, **names)


@dataclass
class Tables:
    """Reads tables and matches their columns to the model; each note is printed once."""

    model: Any
    drop: list[str] | None = None
    index: str | None = None
    _noted: list[list[str]] = field(default_factory=list)
    _dropped: set[str] = field(default_factory=set)

    def read(self, path: Path, *, labelled: bool = True) -> pd.DataFrame:
        """A table; if its rows are ``labelled`` it must have the index column."""
        table = read_table(path, index=self.index if labelled else None)
        if not labelled and self.index in table.columns:
            table = table.set_index(self.index)
        dropped = [name for name in self.drop or [] if name in table.columns]
        self._dropped.update(dropped)
        table, left_out = match_columns(self.model, table.drop(columns=dropped), name=str(path))
        if left_out and left_out not in self._noted:
            self._noted.append(left_out)
            note(f"Left out columns that the model does not take: {', '.join(left_out)}.")
        return table

    def require_dropped(self) -> None:
        """Raise if a column to drop was in no table: a misspelt label would become a feature."""
        for name in self.drop or []:
            if name not in self._dropped:
                raise InputError(f"No table has a column {name!r} to leave out (--drop).")


def usual_explainer(model: Any, table: pd.DataFrame) -> str:
    """TreeSHAP for trees that it can explain, else KernelSHAP; prints which."""
    chosen = "kernelshap"
    if type(model).__module__.partition(".")[0] in _WITH_TREES:
        with suppress(ExplainerError):  # no trees, or trees that it cannot read
            TreeShap().fit(model, table.head(_TRIED_ROWS))
            chosen = "tree"
    note(f"Explainer: {chosen}.")
    return chosen
