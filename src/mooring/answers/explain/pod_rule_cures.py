"""Cures by changing the rules of the pod about other pods, ports and taints; and cures by preemption: a higher
priority, or leave to preempt, with which the scheduler evicts others for the pod.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import msgspec

from mooring.answers.explain.cure import (
    BROKEN_BUDGET,
    CHANGE_RULE,
    RAISE_PRIORITY,
    TOLERATE,
    VICTIM,
    Cure,
    CureChange,
    Patient,
    Relaxation,
    smallest,
)
from mooring.answers.explain.cures_by_others import broken_budgets, waiting_for
from mooring.answers.trial.changing_nodes import STATE_TAINTS
from mooring.answers.trial.counterfactual import ChangePod, RemovePod, with_spec
from mooring.answers.trial.reasons import show_requirement, show_taint
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Nomination
from mooring.model.meta import LabelSelector
from mooring.model.node import HARD_EFFECTS, Taint
from mooring.model.pod import Pod, without_nomination
from mooring.model.pod_spec import Affinity, Container, PodAffinityTerm, Toleration, TopologySpreadConstraint
from mooring.model.shape import collide

# ---- Cures by asking less of the pods around: spread constraints, required pod affinity and anti-affinity, host
# ports.


MAX_TERMS = 20
"""How many constraints or terms are tried one by one."""
MAX_VALUES = 40
"""How many values of a selector a sentence names."""
_HARD = "DoNotSchedule"
Side = Literal["pod_affinity", "pod_anti_affinity"]
SPREAD = "PodTopologySpread"
_SIDES: tuple[tuple[Side, str], ...] = (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity"))


class SpreadLess(Relaxation):
    """Spread constraints that must be satisfied."""

    def relax(self, pod: Pod) -> Pod | None:
        if not _hard(pod):
            return None
        constraints = pod.spec.topology_spread_constraints or ()
        return with_spec(pod, topology_spread_constraints=[each for each in constraints if not _is_hard(each)] or None)

    def alone(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        """A larger maxSkew, the smallest that helps, or a preference instead, for one constraint."""
        for each in _hard(pod)[:MAX_TERMS]:
            if (
                change := _larger_skew(patient, pod, each, lambda form: patient.node_for(form) is not None)
            ) is not None:
                yield change
            yield _as_preference(each, _soft_keys(pod))

    def together(self, pod: Pod) -> CureChange | None:
        soft = _soft_keys(pod)
        changes = [_as_preference(each, soft) for each in _hard(pod)]
        if len(changes) < 2:
            return None
        are_plain = all(change.kind == "prefer-spread" and "without" not in change.text for change in changes)
        text = "make all spread constraints ScheduleAnyway" if are_plain else ", and ".join(c.text for c in changes)
        return CureChange("drop-spread", text, CHANGE_RULE * len(changes), _all_preferred)


def _all_preferred(pod: Pod) -> Pod:
    """The pod with preferences instead of all its hard constraints, one for each label."""
    soft, left = _soft_keys(pod), []
    for each in pod.spec.topology_spread_constraints or ():
        if not _is_hard(each):
            left.append(each)
        elif each.topology_key not in soft:
            left.append(msgspec.structs.replace(each, when_unsatisfiable="ScheduleAnyway", min_domains=None))
    return with_spec(pod, topology_spread_constraints=left)


def _soft_keys(pod: Pod) -> set[str]:
    """The labels over which the pod has a preference."""
    return {each.topology_key for each in pod.spec.topology_spread_constraints or () if not _is_hard(each)}


def _hard(pod: Pod) -> list[TopologySpreadConstraint]:
    """The constraints that must be satisfied."""
    return [each for each in pod.spec.topology_spread_constraints or () if _is_hard(each)]


def _is_hard(constraint: TopologySpreadConstraint) -> bool:
    return constraint.when_unsatisfiable == _HARD


def _larger_skew(
    patient: Patient, pod: Pod, constraint: TopologySpreadConstraint, fits: Callable[[Pod], bool]
) -> CureChange | None:
    """The smallest maxSkew of a constraint with which the pod fits; None if none is large enough."""
    low, high = constraint.max_skew, constraint.max_skew + len(patient.trials.cluster.nodes.pods()) + 1
    key = constraint.topology_key
    if not fits(_with_constraint(pod, key, max_skew=high)):
        return None
    skew = smallest(lambda number: fits(_with_constraint(pod, key, max_skew=number)), low, high)
    text = f"raise maxSkew over {key} from {low} to {skew}"
    return CureChange("raise-skew", text, CHANGE_RULE - 1, lambda pod: _with_constraint(pod, key, max_skew=skew))


def _as_preference(constraint: TopologySpreadConstraint, soft: set[str]) -> CureChange:
    """The constraint as a preference; without it, if the pod has a preference over the same label, as `soft` says. An API
    server rejects two of them, and minDomains in one."""
    key = constraint.topology_key
    if key in soft:
        text = f"drop the spread over {key} (whenUnsatisfiable: DoNotSchedule)"
        return CureChange("drop-spread", text, CHANGE_RULE, lambda pod: _without_constraint(pod, key))
    more = "" if constraint.min_domains is None else ", without minDomains"
    text = f"make the spread over {key} a preference (whenUnsatisfiable: ScheduleAnyway{more})"
    return CureChange(
        "prefer-spread",
        text,
        CHANGE_RULE,
        lambda pod: _with_constraint(pod, key, when_unsatisfiable="ScheduleAnyway", min_domains=None),
    )


def _with_constraint(pod: Pod, key: str, **changes: object) -> Pod:
    """The pod with another form of its hard constraint over a label."""
    constraints = list(pod.spec.topology_spread_constraints or ())
    for i, each in enumerate(constraints):
        if each.topology_key == key and _is_hard(each):
            changed: TopologySpreadConstraint = msgspec.structs.replace(each, **changes)
            constraints[i] = changed
            break
    return with_spec(pod, topology_spread_constraints=constraints)


def _without_constraint(pod: Pod, key: str) -> Pod:
    constraints = pod.spec.topology_spread_constraints or ()
    left = [each for each in constraints if each.topology_key != key or not _is_hard(each)]
    return with_spec(pod, topology_spread_constraints=left or None)


class DropAffinity(Relaxation):
    """Required terms about other pods, of both kinds."""

    def relax(self, pod: Pod) -> Pod | None:
        if not any(_terms(pod, side) for side, _ in _SIDES):
            return None
        form = pod
        for side, _ in _SIDES:
            form = _with_terms(form, side, [])
        return form

    def alone(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        return _dropped_terms(pod)

    def together(self, pod: Pod) -> CureChange:
        text = "drop all required pod affinity and anti-affinity"
        return CureChange("drop-affinity", text, 2 * CHANGE_RULE, lambda pod: self.relax(pod) or pod)


def _dropped_terms(pod: Pod) -> Iterator[CureChange]:
    """The pod without one of its required terms."""
    for side, name in _SIDES:
        shown = {_show_term(term): term for term in _terms(pod, side)[:MAX_TERMS]}
        for words, term in shown.items():
            text = f"drop the required pod {name} {words}"
            yield CureChange("drop-affinity", text, CHANGE_RULE, _without_term(side, term))


def _terms(pod: Pod, side: Side) -> list[PodAffinityTerm]:
    group = getattr(pod.spec.affinity, side) if pod.spec.affinity is not None else None
    return list(group.required or ()) if group is not None else []


def _with_terms(pod: Pod, side: Side, terms: list[PodAffinityTerm]) -> Pod:
    affinity = pod.spec.affinity
    group = getattr(affinity, side) if affinity is not None else None
    if affinity is None or group is None:
        return pod
    changed: Affinity = msgspec.structs.replace(
        affinity, **{side: msgspec.structs.replace(group, required=terms or None)}
    )
    return with_spec(pod, affinity=changed)


def _without_term(side: Side, term: PodAffinityTerm) -> Callable[[Pod], Pod]:
    """Drop the terms that are shown like this one: who reads the sentence cannot tell them apart."""

    def is_meant(other: PodAffinityTerm) -> bool:
        return (other.topology_key, other.label_selector) == (term.topology_key, term.label_selector)

    return lambda pod: _with_terms(pod, side, [each for each in _terms(pod, side) if not is_meant(each)])


def _show_term(term: PodAffinityTerm) -> str:
    return f"over {term.topology_key} ({_show_selector(term.label_selector)})"


def _show_selector(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no pods"
    lines = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    lines += [show_requirement(e.key, e.operator, e.values or (), MAX_VALUES) for e in selector.match_expressions or ()]
    return ", ".join(lines) or "all pods"


class DropHostPorts(Relaxation):
    """Ports of the node."""

    def relax(self, pod: Pod) -> Pod | None:
        if not pod.shape.host_ports:
            return None
        return _without_ports(pod, {port for _, _, port in pod.shape.host_ports})

    def alone(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        """One port, and then all of them."""
        ports = list(dict.fromkeys(port for _, _, port in pod.shape.host_ports))
        for chosen in [[port] for port in ports[:MAX_TERMS]] + ([ports] if len(ports) > 1 else []):
            yield _dropped_ports(pod, chosen)


def _dropped_ports(pod: Pod, ports: Sequence[int]) -> CureChange:
    """A pod in the network of its node has the ports of its containers anyway, so it leaves that, too, and says so."""
    text = "do without hostNetwork and hostPort" if pod.spec.host_network else "do without hostPort"
    text = f"{text} {', '.join(map(str, ports))}"
    cost = CHANGE_RULE * (len(ports) + pod.spec.host_network)
    return CureChange("drop-port", text, cost, lambda pod: _without_ports(pod, set(ports)))


def _without_ports(pod: Pod, ports: set[int]) -> Pod:
    """The pod without these host ports, outside the network of its node."""
    init = pod.spec.init_containers
    return with_spec(
        pod,
        containers=[_closed(each, ports) for each in pod.spec.containers],
        init_containers=None if init is None else [_closed(each, ports) for each in init],
        host_network=False,
    )


def _closed(container: Container, ports: set[int]) -> Container:
    kept = [
        msgspec.structs.replace(port, host_port=0) if port.host_port in ports else port
        for port in container.ports or ()
    ]
    return msgspec.structs.replace(container, ports=kept) if container.ports else container


MAX_TAINT_SETS = 40
"""How many different sets of taints are tried, those of most nodes first."""


class Tolerate(Relaxation):
    """Taints that the pod does not tolerate."""

    def relax(self, pod: Pod) -> Pod | None:
        return _tolerating(pod, [Toleration(operator="Exists")])

    def alone(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        yield from map(_toleration_of, taint_sets(patient.trials.cluster.nodes, pod))


def taint_sets(nodes: NodeTable, pod: Pod) -> list[frozenset[Taint]]:
    """The sets of taints that keep the pod from nodes, the smallest first, then those of most nodes."""
    counts: Counter[frozenset[Taint]] = Counter()
    for node in nodes.nodes:
        for_pod = (node.spec.taints or ()) if node is not None else ()
        hard = frozenset(t for t in for_pod if t.effect in HARD_EFFECTS and not pod.shape.tolerance.covers(t))
        # A node that is not ready or cordoned is mended, not tolerated.
        if hard and not any(taint.key.startswith(STATE_TAINTS) for taint in hard):
            counts[hard] += 1
    return sorted(counts, key=lambda taints: (len(taints), -counts[taints], sorted(map(show_taint, taints))))[
        :MAX_TAINT_SETS
    ]


def _toleration_of(taints: frozenset[Taint]) -> CureChange:
    ordered = sorted(taints, key=show_taint)
    tolerations = [Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in ordered]
    text = f"tolerate the taint {' and '.join(map(show_taint, ordered))}"
    return CureChange("tolerate", text, TOLERATE * len(ordered), lambda pod: _tolerating(pod, tolerations))


def _tolerating(pod: Pod, more: list[Toleration]) -> Pod:
    return with_spec(pod, tolerations=[*(pod.spec.tolerations or ()), *more])


# ---- one node


def tolerate_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The taints of a node that the pod does not tolerate, but for those that tell that the node is out of order."""
    if taints := untolerated(patient, row):
        yield _toleration_of(frozenset(taints))


