"""Plugins in the plain form: one pod, one node, one answer. The framework turns them into columns.

    class FewerPods(PlainPlugin):
        name = "FewerPods"

        def filter(self, pod, node):
            if len(node.pods) >= 20:
                return "node(s) had 20 pods already"

        def score(self, pod, node):
            return max(0, 100 - 5 * len(node.pods))

    class ByRow(PlainPlugin):
        name = "ByRow"

        def placements(self, group, pods, nodes):
            rows = sorted({node.labels.get("row", "") for node in nodes})
            return {row: [node.name for node in nodes if node.labels.get("row", "") == row] for row in rows}

It is asked about every node in every attempt, so it costs a Python call a node: fine for hundreds of nodes, slow for
thousands. When that matters, write it over columns (points.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.resource_amounts import NOWHERE
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import (
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
)
from mooring.framework.contract.points import Codes, FilterPlugin, Handle, Plugin, Rows, ScorePlugin, Scores
from mooring.framework.contract.status import Rejection, curable
from mooring.model.node import Node, Taint
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup


class NodeView:
    """A node as a plain plugin sees it. Amounts are integers: cpu in milli-CPU, memory in bytes, others as counted."""

    __slots__ = ("_nodes", "_row")

    def __init__(self, nodes: NodeTable, row: int) -> None:
        self._nodes = nodes
        self._row = row

    @property
    def node(self) -> Node:
        """The object itself, as far as Mooring decodes it."""
        node = self._nodes.nodes[self._row]
        assert node is not None, "plugins are asked only about rows that have a node"
        return node

    @property
    def name(self) -> str:
        return self._nodes.names[self._row]

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.node.metadata.annotations or {}

    @property
    def taints(self) -> Sequence[Taint]:
        return self.node.taints

    @property
    def pods(self) -> list[Pod]:
        """The pods on the node, those included that are about to be bound to it."""
        return list(self._nodes.pods_on[self._row])

    @property
    def allowed_pods(self) -> int:
        """The node's limit for the number of pods."""
        return int(self._nodes.allowed_pods[self._row])

    def allocatable(self, resource: str) -> int:
        """How much the node has of a resource; 0 if it has none."""
        index = self._nodes.amounts.resource(resource)  # first: a new resource replaces the matrix
        if self._row in self._nodes.amounts.huge_rows:
            return self._nodes.amounts.exact(resource, self._row)[0]
        return int(self._nodes.amounts.allocatable[index, self._row])

    def requested(self, resource: str) -> int:
        """How much the pods on the node request. A resource that no node has is not counted in the table, so it is
        summed up here."""
        index = self._nodes.amounts.resource(resource)
        if index == NOWHERE or self._row in self._nodes.amounts.huge_rows:
            return self._nodes.amounts.exact(resource, self._row)[1]
        return int(self._nodes.amounts.requested[index, self._row])

    def free(self, resource: str) -> int:
        """May be negative: pods are placed by other means too, and nodes may shrink."""
        return self.allocatable(resource) - self.requested(resource)


class PlacementView(msgspec.Struct, frozen=True):
    """A placement of a pod group as a plain plugin sees it, with the members that fit there."""

    name: str
    nodes: tuple[NodeView, ...]
    node_of: Mapping[str, str]
    """The node of each member that has one, by name of the pod."""
    pods: tuple[Pod, ...]
    """These members, in the order in which they were tried."""


class PlainPlugin:
    """Base of plain plugins: define `filter`, `score`, `placements` or `score_placement`. Built as `Plugin(args, handle)`,
    like all plugins."""

    name: ClassVar[str]
    annotations: ClassVar[Sequence[str]] = ()
    """The keys of annotations that it reads, as `Plugin.annotations`."""

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        self.args = args

    def filter(self, pod: Pod, node: NodeView) -> str | Rejection | None:
        """Why the pod cannot go to the node; nothing if it can.

        A text means that it could if pods were removed (preemption may try); say `final(text)` if that cannot help.
        """
        raise NotImplementedError

    def score(self, pod: Pod, node: NodeView) -> int:
        """How good the node is, from 0 to 100, or anything if there is a `normalize`."""
        raise NotImplementedError

    def normalize(self, scores: list[int]) -> list[int]:
        """Bring the scores of all nodes that passed to 0..100."""
        raise NotImplementedError

    def placements(
        self, group: AnyPodGroup, pods: Sequence[Pod], nodes: Sequence[NodeView]
    ) -> Mapping[str, Sequence[str]] | str | Rejection:
        """The sets of nodes on which to try the group: names of nodes by the name of the set; or why it can go nowhere.
        `pods` are the members that wait."""
        raise NotImplementedError

    def score_placement(self, group: AnyPodGroup, placement: PlacementView) -> int:
        """How good a set of nodes is where the group fits, from 0 to 100, or anything if there is a
        `normalize_placements`."""
        raise NotImplementedError

    def normalize_placements(self, scores: list[int]) -> list[int]:
        """Bring the scores of all sets of nodes to 0..100."""
        raise NotImplementedError


