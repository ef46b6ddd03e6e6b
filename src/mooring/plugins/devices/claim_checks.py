"""Claims of a pod by themselves: what no node can cure, where the devices that claims have already can be used, and what
their alternatives are worth."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.match import match_nodes
from mooring.framework.contract.context import DEVICE_RESOURCES, SchedulingContext
from mooring.framework.contract.points import Codes
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.model.devices import DeviceClass, ResourceClaim
from mooring.model.selectors import NodeMatcher, compile_node_selector
from mooring.plugins.devices.allocation import skips_operations
from mooring.plugins.devices.device_claims import ClaimState
from mooring.plugins.devices.node_groups import OPTIONAL_OPERATIONS, declares_operations
from mooring.plugins.devices.node_resources import code_of, sharing_refusal

RowArray = NDArray[np.intp]


def examine(cluster: Cluster, claim: ResourceClaim, is_extended: bool) -> Rejection | None:
    """Why a claim cannot be allocated anywhere, if that is so. An allocated claim, and the extended one, need no
    check."""
    if claim.status.allocation is not None:
        return None
    if cluster.claims.pending(claim) is not None:
        return final(f"resource claim {claim.key} is in the process of being allocated")
    for request in claim.spec.devices.requests or () if not is_extended else ():
        where = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            asked = [(request.name, request.exactly.device_class_name)]
        elif not request.first_available:
            return final(f"{where}: unknown request type")
        else:
            subs = request.first_available
            asked = [(f"{request.name}/{sub.name}", sub.device_class_name) for sub in subs]
        for name, class_name in asked:
            if not class_name:
                raise PluginError(f"request {name}: unsupported request type")
            if class_name not in cluster.objects[DeviceClass]:
                return final(f"request {name}: device class {class_name} does not exist")
    return None


def reach_of(claim: ResourceClaim) -> NodeMatcher | None:
    """The nodes on which the devices of an allocated claim can be used; None: on all."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    matcher = compile_node_selector(allocation.node_selector)
    faults = matcher.faults()
    if faults:
        raise PluginError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return matcher


def settled_score(state: ClaimState) -> int:
    """The score of claims that have their devices already, or share those of their group, by the alternatives in their
    results."""
    total = 0
    for index, claim in enumerate(state.claims):
        allocation = state.shared.get(index, claim).status.allocation
        given = {each.request for each in allocation.devices.results or ()} if allocation is not None else set()
        for request in claim.spec.devices.requests or () if given else ():
            for i, sub in enumerate(request.first_available or () if request.exactly is None else ()):
                total += (8 - i) * (f"{request.name}/{sub.name}" in given)
    return total


def check_settled(
    context: SchedulingContext,
    state: ClaimState,
    rows: RowArray,
    codes: Codes,
    is_given_up: Callable[[ResourceClaim], bool],
) -> dict[int, NDArray[np.bool_]]:
    """Claims that have their devices, or are about to get those that the pod's group shares, must be usable on the node.
    Returns the rows on which each is not; PostFilter may free those that are allocated.

    Parity: a claim that cannot be shared rejects its nodes before devices are sought, and so does an allocation of the group
    that needs another kubelet; a claim that is not usable rejects them at the end.
    """
    standing = {}
    is_asked = any(map(skips_operations, (*state.claims, *state.shared.values())))
    able = declares_operations(context.cluster.nodes, rows) if is_asked else np.ones(len(rows), np.bool_)
    for index, claim in enumerate(state.claims):
        is_shared = index in state.shared
        if claim.status.allocation is None and not is_shared:
            continue
        matcher, out = state.reach[index], np.zeros(len(rows), np.bool_)
        if matcher is not None:
            out = ~match_nodes(context.cluster.nodes, matcher, rows)
        if not is_shared and skips_operations(claim):
            out |= ~able
        if not is_shared and is_given_up(claim):
            out[:] = True
        standing[index] = out
        if context.state.find(DEVICE_RESOURCES) is not None:
            refusal = sharing_refusal(context, state.shared.get(index, claim), is_shared)
            if refusal is not None:
                codes[~out & (codes == 0)] = code_of(refusal, state.refusals)
    for claim in state.shared.values():
        lacking = ~able & (codes == 0)
        if skips_operations(claim) and lacking.any():
            why = f"allocation requires {OPTIONAL_OPERATIONS} feature on the node"
            codes[lacking] = code_of(final(f"resource claim {claim.key} {why}"), state.refusals)
    return standing
