"""PodGroupPostFilter: plugins search for a way to make room for a group that does not fit, and the scheduler answers their
questions.

A question is answered on the cluster itself, with the pods put aside that it names. All of them are back where they were
when the search is over, whatever happens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.group_points import (
    GroupFitError,
    GroupRoom,
    GroupSearch,
    MembersPlaced,
    PodGroupPostFilterPlugin,
    PodsLeave,
)
from mooring.framework.contract.points import Reads
from mooring.framework.contract.status import Code, PluginError, Rejection, curable
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.scheduler.decide import deciding
from mooring.scheduler.decision import Placement
from mooring.scheduler.extender_steps import Steps, at_once
from mooring.scheduler.failure import plugin_fault, unusable
from mooring.scheduler.groups.group_placements import GroupAttempt
from mooring.scheduler.groups.trial import Member, give_back, hold_found
from mooring.scheduler.observer import Observer


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
    """Answer the questions of one plugin until its search is over."""
    aside = PodsAside(attempt.core.cluster.nodes)
    try:
        search: GroupSearch = plugin.pod_group_post_filter(failure)
        answer: MembersPlaced | Rejection | None = None
        while True:
            question = next(search) if answer is None else search.send(answer)
            if not isinstance(question, PodsLeave):
                return Rejection((unusable("PodGroupPostFilter", plugin.name, question),), Code.Error)
            aside.take(question.pods)
            answer = yield from _try_again(attempt, aside)
    except StopIteration as end:
        if isinstance(end.value, GroupRoom | Rejection):
            return end.value
        return Rejection((unusable("PodGroupPostFilter", plugin.name, end.value),), Code.Error)
    except (AttemptError, PluginError) as fault:
        return Rejection((str(fault),), Code.Error)
    except Exception as fault:  # a plugin may raise anything: the group fails, and the plugin is named
        return Rejection((plugin_fault("PodGroupPostFilter", plugin.name, fault),), Code.Error)
    finally:
        aside.restore()


def _try_again(attempt: GroupAttempt, aside: "PodsAside") -> Steps["MembersOnNodes | Rejection"]:
    """Try the group on the cluster as it is now, without a trace."""
    unseen = replace(attempt.core, observer=Observer(), tell=None, deciding=deciding)
    again = GroupAttempt(unseen, attempt.runner, attempt.root, attempt.entries, attempt.seed)
    results = yield from again.steps()
    again.give_back(results)
    status = results[attempt.root].status
    if not status.is_success:
        return Rejection((status.message,), status.code)
    return MembersOnNodes(again, again.successful(attempt.root, results), aside)


class MembersOnNodes:
    """Members of a group with the nodes that were found for them. They hold no room between two questions."""

    def __init__(self, attempt: GroupAttempt, members: Sequence[Member], aside: "PodsAside") -> None:
        self._attempt = attempt
        self._members = members
        self._aside = aside
        self._row_book = attempt.core.cluster.nodes.row_book
        self._by_row: dict[int, list[Member]] = {}
        for member in members:
            self._by_row.setdefault(self._row_book[member.node or ""], []).append(member)
        self._are_apart = _read_their_rows(attempt, members)
        """Whether a pod matters to no member but those on its own node."""

    @property
    def nodes(self) -> Mapping[str, str]:
        return {member.entry.key: member.node or "" for member in self._members}

    def reprieve(self, pods: Sequence[Pod]) -> bool:
        """Put pods back if the members fit on their nodes with them. Members are asked about one after another, each with
        those before it in place."""
        self._aside.put_back(pods)
        members = self._concerned(pods)
        fits = True
        try:
            for member in members:
                fits = fits and self._holds(member)
        finally:
            give_back(self._attempt.core, members)
        if not fits:
            self._aside.take(pods)
        return fits

    def _concerned(self, pods: Sequence[Pod]) -> Sequence[Member]:
        """Hot: where filters look at one node at a time, the members on other nodes need not be asked about."""
        if not self._are_apart or any(map(_keeps_others_away, pods)):
            return self._members
        rows = dict.fromkeys(self._row_book.get(pod.spec.node_name, -1) for pod in pods)
        return [member for row in rows for member in self._by_row.get(row, ())]

    def _holds(self, member: Member) -> bool:
        """Hold the room of a member on its node, if it fits there now."""
        core, runner = self._attempt.core, self._attempt.runner
        within = np.zeros(core.cluster.nodes.height, np.bool_)
        within[self._row_book[member.node or ""]] = True
        options = replace(core.options, within=within, extenders=())
        decision = at_once(deciding(runner, member.entry.pod, core.cluster, options, member.seed, None))
        if not isinstance(decision, Placement):
            return False
        found, member.failure = member.node, None
        hold_found(core, runner, member, decision)
        holds, member.node = member.failure is None, found
        return holds


def _read_their_rows(attempt: GroupAttempt, members: Sequence[Member]) -> bool:
    """Whether the filters that have a say about these members look at the pods of one node at a time."""
    runner, cluster = attempt.runner, attempt.core.cluster
    for member in {(id(m.entry.pod.shape), id(m.entry.pod.label_set)): m for m in members}.values():
        try:
            tried = runner.open(member.entry.pod, cluster, member.seed)
            tried.pre_filter()
            if any(runner.filter_reads[index] > Reads.ROW for index, _ in tried.active_filters()):
                return False
        except AttemptError:
            return False
    return True


def _keeps_others_away(pod: Pod) -> bool:
    """Whether a pod may matter to pods on other nodes because of its own anti-affinity."""
    return pod.spec.affinity is not None and pod.spec.affinity.pod_anti_affinity is not None


class PodsAside:
    """Takes pods off their nodes for a while. What is kept of rows that are touched is worked out again."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._away: dict[str, Pod] = {}
        self._before: dict[int, list[Pod]] = {}
        """The pods of rows that were touched, in their order: decisions may depend on it."""

    def take(self, pods: Sequence[Pod]) -> None:
        """Take pods off their nodes. The order of pods on each row is noted, to restore it at the end."""
        for pod in pods:
            row = self._nodes.row_of_pod(pod.id)
            if row is not None:
                self._before.setdefault(row, list(self._nodes.pods_on[row]))
                self._away[pod.id] = self._nodes.displace(pod.id)

    def put_back(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            away = self._away.pop(pod.id, None)
            if away is not None:
                self._nodes.place(away, away.spec.node_name)

    def restore(self) -> None:
        """Put all pods back, in the order of before."""
        self.put_back(list(self._away.values()))
        for row, pods in self._before.items():
            self._nodes.pods_on[row][:] = pods
            self._nodes.pod_touches.note(row)
