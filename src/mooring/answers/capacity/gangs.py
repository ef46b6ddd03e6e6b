"""How many more gangs fit: copies are counted in whole gangs, of which all pods fit or none.

Where nodes do not depend on each other, the pods that fit one by one make so many gangs. Otherwise the scheduler attempts one
gang after another, with a PodGroup of its own for each.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from mooring.answers.capacity.filling import CopyPlacer, Filling, PodCopies, fill_at_once
from mooring.answers.capacity.node_budgets import Budgets, CapacityLimit, LimitReason, NodeBudget, budgets_after
from mooring.answers.capacity.preempting import LivingBudgets, Preempted, count_lower
from mooring.answers.form.published import Count, Form, Positive
from mooring.answers.trial.counterfactual import Edit, PutObject, RemovePod, with_spec
from mooring.answers.trial.group_trials import AskedGroup, GroupOutcome, GroupTrials, has_groups
from mooring.answers.trial.reasons import Reason
from mooring.api.validation.problem import Problem
from mooring.framework.config.feature_gates import with_defaults
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import ObjectMeta
from mooring.model.pod import Pod
from mooring.model.pod_spec import SchedulingGroup
from mooring.model.workloads import GangPolicy, GroupPolicy, PodGroup, PodGroupSpec

MOST_SIZE = 10_000
"""The largest gang that can be asked for."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The gang whose copies are counted."""

    size: int
    """How many pods it has; all of them have to fit."""
    declared: PodGroup


class GangCount(Form, frozen=True):
    """How many gangs fit."""

    size: Positive
    """How many pods a gang has."""
    fits: Count
    """How many gangs fit."""
    room: Count = msgspec.field(name="roomForNext")
    """How many pods of the next gang fit."""


@dataclass(frozen=True, slots=True)
class FilledWithGangs:
    """The result of a count."""

    count: GangCount
    filling: Filling
    """Whole gangs alone."""
    budgets: Budgets
    preempted: Preempted | None = None
    """None: the gang may not preempt, or there is no pod of lower priority."""


def gang_of(loaded: LoadedCluster, copies: PodCopies, size: int | None) -> Gang | None:
    """The gang that is asked for: by its size, or by a PodGroup of the same file that the pod names. None: single pods.

    Raises InputError if a size is given where the scheduler heeds no gangs.
    """
    if not has_groups(loaded.gates):
        if size is None:
            return None
        text = "the scheduler heeds no gangs; add --feature-gates GenericWorkload=true"
        raise InputError([Problem("", text)])
    groups = {item.key: item for item in copies.extras if isinstance(item, PodGroup)}
    declared = groups.get(copies.pod.group_key or "")
    policy = None if declared is None else declared.spec.scheduling_policy.gang
    wanted = policy.min_count if size is None and policy is not None else size
    if wanted is None:
        return None
    return Gang(wanted, declared or _group_like(copies.pod))


def _group_like(pod: Pod) -> PodGroup:
    """A PodGroup for a gang whose size alone is given: it preempts as its pods would."""
    metadata = ObjectMeta(name="gang", namespace=pod.namespace)
    return PodGroup(
        metadata=metadata, spec=PodGroupSpec(priority=pod.priority, preemption_policy=pod.spec.preemption_policy)
    )


def fill_with_gangs(
    loaded: LoadedCluster, copies: PodCopies, gang: Gang, most: int, preempt: bool = False
) -> FilledWithGangs:
    """As many gangs as fit, at most `most` pods; with `preempt`, also those that fit if pods of lower priority leave."""
    spec = gang.declared.spec
    preemptor = _preemptor(loaded, copies.pod, gang.declared)
    lower = count_lower(CopyPlacer(loaded, copies.extras), [preemptor], preempt, are_groups=True)
    preempted = Preempted(preempt, lower) if lower or preempt else None
    found = None
    if spec.scheduling_constraints is None and not spec.resource_claims and not (preempt and lower):
        found = gangs_at_once(loaded, copies, gang, most)
    found = found or gangs_one_by_one(loaded, copies, gang, most, preempted if preempt else None)
    return replace(found, preempted=preempted)


