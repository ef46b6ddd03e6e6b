"""Metrics of claims: those that were created, and how long pods waited for devices that must be prepared."""

from collections.abc import Iterable

from mooring.framework.runner import Runner
from mooring.kit.metrics import Registry
from mooring.model.devices import AllocatedDevice
from mooring.plugins.devices.dynamic_resources import DynamicResources
from mooring.plugins.devices.meter import DeviceMeter


class RegistryMeter(DeviceMeter):
    """Into a registry, under the name of a profile."""

    def __init__(self, registry: Registry, profile: str) -> None:
        self._profile = profile
        self._created = registry.counter("scheduler_resourceclaim_creates_total")
        self._allocations = registry.counter("scheduler_dra_bindingconditions_allocations_total")
        self._waits = registry.histogram("scheduler_dra_bindingconditions_wait_duration_seconds")

    def created(self, is_success: bool) -> None:
        self._created.series("success" if is_success else "failure").add()

    def waited(self, devices: Iterable[AllocatedDevice], status: str, seconds: float) -> None:
        """Parity: the wait is told for every device of the pod, the allocation for those that had to be prepared."""
        for device in devices:
            labels = (self._profile, device.driver, status)
            self._waits.series(*labels).observe(seconds)
            if device.binding_conditions:
                self._allocations.series(*labels).add()


def read_devices(runners: Iterable[Runner], registry: Registry) -> None:
    """Have the work of these profiles on claims measured."""
    for runner in runners:
        for plugin in runner.profile.plugins.values():
            if isinstance(plugin, DynamicResources):
                plugin.meter = RegistryMeter(registry, runner.profile.scheduler_name)
