"""Devices that take from the node's own resources, such as cpu and memory (feature gate DRANodeAllocatableResources).

A device maps itself to resources of the node. What the devices of a pod take is written into the pod's status and counts
as part of its requests from the moment in which the pod is assumed, so that NodeResourcesFit sees it.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.cluster.columns.facts import FIRST_CLASS
from mooring.cluster.columns.resource_amounts import cells
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Write
from mooring.framework.contract.points import Codes
from mooring.framework.contract.status import PluginError, Rejection, curable, final
from mooring.model.devices import NodeAllocatableMapping, ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeAllocatableClaimStatus
from mooring.model.quantity import NANO, QuantityText, parse
from mooring.model.requests import FILTER, Accounting, effective_requests, to_exact_units, to_units
from mooring.plugins.devices.allocation import DeviceChoice, Pick
from mooring.plugins.devices.device_capacity import binary
from mooring.plugins.devices.device_claims import entries_of
from mooring.plugins.devices.group_claims import pods_using, resources_in_group

Taken = NodeAllocatableClaimStatus
RowArray = NDArray[np.intp]

REFUSED = 16
"""The filter's first code for the rejections here; their place in the list of an attempt is added."""

_WITHOUT_POD_LEVEL = Accounting(pod_level=False)


# ---- what devices take


def taken_by(
    pod: Pod,
    claims: Sequence[ResourceClaim],
    choice: DeviceChoice | None,
    ledger: ClaimLedger,
    shared: Sequence[NodeAllocatableClaimStatus] = (),
) -> list[NodeAllocatableClaimStatus]:
    """Compute the resources of the node that the chosen devices take, claim by claim, together with those of the devices that
    the pod group shares. Raises PluginError."""
    found = [*shared]
    for claim, picks in zip(claims, choice.picks, strict=True) if choice is not None else ():
        if any(pick.site.device.node_allocatable_resource_mappings for pick in picks):
            resources = _resources(claim, picks)
            if resources:
                found.append(Taken(claim.name, _containers(pod, claim, ledger), resources))
    return sorted(found, key=lambda each: each.resource_claim_name)


def taken_in_group(context: SchedulingContext, claims: Iterable[ResourceClaim]) -> list[NodeAllocatableClaimStatus]:
    """Resources of the node that the shared devices of the pod group take in this attempt. Parity: they count for each pod of
    the group."""
    taken = ((claim, resources_in_group(context, claim)) for claim in claims)
    ledger = context.cluster.claims
    return [
        Taken(claim.name, _containers(context.pod, claim, ledger), dict(resources))
        for claim, resources in taken
        if resources
    ]


def _containers(pod: Pod, claim: ResourceClaim, ledger: ClaimLedger) -> list[str]:
    """The containers that use the claim, init containers first."""
    names = [name for name, each in entries_of(pod, ledger) if claim_id(each) == claim_id(claim)]
    used = ((each.name, each.resources.claims or ()) for each in pod.shape.containers if each.resources is not None)
    return [container for container, entries in used for entry in entries if entry.name in names]


def _resources(claim: ResourceClaim, picks: Sequence[Pick]) -> dict[str, QuantityText]:
    """Sum of the amounts that the devices of one claim take from the node, by resource."""
    found: dict[str, QuantityText] = {}
    for pick in picks:
        for resource, mapping in (pick.site.device.node_allocatable_resource_mappings or {}).items():
            amount = _amount(claim, pick, resource, mapping)
            if amount is not None:
                known = found.get(resource)
                found[resource] = amount if known is None else _text(parse(known) + parse(amount), known)
    return found


