"""The feature gates that change what a configuration means, with their defaults in v1.36."""

from collections.abc import Mapping

GATES: Mapping[str, bool] = {
    "DRADeviceBindingConditions": True,
    "DRAResourceClaimDeviceStatus": True,
    "DRASchedulerFilterTimeout": True,
    "GangScheduling": False,
    "GenericWorkload": False,
    "NodeDeclaredFeatures": True,
    "StorageCapacityScoring": False,
    "TopologyAwareWorkloadScheduling": False,
}


def with_defaults(chosen: Mapping[str, bool] | None) -> dict[str, bool]:
    """All gates that are known here or were chosen; those that nobody chose have their default."""
    return {**GATES, **(chosen or {})}


def can_wait_for_devices(gates: Mapping[str, bool]) -> bool:
    """Whether DynamicResources has a binding timeout: that takes both of two gates."""
    return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
