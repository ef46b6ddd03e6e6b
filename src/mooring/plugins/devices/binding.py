"""Binding conditions: some devices must be prepared for a node before a pod can be bound to it; drivers report on that."""

from collections.abc import Sequence

from mooring.kit.clock import moment_ns
from mooring.model.devices import AllocatedDevice, DeviceStatus, ResourceClaim
from mooring.model.meta import Condition

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
