"""PodGroupPostFilter: plugins search for a way to make room for a group that does not fit, and the scheduler answers their
questions.

A question is answered on a fork of the cluster from which pods of lower priority have left (without_lower.py). The cluster
itself stays as it is, whatever happens.

Where sums alone decide, the room that members leave on their nodes says by plain arithmetic which pods can be beside them.

Hot: to put a pod back, to ask the filters about a member and to take its room took 0.2 ms, and this takes 5 µs.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property

import msgspec
import numpy as np

from mooring.cluster.columns.resource_amounts import places_of
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import PodRejected
from mooring.framework.attempts.leave_room import passes_alone
from mooring.framework.attempts.refiltering import counted_rows
from mooring.framework.attempts.slots import demands_of
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import (
    GroupFitError,
    GroupRoom,
    GroupSearch,
    PodGroupPostFilterPlugin,
    PodsLeave,
)
from mooring.framework.contract.points import Reads, ResourceDemand
from mooring.framework.contract.status import Code, PluginError, Rejection, curable
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.model.shape import PodShape
from mooring.scheduler.decide import deciding
from mooring.scheduler.decision import Placement
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import plugin_fault, unusable
from mooring.scheduler.groups.group_placements import GroupAttempt, has_binding_work
from mooring.scheduler.groups.trial import Member, give_back, hold_found
from mooring.scheduler.observer import Observer

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
        self._held: dict[PodShape, Amounts] = {}

    def take(self, pods: Sequence[Pod]) -> bool:
        """Take the room of all these pods. False: there is too little, and nothing was taken."""
        wanted: dict[int, Amounts] = {}
        counts: dict[int, int] = {}
        for pod in pods:
            row = self._row_book.get(pod.spec.node_name, -1)
            asked_for = self._spare.get(row)
            if asked_for is None:
                continue
            counts[row] = counts.get(row, 0) + 1
            amounts = wanted.setdefault(row, {})
            for place, amount in self._held_by(pod).items():
                if place in asked_for:
                    amounts[place] = amounts.get(place, 0) + amount
        for row, amounts in wanted.items():
            spare = self._spare[row]
            if counts[row] > self._pods[row] or any(amount > spare[place] for place, amount in amounts.items()):
                return False
        for row, amounts in wanted.items():
            self._pods[row] -= counts[row]
            for place, amount in amounts.items():
                self._spare[row][place] -= amount
        return True

    def _held_by(self, pod: Pod) -> Amounts:
        held = self._held.get(pod.shape)
        if held is None:
            held = self._held[pod.shape] = _held(pod, self._resource_book)
        return held


def spare_room(attempt: GroupAttempt, by_row: Mapping[int, Sequence[Member]]) -> SpareRoom | None:
    """The room beside the members, which have been tried in this attempt and hold nothing now. None: more than sums decides
    about a member. Filters that read the whole cluster are left out: pods that they count are not for SpareRoom.

    A member fits if what it asks for is there after the pods on the node, the members before it and nominated pods.
    """
    cluster, nodes = attempt.core.cluster, attempt.core.cluster.nodes
    demands = _demands(attempt, [member for members in by_row.values() for member in members])
    if demands is None or nodes.amounts.huge_rows:
        return None
    amounts = nodes.amounts
    lines = {shape: [_lines(each, len(amounts.requested)) for each in found] for shape, found in demands.items()}
    spare: dict[int, Amounts] = {}
    pods: dict[int, int] = {}
    for row, members in by_row.items():
        sums = cluster.nominated.sums_on(row, members[0].entry.pod.priority) if cluster.nominated else None
        taken, count = sums or ({}, 0)
        taken = dict(taken)
        spare[row], pods[row] = {}, NO_LIMIT
        free_pods = int(nodes.allowed_pods[row] - nodes.pod_count[row]) - count
        allocatable, requested = amounts.allocatable[:, row].tolist(), amounts.requested[:, row].tolist()
        for before, member in enumerate(members):
            for compared in lines[id(member.entry.pod.shape)]:
                pods[row] = free_pods - before - 1
                _leave(spare[row], compared, allocatable, requested, taken)
            for place, amount in _held(member.entry.pod, amounts.resource_book).items():
                taken[place] = taken.get(place, 0) + amount
    return SpareRoom(attempt, spare, pods)


Lines = list[tuple[int, int, bool]]
"""A demand in plain numbers: the place of each resource, the amount, and whether nodes without it are passed over."""


def _lines(demand: ResourceDemand, count: int) -> Lines:
    amounts = demand.amounts[:, 0].tolist()
    waived = [False] * len(amounts) if demand.waived is None else demand.waived[:, 0].tolist()
    return [*zip(places_of(demand.resources, count), amounts, waived, strict=True)]


def _leave(spare: Amounts, lines: Lines, allocatable: list[int], requested: list[int], taken: Amounts) -> None:
    """Lower what is spare on a row to what a demand leaves there."""
    for place, amount, is_waived in lines:
        there = allocatable[place]
        if is_waived and not there:
            continue
        left = there - requested[place] - taken.get(place, 0) - amount
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


class GroupPostFilterResult(msgspec.Struct, frozen=True):
    """The outcome of PodGroupPostFilter, over all its plugins."""

    room: GroupRoom | None = None
    found_by: PodGroupPostFilterPlugin | None = None
    refusal: Rejection = curable()
    """Why there is no room; with the code Error, the group fails with it."""

    @property
    def code(self) -> Code:
        return Code.Success if self.room is not None else self.refusal.code


def run_group_post_filters(attempt: GroupAttempt, failure: GroupFitError) -> Steps[GroupPostFilterResult]:
    """Ask the plugins until one finds room, fails, or says that nothing can help. The reasons of the others are joined."""
    group = attempt.context(attempt.root)
    began_ns = group.caller.began()
    result = yield from _ask_in_order(attempt, failure)
    group.caller.ended("PodGroupPostFilter", result.code.name, began_ns)
    return result


def _ask_in_order(attempt: GroupAttempt, failure: GroupFitError) -> Steps[GroupPostFilterResult]:
    reasons: list[str] = []
    for plugin in attempt.runner.profile.pod_group_post_filters:
        answer = yield from _search(attempt, plugin, failure)
        if isinstance(answer, GroupRoom):
            return GroupPostFilterResult(answer, plugin)
        if answer.code is Code.Unschedulable:
            reasons += answer.reasons
        elif answer.code is Code.UnschedulableAndUnresolvable:
            return GroupPostFilterResult(refusal=answer)
        else:
            text = f'error in "{plugin.name}" PodGroupPostFilter plugins: {answer.message}'
            return GroupPostFilterResult(refusal=Rejection((text,), Code.Error))
    return GroupPostFilterResult(refusal=curable(*reasons))


def _search(
    attempt: GroupAttempt, plugin: PodGroupPostFilterPlugin, failure: GroupFitError
) -> Steps[GroupRoom | Rejection]:
    """Answer the questions of one plugin until its search is over. If anything fails, the fork is made again: it may have
    been left halfway."""
    answer: MembersOnNodes | Rejection | None = None
    try:
        search: GroupSearch = plugin.pod_group_post_filter(failure)
        while True:
            question = next(search) if answer is None else search.send(answer)
            if not isinstance(question, PodsLeave):
                return Rejection((unusable("PodGroupPostFilter", plugin.name, question),), Code.Error)
            _end(answer)
            answer = yield from _try_again(attempt, question)
    except StopIteration as end:
        _end(answer)
        if isinstance(end.value, GroupRoom | Rejection):
            return end.value
        return Rejection((unusable("PodGroupPostFilter", plugin.name, end.value),), Code.Error)
    except (AttemptError, PluginError) as fault:
        attempt.core.without_lower.drop()
        return Rejection((str(fault),), Code.Error)
    except Exception as fault:  # a plugin may raise anything: the group fails, and the plugin is named
        attempt.core.without_lower.drop()
        return Rejection((plugin_fault("PodGroupPostFilter", plugin.name, fault),), Code.Error)


def _end(answer: "MembersOnNodes | Rejection | None") -> None:
    if isinstance(answer, MembersOnNodes):
        answer.take_away_again()


def _try_again(attempt: GroupAttempt, question: PodsLeave) -> Steps["MembersOnNodes | Rejection"]:
    """Try the group without a trace on the cluster without the pods that leave."""
    core, without = attempt.core, attempt.core.without_lower
    settled = without.settle(core.cluster, question.priority, question.pods)
    unseen = replace(
        core,
        cluster=settled,
        cache=without.cache,
        observer=Observer(),
        tell=None,
        deciding=deciding,
    )
    again = GroupAttempt(unseen, without.runner(attempt.runner), attempt.root, attempt.entries, attempt.seed)
    results = yield from again.steps()
    again.give_back(results)
    status = results[attempt.root].status
    if not status.is_success:
        return Rejection((status.message,), status.code)
    return MembersOnNodes(attempt, again, again.successful(attempt.root, results))


class MembersOnNodes:
    """Members of a group with the nodes that were found for them. They hold no room between two questions."""

    def __init__(self, attempt: GroupAttempt, again: GroupAttempt, members: Sequence[Member]) -> None:
        """`attempt` is the one on the cluster as it is, `again` the one without pods of lower priority."""
        self._again = again
        self._members = members
        self._table = again.core.cluster.nodes
        self._row_book = self._table.row_book
        self._by_row: dict[int, list[Member]] = {}
        for member in members:
            self._by_row.setdefault(self._row_book[member.node or ""], []).append(member)
        self._are_apart, self._counted = _rows_beyond_own(attempt, members)
        self._spare = None if self._counted is None else spare_room(again, self._by_row)
        """None: more than sums decides about members beside pods that count for none of them."""
        self._back: list[Pod] = []
        """Pods that came back."""
        self._unplaced: list[Pod] = []
        """Pods that came back, of which the table need not know before the next question to filters."""

    @property
    def nodes(self) -> Mapping[str, str]:
        return {member.entry.key: member.node or "" for member in self._members}

    @cached_property
    def rows(self) -> Set[int] | None:
        return None if self._counted is None else self._counted | self._by_row.keys()

    def reprieve(self, pods: Sequence[Pod]) -> bool:
        """Put pods back if the members fit on their nodes with them. Members are asked about one after another, each with
        those before it in place."""
        matter = [pod for pod in pods if self.rows is None or self._row_book.get(pod.spec.node_name) in self.rows]
        if self._spare is not None and not self._count(matter):
            fits = self._spare.take(matter)
            self._unplaced += matter if fits else ()
            return fits
        fits = self._fit_beside(matter)
        if fits and self._spare is not None:
            self._spare.take(matter)
        return fits

    def _count(self, pods: Sequence[Pod]) -> bool:
        """Whether pods may matter to members on other nodes."""
        if not self._counted:  # Hot: as a rule no filter counts pods
            return self._counted is None
        return any(self._row_book[pod.spec.node_name] in self._counted for pod in pods)

    def _fit_beside(self, pods: Sequence[Pod]) -> bool:
        """Put pods back into the table if the filters let the members be beside them."""
        for pod in (*self._unplaced, *pods):
            self._table.place(pod, pod.spec.node_name)
        self._back += self._unplaced
        self._unplaced = []
        members, fits = self._concerned(pods), True
        near = None if self._count(pods) else {self._row_book[pod.spec.node_name] for pod in pods}
        try:
            for member in members:
                fits = fits and self._holds(member, near)
        finally:
            give_back(self._again.core, members)
        if fits:
            self._back += pods
        else:
            _take_off(self._table, pods)
        return fits

    def take_away_again(self) -> None:
        """The search is over: all pods of lower priority have left again."""
        _take_off(self._table, self._back)
        self._back = []

    def _concerned(self, pods: Sequence[Pod]) -> Sequence[Member]:
        """Hot: where filters look at one node at a time, the members on other nodes need not be asked about."""
        if not self._are_apart:
            return self._members
        rows = dict.fromkeys(self._row_book[pod.spec.node_name] for pod in pods)
        return [member for row in rows for member in self._by_row.get(row, ())]

    def _holds(self, member: Member, near: Set[int] | None) -> bool:
        """Hold the room of a member on its node, if it fits there now.

        Hot: pods came back on the rows of `near`, and no filter counts them (None: some filter may). So a member on another
        row fits as it did in the trial, and filters are not asked about it: they take ten times as long.
        """
        found = member.node or ""
        row = self._row_book[found]
        is_asked = near is None or row in near or not isinstance(member.decision, Placement)
        context = self._passing(member, row) if is_asked else member.context
        if context is None:
            return False
        placement, member.failure = Placement(found, row), None
        placement.context = context
        hold_found(self._again.core, self._again.runner, member, placement)
        holds, member.node = member.failure is None, found
        return holds

    def _passing(self, member: Member, row: int) -> SchedulingContext | None:
        """The context of an attempt for a member in which its node passes; None: it does not."""
        core = self._again.core
        try:
            tried = self._again.runner.open(member.entry.pod, core.cluster, member.seed)
            narrowing = tried.pre_filter()
            if isinstance(narrowing, PodRejected) or not narrowing.includes(member.node or "", row):
                return None
            return tried.context if passes_alone(tried, row, core.cluster.nominated) else None
        except AttemptError:
            return None


def _take_off(nodes: NodeTable, pods: Sequence[Pod]) -> None:
    for pod in reversed(pods):
        nodes.displace(pod.id)


def _rows_beyond_own(attempt: GroupAttempt, members: Sequence[Member]) -> tuple[bool, Set[int] | None]:
    """Whether a pod matters to no member but those on its own node; and the rows with pods that may matter to members on
    other nodes, because filters count them there (None: any row).

    The members are asked about on the cluster as it is. A filter that counts no pod there counts none after some have left.
    """
    runner, cluster = attempt.runner, attempt.core.cluster
    found: set[int] = set()
    are_apart = True
    for member in {(id(m.entry.pod.shape), id(m.entry.pod.label_set)): m for m in members}.values():
        try:
            tried = runner.open(member.entry.pod, cluster, member.seed)
            tried.pre_filter()
            for index, plugin in tried.active_filters():
                if runner.filter_reads[index] > Reads.ROW:
                    rows = counted_rows(plugin, tried.context, cluster.nodes.tallies)
                    if rows is None:
                        return False, None
                    are_apart = False
                    found.update(np.flatnonzero(rows).tolist())
        except AttemptError:
            return False, None
    return are_apart, found
