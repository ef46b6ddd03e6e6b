"""The claims of a pod: which they are, the one for extended resources, what an attempt knows of them, and which changes
can help a pod that waits for them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.kinds.devices import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.cluster.claims.device_objects import IMPLICIT_PREFIX, ServingClasses
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.events import NODE, TARGET_POD, Action, Change, ClusterEvent, EventKeys, Registration
from mooring.framework.contract.status import Rejection
from mooring.model.devices import (
    EXACT_COUNT,
    Allocation,
    ClaimConsumer,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.model.meta import ObjectMeta, OwnerReference
from mooring.model.names import is_extended_resource
from mooring.model.pod import Pod
from mooring.model.pod_spec import ALWAYS, Container, NodeAllocatableClaimStatus, PodResourceClaim, RequestMapping
from mooring.model.quantity import NANO, parse
from mooring.model.selectors import NodeMatcher


class Unresolved(Exception):
    """A claim that the pod cannot have as things are; the text is upstream's."""


def claims_of(pod: Pod, claims: ClaimLedger) -> list[ResourceClaim]:
    """The claims that the pod names, or that were made for it from templates, in the order of the pod. Raises
    Unresolved."""
    return [claim for _, claim in entries_of(pod, claims)]


def entries_of(pod: Pod, claims: ClaimLedger) -> Iterable[tuple[str, ResourceClaim]]:
    """The entries of the pod's resourceClaims by name, with their claims. Raises Unresolved."""
    for entry in pod.spec.resource_claims or ():
        claim = _claim_of(pod, entry, claims)
        if claim is not None:
            yield entry.name, claim


def is_reserved_for(claim: ResourceClaim, pod: Pod, accepts_group: bool = False) -> bool:
    """Whether the claim's reservedFor has the pod, or its group where that counts: otherwise the kubelet does not start
    it. Parity: pods do not know the uid of their group, so its name decides."""
    group = _group_name(pod, accepts_group)
    return any(
        consumer.uid == pod.id or (group is not None and is_group(consumer) and consumer.name == group)
        for consumer in claim.status.reserved_for or ()
    )


def _group_name(pod: Pod, accepts_group: bool) -> str | None:
    """The group of the pod, where that counts; None: it has none."""
    group = pod.spec.scheduling_group
    return group.pod_group_name if accepts_group and group else None


def is_group(consumer: ClaimConsumer) -> bool:
    """Whether an entry of reservedFor is a PodGroup."""
    return consumer.api_group == POD_GROUP.group and consumer.resource == POD_GROUP.plural


def is_owned_by(claim: ResourceClaim, pod: Pod, accepts_group: bool = False) -> bool:
    """Whether the claim was made from a template for this very pod, not for an earlier one of its name; or for its
    group, where that counts."""
    owner = claim.controller()
    if owner is None or owner.uid == pod.uid:
        return owner is not None
    group = _group_name(pod, accepts_group)
    is_group_owner = owner.kind == POD_GROUP.kind and owner.api_version.startswith(f"{POD_GROUP.group}/")
    return group is not None and is_group_owner and owner.name == group


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
    if not is_owned_by(claim, pod, claims.has_group_claims):
        group = _group_name(pod, claims.has_group_claims)
        why = "Pod is not owner" if group is None else f"neither Pod nor PodGroup {group} is the owner"
        raise Unresolved(f"ResourceClaim {claim.key} was not created for Pod {pod.key} ({why})")
    return claim


def _existing(pod: Pod, name: str, claims: ClaimLedger) -> ResourceClaim:
    """Find a claim of the pod. Raises Unresolved with upstream's text if it does not exist or is being deleted."""
    claim = claims.get(f"{pod.namespace}/{name}")
    if claim is None:
        raise Unresolved(f'could not find ResourceClaim "{pod.namespace}/{name}"')
    if claim.metadata.deletion_timestamp is not None:
        raise Unresolved(f'resourceclaim "{claim.name}" is being deleted')
    return claim


