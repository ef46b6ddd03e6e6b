"""Constraints of a claim: all its devices agree in an attribute, or all differ in one."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from mooring.model.devices import Device, DeviceAttribute, DeviceConstraint
from mooring.plugins.devices.device_demand import Ask, Fatal
from mooring.plugins.devices.pools import DeviceInSlice

Value = tuple[str, str | int | bool]
"""The type of a value, and the value."""
Values = tuple[str, frozenset[str | int | bool]]
"""The type of the values of a list, and the values."""


class PickConstraint(ABC):
    """A constraint on one attribute of the devices that are picked for some requests of a claim, or for all of them.

    It follows the search: `admit` for each device that is picked, `drop` in reverse order when the search goes back.
    """

    def __init__(self, requests: Collection[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._count = 0

    def admit(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the device may join those picked before; if so, it counts as picked."""
        if not _is_meant(self._requests, ask):
            return True
        attribute = find_attribute(site.device, site.id[0], self._attribute)
        if attribute is None:
            return False
        if not self._joins(ask, attribute):
            return False
        self._count += 1
        return True

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        """Undo `admit`. What devices have in common stands until the last of them is dropped."""
        if _is_meant(self._requests, ask):
            self._count -= 1

    @abstractmethod
    def _joins(self, ask: Ask, attribute: DeviceAttribute) -> bool:
        """Whether a device with this attribute may join those that are counted; if so, it is remembered."""


class Same(PickConstraint):
    """matchAttribute: every device has the attribute, with one value for all."""

    _value: Value | None = None

    def _joins(self, ask: Ask, attribute: DeviceAttribute) -> bool:
        value = value_of(attribute)
        if self._count:
            return value is not None and value == self._value
        self._value = value
        return True


class Distinct(PickConstraint):
    """distinctAttribute: every device has the attribute, and no two have the same value.

    Parity: one value is remembered for each request, that of the device picked last, and forgotten when that device is
    dropped. So among the devices of one request only neighbours are sure to differ.
    """

    def __init__(self, requests: Collection[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Any] = {}

    def _joins(self, ask: Ask, attribute: DeviceAttribute) -> bool:
        value = value_of(attribute)
        if self._count and self._values and (value is None or value in self._values.values()):
            return False
        self._values[ask.base_name] = value
        return True

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        if _is_meant(self._requests, ask):
            self._values.pop(ask.base_name, None)
        super().drop(ask, site)


class Overlapping(PickConstraint):
    """matchAttribute where attributes may be lists: all devices have a value in common. A single value is a list of one.

    Parity: what devices have in common shrinks with each device that joins, and grows again only when all are dropped. So a
    search that goes back may miss a choice.
    """

    _common: Values | None = None

    def _joins(self, ask: Ask, attribute: DeviceAttribute) -> bool:
        """Whether the values of a device have one in common with all devices before it. If so, only the values that all of
        them share remain."""
        values = values_of(attribute)
        if values is None:
            return False
        if not self._count or self._common is None:
            self._common = values
            return True
        kind, common = self._common
        if values[0] != kind or common.isdisjoint(values[1]):
            return False
        self._common = kind, common & values[1]
        return True


class Disjoint(Distinct):
    """distinctAttribute where attributes may be lists: no two devices have a value in common. Parity: as for Distinct."""

    def _joins(self, ask: Ask, attribute: DeviceAttribute) -> bool:
        values = values_of(attribute)
        if self._count and (values is None or any(_overlap(values, other) for other in self._values.values())):
            return False
        self._values[ask.base_name] = values
        return True


def _overlap(one: Values, other: Values | None) -> bool:
    return other is not None and one[0] == other[0] and not one[1].isdisjoint(other[1])


def constraint_of(claim: int, index: int, written: DeviceConstraint, has_lists: bool = False) -> PickConstraint:
    """The constraint that is written; raises Fatal for one of a kind that this version does not know."""
    requests = frozenset(written.requests or ())
    if written.match_attribute is not None:
        return (Overlapping if has_lists else Same)(requests, written.match_attribute)
    if written.distinct_attribute is not None:
        return (Disjoint if has_lists else Distinct)(requests, written.distinct_attribute)
    raise Fatal(f", constraint #{index}: empty constraint (unsupported constraint type?)", claim)


def _is_meant(requests: Collection[str], ask: Ask) -> bool:
    """Whether a constraint is about the request; one that names none is about all of them."""
    return not requests or ask.base_name in requests or ask.full_name in requests


def find_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """By its full name; the driver's own attributes may be written without their domain."""
    attributes = device.attributes or {}
    found = attributes.get(name)
    if found is not None:
        return found
    domain, slash, bare = name.partition("/")
    return attributes.get(bare) if slash and domain == driver else None


def value_of(attribute: DeviceAttribute) -> Value | None:
    """None: a type that is not known, which equals nothing."""
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    return None if attribute.version_value is None else ("version", attribute.version_value)


def values_of(attribute: DeviceAttribute) -> Values | None:
    """The values of a list, or the one value. None: a type that is not known, or an empty list."""
    lists: tuple[tuple[str, Sequence[str | int | bool] | None], ...] = (
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("string", attribute.string_values),
        ("version", attribute.version_values),
    )
    for kind, values in lists:
        if values:
            return kind, frozenset(values)
    single = value_of(attribute)
    return None if single is None else (single[0], frozenset((single[1],)))