def _amount(claim: ResourceClaim, pick: Pick, resource: str, mapping: NodeAllocatableMapping) -> QuantityText | None:
    """Compute the amount of a resource that one device takes from the node; None if the mapping refers to a capacity that the
    claim does not consume."""
    multiplier = mapping.allocation_multiplier
    if not mapping.capacity_key:
        return "0" if multiplier is None else multiplier
    if not pick.shares:
        why = f"ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in"
        where = f"claim {claim.key}, device {pick.site.id[2]}"
        raise PluginError(f"{where}: {why} NodeAllocatableResourceMappings for resource {resource}")
    share = pick.shares.get(mapping.capacity_key)
    if share is None or multiplier is None or parse(multiplier) == NANO:
        return None if share is None else share.text
    return _text(-(-share.nano * parse(multiplier) // NANO), share.text)


def _text(nano: int, like: QuantityText) -> str:
    """An amount as a quantity, with a binary suffix if the other one has one."""
    units, rest = divmod(nano, NANO)
    if rest:
        return f"{nano}n"
    return binary(units) if str(like).endswith("i") else str(units)


def write_taken(pod: Pod, taken: Sequence[NodeAllocatableClaimStatus] | None) -> Write:
    """Write what its devices take into the pod's status; None: nothing any more."""
    listed = None if taken is None else msgspec.to_builtins(list(taken))
    body = {"status": {"nodeAllocatableResourceClaimStatuses": listed}}
    return Write("PATCH", Pod, pod.name, pod.namespace, body, "status")


# ---- whether nodes have it


def judge(
    context: SchedulingContext,
    taken: list[NodeAllocatableClaimStatus],
    rows: RowArray,
    refusals: list[Rejection],
) -> Codes:
    """For each row 0 if it has room for the pod with what its devices take, or the code of a rejection in `refusals`, which
    grows."""
    pod = context.pod.with_device_resources(taken)
    demand = to_units(effective_requests(pod, FILTER))
    why_not = _refusal(pod, taken, demand)
    if why_not is not None:
        return np.full(len(rows), _code(why_not, refusals), np.int64)
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
    codes: Codes = np.array([_code(_insufficient(names, each), refusals) if each.any() else 0 for each in kinds.T])
    return codes[kind_of.reshape(-1)]


def _refusal(pod: Pod, taken: Sequence[NodeAllocatableClaimStatus], demand: dict[str, int]) -> Rejection | None:
    """Why the pod fits on no node with these devices."""
    for each in taken:
        if not each.containers:
            unused = "node-allocatable resource claim not referenced by any container within the pod"
            return final(f"claim {each.resource_claim_name}: {unused}")
    if pod.spec.resources is not None and pod.spec.resources.requests is not None:
        needed = to_units(effective_requests(pod, _WITHOUT_POD_LEVEL))
        for name in sorted(demand):
            if needed.get(name, 0) > demand[name]:
                cover = "to cover the aggregated container and node-allocatable DRA requests"
                return final(f"pod level request for {name} is insufficient {cover}")
    return None


def _insufficient(names: Sequence[str], kind: NDArray[np.bool_]) -> Rejection:
    reasons = [f"Insufficient {name}" for name, is_lacking in zip(names, kind[:-1], strict=True) if is_lacking]
    return final(*reasons) if kind[-1] else curable(*reasons)


def reject_sharing(
    context: SchedulingContext,
    claim: ResourceClaim,
    rows: RowArray,
    codes: Codes,
    can_be: NDArray[np.bool_],
    refusals: list[Rejection],
) -> None:
    """Reject rows on which another pod uses the claim, where that `can_be`: what its devices take would count twice.

    Only pods with a reservation, or that count on a pending allocation, are looked at: a claim gets its allocation together
    with the reservation of the pod in whose status it is.
    """
    users: dict[int, set[str]] = {}
    for pod_id in pods_using(context.cluster, claim):
        row = context.nodes.row_of_pod(pod_id)
        if row is not None and _uses(context, row, pod_id, claim):
            users.setdefault(row, set()).add(pod_id)
    for row, pods in users.items():
        if len(pods) > 1 or context.pod.id not in pods:
            what = "shared by multiple pods" if len(pods) > 1 else "is already used by another pod"
            refusal = final(f"node allocatable resource claim {claim.name} {what}")
            codes[(rows == row) & can_be] = _code(refusal, refusals)


def _uses(context: SchedulingContext, row: int, pod_id: str, claim: ResourceClaim) -> bool:
    pod = next((each for each in context.nodes.pods_on[row] if each.id == pod_id), None)
    taken = (pod.status.node_allocatable_resource_claim_statuses or ()) if pod is not None else ()
    return any(each.resource_claim_name == claim.name for each in taken)


def _code(refusal: Rejection, refusals: list[Rejection]) -> int:
    if refusal not in refusals:
        refusals.append(refusal)
    return REFUSED + refusals.index(refusal)
