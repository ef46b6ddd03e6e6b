"""YAML text to plain data, by the rules that kubectl follows, whatever bytes come in.

PyYAML's own loader does not serve: its C composer overflows the stack on deep nesting, it keeps the last of two equal
keys and says nothing, and it turns dates and `12:30` into values that no manifest means. So the events of its parser are
put together here, in one loop that neither recurses nor expands aliases without bound.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_ALIASED_NODES = 1_000_000
"""How many nodes aliases may stand for in one document: a few lines of anchors can otherwise unfold to terabytes."""
MAX_DEPTH = 1000
MAX_REPEATS = 100
"""How many repeated keys of one document are reported, as many as the API server reports."""
_EVENTS_BETWEEN_REPORTS = 4096

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    form: value
    for value, words in ((True, ("true", "yes", "on")), (False, ("false", "no", "off")))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_NUMERIC_START = frozenset("+-.0123456789")


class YamlFault(ValueError):
    """Text that is no YAML, or YAML that no manifest may use; `line` and `column` count from 1."""

    def __init__(self, line: int, column: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.column = column


@dataclass(slots=True)
class _Frame:
    """A mapping or a sequence that is being put together."""

    value: Any
    anchor: str | None
    nodes_before: int
    key: str | None = None
    awaits_key: bool = True
    merged: list[Any] = field(default_factory=list)


class Repeat(NamedTuple):
    """A key that its mapping has already. The last value counts, as it does in kubectl."""

    line: int
    way: tuple[str | int, ...]


OnRepeat = Callable[[Repeat], None]


def read_documents(
    raw: bytes, on_position: Callable[[int], None] | None = None, on_repeat: OnRepeat | None = None
) -> Iterator[Any]:
    """The data of each document. Raises YamlFault at the first thing that cannot be read.

    `on_position` hears now and then how far in the text the parser is, for a progress bar. `on_repeat` hears of each
    repeated key of a document before the document comes; without it the first one is a YamlFault.
    """
    try:
        yield from _assemble(events_of(raw), on_position, on_repeat)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.problem, error.context) if part)
        text = f"the text does not parse ({reason})"
        raise YamlFault(mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, text) from None
    except yaml.YAMLError as error:
        raise _undecodable(raw, error) from None


def events_of(raw: bytes) -> Iterator[Any]:
    """What PyYAML's parser finds, piece by piece, each with its marks."""
    events: Iterator[Any] = yaml.parse(raw, Loader=LOADER)
    return events


def _undecodable(raw: bytes, error: yaml.YAMLError) -> YamlFault:
    """A fault of the reader, which knows only how far it came."""
    position = getattr(error, "position", 0) or 0
    before = raw[:position]
    reason = getattr(error, "reason", None) or str(error)
    text = f"the text does not parse ({reason})"
    return YamlFault(before.count(b"\n") + 1, position - before.rfind(b"\n"), text)


