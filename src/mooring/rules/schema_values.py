"""Values against structural schemas: defaults, and validation with kube-apiserver's texts.

Patterns are those of RE2 and run without backtracking. The work for one object is bounded: schemas and objects both come from
users.
"""

import copy
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.api.api_errors import (
    Cause,
    field_duplicate,
    field_invalid,
    field_required,
    field_too_long,
    field_too_many,
    field_unsupported,
    object_too_large,
)
from mooring.api.json_objects import MAX_OBJECT_BYTES
from mooring.api.structural_schema import Schema
from mooring.cel.budget import WORK, Exceeded
from mooring.cel.functions.amounts import is_base64
from mooring.cel.functions.networks import why_not_uri
from mooring.cel.functions.regex import compiled, matches
from mooring.cel.functions.times import read_duration, read_timestamp
from mooring.cel.values import Fault
from mooring.kit.shown_text import quoted
from mooring.model import names

ABSENT: Any = object()
"""Stands for an old value that is not there or that cannot be found: an item of a list without keys."""
MAX_STEPS = 1_000_000
"""The nodes of a schema that one object may be compared with: some seconds. A large real object takes some thousands."""
_STEPS_OF_PATTERNS = 8
"""So many steps of a search for a pattern count as one."""
MAX_FAULTS = 100
"""The faults of one object that are told: more help nobody, and each has its path."""


# ---- defaults


def fill_defaults(schema: Schema, value: Any) -> None:
    """Set the defaults of a schema in place. A null where none may be counts as missing. Raises 500 for an object that
    becomes too large: each of many small items may have a large default."""
    _Defaults().fill(schema, value)


@dataclass(slots=True)
class _Defaults:
    """Sets the defaults of one object."""

    left_bytes: int = MAX_OBJECT_BYTES
    _sizes: dict[int, int] = field(default_factory=dict)
    """The sizes of the defaults that were needed, by the identity of their nodes."""

    def fill(self, schema: Schema | None, value: Any) -> None:
        if schema is None:
            return
        if isinstance(value, list):
            for i, item in enumerate(value):
                if item is None and schema.items is not None and not schema.items.is_nullable:
                    value[i] = self._default(schema.items)
                self.fill(schema.items, value[i])
        elif isinstance(value, dict):
            for name in [name for name, inner in value.items() if inner is None and not _is_nullable(schema.at(name))]:
                del value[name]
            for name, part in schema.properties.items():
                if part.default is not None and name not in value:
                    value[name] = self._default(part)
            for name, inner in value.items():
                self.fill(schema.at(name), inner)

    def _default(self, schema: Schema) -> Any:
        size = self._sizes.get(id(schema))
        if size is None:
            size = self._sizes[id(schema)] = len(json.dumps(schema.default))
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise object_too_large()
        return copy.deepcopy(schema.default)


def _is_nullable(schema: Schema | None) -> bool:
    """Whether a null stays. What no schema describes stays as it is."""
    return schema is None or schema.is_nullable


# ---- formats


def _parses(read: Callable[[str], Any], *faults: type[Exception]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except faults:
            return False
        return True

    return check


def _matches(pattern: str) -> Callable[[str], bool]:
    """A pattern of ours, which Python's engine takes without backtracking much."""
    form = re.compile(pattern, re.ASCII | re.IGNORECASE)
    return lambda text: form.fullmatch(text) is not None


_HEX = "[0-9a-f]"
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "uri": lambda text: why_not_uri(text) is None,
    "email": _matches(r"[^@\s<>]{1,255}@[^@\s<>]{1,255}"),
    "hostname": _matches(r"[a-z0-9_]([a-z0-9_-]{0,62})(\.[a-z0-9_]([a-z0-9_-]{0,62})){0,126}\.?"),
    "ipv4": _parses(ipaddress.IPv4Address, ValueError),
    "ipv6": _parses(ipaddress.IPv6Address, ValueError),
    "cidr": lambda text: "/" in text and _parses(ipaddress.ip_interface, ValueError)(text),
    "mac": _matches(rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}(([:-]{_HEX}{{2}}){{2}}|([:-]{_HEX}{{2}}){{14}})?"),
    "uuid": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid3": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "hexcolor": _matches(rf"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "byte": is_base64,
    "date": lambda text: not isinstance(read_timestamp(f"{text}T00:00:00Z"), Fault),
    "duration": lambda text: not isinstance(read_duration(text), Fault),
    "datetime": lambda text: not isinstance(read_timestamp(text.upper()), Fault),
    "k8sshortname": lambda text: not names.dns_label_faults(text),
    "k8slongname": lambda text: not names.subdomain_faults(text),
}
"""By the name without dashes. The server accepts every text for any other format."""


