"""The two extension points of pod groups, which are asked once for a group and not for each pod (points.py has the others),
with the context of an attempt for a group, and the placements that they talk about.

They need the gate TopologyAwareWorkloadScheduling. The scheduler tries the group in each placement that PlacementGenerate
gives, and takes the one with the highest score among those where enough members fit. `plain.py` has both in the plain form:
names of nodes instead of rows, one placement at a time.
"""

from abc import abstractmethod
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
from mooring.framework.contract.points import Plugin, Scores
from mooring.framework.contract.status import PluginError, Rejection
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
    """Result of a trial of the pod group in a placement where it is feasible."""

    placement: PodGroupPlacement
    pods: tuple[Pod, ...]
    """The members that have a node there, in the order in which they were tried."""
    node_names: tuple[str, ...] = ()
    """Names of the nodes of `pods`; empty if no plugin of the profile asks for them
    (`PlacementScorePlugin.grows_with_pods`)."""


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


class PlacementGeneratePlugin(Plugin):
    """Names the sets of nodes on which a pod group is tried; a profile has at most one of them."""

    @abstractmethod
    def generate_placements(
        self, group: PodGroupContext, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Rejection:
        """The placements to try, all within `parent`; a Rejection rejects the group. The order must not depend on chance:
        the lowest place wins ties where the seed does not decide, and the group's status tells about the first one."""


class PlacementScorePlugin(Plugin):
    """Ranks the placements where enough pods of a group fit."""

    def grows_with_pods(self, pods: Sequence[Pod]) -> bool:
        """Whether a score follows from the placement and from which of these members fit there, whichever nodes they get,
        and is never lower with more of them, normalised or not. Then `node_names` may be empty.

        Hot: where this holds for all plugins, the group is tried in the placements that promise most, and not in all of
        them.
        """
        return False

    @abstractmethod
    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        """Any integer for each candidate, the higher the better. Must end in 0..100 after `normalize_placements`.

        The room of the members is not held meanwhile: the node table is as it was before the trial.
        """

    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        """Bring the scores of all candidates to 0..100. Must not write to `scores`."""
        return scores

    @classmethod
    def normalizes_placements(cls) -> bool:
        return cls.normalize_placements is not PlacementScorePlugin.normalize_placements


GROUP_POINTS: dict[str, type[Plugin]] = {
    "placementGenerate": PlacementGeneratePlugin,
    "placementScore": PlacementScorePlugin,
}
"""Configuration name -> point, after those of points.POINTS in the order in which upstream builds them."""
