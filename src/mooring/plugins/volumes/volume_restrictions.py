"""VolumeRestrictions: disks that one pod at a time may use on a node, and claims that one pod at a time may use at all."""

from collections.abc import Iterable, Sequence
from copy import copy

import msgspec
import numpy as np

from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD_DELETE,
    NODE,
    Action,
    Change,
    ClusterEvent,
    EventKeys,
    Registration,
    pods_of,
)
from mooring.framework.contract.points import Codes, Need, PreFilterExtensions, Reads, Rows, reads
from mooring.framework.contract.status import SKIP, SKIP_SHAPE, Rejection, Skip, curable, final
from mooring.model.pod import Pod
from mooring.model.pod_spec import Volume
from mooring.model.shape import PodPart
from mooring.model.storage import READ_WRITE_ONCE_POD
from mooring.model.volumes import collide, disks_of, named_claims
from mooring.plugins.volumes.volume_claims import CLAIMS, VolumePlugin, named_claim_came

# Codes of `filter`. A disk is checked per node; a claim of mode ReadWriteOncePod in use closes all nodes.
_DISK, _CLAIM = 1, 2


class RestrictedVolumes(msgspec.Struct):
    """The volumes of a pod that cannot be shared freely, as the state of an attempt."""

    disks: tuple[Volume, ...]
    """Volumes that name a disk directly (GCE, EBS, RBD, iSCSI): model/volumes.py has the rules."""
    lone_claims: frozenset[str]
    """Names of the claims that only one pod may use."""
    conflicts: int
    """How many of them are in use. Parity: in a what-if, pods are counted by claim names, whatever their namespace."""

    def clone(self) -> "RestrictedVolumes":
        return copy(self)


class VolumeRestrictions(PreFilterExtensions, VolumePlugin):
    """Both rejections are curable: preempting the user of the disk or claim helps.

    No `@reads`: claims in use are counted over the whole cluster, and claims are not part of the shape.
    """

    name = "VolumeRestrictions"
    skips_resizes = True
    needs = (Need("filter", "preFilter", 'cannot read "PreFilterVolumeRestrictions" from cycleState'),)

    def events(self) -> Sequence[Registration]:
        return RESTRICTION_EVENTS

    @reads(Reads.CLUSTER, PodPart.STORAGE)
    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """SKIP if nothing can be in the way. A claim that does not exist rejects the pod."""
        pod = context.pod
        if not context.shape.has_storage:
            return SKIP_SHAPE
        lone = set()
        for name in named_claims(pod):
            claim = context.cluster.storage.claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return final(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in (claim.spec.access_modes or ()):
                lone.add(name)
        disks = tuple(disks_of(pod))
        conflicts = _count_in_use(context, lone) if lone else 0
        if not disks and not conflicts:
            return SKIP
        context.state.write(self.name, RestrictedVolumes(disks, frozenset(lone), conflicts))
        return None

    def add_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        self._count(context, pod, 1)

    def remove_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        self._count(context, pod, -1)

    def _count(self, context: SchedulingContext, pod: Pod, change: int) -> None:
        """Keep the count of a what-if: preempting the pod that uses a claim brings it to 0."""
        state: RestrictedVolumes = context.state.read(self.name)
        state.conflicts += change * sum(name in state.lone_claims for name in named_claims(pod))

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        state: RestrictedVolumes = context.state.read(self.name)
        codes = np.full(len(context.nodes.alive[rows]), _CLAIM if state.conflicts > 0 else 0, np.int64)
        if state.disks:
            codes[_rows_in_conflict(context, state.disks, rows)] = _DISK
        return codes if codes.any() else None

    def filter_before_state(self, context: SchedulingContext, rows: Rows) -> Codes:
        """Parity: upstream looks at disks before it reads its state."""
        codes = np.zeros(len(context.nodes.alive[rows]), np.int64)
        codes[_rows_in_conflict(context, tuple(disks_of(context.pod)), rows)] = _DISK
        return codes

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code == _DISK:
            return curable("node(s) had no available disk")
        return curable(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
            "another pod"
        )


def _count_in_use(context: SchedulingContext, names: Iterable[str]) -> int:
    """How many of the claims a pod on some node names."""
    naming, alive = context.cluster.volumes_on_nodes().rows_naming, context.nodes.alive
    keys = (f"{context.pod.namespace}/{name}" for name in names)
    return sum(any(alive[row] for row in naming.get(key, ())) for key in keys)


def _rows_in_conflict(context: SchedulingContext, disks: tuple[Volume, ...], rows: Rows) -> list[int]:
    """Positions in `rows` of the nodes on which a pod uses one of the disks. In a what-if the pods of the sketch
    decide."""
    asked = np.arange(context.nodes.height)[rows].tolist()
    if context.nodes is not context.cluster.nodes:
        pods_on = context.nodes.pods_on
        return [i for i, row in enumerate(asked) if any(_collides(disks, disks_of(pod)) for pod in pods_on[row])]
    known = context.cluster.volumes_on_nodes()
    return [i for i, row in enumerate(asked) if row in known.rows_with_disks and _collides(disks, known.row(row).disks)]


def _collides(disks: tuple[Volume, ...], others: Iterable[Volume]) -> bool:
    return any(collide(disk, other) for other in others for disk in disks)


# ---- Queueing hints: a disk or a claim may have come free.


def disk_or_claim_came_free(pod: Pod, change: Change) -> bool:
    """Whether a pod of the same namespace left that had a disk or a claim which the waiting pod wants."""
    old, _ = pods_of(change)
    if old is None or old.namespace != pod.namespace:
        return False
    if any(collide(wanted, used) for wanted in disks_of(pod) for used in disks_of(old)):
        return True
    return not set(named_claims(pod)).isdisjoint(named_claims(old))


def _disks_and_claims(pod: Pod | None) -> Iterable[str]:
    """The claims that the pod names, and its namespace if it has disks: two descriptions of a disk may differ and still
    collide."""
    if pod is None:
        return ()
    claims = [f"{pod.namespace}/{name}" for name in named_claims(pod)]
    return [*claims, pod.namespace] if disks_of(pod) else claims


_DISKS_AND_CLAIMS = EventKeys(_disks_and_claims, lambda change: _disks_and_claims(pods_of(change)[0]))

RESTRICTION_EVENTS = (
    Registration(ASSIGNED_POD_DELETE, disk_or_claim_came_free, _DISKS_AND_CLAIMS),
    Registration(ClusterEvent(NODE, Action.ADD)),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD), named_claim_came, CLAIMS),
)


PLUGINS = (VolumeRestrictions,)
