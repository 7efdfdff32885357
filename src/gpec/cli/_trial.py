"""A model file tried in a child process first: some libraries end the whole process on a garbled file."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpec.errors import CorruptFileError
from gpec.explainers import TreeShap
from gpec.models._matching import Inputs, inputs_of
from gpec.models._resolve import resolve
from gpec.models._trees import check_trees
from gpec.models.loading import READERS, load_model

_ENDINGS = (*READERS, ".onnx")  # read by libraries that are not written in Python
_SECONDS = 120.0
_ROWS, _EXPLAINED, _MOST_COLUMNS = 256, 16, 100_000
_LARGE = 200_000_000  # bytes; to look at so many trees takes long
_NO_TREES = 70  # exit code


def try_in_child(source: str, *, seconds: float = _SECONDS) -> None:
    """Load a model file, ask the model once and read its trees, in a child process.

    Raises
    ------
    CorruptFileError
        If the child dies or needs longer than ``seconds``. Other errors are left to the process that uses the model.
    """
    path = Path(source)
    if path.suffix.lower() not in _ENDINGS or not path.is_file() or not sys.executable:
        return
    # -P: no module of the current folder takes the place of an installed one
    ask = "import sys; from gpec.cli import _trial; _trial.ask_once(sys.argv[1])"
    command = [sys.executable, "-P", "-c", ask, source]
    silent: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    try:
        code = subprocess.run(command, timeout=seconds, check=False, **silent).returncode  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise CorruptFileError(
            f"{path} was not read, and its model not asked, within {seconds:g} seconds; write the model again."
        ) from error
    if code == _NO_TREES:
        raise CorruptFileError(
            f"{path} is damaged: its trees name nodes, columns, categories or classes that do not exist; write the "
            "model again."
        )
    if code:
        how = signal.Signals(-code).name if -code in set(signal.Signals) else f"exit code {code}"
        raise CorruptFileError(
            f"{path} is damaged: a process that reads it and asks the model ends ({how}); write the model again."
        )


def ask_once(source: str) -> None:
    """Load a model, check its trees, ask it about made-up rows, and explain some of them by its trees.

    Python errors are left to the process that uses the model.
    """
    with suppress(Exception):
        model = load_model(source)
        is_small = Path(source).stat().st_size < _LARGE
        if is_small:
            try:
                check_trees(model)
            except CorruptFileError:
                sys.exit(_NO_TREES)
        rows = _made_up_rows(inputs_of(model))
        resolve(model, "auto")[0](rows)
        if is_small:  # CatBoost writes its trees to a file
            TreeShap().fit(model, rows[:_EXPLAINED])(rows[:_EXPLAINED])


def _made_up_rows(inputs: Inputs) -> pd.DataFrame:
    """Rows with numbers of any sign and size, some missing, and with the model's own categories."""
    count = min(inputs.count or 1, _MOST_COLUMNS)
    rng = np.random.default_rng(0)
    values = rng.choice([-1.0, 1.0], (_ROWS, count)) * 10.0 ** rng.uniform(-4, 6, (_ROWS, count))
    values[::16] = 0.0
    values[1::16][rng.random((_ROWS // 16, count)) < 0.5] = np.nan
    table = pd.DataFrame(values, columns=list(inputs.names or range(count)))
    for j, known in inputs.categories.items():
        categories = pd.Index(known or [0, 1])
        table[table.columns[j]] = pd.Categorical.from_codes(np.arange(_ROWS) % len(categories), categories)
    for j in inputs.texts:
        table[table.columns[j]] = "0"
    return table
