"""Whether JSON holds what the fields of its type hold: the first thing that is asked of every body, as by Go's decoder.

What passes can be read without looking twice: a map is a map and a string a string wherever the kind says so.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any

from mooring.apiserver.schema.fields import ANYTHING, fields_of, is_list, is_map, is_type, part_of
from mooring.apiserver.schema.quantity_text import quantity_fault
from mooring.model.api_errors import bad_request, quoted
from mooring.model.json_objects import JsonObject

_INTEGERS = range(-(1 << 63), 1 << 63)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
_GO_KINDS: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}
_GO_TYPES = {
    "integer": "int64",
    "boolean": "bool",
    "time": "v1.Time",
    "micro-time": "v1.MicroTime",
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "fields-v1": "v1.FieldsV1",
}
_SHARED = {"kind": "string", "apiVersion": "string", "metadata": "meta.ObjectMeta"}

Fits = Callable[[Any], bool]


def check_typed(holds: str, item: JsonObject, kind: str, version: str) -> None:
    """Refuse an object with a value of the wrong JSON type in it, as one that cannot be of its kind."""
    if holds == ANYTHING:  # a kind that the table does not have: what all kinds share
        for name, part in _SHARED.items():
            if name in item:
                check_typed_part(name, part, item[name], kind, version)
    elif not _fits(holds)(item):
        why = _why(*_misfit(holds, item, kind))
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def check_typed_part(name: str, holds: str, value: Any, kind: str, version: str) -> None:
    """The same for one field of an object."""
    if value is not None and not _fits(holds)(value):
        why = _why(*_misfit(holds, value, f"{kind}.{name}"))
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


# Hot: every body comes through here, so what fits is decided by closures made once for each type (20 µs for a pod of
# 2 KiB); where it does not is looked for only then.


@cache
def _fits(holds: str) -> Fits:
    """Whether a value is of that form. Null stands for nothing and fits everywhere but in a list of plain values."""
    if is_list(holds):
        return _list_fits(_fits(part_of(holds)), takes_null=is_type(part_of(holds)))
    if is_map(holds):
        return _map_fits(_fits(part_of(holds)))
    if is_type(holds):
        return _object_fits({name: _fits(field.holds) for name, field in fields_of(holds).items()})
    return _PLAIN[holds]


def _list_fits(inner_fits: Fits, takes_null: bool) -> Fits:
    def fits(value: Any) -> bool:
        if type(value) is not list:
            return False
        return all(takes_null if inner is None else inner_fits(inner) for inner in value)

    return fits


def _map_fits(inner_fits: Fits) -> Fits:
    def fits(value: Any) -> bool:
        return type(value) is dict and all(inner is None or inner_fits(inner) for inner in value.values())

    return fits


def _object_fits(fields: dict[str, Fits]) -> Fits:
    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, inner in value.items():
            inner_fits = fields.get(name)
            if inner_fits is not None and inner is not None and not inner_fits(inner):
                return False
        return True

    return fits


def _is_time(value: Any) -> bool:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(f"{value[:19]}+00:00")
    except ValueError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    return type(value) is int and value in _INTEGERS


_PLAIN: dict[str, Fits] = {
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "integer": _is_integer,
    "time": _is_time,
    "micro-time": _is_time,
    "quantity": lambda value: not quantity_fault(value),
    "int-or-string": lambda value: type(value) is str or _is_integer(value),
    "object": lambda value: True,
    "fields-v1": lambda value: type(value) is dict,
}


def _misfit(holds: str, value: Any, place: str) -> tuple[str, str, Any]:
    """Where the first value is that does not fit, what should be there, and what is. Indexes are not told."""
    inner: list[tuple[str, Any, str]] = []
    if is_list(holds) and type(value) is list:
        inner = [(part_of(holds), item, place) for item in value if item is not None]
    elif is_map(holds) and type(value) is dict:
        inner = [(part_of(holds), item, place) for item in value.values() if item is not None]
    elif is_type(holds) and type(value) is dict:
        known = fields_of(holds)
        inner = [(known[n].holds, item, f"{place}.{n}") for n, item in value.items() if n in known and item is not None]
    for part, item, at in inner:
        if not _fits(part)(item):
            return _misfit(part, item, at)
    return place, holds, value


def _why(place: str, wanted: str, found: Any) -> str:
    if wanted == "quantity":
        return quantity_fault(found)
    if wanted in ("time", "micro-time") and type(found) is str:
        return f'parsing time {quoted(found)} as "2006-01-02T15:04:05Z07:00": cannot parse {quoted(found)} as "2006"'
    return f"json: cannot unmarshal {_GO_KINDS[type(found)]} into Go struct field {place} of type {_go_type(wanted)}"


def _go_type(holds: str) -> str:
    if is_list(holds):
        return f"[]{_go_type(part_of(holds))}"
    if is_map(holds):
        return f"map[string]{_go_type(part_of(holds))}"
    return f"v1.{holds.rpartition('.')[2]}" if is_type(holds) else _GO_TYPES.get(holds, holds)
