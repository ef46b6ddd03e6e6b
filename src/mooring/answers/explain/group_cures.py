"""Cures of a pod group: changes after which the scheduler places it, each tried by an attempt of the whole group.

Changes of pods are those of single pods (`answers/cures`), made to all pods of the group that are rejected alike. Changes
around them are sized for the group: as many nodes or leaving pods as it takes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from mooring.answers.explain.cure import (
    ANOTHER_NODE,
    BROKEN_BUDGET,
    CHANGE_RULE,
    EACH,
    GIVE_UP_ALL,
    MORE_NODES,
    RAISE_PRIORITY,
    VICTIM,
    Cure,
    Patient,
    SearchBudget,
    smallest,
)
from mooring.answers.explain.cure_search import Cures, by_asking_less, by_asking_less_twice, without_gates
from mooring.answers.explain.cures_by_others import (
    MAX_NODES,
    broken_budgets,
    by_mending,
    by_uncordoning,
    kinds_of_nodes,
    leaving_pods,
    one_more_like,
    removal,
)
from mooring.answers.explain.pod_rule_cures import class_for, smallest_priority, with_priority
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, Edit, PutObject, RemovePod
from mooring.answers.trial.group_trials import AskedGroup, GroupOutcome, GroupTrials, kind_of
from mooring.cluster.cluster import Cluster
from mooring.kit.words import count, some
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

# ---- Pods that could leave so that one more pod of a group fits on their node, counted in resources alone.


def leavers_by_node(cluster: Cluster, member: Pod) -> list[list[Pod]]:
    """For each node that can hold one more such pod if some leave: the fewest found that have to.

    Nodes whose pods have the lowest priorities come first, then those from which few leave. Whether the group is placed then,
    an attempt has to tell.
    """
    found = []
    for row, name in enumerate(cluster.nodes.names[: cluster.nodes.height]):
        leavers = _leavers(cluster, row, member) if cluster.nodes.alive[row] else []
        if leavers:
            found.append(((max(pod.priority for pod in leavers), len(leavers), name), leavers))
    return [leavers for _, leavers in sorted(found, key=lambda each: each[0])]


def _leavers(cluster: Cluster, row: int, member: Pod) -> list[Pod]:
    """The pods that have to leave a node for one more slot; none if they would free too little."""
    wants = {name: amount for name, amount in member.shape.request.items() if amount}
    free = {name: cluster.nodes.amounts.free_on(name, [row])[0] for name in wants}
    slots = min((free[name] // wants[name] for name in wants), default=0)
    lack = {name: (max(slots, 0) + 1) * wants[name] - free[name] for name in wants}
    pods, chosen = leaving_pods(cluster, row), list[Pod]()
    for pod in sorted(pods, key=lambda pod: (pod.priority, _left(lack, pod), -_freed(lack, pod), pod.key)):
        if all(amount <= 0 for amount in lack.values()):
            break
        if _freed(lack, pod):
            chosen.append(pod)
            lack = {name: amount - pod.shape.held.get(name, (0, 0))[0] for name, amount in lack.items()}
    return chosen if all(amount <= 0 for amount in lack.values()) else []


def _left(lack: Mapping[str, int], pod: Pod) -> bool:
    """Whether something is still missing when the pod has left."""
    return any(amount > pod.shape.held.get(name, (0, 0))[0] for name, amount in lack.items())


def _freed(lack: Mapping[str, int], pod: Pod) -> float:
    """How much of what is missing the pod frees, in shares."""
    return sum(min(amount, pod.shape.held.get(name, (0, 0))[0]) / amount for name, amount in lack.items() if amount > 0)


MAX_KINDS = 3
"""For how many kinds of rejected pods changes of the pods are looked for."""
MAX_LEAVING_NODES = 64
"""From how many nodes pods are removed at most."""


@dataclass(frozen=True, slots=True)
class GroupPatient(Patient):
    """Pods of a group that are rejected alike; `pod` is the first of them. They are changed together."""

    group_trials: GroupTrials
    alike: tuple[Pod, ...]

    def node_for(self, pod: Pod) -> str | None:
        """The node of the pod, once all that are alike have this form and the group is placed."""
        outcome = self.tried([ChangePod(pod)])
        return None if outcome is None else outcome.nodes.get(pod.key) or next(iter(outcome.nodes.values()))

    def cured(self, kind: str, change: str, cost: float, *edits: Edit) -> Cure | None:
        outcome = self.tried(edits)
        return None if outcome is None else Cure(kind, change, outcome.where(), cost, tuple(self.for_all(edits)))

    def tried(self, edits: Sequence[Edit], may_evict: bool = False) -> GroupOutcome | None:
        """The outcome of the group's attempt after the edits; None if it is not placed, or the search has to give up."""
        if not self.budget.is_left():
            return None
        made = self.for_all(edits)
        forms = {edit.pod.key: edit.pod for edit in made if isinstance(edit, ChangePod)}
        others = [edit for edit in made if not isinstance(edit, ChangePod)]
        outcome = self.group_trials.attempt(others, self._group(others).with_pods(forms))
        return outcome if outcome.is_placed and (may_evict or not outcome.victims) else None

    def _group(self, edits: Sequence[Edit]) -> AskedGroup:
        """The group as edits make it: they may replace the PodGroup."""
        group = self.group_trials.group
        for edit in edits:
            if isinstance(edit, PutObject) and isinstance(edit.item, PodGroup) and edit.item.key == group.key:
                group = replace(group, declared=edit.item)
        return group

    def for_all(self, edits: Sequence[Edit]) -> list[Edit]:
        """The edits, with a change of the first pod made to all that are alike."""
        made: list[Edit] = []
        for edit in edits:
            if isinstance(edit, ChangePod) and edit.pod.key == self.pod.key:
                made += [ChangePod(_in_form(pod, edit.pod)) for pod in self.alike]
            else:
                made.append(edit)
        return made


