"""The extension points of pod groups, which are asked for a group and not for each pod (points.py has the others), with the
context of an attempt for a group, and the placements that they talk about.

PlacementGenerate and PlacementScore need the gate TopologyAwareWorkloadScheduling. The scheduler tries the group in each
placement that PlacementGenerate gives, and takes the one with the highest score among those where enough members fit.
`plain.py` has these two in the plain form: names of nodes instead of rows, one placement at a time.
"""

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.contract.context import CycleState, SchedulingContext
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import Plugin, Scores
from mooring.framework.contract.status import PluginError, Rejection
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup

_PLAIN = PluginCaller()


def group_not_found(name: GroupName) -> str:
    """Upstream's words for a group that does not exist."""
    kind = "composite pod group" if name.is_composite else "pod group"
    return f"{kind} object not found for {kind} {name.key}"


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


class PlacementProgress(msgspec.Struct, frozen=True):
    """How far the trial of a group in a placement is: pods of a PodGroup, or groups of a CompositePodGroup."""

    remaining: int
    """Those that were not tried yet."""
    scheduled: int
    """Those that have a node, from before or in this trial."""


class PodGroupContext:
    """The context of an attempt for a group. `pods` are the members that are tried, in this order, of all groups in it;
    `state` is what plugins carry from PlacementGenerate to PlacementScore."""

    def __init__(self, name: GroupName, pods: Sequence[Pod], cluster: Cluster, caller: PluginCaller = _PLAIN) -> None:
        self.name = name
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
        return self.name.key

    @cached_property
    def declared(self) -> AnyPodGroup:
        """The PodGroup or CompositePodGroup; raises PluginError in upstream's words if it does not exist."""
        found = self.cluster.group_tree.find(self.name)
        if found is None:
            raise PluginError(group_not_found(self.name))
        return found

    @property
    def scheduled(self) -> list[Pod]:
        """The pods of all groups in it that have a node, or are about to."""
        found: list[Pod] = []
        for key in self.cluster.group_tree.leaves(self.name) if self.cluster.groups is not None else ():
            members = self.cluster.groups.named(key)  # type: ignore[union-attr]
            found += [*members.assigned.values(), *members.assumed.values()]
        return found


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


class PlacementFeasiblePlugin(Plugin):
    """Says whether enough of a group fit. It is not configured: a profile has it with any other point of the plugin."""

    @abstractmethod
    def placement_feasible(self, group: PodGroupContext, progress: PlacementProgress) -> Rejection | None:
        """Asked before the first pod (or group of a CompositePodGroup) is tried, and after each. None: enough fit; Wait: more
        are needed; Unschedulable: even if all that remain fit, they are too few, and the trial ends."""

    def enough_members(self, group: PodGroupContext) -> int | None:
        """How many pods of a PodGroup must have a node, if the number alone decides; None: it does not.

        Hot: where all plugins say, placements in which too few fit by their sums are not tried.
        """
        return None


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


# ---- PodGroupPostFilter: a way to make room for a group that does not fit. Needs the gate GenericWorkload.


UNSCHEDULABLE_GROUP = "pod group is unschedulable"
"""Upstream's words: they end up in conditions of pods and pod groups, alone or with more after them."""


def tells_of_group(message: str) -> bool:
    """Whether the message of a member is that of its group: the member fits, or was not tried."""
    return message.startswith((UNSCHEDULABLE_GROUP, "minCount ("))


class GroupFitError(msgspec.Struct, frozen=True):
    """A pod group of which not enough members fit."""

    name: GroupName
    """The root."""
    group: AnyPodGroup
    members: tuple[Pod, ...]
    """The members that were tried, or would have been, in this order."""
    cluster: Cluster
    contexts: tuple[SchedulingContext | None, ...] = ()
    """For each of the members the context of its attempt; None: it was not tried."""


class PodsLeave(msgspec.Struct, frozen=True):
    """The question of a search: does the group fit when these pods have left, and all that preemption may evict for this
    priority?"""

    pods: tuple[Pod, ...] = ()
    priority: int | None = None
    """That of the group; None: no pod leaves for its priority. Pods of groups count with the priority of their root
    (GroupTree.victim_priority).

    Hot: the cluster without pods of lower priority is kept from search to search. Single pods are taken off it for one
    search."""


class MembersPlaced(Protocol):
    """The answer to PodsLeave, if the group fits: nodes for its members. They stay the same from now on."""

    @property
    def nodes(self) -> Mapping[str, str]:
        """Key of a member -> its node, in the order in which the members were tried."""

    @property
    def rows(self) -> Set[int] | None:
        """The rows of the node table whose pods matter to the members; None: all rows. Pods on other rows can come back, in
        whatever order."""

    def reprieve(self, pods: Sequence[Pod]) -> bool:
        """Put pods back that have left. False: the members do not fit on their nodes with them, so they stay away."""


class GroupRoom(msgspec.Struct, frozen=True):
    """There is room for the group, or there will be: the message says how."""

    message: str
    nominated: Mapping[str, str]
    """Key of a member -> the node to nominate it to; an empty name clears its nomination. Members that are not named keep
    the nomination that they have."""
    victims: tuple[Pod, ...] = ()
    """Pods that have to leave, the most important first. There may be none."""
    violations: int = 0
    """How many of the victims violate a disruption budget."""
    disrupted_groups: int = 0
    """How many units among the victims are groups, or pods of groups."""


GroupSearch = Generator[PodsLeave, MembersPlaced | Rejection, GroupRoom | Rejection]
"""Yields at most one question, is sent nodes for the members or why there are none, and returns where room is or why there is
none. The scheduler puts all pods back when the search is over."""


class PodGroupPostFilterPlugin(Plugin):
    """Makes room for a pod group that does not fit."""

    @abstractmethod
    def pod_group_post_filter(self, failure: GroupFitError) -> GroupSearch:
        """Find room. Others evict the victims. After a rejection with the code Unschedulable the next plugin is asked; one
        with the code UnschedulableAndUnresolvable ends PodGroupPostFilter."""

    def eviction_began(self, pod: Pod) -> None:
        """The victims for a group that this pod is a member of are about to be evicted."""

    def eviction_ended(self, pod: Pod) -> None:
        """All of these evictions were answered."""


GROUP_POINTS: dict[str, type[Plugin]] = {
    "placementGenerate": PlacementGeneratePlugin,
    "placementScore": PlacementScorePlugin,
    "podGroupPostFilter": PodGroupPostFilterPlugin,
}
"""Configuration name -> point, after those of points.POINTS in the order in which upstream builds them."""
