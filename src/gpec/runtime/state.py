"""Objects as trees of arrays, numbers and texts for files, and back, checked.

The annotation of a dataclass field is the whole declaration: what a file holds of it, and what is checked when it is
read. Plain types say the kind: ``float``, ``str``, ``X | None``, ``tuple[X, ...]``, ``dict[int, X]``, another
dataclass, an array type. ``Annotated`` adds :class:`Shape`, :class:`Limits`, :class:`OneOf`, :class:`Stored`,
``MAY_BE_MISSING``, ``OPTIONAL`` or ``NOT_STORED``::

    weights: Annotated[FloatArray, Shape("n"), Limits(least=0)]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gpec.errors import CorruptFileError, InputError

__all__ = [
    "MAY_BE_MISSING",
    "NOT_STORED",
    "OPTIONAL",
    "Limits",
    "OneOf",
    "Shape",
    "Stored",
    "Tagged",
    "from_state",
    "to_state",
]

T = TypeVar("T")

NOT_STORED = object()  # taken from the field of this name of an object around it, else the default
MAY_BE_MISSING = object()  # NaN is a missing value
OPTIONAL = object()  # for what is not annotated as ``X | None``, but may be None
_AXES = ("row", "feature", "output")
_PLAIN: dict[type[Any], tuple[str, Any]] = {
    bool: ("true or false", bool),
    str: ("a text", str),
    int: ("a whole number", (int, np.integer)),
    float: ("a finite number", (int, float, np.integer, np.floating)),
}
_GARBLED = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)


class Shape:
    """Names of an array's sizes, or of a list's length.

    A size named by one letter is the same within one object, one named by a word within the whole file. The axes row,
    feature and output are left out where the explanation in the file has no such axis.
    """

    def __init__(self, *names: str) -> None:
        self.names = names


@dataclass(frozen=True)
class Limits:
    """Between which bounds numbers lie; ``strict`` excludes the bounds themselves."""

    least: float = -np.inf
    most: float = np.inf
    strict: bool = False

    def hold(self, value: Any) -> bool:
        edge = ((value == self.least) | (value == self.most)) & self.strict
        return not np.any((value < self.least) | (value > self.most) | edge)

    def __str__(self) -> str:
        words = ("greater than", "less than") if self.strict else ("at least", "at most")
        bounds = zip(words, (self.least, self.most), strict=True)
        return " and ".join(f"{word} {bound:g}" for word, bound in bounds if np.isfinite(bound))


class OneOf:
    """The words that a text may be."""

    def __init__(self, *words: str) -> None:
        self.words = words


@dataclass(frozen=True)
class Stored:
    """For other objects: ``write`` makes arrays, numbers and texts of one; ``read`` undoes it, given the state."""

    write: Callable[[Any], Any]
    read: Callable[[Any, dict[str, Any]], Any]


class Tagged:
    """Base of classes that files tell apart by a word, a class attribute whose name is given as ``tag``."""

    _tag: ClassVar[str]
    _tagged: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, tag: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if tag is not None:
            cls._tag, cls._tagged = tag, {}
        elif cls._tag in vars(cls):  # one that inherits the word must not take the place of the class that has it
            cls._tagged[getattr(cls, cls._tag)] = cls


def to_state(value: Any) -> Any:
    """What a file holds of an object: dicts, lists, arrays, numbers and texts."""
    if isinstance(value, dict):
        return {key: to_state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(to_state(item) for item in value)
    cls: Any = type(value)
    if not is_dataclass(value) and not isinstance(value, Tagged):
        return value
    tree: dict[str, Any] = {}
    if isinstance(value, Tagged):
        if cls._tag not in vars(cls):
            raise InputError(f"{cls.__name__} has no {cls._tag} of its own by which a file could name it.")
        if "__init__" in vars(cls) and not is_dataclass(cls):
            raise InputError(f"{cls.__name__} has an __init__ of its own; a file can hold it if it is a dataclass.")
        tree[cls._tag] = getattr(value, cls._tag)
    for name, (_, marks) in _declared(cls).items():
        if NOT_STORED not in marks:
            how = _find(Stored, marks)
            item = getattr(value, name)
            tree[name] = to_state(item) if how is None else how.write(item)
    return tree


def from_state(cls: type[T], state: Any, where: str | None = None, **given: Any) -> T:
    """The object of this class whose :func:`to_state` is ``state``.

    ``given`` are values for fields that are not stored, by name. Errors begin with ``where``, by default the class.

    Raises
    ------
    CorruptFileError
        If a field is missing, unknown, or not as declared; the message names it.
    """
    found: T = _read_object(cls, state, _Place(where or cls.__name__, given=given))
    return found


@dataclass(frozen=True)
class _Place:
    """Where in a file a value stands, and what is known there: sizes by name, and the fields of the objects around."""

    where: str
    given: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)  # of the whole file
    own: dict[str, int] = field(default_factory=dict)  # of one object
    axes: tuple[str, ...] = _AXES

    def at(self, name: str) -> _Place:
        return replace(self, where=f"{self.where}.{name}")

    def error(self, fault: str, remedy: str = "save the file again from the original") -> CorruptFileError:
        return CorruptFileError(f"{self.where} {fault}; {remedy}.")

    def check_shape(self, shape: tuple[int, ...], names: tuple[str, ...]) -> None:
        names = tuple(name for name in names if name not in _AXES or name in self.axes)
        seen = [(self.own if len(name) == 1 else self.sizes) for name in names]
        if len(shape) != len(names):
            raise self.error(f"has shape {shape}, but must have the axes ({', '.join(names)})")
        for size, name, sizes in zip(shape, names, seen, strict=True):
            if sizes.setdefault(name, size) != size:
                raise self.error(f"has shape {shape}, but the size of the axis '{name}' is {sizes[name]} elsewhere")


@cache
def _declared(cls: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The type and the marks of each field."""
    if not is_dataclass(cls):
        return {}
    hints = get_type_hints(cls, include_extras=True)
    return {one.name: _unmarked(hints[one.name]) for one in fields(cls)}


