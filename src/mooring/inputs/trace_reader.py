"""Reads the tables of a trace: rows become nodes, or pods with the time when they come and how long they run.

Rows that agree in everything but name and times share one template, so a million pods take as many shapes as they differ in.
"""

import csv
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from mooring.api.validate import validate
from mooring.api.validation.problem import Problem, show
from mooring.inputs.admission import Admission
from mooring.inputs.arrivals import MAX_ARRIVALS, Arrival
from mooring.inputs.documents import bytes_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.trace_formats import TimeColumns, TraceAmount, TraceFormat, TraceTable
from mooring.kit.bounded_reading import BadGzip, Bomb, gunzipped, is_gzip
from mooring.model.meta import KubeObject
from mooring.model.names import HOSTNAME
from mooring.model.node import Node, node_like
from mooring.model.pod import Pod

MAX_BYTES = 1 << 30
"""For a table, decompressed: 20 million rows of 50 bytes."""
MAX_PROBLEMS = 20
"""How many rows that cannot be used are named."""
NAMESPACE = "default"
PODS_ON_A_NODE = 1000
"""No public trace says how many pods a node may have: amounts decide, and this does not."""
_NO_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 200
"""Copies of a pod get a number behind its name, which has up to 253 characters."""

NO_VALUE = ("", "NULL", "null", "None")
"""Cells of a missing value: databases export it in several ways."""
_LEFT = "time of the event that ends it"
"""The column that rows of events get."""

Row = Mapping[str, str]


class TraceError(InputError):
    """A trace that cannot be used."""


@dataclass(slots=True)
class TracePods:
    """The pods of a trace, in the order of the table, or of their arrival if the trace has times."""

    templates: list[Pod] = field(repr=False)
    """One pod of each kind."""
    names: list[str] = field(default_factory=list, repr=False)
    which: list[int] = field(default_factory=list, repr=False)
    """The template of each pod."""
    at_ns: list[int] = field(default_factory=list, repr=False)
    """Since the first arrival."""
    run_ns: list[int | None] = field(default_factory=list, repr=False)
    """How long a pod runs; None: for ever."""

    def __len__(self) -> int:
        return len(self.names)

    def pods(self) -> list[Pod]:
        """A pod for each name."""
        templates = self.templates
        return [
            templates[which].with_name(name, f"{NAMESPACE}/{name}")
            for name, which in zip(self.names, self.which, strict=True)
        ]

    def arrivals(self) -> list[Arrival]:
        return [Arrival(*each) for each in zip(self.at_ns, self.pods(), self.run_ns, strict=True)]


def read_trace_nodes(path: str, form: TraceFormat) -> list[Node]:
    """The nodes of a table. Raises TraceError."""
    if form.nodes is None:
        raise TraceError([Problem("", f"the format {form.name} has no table of nodes: name manifests", file=path)])
    table = _TraceReading(path, form, form.nodes)
    first: dict[tuple[str, ...], Node] = {}
    nodes = []
    for row in table.rows():
        written = table.written(row)
        if written is None:
            continue
        name, kind, value = written
        if kind not in first:
            first[kind] = _node(value)
            table.check(first[kind])
        own = table.unique(name)
        nodes.append(node_like(first[kind], own, {**(first[kind].metadata.labels or {}), HOSTNAME: own}))
    table.end()
    return nodes


def read_trace_pods(
    path: str, form: TraceFormat, types: str | None = None, objects: Sequence[KubeObject] = ()
) -> TracePods:
    """The pods of a table; `types` is the second table of a format that has one. `objects` are the cluster that the pods come
    to: its classes and limits apply. Raises TraceError."""
    table = _TraceReading(path, form, form.pods, types, Admission.of(objects))
    found, books = TracePods([]), dict[tuple[str, ...], int]()
    for row in table.rows():
        written, times = table.written(row), table.times(row)
        if written is None or times is None:
            continue
        name, kind, value = written
        which = books.get(kind)
        if which is None:
            which = books[kind] = len(found.templates)
            found.templates.append(_pod(value, table.priority(row)))
            table.check(found.templates[-1])
        for _ in range(table.count(row)):
            found.names.append(table.unique(name))
            found.which.append(which)
            found.at_ns.append(times[0])
            found.run_ns.append(times[1])
        if len(found) > MAX_ARRIVALS:
            raise TraceError([Problem("", f"has more than {MAX_ARRIVALS} pods; cut the table", file=path)])
    table.end()
    return _in_order(found)


def _in_order(pods: TracePods) -> TracePods:
    """The pods in the order of their arrival; the first one comes at 0."""
    order = sorted(range(len(pods)), key=pods.at_ns.__getitem__)
    first_ns = pods.at_ns[order[0]] if order else 0
    return TracePods(
        pods.templates,
        [pods.names[i] for i in order],
        [pods.which[i] for i in order],
        [pods.at_ns[i] - first_ns for i in order],
        [pods.run_ns[i] for i in order],
    )


# ---- rows


