"""DeviceSharing: how a plugin that shares devices of nodes says what pods ask of a single device.

Amounts of resources are sums over a node: two devices that are half free look like a whole one. Bounds of studies read the
declaration, so that they do not promise what no device has.
"""

from abc import abstractmethod
from dataclasses import dataclass

from mooring.framework.contract.points import Plugin
from mooring.model.node import Node
from mooring.model.pod import Pod


@dataclass(frozen=True, slots=True)
class DeviceShares:
    """A request for devices: a pod asks for as much of each of `count` devices, which are different ones."""

    share: int
    """At most the size of a device."""
    count: int


class DeviceSharing(Plugin):
    """A plugin whose filter lets a pod use a node only if single devices have room for it."""

    device_resource: str
    """The resource that counts the shares of all devices of a node together."""
    device_size: int
    """How much of that resource a whole device has."""

    @abstractmethod
    def device_request(self, pod: Pod) -> DeviceShares:
        """Returns the request of a pod; a count of 0 if it asks for no device."""

    @abstractmethod
    def device_count(self, node: Node) -> int:
        """How many devices a node has."""
