"""Objects as trees of arrays, numbers and texts for files, and back, checked.

The annotation of a dataclass field is the whole declaration: what a file holds of it, and what is checked when it is
read. Plain types say the kind: ``float``, ``str``, ``X | None``, ``tuple[X, ...]``, ``dict[int, X]``, another
dataclass, an array type. ``Annotated`` adds :class:`Shape`, :class:`Limits`, :class:`OneOf`, :class:`Stored`,
``MAY_BE_MISSING``, ``OPTIONAL`` or ``NOT_STORED``::

    weights: Annotated[FloatArray, Shape("n"), Limits(least=0)]

What annotations cannot say, such as that indices lie within an array, a class checks in ``check_state()``, which raises
a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from gpec.errors import CorruptFileError, InputError
from gpec.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")

NOT_STORED = object()  # taken from the field of this name of an object around it, else the default
MAY_BE_MISSING = object()  # NaN is a missing value
OPTIONAL = object()  # for what is not annotated as ``X | None``, but may be None
_PIECE = 2**16
_AXES = ("row", "feature", "output")
_ARRAYS: dict[Any, np.dtype[Any]] = {FloatArray: np.dtype("f8"), IntArray: np.dtype("i8"), BoolArray: np.dtype("?")}
_PLAIN: dict[type[Any], tuple[str, Any]] = {
    bool: ("true or false", bool),
    str: ("a text", str),
    int: ("a whole number", (int, np.integer)),
    float: ("a finite number", (int, float, np.integer, np.floating)),
}


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
        if not np.size(value):
            return True
        low, high = np.fmin.reduce(value, axis=None), np.fmax.reduce(value, axis=None)  # NaN aside
        if low < self.least or high > self.most:
            return False
        return not (self.strict and (low == self.least or high == self.most))

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
    if isinstance(value, type) or not (is_dataclass(value) or isinstance(value, Tagged)):
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
    result: T = _read_object(cls, state, _Place(where or cls.__name__, given=given))
    return result


@dataclass(frozen=True)
class _Place:
    """Where in a file a value stands, and what is known there: sizes by name, and the fields of the objects around."""

    where: str
    given: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)  # of the whole file
    own: dict[str, int] = field(default_factory=dict)  # of one object
    axes: tuple[str, ...] = _AXES

    def at(self, name: object) -> _Place:
        return replace(self, where=f"{self.where}.{name}")

    def error(self, fault: str, remedy: str = "save the file again from the original") -> CorruptFileError:
        return CorruptFileError(f"{self.where} {fault}; {remedy}.")

    def require(self, right: Any, value: Any, what: str) -> None:
        if not right:
            seen = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else repr(value)[:60]
            raise self.error(f"is {seen}, but must be {what}")

    def check_shape(self, shape: tuple[int, ...], names: tuple[str, ...]) -> None:
        names = tuple(name for name in names if name not in _AXES or name in self.axes)
        if len(shape) != len(names):
            raise self.error(f"has shape {shape}, but must have the axes ({', '.join(names)})")
        for size, name in zip(shape, names, strict=True):
            known = (self.own if len(name) == 1 else self.sizes).setdefault(name, size)
            if known != size:
                raise self.error(f"has shape {shape}, but the size of the axis '{name}' is {known} elsewhere")


@cache
def _declared(cls: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The type and the marks of each field."""
    hints = get_type_hints(cls, include_extras=True) if is_dataclass(cls) else {}
    return {name: _unmarked(hints[name]) for name in getattr(cls, "__dataclass_fields__", ())}


def read_attributes(declared: Mapping[str, Any], state: dict[str, Any], where: str) -> dict[str, Any]:
    """The values of a state whose annotations are ``declared``; one without an annotation must only be finite.

    Raises
    ------
    CorruptFileError
        If one is not as declared.
    """
    place, values = _Place(where, given={}), {}
    for name, value in state.items():
        number = isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
        other: Any = FloatArray if number else float if isinstance(value, float) else Any
        values[name] = _read(declared.get(name, other), (), value, place.at(name), state)
    return values