def _preemptor(loaded: LoadedCluster, pod: Pod, group: PodGroup) -> Pod:
    """A pod that preempts as the group does: the group has the priority, and with a gate also the policy."""
    goes_by_group = with_defaults(loaded.gates).get("PodGroupPreemptionPolicy", False)
    policy = group.spec.preemption_policy if goes_by_group else pod.spec.preemption_policy
    return with_spec(pod, priority=group.priority, preemption_policy=policy)


# ---- at once


def gangs_at_once(loaded: LoadedCluster, copies: PodCopies, gang: Gang, most: int) -> FilledWithGangs | None:
    """The pods that fit one by one, without those that make no whole gang."""
    alone = replace(copies, pod=with_spec(copies.pod, scheduling_group=None))
    placer = CopyPlacer(loaded, copies.extras)
    filling = fill_at_once(placer, alone) if copies.workload is None else None
    if filling is None or filling.fits > most:
        return None
    budgets = budgets_after(placer, filling, most)
    fits, room = divmod(filling.fits, gang.size)
    nodes = _without(budgets.nodes, room, alone)
    pods = Counter({(budget.node, copies.name): budget.pods for budget in nodes if budget.pods})
    whole = Filling(pods, fits * gang.size)
    return FilledWithGangs(GangCount(gang.size, fits, room), whole, Budgets(nodes, budgets.limit))


def _without(nodes: Sequence[NodeBudget], number: int, copies: PodCopies) -> list[NodeBudget]:
    """The nodes with so many copies less, taken from those with the fewest."""
    found, left = [], number
    for budget in reversed(nodes):
        taken = min(budget.pods, left)
        left -= taken
        found.append(_with_room_again(budget, taken, copies) if taken else budget)
    return sorted(found, key=lambda budget: (-budget.pods, budget.node))


def _with_room_again(budget: NodeBudget, number: int, copies: PodCopies) -> NodeBudget:
    free = {
        name: amount + number * (1 if name == "pods" else copies.pod.shape.request.get(name, 0))
        for name, amount in budget.free.items()
    }
    return NodeBudget(budget.node, budget.pods - number, {copies.name: budget.pods - number}, free)


# ---- one gang after another


def gangs_one_by_one(
    loaded: LoadedCluster, copies: PodCopies, gang: Gang, most: int, preempted: Preempted | None = None
) -> FilledWithGangs:
    """Until the next gang is not placed, or the limit is reached. Victims are noted in `preempted`; without it, a gang that
    needs victims does not fit."""
    extras = [item for item in copies.extras if not isinstance(item, PodGroup)]
    objects = {(type(item), item.key): item for item in (*loaded.objects, *extras)}
    there = replace(loaded, objects=[*objects.values()])
    trials = GroupTrials(there, AskedGroup("", None))
    placer, filling, fits = CopyPlacer(there), Filling(), 0
    priority = _preemptor(there, copies.pod, gang.declared).priority
    may_preempt = preempted is not None and preempted.lower_priority > 0
    leaving = _Leaving(there, placer, copies, gang.size, priority if may_preempt else None)
    while True:
        group, edits = _copy(copies, gang, fits, with_defaults(loaded.gates))
        filling.refused, filling.pod = copies, with_spec(group.pending[0], scheduling_group=None)
        if (fits + 1) * gang.size > most:
            return _result(placer, filling, GangCount(gang.size, fits, 0), CapacityLimit(copies.name, most=most))
        edits += leaving.edits()
        outcome = trials.attempt(edits, group, explain=True, keep=True)
        gone = leaving.take_ending() if not outcome.is_placed else []
        if gone:
            outcome = trials.attempt([*map(RemovePod, gone), *edits], group, explain=True, keep=True)
        if not outcome.is_placed or (outcome.victims and preempted is None):
            count = GangCount(gang.size, fits, len(outcome.record.nodes))
            return _result(placer, filling, count, _limit(copies, outcome))
        fits += 1
        if preempted is not None and (gone or outcome.victims):
            leaving.leave([*(pod.key for pod in gone), *outcome.victims], preempted)
        for pod in group.pending:
            placer.cluster.nodes.place(pod.with_node(outcome.nodes[pod.key]), outcome.nodes[pod.key])
            filling.pods[outcome.nodes[pod.key], copies.name] += 1
        filling.fits += gang.size


