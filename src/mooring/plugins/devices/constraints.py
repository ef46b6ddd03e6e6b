"""Constraints of a claim: all its devices agree in an attribute, or all differ in one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from mooring.model.devices import Device, DeviceAttribute, DeviceConstraint
from mooring.plugins.devices.device_demand import Ask, Fatal
from mooring.plugins.devices.pools import DeviceInSlice

Value = tuple[str, str | int | bool]
"""The type of a value, and the value."""
Values = tuple[str, frozenset[str | int | bool]]
"""The type of the values of a list, and the values."""
T = TypeVar("T", Value, Values)

Find = Callable[[Ask, DeviceInSlice, str], DeviceAttribute | None]
"""Finds an attribute of a device for a request, by its name. None: the device has no such attribute."""


class PickConstraint(ABC):
    """A constraint on one attribute of the devices that are picked for some requests of a claim, or for all of them.

    It follows the search: `admit` for each device that is picked, `drop` in reverse order when the search goes back.
    """

    def __init__(self, requests: Collection[str], attribute: str, find: Find) -> None:
        self._requests = requests
        self._attribute = attribute
        self._find = find

    def admit(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the device may join those picked before; if so, it counts as picked."""
        if not _is_meant(self._requests, ask):
            return True
        attribute = self._find(ask, site, self._attribute)
        return attribute is not None and self._joins(attribute)

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        """Undo the last `admit`."""
        if _is_meant(self._requests, ask):
            self._forget()

    @abstractmethod
    def _joins(self, attribute: DeviceAttribute) -> bool:
        """Whether a device with this attribute may join those that are counted; if so, it is remembered."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget the device that joined last."""


class _Stacked(PickConstraint, Generic[T]):
    """A constraint that remembers one entry for each device that joined; the last entry is that of the last device."""

    def __init__(self, requests: Collection[str], attribute: str, find: Find) -> None:
        super().__init__(requests, attribute, find)
        self._joined: list[T | None] = []

    def _forget(self) -> None:
        self._joined.pop()


class Same(_Stacked[Value]):
    """matchAttribute: every device has the attribute, with one value for all. A value of an unknown type is alone."""

    def _joins(self, attribute: DeviceAttribute) -> bool:
        value = value_of(attribute)
        if self._joined and (value is None or value != self._joined[0]):
            return False
        self._joined.append(value)
        return True


class Distinct(_Stacked[Value]):
    """distinctAttribute: every device has the attribute, and no two have the same value. A value of an unknown type can
    only come first."""

    def _joins(self, attribute: DeviceAttribute) -> bool:
        value = value_of(attribute)
        if self._joined and (value is None or value in self._joined):
            return False
        self._joined.append(value)
        return True


class Overlapping(_Stacked[Values]):
    """matchAttribute where attributes may be lists: all devices have a value in common. A single value is a list of one.

    Each entry has the values that all devices up to that one share.
    """

    def _joins(self, attribute: DeviceAttribute) -> bool:
        values = values_of(attribute)
        if values is None:
            return False
        common = self._joined[-1] if self._joined else values
        if common is None or not _overlap(values, common):
            return False
        self._joined.append((common[0], common[1] & values[1]))
        return True


class Disjoint(_Stacked[Values]):
    """distinctAttribute where attributes may be lists: no two devices have a value in common."""

    def _joins(self, attribute: DeviceAttribute) -> bool:
        values = values_of(attribute)
        if values is None or any(_overlap(values, other) for other in self._joined):
            return False
        self._joined.append(values)
        return True


def _overlap(one: Values, other: Values | None) -> bool:
    return other is not None and one[0] == other[0] and not one[1].isdisjoint(other[1])


def published(ask: Ask, site: DeviceInSlice, name: str) -> DeviceAttribute | None:
    """The attribute that the driver published for the device."""
    return find_attribute(site.device, site.id[0], name)


def constraint_of(
    claim: int, index: int, written: DeviceConstraint, has_lists: bool = False, find: Find = published
) -> PickConstraint:
    """The constraint that is written; raises Fatal for one of a kind that this version does not know."""
    requests = frozenset(written.requests or ())
    if written.match_attribute is not None:
        return (Overlapping if has_lists else Same)(requests, written.match_attribute, find)
    if written.distinct_attribute is not None:
        return (Disjoint if has_lists else Distinct)(requests, written.distinct_attribute, find)
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