def _assemble(
    events: Iterator[Any], on_position: Callable[[int], None] | None, on_repeat: OnRepeat | None
) -> Iterator[Any]:
    document = _Document(on_repeat)
    for count, event in enumerate(events):
        if on_position is not None and count % _EVENTS_BETWEEN_REPORTS == 0:
            on_position(event.end_mark.index)
        match event:
            case yaml.ScalarEvent():
                document.add_scalar(event)
            case yaml.MappingStartEvent():
                document.open({}, event)
            case yaml.SequenceStartEvent():
                document.open([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                document.close(event)
            case yaml.AliasEvent():
                document.add_alias(event)
            case yaml.DocumentStartEvent():
                document = _Document(on_repeat)
            case yaml.DocumentEndEvent():
                yield document.value


class _Document:
    """One document: a stack of open containers and the anchors seen so far."""

    def __init__(self, on_repeat: OnRepeat | None) -> None:
        self.value: Any = None
        self._on_repeat = on_repeat
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self._repeats = 0
        self._aliased = 0

    def add_scalar(self, event: Any) -> None:
        plain = event.implicit[0]
        if event.tag is None or event.tag == "!":
            value = resolve(event.value) if plain and event.tag is None else event.value
        else:
            value = _tagged(event)
        self._nodes += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._place(value, event, plain)

    def open(self, container: Any, event: Any) -> None:
        if event.tag is not None and event.tag not in (f"{_TAG}map", f"{_TAG}seq", "!"):
            raise _fault(event, f"the tag {event.tag} is not supported; remove it")
        if len(self._stack) >= MAX_DEPTH:
            raise _fault(event, f"the nesting is too deep; at most {MAX_DEPTH} levels are supported")
        self._nodes += 1
        self._stack.append(_Frame(container, event.anchor, self._nodes))

    def close(self, event: Any) -> None:
        frame = self._stack.pop()
        for mapping in frame.merged:
            for key, value in mapping.items():
                frame.value.setdefault(key, value)
        if frame.anchor is not None:
            # Only now: an alias inside its own anchor would make data without end.
            self._anchors[frame.anchor] = (frame.value, self._nodes - frame.nodes_before + 1)
        self._place(frame.value, event, plain=False)

    def add_alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _fault(event, f"the alias *{event.anchor} has no anchor before it; define &{event.anchor} first")
        value, nodes = self._anchors[event.anchor]
        self._nodes += nodes
        self._aliased += nodes
        if self._aliased > MAX_ALIASED_NODES:
            raise _fault(event, f"the aliases stand for more than {MAX_ALIASED_NODES} nodes; write fewer")
        self._place(value, event, plain=False)

    def _place(self, value: Any, event: Any, plain: bool) -> None:
        """Put a finished value where it belongs: the document itself, a sequence, or a mapping as key or value."""
        if not self._stack:
            self.value = value
            return
        frame = self._stack[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.awaits_key:
            frame.key = None if plain and value == "<<" else self._key(frame, value, event)
            frame.awaits_key = False
        elif frame.key is None:
            frame.merged += _mergeable(value, event)
            frame.awaits_key = True
        else:
            frame.value[frame.key] = value
            frame.awaits_key = True

    def _key(self, frame: _Frame, value: Any, event: Any) -> str:
        key = value if type(value) is str else _key_text(value, event)
        if key in frame.value:
            if self._on_repeat is None:
                raise _fault(event, f'duplicate key "{key}"; remove all but one')
            self._repeats += 1
            if self._repeats <= MAX_REPEATS:
                self._on_repeat(Repeat(event.start_mark.line + 1, (*self._way(), key)))
        return key

    def _way(self) -> Iterator[str | int]:
        """From the document to the innermost open container."""
        for frame in self._stack[:-1]:
            yield len(frame.value) if isinstance(frame.value, list) else frame.key or "<<"


def resolve(text: str) -> Any:
    """What an unquoted scalar means.

    | text       | value        |
    | yes, True  | True         |
    | 0x1F, 0755 | 31, 493      |
    | 1e3        | 1000.0       |
    | 12:30      | "12:30"      |
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        number = float(text.replace("_", ""))
        return number if math.isfinite(number) else text
    return _SPECIAL.get(text.lower(), text)


def _integer(text: str) -> Any:
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    try:
        if digits.startswith("0") and digits[1:].isdigit():
            return sign * int(digits, 8)
        return sign * int(digits, 0)
    except ValueError:
        return text  # Too many digits for a number of any kind, or none after the prefix.


def _tagged(event: Any) -> Any:
    """A scalar with a tag that says what it is."""
    if event.tag == f"{_TAG}str":
        return event.value
    value = resolve(event.value)
    kinds: dict[str, Any] = {"int": int, "float": (float, int), "bool": bool, "null": type(None)}
    wanted = kinds.get(event.tag.removeprefix(_TAG))
    if wanted is None:
        raise _fault(event, f"the tag {event.tag} is not supported; remove it")
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise _fault(event, f"the value does not match its tag {event.tag}; correct one of them")
    return value


def _key_text(value: Any, event: Any) -> str:
    """Keys are strings in Kubernetes; numbers and booleans are written out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _fault(event, "the key is not a string; write a string")


def _mergeable(value: Any, event: Any) -> list[Any]:
    """What follows `<<`: a mapping, or a list of mappings of which the first wins."""
    given = value if isinstance(value, list) else [value]
    if not all(isinstance(mapping, dict) for mapping in given):
        raise _fault(event, "only mappings can be merged after <<; write a mapping")
    return given


def _fault(event: Any, text: str) -> YamlFault:
    return YamlFault(event.start_mark.line + 1, event.start_mark.column + 1, text)
