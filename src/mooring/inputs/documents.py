"""From paths to single Kubernetes documents: files, folders and standard input; YAML or JSON; lists taken apart.

A document of JSON stays text until its kind is known: most of a large dump is decoded once, directly into its struct.
"""

import codecs
import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from mooring.api.kinds import kind_of
from mooring.api.validation.problem import NOTHING_THERE, Problem, show
from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import (
    GZIP_SUFFIX,
    TOO_MANY_VALUES,
    BadGzip,
    Bomb,
    gunzipped,
    has_too_many_values,
    is_gzip,
    read_file,
    read_stream,
)
from mooring.kit.yaml_reader import Repeat, YamlFault, read_documents

# ---- files


MAX_BYTES = 1 << 30
"""The limit for all input together: a dump of 20,000 pods has 115 MB."""
_PLAIN_SUFFIXES = (".yaml", ".yml", ".json")
SUFFIXES = (*_PLAIN_SUFFIXES, *(f"{suffix}{GZIP_SUFFIX}" for suffix in _PLAIN_SUFFIXES))
STDIN = "-"
STDIN_NAME = "standard input"
_NO_MANIFEST = (
    f"the folder has no manifest; manifests are {', '.join(f'*{suffix}' for suffix in _PLAIN_SUFFIXES)}, "
    f"and those with {GZIP_SUFFIX} at the end"
)
_EMPTY = "{} is empty, or has only comments"
_NOTHING = re.compile(rb"(?:\s++|#[^\n]*+|(?:---|\.\.\.)(?=\s|\Z))*+")
"""Text without any document. Possessive, so that it takes one pass whatever the text is."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file that was read."""

    name: str
    text: bytes
    """UTF-8, if the file is text; decompressed."""


def bytes_of(path: str, max_bytes: int, remedy: str, error: type[InputError]) -> bytes:
    """One file without its byte order mark. Raises the error if it cannot be read, or is larger; `remedy` says what to do."""
    try:
        text = read_file(path, max_bytes).removeprefix(codecs.BOM_UTF8)
    except (OSError, ValueError) as fault:  # a path with a NUL in it is a ValueError
        if isinstance(fault, OSError) and fault.errno == errno.EFBIG:
            raise error([Problem("", f"the file has more than {max_bytes} bytes; {remedy}", file=path)]) from fault
        reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
        raise error([Problem("", f"cannot be read: {reason}", file=path)]) from fault
    if is_empty(text):
        raise error([Problem("", _EMPTY.format("the file"), file=path)])
    return text


def is_empty(text: bytes) -> bool:
    """Whether a file has no document: nothing at all, or only comments and separators. A List without items is one."""
    return _NOTHING.fullmatch(text) is not None


def gather(
    paths: Sequence[str], stdin: BinaryIO | None, max_bytes: int = MAX_BYTES
) -> tuple[list[ManifestFile], list[Problem]]:
    """The files of the paths in their order, those of a folder sorted by path, and a problem for each that cannot be read."""
    files: list[ManifestFile] = []
    problems: list[Problem] = []
    left = max_bytes
    for path in paths:
        read: list[ManifestFile] = []
        for found in _expand(path):
            raw = found if isinstance(found, Problem) else _read(found, stdin, left, max_bytes)
            if isinstance(raw, Problem):
                problems.append(raw)
            else:
                left -= len(raw)
                read.append(ManifestFile(_shown(str(found)), _to_utf8(raw)))
        if read and all(is_empty(file.text) for file in read):
            what = "the input" if path == STDIN else "every file of the folder" if len(read) > 1 else "the file"
            problems.append(Problem("", _EMPTY.format(what), file=_shown(path if len(read) > 1 else read[0].name)))
        files += read
    return files, problems


def _expand(path: str) -> list[str | Problem]:
    """The files of a path: the path itself, or the manifests in a folder."""
    if path == STDIN or not os.path.isdir(path):
        return [path]
    below = sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.lower().endswith(SUFFIXES)
    )
    return [*below] or [Problem("", _NO_MANIFEST, file=_shown(path))]


def _read(path: str, stdin: BinaryIO | None, left: int, max_bytes: int) -> bytes | Problem:
    """The bytes of a file, decompressed, or the problem."""
    problem = ""
    try:
        raw = _content(path, stdin, left)
        if is_gzip(raw):
            raw = gunzipped(raw, left)
        if len(raw) <= left and not has_too_many_values(raw):
            return raw
        problem = TOO_MANY_VALUES if len(raw) <= left else ""
    except BadGzip as error:
        problem = str(error)
    except Bomb as error:
        problem = f"{error}; no manifest does: decompress the file and look what it holds"
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        problem = "" if getattr(error, "errno", None) == errno.EFBIG else f"cannot be read: {reason}"
    beyond = f"all input together has more than {max_bytes} bytes; give fewer files"
    return Problem("", problem or beyond, file=_shown(path))


def _content(path: str, stdin: BinaryIO | None, max_bytes: int) -> bytes:
    if path != STDIN:
        return read_file(path, max_bytes)
    return read_stream(stdin, max_bytes, path) if stdin is not None else b""