def _in_form(pod: Pod, form: Pod) -> Pod:
    if pod.key == form.key:
        return form
    return Pod(metadata=pod.metadata, spec=form.spec, status=msgspec.structs.replace(pod.status))


def find_group_cures(group_trials: GroupTrials, trials: Counterfactual, outcome: GroupOutcome, decisions: int) -> Cures:
    """Cures for a group that is not placed now, the cheapest first. `outcome` is that of its attempt without edits."""
    budget = SearchBudget(group_trials, decisions)
    patients = _patients(group_trials, trials, outcome, budget)
    found = list(_by_smaller_minimum(patients[0], outcome))
    if group_trials.group.member_count >= group_trials.group.min_count:
        for patient in patients[:MAX_KINDS]:
            less = [*by_asking_less(patient)]
            found += less or by_asking_less_twice(patient)
        for search in _SEARCHES:
            found += islice(search(patients[0]), EACH)
        found += _by_leaving(patients[0], outcome)
    return Cures(sorted(found, key=lambda cure: (cure.cost, cure.change)), budget.was_exhausted)


def _patients(
    group_trials: GroupTrials, trials: Counterfactual, outcome: GroupOutcome, budget: SearchBudget
) -> list[GroupPatient]:
    """One for each kind of pods that were rejected; the whole group if none was."""
    pending = group_trials.group.pending
    rejected = {kind_of(pod) for pod in pending if pod.key in outcome.record.rejected}
    kinds: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pending:
        if not rejected or kind_of(pod) in rejected:
            kinds.setdefault(kind_of(pod), []).append(pod)
    return [GroupPatient(alike[0], trials, budget, group_trials, tuple(alike)) for alike in kinds.values()]


# ---- the group itself


def _by_smaller_minimum(patient: GroupPatient, outcome: GroupOutcome) -> Iterator[Cure]:
    """The largest minimum with which the group goes: as many pods as run or have room."""
    group = patient.group_trials.group
    fits = len(group.placed) + (len(outcome.record.nodes) or len(group.pending))
    number = min(fits, group.min_count - 1, group.member_count)
    if not group.is_all_or_nothing or number < 1:
        return
    text = f"create the PodGroup again with minCount {number} instead of {group.min_count}"
    cost = CHANGE_RULE + GIVE_UP_ALL * (group.min_count - number) / group.min_count
    yield from patient.cures("lower-min-count", text, cost, PutObject(group.with_min_count(number)))


def _without_topology(patient: Patient) -> Iterator[Cure]:
    """A group that may be spread over several domains."""
    assert isinstance(patient, GroupPatient)
    declared = patient.group_trials.group.declared
    if declared is None or declared.topology_key is None:
        return
    spec = msgspec.structs.replace(declared.spec, scheduling_constraints=None)
    anywhere: KubeObject = msgspec.structs.replace(declared, spec=spec)
    text = f"create the PodGroup again without the topology {declared.topology_key}"
    yield from patient.cures("drop-topology", text, CHANGE_RULE, PutObject(anywhere))


# ---- nodes


