"""Which pods of a row can stay beside the preemptor, where sums decide: kernels over all rows at once.

Pods are in slots by importance (PodRanks), and `held` has what the pods up to each slot request together. The preemptor
leaves a limit for each resource: what is allocatable, less its own request and those of nominated pods. So the pods up to a
slot can stay if `held` there is within the limits, and no pod has to be taken off or put back to find that out.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.pods.crowd import Crowd
from mooring.framework.contract.points import ResourceDemand

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

PRIORITY_OFFSET = 1 << 31
"""Added to each priority before summing, as upstream does: priorities may be negative, and more victims must not look
better than fewer."""
NO_LIMIT = 1 << 62
MOST_SLOTS = 256
"""Up to so many pods on a row no sum is beyond MAX_SUM, so sums and differences are exact."""
NONE_FITS = -1


class Room(msgspec.Struct):
    """What the pods of some rows hold, and may hold. All arrays have a place for each of the rows."""

    held: list[Ints]
    """By resource: slots x rows."""
    limits: list[Ints]
    most_pods: Ints
    """How many pods may stay, whatever they hold."""
    priority: Ints
    """Slots x rows."""
    start_ns: Ints
    count: Ints
    """How many pods there are."""

    def part(self, places: NDArray[np.intp]) -> "Room":
        """The same for some of the rows."""
        if len(places) == len(self.count):
            return self
        return Room(
            [sums[:, places] for sums in self.held],
            [limit[places] for limit in self.limits],
            self.most_pods[places],
            self.priority[:, places],
            self.start_ns[:, places],
            self.count[places],
        )


def room_on(ranks: PodRanks, demand: ResourceDemand, crowd: Crowd | None, rows: NDArray[np.intp] | slice) -> Room:
    """The room on these rows for a pod with this demand, beside a crowd of nominated pods."""
    nodes = ranks.nodes
    count = ranks.count[rows]
    slots = slice(0, int(count.max(initial=0)))
    resources = np.arange(len(ranks.held))[demand.resources].tolist()
    waived = None if demand.waived is None else demand.waived[:, 0].tolist()
    crowded, places = _places_of(crowd, rows, nodes.height) if crowd is not None else (None, None)
    limits = []
    for i, (resource, amount) in enumerate(zip(resources, demand.amounts[:, 0].tolist(), strict=True)):
        allocatable = nodes.amounts.allocatable[resource, rows]
        limit = allocatable - amount
        if crowded is not None:
            limit[places] -= crowded.requested[resource]
        if waived is not None and waived[i]:
            limit[allocatable == 0] = NO_LIMIT
        limits.append(limit)
    most_pods = nodes.allowed_pods[rows] - 1
    if crowded is not None:
        most_pods[places] -= crowded.pod_count
    held = [ranks.held[resource][slots, rows] for resource in resources]
    return Room(held, limits, most_pods, ranks.priority[slots, rows], ranks.start_ns[slots, rows], count)


def _places_of(crowd: Crowd, rows: NDArray[np.intp] | slice, height: int) -> tuple[Crowd, NDArray[np.intp]]:
    """The part of the crowd that is on these rows, and where its rows are among them."""
    if isinstance(rows, slice):
        return crowd, crowd.rows
    place = np.full(height, -1, np.intp)
    place[rows] = np.arange(len(rows))
    places = place[crowd.rows]
    return crowd.among(places >= 0), places[places >= 0]


def can_stay(held: Sequence[Ints], limits: Sequence[Ints], most_pods: Ints, slots: int) -> Ints:
    """How many of the most important pods of each row can stay; NONE_FITS: the pod does not fit even alone.

    | held           | limit | most_pods |    |
    | 100, 300, 600  | 400   | 9         | 2  |
    | 100, 300, 600  | 400   | 1         | 1  |
    | 500, 600, 700  | 400   | 9         | 0  |
    | 100, 300, 600  | -1    | 9         | -1 |
    """
    fits = np.ones((slots, len(most_pods)), np.bool_)
    alone = most_pods >= 0
    for sums, limit in zip(held, limits, strict=True):
        fits &= sums <= limit
        alone &= limit >= 0
    staying: Ints = np.minimum(fits.view(np.int8).sum(0, dtype=np.int64), most_pods)
    staying[~alone] = NONE_FITS
    return staying


def harm_after(room: Room, first: Ints) -> tuple[Ints, Ints]:
    """(sum of the priorities of the victims, each with PRIORITY_OFFSET; number of victims) for each row.

    The pods before slot `first` stay, the one in it leaves. The others come back one after another, in the order of their
    importance, if the preemptor still fits.
    """
    rows = np.arange(len(first))
    before = np.maximum(first - 1, 0)
    spare = [limit - sums[before, rows] * (first > 0) for sums, limit in zip(room.held, room.limits, strict=True)]
    pods = room.most_pods - first
    total = room.priority[first, rows] + PRIORITY_OFFSET
    number = np.ones(len(first), np.int64)
    for slot in range(int(first.min()) + 1, len(room.priority)):
        comes = (first < slot) & (room.count > slot)
        stays = comes & (pods > 0)
        requests = [sums[slot] - sums[slot - 1] for sums in room.held]
        for request, left in zip(requests, spare, strict=True):
            stays &= request <= left
        for request, left in zip(requests, spare, strict=True):
            left -= request * stays
        pods -= stays
        leaves = comes & ~stays
        total += (room.priority[slot] + PRIORITY_OFFSET) * leaves
        number += leaves
    return total, number


def fewest_leaving(room: Room, lower: Flags) -> Ints:
    """How many of the lower pods of each row have to leave at least, whichever they are, and at least one.

    A resource needs as many as its largest requests take to make up for what is missing. `lower` is slots x rows.

    | requests of lower pods | held in all | limit |   |
    | 2, 1, 1                | 5           | 4     | 1 |
    | 2, 1, 1                | 5           | 2     | 2 |
    """
    fewest: Ints = np.maximum(room.count - room.most_pods, 1)
    for sums, limit in zip(room.held, room.limits, strict=True):
        if len(sums):
            requests = np.diff(sums, axis=0, prepend=0) * lower
            largest = np.maximum(requests.max(0), 1)
            np.maximum(fewest, -(-(sums[-1] - limit) // largest), out=fewest)
    return fewest


def victim_slots(
    held: Sequence[Sequence[int]], limits: Sequence[int], most_pods: int, lower: range
) -> list[int] | None:
    """The slots of the victims on one row, in plain numbers; None: the pod does not fit with all lower pods gone.

    `held` is by resource and slot. Slots before those in `lower` have pods that stay in any case.
    """
    staying, first = lower.start, lower.start
    spare = [limit - (sums[first - 1] if first else 0) for sums, limit in zip(held, limits, strict=True)]
    if most_pods < staying or min(spare, default=0) < 0 or min(limits, default=0) < 0:
        return None
    victims = []
    for slot in lower:
        requests = [sums[slot] - (sums[slot - 1] if slot else 0) for sums in held]
        if staying < most_pods and all(request <= left for request, left in zip(requests, spare, strict=True)):
            spare = [left - request for request, left in zip(requests, spare, strict=True)]
            staying += 1
        else:
            victims.append(slot)
    return victims
