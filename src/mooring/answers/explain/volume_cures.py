"""Cures by storage: claims that the pod names and that do not exist, that have no volume, or whose volume is of no use."""

from collections.abc import Iterator

import msgspec

from mooring.answers.explain.cure import LOSE_DATA, VOLUME, Cure, CureChange, Patient
from mooring.answers.trial.counterfactual import Edit, PutObject
from mooring.model.meta import ObjectMeta, OwnerReference
from mooring.model.pod import Pod
from mooring.model.pod_spec import ClaimSpec, ResourceList, ResourceRequirements
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, PhaseStatus
from mooring.model.volumes import BIND_COMPLETED, LOST, ClaimName, claim_names, is_fully_bound, kept_for, zone_rules

_UNKNOWN_SIZE = "1Gi"
"""The size of a claim that does not exist: its intended size is not known."""


def by_volumes(patient: Patient) -> Iterator[Cure]:
    """All claims without a volume, or whose volume is no more, get one that every node can use."""
    for change in volumes_on(patient):
        yield from patient.cures(change.kind, change.text, change.cost, *change.edits)


def volumes_on(patient: Patient, row: int = -1) -> Iterator[CureChange]:
    """The change after which all claims have a volume that the node of a row can use, or every node without a row."""
    pod, known = patient.pod, patient.trials.cluster.objects[PersistentVolumeClaim]
    edits: list[Edit] = []
    texts: list[str] = []
    cost, kind = 0, "create-volume"
    for named in claim_names(pod):
        claim = known.get(f"{pod.namespace}/{named.name}")
        if not isinstance(claim, PersistentVolumeClaim):
            claim = _claim(pod, named)
            texts.append(f"create the PersistentVolumeClaim {claim.key}{what_is_asked(claim)} with a volume")
            cost += VOLUME
        elif not claim.spec.volume_name and claim.metadata.deletion_timestamp is None:
            texts.append(f"create a volume for the PersistentVolumeClaim {claim.key}{what_is_asked(claim)}")
            cost += VOLUME
        elif _is_of_use(patient, claim, row):
            continue
        else:
            volume = _volume_of(patient, claim)
            more = f"another volume without the data of {volume.name}" if volume is not None else "a volume"
            texts.append(f"create the PersistentVolumeClaim {claim.key}{what_is_asked(claim)} again, with {more}")
            cost += LOSE_DATA if volume is not None else VOLUME
            kind = "replace-volume"
        edits += bound_edits(claim)
    if texts:
        yield CureChange(kind, " and ".join(texts), cost, edits=tuple(edits))


def _volume_of(patient: Patient, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume that a claim names, if there is one."""
    found = patient.trials.cluster.objects[PersistentVolume].get(claim.spec.volume_name)
    return found if isinstance(found, PersistentVolume) else None


def _is_of_use(patient: Patient, claim: PersistentVolumeClaim, row: int) -> bool:
    """Whether a claim has a volume that the node of a row can use; without a row the volume only has to be there."""
    volume = _volume_of(patient, claim)
    is_there = is_fully_bound(claim) and claim.status.phase != LOST and claim.metadata.deletion_timestamp is None
    if volume is None or not is_there:
        return False
    node = patient.trials.cluster.nodes.nodes[row] if row >= 0 else None
    if node is None:
        return True
    admits = all(node.labels.get(key) in values for key, values in zone_rules(volume))
    return admits and (volume.reach is None or volume.reach.matches(node.name, node.labels))


def what_is_asked(claim: PersistentVolumeClaim) -> str:
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


def bound_edits(claim: PersistentVolumeClaim) -> list[Edit]:
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
        metadata=msgspec.structs.replace(claim.metadata, annotations=annotations, deletion_timestamp=None),
        spec=msgspec.structs.replace(claim.spec, volume_name=name),
        status=PhaseStatus(phase="Bound"),
    )
    return [PutObject(kept_for(volume, bound)), PutObject(bound)]
