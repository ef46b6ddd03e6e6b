"""The claims of a pod: those that it names, and those that were made for it from templates."""

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodResourceClaim


class Unresolved(Exception):
    """A claim that the pod cannot have as things are; the text is upstream's."""


def claims_of(pod: Pod, claims: ClaimLedger) -> list[ResourceClaim]:
    """In the order in which the pod names them. Raises Unresolved."""
    found = (_claim_of(pod, entry, claims) for entry in pod.spec.resource_claims or ())
    return [claim for claim in found if claim is not None]


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.id for consumer in claim.status.reserved_for or ())


def is_owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    owner = claim.controller()
    return owner is not None and owner.uid == pod.uid


def _claim_of(pod: Pod, entry: PodResourceClaim, claims: ClaimLedger) -> ResourceClaim | None:
    """None: the entry needs no claim."""
    if entry.resource_claim_name is not None:
        return _existing(pod, entry.resource_claim_name, claims)
    if entry.resource_claim_template_name is None:
        where = f'pod "{pod.key}", spec.resourceClaim "{entry.name}"'
        raise Unresolved(f"{where}: none of the supported fields are set")
    made = next((each for each in pod.status.resource_claim_statuses or () if each.name == entry.name), None)
    if made is None:
        raise Unresolved(f'pod "{pod.key}": ResourceClaim not created yet')
    if made.resource_claim_name is None:
        return None
    claim = _existing(pod, made.resource_claim_name, claims)
    if not is_owned_by(claim, pod):
        raise Unresolved(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
    return claim


def _existing(pod: Pod, name: str, claims: ClaimLedger) -> ResourceClaim:
    claim = claims.get(f"{pod.namespace}/{name}")
    if claim is None:
        raise Unresolved(f'could not find ResourceClaim "{pod.namespace}/{name}"')
    if claim.metadata.deletion_timestamp is not None:
        raise Unresolved(f'resourceclaim "{claim.name}" is being deleted')
    return claim
