"""`--validate`: unknown and repeated fields of manifests, with the meaning of `kubectl --validate`.

The schema and the search are those of the embedded API server (`api/schema/strict.py`); this module turns its findings
into Problems with suggestions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any, BinaryIO, get_args, get_origin

import msgspec

from mooring.api.fields import ANYTHING, type_of
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_KIND, kind_of
from mooring.api.schema.strict import FieldFault, field_faults, is_known
from mooring.api.schema.typed_values import has_conforming_spec
from mooring.api.structural_schema import Step
from mooring.api.validation.problem import Problem, Problems, at_key
from mooring.inputs.documents import Document, DocumentPlace, ManifestFile, gather, split
from mooring.inputs.lines import placed
from mooring.model.meta import Wire

_LONGEST_NAME = 64
"""No field name is longer. Comparing longer text with all names would take too long."""
_LIKENESS = 0.7
"""The similarity from which a name is suggested, as difflib measures it: `nodeSelectr` to `nodeSelector` has 0.96, `memroy`
to `memory` 0.83."""


class Validation(StrEnum):
    """The treatment of a manifest with unknown or repeated fields; the values are those of `kubectl --validate`."""

    STRICT = "strict"
    WARN = "warn"
    IGNORE = "ignore"


def check_fields(document: Document, was_admitted: bool) -> list[Problem]:
    """All unknown and repeated fields of a document.

    An object that an API server has admitted has no repeated fields, so its text is not searched for them.
    """
    resource, holds = _schema_of(document.kind, document.api_version)
    if resource is None or holds == ANYTHING:
        return [*_repeats(document)]  # custom resources, whose fields are not known
    if isinstance(document.body, msgspec.Raw):
        if was_admitted and _has_known_spec(resource, holds, document.body):
            return []
        try:
            faults = field_faults(resource, bytes(memoryview(document.body)))
        except (ValueError, RecursionError):  # in a part that nothing else reads
            return [Problem("", "the text is not UTF-8, or its nesting is too deep; correct it")]
    else:
        faults = field_faults(resource, document.body)
    return [*map(_problem, faults), *_repeats(document)]


def check_core_fields(kind: str, written: dict[str, Any]) -> list[Problem]:
    """The unknown fields of an object of the core API that stands in a file of our own."""
    return [*map(_problem, field_faults(BY_KIND["v1", kind], written))]


class _Spec(msgspec.Struct):
    """The part of a dumped object that people edit; the API server wrote metadata and status."""

    spec: dict[str, Any] | None = None


def _has_known_spec(resource: KindSpec, holds: str, body: msgspec.Raw) -> bool:
    """Hot: a dump of 20,000 pods (115 MB) is read in 1.9 s with this check, in 2.3 s with a check of all fields, and in
    1.5 s without any. The second look is for a spec that is known though the quick one does not pass it."""
    if has_conforming_spec(holds, body):
        return True
    try:
        spec = msgspec.json.decode(body, type=_Spec).spec
    except ValueError:
        return False
    return spec is not None and is_known(resource, {"spec": spec})


@lru_cache(maxsize=1024)  # bounded, because kinds are texts of the input
def _schema_of(kind: str, api_version: str) -> tuple[KindSpec | None, str]:
    """The newest version of a kind, since older versions that are read have no other fields, and the type of its fields.
    Kinds that no decision reads have one version."""
    known = kind_of(kind)
    resource = BY_KIND.get((known.api_versions[0] if known is not None else api_version, kind))
    return resource, ANYTHING if resource is None else type_of(resource)


def _repeats(document: Document) -> Iterator[Problem]:
    for repeat in document.repeats:
        yield Problem(path_of(repeat.way), _given_twice(str(repeat.way[-1])), line=repeat.line)


def _problem(fault: FieldFault) -> Problem:
    name = str(fault.way[-1])
    text = _unknown(name, fault.known) if fault.is_unknown else _given_twice(name)
    return Problem(path_of(fault.way), text)


def _given_twice(name: str) -> str:
    return f"duplicate field; remove all but one {name}"


def _unknown(name: str, known: Collection[str]) -> str:
    meant = nearest(name, known)
    return f"unknown field; did you mean {meant}?" if meant else "unknown field; remove it or correct its name"


def nearest(name: str, known: Collection[str]) -> str:
    """The most similar known name; empty if none is similar enough."""
    if len(name) > _LONGEST_NAME:
        return ""
    folded = {_fold(each): each for each in known}
    alike = get_close_matches(_fold(name), folded, n=1, cutoff=_LIKENESS)
    return folded[alike[0]] if alike else ""


def unknown_fields(written: Any, struct: type[Wire], path: str) -> Problems:
    """Problems of fields that a struct of a file of our own does not have, and of those in its parts: structs of its module.
    What is no object has no fields."""
    if not isinstance(written, Mapping):
        return
    known = struct.__struct_encode_fields__
    for key in written:
        if key not in known:
            meant = nearest(str(key), known)
            hint = f"did you mean {meant}?" if meant else f"the fields are {', '.join(known)}"
            yield Problem(at_key(path, str(key)), f"unknown field; {hint}")
    for each in msgspec.structs.fields(struct):
        name = each.encode_name
        for inner, kind, place in _structs_in(written.get(name), each.type, at_key(path, name)):
            if kind.__module__ == struct.__module__:
                yield from unknown_fields(inner, kind, place)


def _structs_in(value: Any, kind: Any, path: str) -> Iterator[tuple[Any, type[Wire], str]]:
    """The values in a field that should be structs: the value itself, or the items of a list."""
    if isinstance(kind, type) and issubclass(kind, Wire):
        yield value, kind, path
    elif get_origin(kind) is list:
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from _structs_in(item, get_args(kind)[0], f"{path}[{i}]")
    elif get_origin(kind) is not dict:
        for each in get_args(kind):  # of a type `X | None`
            yield from _structs_in(value, each, path)


def _fold(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def path_of(way: tuple[Step, ...]) -> str:
    """As messages write it: `spec.limits[example.com/gpu]`."""
    path = ""
    for step in way:
        path = f"{path}[{step}]" if isinstance(step, int) else at_key(path, step)
    return path


# ---- manifests for an API server, which defaults and validates them itself


@dataclass(slots=True)
class ServedObjects:
    """Objects as they are written, and the problems of their fields. Warnings do not prevent the use of the objects."""

    items: list[JsonObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def read_served(paths: Sequence[str], stdin: BinaryIO | None, validation: Validation) -> ServedObjects:
    """All objects of the files, and every problem with its line."""
    files, problems = gather(paths, stdin)
    read = ServedObjects(problems=problems)
    for file in files:
        for found in split(file, keeps_repeats=True):
            if isinstance(found, Document):
                _take(read, file, found, validation)
            else:
                read.problems.append(found)
    return read


def _take(read: ServedObjects, file: ManifestFile, document: Document, validation: Validation) -> None:
    """Add a document to the objects. Problems with its fields are errors only in strict validation, and only if no API server
    has admitted the object before; otherwise they are warnings."""
    try:
        item = {"apiVersion": document.api_version, "kind": document.kind} | document.plain()
    except ValueError:
        read.problems.append(document.place.problem("", "the text is not UTF-8: write JSON in UTF-8"))
        return
    read.items.append(item)
    if validation is Validation.IGNORE:
        return
    was_admitted = _was_admitted(item)
    found = field_problems(file, document, was_admitted)
    is_strict = validation is Validation.STRICT and not was_admitted
    (read.problems if is_strict else read.warnings).extend(found)


def _was_admitted(item: JsonObject) -> bool:
    """Whether an API server wrote the object; a field that is unknown here comes from a newer Kubernetes."""
    metadata = item.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid") and metadata.get("resourceVersion"))


def field_problems(file: ManifestFile, document: Document, was_admitted: bool = False) -> list[Problem]:
    """Unknown and repeated fields of a document, each with its line."""
    found = check_fields(document, was_admitted)
    return placed(file, [(document.place, problem.at(document.where(), file.name)) for problem in found])


def template_problems(file: ManifestFile, kind: str, body: JsonObject) -> list[Problem]:
    """Unknown and repeated fields of the only document of a file, which may leave out kind and apiVersion."""
    return field_problems(file, Document(DocumentPlace(file.name, (1,)), kind, "v1", body))
