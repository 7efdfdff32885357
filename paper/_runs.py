"""What every script stands on: sizes, results that are kept as they are found, and pictures."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np

import gpec
from gpec.runtime.archive import replacing

__all__ = ["HERE", "OUT", "Run", "Size", "mean_and_error", "plus_minus"]

HERE = Path(__file__).parent
OUT = Path("build") / "reproduction"
Size = Literal["toy", "small", "paper"]
_DIGITS = 6  # significant ones, of numbers that are kept


@dataclass(eq=False)
class Run:
    """One script at one size: what it has found so far is kept in a JSON file, and is not computed again.

    The file lies in ``unfinished`` until :meth:`finish` puts it among the results; the next run computes all anew.

    Parameters
    ----------
    name : str
        Of the script.
    size : {"toy", "small", "paper"}
        "toy" is for tests, "small" for a quarter of an hour, "paper" as published.
    seeds : int or None
        Independent repetitions; None leaves it to the script.
    settings : dict
        All that the numbers depend on; with others the work begins anew.
    folder : Path
        Where results and figures go.
    """

    name: str
    size: Size
    seeds: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    folder: Path = OUT

    def __post_init__(self) -> None:
        self.path = self.folder / "unfinished" / self.size / f"{self.name}.json"
        self.result = self.folder / "results" / self.size / f"{self.name}.json"
        self.settings = json.loads(json.dumps(_plain(self.settings)))
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.values: dict[str, Any] = kept["values"] if kept.get("settings") == self.settings else {}
        self.seconds: dict[str, float] = kept["seconds"] if self.values else {}

    @classmethod
    def found(cls, name: str, size: Size, folder: Path = OUT) -> Run | None:
        """What the last finished run found, whatever its settings."""
        path = folder / "results" / size / f"{name}.json"
        if not path.exists():
            return None
        kept = json.loads(path.read_text())
        run = cls(name, size, None, kept["settings"], folder)
        run.values, run.seconds = kept["values"], kept["seconds"]
        return run

    def choose(self, *, toy: Any, small: Any, paper: Any) -> Any:
        """The one of three that fits the size."""
        return {"toy": toy, "small": small, "paper": paper}[self.size]

    def once(self, key: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` gives, as JSON holds it; from the file if an earlier run got so far."""
        if key not in self.values:
            print(f"   {self.name}: {key}", flush=True)
            started = time.perf_counter()
            self.values[key] = json.loads(json.dumps(_plain(compute())))
            self.seconds[key] = round(time.perf_counter() - started, 2)
            self._write()
        return self.values[key]

    def finish(self) -> None:
        """Put what was found among the results."""
        self._write()
        self.result.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.path, self.result)

    def save(self, figure: Any, name: str) -> None:
        """Save a figure as PNG, and close it."""
        folder = self.folder / "figures" / self.size
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / f"{name}.png", dpi=110)
        plt.close(figure)

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "version": gpec.__version__,
            "python": platform.python_version(),
            "size": self.size,
            "settings": self.settings,
            "seconds": self.seconds,
            "values": self.values,
        }
        with replacing(self.path) as new:
            new.write_text(json.dumps(document, indent=1) + "\n")


def mean_and_error(numbers: Any) -> tuple[float, float]:
    """Mean and standard error of independent repetitions."""
    numbers = np.asarray(numbers, dtype=float)
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return float(numbers.mean()), float(error)


def plus_minus(numbers: Any, digits: int = 3) -> str:
    """``1.234 ± 0.010``."""
    mean, error = mean_and_error(numbers)
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) else "")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
