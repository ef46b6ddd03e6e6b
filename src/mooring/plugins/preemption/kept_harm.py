"""The harm that preemption for pods of one shape and priority would do, kept for each node, the least harmful first.

Pods of one template preempt one after another, and between two of them few nodes change. So the harm of each candidate is
kept in a heap, and only rows that were touched are judged again, in plain numbers.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from mooring.cluster.change_log import Follower
from mooring.cluster.columns.resource_amounts import places_of
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.contract.points import ResourceDemand
from mooring.plugins.preemption.room import NO_LIMIT, PRIORITY_OFFSET, Flags, victim_slots

Harm = tuple[int, int, int, int, int]
"""Highest priority of the victims, sum of their priorities, their number, start of the most important one (negated), and
what the name of the node says. The least wins."""

MOST_TOUCHED = 16
"""So many rows are judged one by one; with more, all rows at once take less time."""
_MOST_ASIDE = 32
"""So many candidates are passed over that are none for this pod; then all rows are judged instead."""


class KeptHarm:
    """The harm by row for pods of one shape and priority, in a heap. Rows that were touched are judged again."""

    def __init__(self, ranks: PodRanks, priority: int) -> None:
        self._ranks = ranks
        self._priority = priority
        self._news = Follower(ranks.nodes.touches, ranks.nodes.pod_touches)
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
        """What is kept was not brought up to date."""
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
        slots = victims_on(ranks, row, self._priority, demand, nominated, asking)
        if not slots:
            return None
        priorities = ranks.priority[:, row].tolist()
        started = int(ranks.start_ns[slots[0], row])
        total = sum(priorities[slot] + PRIORITY_OFFSET for slot in slots)
        return priorities[slots[0]], total, len(slots), -started, name_key(int(nodes.name_rank()[row]), started)

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
    """The slots of the victims on one row, by plain numbers; None: the pod cannot be made to fit there."""
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
    return victim_slots(held, limits, most_pods, lower)
