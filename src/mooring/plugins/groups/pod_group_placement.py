"""TopologyPlacementGenerator: the members of a PodGroup go to nodes with one value of the label that it names.
PodGroupPodsCount: of several such values, the one where most members fit.

NodeResourcesFit scores placements as well (plugins/resources/placement_score.py).
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.cluster.columns.labels import ABSENT
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.group_context import PodGroupAssignments, PodGroupContext, PodGroupPlacement
from mooring.framework.contract.group_points import PlacementGeneratePlugin, PlacementScorePlugin
from mooring.framework.contract.points import Handle, Scores
from mooring.framework.contract.status import PluginError
from mooring.model.pod import Pod

_KEPT_LABELS = 16
"""Labels whose domains are kept: clusters have a handful of topology levels."""


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """A placement for each value of the label, in the order of the values. Where members have a node already, only their
    value is left."""

    name = "TopologyPlacementGenerator"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._kept: dict[str, tuple[ref[NodeTable], int, dict[str, PodGroupPlacement]]] = {}
        """By label: the domains of a table, and the end of its log of nodes that they are for."""

    def events(self) -> tuple[()]:
        """The queue does not know it as one that rejected a pod."""
        return ()

    def generate_placements(self, group: PodGroupContext, parent: PodGroupPlacement) -> Sequence[PodGroupPlacement]:
        key = group.declared.topology_key
        if key is None:
            return [parent]
        members = group.members
        scheduled = [*members.assumed.values(), *members.assigned.values()]
        required = _domain_of(scheduled, key, group.nodes) if scheduled else None
        domains = self._domains(key, group.nodes, parent)
        if required is None:
            return list(domains.values())
        return [domains[required]] if required in domains else []

    def _domains(self, key: str, nodes: NodeTable, parent: PodGroupPlacement) -> dict[str, PodGroupPlacement]:
        """The domains by name. Hot: kept while no node changes, if the parent has all nodes: 5,000 nodes take 0.4 ms."""
        if len(parent.rows) != nodes.alive_count:
            return _group_rows(key, nodes, parent)
        kept = self._kept.get(key)
        if kept is None or kept[0]() is not nodes or kept[1] != nodes.node_touches.end:
            if len(self._kept) >= _KEPT_LABELS:
                self._kept.clear()
            kept = self._kept[key] = ref(nodes), nodes.node_touches.end, _group_rows(key, nodes, parent)
        return kept[2]


def _group_rows(key: str, nodes: NodeTable, parent: PodGroupPlacement) -> dict[str, PodGroupPlacement]:
    """The rows of each value of the label, by value in ascending order. Rows without the label are in none of them.

    Parity: upstream's order is that of a map, so any will do; this one makes runs repeatable.
    """
    column = nodes.labels.column(key)
    codes = column.codes[parent.rows]
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    parts = zip(found.tolist(), np.split(parent.rows[order], starts[1:]), strict=True)
    by_name = {str(column.values[code]): rows for code, rows in parts if code != ABSENT}
    return {name: PodGroupPlacement(name, by_name[name]) for name in sorted(by_name)}


def _domain_of(pods: Sequence[Pod], key: str, nodes: NodeTable) -> str:
    """The domain of members that have a node. Errors are upstream's, word for word."""
    column, domain = nodes.labels.column(key), ""
    for pod in pods:
        row = nodes.row_book.get(pod.spec.node_name)
        if row is None or not nodes.alive[row]:
            where = f'getting node for pod {pod.key}: nodeinfo not found for node name "{pod.spec.node_name}"'
            raise PluginError(f"cannot determine domain for already scheduled pods: {where}")
        code = int(column.codes[row])
        if code == ABSENT:
            text = f"no topology domain found for pod {pod.key}"
            raise PluginError(f"cannot determine domain for already scheduled pods: {text}")
        found = str(column.values[code])
        if domain not in ("", found):
            text = f"more than 1 domain found for pod group: {domain}, {found}"
            raise PluginError(f"cannot determine domain for already scheduled pods: {text}")
        domain = found
    return domain


class PodGroupPodsCount(PlacementScorePlugin):
    """Scores the share of members that have a node, of the largest number in any placement."""

    name = "PodGroupPodsCount"

    def events(self) -> tuple[()]:
        return ()

    def grows_with_pods(self, pods: Sequence[Pod]) -> bool:
        return True

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        """Members that had a node before count as well, so that one more or less changes little."""
        scheduled = group.members.scheduled_count
        return np.array([scheduled + len(candidate.pods) for candidate in candidates], np.int64)

    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        most = int(scores.max(initial=0))
        if not most:
            raise PluginError("no pods from pod group are assigned to any of the candidate placements")
        return scores * MAX_SCORE // most


PLUGINS = (PodGroupPodsCount, TopologyPlacementGenerator)
