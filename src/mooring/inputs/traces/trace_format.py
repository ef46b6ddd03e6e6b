"""The description of a trace: which columns of its tables say what of a node or a pod, and in which unit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class TraceAmount:
    """A number: the product of columns and a scale. Empty cells count as 0."""

    columns: tuple[str, ...]
    scale: float = 1.0


def amount(column: str, *others: str, scale: float = 1.0) -> TraceAmount:
    return TraceAmount((column, *others), scale)


@dataclass(frozen=True, slots=True)
class ObjectColumns:
    """How a row of a table becomes a node, or a pod."""

    name: tuple[str, ...]
    """Columns that are unique together; their texts are joined by a hyphen. Empty: objects are numbered."""
    cpu_milli: TraceAmount
    memory_bytes: TraceAmount
    resources: Mapping[str, TraceAmount] = field(default_factory=dict)
    """Extended resources, in whole units: those of a node, or the requests of a pod."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Key -> column. An empty cell is no label."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    annotated_if: str = ""
    """A column: rows where it is 0 have no annotations."""

    def columns(self) -> Iterator[str]:
        """All columns that are read."""
        amounts = (self.cpu_milli, self.memory_bytes, *self.resources.values())
        named = (*self.labels.values(), *self.annotations.values(), self.annotated_if)
        yield from dict.fromkeys(filter(None, chain(self.name, *(each.columns for each in amounts), named)))


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """When pods come and go."""

    arrives: str
    ends: str = ""
    """Empty, or an empty cell: the pod stays."""
    begins: str = ""
    """When the pod began to run, if the trace has it: it runs from then until `ends`. Otherwise from `arrives`."""
    ns: int = 1_000_000_000
    """The unit of these columns in nanoseconds."""
    opens: int | None = None
    """When the trace begins. Pods with an earlier time are there at that moment, and run from then on."""
    closed: int | None = None
    """A number that stands for any time after the end of the trace: a pod that ends then stays, and one that arrives then
    never came."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """A table of events: a row for each change of an object. The rows of an object become one."""

    key: tuple[str, ...]
    """The columns that say which object changed."""
    kind: str
    begins: frozenset[str]
    """Kinds of events with which an object arrives. The earliest one counts, with all of its columns."""
    ends: frozenset[str]
    """Kinds of events with which it leaves. The earliest one after its arrival counts."""
    time: str = "time"
    """The column that orders the events: exports of a database have rows in any order."""


@dataclass(frozen=True, slots=True)
class TraceTable:
    """One table of nodes or pods."""

    objects: ObjectColumns
    header: tuple[str, ...]
    """The columns in their order, for files without a header."""
    times: TimeColumns | None = None
    count: str = ""
    """The column with the number of equal pods that a row stands for."""
    priority: str = ""
    """The column with the priority of a pod; empty: 0."""
    highest_is_lowest: bool = False
    """Whether a smaller number is a higher priority; it is then negated."""
    join: tuple[str, ...] = ()
    """The columns by which a row of a second table is found, which has further columns."""
    join_header: tuple[str, ...] = ()
    events: EventColumns | None = None
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Column -> values: other rows are left out."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Column -> its cells in a file that does not have the column. Files have to have all others."""

    def columns(self) -> list[str]:
        """All columns that are read, in both tables."""
        times, events = self.times, self.events
        timed = (times.arrives, times.ends, times.begins) if times is not None else ()
        changed = (*events.key, events.kind, events.time) if events is not None else ()
        beside = (self.count, self.priority, *self.join, *timed, *changed, *self.where)
        return [*dict.fromkeys(filter(None, (*self.objects.columns(), *beside)))]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A public trace."""

    name: str
    about: str
    """The origin of the data, and where to get them."""
    pods: TraceTable
    nodes: TraceTable | None = None
    """None: the trace does not say which nodes there are."""
