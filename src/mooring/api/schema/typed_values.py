"""Whether JSON holds what the fields of its type hold: the first thing that is asked of every body, as by Go's decoder.

What passes can be read without looking twice: a map is a map and a string a string wherever the kind says so.

The table of fields is turned into structs of msgspec, type by type as they are met. To convert an object to its struct is
one pass in C (13 µs for a pod of 1.7 KiB) that finds values of a wrong type and unknown fields alike. Only what does not
pass is walked here, to say what is wrong with it and where.
"""

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import msgspec

from mooring.api.api_errors import bad_request
from mooring.api.fields import ANYTHING, fields_of, is_list, is_map, is_type, part_of
from mooring.api.json_objects import JsonObject
from mooring.kit.shown_text import quoted
from mooring.model.quantity import BAD_FORM, QuantityError, parse

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
"""The name that Go's decoder has for the value that it found."""
_GO_TYPES = {
    "integer": "int64",
    "boolean": "bool",
    "time": "v1.Time",
    "micro-time": "v1.MicroTime",
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "fields-v1": "v1.FieldsV1",
}
"""The name that it has for the type that it wanted. Later: upstream distinguishes int32, which the table does not know."""
_SHARED = {"kind": "string", "apiVersion": "string", "metadata": "meta.ObjectMeta"}
"""The fields of every kind."""


def conforms(holds: str, item: Any) -> bool:
    """Whether an object has known fields only, and in each of them a value of its type.

    True is certain. After False the thorough walks decide, because the structs refuse a little too much (see `_PATTERNS`).
    """
    try:
        msgspec.convert(item, _struct(holds))
    except msgspec.ValidationError:
        return False
    return True


def has_conforming_spec(holds: str, text: bytes | msgspec.Raw) -> bool:
    """Whether the JSON text of an object has a spec of which `conforms` would be true. The rest of it may be anything.

    Hot: the text is decoded to the structs directly, 5 µs for a pod of 2.6 KB; by way of dictionaries it took 9 µs.
    """
    try:
        return _spec_decoder(holds).decode(text).spec is not None
    except ValueError:
        return False


def check_typed(holds: str, item: JsonObject, kind: str, version: str) -> None:
    """Refuse an object with a value of the wrong JSON type in it, as one that cannot be of its kind."""
    if holds == ANYTHING:  # a kind that the table does not have: what all kinds share
        for name, part in _SHARED.items():
            if item.get(name) is not None:
                _refuse(misfit_of(part, item[name], f"{kind}.{name}"), kind, version)
    elif not conforms(holds, item):
        _refuse(misfit_of(holds, item, kind), kind, version)


def _refuse(misfit: "Misfit | None", kind: str, version: str) -> None:
    """Raises 400 where there is a misfit."""
    if misfit is not None:
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {_why(*misfit)}')


# ---- the quick look


@cache
def _struct(holds: str) -> Any:
    """The type that msgspec converts such a value to. Null fits everywhere but in a list of plain values."""
    if is_list(holds):
        part = part_of(holds)
        return list[_struct(part) | None] if is_type(part) else list[_struct(part)]  # type: ignore[misc]
    if is_map(holds):
        return dict[str, _struct(part_of(holds)) | None]  # type: ignore[misc]
    if not is_type(holds):
        return _PLAIN_STRUCTS[holds]
    fields = fields_of(holds)
    # Names in JSON may be words that Python reserves, so the structs number their fields.
    numbers = {name: f"field_{i}" for i, name in enumerate(fields)}
    _STRUCTS[holds] = msgspec.defstruct(
        holds.replace(".", "_").replace("-", "_"),
        [(numbers[name], _field_type(field.holds, holds), None) for name, field in fields.items()],
        rename={number: name for name, number in numbers.items()},
        forbid_unknown_fields=True,
        gc=False,
        module=__name__,
    )
    return _STRUCTS[holds]


_STRUCTS: dict[str, Any] = {}
"""The structs of types, by name, for types that hold lists of themselves: msgspec looks them up here when it first needs
them."""


def _field_type(holds: str, owner: str) -> Any:
    """The type of a field of the type `owner`. Templates of Workloads hold lists of templates of their own type."""
    return f"list[_STRUCTS[{owner!r}] | None] | None" if holds == f"[{owner}]" else _struct(holds) | None


