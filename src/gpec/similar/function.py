"""Similar rows made by the user's own function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from gpec._validation import check_choice
from gpec.data import Schema, same_values
from gpec.errors import InputError, ParameterTypeError
from gpec.runtime.state import NOT_STORED, Limits
from gpec.similar.base import Similar, SimilaritySampler
from gpec.typing import FloatArray

_TRIED_ROWS = 3  # on which the function is tested in learn


@dataclass(eq=False, repr=False)
class SimilarFunction(Similar):
    """Similar rows that a function makes; ``GPEC(similar=function)`` is the same.

    Parameters
    ----------
    function : callable
        Gets ``n`` rows in the format of ``fit`` (an array or a DataFrame) and returns the same number ``K`` of similar
        rows for each: an array ``(n, K, d)``, a list of ``K`` tables of ``n`` rows each, or one table of ``n * K`` rows
        that starts with the ``K`` rows of the first row. It should give a row the same similar rows in every call.
    random : bool
        Whether the similar rows of a row are independent draws of what a similar row may be, such as repeated
        measurements. Then intervals of ``mode="explain"`` hold for further draws, too: 39 draws give 95%. Otherwise the
        ``K`` rows are all similar rows there are.

    Notes
    -----
    A function cannot be saved in a file: pass it again to ``load``.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.data import Schema
    >>> from gpec.similar import SimilarFunction
    >>> def older(X):
    ...     return [X + [1, 0], X + [2, 0]]
    >>> schema, Z = Schema.learn(np.array([[30.0, 1.0], [40.0, 2.0]]))
    >>> SimilarFunction(older).learn(schema, Z, seed=0).rows(Z[:1])
    array([[[31., 1.], [32., 1.]]])
    """

    function: Callable[[Any], Any]
    random: bool = False

    def check(self, schema: Schema) -> None:
        """Raise if it is not a function."""
        if not callable(self.function):
            raise ParameterTypeError(f"function={self.function!r} must be a function of rows.")
        check_choice("random", self.random, (True, False))

    def learn(self, schema: Schema, Z: FloatArray, seed: int) -> SimilaritySampler:
        """The sampler, after a test of the function on a few rows."""
        self.check(schema)
        name = str(getattr(self.function, "__name__", type(self.function).__name__))
        tried = FunctionOfRows(schema, name, None, self.random, function=self.function)
        return replace(tried, n_similar=tried.rows(Z[:_TRIED_ROWS]).shape[1])


@dataclass(frozen=True, eq=False)
class FunctionOfRows(SimilaritySampler):
    """Similar rows by a function; ``function`` is None after loading from a file."""

    kind = "function"

    schema: Annotated[Schema, NOT_STORED]
    function: Annotated[Callable[[Any], Any] | None, NOT_STORED] = field(default=None, kw_only=True)
    name: str
    n_similar: Annotated[int | None, Limits(least=1)]  # of each row; None: not known yet
    random: bool = False

    def rows(self, Z: FloatArray) -> FloatArray:
        if self.function is None:
            raise InputError(
                f"The similar rows came from the function '{self.name}', which cannot be saved in a file; pass it "
                "again as similar= when you load the file."
            )
        try:
            answer = self.function(self.schema.for_model(Z))
        except Exception as error:
            reason = str(error).rstrip(".")
            raise InputError(f"similar={self.name} raised {type(error).__name__}: {reason}.") from error
        similar = self._encoded(answer, len(Z))
        if self.n_similar not in (None, similar.shape[1]):
            raise InputError(
                f"similar={self.name} returned {similar.shape[1]} similar rows for each row, and {self.n_similar} "
                "before; the number must always be the same."
            )
        unchanged = same_values(similar, Z[:, None, :]).all(axis=(1, 2))
        if unchanged.any():
            raise InputError(
                f"similar={self.name} returned only row {int(unchanged.argmax())} itself for that row; return rows "
                "that differ from it."
            )
        return similar

    def with_function(self, function: Callable[[Any], Any]) -> SimilaritySampler:
        """The same sampler with the function, which a file does not contain."""
        return replace(self, function=function)

    @property
    def phrase(self) -> str:
        which = "the row" if self.n_similar == 1 else f"one of the {self.n_similar:,} rows"
        return f"{which} that the function '{self.name}' makes of it"

    def _encoded(self, answer: Any, n: int) -> FloatArray:
        """The answer for ``n`` rows as encoded rows ``(n, K, d)``."""
        depth = 2 if self.schema.shape is None else 1 + len(self.schema.shape)
        if isinstance(answer, (list, tuple)) and answer and all(_depth(part) == depth for part in answer):
            tables = [self.schema.encode(part, "similar(X)") for part in answer]
            for k, table in enumerate(tables):
                if len(table) != n:
                    raise InputError(
                        f"similar={self.name} returned a list whose table {k} has {len(table)} rows for {n} rows; each "
                        "table must have one row for each row."
                    )
            return np.stack(tables, axis=1)
        if _depth(answer) == depth + 1:
            shape = tuple(answer.shape)
            if shape[0] != n or shape[1] == 0:
                raise InputError(
                    f"similar={self.name} returned an array of shape {shape} for {n} rows; its first axis must be the "
                    "rows, its second their similar rows."
                )
            answer = answer.reshape(-1, *shape[2:])
        rows = self.schema.encode(answer, "similar(X)")
        if len(rows) % n:
            raise InputError(
                f"similar={self.name} returned {len(rows)} rows for {n} rows; it must return the same number of "
                "similar rows for each."
            )
        return rows.reshape(n, -1, rows.shape[1])


def _depth(table: Any) -> int:
    """The number of axes of an array or a table; 0 for other objects."""
    return len(getattr(table, "shape", ()))