# ---- Extended resources that devices serve. A pod requests `example.com/gpu: 1` as ever. A
# DeviceClass that names the resource makes devices serve it on nodes that do not have the resource themselves. The
# scheduler creates a claim for the pod, with one request for each container and resource.


Rows = NDArray[np.intp]

UNWRITTEN = "<extended-resources>"
"""The name of a claim that exists only here: no claim on a server can have it."""
MARK = "resource.kubernetes.io/extended-resource-claim"
"""The annotation that marks a claim as made for extended resources."""


def may_be_served(resource: str) -> bool:
    """Whether it is a resource of a kind that devices can serve."""
    return is_extended_resource(resource) or resource.startswith(IMPLICIT_PREFIX)


def needs_devices(requested: Mapping[str, int], classes: ServingClasses) -> bool:
    """Whether devices may have to serve something that the pod requests."""
    if classes.is_empty:
        return False
    return any(amount and may_be_served(name) and classes.get(name) is not None for name, amount in requested.items())


def claim_for(pod: Pod, claims: ClaimLedger) -> ResourceClaim:
    """The claim for the pod's extended resources: one that is left from an earlier attempt, or a new one.

    A new one has no requests yet: they depend on the node, which may have some of the resources itself.
    """
    for claim in claims.owned_by(pod.uid):
        if (claim.metadata.annotations or {}).get(MARK) == "true" and _is_for(claim, pod):
            return claim
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=UNWRITTEN,
            namespace=pod.namespace,
            uid=f"{UNWRITTEN}/{pod.id}",
            generate_name=f"{pod.name}-extended-resources-",
            owner_references=[owner],
            annotations={MARK: "true"},
        )
    )


def is_unwritten(claim: ResourceClaim) -> bool:
    """Whether the claim exists only in this process."""
    return claim.name == UNWRITTEN


def _is_for(claim: ResourceClaim, pod: Pod) -> bool:
    owner = claim.controller()
    return owner is not None and owner.name == pod.name and owner.uid == pod.uid


class Served(msgspec.Struct):
    """The requests that devices serve on some nodes, and which request serves which container."""

    requests: list[DeviceRequest] = msgspec.field(default_factory=list)
    mappings: list[RequestMapping] = msgspec.field(default_factory=list)


def asking(claim: ResourceClaim, served: Served) -> ResourceClaim:
    """The claim as it is on nodes where devices serve this."""
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=served.requests))
    return msgspec.structs.replace(claim, spec=spec)


def serve(pod: Pod, resources: Iterable[str], classes: ServingClasses) -> Served:
    """One request for each container and resource.

    Plain init containers reuse what later containers get, as they have ended by then; sidecars run on and count like
    containers.
    """
    served = Served()
    for resource in sorted(resources):
        device_class = classes.get(resource)
        if device_class is not None:
            _serve_resource(pod, resource, device_class.name, served)
    served.requests.sort(key=lambda request: request.name)
    return served


def _serve_resource(pod: Pod, resource: str, class_name: str, served: Served) -> None:
    """Add the device requests that serve one extended resource of a pod. Regular and sidecar containers hold their devices
    for the life of the pod; init containers run one after another, so they reuse these devices and share one further
    request."""
    containers = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    first_regular = len(pod.spec.init_containers or ())
    lasting: list[DeviceRequest | None] = [None] * len(containers)
    passing: list[DeviceRequest] = []
    lasting_maps: list[RequestMapping] = []
    passing_maps: list[RequestMapping] = []
    for i, container in enumerate(containers):
        if i >= first_regular or container.restart_policy == ALWAYS:
            lasting[i], maps = _request(i, container, resource, class_name, ())
            lasting_maps += maps
    for i, container in enumerate(containers[:first_regular]):
        if container.restart_policy != ALWAYS:
            reusable = [request for request in lasting[i:] if request is not None]
            request, maps = _request(i, container, resource, class_name, reusable)
            passing_maps += maps
            if request is not None:
                passing.append(request)
    if passing:
        # Init containers run one after another, so the largest request serves them all.
        largest = max(passing, key=_count)
        names = {request.name for request in passing}
        for mapping in passing_maps:
            mapping.request_name = largest.name if mapping.request_name in names else mapping.request_name
        served.requests.append(largest)
    served.requests += [request for request in lasting if request is not None]
    served.mappings += [*lasting_maps, *passing_maps]


