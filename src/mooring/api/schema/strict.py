"""Unknown fields and fields that are given twice: what `fieldValidation` refuses or warns of.

| how the body came      | given twice         | unknown                                | refused with   |
| JSON object            | `told_faults` has both, in the order of the body             | `strict_error` |
| YAML object            | `yaml_duplicates`   | `told_faults`, sorted                  | `strict_error` |
| merge, strategic merge | `duplicates`        | `told_faults` of the result, sorted    | `patch_error`  |
| JSON patch             | `json_patch_faults` | `told_faults` of the result, sorted    | `patch_error`  |
| server-side apply      | `yaml_duplicates`   | `undeclared`, whatever was asked       | `apply_error`  |

Warnings of them are `warning_headers`. All of these walk the object; callers first ask `typed_values.conforms` and
`has_repeats`, which are quick and settle nearly every body.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from mooring.api.api_errors import ApiError, Cause, bad_request, invalid, unexplained
from mooring.api.fields import Field, Fields, fields_of, is_list, is_map, is_type, part_of, type_of
from mooring.api.json_objects import JsonObject, metadata_of
from mooring.api.kind_spec import KindSpec
from mooring.api.patches.merge_keys import MergePlace, path_text, root_place
from mooring.api.schema.typed_values import conforms
from mooring.api.structural_schema import Link, Step, known_part
from mooring.kit.shown_text import quoted, shown
from mooring.kit.yaml_reader import repeated_keys

_MOST_FAULTS = 100
"""Parity: the server reports no more faults of one body."""
_MOST_CHARS = 256 * 1024
"""Parity: the server reports no more faults after so much text."""
_WARNED_CHARS, _SHORT_CHARS = 4096, 256
"""Parity: warnings that are longer than this altogether are cut, each to the second length."""

_UNTYPED = "untyped"
"""Holds anything, and what is given twice in it counts; in an `object` of the table it does not."""
_OPERATION = "patch.Operation"
"""One line of a JSON patch, which is no type of the table."""
_OPERATION_FIELDS: Fields = {
    **{name: Field("string", True) for name in ("op", "path", "from")},
    "value": Field(_UNTYPED, False),
}
_TWICE = 2
"""A key is reported when it comes for the second time."""
_encode = msgspec.json.Encoder().encode


class FieldFault(NamedTuple):
    """A field that its type does not have, or that is there a second time."""

    link: Link
    is_unknown: bool
    known: Collection[str] = ()
    """The fields that the type has, if this one is unknown."""

    @property
    def way(self) -> tuple[Step, ...]:
        """The steps from the object to the field."""
        return _steps(self.link)

    def __str__(self) -> str:
        return f"{'unknown' if self.is_unknown else 'duplicate'} field {quoted(_path(self.way))}"


# ---- finding


def field_faults(resource: KindSpec, body: JsonObject | bytes) -> list[FieldFault]:
    """All faults of an object that is decoded, or of its JSON text. Only text still has what is given twice."""
    item = msgspec.json.decode(body) if isinstance(body, bytes) else body
    if is_known(resource, item) and not (isinstance(body, bytes) and has_repeats(body, item)):
        return []
    return list(islice(_faults_of(resource, body), _MOST_FAULTS))


def told_faults(resource: KindSpec, body: JsonObject | bytes) -> list[str]:
    """All faults of an object that is decoded, or of its JSON text, in their order, as texts. Parity: of a patched object, or
    of one that was YAML, callers sort them."""
    return _told(map(str, _faults_of(resource, body)))


def duplicates(body: bytes) -> list[str]:
    """The fields that a JSON body gives twice, whatever its type, in the order of the body."""
    if not has_repeats(body, msgspec.json.decode(body)):
        return []
    return _told(map(str, _faults(_with_repeats(body), _UNTYPED)))


def json_patch_faults(body: bytes) -> list[str]:
    """Faults of the operations of a JSON patch, not of what they lead to."""
    faults = _faults(_with_repeats(body), f"[{_OPERATION}]")
    return [f"json patch {fault}" for fault in _told(map(str, faults))]


def yaml_duplicates(text: bytes) -> list[str]:
    """The keys that YAML gives twice, by line, in the words of Go's decoder."""
    with suppress(msgspec.DecodeError, RecursionError):
        # The content type of an applied object is YAML, but most clients send JSON, which is read much faster.
        if not has_repeats(text, msgspec.json.decode(text)):
            return []
    return [
        f"line {repeat.value_line}: key {quoted(str(repeat.way[-1]))} already set in map"
        for repeat in repeated_keys(text)
    ]