def _to_utf8(raw: bytes) -> bytes:
    """The text without a byte order mark. PowerShell redirects output as UTF-16."""
    if raw.startswith(_UTF16):
        return raw.decode("utf-16", errors="replace").encode()
    return raw.removeprefix(codecs.BOM_UTF8)


def _shown(path: str) -> str:
    """A file name that can be printed, whatever bytes it has."""
    return STDIN_NAME if path == STDIN else path.encode("utf-8", "backslashreplace").decode()


OnPosition = Callable[[int], None]

MAX_REPEATS = 100
"""How many repeated keys of one document are reported: as many as the API server reports."""
_MAX_LIST_DEPTH = 8
"""How deep lists may contain lists; `kubectl` writes one level."""
_WORTH_A_SECOND_LOOK = 1 << 20
"""Text up to this size that opens like JSON and is not is read as YAML; for a truncated dump that would take minutes."""
_OPENS_LIKE_JSON = re.compile(rb"\s*[{\[]")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_BYTE = re.compile(r" ?\(byte (\d+)\)")


class DocumentPlace(msgspec.Struct, frozen=True, gc=False):
    """Where a document is in the input."""

    file: str
    numbers: tuple[int, ...]
    """The number of the document in its file; then the number of the item for each list around it. All count from 1."""

    @property
    def label(self) -> str:
        """`document 1, item 7`."""
        document, *items = self.numbers
        return ", ".join((f"document {document}", *(f"item {number}" for number in items)))

    def item(self, number: int) -> "DocumentPlace":
        return DocumentPlace(self.file, (*self.numbers, number))

    def problem(self, path: str, found: str, allowed: str = "") -> "PlacedProblem":
        return PlacedProblem(path, found, allowed, self.label, self.file, place=self)


@dataclass(frozen=True, slots=True)
class PlacedProblem(Problem):
    """A problem of something that is not a readable document."""

    place: DocumentPlace | None = None
    """None if the text does not parse: then the line is known already."""


class Document(msgspec.Struct, frozen=True):
    """One object as it is written in the file. Hot: a struct is made in a third of the time of a dataclass."""

    place: DocumentPlace
    kind: str
    api_version: str
    body: dict[str, Any] | msgspec.Raw
    repeats: Sequence[Repeat] = ()
    """Repeated keys of YAML. For JSON they are found in the text when it is checked."""

    def plain(self) -> dict[str, Any]:
        """The body as plain data. Raises ValueError for JSON whose strings are not UTF-8."""
        return msgspec.json.decode(self.body, type=dict[str, Any]) if isinstance(self.body, msgspec.Raw) else self.body

    def where(self) -> str:
        """The object in messages: `Pod default/web`."""
        return f"{self.kind} {self._key() or 'in ' + self.place.label}"

    def _key(self) -> str:
        """`namespace/name` as far as the document has it; empty if it has no name."""
        try:
            metadata = self.plain().get("metadata")
        except ValueError:
            return ""
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
            return ""
        kind = kind_of(self.kind)
        if kind is not None and not kind.namespaced:
            return name
        namespace = metadata.get("namespace")
        return f"{namespace if isinstance(namespace, str) and namespace else 'default'}/{name}"


Found = Iterator[Document | PlacedProblem]


class _Envelope(msgspec.Struct, rename="camel"):
    """The fields that say what a JSON document is; msgspec skips the rest without decoding it."""

    kind: Any = None
    api_version: Any = None
    items: list[msgspec.Raw] | None = None


_envelope = msgspec.json.Decoder(_Envelope)


class JsonFault(ValueError):
    """Text that is not JSON; `line` and `column` count from 1."""

    def __init__(self, text: bytes, position: int, reason: str) -> None:
        super().__init__(f"the text does not parse ({reason})")
        self.line = text.count(b"\n", 0, position) + 1
        self.column = position - text.rfind(b"\n", 0, position)


def split(file: ManifestFile, on_position: OnPosition | None = None, keeps_repeats: bool = False) -> Found:
    """All documents of a file, and a problem for each part that is not one. A syntax error ends the file.

    A repeated key in YAML is a syntax error unless `keeps_repeats`; then the documents have their repeats.
    """
    report = on_position or (lambda position: None)
    try:
        yield from _split_json(file, report) if is_json(file) else _split_yaml(file, report, keeps_repeats)
    except (YamlFault, JsonFault) as fault:
        yield PlacedProblem(f"column {fault.column}", str(fault), file=file.name, line=fault.line)


def is_json(file: ManifestFile) -> bool:
    """Whether to read the file as JSON. `{a: b}` opens like JSON and is YAML."""
    if not _OPENS_LIKE_JSON.match(file.text):
        return False
    if file.name.lower().removesuffix(GZIP_SUFFIX).endswith(".json") or len(file.text) > _WORTH_A_SECOND_LOOK:
        return True
    try:
        return bool([*json_pieces(file.text)])
    except JsonFault:
        return False


