"""The writes of DynamicResources: how a claim gets and loses its allocation and its reservations."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mooring.framework.intents import Write, WriteFault
from mooring.model.devices import Allocation, ResourceClaim, ResourceClaimStatus
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import ExtendedClaimStatus, RequestMapping

FINALIZER = "resource.kubernetes.io/delete-protection"

Late = Callable[[KubeObject | WriteFault | None], None]


def allocated(claim: ResourceClaim, allocation: Allocation) -> ResourceClaim:
    """The claim as it is going to be."""
    finalizers = claim.metadata.finalizers or []
    if FINALIZER not in finalizers:
        finalizers = [*finalizers, FINALIZER]
    metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


def read_again(claim: ResourceClaim) -> Write:
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, {})


def add_finalizer(claim: ResourceClaim) -> Write:
    finalizers = [*(claim.metadata.finalizers or ()), FINALIZER]
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, {"metadata": _at_version(claim, finalizers)})


def write_status(claim: ResourceClaim, status: dict[str, Any]) -> Write:
    body = {"metadata": _at_version(claim), "status": status}
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, "status")


def deallocate(claim: ResourceClaim) -> Write:
    """Take its devices from a claim that nobody uses."""
    return write_status(claim, {"allocation": None, "reservedFor": None, "devices": None})


def give_back_reservation(claim: ResourceClaim, pod_id: str) -> Write:
    """A strategic patch: it takes out one entry of a list, whatever else was changed meanwhile."""
    entry = {"$patch": "delete", "uid": pod_id}
    body = {"metadata": {"uid": claim.uid} if claim.uid else {}, "status": {"reservedFor": [entry]}}
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, "status", form="strategic")


def create_extended(claim: ResourceClaim) -> Write:
    """A claim that gets its name from the server."""
    metadata = msgspec.structs.replace(claim.metadata, name="", uid="", finalizers=None)
    body = msgspec.structs.replace(claim, metadata=metadata, status=ResourceClaimStatus())
    return Write("POST", ResourceClaim, "", claim.namespace, body)


def name_extended(pod: Pod, claim: ResourceClaim, mappings: Sequence[RequestMapping]) -> Write:
    status = ExtendedClaimStatus(request_mappings=list(mappings), resource_claim_name=claim.name)
    body = {"status": {"extendedResourceClaimStatus": msgspec.to_builtins(status)}}
    return Write("PATCH", Pod, pod.name, pod.namespace, body, "status")


def delete_claim(claim: ResourceClaim, late: Late | None = None) -> tuple[Write, ...]:
    """Without its finalizer nothing keeps the claim from going. `late` hears of each of the two writes."""
    left = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
    body = {"metadata": {"finalizers": left or None}}
    return (
        Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, late=late),
        Write("DELETE", ResourceClaim, claim.name, claim.namespace, late=late),
    )


def _at_version(claim: ResourceClaim, finalizers: list[str] | None = None) -> dict[str, Any]:
    """Metadata of a patch that is meant for this version of the claim only."""
    metadata: dict[str, Any] = {"finalizers": finalizers} if finalizers else {}
    if claim.metadata.resource_version:
        metadata["resourceVersion"] = claim.metadata.resource_version
    return metadata
