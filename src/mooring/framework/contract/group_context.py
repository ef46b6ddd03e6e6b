"""The context of one attempt to place a pod group: what the framework hands to plugins at PlacementGenerate and
PlacementScore, and the placements that they talk about."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.framework.contract.context import CycleState
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.status import PluginError
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

_PLAIN = PluginCaller()


def group_not_found(key: str) -> str:
    """Upstream's words for a PodGroup that does not exist; they name it without its namespace."""
    return f'podgroup.{POD_GROUP.group} "{key.partition("/")[2]}" not found'


# Hot: there may be hundreds of each in an attempt, and structs take a third of the time of dataclasses.


class PodGroupPlacement(msgspec.Struct, frozen=True, eq=False):
    """Nodes on which a pod group is tried, and on no others. Placements may share nodes."""

    name: str
    """For people; the generator chooses it."""
    rows: NDArray[np.intp]
    """Rows of the node table, ascending. Do not write to it."""

    def mask(self, nodes: NodeTable) -> Mask | None:
        """The rows as a mask; None: all nodes."""
        if len(self.rows) == nodes.alive_count:
            return None
        mask = np.zeros(nodes.height, np.bool_)
        mask[self.rows] = True
        return mask


class PodGroupAssignments(msgspec.Struct, frozen=True, eq=False):
    """What came of trying the group in a placement where it is feasible."""

    placement: PodGroupPlacement
    pods: tuple[Pod, ...]
    """The members that have a node there, in the order in which they were tried."""
    node_names: tuple[str, ...] = ()
    """Their nodes; empty where no plugin of the profile asks (`PlacementScorePlugin.grows_with_pods`)."""


class PodGroupContext:
    """The context of an attempt for a group. `pods` are the members that are tried, in this order; `state` is what plugins
    carry from PlacementGenerate to PlacementScore."""

    def __init__(self, pods: Sequence[Pod], cluster: Cluster, caller: PluginCaller = _PLAIN) -> None:
        """There must be at least one pod; all are members of one group."""
        self.pods = tuple(pods)
        self.cluster = cluster
        self.state = CycleState()
        self.caller = caller
        self.wrap = caller.wrap_always()
        self._rows: tuple[tuple[int, ...], RowsByPlacement] | None = None

    @property
    def nodes(self) -> NodeTable:
        return self.cluster.nodes

    def rows_of(self, placements: Sequence[PodGroupPlacement]) -> "RowsByPlacement":
        """The rows of all these placements. Hot: as a rule asked for three times, with the same ones."""
        # By identity, which is safe because what is kept keeps the placements.
        asked = tuple(map(id, placements))
        if self._rows is None or self._rows[0] != asked:
            self._rows = asked, RowsByPlacement(placements)
        return self._rows[1]

    @property
    def key(self) -> str:
        """Namespace and name of the group."""
        return self.pods[0].group_key or ""

    @cached_property
    def declared(self) -> PodGroup:
        """The PodGroup object; raises PluginError in upstream's words if it does not exist."""
        found = self.cluster.pod_group(self.key)
        if found is None:
            raise PluginError(group_not_found(self.key))
        return found

    @property
    def members(self) -> PodGroupMembers:
        """All members that the scheduler knows, by how far they have come."""
        groups = self.cluster.groups
        return (groups.of(self.pods[0]) if groups is not None else None) or PodGroupMembers()


class RowsByPlacement:
    """The rows of several placements one after another, so that sums over each of them take one pass."""

    def __init__(self, placements: Sequence[PodGroupPlacement]) -> None:
        self.placements = tuple(placements)
        parts = [placement.rows for placement in placements]
        self.rows: NDArray[np.intp] = np.concatenate(parts) if parts else np.zeros(0, np.intp)
        lengths = np.fromiter(map(len, parts), np.intp, len(parts))
        self._are_filled = lengths > 0
        self._starts = (np.cumsum(lengths) - lengths)[self._are_filled]

    def are_ascending(self) -> bool:
        """Whether each placement has its rows in order, and none of them twice."""
        rises = self.rows[1:] > self.rows[:-1]
        rises[self._starts[1:] - 1] = True  # from one placement to the next
        return bool(rises.all())

    def sum(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """For each placement the sum of what its rows have. The last axis of `numbers` goes by `rows`.

        | rows of the placements | numbers | sums |
        | 0 1, none, 2           | 1 2 3   | 3 0 3 |
        """
        sums = np.zeros((*numbers.shape[:-1], len(self._are_filled)), numbers.dtype)
        if len(self._starts):
            sums[..., self._are_filled] = np.add.reduceat(numbers, self._starts, axis=-1)
        return sums
