"""What would be done on each node for claims that wait for their pod: bind a volume that is there, or have one made."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.offers import NONE
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Codes, Rows
from mooring.framework.status import PluginError
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.model.volumes import selected_node
from mooring.plugins.volumes.choice import VolumeChoice, choose_volumes
from mooring.plugins.volumes.provisioning import ReportedRoom, match_topologies
from mooring.plugins.volumes.reach import ReachMasks
from mooring.rules.persistent_volumes import can_provision

NO_VOLUME, NO_ROOM = 2, 4
"""Codes of rows on which the claims cannot be served."""


@dataclass(slots=True)
class VolumePlan:
    """For the rows asked about, in their order."""

    rows: Rows
    version: int
    """Of the storage that it is good for."""
    codes: Codes
    choices: list[VolumeChoice] = field(default_factory=list)
    """Claims that may be served by a volume that is there."""
    settled: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims whose volume is being made for a node already."""

    def index_of(self, row: int) -> int | None:
        """The position of a row in the columns; None if it was not asked about."""
        if isinstance(self.rows, slice):
            return row if row < len(self.codes) else None
        found = np.flatnonzero(self.rows == row)
        return int(found[0]) if len(found) else None

    def bindings(self, index: int) -> list[tuple[PersistentVolume, PersistentVolumeClaim]]:
        """The volumes that are there, each with the claim that would get it."""
        chosen = ((choice.volume(index), choice.claim) for choice in self.choices)
        return [(volume, claim) for volume, claim in chosen if volume is not None]

    def provisions(self, index: int) -> list[PersistentVolumeClaim]:
        """The claims that a volume would have to be made for."""
        unserved = (choice.claim for choice in self.choices if choice.rank_at(index) == NONE)
        return [*self.settled, *unserved]


@dataclass(slots=True)
class Planner:
    """Keeps, from one question to the next, what follows from nodes and from reported room."""

    reaches: ReachMasks = field(default_factory=ReachMasks)
    room: ReportedRoom = field(default_factory=ReportedRoom)

    def plan(self, context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows) -> VolumePlan:
        settled = [claim for claim in claims if selected_node(claim) is not None]
        open_claims = [claim for claim in claims if selected_node(claim) is None]
        elsewhere = _rows_elsewhere(context, settled, rows)
        plan = VolumePlan(rows, context.cluster.storage.version, np.where(elsewhere, NO_VOLUME, 0), settled=settled)
        if elsewhere.all():
            return plan
        plan.choices = choose_volumes(context, open_claims, rows, self.reaches)
        for claim in settled:
            self._check(context, plan, claim, ~elsewhere, rows)
        for choice in plan.choices:
            self._check(context, plan, choice.claim, ~elsewhere & (choice.ranks == NONE), rows)
        return plan

    def _check(
        self,
        context: SchedulingContext,
        plan: VolumePlan,
        claim: PersistentVolumeClaim,
        asked: NDArray[np.bool_],
        rows: Rows,
    ) -> None:
        """Note where a volume cannot be made for a claim; what was noted before stands."""
        asked = asked & (plan.codes == 0)
        if not asked.any():
            return
        storage_class = _class_of(context, claim)
        if not can_provision(storage_class.provisioner):
            plan.codes[asked] = NO_VOLUME
            return
        allowed = match_topologies(context.nodes, storage_class.allowed_topologies, rows)
        has_room = self.room.has_room(context, claim, storage_class, rows)
        plan.codes[asked & ~has_room] = NO_ROOM
        plan.codes[asked & ~allowed] = NO_VOLUME


def _rows_elsewhere(
    context: SchedulingContext, settled: Sequence[PersistentVolumeClaim], rows: Rows
) -> NDArray[np.bool_]:
    """Rows other than the node that a volume is being made for."""
    elsewhere = np.zeros(context.nodes.height, np.bool_)
    for claim in settled:
        others = np.ones(context.nodes.height, np.bool_)
        row = context.nodes.row_book.get(selected_node(claim) or "")
        if row is not None:
            others[row] = False
        elsewhere |= others
    found: NDArray[np.bool_] = elsewhere[rows]
    return found


def _class_of(context: SchedulingContext, claim: PersistentVolumeClaim) -> StorageClass:
    name = claim.class_name
    if not name:
        raise PluginError(f'no class for claim "{claim.key}"')
    storage_class = context.cluster.storage.classes.get(name)
    if storage_class is None:
        raise PluginError(f'failed to find storage class "{name}"')
    return storage_class
