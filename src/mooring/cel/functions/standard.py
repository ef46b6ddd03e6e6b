"""The standard functions of CEL: operators, conversions, sizes, texts, and optionals.

Overload ids and messages are cel-go's. Results are 64-bit: what does not fit is an error.
"""

import re
from collections.abc import Callable, Iterator
from math import isfinite, isnan
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any

from mooring.cel.budget import check_length
from mooring.cel.evaluation import find, type_name
from mooring.cel.functions.regex import matches
from mooring.cel.library import Overload, member, plain
from mooring.cel.values import (
    MAX_INT64,
    MAX_UINT64,
    MIN_INT64,
    NOTHING,
    OVERFLOW,
    UNSIGNED_OVERFLOW,
    Fault,
    Maybe,
    Type,
    TypeName,
    Uint,
    equal,
    key_of,
    unsigned,
    whole,
)

# ---- arithmetic


def _quotient(one: int, other: int) -> int | Fault:
    """The quotient is rounded towards zero, as in Go; Python rounds down."""
    if other == 0:
        return Fault("division by zero")
    magnitude = abs(one) // abs(other)
    return whole(magnitude if (one < 0) is (other < 0) else -magnitude)


def _remainder(one: int, other: int) -> int | Fault:
    """The remainder has the sign of the first operand, as in Go. Parity: where the quotient overflows it is an error."""
    if other == 0:
        return Fault("modulus by zero")
    if one == MIN_INT64 and other == -1:
        return OVERFLOW
    return abs(one) % abs(other) * (-1 if one < 0 else 1)


def _checked(act: Callable[[int, int], Any], checked: Callable[[int], Any]) -> Callable[[int, int], Any]:
    """An operation of integers, with the check that its result has 64 bits."""

    def run(one: int, other: int) -> Any:
        found = act(one, other)
        return found if found.__class__ is Fault else checked(found)

    return run


def _divided(one: float, other: float) -> float:
    """IEEE division: Python raises for a division by zero."""
    if other == 0 or isnan(other):
        return float("nan") if one == 0 or isnan(one) or isnan(other) else float("inf") * (one if one else 1)
    return one / other


def _sum_of_lists(one: list[Any], other: list[Any]) -> list[Any]:
    """Lists can be doubled again and again, so that the length is checked first."""
    check_length(len(one) + len(other))
    return one + other


def _arithmetic() -> Iterator[Overload]:
    """Operators of numbers, and `+` of texts and lists."""
    for name, sign, act in (("add", "+", add), ("subtract", "-", sub), ("multiply", "*", mul)):
        yield plain(f"{name}_int64", f"_{sign}_", "int, int", "int", _checked(act, whole))
        yield plain(f"{name}_uint64", f"_{sign}_", "uint, uint", "uint", _checked(act, unsigned))
        yield plain(f"{name}_double", f"_{sign}_", "double, double", "double", act)
    yield plain("add_string", "_+_", "string, string", "string", add)
    yield plain("add_bytes", "_+_", "bytes, bytes", "bytes", add)
    yield plain("add_list", "_+_", "list(A), list(A)", "list(A)", _sum_of_lists)
    yield plain("divide_int64", "_/_", "int, int", "int", _quotient)
    yield plain("divide_uint64", "_/_", "uint, uint", "uint", _checked(_quotient, unsigned))
    yield plain("divide_double", "_/_", "double, double", "double", _divided)
    yield plain("modulo_int64", "_%_", "int, int", "int", _remainder)
    yield plain("modulo_uint64", "_%_", "uint, uint", "uint", _checked(_remainder, unsigned))
    yield plain("negate_int64", "-_", "int", "int", lambda a: whole(-a))
    yield plain("negate_double", "-_", "double", "double", lambda a: -a)


# ---- comparison

_ORDERS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "_<_": ("less", lt),
    "_<=_": ("less_equals", le),
    "_>_": ("greater", gt),
    "_>=_": ("greater_equals", ge),
}
_NUMBERS = {"int": "int64", "uint": "uint64", "double": "double"}


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """A comparison of numbers; NaN cannot be ordered."""

    def run(one: Any, other: Any) -> Any:
        if one.__class__ is float and other.__class__ is float and (isnan(one) or isnan(other)):
            return Fault("NaN values cannot be ordered")
        return compare(one, other)

    return run