# ---- telling


def strict_error(resource: KindSpec, faults: Iterable[str], yaml_lines: Sequence[str] = ()) -> ApiError:
    """The refusal of an object; what its YAML has twice comes first."""
    told = _strict_text([*_yaml_text(yaml_lines), *faults])
    kind = resource.kind
    return bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {told}')


def patch_error(shown: str, faults: Iterable[str]) -> ApiError:
    """The refusal of a patch. `shown` is the patched object in JSON, or a strategic merge patch as Go prints maps."""
    message = f"Invalid value: {quoted(shown)}: {_strict_text(faults)}"
    return invalid("", "", [Cause("FieldValueInvalid", message, "patch")])


def apply_error(yaml_lines: Sequence[str]) -> ApiError:
    """The refusal of a server-side apply that has fields twice."""
    told = "".join(_yaml_text(yaml_lines))
    return bad_request(f"error strict decoding YAML: error converting YAML to JSON: {told}")


def warning_headers(texts: Sequence[str]) -> list[str]:
    """The values of the Warning headers that tell this."""
    if sum(map(len, texts)) <= _WARNED_CHARS:
        return [_warning_header(text) for text in texts]
    headers, written_chars = [], 0
    for text in texts:
        if written_chars >= _WARNED_CHARS:
            break
        headers.append(_warning_header(text[:_SHORT_CHARS]))
        written_chars += len(text[:_SHORT_CHARS])
    return headers


def _warning_header(text: str) -> str:
    """`299 - "unknown field \\"spec.foo\\""`. A line end would end the header, and Go sends a space instead."""
    escaped = shown(" ".join(text.splitlines())).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _strict_text(faults: Iterable[str]) -> str:
    return f"strict decoding error: {', '.join(faults)}"


def _yaml_text(lines: Sequence[str]) -> list[str]:
    return ["\n  ".join(("yaml: unmarshal errors:", *lines))] if lines else []


def _told(faults: Iterable[str]) -> list[str]:
    """The first faults, each once. Where their paths are long there are fewer: at most _MOST_CHARS of text."""
    told: dict[str, None] = {}
    shown_chars = 0
    for fault in faults:
        shown_chars += 0 if fault in told else len(fault)
        told[fault] = None
        if len(told) == _MOST_FAULTS or shown_chars > _MOST_CHARS:
            break
    return list(told)


# ---- whether there is anything to find


def is_known(resource: KindSpec, item: JsonObject) -> bool:
    """Whether all fields of an object are fields of its kind. A value of the wrong form has none: others refuse it."""
    name = type_of(resource)
    is_quick = resource.schema is None and conforms(name, item)
    return is_quick or next(iter(_faults_of(resource, item)), None) is None


def has_repeats(body: bytes, data: Any) -> bool:
    """Whether JSON text has a key twice in one object; `data` is what it was decoded to, with the last of each only.

    Hot: a key has two quotes, so text without repeats has as many quotes as its data, and both are counted in C.
    """
    return _quotes(body) != _quotes(_encode(data))


