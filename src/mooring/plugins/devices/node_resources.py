"""Devices that take from the node's own resources, such as cpu and memory (feature gate DRANodeAllocatableResources).

A device says which resources of the node it is, and what it costs to use it. What the devices of a pod take is written into
the pod's status and counts as part of its requests from the moment in which the pod is assumed, so that NodeResourcesFit
sees it.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.facts import FIRST_CLASS
from mooring.cluster.columns.resource_amounts import cells
from mooring.cluster.nodes.match import match_nodes
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Write
from mooring.framework.contract.points import Codes
from mooring.framework.contract.status import PluginError, Rejection, curable, final
from mooring.model.devices import (
    AllocatedDevice,
    Device,
    NodeAllocatableMapping,
    NodeAllocatableResource,
    ResourceClaim,
    ResourceSliceSpec,
)
from mooring.model.pod import Pod
from mooring.model.pod_spec import Container, MappedResource, NodeAllocatableClaimStatus, NodeSelector, OverheadResource
from mooring.model.quantity import NANO, QuantityText, parse, parse_or, written_like
from mooring.model.requests import (
    FILTER,
    Accounting,
    Amounts,
    device_amounts,
    effective_requests,
    is_pod_level,
    to_exact_units,
    to_units,
)
from mooring.model.selectors import compile_node_selector
from mooring.plugins.devices.allocation import DeviceChoice, Pick, results_of
from mooring.plugins.devices.device_claims import ClaimState, entries_of, is_reserved_for

Taken = NodeAllocatableClaimStatus
RowArray = NDArray[np.intp]
Mask = NDArray[np.bool_]

REFUSED = 16
"""The filter's first code for the rejections here; their place in the list of an attempt is added."""


# ---- devices that claims have


class HeldDevice(msgspec.Struct, frozen=True):
    """A device that a claim has, or is about to get."""

    name: str
    driver: str
    device: Device | None
    consumed: Mapping[str, QuantityText] | None = None
    """Capacity that the claim consumes of it; None: the device cannot be shared."""
    fault: str = ""
    """Why the node does not see the device, if that is so."""

    @classmethod
    def of(cls, pick: Pick) -> "HeldDevice":
        """The device that a search picked."""
        driver, _, name = pick.site.id
        consumed = None if pick.shares is None else {each: share.text for each, share in pick.shares.items()}
        return cls(name, driver, pick.site.device, consumed)


Held = tuple[ResourceClaim, Sequence[HeldDevice]]
"""A claim with its devices."""


def settled_claims(state: ClaimState) -> list[ResourceClaim]:
    """The claims that have their devices, or share those that the pod's group is about to get."""
    found = (state.shared.get(index, claim) for index, claim in enumerate(state.claims))
    return [claim for claim in found if claim.status.allocation is not None]


def held_on(cluster: Cluster, claims: Sequence[ResourceClaim], rows: RowArray) -> list[tuple[list[Held], RowArray]]:
    """The devices of these claims as nodes see them, with the places in `rows` of the nodes that see the same."""
    results = [(claim, result) for claim in claims for result in results_of(claim)]
    columns = [_seen(cluster, result, rows) for _, result in results]
    if not columns:
        return [([(claim, ()) for claim in claims], np.arange(len(rows)))]
    kinds, kind_of = np.unique(np.array([places for _, places in columns]), axis=1, return_inverse=True)
    found = []
    for number, kind in enumerate(kinds.T):
        by_claim: dict[str, list[HeldDevice]] = {claim_id(claim): [] for claim in claims}
        for (claim, _), (devices, _), place in zip(results, columns, kind.tolist(), strict=True):
            by_claim[claim_id(claim)].append(devices[place])
        held: list[Held] = [(claim, by_claim[claim_id(claim)]) for claim in claims]
        found.append((held, np.flatnonzero(kind_of.reshape(-1) == number)))
    return found


def _seen(cluster: Cluster, result: AllocatedDevice, rows: RowArray) -> tuple[list[HeldDevice], RowArray]:
    """A device of an allocation as nodes see it: the forms that it has, and for each row the place of its form.

    Parity: the first slice that is for the node counts, whatever its generation.
    """

    def held(device: Device | None, fault: str = "") -> HeldDevice:
        return HeldDevice(result.device, result.driver, device, result.consumed_capacity, fault)

    forms = [held(None, f"device {result.device} not found in pool {result.pool} for driver {result.driver}")]
    places, is_open = np.zeros(len(rows), np.intp), np.ones(len(rows), np.bool_)
    for spec, device in _published(cluster, result):
        here = is_open & _is_for(cluster, spec, rows)
        if not here.any():
            continue
        forms.append(held(device))
        places[here] = len(forms) - 1
        is_open &= ~here
        if spec.per_device_node_selection:
            forms.append(held(None, f"device {result.device} does not match node"))
            places[here & ~_is_for(cluster, device, rows)] = len(forms) - 1
    return forms, places