def _by_order(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda one, other: compare(one.order(), other.order())


def _comparisons() -> Iterator[Overload]:
    """Each order for each type, and for each pair of number types."""
    for function, (name, compare) in _ORDERS.items():
        yield plain(f"{name}_bool", function, "bool, bool", "bool", compare)
        for kind, short in _NUMBERS.items():
            yield plain(f"{name}_{short}", function, f"{kind}, {kind}", "bool", _ordered(compare))
            for other, other_short in _NUMBERS.items():
                if other != kind:
                    mixed = f"{name}_{short}_{other_short}"
                    yield plain(mixed, function, f"{kind}, {other}", "bool", _ordered(compare))
        yield plain(f"{name}_string", function, "string, string", "bool", compare)
        yield plain(f"{name}_bytes", function, "bytes, bytes", "bool", compare)
        yield plain(f"{name}_timestamp", function, "timestamp, timestamp", "bool", _by_order(compare))
        yield plain(f"{name}_duration", function, "duration, duration", "bool", _by_order(compare))


def _is_in_map(key: Any, mapping: dict[Any, Any]) -> bool:
    return not isinstance(key, list | dict) and key_of(key) in mapping


def _unused(*args: Any) -> Any:
    raise AssertionError("evaluated by the plan itself")


_PLANNED = """
    conditional                           _?_:_                bool, A, A                   A
    logical_and                           _&&_                 bool, bool                   bool
    logical_or                            _||_                 bool, bool                   bool
    not_strictly_false                    @not_strictly_false  bool                         bool
    equals                                _==_                 A, A                         bool
    not_equals                            _!=_                 A, A                         bool
    index_list                            _[_]                 list(A), int                 A
    index_map                             _[_]                 map(A, B), A                 B
    optional_list_index_int               _[_]                 optional_type(list(A)), int  optional_type(A)
    optional_map_index_value              _[_]                 optional_type(map(A, B)), A  optional_type(B)
    list_optindex_optional_int            _[?_]                list(A), int                 optional_type(A)
    map_optindex_optional_value           _[?_]                map(A, B), A                 optional_type(B)
    optional_list_optindex_optional_int   _[?_]                optional_type(list(A)), int  optional_type(A)
    optional_map_optindex_optional_value  _[?_]                optional_type(map(A, B)), A  optional_type(B)
"""
"""Overload, function, parameters and result of what the planner evaluates itself: not all arguments, or not as values.
Here they are declared for the checker."""


def _relations() -> Iterator[Overload]:
    """Logic, equality, membership and indexes."""
    for line in _PLANNED.strip().splitlines():
        overload, function, params, result = re.split(r"\s{2,}", line.strip())
        yield plain(overload, function, params, result, _unused)
    yield plain("logical_not", "!_", "bool", "bool", lambda a: not a)
    yield plain("in_list", "@in", "A, list(A)", "bool", lambda a, elements: any(equal(a, each) for each in elements))
    yield plain("in_map", "@in", "A, map(A, B)", "bool", _is_in_map)


# ---- conversions


def _to_int(value: float) -> int | Fault:
    if not isfinite(value) or not -(2.0**63) < value < 2.0**63:
        return OVERFLOW
    return int(value)


def _to_uint(value: float) -> Uint | Fault:
    if not isfinite(value) or not 0 <= value < 2.0**64:
        return UNSIGNED_OVERFLOW
    return Uint(value)


def _number(text: str, kind: str, low: int, high: int) -> int | Fault:
    """A decimal number of at most 20 digits, which is what 64 bits need. Python's int() accepts more forms."""
    digits = text[1:] if text[:1] in ("+", "-") and low < 0 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20 or not low <= int(text) <= high:
        return _not_converted(kind)
    return int(text)


def _not_converted(kind: str) -> Fault:
    return Fault(f"type conversion error from 'string' to '{kind}'")


def _read_uint(text: str) -> Uint | Fault:
    found = _number(text, "uint", 0, MAX_UINT64)
    return found if isinstance(found, Fault) else Uint(found)


def _read_double(text: str) -> float | Fault:
    """Python's float() also accepts spaces and underscores, which CEL does not."""
    try:
        return float(text) if text.strip() == text and "_" not in text else _not_converted("double")
    except ValueError:
        return _not_converted("double")


def _read_bool(text: str) -> bool | Fault:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else _not_converted("bool")


def shown_double(value: float) -> str:
    """The shortest text of the same number, in Go's form of %v; Python differs in exponents and infinities."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    mantissa, _, exponent = text.partition("e")
    return (
        f"{mantissa.removesuffix('.0')}e{exponent[0] if exponent[0] in '+-' else '+'}{exponent.lstrip('+-').zfill(2)}"
    )


def _read_bytes(value: bytes) -> str | Fault:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Fault("invalid UTF-8 in bytes, cannot convert to string")


def type_of(value: Any) -> TypeName:
    return TypeName(type_name(value))


def _conversions() -> Iterator[Overload]:
    """Functions named after types: `int(x)`, `string(x)`."""
    yield plain("type", "type", "A", "type(A)", type_of)
    yield plain("to_dyn", "dyn", "A", "dyn", lambda a: a)
    for kind, short in {**_NUMBERS, "bool": "bool", "bytes": "bytes", "string": "string"}.items():
        yield plain(f"{short}_to_{short}", kind, kind, kind, lambda a: a)
    yield plain("string_to_bool", "bool", "string", "bool", _read_bool)
    yield plain("string_to_bytes", "bytes", "string", "bytes", lambda a: a.encode("utf-8", "replace"))
    yield plain("int64_to_double", "double", "int", "double", float)
    yield plain("uint64_to_double", "double", "uint", "double", float)
    yield plain("string_to_double", "double", "string", "double", _read_double)
    yield plain("double_to_int64", "int", "double", "int", _to_int)
    yield plain("uint64_to_int64", "int", "uint", "int", lambda a: whole(int(a)))
    yield plain("string_to_int64", "int", "string", "int", lambda a: _number(a, "int", MIN_INT64, MAX_INT64))
    yield plain("int64_to_uint64", "uint", "int", "uint", unsigned)
    yield plain("double_to_uint64", "uint", "double", "uint", _to_uint)
    yield plain("string_to_uint64", "uint", "string", "uint", _read_uint)
    yield plain("bool_to_string", "string", "bool", "string", lambda a: "true" if a else "false")
    yield plain("int64_to_string", "string", "int", "string", str)
    yield plain("uint64_to_string", "string", "uint", "string", str)
    yield plain("double_to_string", "string", "double", "string", shown_double)
    yield plain("bytes_to_string", "string", "bytes", "string", _read_bytes)


# ---- sizes, texts, optionals


_NO_VALUE = Fault("optional.none() dereference")


def _of_value(value: Any) -> Maybe:
    """`optional.ofNonZeroValue(x)`: no value if x is zero or empty."""
    return Maybe(value, True) if value or value.__class__ is Maybe else NOTHING


def _at_end(elements: list[Any], place: int) -> Maybe:
    found = find(elements, place if place >= 0 else len(elements) - 1)
    return found if isinstance(found, Maybe) else NOTHING


def _unwrapped(optionals: list[Maybe]) -> list[Any]:
    return [each.value for each in optionals if each.has_value]


def _others() -> Iterator[Overload]:
    """Sizes, texts, optionals, and first and last elements."""
    for kind in ("string", "bytes", "list(A)", "map(A, B)"):
        short = kind.partition("(")[0]
        yield plain(f"size_{short}", "size", kind, "int", len)
        yield member(f"{short}_size", "size", kind, "int", len)
    yield member("contains_string", "contains", "string, string", "bool", lambda text, part: part in text)
    yield member("starts_with_string", "startsWith", "string, string", "bool", str.startswith)
    yield member("ends_with_string", "endsWith", "string, string", "bool", str.endswith)
    yield member("matches_string", "matches", "string, string", "bool", matches)
    yield plain("matches", "matches", "string, string", "bool", matches)
    yield plain("optional_of", "optional.of", "A", "optional_type(A)", lambda a: Maybe(a, True))
    yield plain("optional_ofNonZeroValue", "optional.ofNonZeroValue", "A", "optional_type(A)", _of_value)
    yield plain("optional_none", "optional.none", "", "optional_type(A)", lambda: NOTHING)
    yield member("optional_value", "value", "optional_type(A)", "A", lambda a: a.value if a.has_value else _NO_VALUE)
    yield member("optional_hasValue", "hasValue", "optional_type(A)", "bool", lambda a: a.has_value)
    yield member("optional_or_optional", "or", "optional_type(A), optional_type(A)", "optional_type(A)", _unused)
    yield member("optional_orValue_value", "orValue", "optional_type(A), A", "A", _unused)
    yield member("list_first", "first", "list(A)", "optional_type(A)", lambda a: _at_end(a, 0))
    yield member("list_last", "last", "list(A)", "optional_type(A)", lambda a: _at_end(a, -1))
    yield plain("optional_unwrap", "optional.unwrap", "list(optional_type(A))", "list(A)", _unwrapped)
    yield member("optional_unwrapOpt", "unwrapOpt", "list(optional_type(A))", "list(A)", _unwrapped)


STANDARD: tuple[Overload, ...] = (*_arithmetic(), *_comparisons(), *_relations(), *_conversions(), *_others())

TYPES: dict[str, Type] = {
    name: Type(name)
    for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
} | {name: Type(name) for name in ("google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type")}
"""Names of types that expressions may compare with: `type(x) == string`."""