def _quotes(text: bytes) -> int:
    """How many quotes open or close a string: those that are not escaped. Backslashes that are escaped go first."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"").count(b'"')


# ---- all there is to find


class _Pairs(list[tuple[str, Any]]):
    """An object with all that it was given, in order."""

    def items(self) -> "_Pairs":
        return self


def _with_repeats(body: bytes) -> Any:
    return json.loads(body, object_pairs_hook=_Pairs)


def _faults_of(resource: KindSpec, body: JsonObject | bytes) -> Iterable[FieldFault]:
    """The faults of an object of a kind, by the table of fields or by the schema of the kind."""
    value = _with_repeats(body) if isinstance(body, bytes) else body
    if resource.schema is None:
        return _faults(value, type_of(resource))
    item = msgspec.json.decode(body) if isinstance(body, bytes) else body
    unknown: list[Link] = []
    known_part(resource.schema, item, unknown)
    repeats = _faults(value, _UNTYPED) if isinstance(body, bytes) else ()
    in_metadata = _faults(item.get("metadata"), "meta.ObjectMeta", (None, "metadata"))
    return chain((FieldFault(link, True) for link in unknown), in_metadata, repeats)


def _faults(value: Any, holds: str, link: Link = None) -> Iterator[FieldFault]:
    """The faults of a value of that form, in the order of the text. A value of another form has no fields: others refuse
    it."""
    if isinstance(value, dict | _Pairs):
        if is_type(holds):
            yield from _faults_in_entries(
                value, _OPERATION_FIELDS if holds == _OPERATION else fields_of(holds), "", link
            )
        elif is_map(holds) or holds == _UNTYPED:
            yield from _faults_in_entries(value, None, part_of(holds) if is_map(holds) else _UNTYPED, link)
    elif isinstance(value, list) and (is_list(holds) or holds == _UNTYPED):
        part = part_of(holds) if is_list(holds) else _UNTYPED
        for i, item in enumerate(value):
            yield from _faults(item, part, (link, i))


def _faults_in_entries(value: JsonObject | _Pairs, known: Fields | None, part: str, link: Link) -> Iterator[FieldFault]:
    """The faults of an object with known fields, or, where `known` is None, of a map whose values all hold `part`.

    An unknown field is reported once, however often it is given, and so is one that is given twice or more.
    """
    seen: dict[str, int] = {}
    for name, inner in value.items():
        place = (link, name)
        seen[name] = seen.get(name, 0) + 1
        if known is not None and name not in known:
            if seen[name] == 1:
                yield FieldFault(place, True, known)
            continue
        if seen[name] == _TWICE:
            yield FieldFault(place, False)
        yield from _faults(inner, part if known is None else known[name].holds, place)


def _steps(link: Link) -> tuple[Step, ...]:
    """The steps from the object to the field."""
    steps: list[Step] = []
    while link is not None:
        link, step = link
        steps.append(step)
    return tuple(reversed(steps))


def _path(way: Iterable[Step]) -> str:
    """`spec.containers[0].image`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way).removeprefix(".")


# ---- server-side apply


def undeclared(resource: KindSpec, item: JsonObject) -> ApiError:
    """The refusal of what is applied with unknown fields. Parity: an error of the server, and never a warning."""
    if resource.schema is None:
        paths = _undeclared(item, root_place(resource.kind, resource.api_version), None)
        places = ("".join(map(str, _steps(path))) for path in paths)
    else:
        places = (f".{_path(fault.way)}" for fault in _faults_of(resource, item))
    found = _told(f"{place}: field not declared in schema" for place in places)
    told = found[0] if len(found) == 1 else "\n  ".join(("errors:", *found))
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    name = f"{metadata_of(item).get('namespace', '')}/{metadata_of(item).get('name', '')}"
    return unexplained(f"failed to create typed patch object ({name}; {kind}): {told}")


def _undeclared(value: Any, place: MergePlace, path: Link) -> Iterator[Link]:
    """The way to each unknown field, its steps as text. Items of lists are named by their merge key, or by number."""
    holds = place.holds
    if isinstance(value, list) and is_list(holds):
        for i, item in enumerate(value):
            key = place.key(item) if place.is_keyed else None
            item_path = path_text((key,)) if key else f"[{i}]"
            yield from _undeclared(item, place.inside(""), (path, item_path))
    elif isinstance(value, dict) and (is_map(holds) or is_type(holds)):
        known = fields_of(holds) if is_type(holds) else value
        for name, inner in value.items():
            if name in known:
                yield from _undeclared(inner, place.at(name), (path, f".{name}"))
            else:
                yield (path, f".{name}")
