"""The one reader of YAML: bytes to plain data, by the rules of the library that all Kubernetes components use.

PyYAML's own loader does not serve. Its C composer overflows the stack on deep nesting, it keeps the last of two equal keys
and reports nothing, it expands aliases without bound, and it turns dates and `12:30` into values that no Kubernetes file
means. So this module puts the events of PyYAML's parser together itself, in one loop that does not recurse.

Callers choose what differs: the limits, and what happens to a repeated key. A fault carries its line and column and, if
the parser raised it, the parser's own error, because each caller reports faults in the words of the upstream component
that it stands for (`framework/config/decoding.py`, `apiserver/server/request.py`, `apiclient/kubeconfig/files.py`).
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml is an option of PyYAML; without it, reading is ten times slower."""
_EVENTS_BETWEEN_REPORTS = 4096
"""A call of `on_position` for every event would take longer than reading it."""

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
    """Text that is not YAML, or YAML that no Kubernetes file may use; `line` and `column` count from 1."""

    def __init__(self, line: int, column: int, text: str, error: yaml.YAMLError | None = None) -> None:
        """`error` is what PyYAML raised; None if this module found the fault."""
        super().__init__(text)
        self.line = line
        self.column = column
        self.error = error


class TooDeep(YamlFault):
    """The nesting exceeds `YamlLimits.depth`."""


class TooManyAliases(YamlFault):
    """The aliases stand for more than `YamlLimits.aliased_nodes`, or an alias stands inside its own anchor."""


class YamlLimits(msgspec.Struct, frozen=True):
    """The limits of what one document may cost its reader."""

    depth: int = 1000
    """Levels of nesting. Callers walk the data with recursive functions, and Python allows 1000 frames by default."""
    aliased_nodes: float = 1_000_000
    """How many nodes aliases may stand for: a few lines of anchors can otherwise unfold to terabytes. A long scalar counts
    as one node for each CHARACTERS_OF_A_NODE."""


STANDARD_LIMITS = YamlLimits()
CHARACTERS_OF_A_NODE = 64
"""Most scalars of Kubernetes objects are shorter, and count once. Many aliases of one long scalar stand for as much text as
many nodes do."""


class Repeat(NamedTuple):
    """A key that its mapping has already. The last value counts, as it does in kubectl."""

    line: int
    """The line of the key."""
    way: tuple[str | int, ...]
    """Keys and indices from the document to the key."""
    value_line: int
    """The line where the second value begins: Go's decoder names this one."""


OnRepeat = Callable[[Repeat], None]


def keep_last(repeat: Repeat) -> None:
    """For `on_repeat`: repeated keys are no fault, and the last value counts."""


def read_documents(
    raw: bytes | str,
    on_position: Callable[[int], None] | None = None,
    on_repeat: OnRepeat | None = None,
    limits: YamlLimits = STANDARD_LIMITS,
) -> Iterator[Any]:
    """The data of each document. Raises YamlFault at the first fault, after the documents before it.

    `on_position` gets the position of the parser in the text every few thousand events, for a progress bar. `on_repeat`
    gets each repeated key of a document before the document comes; without it the first one is a YamlFault.
    """
    try:
        yield from _assemble(events_of(raw), on_position, on_repeat, limits)
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.problem, error.context) if part)
        text = f"the text does not parse ({reason})"
        raise YamlFault(mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, text, error) from None
    except yaml.YAMLError as error:
        raise _undecodable(raw, error) from None


def read_document(raw: bytes | str, on_repeat: OnRepeat | None = None, limits: YamlLimits = STANDARD_LIMITS) -> Any:
    """The data of text that may have one document only; None if it has none. Raises YamlFault."""
    documents = read_documents(raw, on_repeat=on_repeat, limits=limits)
    data = next(documents, None)
    for _ in documents:
        raise _second_document(raw)
    return data


def repeated_keys(raw: bytes | str) -> list[Repeat]:
    """All keys of the documents that their mappings have already, inner ones first, as Go's decoder finds them.

    For text that was read within its limits before. Aliases are not limited: values are shared, not written out.
    """
    found: list[Repeat] = []
    for _ in read_documents(raw, on_repeat=found.append, limits=YamlLimits(aliased_nodes=math.inf)):
        pass
    return found


def events_of(raw: bytes | str) -> Iterator[Any]:
    """The events that PyYAML's parser finds, piece by piece, each with its marks."""
    events: Iterator[Any] = yaml.parse(raw, Loader=LOADER)
    return events


def _second_document(raw: bytes | str) -> YamlFault:
    starts = (event for event in events_of(raw) if isinstance(event, yaml.DocumentStartEvent))
    _, second = next(starts), next(starts)
    return _fault(second, "expected a single document in the stream, but found another document")


def _undecodable(raw: bytes | str, error: yaml.YAMLError) -> YamlFault:
    """A fault of the parser's reader, which knows only its position in the text."""
    position = getattr(error, "position", 0) or 0
    before = (raw.encode(errors="replace") if isinstance(raw, str) else raw)[:position]
    reason = getattr(error, "reason", None) or str(error)
    text = f"the text does not parse ({reason})"
    return YamlFault(before.count(b"\n") + 1, position - before.rfind(b"\n"), text, error)