def untolerated(patient: Patient, row: int) -> list[Taint]:
    """The taints of a node that people gave it and that keep the pod away."""
    node = patient.trials.cluster.nodes.nodes[row]
    return [
        taint
        for taint in (node.taints if node is not None else ())
        if taint.effect in HARD_EFFECTS
        and not taint.key.startswith(STATE_TAINTS)
        and not patient.pod.shape.tolerance.covers(taint)
    ]


def spread_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """Each hard constraint as a preference, or with the smallest maxSkew with which it lets the pod go to a node."""

    def fits(form: Pod) -> bool:
        reason = patient.rejection_on(form, row)
        return reason is None or reason.plugin != SPREAD

    for each in _hard(patient.pod)[:MAX_TERMS]:
        if (change := _larger_skew(patient, patient.pod, each, fits)) is not None:
            yield change
        yield _as_preference(each, _soft_keys(patient.pod))
    if (together := SpreadLess().together(patient.pod)) is not None:
        yield together


def relate_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """Each required term about other pods, dropped, and all of them."""
    changes = [*_dropped_terms(patient.pod)]
    yield from changes
    if len(changes) > 1:
        yield DropAffinity().together(patient.pod)


def ports_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The host ports that pods of a node have already."""
    held = [port for pod in patient.trials.cluster.nodes.pods_on[row] for port in pod.shape.host_ports]
    taken = dict.fromkeys(own[2] for own in patient.pod.shape.host_ports if any(collide(own, each) for each in held))
    if taken:
        yield _dropped_ports(patient.pod, [*taken])


T = TypeVar("T")

HIGHEST_PRIORITY = 1_000_000_000
"""The highest value that users may give a PriorityClass."""
PREEMPTS, NEVER = "PreemptLowerPriority", "Never"


def by_priority(patient: Patient) -> Iterator[Cure]:
    """The smallest priority with which preemption finds victims: the present one, if the pod just has to be let preempt."""
    pod = patient.pod
    if not may_preempt(pod) and patient.budget.is_left():
        nomination = patient.trials.nominate(with_priority(pod, pod.priority))
        if nomination is not None:
            yield from _evicting(patient, "allow-preemption", pod.priority, nomination)
            return
    found = smallest_priority(patient, pod.priority, lambda higher: patient.trials.nominate(with_priority(pod, higher)))
    if found is not None:
        yield from _evicting(patient, "raise-priority", *found)


def may_preempt(pod: Pod) -> bool:
    """Whether the scheduler evicts others for the pod."""
    return pod.spec.preemption_policy != NEVER


def _evicting(patient: Patient, kind: str, priority: int, nomination: Nomination) -> Iterator[Cure]:
    form, victims = with_priority(patient.pod, priority), nomination.victims
    if all(victim.is_terminating for victim in victims):
        return  # to wait is enough
    text = _told(patient, priority, nomination)
    cure = patient.cured(kind, text, RAISE_PRIORITY, ChangePod(form), *(RemovePod(victim) for victim in victims))
    if cure is not None:
        yield with_victims(patient, cure, victims)


def with_victims(patient: Patient, cure: Cure, victims: Sequence[Pod]) -> Cure:
    """The cure after which the scheduler evicts these pods. It waits for those of them that end already."""
    ending, evicted = [[pod for pod in victims if pod.is_terminating is ends] for ends in (True, False)]
    broken = broken_budgets(patient, evicted)
    cost = cure.cost + VICTIM * len(evicted) + BROKEN_BUDGET * broken
    names, kind, change = (*cure.victims, *(victim.key for victim in evicted)), cure.kind, cure.change
    if ending:
        wait = waiting_for(ending)
        kind, change, cost = f"{kind}+{wait.kind}", f"{change}, and {wait.text}", cost + wait.cost
    broken += cure.broken_budgets
    return replace(cure, kind=kind, change=change, cost=cost, victims=names, broken_budgets=broken)


def by_evicting(patient: Patient) -> Iterator[Cure]:
    """The changes that are made, if the scheduler then evicts other pods for the pod. Pods that end already are left to
    `by_waiting`."""
    nomination = patient.trials.nominate(patient.pod) if may_preempt(patient.pod) and patient.budget.is_left() else None
    if nomination is None or any(victim.is_terminating for victim in nomination.victims):
        return
    edits = [RemovePod(victim) for victim in nomination.victims]
    node = patient.trials.node_for(patient.pod, edits) if patient.budget.is_left() else None
    if node is not None:
        yield with_victims(patient, patient.cure(None, node, edits), nomination.victims)


def _told(patient: Patient, priority: int, nomination: Nomination) -> str:
    """The sentence, with a PriorityClass that does the same."""
    pod = patient.pod
    allowed = "" if may_preempt(pod) else f"let it preempt (preemptionPolicy: {PREEMPTS} instead of {NEVER})"
    raised = f"raise the priority from {pod.priority} to {priority}" if priority != pod.priority else ""
    classes = _alike(patient, priority, nomination)
    if not classes and pod.spec.priority_class_name and not may_preempt(pod):
        # An API server rejects another policy than that of the class.
        classes = f" (needs a new PriorityClass of value {priority})"
    return " and ".join(filter(None, (raised, allowed))) + classes


def _alike(patient: Patient, priority: int, nomination: Nomination) -> str:
    """The PriorityClass with the smallest sufficient value, if the scheduler evicts the same pods with it."""
    for value, name in _classes(patient, priority)[:1]:
        found = patient.trials.nominate(with_priority(patient.pod, value)) if patient.budget.is_left() else None
        if found is not None and [pod.key for pod in found.victims] == [pod.key for pod in nomination.victims]:
            return f" (PriorityClass {name} has {value})"
    return ""


def class_for(patient: Patient, priority: int) -> str:
    """The PriorityClass with the smallest sufficient value, if there is one."""
    return next((f" (PriorityClass {name} has {value})" for value, name in _classes(patient, priority)), "")


def _classes(patient: Patient, priority: int) -> list[tuple[int, str]]:
    """Value and name of the classes that are high enough and preempt, the smallest value first."""
    classes = [each for each in patient.trials.priority_classes if each.preemption_policy != NEVER]
    return sorted((each.value, each.name) for each in classes if priority <= each.value <= HIGHEST_PRIORITY)


def smallest_priority(patient: Patient, present: int, found_with: Callable[[int], T | None]) -> tuple[int, T] | None:
    """The smallest priority above the present one with which preemption finds something, and that; None if none does.

    By halving: with a higher priority there are more victims to choose from.
    """
    priorities = priorities_above(patient, present)
    best: list[tuple[int, T]] = []

    def suffices(place: int) -> bool:
        found = found_with(priorities[place]) if patient.budget.is_left() else None
        if found is not None:
            best.append((priorities[place], found))
        return found is not None

    smallest(suffices, -1, len(priorities))
    return best[-1] if best else None


def priorities_above(patient: Patient, priority: int) -> list[int]:
    """Above pods of each priority: no other number can make a difference."""
    above = {pod.priority + 1 for pod in patient.trials.cluster.nodes.pods() if pod.priority >= priority}
    return sorted(each for each in above if priority < each <= HIGHEST_PRIORITY)


def with_priority(pod: Pod, priority: int) -> Pod:
    """A pod that may preempt: preemptionPolicy Never would make the priority useless."""
    return without_nomination(with_spec(pod, priority=priority, preemption_policy=PREEMPTS))
