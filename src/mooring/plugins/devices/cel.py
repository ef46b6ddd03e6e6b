"""Selectors of devices: CEL with what Kubernetes adds to it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Generic, TypeVar

from mooring.cel.budget import Exceeded
from mooring.cel.evaluation import type_name
from mooring.cel.expression import CompileFault, Expression, compile_expression
from mooring.cel.functions.amounts import AMOUNTS, QUANTITY, SEMVER, Quantity, Semver, named_formats, semver_of
from mooring.cel.functions.lists import LISTS
from mooring.cel.functions.networks import CIDR, IP, NETWORKS, URLS
from mooring.cel.functions.standard import STANDARD, TYPES
from mooring.cel.functions.texts import TEXTS, VALIDATORS
from mooring.cel.functions.times import TIMES
from mooring.cel.language.checker import Declarations
from mooring.cel.library import Library
from mooring.cel.values import BOOL, DYN, INT, STRING, Defaulting, Fault, Type, map_of
from mooring.model import names
from mooring.model.devices import Device, DeviceAttribute
from mooring.model.meta import int64
from mooring.model.quantity import parse
from mooring.plugins.devices.effort import CelFault, Facts, TookTooLong

MAX_COST = 1_000_000
"""The most that one selector may cost for one device (CELSelectorExpressionMaxCost). Upstream takes it for a tenth of a
second."""
MAX_BYTES = 10 * 1024
"""The longest selector (CELSelectorExpressionMaxLength). The API server rejects longer ones, so none is ever compiled.
"""

# Upstream's texts for results that are not boolean, by the CEL type.
_NOT_A_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
}

_DEVICE = Type("kubernetes.DRADevice")

_FORMATS = {
    "dns1123Label": names.dns_label_faults,
    "dns1123Subdomain": names.subdomain_faults,
    "dns1035Label": names.dns_1035_faults,
    "qualifiedName": names.qualified_name_faults,
    "labelValue": names.label_value_faults,
}
_FUNCTIONS = (*STANDARD, *TIMES, *TEXTS, *LISTS, *AMOUNTS, *NETWORKS, *URLS, *named_formats(_FORMATS))


@cache
def declarations() -> Declarations:
    """Names, fields and functions that CEL expressions of claims and classes may use. Parity: `device` is an object, so an
    expression with a misspelled field does not compile. No feature gate counts here: expressions that are stored may use
    whatever any of them allows."""
    fields = {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    library = Library(_FUNCTIONS)
    types = {**TYPES, IP.name: IP, CIDR.name: CIDR}
    return Declarations(library, {"device": _DEVICE}, {_DEVICE.name: fields}, types, VALIDATORS)


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Compiled(ABC, Generic[V]):
    """A compiled expression, with the kind of answer that it has to give."""

    expression: Expression

    def answer(self, facts: Facts, max_cost: int = MAX_COST) -> tuple[V, int]:
        """The answer for a device, and what it cost to find out. Raises CelFault, and TookTooLong above `max_cost` if that is
        less than an expression may cost."""
        try:
            value, cost = self.expression.evaluate({"device": facts}, min(max_cost, MAX_COST))
        except Exceeded as fault:
            if max_cost < MAX_COST:
                raise TookTooLong from None
            raise CelFault(str(fault), MAX_COST) from None
        if value.__class__ is Fault:
            raise CelFault(value.text, cost)
        return self._read(value, cost), cost

    @abstractmethod
    def _read(self, value: Any, cost: int) -> V:
        """The answer that a CEL value stands for. Raises CelFault."""


class Matcher(_Compiled[bool]):
    """A compiled selector."""

    def _read(self, value: Any, cost: int) -> bool:
        if value.__class__ is not bool:
            name = type_name(value)
            why = _NOT_A_BOOL.get(name, f"type conversion error from '{value.__class__.__name__}' to 'bool'")
            raise CelFault(f"CEL result of type {name} could not be converted to bool: {why}", cost)
        return bool(value)


class Deriver(_Compiled[DeviceAttribute]):
    """A compiled expression of a derived attribute."""

    def _read(self, value: Any, cost: int) -> DeviceAttribute:
        try:
            return _attribute(value)
        except CelFault as fault:
            fault.cost = cost
            raise


# Bounded, because users write expressions into claims; 4,096 is far above what a cluster has.
@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Matcher | CelFault:
    """The selector, or what is wrong with it."""
    expression = _compiled(text)
    if isinstance(expression, CelFault):
        return expression
    if expression.type not in (BOOL, DYN):
        return CelFault(f"must evaluate to bool or the unknown type, not {expression.type}")
    return Matcher(expression)


@lru_cache(maxsize=4096)
def compile_derived(text: str) -> Deriver | CelFault:
    """The expression of a derived attribute, or what is wrong with it."""
    expression = _compiled(text)
    if isinstance(expression, CelFault):
        return expression
    kind = expression.type
    element = kind.params[0] if kind.name == "list" else kind
    if element not in (BOOL, INT, STRING, DYN, SEMVER):
        allowed = "a primitive scalar (string, integer, boolean, semver) or a list of these scalars"
        return CelFault(f"must evaluate to {allowed}, not {kind}")
    return Deriver(expression)


def _compiled(text: str) -> Expression | CelFault:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return CelFault(f"compilation failed: Too long: may not be more than {MAX_BYTES} bytes")
    try:
        return compile_expression(text, declarations())
    except CompileFault as fault:
        return CelFault(str(fault))


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