def _unmarked(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return (get_args(kind)[0], get_args(kind)[1:]) if get_origin(kind) is Annotated else (kind, ())


def _find(of: type[Any], marks: tuple[Any, ...]) -> Any:
    return next((mark for mark in marks if isinstance(mark, of)), None)


def _read_object(cls: Any, state: Any, place: _Place) -> Any:
    place.require(isinstance(state, dict), state, "a table of fields")
    if issubclass(cls, Tagged):
        word = state.get(cls._tag)
        if not isinstance(word, str) or word not in cls._tagged:
            raise place.error(f"is of the unknown {cls._tag} {repr(word)[:60]}", "import the module that defines it")
        state, cls = {name: state[name] for name in state if name != cls._tag}, cls._tagged[word]
    declared = _declared(cls)
    stored = [name for name, (_, marks) in declared.items() if NOT_STORED not in marks]
    for name in (*stored, *state):
        if name not in state or name not in stored:
            raise place.at(name).error("is missing" if name in stored else "is unknown")
    place = replace(place, given=dict(place.given), own={})
    for name in sorted(stored, key=lambda name: name not in ("axes", "schema")):  # which others depend on
        place.given[name] = _read(*declared[name], state[name], place.at(name), state)
        if name == "axes":
            place = replace(place, axes=place.given[name])
    instance = cls(**{name: place.given[name] for name in declared if name in place.given})
    if hasattr(instance, "check_state"):
        try:
            instance.check_state()
        except ValueError as error:
            raise place.error(str(error)) from error
    return instance


def _read(kind: Any, marks: tuple[Any, ...], value: Any, place: _Place, state: Any) -> Any:
    """A value of a kind, as its marks demand; ``state`` is that of the object around it."""
    kind, more = _unmarked(kind)
    marks += more
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return _read(kind, (*marks, OPTIONAL), value, place, state)
    if value is None and OPTIONAL in marks:
        return None
    stored, words, limits, shape = (_find(of, marks) for of in (Stored, OneOf, Limits, Shape))
    try:
        result: Any = _read_kind(kind, marks, value, place) if stored is None else stored.read(value, state)
    except CorruptFileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise place.error(f"cannot be read: {error!r}") from error
    is_array = isinstance(result, np.ndarray)
    if words is not None and isinstance(result, str):
        place.require(result in words.words, result, f"one of {', '.join(map(repr, words.words))}")
    if limits is not None and not isinstance(result, tuple) and not limits.hold(result):
        seen = f"from {result.min():g} to {result.max():g}" if is_array else result
        raise place.error(f"is {seen}, but must be {limits}")
    if shape is not None:
        length = (len(result),) if isinstance(result, (list, tuple)) else ()
        place.check_shape(result.shape if is_array else length, shape.names)
    return result


def _read_kind(kind: Any, marks: tuple[Any, ...], value: Any, place: _Place) -> Any:
    """A value of a kind that is neither annotated nor optional."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if (dtype := _ARRAYS.get(kind)) is not None:
        right = isinstance(value, np.ndarray) and value.dtype.kind in {"f": "fiu", "i": "iu", "b": "b"}[dtype.kind]
        place.require(right, value, f"an array of {dtype.name}")
        missing = MAY_BE_MISSING in marks
        flat = value.ravel(order="K")  # piece by piece: what is compared takes memory too
        pieces = (flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE))
        if not all((np.isfinite(piece) | (missing & np.isnan(piece))).all() for piece in pieces):
            raise place.error(f"has numbers that are {'infinite' if missing else 'not finite'}")
        return np.asarray(value, dtype=dtype)
    if origin in (tuple, list):
        place.require(isinstance(value, (list, tuple)), value, "a list")
        marks = tuple(mark for mark in marks if not isinstance(mark, Shape))
        return origin(_read(inner[0], marks, item, place.at(i), value) for i, item in enumerate(value))
    if origin is dict:  # the keys of JSON are texts
        place.require(isinstance(value, dict), value, "a table")
        return {inner[0](key): _read(inner[1], (), item, place.at(key), value) for key, item in value.items()}
    if kind in _PLAIN:
        name, accepted = _PLAIN[kind]
        right = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
        place.require(right and (kind is not float or np.isfinite(value)), value, name)
        return kind(value)
    return _read_object(kind, value, place)