def _by_more_nodes(patient: Patient) -> Iterator[Cure]:
    """As many new nodes of one kind as the group needs, for each kind that suffices."""
    assert isinstance(patient, GroupPatient)
    most = len(patient.group_trials.group.pending)
    for model, number in kinds_of_nodes(patient.trials.cluster)[:MAX_NODES]:
        nodes = [one_more_like(patient.trials.cluster, model, i) for i in range(1, most + 1)]
        needed = _smallest(lambda n, nodes=nodes: patient.tried(_flat(nodes[:n])) is not None, most)  # type: ignore[misc]
        if needed is not None:
            alike = f"{number} like it" if number > 1 else "the only one of its kind"
            text = f"add {count(needed, 'node')} like {model.name} ({alike})"
            cost = MORE_NODES + ANOTHER_NODE * (needed - 1)
            yield from patient.cures("add-node", text, cost, *_flat(nodes[:needed]))


def _flat(nodes: Sequence[Sequence[Edit]]) -> list[Edit]:
    return [edit for edits in nodes for edit in edits]


def _smallest(suffices: Callable[[int], bool], most: int) -> int | None:
    """The smallest number from 1 to `most` that suffices, by doubling and halving; None if none does.

    A kind of node that holds no pod at all is the usual no: the largest number is tried first.
    """
    if most < 1 or not suffices(most):
        return None
    high = 1
    while high < most and not suffices(high):
        high *= 2
    return smallest(suffices, high // 2, min(high, most))


# ---- other pods


def _by_priority(patient: Patient) -> Iterator[Cure]:
    """The smallest priority with which preemption makes room for the group."""
    assert isinstance(patient, GroupPatient)

    def evicting(priority: int) -> GroupOutcome | None:
        outcome = patient.tried(_with_priorities(patient, priority), may_evict=True)
        return outcome if outcome is not None and outcome.victims else None

    found = smallest_priority(patient, max(pod.priority for pod in patient.group_trials.group.pending), evicting)
    if found is not None:
        yield _raised(patient, *found)


def _raised(patient: GroupPatient, priority: int, outcome: GroupOutcome) -> Cure:
    pods = {pod.key: pod for pod in patient.trials.cluster.nodes.pods()}
    broken = broken_budgets(patient, [pods[key] for key in outcome.victims if key in pods])
    before = max(pod.priority for pod in patient.group_trials.group.pending)
    text = f"raise the priority of its pods from {before} to {priority}{class_for(patient, priority)}"
    cost = RAISE_PRIORITY + VICTIM * len(outcome.victims) + BROKEN_BUDGET * broken
    edits = _with_priorities(patient, priority)
    return Cure("raise-priority", text, outcome.where(), cost, tuple(edits), tuple(outcome.victims), broken)


def _with_priorities(patient: GroupPatient, priority: int) -> list[Edit]:
    """All pods of the group with the priority, and the PodGroup itself: which of them counts is the scheduler's matter."""
    group = patient.group_trials.group
    assert group.declared is not None
    spec = msgspec.structs.replace(group.declared.spec, priority=priority)
    declared: KubeObject = msgspec.structs.replace(group.declared, spec=spec)
    return [PutObject(declared), *(ChangePod(with_priority(pod, priority)) for pod in group.pending)]


def _by_leaving(patient: GroupPatient, outcome: GroupOutcome) -> Iterator[Cure]:
    """The fewest pods found whose leaving makes room: from as many nodes as it takes, then back as many as can stay."""
    nodes = leavers_by_node(patient.trials.cluster, patient.pod)[:MAX_LEAVING_NODES]
    number = _smallest(lambda n: patient.tried(_removals(nodes[:n])) is not None, len(nodes))
    if number is None:
        return
    leavers = [pod for pods in nodes[:number] for pod in pods]
    for pod in list(leavers):
        fewer = [other for other in leavers if other is not pod]
        if fewer and patient.tried(_removals([fewer])) is not None:
            leavers = fewer
    found = patient.tried(_removals([leavers]))
    if found is not None:
        yield removal(patient, leavers, f"remove {some([pod.key for pod in leavers], EACH)}", found.where())


def _removals(nodes: Sequence[Sequence[Pod]]) -> list[Edit]:
    return [RemovePod(pod) for pods in nodes for pod in pods]


_SEARCHES: tuple[Callable[[Patient], Iterator[Cure]], ...] = (
    without_gates,
    _without_topology,
    by_uncordoning,
    _by_priority,
    by_mending,
    _by_more_nodes,
)
"""The searches that find one kind of cure each."""