def _assemble(
    events: Iterator[Any], on_position: Callable[[int], None] | None, on_repeat: OnRepeat | None, limits: YamlLimits
) -> Iterator[Any]:
    """Build documents from the events of the YAML parser and yield each document when it ends. The position in the text is
    reported from time to time."""
    document = _Document(on_repeat, limits)
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
                document = _Document(on_repeat, limits)
            case yaml.DocumentEndEvent():
                yield document.value


class _Frame(msgspec.Struct):
    """A mapping or a sequence that is being put together."""

    value: Any
    anchor: str | None
    nodes_before: int
    line: int
    """The line where it begins."""
    key: str | None = None
    """The key whose value comes next; None after `<<`."""
    awaits_key: bool = True
    repeated_line: int = 0
    """The line of `key` if the mapping had it before."""
    merged: list[Any] = msgspec.field(default_factory=list)
    """The mappings after `<<`. Keys of the mapping itself win, so they are merged when it closes."""


class _Document:
    """One document: a stack of open containers and the anchors seen so far."""

    def __init__(self, on_repeat: OnRepeat | None, limits: YamlLimits) -> None:
        self.value: Any = None
        self._on_repeat = on_repeat
        self._limits = limits
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        """Anchor -> its value, and how many nodes the value counts for with its aliases written out."""
        self._nodes = 0
        self._aliased = 0

    def add_scalar(self, event: Any) -> None:
        """Add a scalar to the document. A plain scalar without a tag is resolved to a number, boolean or null. Long scalars
        count as several nodes for the limits."""
        plain = event.implicit[0]
        if event.tag is None or event.tag == "!":
            value = resolve(event.value) if plain and event.tag is None else event.value
        else:
            value = _tagged(event)
        weight = 1 + len(event.value) // CHARACTERS_OF_A_NODE
        self._nodes += weight
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, weight)
        self._place(value, event, plain)

    def open(self, container: Any, event: Any) -> None:
        if event.tag is not None and event.tag not in (f"{_TAG}map", f"{_TAG}seq", "!"):
            raise _fault(event, f"the tag {event.tag} is not supported; remove it")
        most = self._limits.depth
        if len(self._stack) >= most:
            raise _fault(event, f"the nesting is too deep; at most {most} levels are supported", TooDeep)
        self._nodes += 1
        self._stack.append(_Frame(container, event.anchor, self._nodes, event.start_mark.line + 1))

    def close(self, event: Any) -> None:
        frame = self._stack.pop()
        for mapping in frame.merged:
            for key, value in mapping.items():
                frame.value.setdefault(key, value)
        if frame.anchor is not None:
            # Only now: an alias inside its own anchor would make data without end.
            self._anchors[frame.anchor] = (frame.value, self._nodes - frame.nodes_before + 1)
        self._place(frame.value, event, plain=False, line=frame.line)

    def add_alias(self, event: Any) -> None:
        """Add the value of an anchor once more. The nodes of aliased values are limited, because nested aliases can make a
        small file enormous."""
        if event.anchor not in self._anchors:
            is_open = any(frame.anchor == event.anchor for frame in self._stack)
            text = f"the alias *{event.anchor} has no anchor before it; define &{event.anchor} first"
            raise _fault(event, text, TooManyAliases if is_open else YamlFault)
        value, nodes = self._anchors[event.anchor]
        self._nodes += nodes
        self._aliased += nodes
        most = self._limits.aliased_nodes
        if self._aliased > most:
            raise _fault(event, f"the aliases stand for more than {most} nodes; write fewer", TooManyAliases)
        self._place(value, event, plain=False)

    def _place(self, value: Any, event: Any, plain: bool, line: int = 0) -> None:
        """Put a finished value where it belongs: the document itself, a sequence, or a mapping as key or value.

        `line` is where a container begins; a scalar begins at its event.
        """
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
            if frame.repeated_line:
                self._report_repeat(frame, line or event.start_mark.line + 1)
            frame.value[frame.key] = value
            frame.awaits_key = True

    def _key(self, frame: _Frame, value: Any, event: Any) -> str:
        key = value if type(value) is str else _key_text(value, event)
        frame.repeated_line = 0
        if key in frame.value:
            if self._on_repeat is None:
                raise _fault(event, f'duplicate key "{key}"; remove all but one')
            frame.repeated_line = event.start_mark.line + 1
        return key

    def _report_repeat(self, frame: _Frame, value_line: int) -> None:
        assert self._on_repeat is not None and frame.key is not None
        self._on_repeat(Repeat(frame.repeated_line, (*self._way(), frame.key), value_line))

    def _way(self) -> Iterator[str | int]:
        """The keys and indices from the document to the innermost open container."""
        for frame in self._stack[:-1]:
            yield len(frame.value) if isinstance(frame.value, list) else frame.key or "<<"


def resolve(text: str) -> Any:
    """The value of an unquoted scalar.

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
    """Parse an integer of YAML 1.1: underscores are ignored, and a leading 0 means octal. Returns the text itself if it is no
    number."""
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
    """The mappings that follow `<<`: a mapping, or a list of mappings of which the first wins."""
    given = value if isinstance(value, list) else [value]
    if not all(isinstance(mapping, dict) for mapping in given):
        raise _fault(event, "only mappings can be merged after <<; write a mapping")
    return given


def _fault(event: Any, text: str, kind: type[YamlFault] = YamlFault) -> YamlFault:
    return kind(event.start_mark.line + 1, event.start_mark.column + 1, text)
