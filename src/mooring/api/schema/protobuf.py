"""Objects that come as protobuf, read into the data that they would be in JSON.

The table of fields says what each number stands for. From it a plan is made for each type, once: it maps a tag (a number
and the form of what follows) to a function that puts what follows into the object. Go writes every field that is no
pointer, so zeros are left out unless the table says that they are values.

Templates of Workloads hold templates, to any depth: data that are nested too deeply are malformed.
"""

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from mooring.api.fields import SchemaPlace, fields_of, is_list, is_map, is_type, part_of, places_of, type_of
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.kit.clock import NS_PER_S, in_micros, in_seconds

MAGIC = b"k8s\0"
"""The first bytes of every object that Kubernetes writes as protobuf."""

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = 0, 1, 2, 5
"""Wire types: the form of what follows a tag."""
_FORMS = 8
"""A tag is a field number times 8 plus the wire type."""
_FIXED_BYTES = {_FIXED_64: 8, _FIXED_32: 4}
_VARINT_BYTES = 10
"""Seven bits to a byte, so that ten hold 64 bits. More are malformed."""
_64_BITS = (1 << 64) - 1

_FAULTS = (IndexError, ValueError, OverflowError, OSError, RecursionError, msgspec.DecodeError)
"""The errors of data that end too early, of texts that are no UTF-8, of moments beyond all years, of bad JSON."""

Reader = Callable[[Any], Any]
"""Turns the bytes of a field, or the number that it is, into JSON data; None if that is nothing."""
Put = Callable[[JsonObject, Any], None]
"""Puts what a field has into the object."""
Plan = dict[int, Put]
"""By tag."""


class MalformedError(Exception):
    """These bytes are no object."""


class UnknownKindError(Exception):
    """The object is of a kind that the table does not have."""

    def __init__(self, kind: str, api_version: str) -> None:
        super().__init__(f'no kind "{kind}" is registered for version "{api_version}"')
        self.kind = kind
        self.version = api_version.rpartition("/")[2]


def decode(body: bytes) -> JsonObject:
    """The object in a body. Raises MalformedError or UnknownKindError."""
    if not body.startswith(MAGIC):
        raise MalformedError
    try:
        envelope = _read_message(_ENVELOPE, body[len(MAGIC) :])
        kind, api_version = envelope.get("kind", ""), envelope.get("apiVersion", "")
        content = _read_message(_plan(_type_name(kind, api_version)), envelope.get("raw", b""))
        return {"kind": kind, "apiVersion": api_version, **content}
    except _FAULTS as fault:
        raise MalformedError from fault


def _type_name(kind: str, api_version: str) -> str:
    """Every group and version has DeleteOptions, and they are the same in all."""
    if kind == "DeleteOptions":
        return "meta.DeleteOptions"
    group, _, version = api_version.rpartition("/")
    name = type_of(KindSpec(group, version, "", kind))
    # The envelope says what a kind is. Other types that have a field `kind` say it of something else.
    if not is_type(name) or "kind" not in fields_of(name) or "kind" in places_of(name):
        raise UnknownKindError(kind, api_version)
    return name


# ---- bytes


def _read_message(plan: Plan, data: bytes) -> JsonObject:
    """A message as an object."""
    found: JsonObject = {}
    _fill(plan, found, data)
    return found


def _fill(plan: Plan, found: JsonObject, data: bytes) -> None:
    """Put all fields of a message into an object. Raises IndexError where the data end too early."""
    # Hot: a pod with one container, two probes and a volume is 100 fields, and is read in 50 µs. More than half of that
    # is this loop, so numbers of one byte, which nearly all are, are read here.
    at, end = 0, len(data)
    while at < end:
        tag, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
        form, put = tag & 7, plan.get(tag)
        if form == _LENGTH:
            length, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
            stop = at + length
            if stop > end:
                raise MalformedError
            if put is not None:
                put(found, data[at:stop])
            at = stop
        elif form == _VARINT:
            value, at = (data[at], at + 1) if data[at] < 0x80 else _varint(data, at)
            if put is not None:
                put(found, value)
        else:
            at += _FIXED_BYTES.get(form, end)  # no field of ours has a fixed size, but a newer client may send some
            if at > end or put is not None:
                raise MalformedError
        if tag < _FORMS:  # There is no field 0.
            raise MalformedError


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next byte is."""
    value = 0
    for i in range(_VARINT_BYTES):
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & _64_BITS, at + i + 1
    raise MalformedError


# ---- plain values


def _read_integer(value: int) -> int:
    """Negative numbers come as 64 bits in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def _read_base64(data: bytes) -> str:
    return b64encode(data).decode()


def _read_time(data: bytes) -> str | None:
    """A time in whole seconds; nothing if the message is empty, because Go writes a zero time as one."""
    found = _read_message(_TIMESTAMP, data)
    return in_seconds(found.get("seconds", 0) * NS_PER_S) if data else None


def _read_micro_time(data: bytes) -> str | None:
    found = _read_message(_TIMESTAMP, data)
    return in_micros(found.get("seconds", 0) * NS_PER_S + found.get("nanos", 0)) if data else None


def _read_quantity(data: bytes) -> str:
    """The text of a quantity."""
    text: str = _read_message(_QUANTITY, data).get("string", "0")
    return text


def _read_int_or_string(data: bytes) -> int | str:
    """Type 0 is a number, 1 a text."""
    found = _read_message(_INT_OR_STRING, data)
    value: int | str = found.get("strVal", "") if found.get("type") else found.get("intVal", 0)
    return value


