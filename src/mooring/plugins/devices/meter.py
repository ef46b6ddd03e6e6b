"""What DynamicResources reports of its work on claims; whoever publishes metrics puts something in its place."""

from collections.abc import Iterable

from mooring.model.devices import AllocatedDevice


class DeviceMeter:
    """Nobody wants to know."""

    def created(self, is_success: bool) -> None:
        """A claim for extended resources was created, or could not be."""

    def waited(self, devices: Iterable[AllocatedDevice], status: str, seconds: float) -> None:
        """A pod waited for some of its devices to be prepared; `status` is success, failure, timeout or error."""
