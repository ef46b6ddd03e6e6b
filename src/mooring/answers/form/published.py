"""The published form of answers: which attributes of a value are fields of the JSON, under which names, in which order.

The form is a public interface with a version (docs/schemas): fields may be added, but not renamed or removed.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

DECIMALS = 9
"""The precision of numbers that programs get: nanoseconds, and more digits than prices and shares have."""


class Published:
    """A value that is an object of the JSON; `published` names its fields as `fields_of` reads them."""

    __slots__ = ()

    published: ClassVar[str]

    def content(self) -> dict[str, Any]:
        """The value as plain data."""
        return fields_of(self, self.published)


def fields_of(value: object, names: str) -> dict[str, Any]:
    """Attributes, properties and results of methods as fields, in the order of `names`, which spaces separate.

    | name                   | field                                              |
    | waits_for              | waitsFor                                           |
    | pod.name               | name, of the attribute pod                         |
    | is_placed:placed       | placed                                             |
    | nominated?:nominatedNode | nominatedNode, left out while it is empty or None |
    """
    found = {}
    for attribute, name, is_optional in _parsed(names):
        held = attrgetter(attribute)(value)
        held = held() if callable(held) else held
        if held or not is_optional:
            found[name] = plain(held)
    return found


@cache
def _parsed(names: str) -> list[tuple[str, str, bool]]:
    """Attribute, name of the field, and whether the field is left out while it is empty."""
    parts = [each.partition(":") for each in names.split()]
    return [(at.rstrip("?"), name or in_camel_case(at.rstrip("?")), at.endswith("?")) for at, _, name in parts]


def in_camel_case(attribute: str) -> str:
    """The name of a field for an attribute: `pod.waits_for` is `waitsFor`."""
    return re.sub("_([a-z0-9])", lambda found: found[1].upper(), attribute.rpartition(".")[2])


def plain(value: Any) -> Any:
    """The value as plain data. Floats are rounded: sums of prices and shares end without the noise of the last bits. A tuple
    with names is an object."""
    if isinstance(value, Published):
        return value.content()
    if isinstance(value, float):
        return round(float(value), DECIMALS)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return fields_of(value, " ".join(value._fields))
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.value if isinstance(value, Enum) else value
