"""Manifests for an API server, which defaults and validates them itself: objects as they are written, after a check of their
fields as `kubectl --validate` makes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from mooring.api.json_objects import JsonObject
from mooring.api.validation.problem import Problem
from mooring.inputs.documents import Document, DocumentPlace, ManifestFile, gather, split
from mooring.inputs.field_checks import Validation, check_fields
from mooring.inputs.lines import lines_of


@dataclass(slots=True)
class ServedObjects:
    """What was read. Warnings do not prevent the use of the objects."""

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
    found = [problem.at(document.where(), file.name) for problem in check_fields(document, was_admitted)]
    unplaced = [problem for problem in found if not problem.line]
    lines = lines_of(file, [(document.place, problem.path) for problem in unplaced]) if unplaced else []
    placed = {id(problem): line for problem, line in zip(unplaced, lines, strict=True)}
    return [problem.on(placed.get(id(problem), problem.line)) for problem in found]


def template_problems(file: ManifestFile, kind: str, body: JsonObject) -> list[Problem]:
    """The same for the only document of a file, which may leave out kind and apiVersion."""
    return field_problems(file, Document(DocumentPlace(file.name, (1,)), kind, "v1", body))
