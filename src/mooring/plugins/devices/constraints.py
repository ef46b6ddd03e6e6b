"""Constraints of a claim: all its devices agree in an attribute, or all differ in one."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from mooring.model.devices import Device, DeviceAttribute, DeviceConstraint
from mooring.plugins.devices.device_demand import Ask, Fatal
from mooring.plugins.devices.pools import DeviceInSlice

Value = tuple[str, str | int | bool]
"""The type of a value, and the value."""
Values = tuple[str, frozenset[str | int | bool]]
"""The type of the values of a list, and the values."""

Find = Callable[[Ask, DeviceInSlice, str], DeviceAttribute | None]
"""Finds an attribute of a device for a request, by its name. None: the device has no such attribute."""


class PickConstraint:
    """A constraint on one attribute of the devices that are picked for some requests of a claim, or for all of them.

    All devices have a value of the attribute in common (matchAttribute), or no two of them have (distinctAttribute).

    It follows the search: `admit` for each device that is picked, `drop` in reverse order when the search goes back.
    """

    def __init__(
        self, requests: Collection[str], attribute: str, find: Find, *, is_match: bool, has_lists: bool
    ) -> None:
        self._requests = requests
        self._attribute = attribute
        self._find = find
        self._is_match = is_match
        self._has_lists = has_lists
        self._joined: list[Any] = []
        """One entry for each device that joined: its value, or, with lists, those that it shares with all devices before."""

    def admit(self, ask: Ask, site: DeviceInSlice) -> bool:
        """Whether the device may join those picked before; if so, it counts as picked."""
        if not self._is_about(ask):
            return True
        attribute = self._find(ask, site, self._attribute)
        return attribute is not None and (self._list_joins if self._has_lists else self._joins)(attribute)

    def _joins(self, attribute: DeviceAttribute) -> bool:
        """A single value: one of an unknown type can only come first."""
        value = value_of(attribute)
        if self._joined and (value is None or (value in self._joined) is not self._is_match):
            return False
        self._joined.append(value)
        return True

    def _list_joins(self, attribute: DeviceAttribute) -> bool:
        """A list; a single value counts as a list of one."""
        values = values_of(attribute)
        if self._is_match and self._joined:
            values = _common(values, self._joined[-1])
        if values is None or (not self._is_match and any(_common(values, other) for other in self._joined)):
            return False
        self._joined.append(values)
        return True

    def drop(self, ask: Ask, site: DeviceInSlice) -> None:
        """Undo the last `admit`."""
        if self._is_about(ask):
            self._joined.pop()

    def _is_about(self, ask: Ask) -> bool:
        """Whether the constraint is about the request; one that names none is about all of them."""
        return not self._requests or ask.base_name in self._requests or ask.full_name in self._requests


def _common(one: Values | None, other: Values) -> Values | None:
    """The values that both have; None: they have none in common."""
    if one is None or one[0] != other[0] or one[1].isdisjoint(other[1]):
        return None
    return one[0], one[1] & other[1]


def published(ask: Ask, site: DeviceInSlice, name: str) -> DeviceAttribute | None:
    """The attribute that the driver published for the device."""
    return find_attribute(site.device, site.id[0], name)


def constraint_of(
    claim: int, index: int, written: DeviceConstraint, has_lists: bool = False, find: Find = published
) -> PickConstraint:
    """The constraint that is written; raises Fatal for one of a kind that this version does not know."""
    requests = frozenset(written.requests or ())
    attribute = written.match_attribute if written.match_attribute is not None else written.distinct_attribute
    if attribute is None:
        raise Fatal(f", constraint #{index}: empty constraint (unsupported constraint type?)", claim)
    is_match = written.match_attribute is not None
    return PickConstraint(requests, attribute, find, is_match=is_match, has_lists=has_lists)


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
