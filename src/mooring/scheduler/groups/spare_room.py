"""The room that members of a pod group leave on their nodes, where sums alone decide: which pods can be beside them is plain
arithmetic.

Hot: to put a pod back, to ask the filters about a member and to take its room took 0.2 ms, and this takes 5 µs.
"""

from collections.abc import Mapping, Sequence

from mooring.cluster.columns.kernels import Ints
from mooring.cluster.columns.resource_amounts import places_of
from mooring.framework.attempts.attempt import PodRejected
from mooring.framework.attempts.slots import demands_of
from mooring.framework.contract.points import Reads, ResourceDemand
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.scheduler.groups.group_placements import GroupAttempt, has_binding_work
from mooring.scheduler.groups.trial import Member

Amounts = dict[int, int]
"""By place of a resource in the node table."""
NO_LIMIT = 1 << 62
"""Of pods on a row where no filter counts them."""


class SpareRoom:
    """By row with members: what other pods may still request there, and how many of them there may be. Pods on other rows
    take nothing."""

    def __init__(self, attempt: GroupAttempt, spare: Mapping[int, Amounts], pods: Mapping[int, int]) -> None:
        self._row_book = attempt.core.cluster.nodes.row_book
        self._resource_book = attempt.core.cluster.nodes.amounts.resource_book
        self._spare = spare
        """Resources that no member asks for are missing."""
        self._pods = dict(pods)

    def take(self, pods: Sequence[Pod]) -> bool:
        """Take the room of all these pods. False: there is too little, and nothing was taken."""
        wanted: dict[int, Amounts] = {}
        counts: dict[int, int] = {}
        for pod in pods:
            row = self._row_book.get(pod.spec.node_name, -1)
            if row in self._spare:
                counts[row] = counts.get(row, 0) + 1
                self._add(wanted.setdefault(row, {}), pod, self._spare[row])
        for row, amounts in wanted.items():
            spare = self._spare[row]
            if counts[row] > self._pods[row] or any(amount > spare[place] for place, amount in amounts.items()):
                return False
        for row, amounts in wanted.items():
            self._pods[row] -= counts[row]
            for place, amount in amounts.items():
                self._spare[row][place] -= amount
        return True

    def _add(self, amounts: Amounts, pod: Pod, asked_for: Amounts) -> None:
        for place, amount in _held(pod, self._resource_book).items():
            if place in asked_for:
                amounts[place] = amounts.get(place, 0) + amount


def spare_room(attempt: GroupAttempt, by_row: Mapping[int, Sequence[Member]]) -> SpareRoom | None:
    """The room beside the members, which have been tried in this attempt and hold nothing now. None: more than sums decides
    about a member. Filters that read the whole cluster are left out: pods that they count are not for SpareRoom.

    A member fits if what it asks for is there after the pods on the node, the members before it and nominated pods.
    """
    cluster, nodes = attempt.core.cluster, attempt.core.cluster.nodes
    demands = _demands(attempt, [member for members in by_row.values() for member in members])
    if demands is None or nodes.amounts.huge_rows:
        return None
    spare: dict[int, Amounts] = {}
    pods: dict[int, int] = {}
    for row, members in by_row.items():
        sums = cluster.nominated.sums_on(row, members[0].entry.pod.priority) if cluster.nominated else None
        taken, count = sums or ({}, 0)
        taken = dict(taken)
        spare[row], pods[row] = {}, NO_LIMIT
        free_pods = int(nodes.allowed_pods[row] - nodes.pod_count[row]) - count
        for before, member in enumerate(members):
            for demand in demands[id(member.entry.pod.shape)]:
                pods[row] = free_pods - before - 1
                _leave(spare[row], demand, nodes.amounts.allocatable[:, row], nodes.amounts.requested[:, row], taken)
            for place, amount in _held(member.entry.pod, nodes.amounts.resource_book).items():
                taken[place] = taken.get(place, 0) + amount
    return SpareRoom(attempt, spare, pods)


def _leave(spare: Amounts, demand: ResourceDemand, allocatable: Ints, requested: Ints, taken: Amounts) -> None:
    """Lower what is spare on a row to what this demand leaves there."""
    waived = None if demand.waived is None else demand.waived[:, 0].tolist()
    places = places_of(demand.resources, len(allocatable))
    for i, (place, amount) in enumerate(zip(places, demand.amounts[:, 0].tolist(), strict=True)):
        there = int(allocatable[place])
        if waived is not None and waived[i] and not there:
            continue
        left = there - int(requested[place]) - taken.get(place, 0) - amount
        spare[place] = min(spare.get(place, left), left)


def _held(pod: Pod, resource_book: Mapping[str, int]) -> Amounts:
    """The amounts that a pod takes from its node."""
    held = ((resource_book.get(name), amount) for name, (amount, _) in pod.shape.held.items())
    return {place: amount for place, amount in held if place is not None}


def _demands(attempt: GroupAttempt, members: Sequence[Member]) -> dict[int, list[ResourceDemand]] | None:
    """By identity of the shape of a member: what its filters compare; None: they do more, or Reserve may reject it."""
    nominations, runner = attempt.core.queue.nominations, attempt.runner
    found: dict[int, list[ResourceDemand]] = {}
    for member in members:
        if nominations.node_of(member.entry.uid) is not None:  # it ends when the member has its room
            return None
    for member in {id(member.entry.pod.shape): member for member in members}.values():
        try:
            tried = runner.open(member.entry.pod, attempt.core.cluster, member.seed)
            narrowing = tried.pre_filter()
            if isinstance(narrowing, PodRejected) or narrowing.names is not None or tried.context.is_resize:
                return None
            demands = demands_of(tried, Reads.CLUSTER)
        except AttemptError:
            return None
        if demands is None or has_binding_work(runner, tried):
            return None
        found[id(member.entry.pod.shape)] = demands
    return found
