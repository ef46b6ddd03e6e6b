"""Selectors of devices: CEL with what Kubernetes adds to it."""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from mooring.cel.budget import Exceeded
from mooring.cel.evaluation import type_name
from mooring.cel.expression import CompileFault, Expression, compile_expression
from mooring.cel.functions.amounts import AMOUNTS, QUANTITY, Quantity, named_formats, semver_of
from mooring.cel.functions.lists import LISTS
from mooring.cel.functions.networks import CIDR, IP, NETWORKS, URLS
from mooring.cel.functions.standard import STANDARD, TYPES
from mooring.cel.functions.texts import TEXTS, VALIDATORS
from mooring.cel.functions.times import TIMES
from mooring.cel.language.checker import Declarations
from mooring.cel.library import Library, member
from mooring.cel.values import ANY, BOOL, DYN, STRING, Defaulting, Fault, Type, equal, map_of
from mooring.model import names
from mooring.model.devices import Device, DeviceAttribute
from mooring.model.meta import int64
from mooring.model.quantity import parse
from mooring.plugins.devices.effort import DIALECT, CelFault, Dialect, Facts, TookTooLong

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
MAX_INCLUDED = 48
"""The longest list that `includes` looks through (ResourceSliceMaxAttributeValuesPerDevice)."""


def _includes(target: Any, wanted: Any) -> bool | Fault:
    """Whether a list has the value, or a single value is it: so a selector can be written before attributes are lists."""
    if target.__class__ is not list:
        return equal(target, wanted)
    for i, each in enumerate(target):
        if i >= MAX_INCLUDED:
            return Fault(f"'includes' function cannot be applied to lists longer than {MAX_INCLUDED} values")
        if equal(each, wanted):
            return True
    return False


_FORMATS = {
    "dns1123Label": names.dns_label_faults,
    "dns1123Subdomain": names.subdomain_faults,
    "dns1035Label": names.dns_1035_faults,
    "qualifiedName": names.qualified_name_faults,
    "labelValue": names.label_value_faults,
}
_FUNCTIONS = (*STANDARD, *TIMES, *TEXTS, *LISTS, *AMOUNTS, *NETWORKS, *URLS, *named_formats(_FORMATS))
_OF_LISTS = (member("dra_includes_dyn_dyn", "includes", "dyn, dyn", "bool", _includes),)


@cache
def declarations(dialect: Dialect) -> Declarations:
    """Names, fields and functions that a CEL expression of a selector may use. Parity: `device` is an object, so an
    expression with a misspelled field does not compile; and attributes are `dyn` only where they may be lists, so that
    otherwise no macro can iterate over them."""
    fields = {
        "driver": STRING,
        **({"allowMultipleAllocations": BOOL} if dialect.has_sharing else {}),
        "attributes": map_of(STRING, map_of(STRING, DYN if dialect.has_lists else ANY)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    library = Library((*_FUNCTIONS, *(_OF_LISTS if dialect.has_lists else ())))
    types = {**TYPES, IP.name: IP, CIDR.name: CIDR}
    return Declarations(library, {"device": _DEVICE}, {_DEVICE.name: fields}, types, VALIDATORS)


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled selector."""

    expression: Expression

    def matches(self, facts: Facts, max_cost: int = MAX_COST) -> tuple[bool, int]:
        """Whether the device is selected, and what it cost to find out. Raises CelFault, and TookTooLong above `max_cost` if
        that is less than a selector may cost."""
        try:
            value, cost = self.expression.evaluate({"device": facts}, min(max_cost, MAX_COST))
        except Exceeded as fault:
            if max_cost < MAX_COST:
                raise TookTooLong from None
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
def compile_selector(text: str, dialect: Dialect = DIALECT) -> Matcher | CelFault:
    """The selector, or what is wrong with it."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return CelFault(f"compilation failed: Too long: may not be more than {MAX_BYTES} bytes")
    try:
        expression = compile_expression(text, declarations(dialect))
    except CompileFault as fault:
        return CelFault(str(fault))
    if expression.type not in (BOOL, ANY, *((DYN,) if dialect.has_lists else ())):
        return CelFault(f"must evaluate to bool or the unknown type, not {expression.type}")
    return Matcher(expression)


def facts_of(driver: str, device: Device, dialect: Dialect = DIALECT) -> Facts:
    """Build the values of a device that selectors can read. Raises CelFault if an attribute has no value, or none of this
    dialect."""
    attributes = Defaulting()
    for name, attribute in (device.attributes or {}).items():
        domain, bare = _parts(name, driver)
        attributes.setdefault(domain, {})[bare] = _value(name, attribute, dialect)
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


def _value(name: str, attribute: DeviceAttribute, dialect: Dialect) -> Any:
    """The CEL value of an attribute; exactly one of its fields is set."""
    values = _list_value(name, attribute) if dialect.has_lists else None
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
