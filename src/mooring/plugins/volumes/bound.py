"""Claims that have their volume: on which nodes it can be used."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.framework.context import SchedulingContext
from mooring.framework.points import Codes, Rows
from mooring.model.csi_migration import InTree, in_tree_of, is_migrated, translated_affinity
from mooring.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, reach_of
from mooring.plugins.volumes.reach import ReachMasks

OUT_OF_REACH, NO_SUCH_VOLUME = 1, 8
"""Codes of rows that will not do."""


def bound_codes(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows, reaches: ReachMasks
) -> Codes:
    """Claim by claim; on each row the first that cannot be used there decides."""
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
    """Rows on which the volume can be used; None: all. Where a driver has taken over, by the driver's own labels."""
    found = None if volume.reach is None else reaches.of(context.nodes, volume.reach)[rows]
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    if in_tree is None or not in_tree.zone_label:
        return found
    migrated = _migrated_rows(context, in_tree)[rows]
    translated = reach_of(translated_affinity(volume, in_tree))
    by_driver = np.ones(len(migrated), np.bool_) if translated is None else reaches.of(context.nodes, translated)[rows]
    return np.where(migrated, by_driver, True if found is None else found)


def is_in_reach(volume: PersistentVolume, labels: dict[str, str], node: CSINode | None) -> bool:
    """The same for one node."""
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    reach = volume.reach
    if in_tree is not None and is_migrated(node, in_tree):
        reach = reach_of(translated_affinity(volume, in_tree))
    return reach is None or reach.matches("", labels)


def _migrated_rows(context: SchedulingContext, in_tree: InTree) -> NDArray[np.bool_]:
    migrated = np.zeros(context.nodes.height, np.bool_)
    for node in context.cluster.storage.nodes.values():
        row = context.nodes.row_book.get(node.name)
        if row is not None and is_migrated(node, in_tree):
            migrated[row] = True
    return migrated
