"""Cures by claims: for devices, and for volumes.

A claim for devices may ask for fewer devices or for others, or other claims may give devices back. The spec of a claim
cannot be changed: who follows such a cure creates the claim again, or changes the template. A claim for a volume that
the pod names may not exist, or may have no volume.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations

import msgspec

from mooring.answers.explain.cure import CHANGE_RULE, FREE_CLAIM, LOSE_DATA, VOLUME, Cure, CureChange, Patient
from mooring.answers.explain.cures_by_others import broken_budgets, removal_cost
from mooring.answers.trial.counterfactual import Edit, PutObject, RemovePod, with_spec
from mooring.kit.words import count
from mooring.model.devices import (
    ALL,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from mooring.model.meta import ObjectMeta, OwnerReference
from mooring.model.pod import Pod
from mooring.model.pod_spec import ClaimSpec, ResourceList, ResourceRequirements
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, PhaseStatus
from mooring.model.volumes import BIND_COMPLETED, LOST, ClaimName, claim_names, is_fully_bound, kept_for, zone_rules
from mooring.plugins.devices.device_claims import Unresolved, claims_of, is_group
from mooring.rules.workload_pods import is_daemon

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


MOST_DEVICES = 32
"""The most devices that one claim can have allocated (upstream's AllocationResultsMaxSize)."""
MAX_CLASSES = 20
"""How many other classes are tried."""
MAX_CLAIMS, MAX_PAIRED = 30, 10
"""How many claims of others are freed, one by one and in pairs."""

Ask = ExactDeviceRequest | DeviceSubRequest
_Place = tuple[ResourceClaim, int, int]
"""A claim, the number of a request in it, and of the alternative in that; -1 if the request has none."""

# ---- the pod's own claims


def by_fewer_devices(patient: Patient) -> Iterator[Cure]:
    """The largest number of devices with which the pod fits, of each request alone."""
    for place in _asks(patient):
        ask, is_all = _ask(place), _ask(place).allocation_mode == ALL
        before = MOST_DEVICES + 1 if is_all else ask.count
        for number in range(before - 1, 0, -1):
            changed = msgspec.structs.replace(ask, count=number, allocation_mode="ExactCount")
            text = f"claim {count(number, 'device')} instead of {'all' if is_all else before}"
            if found := [*_changed(patient, "fewer-devices", text, place, changed)]:
                yield from found
                break


def by_other_devices(patient: Patient) -> Iterator[Cure]:
    """Another class, or a selector or constraint less."""
    for place in _asks(patient):
        ask = _ask(place)
        for name in sorted(each.name for each in patient.trials.cluster.objects[DeviceClass].values())[:MAX_CLASSES]:
            if name != ask.device_class_name:
                text = f"claim devices of class {name} instead of {ask.device_class_name}"
                other = msgspec.structs.replace(ask, device_class_name=name)
                yield from _changed(patient, "change-class", text, place, other)
        for number, selector in enumerate(ask.selectors or ()):
            rest = [each for i, each in enumerate(ask.selectors or ()) if i != number] or None
            text = f"drop the selector {selector.cel.expression if selector.cel is not None else ''}"
            yield from _changed(patient, "drop-selector", text, place, msgspec.structs.replace(ask, selectors=rest))
    for claim in _open_claims(patient):
        yield from _without_constraints(patient, claim)


def _without_constraints(patient: Patient, claim: ResourceClaim) -> Iterator[Cure]:
    constraints = claim.spec.devices.constraints or ()
    for number, constraint in enumerate(constraints):
        rest = [each for i, each in enumerate(constraints) if i != number] or None
        devices = msgspec.structs.replace(claim.spec.devices, constraints=rest)
        name = constraint.match_attribute or constraint.distinct_attribute
        text = f"drop the constraint on {name} (of ResourceClaim {claim.key})"
        yield from patient.cures("drop-constraint", text, CHANGE_RULE, PutObject(_with(claim, devices)))


def _claims(patient: Patient) -> list[ResourceClaim]:
    """The claims of the pod; none if it would get no node without any claims either."""
    pod = patient.pod
    if not pod.spec.resource_claims or patient.node_for(with_spec(pod, resource_claims=None)) is None:
        return []
    try:
        return claims_of(pod, patient.trials.cluster.claims)
    except Unresolved:
        return []


def _open_claims(patient: Patient) -> list[ResourceClaim]:
    """The claims of the pod that have no devices yet."""
    return [claim for claim in _claims(patient) if claim.status.allocation is None]


def _asks(patient: Patient) -> Iterator[_Place]:
    """The places of the open claims that ask for devices: each request, or each of its alternatives."""
    for claim in _open_claims(patient):
        for i, request in enumerate(claim.spec.devices.requests or ()):
            if request.exactly is not None:
                yield claim, i, -1
            for j in range(len(request.first_available or ())):
                yield claim, i, j


def _ask(place: _Place) -> Ask:
    claim, number, alternative = place
    request = (claim.spec.devices.requests or [])[number]
    if alternative >= 0:
        return (request.first_available or [])[alternative]
    assert request.exactly is not None
    return request.exactly


def _changed(patient: Patient, kind: str, text: str, place: _Place, ask: Ask) -> Iterator[Cure]:
    """The cure in which one request is another one."""
    claim, number, alternative = place
    requests = list(claim.spec.devices.requests or ())
    told = f"{text} (request {requests[number].name} of ResourceClaim {claim.key})"
    requests[number] = _asking(requests[number], alternative, ask)
    devices = msgspec.structs.replace(claim.spec.devices, requests=requests)
    return patient.cures(kind, told, CHANGE_RULE, PutObject(_with(claim, devices)))


def _asking(request: DeviceRequest, alternative: int, ask: Ask) -> DeviceRequest:
    if isinstance(ask, ExactDeviceRequest):
        return msgspec.structs.replace(request, exactly=ask)
    others = [ask if i == alternative else each for i, each in enumerate(request.first_available or ())]
    return msgspec.structs.replace(request, first_available=others)


def _with(claim: ResourceClaim, devices: object) -> ResourceClaim:
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))