def _published(cluster: Cluster, result: AllocatedDevice) -> Iterator[tuple[ResourceSliceSpec, Device]]:
    """The device of an allocation in each slice that has it."""
    for published in cluster.tainted_slices.all():
        spec = published.spec
        if (spec.driver, spec.pool.name) == (result.driver, result.pool):
            device = next((each for each in spec.devices or () if each.name == result.device), None)
            if device is not None:
                yield spec, device


def _is_for(cluster: Cluster, where: ResourceSliceSpec | Device, rows: RowArray) -> Mask:
    """Mask of the rows that a slice or a device is for. A slice that leaves it to its devices is for all."""
    nodes = cluster.nodes
    found: Mask = np.zeros(len(rows), np.bool_)
    if where.node_name is not None:
        found |= rows == nodes.row_book.get(where.node_name, -1)
    if where.all_nodes or (isinstance(where, ResourceSliceSpec) and where.per_device_node_selection):
        found[:] = True
    if where.node_selector is not None:
        found |= _matching(cluster, where.node_selector, rows)
    return found


def _matching(cluster: Cluster, selector: NodeSelector, rows: RowArray) -> Mask:
    """Mask of the rows that a node selector matches. Parity: one that does not parse matches none."""
    matcher = compile_node_selector(selector)
    return np.zeros(len(rows), np.bool_) if matcher.faults() else match_nodes(cluster.nodes, matcher, rows)


# ---- what devices take


def taken_by(pod: Pod, held: Sequence[Held], ledger: ClaimLedger) -> list[NodeAllocatableClaimStatus]:
    """Compute the resources of the node that devices take, claim by claim. Raises PluginError."""
    found = []
    for claim, devices in held:
        if not any(each.device is not None and each.device.node_allocatable_resources for each in devices):
            continue
        for each in devices:
            if each.device is None:
                where = f"claim {claim.key}, device {each.name}, driver {each.driver}"
                raise PluginError(f"{where}: {each.fault}")
        mapping, overhead = _mapped(claim, devices), _overhead(devices)
        if mapping or overhead:
            found.append(Taken(claim.name, _containers(pod, claim, ledger), mapping or None, overhead or None))
    return sorted(found, key=lambda each: each.resource_claim_name)


def taken_on(
    context: SchedulingContext,
    state: ClaimState,
    claims: Sequence[ResourceClaim],
    choice: DeviceChoice | None,
    rows: RowArray,
) -> list[tuple[list[NodeAllocatableClaimStatus], RowArray]]:
    """The amounts that the devices of the pod take from nodes: devices that were chosen for these
    claims, and devices that other claims have already. Each comes with the places in `rows` of the
    nodes that see the same amounts. Raises PluginError."""
    picked = zip(claims, choice.picks, strict=True) if choice is not None else ()
    chosen = [(claim, [HeldDevice.of(pick) for pick in picks]) for claim, picks in picked]
    return [
        (taken_by(context.pod, [*held, *chosen], context.cluster.claims), places)
        for held, places in held_on(context.cluster, settled_claims(state), rows)
    ]


def _containers(pod: Pod, claim: ResourceClaim, ledger: ClaimLedger) -> list[str]:
    """The containers that use the claim, init containers first."""
    names = [name for name, each in entries_of(pod, ledger) if claim_id(each) == claim_id(claim)]
    used = ((each.name, each.resources.claims or ()) for each in pod.shape.containers if each.resources is not None)
    return [container for container, entries in used for entry in entries if entry.name in names]


def _mapped(claim: ResourceClaim, devices: Sequence[HeldDevice]) -> list[MappedResource]:
    """Sum of the amounts that the devices of one claim are, by resource."""
    found: dict[str, QuantityText] = {}
    for held in devices:
        for resource, written in _resources(held):
            amount = None if written.mapping is None else _amount(claim, held, resource, written.mapping)
            if amount is not None:
                found[resource] = _sum(found.get(resource), amount)
    return [MappedResource(name, found[name]) for name in sorted(found)]


