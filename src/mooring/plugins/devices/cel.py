"""Selectors of devices: CEL with what Kubernetes adds to it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from mooring.cel.budget import Exceeded
from mooring.cel.evaluation import type_name
from mooring.cel.expression import CompileFault, Expression
from mooring.cel.functions.amounts import Quantity, Semver, semver_of
from mooring.cel.values import Defaulting, Fault
from mooring.model.devices import Device, DeviceAttribute
from mooring.model.meta import int64
from mooring.model.quantity import parse
from mooring.plugins.devices.effort import CelFault, Facts, TookTooLong
from mooring.rules.device_expressions import MAX_COST, check_derived, check_selector, compile_text

# Upstream's texts for results that are not boolean, by the CEL type.
_NOT_A_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
}

V = TypeVar("V", covariant=True)


@dataclass(frozen=True, slots=True)
class DeviceExpression(Generic[V]):
    """A compiled expression, and the function that reads its answer from a CEL value, which raises CelFault."""

    expression: Expression
    read: Callable[[Any], V]

    def answer(self, facts: Facts, max_cost: int = MAX_COST) -> tuple[V, int]:
        """The answer for a device, and what it cost to find out. Raises CelFault, and TookTooLong above `max_cost` if that is
        less than an expression may cost."""
        try:
            value, cost = self.expression.evaluate({"device": facts}, min(max_cost, MAX_COST))
        except Exceeded as fault:
            if max_cost < MAX_COST:
                raise TookTooLong from None
            raise CelFault(str(fault), MAX_COST) from None
        try:
            if value.__class__ is Fault:
                raise CelFault(value.text)
            return self.read(value), cost
        except CelFault as fault:
            fault.cost = cost
            raise


Matcher = DeviceExpression[bool]
Deriver = DeviceExpression[DeviceAttribute]


def _as_bool(value: Any) -> bool:
    if value.__class__ is not bool:
        name = type_name(value)
        why = _NOT_A_BOOL.get(name, f"type conversion error from '{value.__class__.__name__}' to 'bool'")
        raise CelFault(f"CEL result of type {name} could not be converted to bool: {why}")
    return bool(value)


# Bounded, because users write expressions into claims; 4,096 is far above what a cluster has.
@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Matcher | CelFault:
    """The selector, or what is wrong with it."""
    try:
        expression = compile_text(text)
        check_selector(expression.type)
    except CompileFault as fault:
        return CelFault(str(fault))
    return DeviceExpression(expression, _as_bool)


@lru_cache(maxsize=4096)
def compile_derived(text: str) -> Deriver | CelFault:
    """The expression of a derived attribute, or what is wrong with it."""
    try:
        expression = compile_text(text)
        check_derived(expression.type)
    except CompileFault as fault:
        return CelFault(str(fault))
    return DeviceExpression(expression, _attribute)


# ---- devices and their attributes as values of CEL


def facts_of(driver: str, device: Device) -> Facts:
    """Build the values of a device that expressions can read. Raises CelFault if an attribute has no value."""
    attributes = Defaulting()
    for name, attribute in (device.attributes or {}).items():
        domain, bare = _parts(name, driver)
        attributes.setdefault(domain, {})[bare] = _value(name, attribute)
    capacity = Defaulting()
    for name, amount in (device.capacity or {}).items():
        domain, bare = _parts(name, driver)
        capacity.setdefault(domain, {})[bare] = Quantity(parse(amount.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }


def _parts(name: str, driver: str) -> tuple[str, str]:
    """`domain/id`; names without a domain belong to the driver."""
    domain, slash, bare = name.partition("/")
    return (domain, bare) if slash else (driver, name)


def _value(name: str, attribute: DeviceAttribute) -> Any:
    """The CEL value of an attribute; exactly one of its fields is set."""
    values = _list_value(name, attribute)
    if values is not None:
        return values
    if attribute.int_value is not None:
        return int64(attribute.int_value)
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is None:
        raise CelFault(f"attribute {name}: unsupported attribute value")
    return _version(name, attribute.version_value)


def _list_value(name: str, attribute: DeviceAttribute) -> list[Any] | None:
    """Value of an attribute that is a list, in the types of CEL; None if the attribute has no list."""
    if attribute.int_values is not None:
        return [int64(each) for each in attribute.int_values]
    if attribute.bool_values is not None:
        return attribute.bool_values
    if attribute.string_values is not None:
        return attribute.string_values
    versions = attribute.version_values
    return None if versions is None else [_version(name, each) for each in versions]


def _version(name: str, text: str) -> Any:
    version = semver_of(text)
    if isinstance(version, Fault):
        raise CelFault(f"attribute {name}: parse semantic version: {version.text}")
    return version


def _attribute(value: Any) -> DeviceAttribute:
    """The attribute that a CEL value stands for. Raises CelFault for a value that attributes cannot have."""
    if value.__class__ is not list:
        kind = _KINDS.get(value.__class__)
        if kind is None:
            raise CelFault(f"unsupported CEL return type: {_go_type(value)}")
        single: dict[str, Any] = {f"{kind}_value": _plain(value)}
        return DeviceAttribute(**single)
    if not value:
        return DeviceAttribute(string_values=[])  # Parity: a list of nothing has no type
    kind = _KINDS.get(value[0].__class__)
    if kind is None:
        raise CelFault(f"unsupported list element type: {_go_type(value[0])}")
    for i, each in enumerate(value):
        if each.__class__ is not value[0].__class__:
            told = "semver" if kind == "version" else kind
            raise CelFault(f"expected list element at index {i} to be {told}, got {_go_type(each)}")
    several: dict[str, Any] = {f"{kind}_values": [_plain(each) for each in value]}
    return DeviceAttribute(**several)


_KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string", Semver: "version"}
"""The types of CEL values that attributes can have."""
_GO_TYPES = {
    "bool": "bool", "int": "int64", "uint": "uint64", "double": "float64", "string": "string", "bytes": "[]uint8",
    "null_type": "structpb.NullValue", "list": "[]ref.Val", "map": "map[ref.Val]ref.Val",
    "google.protobuf.Timestamp": "time.Time", "google.protobuf.Duration": "time.Duration",
    "kubernetes.Semver": "semver.Version", "kubernetes.Quantity": "*resource.Quantity",
}  # fmt: skip
"""CEL types as upstream's messages name their values. Parity: these are types of Go."""


def _go_type(value: Any) -> str:
    name = type_name(value)
    return _GO_TYPES.get(name, name)


def _plain(value: Any) -> Any:
    return value.text if value.__class__ is Semver else value