def _request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[DeviceRequest]
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """Build the device request of a container for an extended resource: the devices that it needs beyond the reusable
    requests. The mappings name the requests that serve the container."""
    requests = (container.resources.requests if container.resources is not None else None) or {}
    wanted = parse(requests[resource]) if resource in requests else 0
    if not wanted or wanted % NANO:
        return None, []
    missing, mappings = wanted // NANO, []
    for other in reusable:
        missing -= _count(other)
        mappings.append(RequestMapping(container_name=container.name, resource_name=resource, request_name=other.name))
        if missing <= 0:
            return None, mappings
    name = f"container-{index}-request-{sorted(requests).index(resource)}"
    mappings.append(RequestMapping(container_name=container.name, resource_name=resource, request_name=name))
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=missing)
    return DeviceRequest(name=name, exactly=exactly), mappings


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def served_by_devices(
    requested: Mapping[str, int], nodes: NodeTable, classes: ServingClasses, rows: Rows
) -> dict[str, NDArray[np.bool_]]:
    """For each requested resource that devices can serve, the rows on which they have to: the node has none of it."""
    names = [name for name, amount in requested.items() if amount and may_be_served(name)]
    served = [name for name in sorted(names) if classes.get(name) is not None]
    places = nodes.amounts.places(served)  # first: a new resource may replace the matrix
    return {name: nodes.amounts.allocatable[at, rows] == 0 for name, at in zip(served, places, strict=True)}


def rows_lacking(
    requested: Mapping[str, int], nodes: NodeTable, classes: ServingClasses, rows: Rows
) -> NDArray[np.bool_]:
    """Rows whose node does not list a requested resource that no class serves."""
    unserved = [
        name for name, amount in requested.items() if amount and may_be_served(name) and classes.get(name) is None
    ]
    if not unserved:
        return np.zeros(len(rows), np.bool_)
    allocatable = (
        (node.status.allocatable or {}) if node is not None else {} for node in map(nodes.nodes.__getitem__, rows)
    )
    return np.array([not all(name in known for name in unserved) for known in allocatable], np.bool_)


# ---- The state of an attempt, from PreFilter to the end of the binding.


