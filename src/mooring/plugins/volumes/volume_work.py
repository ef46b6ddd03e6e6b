"""PreBind of VolumeBinding: write which claim gets what to the API server, and wait until the claims are bound.

The work is a generator: it yields writes and pauses, the driver carries them out. Upstream's BindPodVolumes: first the
API calls, then a check on every change of the claims until all are bound, one fails, or the time is up.
"""

from collections.abc import Callable

import msgspec

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Write, WriteFault, at_version
from mooring.framework.contract.points import Pause, PodGone, Work
from mooring.framework.contract.status import PluginError
from mooring.model.meta import KubeObject
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.model.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, is_fully_bound
from mooring.plugins.volumes.volume_choice import is_in_reach


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