@dataclass(slots=True)
class _TraceReading:
    """A table that is being read."""

    path: str
    form: TraceFormat
    table: TraceTable
    types: str | None = None
    admission: Admission = field(default_factory=lambda: Admission.of(()))
    line: int = 0
    problems: list[Problem] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)

    def rows(self) -> Iterator[Row]:
        """The rows that count, with the columns of the second table; the rows of an object with events as one."""
        rows = self._own_rows()
        yield from self._merged(rows) if self.table.events is not None else self._joined(rows, self._beside())

    def _own_rows(self) -> Iterator[Row]:
        table = self.table
        beside = {*table.join_header} - {*table.join}
        wanted = [column for column in table.columns() if column not in beside or column in table.header]
        for line, row in _rows_of(self.path, self.form, wanted, table.header, table.absent):
            self.line = line
            if all(row[column] in kept for column, kept in table.where.items()) and self._arrives(row):
                yield row

    def _arrives(self, row: Row) -> bool:
        """Whether a row has a time of arrival: a pod without one never came."""
        times = self.table.times
        return times is None or not _is_never(row[times.arrives], times)

    def _beside(self) -> dict[tuple[str, ...], Row]:
        """The rows of the second table by the columns that join."""
        join = self.table.join
        if not join:
            return {}
        if self.types is None:
            told = f"the format {self.form.name} needs a second table with {', '.join(join)}: name it with `types`"
            raise TraceError([Problem("types", told)])
        header = self.table.join_header
        wanted = [column for column in self.table.columns() if column in header and column not in self.table.header]
        found: dict[tuple[str, ...], Row] = {}
        for _, row in _rows_of(self.types, self.form, [*join, *wanted], header, {}):
            found.setdefault(
                tuple(row[column] for column in join), row
            )  # one type may run on several machines: the first one counts
        return found

    def _joined(self, rows: Iterable[Row], beside: Mapping[tuple[str, ...], Row]) -> Iterator[Row]:
        for row in rows:
            key = tuple(row[column] for column in self.table.join)
            if not key:
                yield row
            elif key in beside:
                yield {**beside[key], **row}
            else:
                self.fault(self.table.join[0], show(" ".join(key)), f"a value that {self.types} has")

    def _merged(self, rows: Iterable[Row]) -> Iterator[Row]:
        """One row for each object: that of the event with which it arrives, with the time when it leaves."""
        events = self.table.events
        assert events is not None, "only tables of events are merged"
        found: dict[tuple[str, ...], tuple[float, Row]] = {}
        ends: dict[tuple[str, ...], list[tuple[float, str]]] = {}
        for row in rows:
            key, when = tuple(row[column] for column in events.key), _number_in(row[events.time])
            if when is None:
                self.fault(events.time, show(row[events.time]), "a time as a number")
            elif row[events.kind] in events.begins:
                if key not in found or when < found[key][0]:
                    found[key] = when, row
            elif row[events.kind] in events.ends:
                ends.setdefault(key, []).append((when, row[events.time]))
        for key, (began, row) in found.items():
            yield {**row, _LEFT: min((end for end in ends.get(key, ()) if end[0] >= began), default=(0, ""))[1]}

    # ---- one row

    def written(self, row: Row) -> tuple[str, tuple[str, ...], dict[str, Any]] | None:
        """The name of an object, the cells in which objects of one template agree, and the object as a manifest has it. None
        for a row that cannot be used."""
        own = self.table.objects
        cells = tuple(row[column] for column in self._kind_columns)
        amounts = {"cpu": own.cpu_milli, "memory": own.memory_bytes, **own.resources}
        numbers = {name: self._number(row, each) for name, each in amounts.items()}
        if any(number is None for number in numbers.values()):
            return None
        name = "-".join(row[column] for column in own.name) or f"{self.form.name}-{self.names.total()}"
        is_annotated = not own.annotated_if or bool(_number_in(row[own.annotated_if]))
        metadata = {
            "labels": {key: row[column] for key, column in own.labels.items() if row[column]},
            "annotations": {
                key: row[column] for key, column in own.annotations.items() if row[column] and is_annotated
            },
        }
        room = {name: _quantity(name, number or 0) for name, number in numbers.items() if number}
        return name, cells, {"metadata": metadata, "amounts": room}

    @property
    def _kind_columns(self) -> list[str]:
        own = self.table.objects
        return [*(column for column in own.columns() if column not in own.name), *filter(None, [self.table.priority])]

    def _number(self, row: Row, wanted: TraceAmount) -> float | None:
        """The product of the columns; None after a problem was noted."""
        product = wanted.scale
        for column in wanted.columns:
            number = _number_in(row[column])
            if number is None or number < 0:
                self.fault(column, show(row[column]), "a number from 0")
                return None
            product *= number
        return product

    def times(self, row: Row) -> tuple[int, int | None] | None:
        """When the pod arrives and how long it runs; None after a problem was noted."""
        times = self.table.times
        if times is None:
            return 0, None
        arrives = self._time(row, times, times.arrives)
        left = _LEFT if self.table.events is not None else times.ends
        ends = self._time(row, times, left) if left and not _is_never(row[left], times) else None
        begins = self._time(row, times, times.begins) if times.begins and row[times.begins] else arrives
        if arrives is None or begins is None:
            return None
        return arrives, None if ends is None else max(ends - begins, 0)

    def _time(self, row: Row, times: TimeColumns, column: str) -> int | None:
        """A time in nanoseconds; None after a problem was noted."""
        number = _number_in(row[column])
        if number is None:
            self.fault(column, show(row[column]), "a time as a number")
            return None
        return int((number if times.opens is None else max(number, times.opens)) * times.ns)

    def priority(self, row: Row) -> int:
        """The priority of a pod, where a higher number is a higher priority."""
        number = int(_number_in(row[self.table.priority]) or 0) if self.table.priority else 0
        return -number if self.table.highest_is_lowest else number

    def count(self, row: Row) -> int:
        return max(int(_number_in(row[self.table.count]) or 0), 0) if self.table.count else 1

    def unique(self, name: str) -> str:
        """A name that an object can have and that no other has."""
        clean = _NO_NAME.sub("-", name.lower()).strip("-")[:_LONGEST_NAME] or self.form.name
        self.names[clean] += 1
        return clean if self.names[clean] == 1 else self.unique(f"{clean}-{self.names[clean] - 1}")

    # ---- problems

    def check(self, item: Node | Pod) -> None:
        """Treat an object as an API server does."""
        found = [*self.admission.admit(item), *validate(item)]
        self.problems += [replace(problem, file=self.path, line=self.line) for problem in found]

    def fault(self, path: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(path, found, allowed, file=self.path, line=self.line))
        if len(self.problems) >= MAX_PROBLEMS:
            raise TraceError(self.problems)

    def end(self) -> None:
        if self.problems:
            raise TraceError(self.problems)


