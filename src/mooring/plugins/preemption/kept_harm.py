"""The harm that preemption for pods of one shape and priority would do, kept for each node, the least harmful first.

Pods of one template preempt one after another, and between two of them few nodes change. So the harm of each candidate is
kept in a heap, and only rows that were touched are judged again, in plain numbers.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import Follower
from mooring.cluster.columns.resource_amounts import cells, places_of
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks
from mooring.cluster.pods.nominated import Crowd, NominatedLoad
from mooring.framework.contract.points import ResourceDemand

# ---- Which pods of a row can stay beside the preemptor, where sums decide: kernels over all rows at once.
#
# Pods are in positions by importance (PodRanks), and `held` has what the pods up to each position request together. The
# preemptor leaves a limit for each resource: what is allocatable, less its own request and those of nominated pods.
# So the pods up to a position can stay if `held` there is within the limits, and no pod has to be taken off or put back
# to find that out.


Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

PRIORITY_OFFSET = 1 << 31
"""Added to each priority before summing, as upstream does: priorities may be negative, and more victims must not look
better than fewer."""
NO_LIMIT = 1 << 62
MOST_POSITIONS = 256
"""Up to so many pods on a row no sum is beyond MAX_SUM, so sums and differences are exact."""
NONE_FITS = -1


class Room(msgspec.Struct):
    """Amounts that the pods on some rows hold, and the amounts that they may hold. All arrays have one place for each of
    these rows."""

    held: Ints
    """Resources x positions x rows."""
    limits: Ints
    """Resources x rows."""
    most_pods: Ints
    """How many pods may stay, whatever they hold."""
    priority: Ints
    """Positions x rows."""
    count: Ints
    """How many pods there are."""

    def part(self, places: NDArray[np.intp]) -> "Room":
        """The room of some of the rows."""
        if len(places) == len(self.count):
            return self
        columns = self.held, self.limits, self.most_pods, self.priority, self.count
        return Room(*(column.take(places, -1) for column in columns))


def room_on(ranks: PodRanks, demand: ResourceDemand, crowd: Crowd | None, rows: NDArray[np.intp] | slice) -> Room:
    """The room on these rows for a pod with this demand, beside a crowd of nominated pods."""
    nodes, resources = ranks.nodes, demand.resources
    count = ranks.count[rows]
    positions = int(count.max(initial=0))
    places = places_of(resources, len(nodes.amounts.allocatable))
    allocatable = cells(nodes.amounts.allocatable, resources, rows)
    limits = allocatable - demand.amounts
    most_pods = nodes.allowed_pods[rows] - 1
    if crowd is not None:
        promised, pods = crowd.on(rows, resources, nodes.height)
        limits -= promised
        most_pods -= pods
    if demand.waived is not None:
        limits[demand.waived & (allocatable == 0)] = NO_LIMIT
    # Hot: to take rows of all resources together would copy all rows first.
    held = np.array([_of_rows(ranks.held[place, :positions], rows) for place in places], np.int64)
    priority = _of_rows(ranks.priority[:positions], rows)
    return Room(held.reshape(len(places), *priority.shape), limits, most_pods, priority, count)


def _of_rows(columns: Ints, rows: NDArray[np.intp] | slice) -> Ints:
    """The columns of these rows, which are the last axis. Hot: `take` needs a third of the time that a list of rows takes as
    an index, 7 µs instead of 21 for 740 rows."""
    return columns[..., rows] if isinstance(rows, slice) else columns.take(rows, -1)


def can_stay(held: Ints, limits: Ints, most_pods: Ints) -> Ints:
    """How many of the most important pods of each row can stay; NONE_FITS: the pod does not fit even alone.

    | held           | limit | most_pods |    |
    | 100, 300, 600  | 400   | 9         | 2  |
    | 100, 300, 600  | 400   | 1         | 1  |
    | 500, 600, 700  | 400   | 9         | 0  |
    | 100, 300, 600  | -1    | 9         | -1 |
    """
    fits = np.logical_and.reduce(held <= limits[:, None], axis=0)
    staying: Ints = np.minimum(np.add.reduce(fits, axis=0, dtype=np.int64), most_pods)
    staying[(most_pods < 0) | np.logical_or.reduce(limits < 0, axis=0)] = NONE_FITS
    return staying


def harm_after(room: Room, first: Ints) -> tuple[Ints, Ints]:
    """(sum of the priorities of the victims, each with PRIORITY_OFFSET; number of victims) for each row.

    The pods before position `first` stay, the one in it leaves. The others come back one after another, in the order of their
    importance, if the preemptor still fits.
    """
    rows = np.arange(len(first))
    spare = room.limits - room.held[:, np.maximum(first - 1, 0), rows] * (first > 0)
    most = room.most_pods - first
    pods = most.copy()
    total = room.priority[first, rows] + PRIORITY_OFFSET
    for position in range(int(first.min()) + 1, len(room.priority)):
        comes = (first < position) & (room.count > position)
        requests = room.held[:, position] - room.held[:, position - 1]
        stays = comes & (pods > 0)
        for request, left in zip(requests, spare, strict=True):
            stays &= request <= left
        spare -= requests * stays
        pods -= stays
        total += (room.priority[position] + PRIORITY_OFFSET) * (comes ^ stays)
    return total, room.count - first - (most - pods)


def fewest_leaving(room: Room, lower: Flags) -> Ints:
    """How many of the lower pods of each row have to leave at least, whichever they are, and at least one.

    A resource needs as many as its largest requests take to make up for what is missing. `lower` is positions x rows.

    | requests of lower pods | held in all | limit |   |
    | 2, 1, 1                | 5           | 4     | 1 |
    | 2, 1, 1                | 5           | 2     | 2 |
    """
    fewest: Ints = np.maximum(room.count - room.most_pods, 1)
    if len(lower):
        for sums, limit in zip(room.held, room.limits, strict=True):
            requests = np.diff(sums, axis=0, prepend=0) * lower
            largest = np.maximum(requests.max(0), 1)
            np.maximum(fewest, -(-(sums[-1] - limit) // largest), out=fewest)
    return fewest


def victim_positions(
    held: Sequence[Sequence[int]], limits: Sequence[int], most_pods: int, lower: range
) -> list[int] | None:
    """The positions of the victims on one row, in plain numbers; None: the pod does not fit with all lower pods gone.

    `held` is by resource and position. Positions before those in `lower` have pods that stay in any case.
    """
    staying, first = lower.start, lower.start
    spare = [limit - (sums[first - 1] if first else 0) for sums, limit in zip(held, limits, strict=True)]
    if most_pods < staying or min(spare, default=0) < 0 or min(limits, default=0) < 0:
        return None
    victims = []
    for position in lower:
        requests = [sums[position] - (sums[position - 1] if position else 0) for sums in held]
        if staying < most_pods and all(request <= left for request, left in zip(requests, spare, strict=True)):
            spare = [left - request for request, left in zip(requests, spare, strict=True)]
            staying += 1
        else:
            victims.append(position)
    return victims


Harm = tuple[int, int, int, int, int]
"""Highest priority of the victims, sum of their priorities, their number, start of the most important one (negated), and
what the name of the node says. The least wins."""

MOST_TOUCHED = 16
"""Largest number of touched rows that are judged one by one. With more, judging all rows at once takes less time."""
_MOST_ASIDE = 32
"""Largest number of entries of the heap that are skipped because they are no candidates for this pod. After that all rows are
judged instead."""


class KeptHarm:
    """The harm by row for pods of one shape and priority, in a heap. Rows that were touched are judged again."""

    def __init__(self, ranks: PodRanks, priority: int) -> None:
        self._ranks = ranks
        self._priority = priority
        self._news = Follower(ranks.nodes.touches, ranks.nodes.pod_touches)
        self._news.pass_over()  # nothing is kept yet: to list thousands of rows that were touched before takes 0.5 ms
        self._layout = (-1, -1)
        self._harm: dict[int, Harm] | None = None
        """By row, for candidates. None: nothing is kept now."""
        self._heap: list[tuple[Harm, int]] = []
        """May have entries that do not hold any more: an entry counts if `_harm` has the very same."""
        self._passes: Flags = np.zeros(0, np.bool_)
        """Rows that the filters let pass which do not read pods."""

    def touched(self) -> list[int] | None:
        """The rows that have changed since the last call; None: too many, or all."""
        nodes = self._ranks.nodes
        layout = nodes.node_touches.end, nodes.amounts.resources_version
        touched = self._news.news()
        if layout != self._layout or touched is None or len(touched) > MOST_TOUCHED:
            self._layout, self._harm = layout, None
            return None
        return touched

    @property
    def is_kept(self) -> bool:
        return self._harm is not None

    def keep(self, harm: dict[int, Harm], passes: Flags) -> None:
        """The harm of all candidates as of now."""
        self._harm, self._passes = harm, passes
        self._heap = [(each, row) for row, each in harm.items()]
        heapify(self._heap)

    def drop(self) -> None:
        """Discard the kept harm of all rows, because it was not brought up to date."""
        self._harm = None

    def judge_again(self, rows: Sequence[int], demand: ResourceDemand, nominated: NominatedLoad) -> None:
        """Bring these rows up to date."""
        assert self._harm is not None
        for row in rows:
            harm = self.harm_on(row, demand, nominated, None)
            if harm is None:
                self._harm.pop(row, None)
            elif self._harm.get(row) != harm:
                self._harm[row] = harm
                heappush(self._heap, (harm, row))

    def harm_on(self, row: int, demand: ResourceDemand, nominated: NominatedLoad, asking: str | None) -> Harm | None:
        """The harm on one row, with the nominated pods but the one that asks; None: it is no candidate."""
        nodes, ranks = self._ranks.nodes, self._ranks
        if row >= len(self._passes) or not self._passes[row]:
            return None
        positions = victims_on(ranks, row, self._priority, demand, nominated, asking)
        if not positions:
            return None
        priorities = ranks.priority[:, row].tolist()
        started = int(ranks.start_ns[positions[0], row])
        total = sum(priorities[position] + PRIORITY_OFFSET for position in positions)
        return priorities[positions[0]], total, len(positions), -started, name_key(int(nodes.name_rank()[row]), started)

    def least(self, is_curable: Flags, own_row: int | None) -> tuple[Harm, int] | None:
        """The least harmful of the curable rows, without the row that the pod itself is nominated to. None: there is none.

        Raises LookupError if that takes too long to find out.
        """
        assert self._harm is not None
        heap, aside, found = self._heap, [], None
        while heap:
            harm, row = heap[0]
            if self._harm.get(row) is not harm:
                heappop(heap)
            elif row == own_row or not is_curable[row]:
                aside.append(heappop(heap))
                if len(aside) > _MOST_ASIDE:
                    break
            else:
                found = harm, row
                break
        for entry in aside:
            heappush(heap, entry)
        if len(aside) > _MOST_ASIDE:
            raise LookupError("most candidates are none for this pod")
        return found


def name_key(rank: int, started_ns: int) -> int:
    """How the name of a node decides between candidates that are equal otherwise; the least wins.

    Parity: a victim that has not started counts as started when it is looked at, and later is better. So among nodes that
    differ in nothing else the last one wins; where victims have started, the first.
    """
    return -rank if started_ns == NOT_STARTED_NS else rank


def victims_on(
    ranks: PodRanks, row: int, priority: int, demand: ResourceDemand, nominated: NominatedLoad, asking: str | None
) -> list[int] | None:
    """The positions of the victims on one row, by plain numbers; None: the pod cannot be made to fit there."""
    nodes, count = ranks.nodes, int(ranks.count[row])
    priorities = ranks.priority[:count, row].tolist()
    lower = range(sum(each >= priority for each in priorities), count)
    if not lower:
        return None
    amounts = demand.amounts[:, 0].tolist()
    allocatable = nodes.amounts.allocatable[demand.resources, row].tolist()
    limits = [there - amount for there, amount in zip(allocatable, amounts, strict=True)]
    most_pods = int(nodes.allowed_pods[row]) - 1
    promised = nominated.sums_on(row, priority, asking) if nominated else None
    if promised is not None:
        taken, pods = promised
        places = places_of(demand.resources, len(nodes.amounts.allocatable))
        limits = [limit - taken.get(place, 0) for limit, place in zip(limits, places, strict=True)]
        most_pods -= pods
    if demand.waived is not None:
        waived = zip(limits, allocatable, demand.waived[:, 0].tolist(), strict=True)
        limits = [NO_LIMIT if is_waived and not there else limit for limit, there, is_waived in waived]
    held = ranks.held[demand.resources, :count, row].tolist()
    return victim_positions(held, limits, most_pods, lower)
