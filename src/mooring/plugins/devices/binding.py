"""What PreBind of DynamicResources (work.py) is made of: binding conditions, writes to claims, and metrics.

Some devices must be prepared for a node before a pod can be bound to it (binding conditions): their driver reports on
that in the status of the claim.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mooring.framework.intents import Write, WriteFault
from mooring.framework.metric_catalogue import CLAIM_CREATES, DEVICE_ALLOCATIONS, DEVICE_WAITS
from mooring.framework.points import Handle
from mooring.kit.rfc3339 import moment_ns
from mooring.model.devices import AllocatedDevice, Allocation, DeviceStatus, ResourceClaim, ResourceClaimStatus
from mooring.model.meta import Condition, KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import ExtendedClaimStatus, RequestMapping

# Upstream's texts. Metrics tell outcomes apart by them.
TIMEOUT, FAILED = "device binding timeout", "device binding failed"


class BindingFailed(Exception):
    """A device cannot be prepared; the text is upstream's."""


def is_prepared(claim: ResourceClaim) -> bool:
    """Whether all devices of the claim are ready for the pod. Raises BindingFailed if the driver reports a failure
    condition."""
    for result in results_of(claim):
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        for condition in _true(status, result.binding_failure_conditions or ()):
            why = f'claim={claim.name}, reason={condition.reason or ""}, message="{condition.message or ""}"'
            raise BindingFailed(f"{FAILED}: {why}")
        if len(_true(status, result.binding_conditions)) < len(result.binding_conditions):
            return False
    return claim.status.allocation is not None


def must_be_prepared(claim: ResourceClaim) -> bool:
    """Whether a device of the claim has binding conditions."""
    return any(result.binding_conditions for result in results_of(claim))


def is_overdue(claim: ResourceClaim, timeout_ns: int, now_ns: int) -> bool:
    """Whether the devices should have been prepared by now. The time counts from the allocation, also over restarts."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(result.binding_conditions is None for result in results_of(claim)):
        return False
    return moment_ns(allocation.allocation_timestamp) + timeout_ns < now_ns


def results_of(claim: ResourceClaim) -> Sequence[AllocatedDevice]:
    """The devices that the claim has; none without an allocation."""
    allocation = claim.status.allocation
    return (allocation.devices.results or ()) if allocation is not None else ()


def _status_of(claim: ResourceClaim, result: AllocatedDevice) -> DeviceStatus | None:
    same = (result.driver, result.pool, result.device)
    return next((each for each in claim.status.devices or () if (each.driver, each.pool, each.device) == same), None)


def _true(status: DeviceStatus, types: Sequence[str]) -> list[Condition]:
    """Of these condition types those that are true, with their condition. The first condition of a type counts."""
    found = {condition.type: condition for condition in reversed(status.conditions or ())}
    return [found[each] for each in types if each in found and found[each].status == "True"]


# ---- Writes: how a claim gets and loses its allocation and its reservations.


FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps the API server from deleting a claim while a pod may use its devices."""

Late = Callable[[KubeObject | WriteFault | None], None]
"""Called with the answer to a write when the work that wanted it has ended before."""


def allocated(claim: ResourceClaim, allocation: Allocation) -> ResourceClaim:
    """The claim as it will be once the allocation is written: the ledger counts it as pending."""
    finalizers = claim.metadata.finalizers or []
    if FINALIZER not in finalizers:
        finalizers = [*finalizers, FINALIZER]
    metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


def read_again(claim: ResourceClaim) -> Write:
    """An empty patch: the API server answers with the claim as it is."""
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, {})


def add_finalizer(claim: ResourceClaim) -> Write:
    """A write of its own, before the allocation: status and metadata cannot be changed by one request."""
    finalizers = [*(claim.metadata.finalizers or ()), FINALIZER]
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, {"metadata": _at_version(claim, finalizers)})


def write_status(claim: ResourceClaim, status: dict[str, Any]) -> Write:
    """A patch of the status that is meant for this version of the claim only."""
    body = {"metadata": _at_version(claim), "status": status}
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, "status")


def deallocate(claim: ResourceClaim) -> Write:
    """Take its devices from a claim that no pod uses."""
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
    """Tell the kubelet, by the pod's status, which claim and which requests serve the extended resources of each
    container."""
    status = ExtendedClaimStatus(request_mappings=list(mappings), resource_claim_name=claim.name)
    body = {"status": {"extendedResourceClaimStatus": msgspec.to_builtins(status)}}
    return Write("PATCH", Pod, pod.name, pod.namespace, body, "status")


def delete_claim(claim: ResourceClaim, late: Late | None = None) -> tuple[Write, ...]:
    """Remove the finalizer, then delete: otherwise the claim stays. `late` is called with the answer to each of the two
    writes."""
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


# ---- Metrics: claims that the scheduler created, and how long pods waited for devices to be prepared.


class ClaimMetrics:
    """Counts under the name of the plugin's profile."""

    def __init__(self, handle: Handle) -> None:
        metrics = handle.metrics
        for description in (CLAIM_CREATES, DEVICE_ALLOCATIONS, DEVICE_WAITS):
            metrics.declare(description)
        self._profile = handle.profile_name
        self._created = metrics.counter(CLAIM_CREATES.name)
        self._allocations = metrics.counter(DEVICE_ALLOCATIONS.name)
        self._waits = metrics.histogram(DEVICE_WAITS.name)

    def created(self, is_success: bool) -> None:
        """A claim for extended resources was created, or creating it failed."""
        self._created.series("success" if is_success else "failure").add()

    def waited(self, devices: Iterable[AllocatedDevice], status: str, seconds: float) -> None:
        """A pod waited for some of its devices to be prepared; `status` is success, failure, timeout or error.

        Parity: the wait is recorded for every device of the pod, the allocation for those that had to be prepared.
        """
        for device in devices:
            labels = (self._profile, device.driver, status)
            self._waits.series(*labels).observe(seconds)
            if device.binding_conditions:
                self._allocations.series(*labels).add()