def _amount(
    claim: ResourceClaim, held: HeldDevice, resource: str, mapping: NodeAllocatableMapping
) -> QuantityText | None:
    """Compute the amount of a resource that one device is; None if the mapping refers to a capacity that the claim does not
    consume."""
    if not mapping.capacity_key:
        return mapping.device_multiplier
    if held.consumed is None:
        why = f"ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in NodeAllocatableResources"
        raise PluginError(f"claim {claim.key}, device {held.name}: {why} for resource {resource}")
    consumed, multiplier = held.consumed.get(mapping.capacity_key), mapping.capacity_multiplier
    if consumed is None or multiplier is None or parse(multiplier) == NANO:
        return consumed
    return written_like(-(-parse(consumed) * parse(multiplier) // NANO), consumed)


def _overhead(devices: Sequence[HeldDevice]) -> list[OverheadResource]:
    """Sum of the amounts that it costs to use the devices of one claim, by resource."""
    found: dict[str, OverheadResource] = {}
    for held in devices:
        for resource, written in _resources(held):
            cost = written.overhead
            if cost is None or (cost.per_pod is None and cost.per_container is None):
                continue
            known = found.setdefault(resource, OverheadResource(resource))
            if cost.per_pod is not None:
                known.per_pod = _sum(known.per_pod, cost.per_pod)
            if cost.per_container is not None:
                known.per_container = _sum(known.per_container, cost.per_container)
    return [found[name] for name in sorted(found)]


def _resources(held: HeldDevice) -> Iterator[tuple[str, NodeAllocatableResource]]:
    if held.device is not None:
        yield from (held.device.node_allocatable_resources or {}).items()


def _sum(known: QuantityText | None, more: QuantityText) -> QuantityText:
    """The sum of two quantities, in the format of the first that is not zero."""
    if known is None or not parse(known):
        return more
    return written_like(parse(known) + parse(more), known)


def write_taken(pod: Pod, taken: Sequence[NodeAllocatableClaimStatus] | None) -> Write:
    """Write what its devices take into the pod's status; None: nothing any more. An empty list says so: an API server takes a
    field that is missing for one that the client does not know."""
    body: dict[str, object] = {
        "status": {"nodeAllocatableResourceClaimStatuses": msgspec.to_builtins(list(taken or ()))}
    }
    if taken is None and pod.uid:
        body["metadata"] = {"uid": pod.uid}
    return Write("PATCH", Pod, pod.name, pod.namespace, body, "status")


# ---- whether nodes have it


def judge(
    context: SchedulingContext, taken: list[NodeAllocatableClaimStatus], rows: RowArray, refusals: list[Rejection]
) -> Codes:
    """For each row 0 if it has room for the pod with what its devices take, or the code of a rejection in `refusals`, which
    grows."""
    pod = context.pod.with_device_resources(taken)
    why_not = _refusal(pod, taken)
    if why_not is not None:
        return np.full(len(rows), code_of(why_not, refusals), np.int64)
    demand = to_units(effective_requests(pod, FILTER))
    names = [
        *(name for name in FIRST_CLASS if demand.get(name)),
        *sorted(n for n in demand if n.startswith("hugepages-")),
    ]
    if not names:
        return np.zeros(len(rows), np.int64)
    amounts = context.nodes.amounts
    places = amounts.resources(names)
    wanted: NDArray[np.int64] = np.array([demand[name] for name in names], np.int64).reshape(-1, 1)
    allocatable = cells(amounts.allocatable, places, rows)
    lacking: NDArray[np.bool_] = wanted > allocatable - cells(amounts.requested, places, rows)
    beyond: NDArray[np.bool_] = wanted > allocatable
    if amounts.huge_rows:
        exact = to_exact_units(effective_requests(pod, FILTER))
        amounts.settle_huge({name: exact[name] for name in names}, rows, lacking, beyond)
    never: NDArray[np.bool_] = np.any(lacking & beyond, axis=0, keepdims=True)
    kinds, kind_of = np.unique(np.concatenate((lacking, never)), axis=1, return_inverse=True)
    codes: Codes = np.array([code_of(_insufficient(names, each), refusals) if each.any() else 0 for each in kinds.T])
    return codes[kind_of.reshape(-1)]


_ALONE = Accounting(pod_level=False)
"""Requests of containers and devices, whatever the pod says as a whole."""


def _refusal(pod: Pod, taken: Sequence[NodeAllocatableClaimStatus]) -> Rejection | None:
    """Why the pod fits on no node with these devices: what it says as a whole does not cover them."""
    whole = pod.spec.resources
    if whole is None:
        return None
    needed = effective_requests(_without_overhead(pod, "requests"), _ALONE)
    for name, text in sorted((whole.requests or {}).items()):
        if is_pod_level(name) and needed.get(name, 0) > parse_or(text, 0):
            cover = "to cover the aggregated container and node-allocatable DRA requests"
            return final(f"pod level request for {name} is insufficient {cover}")
    limits = {name: parse_or(text, 0) for name, text in (whole.limits or {}).items()}
    return _limit_refusal(pod, taken, limits) if limits else None


def _limit_refusal(pod: Pod, taken: Sequence[NodeAllocatableClaimStatus], limits: Amounts) -> Rejection | None:
    """Why limits of the pod as a whole do not cover its devices: of huge pages for all containers together, of other
    resources for each container."""
    # Parity: devices count for huge pages in any case, unlike for other resources, which have no limit without one.
    huge = effective_requests(_without_overhead(pod, "limits"), _ALONE)
    for name in sorted(huge):
        if name.startswith("hugepages-") and huge[name] > limits.get(name, huge[name]):
            cover = "to cover the aggregated container and node-allocatable DRA limits"
            return final(f"pod level limit for {name} is insufficient {cover}")
    for container in pod.spec.containers:
        own = _container_amounts(container.name, taken)
        for name, text in sorted(((container.resources and container.resources.limits) or {}).items()):
            needed = parse_or(text, 0) + own.get(name, 0)
            if not name.startswith("hugepages-") and needed > limits.get(name, needed):
                cover = f"to cover the limit and DRA overhead for container {container.name}"
                return final(f"pod level limit for {name} is insufficient {cover}")
    return None


def _without_overhead(pod: Pod, field: str) -> Pod:
    """The pod without overhead, whose containers request what this field of their resources says."""

    def asking(container: Container) -> Container:
        resources = container.resources
        if resources is None or field == "requests":
            return container
        return msgspec.structs.replace(
            container, resources=msgspec.structs.replace(resources, requests=resources.limits)
        )

    init = None if pod.spec.init_containers is None else [asking(each) for each in pod.spec.init_containers]
    containers = [asking(each) for each in pod.spec.containers]
    spec = msgspec.structs.replace(pod.spec, overhead=None, containers=containers, init_containers=init)
    return Pod(metadata=pod.metadata, spec=spec, status=pod.status)


def _container_amounts(name: str, taken: Sequence[NodeAllocatableClaimStatus]) -> Amounts:
    """The amounts that the devices of one container take. Parity: all of what its claims take, also for other containers."""
    total: Amounts = {}
    for each in taken:
        if name in (each.containers or ()):
            for resource, amount in device_amounts(msgspec.structs.replace(each, containers=[name])).items():
                total[resource] = total.get(resource, 0) + amount
    return total


def _insufficient(names: Sequence[str], kind: Mask) -> Rejection:
    reasons = [f"Insufficient {name}" for name, is_lacking in zip(names, kind[:-1], strict=True) if is_lacking]
    return final(*reasons) if kind[-1] else curable(*reasons)


# ---- claims that several pods use


def sharing_refusal(context: SchedulingContext, claim: ResourceClaim, is_in_group: bool) -> Rejection | None:
    """Why the pod cannot use a claim that has its devices, or gets those that the pod's group shares: another pod uses the
    claim, and a device of it is a part of the node, which would count twice."""
    ledger, users = context.cluster.claims, claim.status.reserved_for
    is_used = bool(users) and not is_reserved_for(claim, context.pod, ledger.has_group_claims)
    is_used = is_used or (is_in_group and any(each != context.pod.id for each in ledger.sharers(claim_id(claim))))
    if not is_used or not _is_mapped(context.cluster, claim):
        return None
    return final(f"node allocatable resource claim {claim.name} has a mapped device and cannot be shared across pods")


def _is_mapped(cluster: Cluster, claim: ResourceClaim) -> bool:
    """Whether a device of the claim is a part of a node. Parity: the first slice that has the device counts."""
    for result in results_of(claim):
        _, device = next(_published(cluster, result), (None, None))
        resources = device.node_allocatable_resources if device is not None else None
        if any(each.mapping is not None for each in (resources or {}).values()):
            return True
    return False


def code_of(refusal: Rejection, refusals: list[Rejection]) -> int:
    """The filter's code for a rejection, which is added to `refusals` if it is new."""
    if refusal not in refusals:
        refusals.append(refusal)
    return REFUSED + refusals.index(refusal)
