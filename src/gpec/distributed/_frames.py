"""Dask frames and arrays, explained lazily."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from gpec._validation import check_installed
from gpec.data._tables import read_table
from gpec.distributed._partition import Partition, explain_rows
from gpec.distributed._task import ExplainTask
from gpec.errors import InputError, ParameterTypeError
from gpec.runtime.payload import pass_through, picklable_errors


def is_dask(X: Any) -> bool:
    """Whether it is a Dask frame or array; does not import Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def explain_lazily(
    g: Any,
    X: Any,
    attribution: Any,
    confidence_level: float,
    n_similar_explained: Any,
    groups: Any,
    checkpoint: Any,
    budget: Any,
) -> Any:
    """:meth:`gpec.GPEC.explain` for Dask rows."""
    if n_similar_explained is not None:
        raise InputError(
            "n_similar_explained is for rows in memory; for Dask it is that of calibrate(..., n_similar_explained=...)."
        )
    if groups is not None:
        raise InputError("groups is for rows in memory; for Dask calibrate with the name of a column of the rows.")
    if budget is not None:
        raise InputError(
            "budget is for rows in memory, which are explained in one call; leave it out for Dask, or explain parts."
        )
    if checkpoint is not None:
        raise InputError(
            "checkpoint is for rows in memory; for a Dask DataFrame write Parquet files and pass their folder to "
            "gpec.distributed.explain_parquet(..., resume=True), or leave it out."
        )
    return explain(g, X, attribution=attribution, confidence_level=confidence_level)


def explain(
    g: Any,
    X: Any,
    *,
    attribution: Literal["explainer", "posterior"] = "explainer",
    confidence_level: float = 0.95,
    errors: Literal["raise", "keep"] = "raise",
) -> Any:
    """Explain a Dask DataFrame or array; ``g.explain(X)`` does the same.

    Parameters
    ----------
    g : GPEC
        Fitted. It is sent to each worker once.
    X : dask.dataframe.DataFrame or dask.array.Array
        Rows to explain. The columns of an array must be in one chunk; the sizes of its chunks must be known.
    attribution, confidence_level
        As for :meth:`gpec.GPEC.explain`.
    errors : {"raise", "keep"}
        What to do about a row that cannot be explained: raise an error that names the partition and the row, or give
        its lines missing values and the reason in a further column ``error``.

    Returns
    -------
    dask.dataframe.DataFrame
        The lines and columns of :meth:`gpec.Explanation.to_frame`, in the order of the rows, one partition for each of
        ``X``. ``row`` is the label in the index, or the number of the row in an array. Nothing is computed yet.
    """
    dd = check_installed("dask.dataframe", "Explaining rows of Dask", '"gpec[dask]"')
    import dask

    task = ExplainTask.of(g, attribution, confidence_level, errors)
    if isinstance(X, dd.DataFrame):
        read_table(X._meta, "X", task.schema.labels).aligned(task.schema.labels, "X")
        blocks = X.to_delayed()
        firsts: list[int | None] = [None] * len(blocks)
        like = X._meta_nonempty.index
    else:
        blocks, firsts = _blocks_of_array(X)
        like = pd.RangeIndex(0)
    sent, explain_block = dask.delayed(pass_through, pure=False)(task), dask.delayed(_explain_block, pure=False)
    parts = [
        explain_block(sent, block, Partition(i), first)
        for i, (block, first) in enumerate(zip(blocks, firsts, strict=True))
    ]
    with dask.config.set({"dataframe.convert-string": False}):  # mixed values in the column data would become strings
        return dd.from_delayed(parts, meta=task.layout.empty(like), prefix="gpec-explain", verify_meta=False)


def _explain_block(task: ExplainTask, rows: Any, partition: Partition, first: int | None) -> pd.DataFrame:
    with picklable_errors():
        kind: Any = pd.DataFrame if first is None else np.ndarray
        if not isinstance(rows, kind):
            raise InputError(f"{partition} is a {type(rows).__name__}, not the type that the Dask collection declares.")
        labels = rows.index.to_numpy() if first is None else np.arange(first, first + len(rows))
        return explain_rows(task, rows, labels, partition)[0]


def _blocks_of_array(X: Any) -> tuple[list[Any], list[int | None]]:
    """One task for each chunk of rows, and the number of its first row."""
    import dask.array as da

    if not isinstance(X, da.Array):
        raise ParameterTypeError(f"X is a {type(X).__name__}; pass a Dask DataFrame or array, or call g.explain(X).")
    if X.ndim < 2:
        raise InputError(f"X must have 2 dimensions (rows, features), or 3 or 4 for images, got shape {X.shape}.")
    if any(np.isnan(size) for sizes in X.chunks for size in sizes):
        raise InputError("The chunks of X have unknown sizes; call X.compute_chunk_sizes() first.")
    rechunked = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    blocks = rechunked.to_delayed().reshape(-1).tolist()
    return blocks, np.cumsum([0, *rechunked.chunks[0]])[:-1].tolist()
