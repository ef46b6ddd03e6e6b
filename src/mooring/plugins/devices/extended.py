"""Extended resources that devices serve (gate DRAExtendedResource).

A pod requests `example.com/gpu: 1` as ever. A DeviceClass that names the resource makes devices serve it on nodes that
do not have the resource themselves. The scheduler creates a claim for the pod, with one request for each container and
resource.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.cluster.claims.serving_classes import IMPLICIT_PREFIX, ServingClasses
from mooring.cluster.nodes.table import NodeTable
from mooring.model.devices import (
    EXACT_COUNT,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.model.meta import ObjectMeta, OwnerReference
from mooring.model.names import is_extended_resource
from mooring.model.pod import Pod
from mooring.model.pod_spec import ALWAYS, Container, RequestMapping
from mooring.model.quantity import NANO, parse

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
    for claim in claims.all():
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
    owners = claim.metadata.owner_references or ()
    return any(owner.name == pod.name and owner.controller and owner.uid == pod.uid for owner in owners)


@dataclass(slots=True)
class Served:
    """The requests that devices serve on some nodes, and which request serves which container."""

    requests: list[DeviceRequest] = field(default_factory=list)
    mappings: list[RequestMapping] = field(default_factory=list)


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
    """What the container needs beyond the requests that it can make use of, and which requests serve it."""
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
    served = {name: nodes.resource(name) for name in sorted(names) if classes.get(name) is not None}
    return {name: nodes.allocatable[index, rows] == 0 for name, index in served.items()}


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
