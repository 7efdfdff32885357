"""Groups of rows that intervals hold for: read from the user, found in a pool of rows, and drawn from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from gpec._validation import check_count
from gpec.data import Rows, Schema
from gpec.data._equality import contents_of, distinct_rows
from gpec.errors import InputError
from gpec.intervals.conformal import ConformityScores, Scores, rows_needed
from gpec.intervals.groups import ALL_ROWS, Group, GroupedScores, members
from gpec.models import Model
from gpec.pipeline.fitted import Fitted
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.randomness import derived_seed
from gpec.similar.base import uniform
from gpec.typing import BoolArray, FloatArray, IntArray

_LEVEL = 0.95  # for which each group has enough rows
_FEWEST = rows_needed(_LEVEL)
_TAIL = 0.02  # of the rows
_WIDEST_TAIL = 0.5  # with many equal answers
_MOST_NUMBERS = 20  # distinct ones in a column whose values are groups


@dataclass(frozen=True, eq=False)
class Asked:
    """How many rows to draw, and the groups that the user names: columns of the rows, and masks by name."""

    n: int | None
    columns: tuple[int, ...] = ()
    masks: Mapping[str, BoolArray] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What a checkpoint depends on."""
        return fingerprint(self.n, self.columns, dict(self.masks), lasting=True)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows of a pool, by number, and which of them calibrate which group ``(n, G)``."""

    rows: IntArray
    groups: tuple[Group, ...]
    drawn: BoolArray

    def scores(self, scores: ConformityScores) -> GroupedScores:
        """The scores of these rows by group."""
        return GroupedScores(scores, self.groups, self.drawn, np.zeros((0, len(self.groups)), dtype=np.bool_))


def read_asked(n: Any, groups: Any, schema: Schema, n_rows: int) -> Asked | None:
    """What ``calibrate(X, n=, groups=)`` asks for; None: one quantile for all rows."""
    if n is not None:
        check_count("n", n)
    if groups is None:
        return None if n is None else Asked(n)
    columns = _columns(groups, schema)
    if columns is not None:
        return Asked(n, columns)
    return Asked(n, (), read_masks(groups, n_rows))


def _columns(groups: Any, schema: Schema) -> tuple[int, ...] | None:
    """The numbers of columns that ``groups`` names; None if it is labels or masks of rows."""
    one = isinstance(groups, (str, int, np.integer)) and not isinstance(groups, bool)
    if not one and not isinstance(groups, (list, tuple)):
        return None
    known = list(range(schema.n_features) if schema.labels is None else schema.labels)
    wanted = [groups] if one else list(groups)
    if wanted and all(not isinstance(name, (list, np.ndarray)) and name in known for name in wanted):
        return tuple(known.index(name) for name in wanted)
    if one:
        raise InputError(f"groups={groups!r} is not a column of X, which has {_some(known)}.")
    return None


def _some(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def read_masks(groups: Any, n_rows: int) -> dict[str, BoolArray]:
    """Which rows are in which group, from labels or a dict of boolean masks."""
    if isinstance(groups, Mapping):
        if not groups:
            raise InputError("groups={} names no group; leave it out, or pass masks such as {'young': X['age'] < 30}.")
        found = {}
        for name, mask in groups.items():
            values = np.asarray(mask)
            if values.dtype != np.bool_ or values.shape != (n_rows,):
                seen = f"{values.dtype} of shape {values.shape}"
                raise InputError(f"groups[{name!r}] is {seen}; it must be a boolean mask of the {n_rows} rows.")
            found[str(name)] = values
        return found
    labels = pd.Series(np.asarray(groups, dtype=object)) if np.ndim(groups) == 1 else None
    if labels is None or len(labels) != n_rows:
        seen = f"{len(labels)} labels" if labels is not None else repr(groups)[:60]
        raise InputError(
            f"groups is {seen}, but must be one label for each of the {n_rows} rows, a column name or a list of them, "
            "or a dict of boolean masks."
        )
    return {str(label): (labels == label).to_numpy(bool) for label in sorted(labels.dropna().unique(), key=str)}


def draw_rows(fitted: Fitted, Z: FloatArray, outputs: FloatArray, asked: Asked) -> DrawnRows:
    """Rows of the pool ``Z``, of which the model's outputs are known: up to ``n`` of them, or all."""
    context = fitted.context
    fresh = np.flatnonzero(~fitted.was_explained(Z)) if asked.n is not None else np.arange(len(Z))
    if not len(fresh):
        raise InputError(f"All {len(Z)} rows were explained in fit; calibrate with others.")
    Z, outputs = Z[fresh], outputs[fresh]
    given = {name: mask[fresh] for name, mask in asked.masks.items()}
    labels = _labels(context.model, outputs)
    groups = _find_groups(context.schema, context.model, Z, outputs, labels, asked.columns, given)
    member = members(groups, Z, outputs, labels, given)
    member[:, 0] = True  # all rows, whichever take their quantile
    groups = tuple(replace(g, rows_in_pool=int(m)) for g, m in zip(groups, member.sum(axis=0), strict=True))
    if asked.n is None or asked.n >= len(Z):
        return DrawnRows(fresh, groups, member)
    drawn = _first_of_each(member, _order(Z, derived_seed(context.seed, "calibration pool")), asked.n)
    chosen = np.flatnonzero(drawn.any(axis=1))
    return DrawnRows(fresh[chosen], groups, drawn[chosen])


