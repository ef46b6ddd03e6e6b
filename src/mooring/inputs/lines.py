"""The lines of fields in a file, for problems. Computed only after problems were found.

All wanted fields of a file form one tree, and one pass over the file fills in their lines: YAML event by event, JSON by
decoding only those objects that lead to a wanted field. So the work is linear in the text, and input without problems costs
nothing.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import yaml

from mooring.api.validation.problem import Problem
from mooring.inputs.documents import DocumentPlace, ManifestFile, bytes_of, is_json, json_pieces
from mooring.inputs.input_errors import InputError
from mooring.kit.yaml_reader import YamlFault, events_of, read_documents

Step = str | int
"""The name of a field or the index of an item."""

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_OBJECT = dict[str, msgspec.Raw]
_LIST = list[msgspec.Raw]


@dataclass(slots=True)
class _Wanted:
    """A node of the tree of wanted fields."""

    line: int = 0
    below: dict[Step, "_Wanted"] = field(default_factory=dict)

    def at(self, steps: Sequence[Step]) -> "_Wanted":
        wanted = self
        for step in steps:
            wanted = wanted.below.setdefault(step, _Wanted())
        return wanted

    def line_of(self, steps: Sequence[Step]) -> int:
        """The line of the field, or of the innermost value around it: a missing field has no line of its own."""
        wanted, line = self, self.line
        for step in steps:
            wanted = wanted.below[step]
            line = wanted.line or line
        return line


def lines_of(file: ManifestFile, fields: Sequence[tuple[DocumentPlace, str]]) -> list[int]:
    """The line of each field, given by the place of its object and its path; 0 if it is not found."""
    ways = [(*_to_object(place), *steps_of(path)) for place, path in fields]
    root = _Wanted()
    for way in ways:
        root.at(way)
    with suppress(
        yaml.YAMLError, msgspec.MsgspecError, ValueError, RecursionError
    ):  # the text is broken from some line on: what was found before counts
        if is_json(file):
            _find_in_json(file.text, root)
        else:
            _find_in_yaml(file.text, root)
    return [root.line_of(way) for way in ways]


def placed(file: ManifestFile, found: Sequence[tuple[DocumentPlace, Problem]]) -> list[Problem]:
    """The problems of a file with their lines. A problem that has a line already keeps it."""
    lines = lines_of(file, [(place, problem.path) for place, problem in found]) if found else []
    return [problem.on(problem.line or line) for (_, problem), line in zip(found, lines, strict=True)]


def steps_of(path: str) -> list[Step]:
    """`spec.containers[0].limits[example.com/gpu]` as steps."""
    return [
        plain or (int(within) if within.isdecimal() else within)
        for plain, within in (match.groups(default="") for match in _STEP.finditer(path))
    ]


def _to_object(place: DocumentPlace) -> Iterator[Step]:
    document, *items = place.numbers
    yield document
    for number in items:
        yield "items"
        yield number - 1


# ---- YAML


def _find_in_yaml(text: bytes, root: _Wanted) -> None:
    """One pass over the events of the text. Documents are the items of the root, counted from 1."""
    stack = [_Open(root, is_mapping=False, index=1)]
    for event in events_of(text):
        match event:
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                stack.append(_Open(stack[-1].meet(event), isinstance(event, yaml.MappingStartEvent)))
            case yaml.ScalarEvent() | yaml.AliasEvent():
                stack[-1].take(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                stack.pop()


@dataclass(slots=True)
class _Open:
    """An open mapping or sequence. `wanted` is None if no field in it is wanted."""

    wanted: _Wanted | None
    is_mapping: bool
    index: int = 0
    key: str | None = None
    key_line: int = 0

    def take(self, event: Any) -> None:
        """A key of the mapping, or a value that has no values in it."""
        if self.is_mapping and self.key is None:
            self.key, self.key_line = str(getattr(event, "value", "")), event.start_mark.line + 1
        else:
            self.meet(event)

    def meet(self, event: Any) -> _Wanted | None:
        """A value begins: if it is wanted, note its line, or that of its key. Of a repeated key the last one counts."""
        line: int = event.start_mark.line + 1
        step: Step | None = self.key if self.is_mapping else self.index
        if self.is_mapping:
            line, self.key = self.key_line or line, None
        self.index += 1
        found = self.wanted.below.get(step) if self.wanted is not None and step is not None else None
        if found is not None:
            found.line = line
        return found


# ---- JSON


def _find_in_json(text: bytes, root: _Wanted) -> None:
    """Find the line numbers of the wanted places in a JSON text. The offset of a part follows from its address in the memory
    of the text."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    start = _address(memoryview(text))
    for number, (_, piece) in enumerate(json_pieces(text), 1):
        if number in root.below:
            _descend(
                msgspec.Raw(piece),
                root.below[number],
                lambda raw: bisect_left(ends, _address(memoryview(raw)) - start) + 1,
            )


def _descend(raw: msgspec.Raw, wanted: _Wanted, line_at: Any) -> None:
    """Fill in the lines below a value. msgspec.Raw parts are views of the text, so their addresses give their offsets."""
    wanted.line = line_at(raw)
    if not wanted.below:
        return
    opening = bytes(memoryview(raw)[:1])
    if opening == b"{":
        parts: Any = msgspec.json.decode(raw, type=_OBJECT)
    elif opening == b"[":
        parts = dict(enumerate(msgspec.json.decode(raw, type=_LIST)))
    else:
        return
    for step, inner in wanted.below.items():
        if step in parts:
            _descend(parts[step], inner, line_at)


def _address(view: memoryview) -> int:
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


# ---- small YAML files of our own forms: arrivals, plans of loads, offers of nodes

DURATION_FORM = "seconds, or a duration such as 90s, 15m, 1h30m; up to ten years"
"""The forms that `parse_duration` takes, for problems."""


def read_own_file(path: str, max_bytes: int, remedy: str, error: type[InputError]) -> tuple[ManifestFile, Any]:
    """The file and its one document. Raises the error; `remedy` says what to do about a file that is larger."""
    file = ManifestFile(path, bytes_of(path, max_bytes, remedy, error))
    documents = documents_of(file, error)
    if not documents:
        raise error([Problem("", "the file has 0 documents; write one", file=path)])
    return file, documents[0]


def documents_of(file: ManifestFile, error: type[InputError]) -> list[Any]:
    """The one document of a file, or none if the file has no content. Raises the error."""
    try:
        documents = [document for document in read_documents(file.text) if document is not None]
    except YamlFault as fault:
        raise error([Problem(f"column {fault.column}", str(fault), file=file.name, line=fault.line)]) from fault
    if len(documents) > 1:
        raise error([Problem("", f"the file has {len(documents)} documents; write one", file=file.name)])
    return documents


def on_lines(file: ManifestFile, problems: Sequence[Problem], under: str = "") -> list[Problem]:
    """The problems with file and line. Paths may begin with `under` though the file leaves it out."""
    document = DocumentPlace(file.name, (1,))
    found = [
        lines_of(file, [(document, problem.path.removeprefix(prefix)) for problem in problems])
        for prefix in dict.fromkeys(("", under))
    ]
    lines = zip(*found, strict=True)
    return [
        problem if problem.line else problem.at(problem.where, file.name).on(max(each))
        for problem, each in zip(problems, lines, strict=True)
    ]
