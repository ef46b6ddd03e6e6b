"""The search for cures: what would place a pod, the smallest change first.

It is bounded by the number of decisions. First each dimension of what the pod asks for is given up altogether, to see which
of them matter; only for those the smallest sufficient change is looked for. If none suffices alone, pairs are tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import msgspec

from mooring.answers.explain.cure import EACH, REMOVE_GATE, VOLUME, Cure, Patient, PodChange, Relaxation, SearchBudget
from mooring.answers.explain.cures_by_others import by_mending, by_moves, by_one_more, by_priority, by_uncordoning
from mooring.answers.explain.device_cures import by_fewer_devices, by_freed_devices, by_other_devices
from mooring.answers.explain.pod_rule_cures import DropAffinity, DropHostPorts, SpreadLess, Tolerate, WidenSelection
from mooring.answers.explain.request_cures import LowerRequests
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, Edit, PutObject, with_spec
from mooring.model.meta import ObjectMeta, OwnerReference
from mooring.model.pod import Pod
from mooring.model.pod_spec import ClaimSpec, ResourceList, ResourceRequirements
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, PhaseStatus
from mooring.model.volumes import BIND_COMPLETED, ClaimName, claim_names, is_fully_bound, kept_for

# ---- Cures by storage: claims that the pod names and that do not exist, and claims that have no volume.


_UNKNOWN_SIZE = "1Gi"
"""The size of a claim that does not exist: nobody knows what it was meant to be."""


def by_volumes(patient: Patient) -> Iterator[Cure]:
    """All claims without a volume get one that every node can use."""
    pod, known = patient.pod, patient.trials.cluster.objects[PersistentVolumeClaim]
    edits: list[Edit] = []
    texts: list[str] = []
    for named in claim_names(pod):
        claim = known.get(f"{pod.namespace}/{named.name}")
        if isinstance(claim, PersistentVolumeClaim) and is_fully_bound(claim):
            continue
        is_missing = not isinstance(claim, PersistentVolumeClaim)
        wanted = claim if isinstance(claim, PersistentVolumeClaim) else _claim(pod, named)
        edits += _bound(wanted)
        what = "create the PersistentVolumeClaim" if is_missing else "create a volume for the PersistentVolumeClaim"
        texts.append(f"{what} {named.name}{_asked(wanted)}")
    if texts:
        yield from patient.cures("create-volume", " and ".join(texts), VOLUME * len(texts), *edits)


def _asked(claim: PersistentVolumeClaim) -> str:
    size = _requests(claim).get("storage")
    parts = [str(size)] if size is not None else []
    parts += [f"class {claim.class_name}"] if claim.class_name else []
    return f" ({', '.join(parts)})" if parts else ""


def _requests(claim: PersistentVolumeClaim) -> ResourceList:
    return (claim.spec.resources.requests if claim.spec.resources is not None else None) or {}


def _claim(pod: Pod, named: ClaimName) -> PersistentVolumeClaim:
    owners = None
    if named.is_ephemeral:
        owners = [OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)]
    metadata = ObjectMeta(name=named.name, namespace=pod.namespace, owner_references=owners)
    asked = ResourceRequirements(requests={"storage": _UNKNOWN_SIZE})
    return PersistentVolumeClaim(metadata=metadata, spec=ClaimSpec(access_modes=["ReadWriteOnce"], resources=asked))


def _bound(claim: PersistentVolumeClaim) -> list[Edit]:
    """A new volume, and the claim bound to it as the controller binds."""
    name = f"volume-for-{claim.namespace}-{claim.name}"[:253]
    spec = PersistentVolumeSpec(
        capacity=_requests(claim),
        access_modes=claim.spec.access_modes,
        storage_class_name=claim.class_name,
        volume_mode=claim.spec.volume_mode,
    )
    volume = PersistentVolume(metadata=ObjectMeta(name=name), spec=spec, status=PhaseStatus(phase="Bound"))
    annotations = {**(claim.metadata.annotations or {}), BIND_COMPLETED: "yes"}
    bound = PersistentVolumeClaim(
        metadata=msgspec.structs.replace(claim.metadata, annotations=annotations),
        spec=msgspec.structs.replace(claim.spec, volume_name=name),
        status=PhaseStatus(phase="Bound"),
    )
    return [PutObject(kept_for(volume, bound)), PutObject(bound)]


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
        yield from patient.cures(
            "remove-gate", text, REMOVE_GATE, ChangePod(with_spec(patient.pod, scheduling_gates=None))
        )


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
    yield from patient.cures("+".join(change.kind for change in changes), text, cost, ChangePod(form))


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