def by_missing_claims(patient: Patient) -> Iterator[Cure]:
    """Claims that the pod names and that do not exist: each with one device, of a class that some node has."""
    cluster = patient.trials.cluster
    named = [each.resource_claim_name for each in patient.pod.spec.resource_claims or () if each.resource_claim_name]
    keys = [key for name in named if (key := f"{patient.pod.namespace}/{name}") not in cluster.objects[ResourceClaim]]
    for class_name in sorted(each.name for each in cluster.objects[DeviceClass].values())[:MAX_CLASSES] if keys else ():
        ask = DeviceRequest(name="devices", exactly=ExactDeviceRequest(class_name, None, "ExactCount", 1))
        claims = [_new_claim(key, ask) for key in keys]
        text = " and ".join(f"create the ResourceClaim {key} with 1 device of class {class_name}" for key in keys)
        yield from patient.cures("create-claim", text, VOLUME * len(keys), *map(PutObject, claims))


def _new_claim(key: str, ask: DeviceRequest) -> ResourceClaim:
    namespace, _, name = key.partition("/")
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=[ask]))
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace, uid=f"claim-{key}"), spec=spec)


# ---- claims of others


def by_freed_devices(patient: Patient) -> Iterator[Cure]:
    """Claims that give their devices back, with the pods that use them. Two only if one is not enough."""
    if not _claims(patient):
        return
    users = {pod.id: pod for pod in patient.trials.cluster.nodes.pods()}
    claims = [(claim, pods) for claim in _allocated(patient) if (pods := _users(patient, claim, users)) is not None]
    claims.sort(key=lambda entry: (len(entry[1]), max((pod.priority for pod in entry[1]), default=0)))
    found = list(_freed(patient, [(each,) for each in claims[:MAX_CLAIMS]]))
    yield from found or _freed(patient, combinations(claims[:MAX_PAIRED], 2))


def _allocated(patient: Patient) -> list[ResourceClaim]:
    """All claims that have devices, in the order of the input."""
    claims = patient.trials.cluster.objects[ResourceClaim].values()
    return [item for item in claims if isinstance(item, ResourceClaim) and item.status.allocation is not None]


def _users(patient: Patient, claim: ResourceClaim, pods: dict[str, Pod]) -> list[Pod] | None:
    """The other pods that use a claim, or whose group does; None if none of them is known or one comes again on its node."""
    found: dict[str, Pod] = {}
    for consumer in claim.status.reserved_for or ():
        members = [pods[consumer.uid]] if consumer.uid in pods else []
        if is_group(consumer):
            key = f"{claim.namespace}/{consumer.name}"
            members = [pod for pod in pods.values() if pod.group_key == key]
        if not members and consumer.uid != patient.pod.id:
            return None
        found |= {pod.id: pod for pod in members if pod.id != patient.pod.id}
    return list(found.values()) if not any(map(is_daemon, found.values())) else None


def _freed(patient: Patient, sets: Iterable[tuple[tuple[ResourceClaim, list[Pod]], ...]]) -> Iterator[Cure]:
    for entries in sets:
        if not patient.budget.is_left():
            return
        pods = [*{pod.id: pod for _, users in entries for pod in users}.values()]
        edits: list[Edit] = [
            PutObject(msgspec.structs.replace(claim, status=ResourceClaimStatus())) for claim, _ in entries
        ]
        edits += [RemovePod(pod) for pod in pods]
        broken = broken_budgets(patient, pods)
        cost = removal_cost(pods, broken) if pods else FREE_CLAIM
        cure = patient.cured("free-devices", _told(entries, pods), cost, *edits)
        if cure is not None:
            yield replace(cure, victims=tuple(pod.key for pod in pods), broken_budgets=broken)


def _told(entries: Iterable[tuple[ResourceClaim, list[Pod]]], pods: list[Pod]) -> str:
    names = " and ".join(claim.key for claim, _ in entries)
    if not pods:
        return f"free the devices of ResourceClaim {names}, which no other pod uses"
    return f"remove {' and '.join(pod.key for pod in pods)} with the devices of ResourceClaim {names}"
