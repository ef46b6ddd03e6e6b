"""Metrics of claims: those that the scheduler created, and how long pods waited for devices that must be prepared."""

from collections.abc import Iterable

from mooring.framework.metric_catalogue import CLAIM_CREATES, DEVICE_ALLOCATIONS, DEVICE_WAITS
from mooring.framework.points import Handle
from mooring.model.devices import AllocatedDevice


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
