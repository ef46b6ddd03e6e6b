"""Owns what the profiles of a scheduler keep from one attempt to the next, and bounds it in bytes."""

from collections import OrderedDict
from weakref import ref

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.kept_columns import ByteCount, ColumnKey, KeptColumn, KeptQuestion
from mooring.framework.memo import MEMO_OVERHEAD_BYTES, Outcomes, ShapeMemo
from mooring.model.shape import PodShape, ShapePart

MemoKey = tuple[str, "ref[PodShape]"]
"""The name of a profile and a shape."""

DEFAULT_LIMIT_BYTES = 64 << 20
"""At 5,000 nodes a shape takes some 60 KB, so a thousand templates fit in."""
PROTECTED_SHARE = 0.8
"""The share of the bytes that a pass over many new shapes leaves alone."""
MAX_OUTCOMES = 4096
"""Parts of shapes of which the answers at PreFilter and PreScore are kept: about 1 KB each."""
MAX_EVICTED = 16384
"""Evicted shapes that are remembered: many times more than can be kept, at 200 bytes each."""


class KeptAnswers:
    """Memos and columns of all profiles of a scheduler, bounded in bytes.

    The memos of shapes that came more than once are *protected*: new ones are evicted first. So a pass over many templates
    that come once does not evict those that come again and again. A column goes with the last memo that reads it.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.byte_count = ByteCount()
        self._columns: dict[ColumnKey, KeptColumn] = {}
        self._outcomes: dict[ShapePart, Outcomes] = {}
        self._new: OrderedDict[MemoKey, ShapeMemo] = OrderedDict()
        self._protected: OrderedDict[MemoKey, ShapeMemo] = OrderedDict()
        """Both: least recently used first."""
        self._evicted: dict[MemoKey, None] = {}
        """Shapes whose memo was evicted. One that comes again is used more than once, though its memo did not last."""
        self._table: NodeTable | None = None

    def memo(self, profile: str, shape: PodShape, nodes: NodeTable) -> ShapeMemo:
        """What is kept for a shape in a profile. It follows one table; for a fork of it nothing is kept."""
        if nodes.is_fork:
            return ShapeMemo()
        if nodes is not self._table:
            self._clear()
            self._table = nodes
        key = profile, ref(shape)
        memo = self._protected.get(key)
        if memo is not None:
            self._protected.move_to_end(key)
        elif (memo := self._new.get(key)) is not None:
            self._protect(key)
        else:
            memo = self._new[profile, ref(shape, lambda dead: self._forget((profile, dead)))] = ShapeMemo(self)
            if key in self._evicted:
                del self._evicted[key]
                self._protect(key)
        if self.byte_count.bytes > self.limit_bytes:
            self._evict(memo)
        return memo

    def column(self, key: ColumnKey, question: KeptQuestion) -> KeptColumn:
        """The column for a question about pods with a part, which may have been asked for another shape before."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = KeptColumn(question, self.byte_count)
        return column

    def outcomes_of(self, part: ShapePart) -> Outcomes:
        """What PreFilter and PreScore plugins said that follows from a part of a shape alone."""
        found = self._outcomes.get(part)
        if found is None:
            if len(self._outcomes) >= MAX_OUTCOMES:
                self._outcomes.clear()
            found = self._outcomes[part] = {}
        return found

    def _protect(self, key: MemoKey) -> None:
        """A shape came for the second time. The memo that was not used for longest loses its protection, if need be."""
        self._new.move_to_end(key)
        kept_key, memo = self._new.popitem()  # the key that was put in: its reference tells when the shape is gone
        self._protected[kept_key] = memo
        mean_bytes = self.byte_count.bytes / (len(self._protected) + len(self._new))
        if len(self._protected) * mean_bytes > PROTECTED_SHARE * self.limit_bytes:
            oldest, demoted = self._protected.popitem(last=False)
            self._new[oldest] = demoted

    def _evict(self, used: ShapeMemo) -> None:
        """Drop memos until the rest is within the limit; the one in use stays."""
        for memos in (self._new, self._protected):
            while memos and self.byte_count.bytes > self.limit_bytes:
                # No loop over the items: the garbage collector may free a shape at any time, and its memo with it.
                key = next(iter(memos))
                if memos[key] is used:  # it was used last, so there are no others
                    break
                self._drop(memos.pop(key))
                self._evicted[key] = None
        while len(self._evicted) > MAX_EVICTED:
            del self._evicted[next(iter(self._evicted))]

    def _forget(self, key: MemoKey) -> None:
        """The last pod of a shape is gone."""
        for memos in (self._new, self._protected):
            memo = memos.pop(key, None)
            if memo is not None:
                self._drop(memo)

    def _drop(self, memo: ShapeMemo) -> None:
        memo.drop()
        for key, column in memo.columns:
            column.users -= 1
            if not column.users:
                column.drop()
                self._columns.pop(key, None)

    def _clear(self) -> None:
        for memos in (self._new, self._protected):
            while memos:
                self._drop(memos.popitem()[1])
        self._outcomes.clear()
        self._evicted.clear()

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        memos = [*self._new.values(), *self._protected.values()]
        counted = sum(MEMO_OVERHEAD_BYTES + memo.arrays_bytes for memo in memos)
        counted += sum(column.values.nbytes for column in self._columns.values() if column.values is not None)
        faults = (
            [] if counted == self.byte_count.bytes else [f"{counted} bytes are kept, {self.byte_count.bytes} are noted"]
        )
        users: dict[ColumnKey, int] = {}
        for memo in memos:
            for key, _ in memo.columns:
                users[key] = users.get(key, 0) + 1
        if users != {key: column.users for key, column in self._columns.items()}:
            faults.append("columns have other users than they know")
        return faults