def _order(Z: FloatArray, seed: int) -> IntArray:
    """A random order of the rows, by their content: that of the table does not matter."""
    seen: dict[bytes, int] = {}
    contents = []
    for content in contents_of(Z):
        seen[content] = seen.get(content, 0) + 1
        contents.append(content + seen[content].to_bytes(8, "little"))  # copies are drawn apart from each other
    return np.argsort(uniform(seed, contents, 1)[:, 0], kind="stable")


def _first_of_each(member: BoolArray, order: IntArray, n: int) -> BoolArray:
    """Which rows calibrate which group: the first of each group in one random order, up to ``n`` rows together.

    All groups get as many, so many that their quantile at 95% is no more than it need be, and all rows get the rest.
    """
    rank = np.empty(member.shape, dtype=np.int64)
    rank[order] = np.where(member[order], member[order].cumsum(axis=0), len(member) + 1)
    in_pool = member.sum(axis=0)

    def first(of_all: int, of_each: int) -> BoolArray:
        wanted = np.minimum([of_all, *[of_each] * (member.shape[1] - 1)], _rung(in_pool))
        return np.asarray(rank <= wanted)

    def size(of_all: int, of_each: int) -> int:
        return int(first(of_all, of_each).any(axis=1).sum())

    if size(_FEWEST, _FEWEST) > n:
        raise InputError(
            f"n={n} is too small: {_FEWEST} rows of each of {member.shape[1]} groups, which 95% needs, are "
            f"{size(_FEWEST, _FEWEST)} rows."
        )
    rungs = range(_FEWEST, int(_rung(np.array(n))) + 1, _FEWEST + 1)
    of_each = max(rung for rung in rungs if size(rung, rung) <= n)
    return first(max(rung for rung in rungs if rung >= of_each and size(rung, of_each) <= n), of_each)


