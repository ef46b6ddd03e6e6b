"""The feature gates as a configuration is read with them."""

from collections.abc import Mapping

from mooring.framework.config.feature_gates import DEFAULTS


def with_defaults(chosen: Mapping[str, bool] | None) -> dict[str, bool]:
    """All gates; those that nobody chose have their default."""
    return {**DEFAULTS, **(chosen or {})}


def can_wait_for_devices(gates: Mapping[str, bool]) -> bool:
    """Whether DynamicResources has a binding timeout: that takes both of two gates."""
    return gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