def lift(plain: type[PlainPlugin]) -> type[Plugin]:
    """Turn a plain plugin into one over columns, at the extension points for which it defines a method."""
    bases: list[type[Plugin]] = []
    if plain.filter is not PlainPlugin.filter:
        bases.append(_LiftedFilter)
    if plain.score is not PlainPlugin.score:
        bases.append(_LiftedScore if plain.normalize is PlainPlugin.normalize else _LiftedNormalizedScore)
    if plain.placements is not PlainPlugin.placements:
        bases.append(_LiftedGenerator)
    if plain.score_placement is not PlainPlugin.score_placement:
        is_raw = plain.normalize_placements is PlainPlugin.normalize_placements
        bases.append(_LiftedPlacementScore if is_raw else _LiftedNormalizedPlacementScore)
    if not bases:
        methods = "neither filter nor score, and nothing for pod groups"
        raise ValueError(f"plain plugin {plain.__name__} defines {methods}")
    members = {"name": plain.name, "plain": plain, "__doc__": plain.__doc__, "__module__": plain.__module__}
    members["annotations"] = plain.annotations
    return type(plain.__name__, tuple(bases), members)


class _Lifted(Plugin):
    """A plain plugin behind an extension point over columns. It makes no `@reads` claim, so its answers are never
    kept: what it reads is not known."""

    plain: ClassVar[type[PlainPlugin]]

    def __init__(self, args: Any, handle: Handle) -> None:
        self._plugin = self.plain(args, handle)


class _LiftedFilter(_Lifted, FilterPlugin):
    """Encodes each distinct answer as a code, as column filters have to."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._rejections: list[Rejection] = []
        self._rejection_book: dict[str | Rejection, int] = {}

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        answers = (self._plugin.filter(context.pod, node) for node in _views(context, rows))
        return np.fromiter((self._encode(answer) for answer in answers), np.int64)

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return self._rejections[code - 1]

    def _encode(self, answer: str | Rejection | None) -> int:
        """Convert the answer of a plain filter to a code: 0 for a node that passes, otherwise the number of the rejection.
        Equal reasons share a number."""
        if answer is None:
            return 0
        if not isinstance(answer, str | Rejection):
            raise TypeError(f"filter must return a reason or nothing, not {answer!r}")
        code = self._rejection_book.get(answer)
        if code is None:
            self._rejections.append(curable(answer) if isinstance(answer, str) else answer)
            code = self._rejection_book[answer] = len(self._rejections)
        return code


class _LiftedScore(_Lifted, ScorePlugin):
    """One call a node; scores are checked here, where the plugin can still be named."""

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        score, pod = self._plugin.score, context.pod
        return np.array([_whole(score(pod, node), "score") for node in _views(context, rows)], np.int64)


class _LiftedNormalizedScore(_LiftedScore):
    """With a `normalize` over the scores of all feasible nodes."""

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        return _normalized(self._plugin.normalize(scores.tolist()), "normalize", len(scores), "nodes")


class _LiftedGenerator(_Lifted, PlacementGeneratePlugin):
    """Turns names of nodes into rows."""

    def generate_placements(
        self, group: PodGroupContext, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Rejection:
        """Ask the plain plugin with views of the nodes, and convert the lists of nodes that it returns to rows of the node
        table."""
        nodes = group.nodes
        views = [NodeView(nodes, row) for row in parent.rows.tolist()]
        found = self._plugin.placements(group.declared, group.pods, views)
        if isinstance(found, str | Rejection):
            return curable(found) if isinstance(found, str) else found
        return [PodGroupPlacement(name, _rows_of(listed, nodes)) for name, listed in found.items()]


class _LiftedPlacementScore(_Lifted, PlacementScorePlugin):
    """One call a placement."""

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        scores = [self._plugin.score_placement(group.declared, _view_of(group, each)) for each in candidates]
        return np.array([_whole(score, "score_placement") for score in scores], np.int64)


class _LiftedNormalizedPlacementScore(_LiftedPlacementScore):
    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        found = self._plugin.normalize_placements(scores.tolist())
        return _normalized(found, "normalize_placements", len(scores), "placements")


def _view_of(group: PodGroupContext, candidate: PodGroupAssignments) -> PlacementView:
    views = tuple(NodeView(group.nodes, row) for row in candidate.placement.rows.tolist())
    names = (pod.name for pod in candidate.pods)
    node_of = dict(zip(names, candidate.node_names, strict=True))
    return PlacementView(candidate.placement.name, views, node_of, candidate.pods)


def _rows_of(names: Sequence[str], nodes: NodeTable) -> NDArray[np.intp]:
    unknown = [name for name in names if name not in nodes.row_book]
    if unknown:
        raise ValueError(f"placements must name nodes of the cluster, and {unknown[0]!r} is none")
    return np.array(sorted({nodes.row_book[name] for name in names}), np.intp)


def _whole(score: int, method: str) -> int:
    if not isinstance(score, int):
        raise TypeError(f"{method} must return a whole number, not {score!r}")
    return score


def _normalized(scores: list[int], method: str, count: int, of: str) -> Scores:
    if len(scores) != count:
        raise ValueError(f"{method} returned {len(scores)} scores for {count} {of}")
    if not all(isinstance(score, int) for score in scores):
        raise TypeError(f"{method} must return whole numbers")
    return np.array(scores, np.int64)


def _views(context: SchedulingContext, rows: Rows) -> list[NodeView]:
    """A view of each of the rows."""
    nodes = context.nodes
    return [NodeView(nodes, row) for row in np.arange(nodes.height)[rows].tolist()]
