"""Preemption for a whole pod group (gate WorkloadAwarePreemption): a plugin searches for victims in the whole cluster, and
its questions are answered by trials of the group without them.

Trials run on the cluster itself, with the pods put aside that a question names. All of them are back where they were when
the search is over, whatever happens.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.group_post_filter import (
    UNSCHEDULABLE_GROUP,
    GroupFitError,
    GroupSearch,
    GroupVictims,
    MovedPods,
    PodGroupPostFilterPlugin,
)
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.group_context import group_not_found
from mooring.framework.contract.points import Nomination
from mooring.framework.contract.status import Code, Rejection, curable, describe
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.scheduler.core import Core
from mooring.scheduler.decide import deciding
from mooring.scheduler.decision import NoFit
from mooring.scheduler.evict import WHOLE_CLUSTER, evict
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.groups.counting import has_binding_work, members_needed
from mooring.scheduler.groups.trial import GroupTrial, Member
from mooring.scheduler.observer import Observer

GATE = "WorkloadAwarePreemption"
_NO_PLUGIN = curable("default preemption plugin is not registered, workload aware preemption is disabled")
_HAS_CONSTRAINTS = curable("workload aware preemption is not supported for pod groups with scheduling constraints")


class GroupPreemption(msgspec.Struct, frozen=True):
    """What a search for victims came to."""

    victims: GroupVictims | None = None
    found_by: PodGroupPostFilterPlugin | None = None
    refusal: Rejection | None = None
    """Why no room can be made; with the code Error, the group fails with it."""


def preempt(core: Core, runner: Runner, trial: GroupTrial) -> Steps[GroupPreemption]:
    """Search for the victims that make room for the group. The trial has given its room back."""
    plugin = next(
        (each for each in runner.profile.plugins.values() if isinstance(each, PodGroupPostFilterPlugin)), None
    )
    if plugin is None:
        return GroupPreemption(refusal=_NO_PLUGIN)
    key = trial.members[0].entry.pod.group_key or ""
    group = core.cluster.pod_group(key)
    if group is None:
        text = f"failed to get pod group object: {group_not_found(key)}"
        return GroupPreemption(refusal=Rejection((text,), Code.Error))
    if group.topology_key is not None:
        return GroupPreemption(refusal=_HAS_CONSTRAINTS)
    found = yield from _run(core, runner, trial, plugin, _fit_error(core, runner, trial, group))
    if isinstance(found, Rejection):
        return GroupPreemption(refusal=found)
    return GroupPreemption(found, plugin)


def make_room(core: Core, trial: GroupTrial, found: GroupPreemption) -> None:
    """Evict the victims of a search for the group as one. Members are gated until all evictions are answered."""
    if found.victims is not None and found.found_by is not None:
        members = tuple(member.entry.pod for member in trial.members)
        evict(core, members[0], Nomination(WHOLE_CLUSTER, found.victims.pods), found.found_by, members)


def _fit_error(core: Core, runner: Runner, trial: GroupTrial, group: PodGroup) -> GroupFitError:
    rejected = next((m.decision.failure for m in trial.members if isinstance(m.decision, NoFit)), None)
    if rejected is not None and rejected.verdicts is None:
        rejected = None
    members = tuple(member.entry.pod for member in trial.members)
    return GroupFitError(group, members, core.cluster, _enough(core, runner, trial), rejected)


def _enough(core: Core, runner: Runner, trial: GroupTrial) -> int | None:
    """How many members must find a node, if the number alone decides; None: other plugins, or extenders, have a say."""
    decisions = [member.decision for member in trial.members]
    attempts = [each.failure.attempt for each in decisions if isinstance(each, NoFit) and each.failure]
    pod = trial.members[0].entry.pod
    known = core.cluster.groups.of(pod) if core.cluster.groups is not None else None
    if core.options.extenders or known is None or any(has_binding_work(runner, attempt) for attempt in attempts):
        return None
    return members_needed(runner, pod, known.scheduled_count)


def _run(
    core: Core, runner: Runner, trial: GroupTrial, plugin: PodGroupPostFilterPlugin, failure: GroupFitError
) -> Steps[GroupVictims | Rejection]:
    """Answer the questions of a search until it is over."""
    aside = PodsAside(core.cluster.nodes)
    try:
        search: GroupSearch = plugin.pod_group_post_filter(failure)
        answer: Rejection | None = None
        while True:
            try:
                question = search.send(answer)
            except StopIteration as end:
                found: GroupVictims | Rejection = end.value
                return found
            except Exception as fault:  # a plugin may raise anything: the group fails, and the plugin is named
                text = f'running PodGroupPostFilter plugin "{plugin.name}": {describe(fault)}'
                return Rejection((text,), Code.Error)
            aside.move(question)
            answer = yield from _try_again(core, runner, trial.members)
    finally:
        aside.restore()


def _try_again(core: Core, runner: Runner, members: Iterable[Member]) -> Steps[Rejection | None]:
    """Try the group on the cluster as it is now, without PostFilter and without a trace. None: it fits."""
    unseen = replace(core, observer=Observer(), tell=None, deciding=deciding)
    again = [Member(member.entry, member.seed) for member in members]
    trial = GroupTrial(unseen, runner, again, makes_room=False)
    try:
        yield from trial.steps()
        if trial.error is not None:
            text = f"failed to schedule other pod from a pod group: {trial.error.message}"
            return Rejection((text,), Code.Error)
        return None if trial.is_feasible else curable(UNSCHEDULABLE_GROUP)
    finally:
        trial.give_back()


class PodsAside:
    """Takes pods off their nodes for a while. What is kept of rows that are touched is worked out again."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._away: dict[str, Pod] = {}
        self._before: dict[int, list[Pod]] = {}
        """The pods of rows that were touched, in their order: decisions may depend on it."""

    def move(self, moved: MovedPods) -> None:
        for pod in moved.leave:
            row = self._nodes.row_of_pod(pod.id)
            if row is not None:
                self._before.setdefault(row, list(self._nodes.pods_on[row]))
                self._away[pod.id] = self._nodes.displace(pod.id)
        for pod in moved.come_back:
            self._put_back(pod.id)

    def restore(self) -> None:
        for pod_id in list(self._away):
            self._put_back(pod_id)
        for row, pods in self._before.items():
            self._nodes.pods_on[row][:] = pods
            self._nodes.pod_touches.note(row)

    def _put_back(self, pod_id: str) -> None:
        pod = self._away.pop(pod_id, None)
        if pod is not None:
            self._nodes.place(pod, pod.spec.node_name)
