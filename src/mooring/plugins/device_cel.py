"""Selectors of devices: CEL by a library, with what Kubernetes adds to it (the device, quantities, versions).

The library knows no types of our own, so a quantity is a map `{"@quantity": nano-units}` and a version a map
`{"@semver": text}`, which compare as they should. What it costs to evaluate an expression is not limited.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from mooring.model.devices import Device, DeviceAttribute
from mooring.model.meta import int64
from mooring.model.quantity import NANO, QuantityError, parse

if TYPE_CHECKING:
    from cel_expr_python.cel import Env, Expression

Facts = Mapping[str, Any]
"""What an expression can read of a device: driver, allowMultipleAllocations, attributes and capacity by domain."""

_QUANTITY, _SEMVER = "@quantity", "@semver"
_MAX_INT64 = (1 << 63) - 1
_BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

_NUMBER = r"(?:0|[1-9][0-9]*)"
_WORDS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMANTIC = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORDS}))?(?:\+({_WORDS}))?")
_MISSING_KEY = re.compile(r'Key not found in map : "(.*)"')


class CelFault(Exception):
    """An expression that does not compile, or fails on a device."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled selector."""

    expression: "Expression"
    is_loose: bool
    """Whether the device is one variable of unknown type, and not one for each of its fields."""

    def matches(self, facts: Facts) -> bool:
        """Whether the device is selected. Raises CelFault.

        A domain that the device does not have reads as an empty map: it is added when the expression asks for it.
        """
        while True:
            value = self.expression.eval(data=self._data(facts))
            kind = str(value.type())
            if kind == "BOOL":
                return bool(value.value())
            if kind != "ERROR":
                raise CelFault(f"CEL result of type {kind.lower()} could not be converted to bool")
            text = str(value.value())
            missing = _MISSING_KEY.search(text)
            if missing is None or _has_domain(facts, missing[1]):
                raise CelFault(_in_upstreams_words(text))
            facts = _with_domain(facts, missing[1])

    def _data(self, facts: Facts) -> dict[str, Any]:
        return {"device": dict(facts)} if self.is_loose else {f"device.{name}": value for name, value in facts.items()}


@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Matcher | CelFault:
    """The selector, or what is wrong with it."""
    try:
        expression, is_loose = _environment(False).compile(text), False
        if str(expression.return_type()).startswith("MAP"):
            raise RuntimeError("undeclared reference to 'device'")  # it may be `has(device.attributes)`
    except RuntimeError as strict:
        if "undeclared reference to 'device'" not in str(strict):
            return CelFault(f"compilation failed: {_without_status(str(strict))}")
        try:
            expression, is_loose = _environment(True).compile(text), True
        except RuntimeError as fault:
            return CelFault(f"compilation failed: {_without_status(str(fault))}")
    found = str(expression.return_type())
    if found not in ("BOOL", "DYN"):
        return CelFault(f"must evaluate to bool or the unknown type, not {found.lower()}")
    return Matcher(expression, is_loose)


