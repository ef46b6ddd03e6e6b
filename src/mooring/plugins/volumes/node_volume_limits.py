"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.volumes_on_nodes import RowVolumes, VolumeHandle, handles_of, volumes_of_row
from mooring.framework.context import SchedulingContext
from mooring.framework.events import Registration
from mooring.framework.points import Codes, FilterPlugin, Handle, PreFilterPlugin, Rows
from mooring.framework.status import SKIP, SKIP_SHAPE, PluginError, Rejection, Skip, curable, final
from mooring.model.csi_migration import in_tree_of
from mooring.model.pod import Pod
from mooring.plugins.volumes.node_volume_limits_hints import LIMIT_EVENTS
from mooring.plugins.volumes.volume_limits import NodeLimits

_MISSING, _EXCEEDED, _FIRST_ABSENT = 1, 2, 3

MISSING_DRIVER_GATE = "VolumeLimitScaling"


@dataclass(frozen=True, slots=True)
class NewVolumes:
    """What the pod would have attached to its node."""

    handles: frozenset[VolumeHandle]
    missing: str | None
    """Key of a claim that is not there."""
    fault: str | None
    required_drivers: tuple[str, ...] = ()
    """Drivers that must run on a node, or else the pod must not go there."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    name = "NodeVolumeLimits"

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._requires_drivers = handle.feature_gates.get(MISSING_DRIVER_GATE, False)
        self._limits = NodeLimits()

    def events(self) -> Sequence[Registration]:
        return LIMIT_EVENTS

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return bool(pod.spec.volumes)

    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        if not context.shape.has_storage:
            return SKIP_SHAPE
        if not uses_attachable_volumes(context.pod):
            return SKIP
        found = handles_of(context.cluster.storage, context.pod)
        required = self._required_drivers(context, found.handles) if self._requires_drivers else ()
        new = NewVolumes(frozenset(found.handles), found.missing, found.fault, required)
        context.state.write(self.name, new)
        return None

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        new: NewVolumes = context.state.read(self.name)
        if new.missing is not None:
            return np.full(len(context.nodes.alive[rows]), _MISSING, np.int64)
        if new.fault is not None:
            raise PluginError(new.fault)
        if not new.handles:
            return None
        self._limits.refresh(context)
        codes = self._exceeded(context, new.handles, rows) * _EXCEEDED
        for i, driver in reversed(list(enumerate(new.required_drivers))):
            codes[~self._limits.has_driver(driver)[rows]] = _FIRST_ABSENT + i
        return codes if codes.any() else None

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code == _EXCEEDED:
            return curable("node(s) exceed max volume count")
        new: NewVolumes = context.state.read(self.name)
        if code >= _FIRST_ABSENT:
            return curable(f"{new.required_drivers[code - _FIRST_ABSENT]} CSI driver is not installed on the node")
        name = (new.missing or "").partition("/")[2]
        return final(f'looking up PVC {new.missing}: persistentvolumeclaim "{name}" not found')

    def _required_drivers(self, context: SchedulingContext, handles: set[VolumeHandle]) -> tuple[str, ...]:
        known = context.cluster.storage.drivers
        names = sorted({driver for driver, _ in handles})
        return tuple(name for name in names if name in known and known[name].spec.prevent_pod_scheduling_if_missing)

    def _exceeded(self, context: SchedulingContext, handles: frozenset[VolumeHandle], rows: Rows) -> NDArray[np.int64]:
        """1 for the rows on which a driver would have to attach more than it can."""
        limited = [driver for driver in sorted({driver for driver, _ in handles}) if driver in self._limits.by_driver]
        exceeded = np.zeros(len(context.nodes.alive[rows]), np.bool_)
        if not limited:
            return exceeded.astype(np.int64)
        if context.nodes is not context.cluster.nodes:
            return self._exceeded_one_by_one(context, handles, rows)
        volumes = context.cluster.volumes_on_nodes()
        if volumes.faulty_rows:
            self._raise_fault(context, rows)
        for driver in limited:
            wanted = [handle for handle in handles if handle[0] == driver]
            needed = np.full(context.nodes.capacity, len(wanted), np.int64)
            for handle in wanted:
                needed[list(volumes.rows_using.get(handle, ()))] -= 1
            held = volumes.by_driver.get(driver)
            exceeded |= exceeds(0 if held is None else held[rows], needed[rows], self._limits.by_driver[driver][rows])
        return exceeded.astype(np.int64)

    def _raise_fault(self, context: SchedulingContext, rows: Rows) -> None:
        """Parity: a pod whose volumes cannot be told is an error for every pod that might join it on a limited node."""
        volumes = context.cluster.volumes_on_nodes()
        for row in np.arange(context.nodes.height)[rows].tolist():
            if row in volumes.faulty_rows and self._limits.is_limited[row]:
                raise PluginError(volumes.row(row).fault or "")

    def _exceeded_one_by_one(
        self, context: SchedulingContext, handles: frozenset[VolumeHandle], rows: Rows
    ) -> NDArray[np.int64]:
        """In a what-if, where the pods on a row are not those that are followed."""
        known = context.cluster.volumes_on_nodes()
        answers = []
        for row in np.arange(context.nodes.height)[rows].tolist():
            limits = {driver: int(column[row]) for driver, column in self._limits.by_driver.items()}
            held = volumes_of_row(context.cluster.storage, context.nodes.pods_on[row], known.attachments(row))
            if held.fault is not None and self._limits.is_limited[row]:
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
    """The same for one node. Parity: a volume that is attached but in use by no pod counts twice."""
    new = Counter(driver for driver, handle in handles if (driver, handle) not in held.used)
    before = held.counts()
    return any(limits.get(driver, -1) >= 0 and before[driver] + count > limits[driver] for driver, count in new.items())