def _unmarked(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(kind) is not Annotated:
        return kind, ()
    kind, *marks = get_args(kind)
    return kind, tuple(marks)


def _find(of: type[T], marks: tuple[Any, ...]) -> T | None:
    return next((mark for mark in marks if isinstance(mark, of)), None)


def _read_object(cls: Any, state: Any, place: _Place) -> Any:
    if not isinstance(state, dict):
        raise place.error(f"is {_shown(state)}, but must be a table of fields")
    state = dict(state)
    if issubclass(cls, Tagged):
        if cls._tag not in state:
            raise place.at(cls._tag).error("is missing")
        word = state.pop(cls._tag)
        if not isinstance(word, str) or word not in cls._tagged:
            raise place.error(f"is of the unknown {cls._tag} {word!r}", "import the module that defines it")
        cls = cls._tagged[word]
    declared = _declared(cls)
    place = replace(place, given=dict(place.given), own={})
    for name in state:
        if name not in declared or NOT_STORED in declared[name][1]:
            raise place.at(name).error("is unknown")
    values: dict[str, Any] = {}
    for name in sorted(declared, key=lambda name: name != "axes"):  # which say what the others must be
        kind, marks = declared[name]
        if NOT_STORED in marks:
            if name in place.given:
                values[name] = place.given[name]
            continue
        if name not in state:
            raise place.at(name).error("is missing")
        how = _find(Stored, marks)
        value = state[name]
        if how is not None:
            try:
                value, kind = how.read(value, state), Any
                marks += (OPTIONAL,) if NoneType in get_args(declared[name][0]) else ()
            except _GARBLED as error:
                raise place.at(name).error(f"cannot be read: {error!r}") from error
        values[name] = place.given[name] = _read(kind, marks, value, place.at(name))
        if name == "axes":
            place = replace(place, axes=values["axes"])
    return cls(**values)


def _read(kind: Any, marks: tuple[Any, ...], value: Any, place: _Place) -> Any:
    kind, more = _unmarked(kind)
    marks += more
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return _read(kind, (*marks, OPTIONAL), value, place)
    if value is None and OPTIONAL in marks:
        return None
    found = _read_kind(kind, marks, value, place)
    words, limits, shape = _find(OneOf, marks), _find(Limits, marks), _find(Shape, marks)
    if words is not None and isinstance(found, str):
        _require(found in words.words, found, f"one of {', '.join(map(repr, words.words))}", place)
    if limits is not None and isinstance(found, (int, float, np.ndarray)) and not limits.hold(found):
        seen = f"from {found.min():g} to {found.max():g}" if isinstance(found, np.ndarray) else repr(found)
        raise place.error(f"is {seen}, but must be {limits}")
    if shape is not None:
        place.check_shape(np.shape(found) if isinstance(found, np.ndarray) else _length(found), shape.names)
    return found


def _length(value: Any) -> tuple[int, ...]:
    return (len(value),) if isinstance(value, (list, tuple)) else ()


def _read_kind(kind: Any, marks: tuple[Any, ...], value: Any, place: _Place) -> Any:
    """A value of a kind that is neither annotated nor optional."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is np.ndarray:
        return _read_array(np.dtype(get_args(inner[1])[0]), value, MAY_BE_MISSING in marks, place)
    if origin is tuple:
        _require(isinstance(value, (list, tuple)), value, "a list", place)
        marks = tuple(mark for mark in marks if not isinstance(mark, Shape))
        return tuple(_read(inner[0], marks, item, place.at(str(i))) for i, item in enumerate(value))
    if origin is dict:
        _require(isinstance(value, dict), value, "a table", place)
        return {_key(inner[0], key, place): _read(inner[1], (), value[key], place.at(str(key))) for key in value}
    if kind in _PLAIN:
        name, accepted = _PLAIN[kind]
        right = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
        _require(right and (kind is not float or np.isfinite(value)), value, name, place)
        return kind(value)
    return _read_object(kind, value, place)


def _read_array(dtype: np.dtype[Any], value: Any, missing: bool, place: _Place) -> Any:
    kinds = {"f": "fiu", "i": "iu", "b": "b"}[dtype.kind]
    right = isinstance(value, np.ndarray) and value.dtype.kind in kinds
    _require(right, value, f"an array of {dtype.name}", place)
    array = np.asarray(value, dtype=dtype)
    if dtype.kind == "f" and not (~np.isinf(array) if missing else np.isfinite(array)).all():
        raise place.error(f"has numbers that are {'infinite' if missing else 'not finite'}")
    return array


def _key(kind: Any, key: Any, place: _Place) -> Any:
    """The key of a table; those of JSON are texts."""
    try:
        return kind(key)
    except (TypeError, ValueError) as error:
        raise place.error(f"has the key {key!r}, which must be a {kind.__name__}") from error


def _require(right: bool, value: Any, what: str, place: _Place) -> None:
    if not right:
        raise place.error(f"is {_shown(value)}, but must be {what}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"