def facts_of(driver: str, device: Device) -> Facts:
    """What selectors read of a device. Raises CelFault for attributes that have no value."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in (device.attributes or {}).items():
        domain, _, id = name.rpartition("/")
        try:
            attributes.setdefault(domain or driver, {})[id] = _value(attribute)
        except ValueError as fault:
            raise CelFault(f"attribute {name}: {fault}") from fault
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in (device.capacity or {}).items():
        domain, _, id = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[id] = {_QUANTITY: str(parse(amount.value))}
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }


def _value(attribute: DeviceAttribute) -> int | bool | str | dict[str, str]:
    if attribute.int_value is not None:
        return int64(attribute.int_value)
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is None:
        raise ValueError("unsupported attribute value")
    try:
        return _semver(attribute.version_value)
    except ValueError as fault:
        raise ValueError(f"parse semantic version: {fault}") from fault


def _has_domain(facts: Facts, domain: str) -> bool:
    return domain in facts["attributes"] and domain in facts["capacity"]


def _with_domain(facts: Facts, domain: str) -> Facts:
    return {
        **facts,
        "attributes": {domain: {}, **facts["attributes"]},
        "capacity": {domain: {}, **facts["capacity"]},
    }


def _without_status(text: str) -> str:
    """`INVALID_ARGUMENT: text [INVALID_ARGUMENT]` -> `text`."""
    return re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", text)


def _in_upstreams_words(text: str) -> str:
    text = _without_status(text)
    missing = _MISSING_KEY.search(text)
    if missing is not None:
        return f"no such key: {missing[1]}"
    if text.startswith("No matching overloads found"):
        return "no such overload"
    return "division by zero" if text == "divide by zero" else text


# ---- what Kubernetes adds


def _quantity(text: str) -> dict[str, str]:
    try:
        return {_QUANTITY: str(parse(text))}
    except QuantityError as fault:
        raise ValueError(_BAD_QUANTITY) from fault


def _nano(value: Mapping[str, str]) -> int:
    if _QUANTITY not in value:
        raise ValueError("no such overload")
    return int(value[_QUANTITY])


def _of_nano(nano: int) -> dict[str, str]:
    return {_QUANTITY: str(nano)}


def _as_integer(value: Mapping[str, str]) -> int:
    nano = _nano(value)
    if nano % NANO or abs(nano) > _MAX_INT64 * NANO:
        raise ValueError("cannot convert value to integer")
    return nano // NANO


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    """A version without what it says of its build, which does not count when versions are compared."""
    found = _SEMANTIC.fullmatch(_normal(text) if normalize else text)
    if found is None:
        raise ValueError(f"No Major.Minor.Patch elements found in {text!r}")
    numbers = f"{found[1]}.{found[2]}.{found[3]}"
    return {_SEMVER: f"{numbers}-{found[4]}" if found[4] else numbers}


def _normal(text: str) -> str:
    """`v01.2` -> `1.2.0`."""
    body = re.match(r"v?([0-9.]*)(.*)", text)
    assert body is not None, "the pattern matches the empty text"
    parts = [part.lstrip("0") or "0" if part else "" for part in body[1].split(".")]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + body[2]


def _precedence(value: Mapping[str, str]) -> tuple[Any, ...]:
    """Versions compare as these do: numbers first, then whether it is a release, then the words before a release."""
    if _SEMVER not in value:
        raise ValueError("no such overload")
    numbers, _, before = value[_SEMVER].partition("-")
    words = [(0, int(word), "") if word.isdecimal() else (1, 0, word) for word in before.split(".")] if before else []
    return (*map(int, numbers.split(".")), not before, words)


def _compare(one: Mapping[str, str], other: Mapping[str, str]) -> int:
    order = _nano if _QUANTITY in one else _precedence
    a: Any = order(one)
    b: Any = order(other)
    return int(a > b) - int(a < b)


def _accepts(read: Callable[..., object]) -> Callable[..., bool]:
    def accepts(*written: Any) -> bool:
        try:
            read(*written)
        except ValueError:
            return False
        return True

    return accepts


@cache
def _environment(is_loose: bool) -> "Env":
    """Parity: `device` is an object with four fields, so an expression that misspells one does not compile."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

    kind = cel.Type
    by_domain = kind.Map(kind.STRING, kind.Map(kind.STRING, kind.DYN))
    fields = {
        "device.driver": kind.STRING,
        "device.allowMultipleAllocations": kind.BOOL,
        "device.attributes": by_domain,
        "device.capacity": kind.Map(kind.STRING, kind.Map(kind.STRING, kind.Map(kind.STRING, kind.STRING))),
    }
    return cel.NewEnv(
        variables={"device": kind.Map(kind.STRING, kind.DYN)} if is_loose else fields,
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=_functions(),
    )


def _functions() -> list[Any]:
    from cel_expr_python import cel

    text, whole, truth, own = (
        cel.Type.STRING,
        cel.Type.INT,
        cel.Type.BOOL,
        cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    )
    plain: list[tuple[str, Any, list[Any], Callable[..., Any]]] = [
        ("quantity", own, [text], _quantity),
        ("isQuantity", truth, [text], _accepts(_quantity)),
        ("semver", own, [text], _semver),
        ("semver", own, [text, truth], _semver),
        ("isSemver", truth, [text], _accepts(_semver)),
        ("isSemver", truth, [text, truth], _accepts(_semver)),
    ]
    of_values: list[tuple[str, Any, list[Any], Callable[..., Any]]] = [
        ("compareTo", whole, [own, own], _compare),
        ("isGreaterThan", truth, [own, own], lambda one, other: _compare(one, other) > 0),
        ("isLessThan", truth, [own, own], lambda one, other: _compare(one, other) < 0),
        ("add", own, [own, own], lambda one, other: _of_nano(_nano(one) + _nano(other))),
        ("add", own, [own, whole], lambda one, other: _of_nano(_nano(one) + other * NANO)),
        ("sub", own, [own, own], lambda one, other: _of_nano(_nano(one) - _nano(other))),
        ("sub", own, [own, whole], lambda one, other: _of_nano(_nano(one) - other * NANO)),
        ("sign", whole, [own], lambda one: (_nano(one) > 0) - (_nano(one) < 0)),
        ("isInteger", truth, [own], _accepts(_as_integer)),
        ("asInteger", whole, [own], _as_integer),
        ("asApproximateFloat", cel.Type.DOUBLE, [own], lambda one: _nano(one) / NANO),
        ("major", whole, [own], lambda one: _precedence(one)[0]),
        ("minor", whole, [own], lambda one: _precedence(one)[1]),
        ("patch", whole, [own], lambda one: _precedence(one)[2]),
    ]
    overloads: dict[str, list[Any]] = {}
    for is_member, functions in ((False, plain), (True, of_values)):
        for name, result, parameters, act in functions:
            known = overloads.setdefault(name, [])
            known.append(cel.Overload(f"{name}_{len(known)}", result, parameters, is_member, act))
    return [cel.FunctionDecl(name, known) for name, known in overloads.items()]
