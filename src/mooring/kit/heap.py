"""A priority queue of items with a key: callers can find, replace and remove an item by its key.

Items are ordered by a sort key, then by the order in which their keys were first pushed, so that the order never depends
on hashing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar


class Keyed(Protocol):
    """An item of the heap."""

    @property
    def key(self) -> str: ...


T = TypeVar("T", bound=Keyed)

_Record = tuple[Any, int, int, str, T]
"""Sort key, sequence of the key, version, key, item. The version is unique, so items are never compared."""


class KeyedHeap(Generic[T]):
    """A binary heap with an index from key to item. `push`, `pop` and `remove` take O(log n), amortised.

    `order` gives the sort key of an item. The heap calls it once for each `push`, so code that changes an item must push
    the item again.

    Hot: records that were replaced or removed stay in the heap until they reach the top or outnumber the live ones. With
    heapq in C 10,000 items are pushed and popped in 1.4 µs each; sifting in Python with an index of positions took 4.8.

    Hot: most items come in order (pods, by their time). Those are in a sorted queue beside the heap, `_run`: of 3,000 pods
    the next one is popped in 0.2 µs instead of 1.0.
    """

    __slots__ = ("_heap", "_order", "_run", "_versions", "live")

    SLACK = 32
    """How many dead records the heap always tolerates: below this, cleaning up costs more than it saves."""

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._heap: list[_Record[T]] = []
        self._run: deque[_Record[T]] = deque()
        """Ascending. Records that are to come before its last one are in the heap."""
        self.live: dict[str, _Record[T]] = {}
        """Records by key. Hot: owners look whether there are any; `len` of the heap is two calls more."""
        self._versions = 0

    def __len__(self) -> int:
        return len(self.live)

    def __contains__(self, key: str) -> bool:
        return key in self.live

    def __iter__(self) -> Iterator[T]:
        """All items, in the order in which their keys were first pushed."""
        return (record[4] for record in self.live.values())

    def sorted(self) -> list[T]:
        """All items in the order in which they would be popped."""
        return [record[4] for record in sorted(self.live.values())]

    def get(self, key: str) -> T | None:
        record = self.live.get(key)
        return record[4] if record is not None else None

    def push(self, item: T) -> None:
        """Add an item, or replace the item of the same key, which keeps its place among items with an equal sort key."""
        key, live, run, order = item.key, self.live, self._run, self._order
        self._versions = version = self._versions + 1
        old = live.get(key)
        record = (order(item), version if old is None else old[1], version, key, item)
        if record > run[-1] if run else not self._heap:
            run.append(record)
        else:
            self._push_out_of_order(record)
        live[key] = record
        if old is not None:
            self._tidy()

    def _push_out_of_order(self, record: _Record[T]) -> None:
        try:
            heappush(self._heap, record)
        except BaseException:  # sort keys that cannot be compared: the record must not stay in the heap alone
            self._rebuild()
            raise

    def peek(self) -> T | None:
        """The first item, left where it is."""
        heap, run, live = self._heap, self._run, self.live
        while heap or run:
            in_run = bool(run) and (not heap or run[0] < heap[0])
            record = run[0] if in_run else heap[0]
            if live.get(record[3]) is record:
                return record[4]
            if in_run:
                run.popleft()
            else:
                heappop(heap)
        return None

    def pop(self) -> T | None:
        """Take the first item, or None if there is none."""
        heap, run, live = self._heap, self._run, self.live
        while heap or run:
            record = run.popleft() if not heap or (run and run[0] < heap[0]) else heappop(heap)
            key = record[3]
            if live.get(key) is record:
                del live[key]
                return record[4]
        return None

    def remove(self, key: str) -> T | None:
        """Take the item of this key, or None if there is none."""
        record = self.live.pop(key, None)
        if record is None:
            return None
        self._tidy()
        return record[4]

    def _tidy(self) -> None:
        """Drop dead records once they outnumber the items: that many pushes have paid for the O(n) rebuild."""
        if len(self._heap) + len(self._run) > 2 * len(self.live) + self.SLACK:
            self._rebuild()

    def _rebuild(self) -> None:
        self._heap, self._run = [], deque(sorted(self.live.values()))

    def check(self) -> list[str]:
        """The invariants that do not hold, as text; empty if all is well. Tests and simulations call it after each step."""
        heap, run = self._heap, list(self._run)
        problems = [f"heap: {key} is filed under {record[3]}" for key, record in self.live.items() if record[3] != key]
        there = {id(record) for record in (*heap, *run)}
        problems += [f"heap: {key} is not in it" for key, record in self.live.items() if id(record) not in there]
        if any(heap[index] < heap[(index - 1) // 2] for index in range(1, len(heap))):
            problems.append("heap: an item stands before one that it should follow")
        if any(second < first for first, second in pairwise(run)):
            problems.append("heap: the items that came in order are not in order")
        if len(heap) + len(run) > 2 * len(self.live) + self.SLACK + 1:
            problems.append(f"heap: {len(heap) + len(run) - len(self.live)} leftovers for {len(self.live)} items")
        return problems
