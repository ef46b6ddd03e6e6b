"""The search for cures: what would place a pod, the smallest change first.

It is bounded by the number of decisions. First each dimension of what the pod asks for is given up altogether, to see which
of them matter; only for those the smallest sufficient change is looked for. Then come changes around the pod, and several
changes at once where they cost less than each change that suffices alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import inf

from mooring.answers.explain.claim_cures import (
    by_fewer_devices,
    by_freed_devices,
    by_missing_claims,
    by_other_devices,
    by_volumes,
)
from mooring.answers.explain.combined_cures import by_combinations, by_described_node
from mooring.answers.explain.cure import (
    CHANGE_SCHEDULER,
    EACH,
    REMOVE_GATE,
    Cure,
    CureChange,
    Patient,
    Relaxation,
    SearchBudget,
)
from mooring.answers.explain.cures_by_others import by_mending, by_moves, by_one_more, by_uncordoning, by_waiting
from mooring.answers.explain.pod_rule_cures import (
    DropAffinity,
    DropHostPorts,
    SpreadLess,
    Tolerate,
    by_evicting,
    by_priority,
)
from mooring.answers.explain.request_cures import LowerRequests
from mooring.answers.explain.selection_cures import WidenSelection
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, with_spec
from mooring.model.pod import Pod
from mooring.rules.pod_defaults import DEFAULT_SCHEDULER

DECISIONS = 2000
"""How many decisions a search may make: half a second at 5,000 nodes."""

RELAXATIONS: tuple[Relaxation, ...] = (
    LowerRequests(),
    Tolerate(),
    WidenSelection(),
    SpreadLess(),
    DropAffinity(),
    DropHostPorts(),
)


@dataclass(frozen=True, slots=True)
class Cures:
    """The cures that a search found."""

    found: Sequence[Cure]
    """The cheapest first."""
    gave_up: bool = False
    """Whether it ended because it had made too many decisions: there may be more."""


def find_cures(trials: Counterfactual, pod: Pod, decisions: int = DECISIONS) -> Cures:
    """Cures for a pod that gets no node now; none if it gets one."""
    budget = SearchBudget(trials, decisions)
    patient = Patient(pod, trials, budget)
    if patient.node_for(pod) is not None:
        return Cures(())
    patient = patient.after(*before_all(trials, pod))
    node = patient.node_for(patient.pod) if patient.made else None
    found = [patient.cure(None, node)] if node is not None else _found(patient)
    return Cures(sorted(found, key=lambda cure: (cure.cost, cure.change)), budget.was_exhausted)


def _found(patient: Patient) -> list[Cure]:
    """All cures of a pod that the scheduler looks at. Searches that need the most decisions come last."""
    found = [*by_evicting(patient)] if patient.made else []
    found += by_asking_less(patient)
    for search in _SEARCHES:
        found += islice(search(patient), EACH)
    found += by_combinations(patient, min((cure.cost for cure in found), default=inf))
    found += by_moves(patient)
    unlike = {cure.change: cure for cure in reversed(found)}  # a claim without a volume is in the way for two searches
    cures = [*unlike.values()]
    are_drastic = all("drop-request" in cure.kind.split("+") for cure in cures)
    return cures + by_described_node(patient) if are_drastic else cures


# ---- What keeps the scheduler from looking at a pod at all: it goes first in every cure.


def before_all(trials: Counterfactual, pod: Pod) -> list[CureChange]:
    """The changes without which the scheduler does not look at the pod: its gates go, and it names a scheduler."""
    changes = _ungated(pod)
    names = sorted(trials.scheduler_names, key=lambda name: (name != DEFAULT_SCHEDULER, name))
    if names and pod.spec.scheduler_name not in names:
        text = f"use schedulerName {names[0]} instead of {pod.spec.scheduler_name}"
        named = CureChange(
            "change-scheduler", text, CHANGE_SCHEDULER, lambda pod: with_spec(pod, scheduler_name=names[0])
        )
        changes.append(named)
    return changes


def _ungated(pod: Pod) -> list[CureChange]:
    gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
    if not gates:
        return []
    text = f"remove the scheduling gate {', '.join(gates)}"
    return [CureChange("remove-gate", text, REMOVE_GATE, lambda pod: with_spec(pod, scheduling_gates=None))]


def without_gates(patient: Patient) -> Iterator[Cure]:
    """The pod without its scheduling gates."""
    for change in _ungated(patient.pod):
        yield from _cure(patient, change)


# ---- Changes of the pod alone.


def by_asking_less(patient: Patient) -> Iterator[Cure]:
    """Changes of the pod in one dimension. First each is given up altogether, to see which of them suffice."""
    for relaxation in RELAXATIONS:
        form = relaxation.relax(patient.pod)
        if form is not None and patient.node_for(form) is not None:
            for change in islice(relaxation.options(patient, patient.pod), EACH):
                yield from _cure(patient, change)


def by_asking_less_twice(patient: Patient) -> Iterator[Cure]:
    """Changes of the pod in two dimensions, of which none alone suffices."""
    relaxed = [(each, form) for each in RELAXATIONS if (form := each.relax(patient.pod)) is not None]
    for (first, _), (second, free) in combinations(relaxed, 2):
        yield from islice(_by_two(patient, first, second, free), 1)


def _by_two(patient: Patient, first: Relaxation, second: Relaxation, free: Pod) -> Iterator[Cure]:
    """The smallest change in each of two dimensions: one while the other is given up, as in `free`, then the other beside
    it."""
    both = first.relax(free)
    if both is None or patient.node_for(both) is None:
        return
    for one in first.options(patient, free):
        for other in second.options(patient, one.apply(patient.pod)):
            yield from _cure(patient, one, other)


def _cure(patient: Patient, *changes: CureChange) -> Iterator[Cure]:
    form = patient.pod
    for change in changes:
        form = change.apply(form)
    text = ", and ".join(change.text for change in changes)
    cost = sum(change.cost for change in changes)
    yield from patient.cures("+".join(change.kind for change in changes), text, cost, ChangePod(form))


_SEARCHES: tuple[Callable[[Patient], Iterator[Cure]], ...] = (
    by_waiting,
    by_uncordoning,
    by_volumes,
    by_missing_claims,
    by_fewer_devices,
    by_other_devices,
    by_freed_devices,
    by_priority,
    by_mending,
    by_one_more,
)
"""The searches that find one kind of cure each; the others bound themselves."""
