"""One difference between what a running scheduler believes and what a scheduler that was built now says, and the rows of
both that are compared."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import LabelColumn, ValueColumn
from mooring.cluster.nodes.table import NodeTable
from mooring.model.meta import KubeObject

# ---- Rows of two node tables that stand for the same node. Nodes come in another order, so they have other rows.


EncodedColumn = LabelColumn | ValueColumn[Any]


class RowPairs:
    """The rows that both tables have, pair by pair. Good until one of the tables changes."""

    def __init__(self, running: NodeTable, fresh: NodeTable) -> None:
        self.names = [name for name in running.row_book if name in fresh.row_book]
        count = len(self.names)
        self.running: NDArray[np.intp] = np.fromiter(map(running.row_book.__getitem__, self.names), np.intp, count)
        self.fresh: NDArray[np.intp] = np.fromiter(map(fresh.row_book.__getitem__, self.names), np.intp, count)

    def unequal(self, running: NDArray[Any], fresh: NDArray[Any]) -> Iterator[tuple[str, Any, Any]]:
        """The nodes for which two columns differ, with both values."""
        ours, theirs = running.take(self.running), fresh.take(self.fresh)
        for place in (ours != theirs).nonzero()[0].tolist():
            yield self.names[place], ours[place].item(), theirs[place].item()


class RowPairing:
    """Keeps the pairs until one of the tables changes."""

    def __init__(self, running: NodeTable, fresh: NodeTable) -> None:
        self._tables = running, fresh
        self._stamp: tuple[int, ...] = ()
        self._pairs: RowPairs | None = None

    def now(self) -> RowPairs:
        stamp = tuple(end for table in self._tables for end in (table.touches.end, table.node_set_version))
        if self._pairs is None or stamp != self._stamp:
            self._stamp, self._pairs = stamp, RowPairs(*self._tables)
        return self._pairs


def in_codes_of(fresh: EncodedColumn, running: EncodedColumn) -> NDArray[np.int64]:
    """The codes of the running column as codes of the fresh one, -1 for values that it does not have."""
    book = {value: code for code, value in enumerate(fresh.values)}
    codes = np.array([book.get(value, -1) for value in running.values], np.int64)
    return codes.take(running.codes)


DifferenceKind = Literal[
    "object",
    "row",
    "port",
    "tally",
    "volume",
    "device",
    "nomination",
    "group",
    "queue",
    "assumed",
    "answer",
    "stranded",
    "watch",
]
"""Subject of a difference. The words are label values of a metric, and docs/run.md explains them."""

KINDS: tuple[DifferenceKind, ...] = get_args(DifferenceKind)

T = TypeVar("T")

BATCH = 100
"""Items that are compared one by one before others may work: up to a millisecond."""
_LONGEST = 300
"""Characters of a story: a selector, or the values of an object, may be of any length."""


class StateDifference(msgspec.Struct, frozen=True):
    """A value that the running scheduler believes, and what a fresh one says instead. Two differences with the same `place`
    are the same fault, seen twice."""

    kind: DifferenceKind
    about: type[KubeObject] | None
    """The kind of the object that it is about; None: it is about none, as `name` says."""
    name: str
    """The key of the object, or what else it is about."""
    what: str
    """Which value of it."""
    believed: str
    fresh: str

    @property
    def place(self) -> tuple[DifferenceKind, type[KubeObject] | None, str, str]:
        return self.kind, self.about, self.name, self.what

    @property
    def subject(self) -> str:
        return self.name if self.about is None else f"{self.about.__name__} {self.name}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}: believed {cut(self.believed)}, fresh {cut(self.fresh)}"


Findings = Iterator[StateDifference | None]
"""Differences one by one; None: a moment at which others may work. Between two of them both sides may change, in step."""


def cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def in_batches(items: Iterable[T], look: Callable[[T], Iterable[StateDifference]]) -> Findings:
    """Look at each item. They are those of a moment that may be past: `look` must not rely on their being there."""
    for count, item in enumerate(items, 1):
        yield from look(item)
        if count % BATCH == 0:
            yield None
    yield None
