"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node.

What counts is distinct volumes: a volume that a pod on the node uses already needs no second attachment. The limits
come from CSINode objects, what is attached from the pods on nodes and from VolumeAttachment objects. No `@reads`: none
of these is part of a node or of a shape.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.kinds.storage import CSI_NODE, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from mooring.cluster.claims.volumes_on_nodes import RowVolumes, VolumeHandle, handles_of, volumes_of_row
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD_DELETE,
    Action,
    Change,
    ClusterEvent,
    Registration,
    has_place,
    pods_of,
)
from mooring.framework.contract.points import Codes, Handle, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.contract.status import SKIP, SKIP_SHAPE, PluginError, Rejection, Skip, curable, final
from mooring.model.meta import int32
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.model.storage import CSINode, VolumeAttachment
from mooring.model.volumes import claim_names, in_tree_of
from mooring.plugins.volumes.volume_claims import CLAIMS, VolumePlugin, claim_came

# ---- Limits as columns, made of the CSINode objects.


NO_LIMIT = -1
"""In a column of limits: the driver does not report one for this node."""


class NodeLimits:
    """Columns over all rows, made anew when a CSINode changed or nodes came or went. Call `refresh` before reading."""

    def __init__(self) -> None:
        self._made_of: tuple[object, ...] = ()
        self.by_driver: dict[str, NDArray[np.int64]] = {}
        """Driver -> limit of each row; NO_LIMIT where there is none."""
        self.is_limited: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Rows on which some driver has a limit."""
        self.has_csi_node: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._installed: dict[str, NDArray[np.bool_]] = {}

    def has_driver(self, driver: str) -> NDArray[np.bool_]:
        """Rows on whose node the driver runs."""
        found = self._installed.get(driver)
        return np.zeros(len(self.is_limited), np.bool_) if found is None else found

    def refresh(self, context: SchedulingContext) -> None:
        """Read the CSINode objects again if one of them changed, or rows belong to other nodes."""
        nodes, storage = context.cluster.nodes, context.cluster.storage
        made_of = (nodes.node_set_version, nodes.capacity, storage, storage.node_version)
        if made_of == self._made_of:
            return
        self._made_of, capacity = made_of, nodes.capacity
        self.by_driver, self._installed = {}, {}
        self.is_limited, self.has_csi_node = np.zeros(capacity, np.bool_), np.zeros(capacity, np.bool_)
        for csi_node in storage.nodes.values():
            row = nodes.row_book.get(csi_node.name)
            if row is None:
                continue
            self.has_csi_node[row] = True
            for driver in csi_node.spec.drivers or ():
                self._installed.setdefault(driver.name, np.zeros(capacity, np.bool_))[row] = True
                count = driver.allocatable.count if driver.allocatable is not None else None
                if count is not None:
                    self.by_driver.setdefault(driver.name, np.full(capacity, NO_LIMIT, np.int64))[row] = int32(count)
                    self.is_limited[row] = True


# Codes of `filter`; from _FIRST_ABSENT on, the driver that is missing by its place in `required_drivers`.
_MISSING, _EXCEEDED, _FIRST_ABSENT = 1, 2, 3

# Upstream's gate, off by default: a CSIDriver may then demand that pods stay off nodes on which it does not run.
MISSING_DRIVER_GATE = "VolumeLimitScaling"


class NewVolumes(msgspec.Struct, frozen=True):
    """The volumes that the pod would have attached to its node: the state of an attempt."""

    handles: frozenset[VolumeHandle]
    """(driver, handle) of each volume; a claim without a volume has a handle of its own, so that it counts."""
    missing: str | None
    """Key of a claim that is not there."""
    fault: str | None
    """Why the volumes cannot be worked out: an error of the attempt, unless a claim is missing."""
    required_drivers: tuple[str, ...] = ()
    """Drivers that must run on a node, or else the pod must not go there."""
    native: frozenset[str] = frozenset()
    """Drivers that the pod needs on any node. It needs the others only on a node with a CSINode, where in-tree plugins are
    translated."""


class NodeVolumeLimits(PreFilterPlugin, VolumePlugin):
    """All limits are curable: preempted pods detach their volumes."""

    name = "NodeVolumeLimits"
    skips_resizes = True

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._requires_drivers = handle.feature_gates.get(MISSING_DRIVER_GATE, True)
        self._limits = NodeLimits()

    def events(self) -> Sequence[Registration]:
        return LIMIT_EVENTS

    @reads(Reads.CLUSTER, PodPart.STORAGE)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        if not context.shape.has_storage:
            return SKIP_SHAPE
        return None if uses_attachable_volumes(context.pod) else SKIP

    def _new_volumes(self, context: SchedulingContext) -> NewVolumes:
        """Worked out once in an attempt. Parity: PreFilter writes no state, so that a profile may do without it."""
        new: NewVolumes | None = context.state.find(self.name)
        if new is None:
            found = handles_of(context.cluster.storage, context.pod)
            required = self._required_drivers(context, found.handles) if self._requires_drivers else ()
            new = NewVolumes(frozenset(found.handles), found.missing, found.fault, required, frozenset(found.native))
            context.state.write(self.name, new)
        return new

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Rows on which a driver is missing or its limit would be exceeded."""
        new = self._new_volumes(context)
        if new.missing is not None:
            return np.full(len(context.nodes.alive[rows]), _MISSING, np.int64)
        if new.fault is not None:
            raise PluginError(new.fault)
        if not new.handles:
            return None
        self._limits.refresh(context)
        absent = self._absent(new, rows)
        codes = np.where(absent, absent, self._exceeded(context, new.handles, rows, absent == 0) * _EXCEEDED)
        return codes if codes.any() else None

    def counted_rows(self, context: SchedulingContext, tallies: PodTallies) -> Mask:
        """Pods with volumes count where a driver has a limit: only there their volumes are looked at."""
        self._limits.refresh(context)
        height = context.nodes.height
        return tallies.rows_with_storage(height) & self._limits.is_limited[:height]

    def _absent(self, new: NewVolumes, rows: Rows) -> Codes:
        """The code of a missing driver for the rows on which one that the pod requires does not run."""
        codes = np.zeros(len(self._limits.has_csi_node[rows]), np.int64)
        for i, driver in reversed(list(enumerate(new.required_drivers))):
            is_absent = ~self._limits.has_driver(driver)[rows]
            if driver not in new.native:
                is_absent &= self._limits.has_csi_node[rows]
            codes[is_absent] = _FIRST_ABSENT + i
        return codes

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code == _EXCEEDED:
            return curable("node(s) exceed max volume count")
        new = self._new_volumes(context)
        if code >= _FIRST_ABSENT:
            return curable(f"{new.required_drivers[code - _FIRST_ABSENT]} CSI driver is not installed on the node")
        name = (new.missing or "").partition("/")[2]
        return final(f'looking up PVC {new.missing}: persistentvolumeclaim "{name}" not found')

    def _required_drivers(self, context: SchedulingContext, handles: set[VolumeHandle]) -> tuple[str, ...]:
        """The drivers of the pod's volumes that keep pods off nodes on which they do not run."""
        known = context.cluster.storage.drivers
        names = sorted({driver for driver, _ in handles})
        return tuple(name for name in names if name in known and known[name].spec.prevent_pod_scheduling_if_missing)

    def _exceeded(
        self, context: SchedulingContext, handles: frozenset[VolumeHandle], rows: Rows, in_question: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """1 for the rows on which a driver would have to attach more than it can. `in_question`: rows that no missing driver
        rules out; only their pods can fail the attempt."""
        exceeded = np.zeros(len(context.nodes.alive[rows]), np.bool_)
        if not self._limits.by_driver:
            return exceeded.astype(np.int64)
        if context.nodes is not context.cluster.nodes:
            return self._exceeded_one_by_one(context, handles, rows, in_question)
        volumes = context.cluster.volumes_on_nodes()
        if volumes.faulty_rows:
            self._raise_fault(context, rows, in_question)
        for driver in sorted({driver for driver, _ in handles if driver in self._limits.by_driver}):
            wanted = [handle for handle in handles if handle[0] == driver]
            needed = np.full(context.nodes.capacity, len(wanted), np.int64)
            for handle in wanted:
                needed[list(volumes.rows_using.get(handle, ()))] -= 1
            held = volumes.by_driver.get(driver)
            exceeded |= exceeds(0 if held is None else held[rows], needed[rows], self._limits.by_driver[driver][rows])
        return exceeded.astype(np.int64)

    def _raise_fault(self, context: SchedulingContext, rows: Rows, in_question: NDArray[np.bool_]) -> None:
        """Parity: a pod on a limited node whose volumes cannot be worked out is an error for every pod with volumes that
        might join it there, whichever driver has the limit."""
        volumes = context.cluster.volumes_on_nodes()
        for row in np.arange(context.nodes.height)[rows][in_question].tolist():
            if row in volumes.faulty_rows and self._limits.is_limited[row]:
                raise PluginError(volumes.row(row).fault or "")

    def _exceeded_one_by_one(
        self, context: SchedulingContext, handles: frozenset[VolumeHandle], rows: Rows, in_question: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """In a what-if, where the pods on a row are not those that the cluster's columns follow."""
        known = context.cluster.volumes_on_nodes()
        answers = []
        for row, is_asked in zip(np.arange(context.nodes.height)[rows].tolist(), in_question.tolist(), strict=True):
            limits = {driver: int(column[row]) for driver, column in self._limits.by_driver.items()}
            held = volumes_of_row(context.cluster.storage, context.nodes.pods_on[row], known.attachments(row))
            if held.fault is not None and is_asked and self._limits.is_limited[row]:
                raise PluginError(held.fault)
            answers.append(exceeds_limits(handles, held, limits))
        return np.array(answers, np.int64)


def uses_attachable_volumes(pod: Pod) -> bool:
    """Whether the pod has a volume that a driver may have to attach."""
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_tree_of(volume) is not None
        for volume in pod.spec.volumes or ()
    )


def exceeds(held: NDArray[np.int64] | int, needed: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where something is needed and does not fit beside what is held; a limit below zero is none.

    | held | needed | limit | exceeds |
    | 2    | 1      | 3     | no      |
    | 3    | 1      | 3     | yes     |
    | 4    | 0      | 3     | no      |
    | 9    | 1      | -1    | no      |
    """
    answer: NDArray[np.bool_] = (needed > 0) & (limit >= 0) & (held + needed > limit)
    return answer


def exceeds_limits(handles: frozenset[VolumeHandle], held: RowVolumes, limits: dict[str, int]) -> bool:
    """Whether a driver would have to attach more to one node than it can. Parity: a volume that is attached but in use by
    no pod counts twice."""
    new = Counter(driver for driver, handle in handles if (driver, handle) not in held.used)
    before = held.counts()
    return any(limits.get(driver, -1) >= 0 and before[driver] + count > limits[driver] for driver, count in new.items())


# ---- Queueing hints: a driver may be able to attach more.


def limit_rose(pod: Pod, change: Change) -> bool:
    """Whether a driver can attach more than before. Parity: to lift a limit altogether counts as lowering it to 0."""
    before, now = _limits(cast("CSINode", change.old)), _limits(cast("CSINode", change.new))
    return any(limit > before.get(driver, 0) for driver, limit in now.items())


def volumes_came_free(pod: Pod, change: Change) -> bool:
    """Whether a pod left that had, or was about to have, a volume that may have been attached."""
    old, _ = pods_of(change)
    return old is not None and has_place(old) and (bool(claim_names(old)) or _has_inline(old))


def volume_was_detached(pod: Pod, change: Change) -> bool:
    """Whether that may have been a volume of a driver that the pod needs. Parity: a pod with a claim always says yes,
    whichever driver the claim has."""
    attacher = cast("VolumeAttachment", change.old).spec.attacher
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            return True
        in_tree = in_tree_of(volume)
        if in_tree is not None and in_tree.is_on and in_tree.driver == attacher:
            return True
    return False


def _limits(node: CSINode) -> dict[str, int]:
    """Driver -> limit. Parity: no limit reads as 0 here, so to lift a limit altogether looks like lowering it."""
    drivers = node.spec.drivers or ()
    return {driver.name: (driver.allocatable.count or 0) if driver.allocatable else 0 for driver in drivers}


def _has_inline(pod: Pod) -> bool:
    return any(in_tree_of(volume) is not None for volume in pod.spec.volumes or ())


LIMIT_EVENTS = (
    Registration(ClusterEvent(CSI_NODE.event, Action.ADD)),
    Registration(ClusterEvent(CSI_NODE.event, Action.UPDATE), limit_rose),
    Registration(ASSIGNED_POD_DELETE, volumes_came_free),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD), claim_came, CLAIMS),
    Registration(ClusterEvent(VOLUME_ATTACHMENT.event, Action.DELETE), volume_was_detached),
)


PLUGINS = (NodeVolumeLimits,)