def _rows_of(
    path: str, form: TraceFormat, wanted: Sequence[str], header: Sequence[str], absent: Mapping[str, str]
) -> Iterator[tuple[int, Row]]:
    """The wanted columns of a CSV file, row by row, with their lines. A file without a header has the columns of the format;
    a column that it lacks has the cells of `absent`. Raises TraceError."""
    lines = csv.reader(io.StringIO(_text_of(path), newline=""))
    try:
        first = [cell.strip() for cell in next(lines, [])]
        has_header = bool({*first} & {*header})
        heads = first if has_header else [*header]
        if missing := [column for column in wanted if column not in heads and column not in absent]:
            needed = [column for column in wanted if column not in absent]
            told = f"has no column {missing[0]}; the format {form.name} needs {', '.join(needed)}"
            raise TraceError([Problem("", told, file=path, line=1)])
        places = [(column, heads.index(column)) for column in wanted if column in heads]
        given = {column: absent[column] for column in wanted if column not in heads}
        for cells in lines if has_header else itertools.chain([first], lines):
            if cells:
                read = {column: cells[i].strip() if i < len(cells) else "" for column, i in places}
                yield lines.line_num, {**read, **given}
    except csv.Error as error:
        raise TraceError([Problem("", f"the text does not parse ({error})", file=path, line=lines.line_num)]) from error


def _text_of(path: str) -> str:
    """The text of a table. Raises TraceError."""
    raw = bytes_of(path, MAX_BYTES, "cut the table", TraceError)
    try:
        text = gunzipped(raw, MAX_BYTES) if is_gzip(raw) else raw
        if len(text) > MAX_BYTES:
            raise TraceError([Problem("", f"has more than {MAX_BYTES} bytes; cut the table", file=path)])
        return text.decode()
    except (BadGzip, Bomb, UnicodeDecodeError) as error:
        told = "the text is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise TraceError([Problem("", told, file=path)]) from error


def _is_never(cell: str, times: TimeColumns) -> bool:
    """Whether a time is missing, or after the end of the trace."""
    return cell in NO_VALUE or (times.closed is not None and (_number_in(cell) or 0) >= times.closed)


def _number_in(cell: str) -> float | None:
    """The number in a cell, 0 in an empty one; None if it is no number."""
    try:
        number = 0.0 if cell in NO_VALUE else float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# ---- objects


def _quantity(resource: str, number: float) -> str:
    """An amount as a manifest has it: cpu in milli-CPUs, everything else in whole units."""
    whole = math.ceil(number - 1e-9)
    return f"{whole}m" if resource == "cpu" else str(whole)


def _node(written: Mapping[str, Any]) -> Node:
    room = {**written["amounts"], "pods": str(PODS_ON_A_NODE)}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": "node", **written["metadata"]}, "status": status}, Node)


def _pod(written: Mapping[str, Any], priority: int) -> Pod:
    """A pod that requests the amounts of a row. Of extended resources the limit is the request, as the API server demands."""
    requests = written["amounts"]
    limits = {name: each for name, each in requests.items() if name not in ("cpu", "memory")}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
    metadata = {"name": "pod", "namespace": NAMESPACE, **written["metadata"]}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container], "priority": priority}}, Pod)
