"""VolumeBinding: pods go where their volumes can be used, and claims that wait for their pod get volumes there.

Filter finds volumes for all nodes (`volume_choice.py` for bound claims, `pod_volumes.py` for others), and Reserve
assumes those of the node.

Filter declares no `@reads`: its answer depends on volumes, claims, classes and capacity reports, which belong to no
node, and it leaves what it found in the attempt's state. Pods without volumes never get here (`concerns`).

PreBind writes which claim gets what to the API server, and waits until the claims are bound. The work is a generator:
it yields writes and pauses, the driver carries them out. Upstream's BindPodVolumes: first the API calls, then a check
on every change of the claims until all are bound, one fails, or the time is up.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from mooring.api.kinds.storage import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from mooring.cluster.nodes.table import ClusterError
from mooring.framework.config.args import VolumeBindingArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import NODE, Action, Change, ClusterEvent, Registration
from mooring.framework.contract.intents import Write, WriteFault, at_version
from mooring.framework.contract.points import (
    Codes,
    Handle,
    Need,
    Pause,
    PodGone,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    Work,
    reads,
)
from mooring.framework.contract.status import SKIP, SKIP_SHAPE, PluginError, Rejection, Skip, final
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.model.volumes import (
    BOUND_BY_CONTROLLER,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    is_fully_bound,
    kept_for,
    made_for,
)
from mooring.plugins.volumes.pod_volumes import NO_ROOM, NO_VOLUME, PodVolumes, PodVolumesFinder, score_volumes
from mooring.plugins.volumes.volume_choice import NO_SUCH_VOLUME, OUT_OF_REACH, bound_codes, is_in_reach
from mooring.plugins.volumes.volume_claims import CLAIMS, ClaimsByKind, VolumePlugin, claim_came, sort_claims


class Reservation(msgspec.Struct):
    """Objects that Reserve assumed for a pod: volumes with the claims that get them, and claims that are to be
    provisioned."""

    volumes: list[tuple[PersistentVolume, PersistentVolumeClaim]] = msgspec.field(default_factory=list)
    claims: list[PersistentVolumeClaim] = msgspec.field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.volumes or self.claims)


class _Hopeless(Exception):
    """The claims will not get their volumes on this node."""


def bind_volumes(
    context: SchedulingContext, node_name: str, reserved: Reservation, now_ns: Callable[[], int], deadline_ns: int
) -> Work:
    """Volumes first, then claims; then check them until all claims are bound.

    What is written stays written if it fails later: the volume controller completes or releases such bindings, as with
    upstream.
    """
    versions: dict[tuple[type[KubeObject], str], str] = {}
    for write in [*map(_volume_write, reserved.volumes), *map(_claim_write, reserved.claims)]:
        written = yield write
        if isinstance(written, WriteFault):
            raise PluginError(written.message)
        if written is not None:
            versions[write.kind, written.key] = written.metadata.resource_version or ""
    watched = frozenset(
        (PersistentVolumeClaim, claim.key) for claim in [*(claim for _, claim in reserved.volumes), *reserved.claims]
    )
    try:
        while not _are_bound(context, node_name, reserved, versions):
            if now_ns() >= deadline_ns:
                raise _Hopeless("context deadline exceeded")
            yield Pause(deadline_ns, watched)
    except PodGone as gone:
        raise PluginError(f"binding volumes: pod does not exist any more: {gone}") from gone
    except _Hopeless as fault:
        raise PluginError(f"binding volumes: {fault}") from fault
    return None


def _volume_write(binding: tuple[PersistentVolume, PersistentVolumeClaim]) -> Write:
    """Set claimRef on the volume, as the volume controller would; the controller then completes the binding on the
    claim."""
    volume, _ = binding
    marks = {BOUND_BY_CONTROLLER: "yes"} if BOUND_BY_CONTROLLER in (volume.metadata.annotations or {}) else {}
    body = {
        "metadata": at_version(volume, annotations=marks),
        "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
    }
    return Write("PATCH", PersistentVolume, volume.name, body=body)


def _claim_write(claim: PersistentVolumeClaim) -> Write:
    """Set the selected-node annotation, which starts the provisioner."""
    marks = {SELECTED_NODE: (claim.metadata.annotations or {})[SELECTED_NODE]}
    body = {"metadata": at_version(claim, annotations=marks)}
    return Write("PATCH", PersistentVolumeClaim, claim.name, claim.namespace, body)


_Versions = dict[tuple[type[KubeObject], str], str]
"""Kind and key of what was written -> the version that it had then."""


def _are_bound(context: SchedulingContext, node_name: str, reserved: Reservation, versions: _Versions) -> bool:
    """Whether all claims have their volumes; raises _Hopeless when they never will. The first that waits decides."""
    if context.cluster.nodes.row_book.get(node_name) is None or _labels(context, node_name) is None:
        raise _Hopeless(f'failed to get node "{node_name}": node "{node_name}" not found')
    return all(_is_given(context, node_name, volume, claim, versions) for volume, claim in reserved.volumes) and all(
        _is_made(context, node_name, claim, versions) for claim in reserved.claims
    )


def _is_given(
    context: SchedulingContext,
    node_name: str,
    chosen: PersistentVolume,
    asked: PersistentVolumeClaim,
    versions: _Versions,
) -> bool:
    """Whether a claim that gets an existing volume is bound. The volume may have changed since: then there is no hope."""
    storage = context.cluster.storage
    volume, claim = storage.volumes.get(chosen.name), storage.claims.get(asked.key)
    if volume is None:
        raise _Hopeless(f'failed to check binding: could not find v1.PersistentVolume "{chosen.name}"')
    if claim is None:
        raise _Hopeless(f'failed to check binding: could not find v1.PersistentVolumeClaim "{asked.key}"')
    if _is_old(volume, versions):
        return False
    _check_reach(context, volume, node_name)
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        raise _Hopeless(f'ClaimRef got reset for pv "{volume.name}"')
    return is_fully_bound(claim)


def _is_made(context: SchedulingContext, node_name: str, asked: PersistentVolumeClaim, versions: _Versions) -> bool:
    """Whether a claim that is provisioned is bound. A provisioner gives up by removing or changing the annotation."""
    storage = context.cluster.storage
    claim = storage.claims.get(asked.key)
    if claim is None:
        raise _Hopeless(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{asked.key}"')
    if _is_old(claim, versions):
        return False
    if claim.metadata.annotations is None:
        raise _Hopeless(f'selectedNode annotation reset for PVC "{claim.name}"')
    if claim.metadata.annotations.get(SELECTED_NODE, "") != node_name:
        raise _Hopeless(f'provisioning failed for PVC "{claim.name}"')
    if claim.spec.volume_name:
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            return False
        _check_reach(context, volume, node_name)
    return is_fully_bound(claim)


def _check_reach(context: SchedulingContext, volume: PersistentVolume, node_name: str) -> None:
    """The volume must still be usable on the node: labels of nodes and affinity of volumes change."""
    node = context.cluster.storage.nodes.get(node_name)
    if not is_in_reach(volume, _labels(context, node_name) or {}, node):
        fault = "no matching NodeSelectorTerms"
        raise _Hopeless(f'pv "{volume.name}" node affinity doesn\'t match node "{node_name}": {fault}')


def _labels(context: SchedulingContext, node_name: str) -> dict[str, str] | None:
    """The labels of the node as it is now; None: the node is gone."""
    row = context.cluster.nodes.row_book.get(node_name)
    node = context.cluster.nodes.nodes[row] if row is not None else None
    return None if node is None else node.labels


def _is_old(item: KubeObject, versions: _Versions) -> bool:
    """Whether the watch has yet to show what was written. Deciding on an older version would mistake it for a reset."""
    written, shown = versions.get((type(item), item.key), ""), item.metadata.resource_version or ""
    return written.isdecimal() and shown.isdecimal() and int(shown) < int(written)


# Upstream's gate, on by default since v1.37.
SCORING_GATE = "StorageCapacityScoring"
DEFAULT_SHAPE = [(0, 100), (100, 0)]
"""Utilisation and score: the fuller, the worse. Upstream's default."""

