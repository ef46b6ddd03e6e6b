"""Which parts of dynamic resource allocation are on: the feature gates that change how devices are chosen."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    prioritized_list: bool = True
    partitionable: bool = True
    taints: bool = True
    consumable_capacity: bool = True
    binding_conditions: bool = True
    """Devices that must be prepared before a pod can be bound; drivers report on them in the status of claims."""
    extended_resources: bool = True

    @classmethod
    def of(cls, gates: Mapping[str, bool]) -> "DeviceFeatures":
        def is_on(gate: str) -> bool:
            return gates.get(gate, True)

        return cls(
            prioritized_list=is_on("DRAPrioritizedList"),
            partitionable=is_on("DRAPartitionableDevices"),
            taints=is_on("DRADeviceTaints"),
            consumable_capacity=is_on("DRAConsumableCapacity"),
            binding_conditions=is_on("DRADeviceBindingConditions") and is_on("DRAResourceClaimDeviceStatus"),
            extended_resources=is_on("DRAExtendedResource"),
        )
