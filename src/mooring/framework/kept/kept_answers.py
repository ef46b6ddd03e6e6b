"""Owns what the profiles of a scheduler keep from one attempt to the next, and bounds it in bytes."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, Self
from weakref import ref

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.kept.memo import ShapeMemo
from mooring.framework.kept.part_memo import ByteCount, KeptOfPart, PartMemo, PartQuestions
from mooring.framework.kept.prepared import PreparedProfile
from mooring.model.shape import PodPart, PodShape

MemoKey = tuple[str, "ref[PodShape]"]
"""The name of a profile and a shape."""

_QuestionsOfPart = tuple[PodPart, KeptOfPart, PartQuestions]
"""A part of shapes, what is kept for it, and the questions about it."""

DEFAULT_LIMIT_BYTES = 32 << 20
"""At 5,000 nodes a shape takes some 20 KB, so more than a thousand templates fit in."""
DEFAULT_NODE_BYTES = 3 << 10
"""The default limit is at least this for each node. At 100,000 nodes a shape takes 210 KB, so again a thousand fit in. With
64 MiB, 400 templates that come in turn never found what was kept for them: a decision took 6.9 ms instead of 1.4."""
PROTECTED_SHARE = 0.8
"""The share of the bytes that a pass over many new shapes leaves alone."""
MAX_EVICTED = 16384
"""Evicted shapes that are remembered: many times more than can be kept, at 200 bytes each."""


class _ShapeReference(ref[PodShape]):
    """A weak reference with the name of the profile, so that one callback serves all: closures took 300 bytes each."""

    __slots__ = ("name",)

    def __new__(cls, shape: PodShape, dead: Callable[[Any], object], name: str) -> Self:
        return super().__new__(cls, shape, dead)

    def __init__(self, shape: PodShape, dead: Callable[[Any], object], name: str) -> None:
        self.name = name


class KeptAnswers:
    """Memos of shapes and of their parts, of all profiles of a scheduler, bounded in bytes.

    The memos of shapes that came more than once are *protected*: new ones are evicted first. So a pass over many templates
    that come once does not evict those that come again and again. The memo of a part goes with the last shape that has it.
    """

    def __init__(self, limit_bytes: int | None = None, table: NodeTable | None = None) -> None:
        """None takes the default, which grows with the number of nodes. `table` is for a fork that is kept."""
        self.limit_bytes = DEFAULT_LIMIT_BYTES if limit_bytes is None else limit_bytes
        self._follows_nodes = limit_bytes is None
        self.hits = self.misses = self.evictions = 0
        """Since the start: shapes that had a memo when a pod came, those that had none, memos dropped for the limit."""
        self.byte_count = ByteCount()
        self._parts: dict[object, KeptOfPart] = defaultdict(dict)
        """By owner of the questions: profiles with the same ones share the answers."""
        self._by_questions: dict[tuple[PartQuestions, ...], list[_QuestionsOfPart]] = {}
        """Kept memos by the questions of a profile about the parts of shapes. Hot: with this, the owners are looked up
        once."""
        self._new: OrderedDict[MemoKey, ShapeMemo] = OrderedDict()
        self._protected: OrderedDict[MemoKey, ShapeMemo] = OrderedDict()
        """Memos that were used once (`_new`) and more often (`_protected`). In both, the least recently used memo is the
        first."""
        self._evicted: dict[MemoKey, None] = {}
        """Shapes whose memo was evicted, while they have pods. One that comes again is used more than once, though its memo
        did not last."""
        self._dead = self._forget_dead
        self._table = table
        self._in_use: ShapeMemo | None = None

    def memo(self, profile: PreparedProfile, shape: PodShape, nodes: NodeTable) -> ShapeMemo:
        """Return the memo of a shape in a profile. Kept memos follow one node table; another one that is a fork gets a memo
        that is not kept."""
        if nodes is not self._table:
            if nodes.is_fork:
                return profile.forgetful_memo()
            self.clear()
            self._table = nodes
        memo, before = self._find(profile, shape), self._in_use
        if memo is not before:  # Hot: pods of one template come one after another
            if before is not None:
                before.note_bytes()
            self._in_use = memo
        if self.byte_count.bytes > self.limit_bytes:
            self._size_limit()
            self._evict(memo)
        return memo

    def look(self, profile: PreparedProfile, shape: PodShape, nodes: NodeTable) -> ShapeMemo | None:
        """A copy of what is kept for a shape, None if nothing is. It counts neither as a use nor as a lookup."""
        key = profile.profile.scheduler_name, ref(shape)
        memo = self._protected.get(key) or self._new.get(key)
        return None if memo is None or nodes is not self._table else memo.copy()

    def _find(self, profile: PreparedProfile, shape: PodShape) -> ShapeMemo:
        """Find or make the memo of a shape. A memo that is used a second time is protected: it is evicted later than memos
        that were used once."""
        name = profile.profile.scheduler_name
        key = name, ref(shape)
        memo = self._protected.get(key)
        if memo is not None:
            self.hits += 1
            self._protected.move_to_end(key)
        elif (memo := self._new.get(key)) is not None:
            self.hits += 1
            self._protect(key)
        else:
            self.misses += 1
            self._size_limit()
            memo = ShapeMemo(self._parts_of(profile, shape), profile.part_places, self.byte_count)
            self._new[name, _ShapeReference(shape, self._dead, name)] = memo
            if key in self._evicted:
                del self._evicted[key]
                self._protect(key)
        return memo

    def _parts_of(self, profile: PreparedProfile, shape: PodShape) -> tuple[PartMemo, ...]:
        """Return the memos of the parts of a shape. Other shapes with an equal part share the memo of this part."""
        found, shape_parts = [], shape.parts()
        for part, kept, questions in self._by_questions.get(profile.parts) or self._enter(profile):
            shape_part = shape_parts[part]
            memo = kept.get(shape_part)
            if memo is None:
                memo = kept[shape_part] = PartMemo(questions, self.byte_count, kept, shape_part)
            memo.users += 1
            found.append(memo)
        return tuple(found)

    def _enter(self, profile: PreparedProfile) -> "list[_QuestionsOfPart]":
        """Find what is kept for the parts that a profile has questions about."""
        kept = [(each.part, self._parts[each.owner], each) for each in profile.parts]
        self._by_questions[profile.parts] = kept
        return kept

    @property
    def memo_count(self) -> int:
        return len(self._new) + len(self._protected)

    def _size_limit(self) -> None:
        """The default limit for the nodes that there are now. Only a miss and a limit that is reached look."""
        if self._follows_nodes and self._table is not None:
            self.limit_bytes = max(DEFAULT_LIMIT_BYTES, DEFAULT_NODE_BYTES * self._table.height)

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
                self.evictions += 1
        while len(self._evicted) > MAX_EVICTED:
            del self._evicted[next(iter(self._evicted))]

    def _forget_dead(self, dead: _ShapeReference) -> None:
        """The last pod of a shape is gone. One of its template that comes later has another shape."""
        key = dead.name, dead
        self._evicted.pop(key, None)
        for memos in (self._new, self._protected):
            memo = memos.pop(key, None)
            if memo is not None:
                self._drop(memo)

    def _drop(self, memo: ShapeMemo) -> None:
        memo.drop()
        for part in memo.parts:
            part.users -= 1
            if not part.users:
                part.drop()

    def clear(self) -> None:
        """Forget everything."""
        for memos in (self._new, self._protected):
            while memos:
                self._drop(memos.popitem()[1])
        self._evicted.clear()
        self._by_questions.clear()
        self._parts.clear()
        self._in_use = None

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        if self._in_use is not None:
            self._in_use.note_bytes()
        memos = [*self._new.values(), *self._protected.values()]
        parts = [part for by_part in self._parts.values() for part in by_part.values()]
        counted = sum(memo.own_bytes for memo in memos) + sum(part.arrays_bytes for part in parts)
        faults = (
            [] if counted == self.byte_count.bytes else [f"{counted} bytes are kept, {self.byte_count.bytes} are noted"]
        )
        users: dict[PartMemo, int] = {}
        for memo in memos:
            for part in memo.parts:
                users[part] = users.get(part, 0) + 1
        if users != {part: part.users for part in parts}:
            faults.append("parts have other users than they know")
        return faults
