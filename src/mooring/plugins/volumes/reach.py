"""Volumes that exist: which nodes can use them.

The *reach* of a PersistentVolume is its node affinity; for in-tree volumes whose CSI driver has taken over on a node it
is the affinity translated to the driver's labels. Many volumes share a reach, so masks over the nodes are kept by
matcher.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.match import match_nodes
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes, Rows
from mooring.model.selectors import NodeMatcher
from mooring.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, reach_of
from mooring.model.volumes import InTree, in_tree_of, is_migrated, translated_affinity

# ---- Masks over the nodes, kept for as long as nodes stay as they are.


Mask = NDArray[np.bool_]


class ReachMasks:
    """Masks over all rows by matcher; all are dropped when any node changes."""

    LIMIT = 512
    """Masks kept at once: at 5,000 nodes 2.5 MB. Local volumes, which have a reach each, are matched by label value
    instead."""

    def __init__(self) -> None:
        self._made_of: tuple[object, int, int] | None = None
        self._masks: dict[NodeMatcher, Mask] = {}

    def of(self, nodes: NodeTable, matcher: NodeMatcher) -> Mask:
        """The rows that the matcher matches. Do not write to it."""
        made_of = (nodes.node_touches, nodes.node_touches.end, nodes.height)
        if made_of != self._made_of or len(self._masks) >= self.LIMIT:
            self._made_of = made_of
            self._masks.clear()
        mask = self._masks.get(matcher)
        if mask is None:
            mask = self._masks[matcher] = match_nodes(nodes, matcher, slice(0, nodes.height))
        return mask


OUT_OF_REACH, NO_SUCH_VOLUME = 1, 8
"""Codes of rows; bits beside those of plan.py, because a node may fail for several reasons at once."""


def bound_codes(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows, reaches: ReachMasks
) -> Codes:
    """For each row the code of the first claim whose volume cannot be used there."""
    codes = np.zeros(len(context.nodes.alive[rows]), np.int64)
    for claim in claims:
        volume = context.cluster.storage.volume(claim.spec.volume_name)
        if volume is None:
            codes[codes == 0] = NO_SUCH_VOLUME
            break
        reached = rows_in_reach(context, volume, rows, reaches)
        if reached is not None:
            codes[~reached] = OUT_OF_REACH
    return codes


def rows_in_reach(
    context: SchedulingContext, volume: PersistentVolume, rows: Rows, reaches: ReachMasks
) -> NDArray[np.bool_] | None:
    """Rows on which the volume can be used; None: all. On rows where the CSI driver has taken over, its labels decide."""
    found = None if volume.reach is None else reaches.of(context.nodes, volume.reach)[rows]
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    if in_tree is None or not in_tree.zone_label:
        return found
    migrated = _migrated_rows(context, in_tree)[rows]
    translated = reach_of(translated_affinity(volume, in_tree))
    by_driver = np.ones(len(migrated), np.bool_) if translated is None else reaches.of(context.nodes, translated)[rows]
    return np.where(migrated, by_driver, True if found is None else found)


def is_in_reach(volume: PersistentVolume, labels: dict[str, str], node: CSINode | None) -> bool:
    """The same for one node: PreBind checks again before it goes on."""
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    reach = volume.reach
    if in_tree is not None and is_migrated(node, in_tree):
        reach = reach_of(translated_affinity(volume, in_tree))
    return reach is None or reach.matches("", labels)


def _migrated_rows(context: SchedulingContext, in_tree: InTree) -> NDArray[np.bool_]:
    """Rows whose CSINode says that the in-tree plugin is migrated to its CSI driver."""
    migrated = np.zeros(context.nodes.height, np.bool_)
    for node in context.cluster.storage.nodes.values():
        row = context.nodes.row_book.get(node.name)
        if row is not None and is_migrated(node, in_tree):
            migrated[row] = True
    return migrated
