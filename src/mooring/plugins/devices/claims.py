"""The claims of a pod: which they are, what an attempt knows of them, and which changes can help a pod that waits for
them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.cluster.claims.serving_classes import ServingClasses
from mooring.framework.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.model.devices import Allocation, ResourceClaim
from mooring.model.kinds.devices import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodResourceClaim, RequestMapping
from mooring.model.selectors import NodeMatcher
from mooring.plugins.devices.extended import Served, asking, serve
from mooring.plugins.hints import is_itself


class Unresolved(Exception):
    """A claim that the pod cannot have as things are; the text is upstream's."""


def claims_of(pod: Pod, claims: ClaimLedger) -> list[ResourceClaim]:
    """The claims that the pod names, or that were made for it from templates, in the order of the pod. Raises
    Unresolved."""
    found = (_claim_of(pod, entry, claims) for entry in pod.spec.resource_claims or ())
    return [claim for claim in found if claim is not None]


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim's reservedFor has the pod: without that the kubelet does not start it."""
    return any(consumer.uid == pod.id for consumer in claim.status.reserved_for or ())


def is_owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made from a template for this very pod, not for an earlier one of its name."""
    owner = claim.controller()
    return owner is not None and owner.uid == pod.uid


def _claim_of(pod: Pod, entry: PodResourceClaim, claims: ClaimLedger) -> ResourceClaim | None:
    """The claim of one entry; None: the controller decided that the entry needs no claim."""
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


# ---- The state of an attempt, from PreFilter to the end of the binding.


@dataclass(slots=True, eq=False)
class ClaimState:
    """The claims in order; the one for extended resources, if there is one, comes last."""

    claims: list[ResourceClaim] = field(default_factory=list)
    reach: list[NodeMatcher | None] = field(default_factory=list)
    """For each claim the nodes that its allocation can be used on; None: it has none yet, or any node will do."""
    extended: ResourceClaim | None = None
    """The claim for extended resources as it was found or made up in PreFilter."""
    requested: Mapping[str, int] = field(default_factory=dict)
    """What the pod requests, where some of it may be served by devices."""
    unavailable: set[int] = field(default_factory=set)
    """Claims whose allocation stands in the way on some node."""
    allocations: dict[int, Allocation] = field(default_factory=dict)
    """What claims are to get on the node that was chosen."""
    mappings: Sequence[RequestMapping] = ()
    """Which request of the extended claim serves which container on that node."""
    node_claim: ResourceClaim | None = None
    """The extended claim as it is to be written for that node."""
    _served: dict[tuple[str, ...], Served] = field(default_factory=dict)
    """What `served` has worked out, by resources: nodes with the same resources share it."""

    def __bool__(self) -> bool:
        return bool(self.claims)

    @property
    def has_user_claims(self) -> bool:
        """Whether there are claims beside the one for extended resources."""
        return len(self.claims) > (self.extended is not None)

    def missing(self) -> list[int]:
        """The indexes of the claims that have to be allocated, the extended one left out."""
        last = len(self.claims) - (self.extended is not None)
        return [i for i, claim in enumerate(self.claims[:last]) if claim.status.allocation is None]

    def wanted(self, served: Served) -> list[tuple[int, ResourceClaim]]:
        """The claims that have to be allocated on nodes where devices serve this."""
        found = [(index, self.claims[index]) for index in self.missing()]
        if self.extended is not None and served.requests:
            found.append((len(self.claims) - 1, asking(self.extended, served)))
        return found

    def served(self, pod: Pod, resources: Sequence[str], classes: ServingClasses) -> Served:
        """The requests for these resources, built once in an attempt."""
        key = tuple(resources)
        if key not in self._served:
            self._served[key] = serve(pod, key, classes)
        return self._served[key]


# ---- Queueing hints: the claims of a pod that DynamicResources rejected, or devices for them, may have come. They are
# here and not beside the plugin, whose file would be too long.


_CHANGED = Action.ADD | Action.UPDATE


def claim_matters(pod: Pod, change: Change) -> bool:
    """Whether any claim gave its devices back, or the status of a claim of the pod changed.

    Parity: the answer is no while a claim of the pod is missing.
    """
    old, new = cast("ResourceClaim | None", change.old), cast("ResourceClaim", change.new)
    try:
        own = {claim_id(claim) for claim in claims_of(pod, change.cluster.claims)}
    except Unresolved:
        return False
    if old is not None and old.status.allocation is not None and new.status.allocation is None:
        return True
    return claim_id(new) in own and (old is None or old.status != new.status)


def pod_got_claims(pod: Pod, change: Change) -> bool:
    """Whether it is the waiting pod itself, and all its claims exist now."""
    if not is_itself(pod, change):
        return False
    try:
        claims_of(cast("Pod", change.new), change.cluster.claims)
    except Unresolved:
        return False
    return True


DEVICE_EVENTS = (
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE)),
    Registration(ClusterEvent(RESOURCE_CLAIM.event, _CHANGED), claim_matters),
    Registration(ClusterEvent(POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), pod_got_claims),
    Registration(ClusterEvent(DEVICE_CLASS.event, _CHANGED)),
    Registration(ClusterEvent(RESOURCE_SLICE.event, _CHANGED)),
)
