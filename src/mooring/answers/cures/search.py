"""The search for cures: what would place a pod, the smallest change first.

It is bounded by the number of decisions. First each dimension of what the pod asks for is given up altogether, to see which
of them matter; only for those the smallest sufficient change is looked for. If none suffices alone, pairs are tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from mooring.answers.counterfactual import Counterfactual
from mooring.answers.cures.cure import EACH, REMOVE_GATE, Cure, Patient, SearchBudget
from mooring.answers.cures.devices import by_fewer_devices, by_freed_devices, by_other_devices
from mooring.answers.cures.node_choice import Tolerate, WidenSelection
from mooring.answers.cures.other_nodes import by_mending, by_one_more, by_uncordoning
from mooring.answers.cures.other_pods import by_moves, by_priority
from mooring.answers.cures.relations import DropAffinity, DropHostPorts, SpreadLess
from mooring.answers.cures.relaxation import PodChange, Relaxation, with_spec
from mooring.answers.cures.requests import LowerRequests
from mooring.answers.cures.volumes import by_volumes
from mooring.answers.edits import ChangePod
from mooring.model.pod import Pod

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
    """What a search found."""

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
    found = list(by_asking_less(patient))
    for search in _SEARCHES:
        found += islice(search(patient), EACH)
    found += by_moves(patient)  # last, because it needs the most decisions
    return Cures(sorted(found, key=lambda cure: (cure.cost, cure.change)), budget.was_exhausted)


def without_gates(patient: Patient) -> Iterator[Cure]:
    """The pod without its scheduling gates."""
    gates = [gate.name for gate in patient.pod.spec.scheduling_gates or ()]
    if gates:
        text = f"remove the scheduling gate {', '.join(gates)}"
        cure = patient.cured("remove-gate", text, REMOVE_GATE, ChangePod(with_spec(patient.pod, scheduling_gates=None)))
        if cure is not None:
            yield cure


def by_asking_less(patient: Patient) -> Iterator[Cure]:
    """Changes of the pod in one dimension, or in two if none alone suffices."""
    relaxed = [(each, form) for each in RELAXATIONS if (form := each.relax(patient.pod)) is not None]
    enough = [each for each, form in relaxed if patient.node_for(form) is not None]
    for relaxation in enough:
        for change in islice(relaxation.options(patient, patient.pod), EACH):
            yield from _cure(patient, change)
    if not enough:
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


def _cure(patient: Patient, *changes: PodChange) -> Iterator[Cure]:
    form = patient.pod
    for change in changes:
        form = change.apply(form)
    text = ", and ".join(change.text for change in changes)
    cost = sum(change.cost for change in changes)
    cure = patient.cured("+".join(change.kind for change in changes), text, cost, ChangePod(form))
    if cure is not None:
        yield cure


_SEARCHES: tuple[Callable[[Patient], Iterator[Cure]], ...] = (
    without_gates,
    by_uncordoning,
    by_volumes,
    by_fewer_devices,
    by_other_devices,
    by_freed_devices,
    by_priority,
    by_mending,
    by_one_more,
)
"""The searches that find one kind of cure each; the other two bound themselves."""
