"""The types of CEL. `list(A)` has the variable `A`: one capital letter stands for any type."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    params: tuple["Type", ...] = ()
    is_variable: bool = False

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


BOOL, INT, UINT, DOUBLE = Type("bool"), Type("int"), Type("uint"), Type("double")
STRING, BYTES, NULL = Type("string"), Type("bytes"), Type("null")
DURATION, TIMESTAMP = Type("google.protobuf.Duration"), Type("google.protobuf.Timestamp")
DYN, ERROR = Type("dyn"), Type("*error*")
ANY = Type("any")
"""As DYN, but nothing can be iterated that has this type. Parity: attributes of devices have it."""

_SHORT = {"duration": DURATION, "timestamp": TIMESTAMP}


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def is_dynamic(type: Type) -> bool:
    return type.name in ("dyn", "any", "*error*") and not type.is_variable


def unwrapped(type: Type) -> tuple[Type, bool]:
    """The type that an optional may hold, and whether it is an optional."""
    return (type.params[0], True) if type.name == "optional_type" else (type, False)


@cache
def read_type(text: str) -> Type:
    """`map(string, list(A))` -> Type."""
    types = read_types(text)
    assert len(types) == 1, text
    return types[0]


def read_types(text: str) -> tuple[Type, ...]:
    """`string, list(A)` -> two types."""
    return tuple(_read_one(part) for part in _split(text))


def _read_one(text: str) -> Type:
    name, _, rest = text.partition("(")
    if rest:
        return Type(name, read_types(rest[:-1]))
    return _SHORT.get(name) or Type(name, (), len(name) == 1 and name.isupper())


def _split(text: str) -> Iterator[str]:
    """At the commas that are in no parentheses."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()
