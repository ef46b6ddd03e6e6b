"""The claims of a pod, sorted: those that have their volume, those that wait for the pod, and those that must not."""

from dataclasses import dataclass, field

from mooring.cluster.claims.storage_view import StorageView
from mooring.framework.status import PluginError, Rejection, final
from mooring.model.pod import Pod
from mooring.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from mooring.model.volumes import LOST, ClaimName, claim_names, is_fully_bound, ownership_fault


@dataclass(slots=True)
class ClaimsByKind:
    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    """Without a volume: they wait for the pod to be given a node."""
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    """Without a volume, and somebody else has to see to that first."""


def sort_claims(storage: StorageView, pod: Pod) -> ClaimsByKind | Rejection | None:
    """None: the pod has no claims."""
    names = claim_names(pod)
    if not names:
        return None
    for used in names:
        fault = _why_unusable(storage, pod, used)
        if fault is not None:
            return final(fault)
    sorted_claims = ClaimsByKind()
    for used in names:
        claim = storage.claim(f"{pod.namespace}/{used.name}")
        assert claim is not None, "all claims were found a moment ago"
        if is_fully_bound(claim):
            sorted_claims.bound.append(claim)
        elif is_delayed(storage, claim):
            sorted_claims.delayed.append(claim)
        else:
            sorted_claims.immediate.append(claim)
    return sorted_claims


def _why_unusable(storage: StorageView, pod: Pod, used: ClaimName) -> str | None:
    claim = storage.claims.get(f"{pod.namespace}/{used.name}")
    if claim is None:
        if used.is_ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{used.name}"'
        return f'persistentvolumeclaim "{used.name}" not found'
    if claim.status.phase == LOST:
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    return ownership_fault(claim, pod) if used.is_ephemeral else None


def is_delayed(storage: StorageView, claim: PersistentVolumeClaim) -> bool:
    """Whether a claim without a volume waits for its pod. Parity: one that names its volume does not."""
    storage_class = storage.classes.get(claim.class_name) if claim.class_name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise PluginError(f'VolumeBindingMode not set for StorageClass "{storage_class.name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER and not claim.spec.volume_name