_REASONS = {
    OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    NO_SUCH_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
"""By bit of the code, in the order in which upstream reports them."""


class BindingState(msgspec.Struct):
    """State of VolumeBinding in one attempt: the claims of the pod, and the volumes that Reserve assumed for them."""

    claims: ClaimsByKind
    volumes: PodVolumes | None = None
    """For all rows that were asked about, where that is no what-if."""
    everywhere: Codes | None = None
    """The codes of all rows, for what-ifs: which pods are on a node makes no difference to it."""
    reservation: Reservation = msgspec.field(default_factory=Reservation)


class VolumeBinding(PreFilterPlugin, VolumePlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    """Keeps masks and reports between attempts (PodVolumesFinder); all else is in the attempt's state."""

    name = "VolumeBinding"
    skips_resizes = True
    counts_pods = False
    needs = tuple(Need(point, "preFilter", "not found") for point in ("filter", "reserve", "preBind"))

    def __init__(self, args: Any, handle: Handle) -> None:
        chosen = args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()
        self._timeout_ns = chosen.bind_timeout_seconds * NS_PER_S
        self._services = handle.services
        self._shape = [(point.utilization, point.score * 10) for point in chosen.shape or ()] or DEFAULT_SHAPE
        self._scores = handle.feature_gates.get(SCORING_GATE, True)
        self._finder = PodVolumesFinder()

    def events(self) -> Sequence[Registration]:
        return BINDING_EVENTS

    # ---- which nodes will do

    @reads(Reads.CLUSTER, PodPart.STORAGE)
    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """Sort the claims of the pod by their state. The pod is rejected if a claim cannot be used, or if a claim that does
        not wait for its pod is unbound."""
        if not context.shape.has_storage:
            return SKIP_SHAPE
        claims = sort_claims(context.cluster.storage, context.pod)
        if isinstance(claims, Rejection):
            return claims
        if claims is None:
            return SKIP
        if claims.immediate:
            return final("pod has unbound immediate PersistentVolumeClaims")
        context.state.write(self.name, BindingState(claims))
        return None

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Codes for these rows, and the volumes that go with them."""
        state: BindingState = context.state.read(self.name)
        if context.nodes is context.cluster.nodes:
            codes, state.volumes = self._codes(context, state.claims, rows)
        else:
            # A what-if: preemption asks about one node after another, but pods on nodes make no difference to volumes
            # here. Hot: the codes of all rows take as long to compute as those of one, so they are computed once.
            if state.everywhere is None:
                state.everywhere, _ = self._codes(context, state.claims, slice(0, context.nodes.height))
            codes = state.everywhere[rows]
        return codes if codes.any() else None

    def _codes(self, context: SchedulingContext, claims: ClaimsByKind, rows: Rows) -> tuple[Codes, PodVolumes | None]:
        codes = bound_codes(context, claims.bound, rows, self._finder.reaches)
        if not claims.delayed:
            return codes, None
        found = self._finder.find(context, claims.delayed, rows)
        return codes | found.codes, found

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final(*(reason for bit, reason in _REASONS.items() if code & bit))

    # ---- which of them is best

    @reads(Reads.SHAPE, PodPart.STORAGE)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """SKIP if the gate is off. Reads.SHAPE is right, and more than right: the answer depends on the gate alone."""
        return None if self._scores else SKIP

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """0 for all nodes if the pod has no delayed claims. Looks again if Filter was not asked about all of these rows."""
        state = self._state(context)
        if state is None or not state.claims.delayed:
            return None
        found = self._volumes(context, state, rows)
        return score_volumes(context, found, self._finder.reported, rows, self._shape)

    # ---- the node that was chosen

    def has_binding_work(self, context: SchedulingContext) -> bool:
        return bool(context.pod.spec.volumes)

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        """Assume that the chosen volumes belong to the claims, and that the others are provisioned on this node.

        All or nothing: a fault in the middle gives back what was assumed so far.
        """
        if not context.pod.spec.volumes:
            return None  # Hot: most pods
        state = self._state(context)
        if state is None or not state.claims.delayed:
            return None
        if state.volumes is None and state.everywhere is None:
            return (
                None  # Parity: in profiles that disable Filter nothing is bound, and the pod goes to its node without
            )
        row = context.nodes.row_book[node_name]
        found = self._volumes(context, state, np.array([row], np.intp))
        if found.codes[0]:
            return self.rejection(context, int(found.codes[0]))  # volumes changed since the node was looked at
        try:
            for volume, claim in found.bindings(0):
                self._keep(context, state.reservation, volume, claim)
            for claim in found.provisions(0):
                copy = made_for(claim, node_name)
                context.cluster.storage.assume_claim(copy)
                state.reservation.claims.append(copy)
        except ClusterError as fault:
            self.unreserve(context, node_name)
            raise PluginError(str(fault)) from fault
        return None

    def _volumes(self, context: SchedulingContext, state: BindingState, rows: Rows) -> PodVolumes:
        """Findings of Filter on these rows; looked for again if volumes changed, or if Filter was not asked about all."""
        found = state.volumes
        if found is not None and found.version == context.cluster.storage.version:
            some = found.on(rows, context.nodes.height)
            if some is not None:
                return some
        return self._finder.find(context, state.claims.delayed, rows)

    def _keep(
        self,
        context: SchedulingContext,
        reservation: Reservation,
        volume: PersistentVolume,
        claim: PersistentVolumeClaim,
    ) -> None:
        """Assume that a volume is the claim's. A volume that names the claim already needs no change, but is watched as
        well."""
        copy = kept_for(volume, claim)
        if copy is not volume:
            context.cluster.storage.assume_volume(copy)
        reservation.volumes.append((copy, claim))

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        """Take the assumed objects back: the ones from the watch count again."""
        state = self._state(context)
        if state is not None:
            for volume, _ in state.reservation.volumes:
                context.cluster.storage.restore_volume(volume.name)
            for claim in state.reservation.claims:
                context.cluster.storage.restore_claim(claim.key)
            state.reservation = Reservation()

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Work | Rejection | None:
        """The writes and the waiting, as work that the driver does; bindTimeoutSeconds counts from here."""
        if not context.pod.spec.volumes:
            return None  # Hot: most pods
        state = self._state(context)
        if state is None or not state.reservation:
            return None
        deadline_ns = self._services.now_ns() + self._timeout_ns
        return bind_volumes(context, node_name, state.reservation, self._services.now_ns, deadline_ns)

    def _state(self, context: SchedulingContext) -> BindingState | None:
        """None: the pod has no claims."""
        if not context.pod.spec.volumes:
            return None
        found: BindingState | None = context.state.find(self.name)
        return found


# ---- Queueing hints: the claims of a pod that VolumeBinding rejected may have got volumes, or may get them now.


_CHANGED = Action.ADD | Action.UPDATE


def topologies_changed(pod: Pod, change: Change) -> bool:
    """Whether a class is new, or allows other topologies now."""
    old, new = cast("StorageClass | None", change.old), cast("StorageClass", change.new)
    return old is None or (old.allowed_topologies or []) != (new.allowed_topologies or [])


def migration_changed(pod: Pod, change: Change) -> bool:
    """Whether a node is new to its drivers, or leaves other volumes to them now."""
    old, new = cast("CSINode | None", change.old), cast("CSINode", change.new)
    return old is None or _migrated(old) != _migrated(new)


def capacity_went_unchecked(pod: Pod, change: Change) -> bool:
    """Whether the driver of an inline volume of the pod stopped to report capacity, so that it is no longer checked.

    Parity: claims of that driver's classes are not looked at.
    """
    old, new = cast("CSIDriver", change.old), cast("CSIDriver", change.new)
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return False
    return any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes or ())


def room_grew(pod: Pod, change: Change) -> bool:
    """Whether a report of room is new, or larger than before."""
    old, new = cast("CSIStorageCapacity | None", change.old), cast("CSIStorageCapacity", change.new)
    if old is None:
        return True
    before, now = old.largest_volume_bytes, new.largest_volume_bytes
    return now is not None and (before is None or now > before)


def _migrated(node: CSINode) -> str:
    """The in-tree plugins that are migrated on the node, as the annotation lists them."""
    return (node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "")


BINDING_EVENTS = (
    Registration(ClusterEvent(STORAGE_CLASS.event, _CHANGED), topologies_changed),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, _CHANGED), claim_came, CLAIMS),
    Registration(ClusterEvent(PERSISTENT_VOLUME.event, _CHANGED)),
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
    Registration(ClusterEvent(CSI_NODE.event, _CHANGED), migration_changed),
    Registration(ClusterEvent(CSI_DRIVER.event, Action.UPDATE), capacity_went_unchecked),
    Registration(ClusterEvent(CSI_STORAGE_CAPACITY.event, _CHANGED), room_grew),
)
"""A volume or a label of a node can help in so many ways that upstream too has no hint for them."""


PLUGINS = (VolumeBinding,)
