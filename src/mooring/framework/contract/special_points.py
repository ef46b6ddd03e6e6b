"""Abilities that few plugins have: the last word about the totals of nodes (TotalsPlugin), and devices of nodes that
pods share (DeviceSharing).

Amounts of resources are sums over a node: two devices that are half free look like a whole one. A plugin that shares
devices declares what pods ask of a single device. Bounds of studies read the declaration, so that they do not promise
what no device has.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import Plugin, Rows, ScorePlugin, Scores
from mooring.model.node import Node
from mooring.model.pod import Pod


class TotalsPlugin(ScorePlugin):
    """Has the last word about totals: a score plugin that sees what the others gave. A profile has at most one. It is for
    policies that choose a node, or weights, for each pod, such as trained agents."""

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """It adds nothing to the sum of the others."""
        return None

    def events(self) -> Sequence[Registration]:
        """It rejects no pod, so no event helps one."""
        return ()

    @abstractmethod
    def totals(
        self, context: SchedulingContext, rows: Rows, scores: Callable[[], Mapping[str, Scores]]
    ) -> Scores | None:
        """An integer for each feasible row: the highest one wins. None: the weighted sum of the scores stands.

        `scores()` asks the score plugins of the profile: the normalized scores (0..100, without weights) of each by name.
        """


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