def _read_json(data: bytes) -> Any:
    """JSON that came as text within the protobuf."""
    raw = _read_message(_RAW, data).get("raw")
    return msgspec.json.decode(raw) if raw else None


_READERS: dict[str, Reader] = {
    "string": bytes.decode,
    "integer": _read_integer,
    "boolean": bool,
    "time": _read_time,
    "micro-time": _read_micro_time,
    "quantity": _read_quantity,
    "int-or-string": _read_int_or_string,
    "fields-v1": _read_json,
    "object": _read_json,
}
"""By what a field holds."""
_DROPPED_IF_ZERO = ("string", "integer", "boolean")
"""Unless the table says otherwise. Of others, Go's JSON shows even what is empty."""


# ---- plans


_PLANS: dict[str, Plan] = {}
"""By type. A plan is here before it is filled, because a type may hold itself."""


def _plan(name: str) -> Plan:
    """How to read a type."""
    if name in _PLANS:
        return _PLANS[name]
    plans: dict[tuple[int, ...], Plan] = {(): _PLANS.setdefault(name, {})}
    fields = fields_of(name)
    for field, place in places_of(name).items():
        *way, number = place.numbers
        _add(_plan_at(plans, tuple(way)), number, *_putting(field, fields[field].holds, place))
    return plans[()]


def _plan_at(plans: dict[tuple[int, ...], Plan], way: tuple[int, ...]) -> Plan:
    """The plan of an inner message whose fields go into the outer object."""
    if way not in plans:
        plans[way] = {}
        _add(_plan_at(plans, way[:-1]), way[-1], _LENGTH, partial(_fill, plans[way]))
    return plans[way]


def _add(plan: Plan, number: int, form: int, put: Put) -> None:
    """Add a field to a plan. In any other form than `form` the field is malformed."""
    plan.update(dict.fromkeys(range(number << 3, (number << 3) + _FORMS), _refuse))
    plan[number << 3 | form] = put


def _refuse(found: JsonObject, value: Any) -> None:
    raise MalformedError


def _putting(field: str, holds: str, place: SchemaPlace) -> tuple[int, Put]:
    """The form in which a field comes, and the function that puts it into the object."""
    if is_map(holds):
        return _LENGTH, _entering(field, _reader(part_of(holds), place.is_bytes))
    if is_list(holds):
        return _form(part_of(holds)), _appending(field, _reader(part_of(holds), place.is_bytes))
    is_kept = place.keeps_zero or holds not in _DROPPED_IF_ZERO
    return _form(holds), _setting(field, _reader(holds, place.is_bytes), is_kept)


def _form(holds: str) -> int:
    """The wire type of a plain value."""
    return _VARINT if holds in ("integer", "boolean") else _LENGTH


def _reader(holds: str, is_bytes: bool = False) -> Reader:
    """How to read one value."""
    if is_type(holds):
        return partial(_read_message, _plan(holds))
    if is_list(holds):
        return _items_reader(part_of(holds))
    return _read_base64 if is_bytes else _READERS[holds]


def _items_reader(part: str) -> Reader:
    """The reader of a list in a map. Protobuf has a message with a list in it there, because it has no such lists."""
    plan = Plan()
    _add(plan, 1, _form(part), _appending("items", _reader(part)))
    return lambda data: _read_message(plan, data).get("items", [])


def _setting(field: str, read: Reader, keeps_zero: bool = False) -> Put:
    """Puts one value under a name; zeros only where they differ from nothing."""

    def put(found: JsonObject, raw: Any) -> None:
        value = read(raw)
        if value or (keeps_zero and value is not None):
            found[field] = value

    return put


def _appending(field: str, read: Reader) -> Put:
    """Adds one item to a list: protobuf repeats the field for each."""

    def put(found: JsonObject, raw: Any) -> None:
        found.setdefault(field, []).append(read(raw))

    return put


def _entering(field: str, read: Reader) -> Put:
    """A map comes as one message for each entry. None of the table's maps is to numbers."""
    plan = Plan()
    _add(plan, 1, _LENGTH, _setting("key", bytes.decode))
    _add(plan, 2, _LENGTH, _setting("value", read, keeps_zero=True))

    def put(found: JsonObject, data: bytes) -> None:
        entry = _read_message(plan, data)
        found.setdefault(field, {})[entry.get("key", "")] = entry["value"] if "value" in entry else read(b"")

    return put


# ---- messages that are not in the table


def _message(**fields: tuple[int, int, Reader]) -> Plan:
    """The plan of a message that the table does not have."""
    plan = Plan()
    for field, (number, form, read) in fields.items():
        _add(plan, number, form, _setting(field, read))
    return plan


_TYPE_META = _message(apiVersion=(1, _LENGTH, bytes.decode), kind=(2, _LENGTH, bytes.decode))
_ENVELOPE = _message(raw=(2, _LENGTH, bytes))
_add(_ENVELOPE, 1, _LENGTH, partial(_fill, _TYPE_META))
_TIMESTAMP = _message(seconds=(1, _VARINT, _read_integer), nanos=(2, _VARINT, _read_integer))
_QUANTITY = _message(string=(1, _LENGTH, bytes.decode))
_INT_OR_STRING = _message(type=(1, _VARINT, int), intVal=(2, _VARINT, _read_integer), strVal=(3, _LENGTH, bytes.decode))
_RAW = _message(raw=(1, _LENGTH, bytes))