def json_pieces(text: bytes) -> Iterator[tuple[int, memoryview]]:
    """(offset, text) of each JSON value: `kubectl` writes one, `jq` several without separators."""
    start, view = 0, memoryview(text)
    while start < len(text):
        end = len(text)
        try:
            msgspec.json.decode(view[start:], type=msgspec.Raw)
        except RecursionError:
            raise JsonFault(text, start, "the nesting is too deep") from None
        except msgspec.DecodeError as error:
            trailing, byte = _TRAILING.search(str(error)), _BYTE.search(str(error))
            if trailing is None:
                reason = _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
                raise JsonFault(text, start + int(byte[1]) if byte else end, reason) from None
            end = start + int(trailing[1]) - 1  # msgspec names the first byte after the value, counted from 1
        yield start, view[start:end]
        start = end


def _split_yaml(file: ManifestFile, report: OnPosition, keeps_repeats: bool) -> Found:
    """The documents of a YAML file; empty documents are skipped but counted."""
    repeats: list[Repeat] = []

    def keep(repeat: Repeat) -> None:
        if len(repeats) < MAX_REPEATS:
            repeats.append(repeat)

    on_repeat = keep if keeps_repeats else None
    for number, data in enumerate(read_documents(file.text, report, on_repeat), 1):
        of_document, repeats[:] = [*repeats], []
        if data is None:
            continue
        for found in _unpack(DocumentPlace(file.name, (number,)), data):
            if isinstance(found, Document) and of_document:
                yield msgspec.structs.replace(found, repeats=_inside(found.place, of_document))
            else:
                yield found


def _inside(place: DocumentPlace, repeats: Sequence[Repeat]) -> Sequence[Repeat]:
    """The repeats inside a document, with paths from it: the document may be an item of a list."""
    way = tuple(step for number in place.numbers[1:] for step in ("items", number - 1))
    return [repeat._replace(way=repeat.way[len(way) :]) for repeat in repeats if repeat.way[: len(way)] == way]


def _split_json(file: ManifestFile, report: OnPosition) -> Found:
    """The documents of a JSON file; progress is reported after each item of a list."""
    for number, (start, piece) in enumerate(json_pieces(file.text), 1):
        read = start
        for found in _unpack(DocumentPlace(file.name, (number,)), msgspec.Raw(piece)):
            yield found
            if isinstance(found, Document) and isinstance(found.body, msgspec.Raw):
                read += len(memoryview(found.body))
                report(read)


def _unpack(
    place: DocumentPlace, body: Any, kind: str = "", api_version: str = "", depth: int = 0
) -> Iterable[Document | PlacedProblem]:
    """A document, or the items of a list. Items of a typed list (`PodList`) inherit its kind."""
    try:
        written_kind, written_version, items = _peek(body)
    except (ValueError, RecursionError):
        return (place.problem("", "the document cannot be decoded: write JSON in UTF-8"),)
    except TypeError:
        shown = show(msgspec.json.decode(body) if isinstance(body, msgspec.Raw) else body)
        return (place.problem("", shown, "an object with kind and apiVersion"),)
    kind, api_version = written_kind or kind, written_version or api_version
    if not (isinstance(kind, str) and kind and isinstance(api_version, str) and api_version):
        return _header_problems(place, kind, api_version)
    if kind.endswith("List") and (kind == "List" or items is not None):
        return _unpack_list(place, items or [], kind.removesuffix("List"), api_version, depth)
    return (Document(place, kind, api_version, body),)


def _peek(body: Any) -> tuple[Any, Any, Any]:
    """kind, apiVersion and items. Raises TypeError if the body is not an object."""
    if isinstance(body, msgspec.Raw):
        try:
            envelope = _envelope.decode(body)
        except msgspec.ValidationError:
            return _peek(msgspec.json.decode(body))
        return envelope.kind, envelope.api_version, envelope.items
    if not isinstance(body, dict):
        raise TypeError
    return body.get("kind"), body.get("apiVersion"), body.get("items")


def _header_problems(place: DocumentPlace, kind: Any, api_version: Any) -> Iterator[PlacedProblem]:
    examples = (("kind", kind, "a kind, such as Pod"), ("apiVersion", api_version, "a version, such as v1"))
    for path, value, allowed in examples:
        if not isinstance(value, str) or not value:
            yield place.problem(path, show(value) if value else NOTHING_THERE, allowed)


def _unpack_list(place: DocumentPlace, items: Any, kind: str, api_version: str, depth: int) -> Found:
    """The documents of a list, each with its number."""
    if not isinstance(items, list):
        yield place.problem("items", show(items), "a list")
    elif depth >= _MAX_LIST_DEPTH:
        yield place.problem("items", f"lists are nested more than {_MAX_LIST_DEPTH} levels deep: write fewer levels")
    else:
        inherited = (kind, api_version) if kind else ("", "")
        for number, item in enumerate(items, 1):
            yield from _unpack(place.item(number), item, *inherited, depth=depth + 1)