@cache
def _spec_decoder(holds: str) -> msgspec.json.Decoder[Any]:
    """A decoder of the field `spec` of a type alone; it skips the other fields."""
    spec = fields_of(holds).get("spec")
    struct = None if spec is None else _struct(spec.holds)
    return msgspec.json.Decoder(msgspec.defstruct("WithSpec", [("spec", struct | None if struct else None, None)]))


_DAY = "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_CLOCK = r"(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
_PATTERNS = {
    "time": rf"^[1-9][0-9]{{3}}-{_DAY}T{_CLOCK}\Z",
    "quantity": r"^[+-]?[0-9]{1,32}(?:\.[0-9]{0,32})?(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,18})?\Z",
}
"""Texts that fit for certain. Others may fit as well: February 29th, a quantity with blanks around it."""
_Integer: Any = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Time: Any = Annotated[str, msgspec.Meta(pattern=_PATTERNS["time"])]
_Quantity: Any = Annotated[str, msgspec.Meta(pattern=_PATTERNS["quantity"])]
_PLAIN_STRUCTS: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "integer": _Integer,
    "time": _Time,
    "micro-time": _Time,
    "quantity": int | float | _Quantity,
    "int-or-string": str | _Integer,
    "object": Any,
    "fields-v1": dict[str, Any],
}
"""The types of msgspec for plain values, by what a field holds."""


# ---- the thorough one


def _is_time(value: Any) -> bool:
    """The pattern lets days pass that no month has, so the calendar decides."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(f"{value[:19]}+00:00")
    except ValueError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    return type(value) is int and value in _INTEGERS


_PLAIN: dict[str, Callable[[Any], bool]] = {
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
"""Whether a plain value fits, by what its field holds."""


Misfit = tuple[str, str, Any]
"""The place of a value that does not fit, the type that should be there, and the value."""


def misfit_of(holds: str, value: Any, place: str) -> Misfit | None:
    """The first value that does not fit; None: all do. Indexes are not told."""
    inner: list[tuple[str, Any, str]] = []
    if is_list(holds) and type(value) is list:
        inner = [(part_of(holds), item, place) for item in value if item is not None]
        fits = is_type(part_of(holds)) or len(inner) == len(value)
    elif is_map(holds) and type(value) is dict:
        inner, fits = [(part_of(holds), item, place) for item in value.values() if item is not None], True
    elif is_type(holds) and type(value) is dict:
        known = fields_of(holds)
        inner = [(known[n].holds, item, f"{place}.{n}") for n, item in value.items() if n in known and item is not None]
        fits = True
    else:
        fits = holds in _PLAIN and _PLAIN[holds](value)
    misfits = (misfit_of(*part) for part in inner)
    return next((found for found in misfits if found is not None), None if fits else (place, holds, value))


def _why(place: str, wanted: str, found: Any) -> str:
    """The fault of a value, in the words of Go's decoder."""
    if wanted == "quantity":
        return quantity_fault(found)
    if wanted in ("time", "micro-time") and type(found) is str:
        return f'parsing time {quoted(found)} as "2006-01-02T15:04:05Z07:00": cannot parse {quoted(found)} as "2006"'
    return f"json: cannot unmarshal {_GO_KINDS[type(found)]} into Go struct field {place} of type {_go_type(wanted)}"


def _go_type(holds: str) -> str:
    """The type of a field as Go writes it."""
    if is_list(holds):
        return f"[]{_go_type(part_of(holds))}"
    if is_map(holds):
        return f"map[string]{_go_type(part_of(holds))}"
    return f"v1.{holds.rpartition('.')[2]}" if is_type(holds) else _GO_TYPES.get(holds, holds)


# ---- quantities: the form of the text, not the amount


def quantity_fault(value: Any) -> str:
    """Why a value of JSON is no quantity; nothing where it is one.

    | value   | fault      |
    | " 1 "   |            |
    | "1\\n"  | BAD_FORM   |
    | "1ki"   | BAD_SUFFIX |
    | true    | BAD_FORM   |
    """
    if type(value) in (int, float):
        return ""
    if type(value) is not str:
        return BAD_FORM
    try:
        parse(value)
    except QuantityError as error:
        return error.fault
    return ""
