"""The claims of a pod: sorted by whether they have their volume, and the hints about claims that several plugins share."""

import msgspec
import numpy as np

from mooring.cluster.claims.storage_view import StorageView
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Change, EventKeys
from mooring.framework.contract.points import FilterPlugin
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from mooring.model.volumes import LOST, ClaimName, claim_names, is_fully_bound, named_claims, ownership_fault


class VolumePlugin(FilterPlugin):
    """Base of the plugins that look at volumes: only pods with volumes need them."""

    is_same_in_all_profiles = True

    concerned_by = PodPart.STORAGE
    counts_pods = True
    """Whether pods on a node make a difference. Hot: rows with nominated pods that do are asked about one by one."""

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return pod.shape.has_storage

    def counted_rows(self, context: SchedulingContext, tallies: PodTallies) -> Mask:
        """Pods without volumes of their own make no difference: neither to limits, nor to claims and disks in use."""
        height = context.nodes.height
        return tallies.rows_with_storage(height) if self.counts_pods else np.zeros(height, np.bool_)


class ClaimsByKind(msgspec.Struct):
    """Upstream's PodVolumeClaims: each kind is checked in its own way."""

    bound: list[PersistentVolumeClaim] = msgspec.field(default_factory=list)
    """They have a volume: the node must be able to use it."""
    delayed: list[PersistentVolumeClaim] = msgspec.field(default_factory=list)
    """Without a volume: binding waits until the pod has a node (WaitForFirstConsumer)."""
    immediate: list[PersistentVolumeClaim] = msgspec.field(default_factory=list)
    """Without a volume, and the volume controller has to bind them first: the pod cannot be scheduled yet."""


def sort_claims(storage: StorageView, pod: Pod) -> ClaimsByKind | Rejection | None:
    """The claims of the pod by kind; a rejection if one of them cannot be used; None if the pod has none.

    All claims are checked before any is sorted, as upstream does in PreFilter: the first fault is the one reported.
    """
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
    """Return the reason why the pod cannot use a claim, with upstream's text; None if it can. The pod must own an ephemeral
    claim."""
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


CLAIMS = EventKeys(
    lambda pod: (f"{pod.namespace}/{used.name}" for used in claim_names(pod)),
    lambda change: () if change.new is None else (change.new.key,),
)
"""The keys of the hints below."""


def claim_came(pod: Pod, change: Change) -> bool:
    """Hint: whether the change is about a claim of the pod, also one that is made from its ephemeral volumes."""
    claim = change.new
    if claim is None or claim.namespace != pod.namespace:
        return False
    return any(used.name == claim.name for used in claim_names(pod))


def named_claim_came(pod: Pod, change: Change) -> bool:
    """Hint: whether the change is about a claim that the pod names. Parity: claims of ephemeral volumes do not count
    here."""
    claim = change.new
    return claim is not None and claim.namespace == pod.namespace and claim.name in named_claims(pod)