# ---- validation


def pattern_fault(pattern: str) -> str:
    """The fault of a pattern; empty if it has none."""
    program = compiled(pattern)
    return program.text if isinstance(program, Fault) else ""


def validate_value(schema: Schema, value: Any, old: Any = ABSENT) -> list[Cause]:
    """The faults of an object. Parts that are as in `old` are not looked at, so that a stricter schema does not block updates
    of other parts (upstream: ratcheting)."""
    walk = _Validation()
    try:
        walk.validate(schema, value, old, "")
    except Exceeded:
        walk.faults.append(field_invalid("<nil>", "", "validation takes too many steps: use a simpler schema"))
    return walk.faults[:MAX_FAULTS]


_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def json_type(value: Any) -> str:
    """The name of the JSON type of a value, as messages have it."""
    return "null" if value is None else _JSON_TYPES[value.__class__]


def has_type(value: Any, wanted: str) -> bool:
    """Whether a value has a type of a schema. 1.0 is an integer, and an integer is a number."""
    found = json_type(value)
    if found == "number" and wanted == "integer":
        return bool(value.is_integer())
    return found == wanted or (found == "integer" and wanted == "number")


@dataclass(slots=True)
class _Validation:
    """The validation of one object: its faults, and the steps that are left."""

    faults: list[Cause] = field(default_factory=list)
    left: int = field(default_factory=lambda: MAX_STEPS)

    def validate(self, schema: Schema, value: Any, old: Any, path: str) -> None:
        """Add the faults of a value and of all in it. Raises Exceeded."""
        self.left -= 1
        if self.left < 0:
            raise Exceeded
        if (old is not ABSENT and old == value) or len(self.faults) > MAX_FAULTS:
            return
        if value is None and schema.is_nullable:
            return
        if schema.types and not any(has_type(value, wanted) for wanted in schema.types):
            self._tell_type(path, schema.types, value)
            return
        self._restrict(schema, value, path)
        self._join(schema, value, path)
        if isinstance(value, list):
            self._items(schema, value, old, path)
        elif isinstance(value, dict):
            self._fields(schema, value, old, path)

    def _tell_type(self, path: str, wanted: tuple[str, ...], value: Any) -> None:
        found = quoted(json_type(value))
        why = f"{_in_body(path)} must be of type {','.join(wanted)}: {found}"
        self.faults.append(Cause("FieldValueTypeInvalid", f"Invalid value: {found}: {why}", path or "<nil>"))

    def _fields(self, schema: Schema, value: dict[str, Any], old: Any, path: str) -> None:
        before = old if isinstance(old, dict) else {}
        if schema.is_resource and path:
            missing = [name for name in ("apiVersion", "kind") if not value.get(name)]
            self.faults += [field_required(f"{path}.{name}", "must not be empty") for name in missing]
        for name, inner in value.items():
            part = schema.at(name)
            if part is not None and not (schema.is_resource and name == "metadata" and not path):
                self.validate(part, inner, before.get(name, ABSENT), f"{path}.{name}" if path else name)

    def _items(self, schema: Schema, value: list[Any], old: Any, path: str) -> None:
        if schema.list_keys is not None:
            self.faults += _repeats(schema, value, path)
        if schema.items is None:
            return
        before = items_by_key(schema, old)
        for i, item in enumerate(value):
            self.validate(schema.items, item, before.get(key_of(schema, item), ABSENT), f"{path}[{i}]")

    # ---- one value

    def _restrict(self, schema: Schema, value: Any, path: str) -> None:
        """The restrictions of one node on the value itself."""
        written = schema.written
        enum = written.get("enum")
        if enum is not None and not any(_same(value, allowed) for allowed in enum):
            known = [entry if isinstance(entry, str) else json.dumps(entry) for entry in enum]
            self.faults.append(field_unsupported(path, value, known))
        if isinstance(value, str):
            self.faults += _text_faults(written, value, path)
            self._match(written.get("pattern"), value, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self.faults += _number_faults(written, value, path)
        elif isinstance(value, list | dict):
            self.faults += _size_faults(written, value, path)

    def _match(self, pattern: str | None, text: str, path: str) -> None:
        """Search a pattern, of which each step counts. Raises Exceeded."""
        if not pattern:
            return
        WORK.begin()
        if matches(text, pattern) is not True:
            self.faults.append(field_invalid(path, text, f"{_in_body(path)} should match '{pattern}'"))
        self.left -= WORK.spent // _STEPS_OF_PATTERNS

    # ---- junctors

    def _join(self, schema: Schema, value: Any, path: str) -> None:
        name, told = quoted(path), []
        for part in schema.all_of:
            self.validate(part, value, ABSENT, path)
        if schema.any_of and not any(self._fits(part, value, path) for part in schema.any_of):
            told.append(f"{name} must validate at least one schema (anyOf)")
        if schema.one_of:
            count = sum(self._fits(part, value, path) for part in schema.one_of)
            found = "Found none valid" if not count else f"Found {count} valid alternatives"
            if count != 1:
                told.append(f"{name} must validate one and only one schema (oneOf). {found}")
        if schema.negated is not None and self._fits(schema.negated, value, path):
            told.append(f"{name} must not validate the schema (not)")
        self.faults += [field_invalid("<nil>", "", why) for why in told]

    def _fits(self, schema: Schema, value: Any, path: str) -> bool:
        """Whether a value has no fault by a node of a junctor."""
        inner = _Validation(left=self.left)
        inner.validate(schema, value, ABSENT, path)
        self.left = inner.left
        return not inner.faults


def _in_body(path: str) -> str:
    return f"{path} in body" if path else " in body"


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _text_faults(written: Mapping[str, Any], text: str, path: str) -> Iterator[Cause]:
    if len(text) > written.get("maxLength", len(text)):
        yield field_too_long(path, written["maxLength"])
    if len(text) < written.get("minLength", 0):
        yield field_invalid(path, text, f"{_in_body(path)} should be at least {written['minLength']} chars long")
    check = FORMATS.get(str(written.get("format", "")).replace("-", ""))
    if check is not None and not check(text):
        why = f"{_in_body(path)} must be of type {written['format']}: {quoted(text)}"
        yield Cause("FieldValueTypeInvalid", f"Invalid value: {quoted(text)}: {why}", path)


def _number_faults(written: Mapping[str, Any], number: int | float, path: str) -> Iterator[Cause]:
    least, most, step = written.get("minimum"), written.get("maximum"), written.get("multipleOf")
    why = ""
    if most is not None and written.get("exclusiveMaximum") and number >= most:
        why = f"should be less than {_number(most)}"
    elif most is not None and number > most:
        why = f"should be less than or equal to {_number(most)}"
    elif least is not None and written.get("exclusiveMinimum") and number <= least:
        why = f"should be greater than {_number(least)}"
    elif least is not None and number < least:
        why = f"should be greater than or equal to {_number(least)}"
    if why:
        yield field_invalid(path, number, f"{_in_body(path)} {why}")
    if step and abs(number / step - round(number / step)) > 1e-9:
        yield field_invalid(path, number, f"{_in_body(path)} should be a multiple of {_number(step)}")


def _number(value: int | float) -> str:
    """A number as Go prints it."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else str(value)


def _size_faults(written: Mapping[str, Any], value: list[Any] | dict[str, Any], path: str) -> Iterator[Cause]:
    """Lengths of lists and maps, and fields that must be there."""
    most_key, least_key, what = ("maxItems", "minItems", "items")
    if isinstance(value, dict):
        most_key, least_key, what = ("maxProperties", "minProperties", "properties")
        for name in written.get("required", ()):
            if name not in value:
                yield field_required(f"{path}.{name}" if path else name)
    if len(value) > written.get(most_key, len(value)):
        yield field_too_many(path, str(len(value)), f"must have at most {written[most_key]} items")
    if len(value) < written.get(least_key, 0):
        yield field_invalid(path, len(value), f"{_in_body(path)} should have at least {written[least_key]} {what}")


# ---- lists with keys


def key_of(schema: Schema, item: Any) -> Any:
    """By which an item of a list with keys is told from others; ABSENT for an item of any other list."""
    keys = schema.list_keys
    if not keys or not isinstance(item, dict) or schema.items is None:
        return ABSENT
    parts = schema.items.properties
    found = {key: item.get(key, parts[key].default if key in parts else None) for key in keys}
    return json.dumps(found, sort_keys=True)


def items_by_key(schema: Schema, old: Any) -> dict[Any, Any]:
    """The items of an old list that new ones can be compared with."""
    return {key_of(schema, item): item for item in old} if schema.list_keys and isinstance(old, list) else {}


def _repeats(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    """Items of a set, or with the same keys, that are there twice. Each is told once."""
    seen: dict[Any, int] = {}
    for i, item in enumerate(value):
        key = key_of(schema, item) if schema.list_keys else json.dumps(item, sort_keys=True)
        if key is ABSENT:
            continue
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            yield field_duplicate(f"{path}[{i}]", json.loads(key))
