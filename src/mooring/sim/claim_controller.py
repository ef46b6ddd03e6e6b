"""The claim controller of a simulated cluster: when a pod goes its claims are free again, and those made for it go too."""

from typing import Protocol

import msgspec

from mooring.model.devices import ResourceClaim, ResourceClaimStatus
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.rules.pod_claims import owning_pod, with_users


class ClaimObjects(Protocol):
    """What the controller needs of the cluster that it works on."""

    @property
    def objects(self) -> dict[tuple[str, str], KubeObject]: ...

    def update(self, item: KubeObject) -> None: ...

    def delete(self, kind: str, key: str) -> None: ...


class ClaimController:
    """Told of each object that goes by the driver."""

    def __init__(self, cluster: ClaimObjects) -> None:
        self._cluster = cluster

    def removed(self, item: KubeObject) -> None:
        if not isinstance(item, Pod) or not _may_have_claims(item):
            return
        for claim in [each for each in self._cluster.objects.values() if isinstance(each, ResourceClaim)]:
            if any(user.uid == item.id for user in claim.status.reserved_for or ()):
                self._cluster.update(_without(claim, item))
            if owning_pod({"metadata": msgspec.to_builtins(claim.metadata)}) == (item.name, item.uid):
                self._cluster.delete("ResourceClaim", claim.key)  # last: only a claim that loses its devices wakes pods


def _may_have_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def _without(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim without the pod's reservation; when nobody uses it any more its devices are given back."""
    users = [msgspec.to_builtins(user) for user in claim.status.reserved_for or () if user.uid != pod.id]
    left = with_users(msgspec.to_builtins(claim.status), users)
    return msgspec.structs.replace(claim, status=msgspec.convert(left, ResourceClaimStatus))