def _rung(n: IntArray) -> IntArray:
    """The largest of 19, 39, 59, ... up to ``n``; between them the quantile rises with every row."""
    return np.asarray((n + 1) // (_FEWEST + 1) * (_FEWEST + 1) - 1)


def _labels(model: Model, outputs: FloatArray) -> IntArray:
    """The predicted class; 0 for a regressor."""
    if outputs.shape[1] > 1:
        return np.asarray(outputs.argmax(axis=1), dtype=np.int64)
    cut = np.inf if model.is_regressor else logit(model.threshold)
    return np.asarray(outputs[:, 0] > cut, dtype=np.int64)


def _find_groups(
    schema: Schema,
    model: Model,
    Z: FloatArray,
    outputs: FloatArray,
    labels: IntArray,
    columns: tuple[int, ...],
    given: Mapping[str, BoolArray],
) -> tuple[Group, ...]:
    """All rows, predicted classes, both tails of a single output, and the groups that the user named.

    Those of our own that have too few rows are left out; rows in none of the classes that are left are a group.
    """
    different = distinct_rows(Z)[0]

    def count(group: Group) -> int:
        return int(members((Group(ALL_ROWS, "all"), group), Z, outputs, labels, given)[different, 1].sum())

    own: list[Group] = []
    if not model.is_regressor:
        classes = model.classes.tolist()
        own += [Group(f"predicted {classes[k]}", "class", k) for k in np.unique(labels).tolist()]
    if outputs.shape[1] == 1:
        own += _tails(outputs[:, 0])
    own = [group for group in own if count(group) >= _FEWEST]
    cells = [group for group in own if group.kind == "class" or model.is_regressor]
    rest = members((Group(ALL_ROWS, "all"), *cells), Z, outputs, labels, given)[:, 0]
    several = len(cells) > 1 or bool(cells and rest.any())
    if not several:
        own = [group for group in own if group not in cells]
    elif rest[different].sum() >= _FEWEST:
        own.append(Group("other answers", "other"))
    everybody = several and 0 < rest[different].sum() < _FEWEST
    named = [group for j in columns for group in _values(schema, Z, j)]
    named += [Group(name, "given") for name in given]
    for group in named:
        if (lacking := _FEWEST - count(group)) > 0:
            rows = "row" if lacking == 1 else "rows"
            verb = "is" if lacking == 1 else "are"
            raise InputError(f"{lacking} more {rows} of '{group.name}' {verb} needed for 95%; pass a larger X.")
    found = (Group(ALL_ROWS, "all", int(everybody)), *own, *named)
    names = [group.name for group in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"Two groups have the name '{twice}'; give them different names.")
    return found


def _tails(output: FloatArray) -> list[Group]:
    """The lowest and the highest 2%, with those of equal answers."""
    ordered, k = np.sort(output), max(1, round(_TAIL * len(output))) - 1
    tails = [Group("lowest 2% of answers", "low", value=float(ordered[k]))]
    tails.append(Group("highest 2% of answers", "high", value=float(ordered[-1 - k])))
    shares = [(output <= tails[0].value).mean(), (output >= tails[1].value).mean()]
    return [tail for tail, share in zip(tails, shares, strict=True) if share < _WIDEST_TAIL]


def _values(schema: Schema, Z: FloatArray, j: int) -> list[Group]:
    """The values of a column as groups."""
    name, codes = schema.names[j], np.unique(Z[~np.isnan(Z[:, j]), j])
    if j not in schema.categories and len(codes) > _MOST_NUMBERS:
        raise InputError(
            f"groups='{name}' is a column of {len(codes)} different numbers; pass masks of the rows, such as "
            f"{{'low {name}': X['{name}'] < 30}}."
        )
    like = np.tile(Z[:1], (len(codes), 1))
    like[:, j] = codes
    texts = pd.DataFrame(schema.decode(like)).iloc[:, j].tolist()
    found = [Group(f"{name} = {text}", "column", j, float(code)) for text, code in zip(texts, codes, strict=True)]
    return found + ([Group(f"{name} missing", "missing", j)] if np.isnan(Z[:, j]).any() else [])


def read_later(scores: Scores | None, groups: Any, n_rows: int) -> dict[str, BoolArray]:
    """Groups of rows to be explained, as ``calibrate`` had them; raise unless they are known."""
    names = [g.name for g in scores.groups if g.kind == "given"] if isinstance(scores, GroupedScores) else []
    if groups is None:
        if names:
            raise InputError(
                f"calibrate was given groups of its own rows ({_some(names)}); pass groups= with those of these rows, "
                "or calibrate with the name of a column."
            )
        return {}
    if not names:
        raise InputError("groups= is for intervals calibrated with labels or masks of rows as groups; leave it out.")
    found = read_masks(groups, n_rows)
    lacking = [name for name in names if name not in found]
    if isinstance(groups, Mapping) and lacking:
        raise InputError(f"groups has no mask for {lacking[0]!r}, which calibrate was given.")
    return found


def in_their_groups(fitted: Fitted, rows: Rows, given: Mapping[str, BoolArray]) -> Fitted:
    """The fit with the groups of these rows, which their intervals need."""

    def of_rows(scores: Scores) -> Scores:
        if not isinstance(scores, GroupedScores):
            return scores
        outputs = rows.require("outputs")
        labels = _labels(fitted.context.model, outputs)
        return replace(scores, member=members(scores.groups, rows.encoded, outputs, labels, given))

    return replace(fitted, calibration=fitted.calibration.map(of_rows))


def table_of(scores: Scores) -> pd.DataFrame:
    """The groups that were calibrated, on how many rows, and how well this set of rows holds with 90% certainty."""
    lines = [(name, rows, pool, part.sure_coverage(_LEVEL)) for name, rows, pool, part in scores.lines()]
    return pd.DataFrame(lines, columns=["group", "rows", "rows_in_pool", "holds"])
