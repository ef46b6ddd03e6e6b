"""Binding conditions: some devices must be prepared for a node before a pod can be bound to it; drivers report on that."""

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

# ---- The writes of DynamicResources: how a claim gets and loses its allocation and its reservations.


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


TIMEOUT, FAILED = "device binding timeout", "device binding failed"


class BindingFailed(Exception):
    """A device cannot be prepared; the text is upstream's."""


def is_prepared(claim: ResourceClaim) -> bool:
    """Whether all devices of the claim are ready for the pod. Raises BindingFailed."""
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
    return any(result.binding_conditions for result in results_of(claim))


def is_overdue(claim: ResourceClaim, timeout_ns: int, now_ns: int) -> bool:
    """Whether the devices should have been prepared by now."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(result.binding_conditions is None for result in results_of(claim)):
        return False
    return moment_ns(allocation.allocation_timestamp) + timeout_ns < now_ns


def results_of(claim: ResourceClaim) -> Sequence[AllocatedDevice]:
    allocation = claim.status.allocation
    return (allocation.devices.results or ()) if allocation is not None else ()


def _status_of(claim: ResourceClaim, result: AllocatedDevice) -> DeviceStatus | None:
    same = (result.driver, result.pool, result.device)
    return next((each for each in claim.status.devices or () if (each.driver, each.pool, each.device) == same), None)


def _true(status: DeviceStatus, types: Sequence[str]) -> list[Condition]:
    found = {condition.type: condition for condition in reversed(status.conditions or ())}
    return [found[each] for each in types if each in found and found[each].status == "True"]


# ---- Metrics of claims: those that the scheduler created, and how long pods waited for devices that must be prepared.


class ClaimMetrics:
    """Under the name of the plugin's profile."""

    def __init__(self, handle: Handle) -> None:
        metrics = handle.metrics
        for description in (CLAIM_CREATES, DEVICE_ALLOCATIONS, DEVICE_WAITS):
            metrics.declare(description)
        self._profile = handle.profile_name
        self._created = metrics.counter(CLAIM_CREATES.name)
        self._allocations = metrics.counter(DEVICE_ALLOCATIONS.name)
        self._waits = metrics.histogram(DEVICE_WAITS.name)

    def created(self, is_success: bool) -> None:
        """A claim for extended resources was created, or could not be."""
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
