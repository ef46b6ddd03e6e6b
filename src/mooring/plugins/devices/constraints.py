"""Constraints of a claim: all its devices agree in an attribute, or all differ in one."""

from collections.abc import Collection
from typing import Protocol

from mooring.model.devices import Device, DeviceAttribute, DeviceConstraint
from mooring.plugins.devices.demand import Ask, Fatal
from mooring.plugins.devices.device_views import DeviceInSlice

Value = tuple[str, str | int | bool]
"""Of which type a value is, and the value."""


class PickConstraint(Protocol):
    """Follows the devices that are picked; they are dropped in reverse order."""

    def admit(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the device may join those picked before; if so, it has."""

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        """A device that had been admitted is not picked after all."""


def constraint_of(claim: int, index: int, written: DeviceConstraint) -> PickConstraint:
    if written.match_attribute is not None:
        return Same(frozenset(written.requests or ()), written.match_attribute)
    if written.distinct_attribute is not None:
        return Distinct(frozenset(written.requests or ()), written.distinct_attribute)
    raise Fatal(f", constraint #{index}: empty constraint (unsupported constraint type?)", claim)


class Same:
    """matchAttribute: every device has the attribute, with one value for all."""

    def __init__(self, requests: Collection[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._value: Value | None = None
        self._count = 0

    def admit(self, ask: Ask, site: DeviceInSlice) -> bool:
        if not _is_meant(self._requests, ask):
            return True
        attribute = find_attribute(site.device, site.id[0], self._attribute)
        if attribute is None:
            return False
        value = value_of(attribute)
        if not self._count:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._count += 1
        return True

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        if _is_meant(self._requests, ask):
            self._count -= 1


class Distinct:
    """distinctAttribute: every device has the attribute, and no two have the same value.

    Parity: one value is remembered for each request, that of the device picked last, and forgotten when that device is
    dropped. So among the devices of one request only neighbours are sure to differ.
    """

    def __init__(self, requests: Collection[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._values: dict[str, Value | None] = {}
        self._count = 0

    def admit(self, ask: Ask, site: DeviceInSlice) -> bool:
        if not _is_meant(self._requests, ask):
            return True
        attribute = find_attribute(site.device, site.id[0], self._attribute)
        if attribute is None:
            return False
        value = value_of(attribute)
        if self._count and self._values and (value is None or value in self._values.values()):
            return False
        self._values[ask.base_name] = value
        self._count += 1
        return True

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        if _is_meant(self._requests, ask):
            self._values.pop(ask.base_name, None)
            self._count -= 1


def _is_meant(requests: Collection[str], ask: Ask) -> bool:
    """Whether a constraint is about the request; one that names none is about all of them."""
    return not requests or ask.base_name in requests or ask.full_name in requests


def find_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """By its full name; the driver's own attributes may be written without their domain."""
    attributes = device.attributes or {}
    found = attributes.get(name)
    if found is not None:
        return found
    domain, slash, id = name.partition("/")
    return attributes.get(id) if slash and domain == driver else None


def value_of(attribute: DeviceAttribute) -> Value | None:
    """None: a type that is not known, which equals nothing."""
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    return None if attribute.version_value is None else ("version", attribute.version_value)
