"""Values of CEL as Python has them, and how they compare.

bool, int, float, str, bytes, None, list and dict are themselves; an unsigned integer is a `Uint`. An error is a value
too, for `false && error` is false. A key of a map that is a bool is a `BoolKey`, or it would be the same as 0 or 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from mooring.cel.budget import WORK
from mooring.cel.types import Type

MAX_INT64, MIN_INT64, MAX_UINT64 = (1 << 63) - 1, -(1 << 63), (1 << 64) - 1


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a value."""

    text: str


NO_OVERLOAD = Fault("no such overload")


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional: a value, or none."""

    value: Any = None
    has_value: bool = False


NOTHING = Maybe()


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value: `type(1)`."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    value: bool


class Defaulting(dict[str, Any]):
    """A map in which every key is found: those that it does not have lead to an empty map.

    Parity: `in`, `size` and iteration know only the keys that it has.
    """

    __slots__ = ()

    def __missing__(self, key: object) -> dict[str, Any]:
        return {}


class Extension:
    """A value of a type that CEL does not know by itself."""

    __slots__ = ()
    type: ClassVar[Type]

    def order(self) -> Any:
        """What it is compared by."""
        raise NotImplementedError

    def size(self) -> int:
        """What it counts as when costs are computed."""
        return 1


def key_of(value: Any) -> Any:
    """The value as a key of a dict."""
    return BoolKey(value) if value.__class__ is bool else value


def keys_of(mapping: dict[Any, Any]) -> Iterator[Any]:
    return (key.value if key.__class__ is BoolKey else key for key in mapping)


_NUMBERS = frozenset((int, Uint, float))


def equal(one: Any, other: Any) -> bool:
    """Values of different types are not equal, but numbers are when they have the same value."""
    kind, other_kind = one.__class__, other.__class__
    if kind is not other_kind:
        if kind in _NUMBERS and other_kind in _NUMBERS:
            return bool(one == other)
        return isinstance(one, dict) and isinstance(other, dict) and _equal_maps(one, other)
    if kind is list:
        if len(one) != len(other):
            return False
        WORK.spend(len(one))
        return all(map(equal, one, other))
    if isinstance(one, dict):
        return _equal_maps(one, other)
    if kind is Maybe:
        return one.has_value == other.has_value and equal(one.value, other.value)
    if isinstance(one, Extension):
        return bool(one.order() == other.order())
    return bool(one == other)


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    WORK.spend(len(one))
    return len(one) == len(other) and all(key in other and equal(value, other[key]) for key, value in one.items())


def size_of(value: Any) -> int:
    """What a value counts as: the length of texts, lists and maps; 1 for others."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Extension):
        return value.size()
    return size_of(value.value) if value.__class__ is Maybe and value.has_value else 1


def traversal_of(value: Any) -> int:
    """What it costs to look at all of a value."""
    if isinstance(value, str | bytes):
        return int(len(value if isinstance(value, bytes) else value.encode()) * 0.1)
    if isinstance(value, list):
        WORK.spend(len(value))
        return sum(map(traversal_of, value))
    if isinstance(value, dict):
        WORK.spend(len(value))
        return sum(traversal_of(key) + traversal_of(each) for key, each in value.items())
    return 1
