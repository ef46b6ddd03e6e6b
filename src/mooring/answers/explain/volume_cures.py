"""Cures by storage: claims that the pod names and that do not exist, and claims that have no volume."""

from collections.abc import Iterator

import msgspec

from mooring.answers.explain.cure import VOLUME, Cure, CureChange, Patient
from mooring.answers.trial.counterfactual import Edit, PutObject
from mooring.model.meta import ObjectMeta, OwnerReference
from mooring.model.pod import Pod
from mooring.model.pod_spec import ClaimSpec, ResourceList, ResourceRequirements
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, PhaseStatus
from mooring.model.volumes import BIND_COMPLETED, ClaimName, claim_names, is_fully_bound, kept_for

_UNKNOWN_SIZE = "1Gi"
"""The size of a claim that does not exist: its intended size is not known."""


def by_volumes(patient: Patient) -> Iterator[Cure]:
    """All claims without a volume get one that every node can use."""
    for change in volumes_on(patient):
        yield from patient.cures(change.kind, change.text, change.cost, *change.edits)


def volumes_on(patient: Patient, row: int = -1) -> Iterator[CureChange]:
    """The change after which all claims have a volume; it is the same for every node."""
    pod, known = patient.pod, patient.trials.cluster.objects[PersistentVolumeClaim]
    edits: list[Edit] = []
    texts: list[str] = []
    for named in claim_names(pod):
        claim = known.get(f"{pod.namespace}/{named.name}")
        if isinstance(claim, PersistentVolumeClaim) and is_fully_bound(claim):
            continue
        is_missing = not isinstance(claim, PersistentVolumeClaim)
        wanted = claim if isinstance(claim, PersistentVolumeClaim) else _claim(pod, named)
        edits += bound_edits(wanted)
        what = "create the PersistentVolumeClaim" if is_missing else "create a volume for the PersistentVolumeClaim"
        more = " with a volume" if is_missing else ""
        texts.append(f"{what} {named.name}{what_is_asked(wanted)}{more}")
    if texts:
        yield CureChange("create-volume", " and ".join(texts), VOLUME * len(texts), edits=tuple(edits))


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
        metadata=msgspec.structs.replace(claim.metadata, annotations=annotations),
        spec=msgspec.structs.replace(claim.spec, volume_name=name),
        status=PhaseStatus(phase="Bound"),
    )
    return [PutObject(kept_for(volume, bound)), PutObject(bound)]
