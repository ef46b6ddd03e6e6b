"""Selectors of devices: CEL with what Kubernetes adds to it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mooring.cel.access import type_name
from mooring.cel.budget import Exceeded
from mooring.cel.expression import CompileFault, Expression, compile_expression
from mooring.cel.functions.amounts import AMOUNTS, QUANTITY, Quantity, semver_of
from mooring.cel.functions.formats import NAMED_FORMATS
from mooring.cel.functions.lists import LISTS
from mooring.cel.functions.networks import CIDR, IP, NETWORKS, URLS
from mooring.cel.functions.standard import STANDARD, TYPES
from mooring.cel.functions.texts import TEXTS, VALIDATORS
from mooring.cel.functions.times import TIMES
from mooring.cel.language.checker import Declarations
from mooring.cel.library import Library
from mooring.cel.values import ANY, BOOL, STRING, Defaulting, Fault, Type, map_of
from mooring.model.devices import Device, DeviceAttribute
from mooring.model.meta import int64
from mooring.model.quantity import parse
from mooring.plugins.devices.effort import CelFault, Facts

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
_FIELDS = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, ANY)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
LIBRARY = Library((*STANDARD, *TIMES, *TEXTS, *LISTS, *AMOUNTS, *NETWORKS, *URLS, *NAMED_FORMATS))
DECLARATIONS = Declarations(
    LIBRARY, {"device": _DEVICE}, {_DEVICE.name: _FIELDS}, {**TYPES, IP.name: IP, CIDR.name: CIDR}, VALIDATORS
)
"""Parity: `device` is an object with four fields, so an expression that misspells one does not compile."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled selector."""

    expression: Expression

    def matches(self, facts: Facts) -> tuple[bool, int]:
        """Whether the device is selected, and what it cost to find out. Raises CelFault."""
        try:
            value, cost = self.expression.evaluate({"device": facts}, MAX_COST)
        except Exceeded as fault:
            raise CelFault(str(fault), MAX_COST) from None
        if value.__class__ is Fault:
            raise CelFault(value.text, cost)
        if value.__class__ is not bool:
            name = type_name(value)
            why = _NOT_A_BOOL.get(name, f"type conversion error from '{value.__class__.__name__}' to 'bool'")
            raise CelFault(f"CEL result of type {name} could not be converted to bool: {why}", cost)
        return value, cost


# Bounded, because users write selectors into claims; 4,096 is far above what a cluster has.
@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Matcher | CelFault:
    """The selector, or what is wrong with it."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return CelFault(f"compilation failed: Too long: may not be more than {MAX_BYTES} bytes")
    try:
        expression = compile_expression(text, DECLARATIONS)
    except CompileFault as fault:
        return CelFault(str(fault))
    if expression.type not in (BOOL, ANY):
        return CelFault(f"must evaluate to bool or the unknown type, not {expression.type}")
    return Matcher(expression)


def facts_of(driver: str, device: Device) -> Facts:
    """What selectors read of a device. Raises CelFault for attributes that have no value."""
    attributes = Defaulting()
    for name, attribute in (device.attributes or {}).items():
        domain, id = _parts(name, driver)
        attributes.setdefault(domain, {})[id] = _value(name, attribute)
    capacity = Defaulting()
    for name, amount in (device.capacity or {}).items():
        domain, id = _parts(name, driver)
        capacity.setdefault(domain, {})[id] = Quantity(parse(amount.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
        "attributes": attributes,
        "capacity": capacity,
    }


def _parts(name: str, driver: str) -> tuple[str, str]:
    """`domain/id`; names without a domain belong to the driver."""
    domain, slash, id = name.partition("/")
    return (domain, id) if slash else (driver, name)


def _value(name: str, attribute: DeviceAttribute) -> Any:
    """The CEL value of an attribute; exactly one of its fields is set."""
    if attribute.int_value is not None:
        return int64(attribute.int_value)
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is None:
        raise CelFault(f"attribute {name}: unsupported attribute value")
    version = semver_of(attribute.version_value)
    if isinstance(version, Fault):
        raise CelFault(f"attribute {name}: parse semantic version: {version.text}")
    return version
