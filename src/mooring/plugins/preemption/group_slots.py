"""Which nodes a pod group can get slots on, and how far down the order of importance pods have to leave for it.

Victims leave the least important first. A node gains its first slot at one of its victims: until that one has left, its
pods may as well stay. So for a group that lacks some slots only as many nodes matter, those that gain at the least important
victims, and the victims on all others stay.

Hot: what is kept of a node is worked out again when its pods change, so a search looks at some ten nodes and not at the
20,000 pods of a cluster: 0.5 ms instead of 20.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from weakref import ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.resource_amounts import MAX_SUM, cells, places_of
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import Crowd
from mooring.framework.attempts.fit_errors import GroupFitError
from mooring.framework.attempts.slots import pods_left, requested_beside, times_in
from mooring.framework.contract.points import ResourceDemand
from mooring.framework.kept.feasible import NARROWED_OUT
from mooring.model.pod import Pod
from mooring.model.shape import PodShape
from mooring.plugins.preemption.least_harm import passing_rows, sums_decide
from mooring.plugins.preemption.victim_order import Entry, GroupVictim, VictimOrder

# ---- Which victims come back, where sums decide: members of one shape, and filters that compare sums or read nodes
# alone.
#
# Then a node has a number of slots for members, and the group fits if there are enough slots on all nodes together,
# whichever node each member takes. A pod that leaves or comes back changes the slots of its own node only. So no
# trial is needed: first the least important victims leave, until there are enough slots; then those of them come back
# that can.


Free = list[int]
"""Free amounts on a node: one for each resource that members request, and at the end the number of pods that the node may
still take."""


class Slots(msgspec.Struct):
    """How many members have room on each node, while pods leave and come back."""

    nodes: NodeTable
    names: tuple[str, ...]
    amounts: Free
    """Requests of one member, in the order of `names`. The last number is 1, for the pod itself."""
    free: NDArray[np.int64]
    """Resources x rows, with all pods on their nodes."""
    passing: NDArray[np.bool_]
    most: int
    """How many slots of a node count: there are no more members."""
    total: int
    """On all nodes together."""
    _changed: dict[int, tuple[Free, int]] = msgspec.field(default_factory=dict)
    """By row: what is free now, and the slots."""
    _requests: dict[int, Free] = msgspec.field(default_factory=dict)
    """By id of a shape."""

    def move(self, victim: GroupVictim, sign: int) -> None:
        """The pods of a victim leave (+1), or come back (-1)."""
        for pod in victim.pods:
            row = self.nodes.row_of_pod(pod.id)
            if row is not None and self.passing[row]:
                self._move_pod(row, self._request(pod), sign)

    def _move_pod(self, row: int, request: Free, sign: int) -> None:
        free, slots = self._changed.get(row) or self.on_row(row)
        free = [have + sign * amount for have, amount in zip(free, request, strict=True)]
        now = self.of_free(free)
        self.total += now - slots
        self._changed[row] = free, now

    def on_row(self, row: int) -> tuple[Free, int]:
        """Free amounts of a row and the number of its slots, while all pods are on their nodes."""
        free: Free = self.free[:, row].tolist()
        return free, self.of_free(free)

    def without(self, free: Free, pod: Pod) -> Free:
        """Free amounts of a node after a pod has left it."""
        return [have + amount for have, amount in zip(free, self._request(pod), strict=True)]

    def of_free(self, free: Free) -> int:
        return min(self.most, max(0, min(have // amount for have, amount in zip(free, self.amounts, strict=True))))

    def _request(self, pod: Pod) -> Free:
        """Requests of a pod in the order of `names`, and 1 for the pod itself. They are kept by shape."""
        found = self._requests.get(id(pod.shape))
        if found is None:
            held = pod.shape.held
            found = [held[name][0] if name in held else 0 for name in self.names] + [1]
            self._requests[id(pod.shape)] = found
        return found


def slots_for(failure: GroupFitError) -> Slots | None:
    """The slots for the members of a group, with all pods on their nodes; None: more than sums decides."""
    rejected, pod = failure.rejected, failure.members[0]
    if failure.enough is None or rejected is None or not _are_alike(failure.members):
        return None
    if rejected.verdicts is None or (rejected.verdicts.first == NARROWED_OUT).any():
        return None
    filters = sums_decide(rejected.attempt, rejected.nominated)
    if filters is None or filters.counting or filters.demand.waived is not None:
        return None
    names = _names_of(filters.demand, pod, failure.cluster.nodes)
    if names is None:
        return None
    crowd = rejected.nominated.crowd_from(pod.priority) if rejected.nominated else None
    free = _free(filters.demand, crowd, failure.cluster.nodes)
    if free is None:
        return None
    amounts = [*filters.demand.amounts[:, 0].tolist(), 1]
    passing, most = passing_rows(rejected.attempt, filters.fixed), len(failure.members)
    slots = times_in(free, np.array(amounts)[:, None]).clip(0, most)
    return Slots(failure.cluster.nodes, names, amounts, free, passing, most, int(slots[passing].sum()))


def _are_alike(members: Sequence[Pod]) -> bool:
    first = members[0]
    return all(pod.shape is first.shape and pod.priority == first.priority for pod in members)


def _names_of(demand: ResourceDemand, pod: Pod, nodes: NodeTable) -> tuple[str, ...] | None:
    """The resources that are compared; None: a member that is placed takes another amount than is compared."""
    name_of = {index: name for name, index in nodes.amounts.resource_book.items()}
    places = places_of(demand.resources, len(nodes.amounts.allocatable))
    names = tuple(name_of.get(place, "") for place in places)
    amounts = demand.amounts[:, 0].tolist()
    held = pod.shape.held
    is_same = all(name in held and held[name][0] == amount > 0 for name, amount in zip(names, amounts, strict=True))
    return names if is_same else None


def _free(demand: ResourceDemand, crowd: Crowd | None, nodes: NodeTable) -> NDArray[np.int64] | None:
    """Compute the free amounts of all rows after the nominated pods of the crowd are counted: resources x rows, and the
    number of pods as the last line. None if a sum is too large for its cell."""
    if requested_beside(demand, nodes).max(initial=0) >= MAX_SUM:
        return None
    allocatable = cells(nodes.amounts.allocatable, demand.resources, slice(0, nodes.height))
    return np.vstack((allocatable - requested_beside(demand, nodes, crowd), pods_left(nodes, crowd)))


def first_to_leave(slots: Slots, victims: Sequence[GroupVictim], enough: int) -> int | None:
    """Let the last of the victims leave until there are enough slots. Returns the place of the first of them: all before it
    can stay. None: there are not enough slots even without all of them."""
    place = len(victims)
    while slots.total < enough:
        if not place:
            return None
        place -= 1
        slots.move(victims[place], 1)
    return place


def come_back(slots: Slots, victims: Sequence[GroupVictim], enough: int) -> list[GroupVictim]:
    """Let victims that have left come back in this order, as long as there are enough slots. Returns those that cannot."""
    leaving = []
    for victim in victims:
        slots.move(victim, -1)
        if slots.total < enough:
            slots.move(victim, 1)
            leaving.append(victim)
    return leaving


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
        """Let the pods of a row leave, the least important first, until the row has one more slot. Returns the entry of the
        last one that leaves, with the row; None if the pods of lower priority are not enough."""
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
        """Return the kept gains for a shape and priorities, or make them. The least recently used ones are dropped beyond
        _MOST_KEPT."""
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
