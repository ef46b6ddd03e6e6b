"""Claims by themselves, before their devices are sought: what no node can cure, where the devices of an allocated claim can
be used, and what its alternatives are worth."""

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.model.devices import DeviceClass, ResourceClaim
from mooring.model.selectors import NodeMatcher, compile_node_selector
from mooring.plugins.devices.claims import ClaimState
from mooring.plugins.devices.demand import DeviceFeatures


def examine(cluster: Cluster, claim: ResourceClaim, is_extended: bool, features: DeviceFeatures) -> Rejection | None:
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
        elif not features.prioritized_list:
            return final(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
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