class ClaimState(msgspec.Struct, eq=False):
    """The claims in order; the one for extended resources, if there is one, comes last."""

    claims: list[ResourceClaim] = msgspec.field(default_factory=list)
    reach: list[NodeMatcher | None] = msgspec.field(default_factory=list)
    """For each claim the nodes that its allocation can be used on; None: it has none yet, or any node will do."""
    shared: dict[int, ResourceClaim] = msgspec.field(default_factory=dict)
    """Claims that other members of the pod's group are about to have allocated, with those allocations."""
    group_consumers: dict[int, ClaimConsumer] = msgspec.field(default_factory=dict)
    """Claims that are reserved for the pod's group, with its entry; the others are reserved for the pod."""
    offered: set[int] = msgspec.field(default_factory=set)
    """Claims whose allocation, found for this pod, the members of its group share that follow."""
    extended: ResourceClaim | None = None
    """The claim for extended resources as it was found or made up in PreFilter."""
    requested: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Requests of the pod by resource, if devices may serve some of them."""
    is_filtered: bool = False
    """Whether Filter was asked. Parity: Score and Reserve know no devices in profiles that disable Filter."""
    unavailable: set[int] = msgspec.field(default_factory=set)
    """Claims whose allocation stands in the way on some node."""
    allocations: dict[int, Allocation] = msgspec.field(default_factory=dict)
    """Allocations to write on the chosen node, by index of the claim."""
    node_resources: Sequence[NodeAllocatableClaimStatus] = ()
    """Resources of the chosen node that the devices in `allocations` take."""
    refusals: list[Rejection] = msgspec.field(default_factory=list)
    """Why devices would take too much from nodes; codes of the filter count from REFUSED on."""
    mappings: Sequence[RequestMapping] = ()
    """Which request of the extended claim serves which container on that node."""
    node_claim: ResourceClaim | None = None
    """The extended claim as it is to be written for that node."""
    _served: dict[tuple[str, ...], Served] = msgspec.field(default_factory=dict)
    """Cache of `served`, by resources: nodes with the same resources share an entry."""

    def __bool__(self) -> bool:
        return bool(self.claims)

    @property
    def has_user_claims(self) -> bool:
        """Whether there are claims beside the one for extended resources."""
        return len(self.claims) > (self.extended is not None)

    def consumer(self, index: int, pod: Pod) -> ClaimConsumer:
        """The entry for the pod, or for its pod group, in `status.reservedFor` of the claim."""
        return self.group_consumers.get(index) or ClaimConsumer(resource="pods", name=pod.name, uid=pod.id)

    def is_shared(self, index: int) -> bool:
        """Whether members of a group count on one allocation of the claim: any of them may write it."""
        return index in self.shared or index in self.offered

    def missing(self) -> list[int]:
        """The indexes of the claims that have to be allocated, the extended one left out."""
        last = len(self.claims) - (self.extended is not None)
        return [
            i for i, claim in enumerate(self.claims[:last]) if claim.status.allocation is None and i not in self.shared
        ]

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

    Parity: the answer is no while a claim of the pod is missing, unless a claim with devices was deleted.
    """
    old, new = cast("ResourceClaim | None", change.old), cast("ResourceClaim | None", change.new)
    if new is None:
        return _gave_back(change)
    try:
        own = {claim_id(claim) for claim in claims_of(pod, change.cluster.claims)}
    except Unresolved:
        return False
    if _gave_back(change):
        return True
    return claim_id(new) in own and (old is None or old.status != new.status)


def _gave_back(change: Change) -> bool:
    """Whether a claim gave its devices back, or was deleted with them: any pod may get them."""
    old, new = cast("ResourceClaim | None", change.old), cast("ResourceClaim | None", change.new)
    if old is None or old.status.allocation is None:
        return False
    return new is None or new.status.allocation is None


def _claim_keys(pod: Pod) -> Iterable[str]:
    """The claims that the pod names, or that were made for it, whether or not they exist."""
    entries = (*(pod.spec.resource_claims or ()), *(pod.status.resource_claim_statuses or ()))
    return (
        f"{pod.namespace}/{entry.resource_claim_name}" for entry in entries if entry.resource_claim_name is not None
    )


def _claims_changed(change: Change) -> Iterable[str] | None:
    """The claim that changed; none if it was deleted without devices."""
    if _gave_back(change):
        return None
    return () if change.new is None else (change.new.key,)


_CLAIMS = EventKeys(_claim_keys, _claims_changed, narrows=True)


def pod_got_claims(pod: Pod, change: Change) -> bool:
    """Whether all claims of the pod, as it is now, exist."""
    try:
        claims_of(cast("Pod", change.new), change.cluster.claims)
    except Unresolved:
        return False
    return True


DEVICE_EVENTS = (
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE)),
    Registration(ClusterEvent(RESOURCE_CLAIM.event, _CHANGED | Action.DELETE), claim_matters, _CLAIMS),
    Registration(ClusterEvent(TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), pod_got_claims),
    Registration(ClusterEvent(DEVICE_CLASS.event, _CHANGED)),
    Registration(ClusterEvent(RESOURCE_SLICE.event, _CHANGED)),
)