class _Leaving:
    """Takes the victims of gangs off the nodes of a placer, and keeps disruption budgets up to date."""

    def __init__(
        self, loaded: LoadedCluster, placer: CopyPlacer, copies: PodCopies, size: int, priority: int | None
    ) -> None:
        """`priority` is that of gangs which may preempt."""
        self._placer, self._copies, self._size = placer, copies, size
        self._pods = {pod.key: pod for pod in placer.cluster.nodes.pods()}
        self._budgets = LivingBudgets(loaded, placer)
        of_victim = placer.cluster.group_tree.victim_priority
        self._ending = [
            pod
            for pod in self._pods.values()
            if priority is not None and pod.is_terminating and of_victim(pod) < priority
        ]

    def take_ending(self) -> list[Pod]:
        """The pods of lower priority that are being deleted already, once: a gang waits for them if it needs their room."""
        ending, self._ending = self._ending, []
        return ending

    def edits(self) -> list[Edit]:
        """The budgets that changed since the gang before."""
        return [PutObject(budget) for budget in self._budgets.take_changed()]

    def leave(self, keys: Sequence[str], preempted: Preempted) -> None:
        victims = [self._placer.cluster.nodes.displace(self._pods[key].id) for key in keys]
        preempted.note(victims, self._copies.name, self._size, self._budgets)


def _copy(copies: PodCopies, gang: Gang, number: int, gates: Mapping[str, bool]) -> tuple[AskedGroup, list[Edit]]:
    """The gang with this number: its PodGroup and claims as edits, and its pods."""
    name = f"{gang.declared.name}-{number}"
    metadata = msgspec.structs.replace(gang.declared.metadata, name=name, uid=f"gang {name}")
    policy = GroupPolicy(gang=GangPolicy(gang.size))
    spec: PodGroupSpec = msgspec.structs.replace(gang.declared.spec, scheduling_policy=policy)
    declared = PodGroup(metadata=metadata, spec=spec)
    made = [copies.copy(number * gang.size + i) for i in range(gang.size)]
    pods = [with_spec(pod, scheduling_group=SchedulingGroup(name)) for pod, _ in made]
    edits: list[Edit] = [PutObject(declared), *(PutObject(claim) for _, claims in made for claim in claims)]
    return AskedGroup(declared.key, declared, pods, gates=gates), edits


def _result(placer: CopyPlacer, filling: Filling, count: GangCount, limit: CapacityLimit) -> FilledWithGangs:
    filling.cluster = placer.cluster
    budgets = budgets_after(placer, filling, 0)
    return FilledWithGangs(count, filling, Budgets(budgets.nodes, limit))


def _limit(copies: PodCopies, outcome: GroupOutcome) -> CapacityLimit:
    """Why the first pod of the next gang that fits nowhere does not."""
    rejected = next(iter(outcome.record.rejected.values()), None)
    if rejected is None:
        message = next((text for text in outcome.messages.values() if text), "")
        return CapacityLimit(copies.name, [LimitReason("", message, 0)], message)
    return CapacityLimit(copies.name, [_told(reason) for reason in rejected.reasons], rejected.message)


def _told(reason: Reason) -> LimitReason:
    return LimitReason(reason.plugin, reason.message, reason.count, next(iter(reason.amounts), None))
