"""Cures by preemption: a higher priority, or leave to preempt, with which the scheduler evicts others for the pod."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec

from mooring.answers.explain.cure import BROKEN_BUDGET, RAISE_PRIORITY, VICTIM, Cure, Patient, smallest
from mooring.answers.explain.cures_by_others import broken_budgets, waiting_for
from mooring.answers.trial.counterfactual import ChangePod, RemovePod, with_spec
from mooring.framework.contract.points import Nomination
from mooring.model.pod import Pod

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
    form = with_spec(pod, priority=priority, preemption_policy=PREEMPTS)
    return (
        form
        if not form.status.nominated_node_name
        else Pod(
            metadata=form.metadata, spec=form.spec, status=msgspec.structs.replace(form.status, nominated_node_name="")
        )
    )
