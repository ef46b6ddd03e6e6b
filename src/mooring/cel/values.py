"""Types and values of CEL, and how values compare.

bool, int, float, str, bytes, None, list and dict stand for themselves; an unsigned integer is a `Uint`. An error is a
value too (`Fault`), because `false && error` is false. A bool as the key of a map is a `BoolKey`, because in Python True
and 1 are the same key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from mooring.cel.budget import WORK

# ---- types


@dataclass(frozen=True, slots=True)
class Type:
    """A type with its parameters. A variable stands for any type: `list(A)` has the variable `A`."""

    name: str
    params: tuple["Type", ...] = ()
    is_variable: bool = False

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
DURATION, TIMESTAMP = Type("google.protobuf.Duration"), Type("google.protobuf.Timestamp")
DYN, ANY, ERROR = Type("dyn"), Type("any"), Type("*error*")
"""A value of `any` may be used wherever one of `dyn` may, but no comprehension goes over it."""

_SHORT = {"duration": DURATION, "timestamp": TIMESTAMP}


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def is_dynamic(kind: Type) -> bool:
    return kind.name in ("dyn", "any", "*error*") and not kind.is_variable


def unwrapped(kind: Type) -> tuple[Type, bool]:
    """The type inside an optional, and whether the type is an optional; any other type is returned as it is."""
    return (kind.params[0], True) if kind.name == "optional_type" else (kind, False)


@cache
def read_type(text: str) -> Type:
    """A type from its text, such as `map(string, list(A))`: the notation in which functions are declared."""
    types = read_types(text)
    assert len(types) == 1, text
    return types[0]


def read_types(text: str) -> tuple[Type, ...]:
    """Types from their texts: `string, list(A)` are two."""
    return tuple(_read_one(part) for part in _split(text))


def _read_one(text: str) -> Type:
    """A single type; a capital letter is a variable."""
    name, _, rest = text.partition("(")
    if rest:
        return Type(name, read_types(rest[:-1]))
    return _SHORT.get(name) or Type(name, (), len(name) == 1 and name.isupper())


def _split(text: str) -> Iterator[str]:
    """Split at the commas outside of parentheses."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


MAX_INT64, MIN_INT64, MAX_UINT64 = (1 << 63) - 1, -(1 << 63), (1 << 64) - 1
"""Integers of CEL have 64 bits, and a result that does not fit is an error: Python's own would just grow."""


class Uint(int):
    """An unsigned integer: a class of its own, because overloads and `==` between types tell it from int."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as a value, with cel-go's text."""

    text: str


NO_OVERLOAD = Fault("no such overload")
OVERFLOW = Fault("integer overflow")
UNSIGNED_OVERFLOW = Fault("unsigned integer overflow")


def whole(value: int) -> int | Fault:
    """A number as a signed integer of 64 bits."""
    return value if MIN_INT64 <= value <= MAX_INT64 else OVERFLOW


def unsigned(value: int) -> Uint | Fault:
    """A number as an unsigned integer of 64 bits."""
    return Uint(value) if 0 <= value <= MAX_UINT64 else UNSIGNED_OVERFLOW


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional, with or without a value."""

    value: Any = None
    has_value: bool = False


NOTHING = Maybe()


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value: `type(1)`."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as the key of a map."""

    value: bool


class Defaulting(dict[str, Any]):
    """A map that has an empty map for each key that is missing: attributes of devices by domain, where an expression may
    ask for a domain that the device does not have.

    Parity: `in`, `size` and iteration see only the keys that are there.
    """

    __slots__ = ()

    def __missing__(self, key: object) -> dict[str, Any]:
        return {}


class Extension:
    """A value of a type that CEL itself does not have, such as a quantity or an IP address."""

    __slots__ = ()
    type: ClassVar[Type]

    def order(self) -> Any:
        """The value to compare by, for equality and order."""
        raise NotImplementedError

    def size(self) -> int:
        """The size that cost rules use."""
        return 1


def key_of(value: Any) -> Any:
    """The value as the key of a dict."""
    return BoolKey(value) if value.__class__ is bool else value


def keys_of(mapping: dict[Any, Any]) -> Iterator[Any]:
    """The keys as values of CEL: the reverse of `key_of`."""
    return (key.value if key.__class__ is BoolKey else key for key in mapping)


_NUMBERS = frozenset((int, Uint, float))


def equal(one: Any, other: Any) -> bool:
    """CEL's `==`. Values of different types are not equal, except numbers of the same value. Nested values count as work:
    comparing them is not charged by cel-go's costs."""
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
    """The size of a value for cost rules: the length of texts, lists and maps, 1 for most others."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Extension):
        return value.size()
    return size_of(value.value) if value.__class__ is Maybe and value.has_value else 1


def traversal_of(value: Any) -> int:
    """The cost of visiting all parts of a value: apiserver's traversalCost."""
    if isinstance(value, str | bytes):
        return int(len(value if isinstance(value, bytes) else value.encode()) * 0.1)
    if isinstance(value, list):
        WORK.spend(len(value))
        return sum(map(traversal_of, value))
    if isinstance(value, dict):
        WORK.spend(len(value))
        return sum(traversal_of(key) + traversal_of(each) for key, each in value.items())
    return 1
