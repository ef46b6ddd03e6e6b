"""Which nodes a pod group can get slots on, and how far down the order of importance pods have to leave for it.

Victims leave the least important first. A node gains its first slot at one of its victims: until that one has left, its
pods may as well stay. So for a group that lacks some slots only as many nodes matter, those that gain at the least important
victims, and the victims on all others stay.

Hot: what is kept of a node is worked out again when its pods change, so a search looks at some ten nodes and not at the
20,000 pods of a cluster: 0.5 ms instead of 20.
"""

from bisect import bisect_left, insort
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from mooring.model.shape import PodShape
from mooring.plugins.preemption.group_sums import Slots
from mooring.plugins.preemption.group_victims import GroupVictim
from mooring.plugins.preemption.victim_order import Entry, VictimOrder

Gain = tuple[Entry, int]
"""The victim at which a node gains its first slot, and the row of the node."""
_MOST_KEPT = 16
"""For how many shapes and priorities gains are kept: each has an entry for each node."""


class KeptGains:
    """The gains of all nodes, for members of one shape and priority in groups of one priority."""

    def __init__(self, order: VictimOrder, priority: int) -> None:
        self._order = order
        self._priority = priority
        self._position = -1  # before the start of the log, so that it knows nothing
        self._by_row: dict[int, Gain] = {}
        self._sorted: list[Gain] = []

    def refresh(self, slots: Slots) -> None:
        """Look again at the nodes whose pods changed."""
        touched = self._order.touches.since(self._position)
        self._position = self._order.touches.end
        if touched is None:
            rows = range(self._order.nodes.height)
            gains = ((row, self._gain_of(row, slots)) for row in rows)
            self._by_row = {row: gain for row, gain in gains if gain is not None}
            self._sorted = sorted(self._by_row.values())
            return
        # All leave before any enters: a group that changed has gains on several rows, and may have the place it had before.
        for row in touched:
            before = self._by_row.pop(row, None)
            if before is not None:
                del self._sorted[bisect_left(self._sorted, before)]
        for row in touched:
            now = self._gain_of(row, slots)
            if now is not None:
                self._by_row[row] = now
                insort(self._sorted, now)

    def rows(self, count: int, passing: NDArray[np.bool_]) -> list[int]:
        """The rows that gain first, at most so many, among those that pass."""
        found: list[int] = []
        for _, row in reversed(self._sorted):
            if passing[row]:
                found.append(row)
                if len(found) == count:
                    break
        return found

    def _gain_of(self, row: int, slots: Slots) -> Gain | None:
        free, before = slots.on_row(row)
        for entry, pods in reversed(self._order.on_row(row)):
            if entry[0] <= -self._priority:
                return None
            for pod in pods:
                free = slots.without(free, pod)
            if slots.of_free(free) > before:
                return entry, row
        return None


class GainsByShape:
    """The gains that are kept, the least recently used of them first."""

    def __init__(self, order: VictimOrder) -> None:
        self.order = order
        self._kept: dict[tuple[ref[PodShape], int, int, int], KeptGains] = {}

    def of(self, shape: PodShape, member_priority: int, priority: int) -> KeptGains:
        key = ref(shape), member_priority, priority, self.order.nodes.amounts.resources_version
        kept = self._kept.pop(key, None) or KeptGains(self.order, priority)
        self._kept[key] = kept
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept


def victims_on(order: VictimOrder, rows: list[int], priority: int) -> list[GroupVictim]:
    """The victims with pods on these rows and a lower priority, the most important first."""
    found = {entry[:-1]: entry for row in rows for entry, _ in order.on_row(row) if entry[0] > -priority}
    return [entry[-1] for entry in sorted(found.values())]
