"""Rules about the claims of a pod, and about claims that members of a pod group share.

About the claims of a pod by themselves: what no node can cure, where the devices that claims have already can be used,
and what their alternatives are worth.

In one attempt for a group, the first member that needs a claim gets devices for it, and the members that follow count
on the same allocation, although no claim says so yet. Whoever binds first writes it.

With the gate DRAWorkloadResourceClaims a group has claims of its own. They are reserved for the group instead of its
pods, so they keep their devices until the group ends, and any number of pods can use them.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.claims.claim_ledger import claim_id
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.match import match_nodes
from mooring.cluster.pods.pod_groups import GroupCycle, GroupName
from mooring.framework.contract.context import DEVICE_RESOURCES, SchedulingContext
from mooring.framework.contract.group_points import group_not_found
from mooring.framework.contract.points import Codes
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.model.devices import Allocation, ClaimConsumer, DeviceClass, ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodResourceClaim
from mooring.model.selectors import NodeMatcher, aggregated, compile_node_selector
from mooring.model.workloads import PodGroup
from mooring.plugins.devices.allocation import skips_operations
from mooring.plugins.devices.device_claims import ClaimState, Unresolved, entries_of, is_reserved_for
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
        raise PluginError(aggregated(faults))
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


# ---- allocations on their way

_BEGUN = "mooring/claims-begun"
"""In the state of a group cycle: the ids of the claims for which the cycle found devices."""


def pending_in_group(context: SchedulingContext, claim: ResourceClaim) -> ResourceClaim | None:
    """The claim with the allocation that another member of the pod's group is about to give it, in the same attempt for
    the group; None: there is none, or it is of another attempt."""
    cycle = _cycle(context)
    if cycle is None or claim_id(claim) not in cycle.state.get(_BEGUN, ()):
        return None
    return context.cluster.claims.pending(claim)


def offer_to_group(context: SchedulingContext, claim: ResourceClaim) -> bool:
    """Let the members that follow count on the allocation that is now pending. False: the pod is tried alone."""
    cycle = _cycle(context)
    if cycle is None:
        return False
    cycle.state.setdefault(_BEGUN, set()).add(claim_id(claim))
    return context.cluster.claims.share(claim_id(claim), context.pod.id)


def count_on(context: SchedulingContext, claim: ResourceClaim) -> Allocation:
    """The allocation that the group shares: it stays pending for this pod as well. Raises PluginError."""
    pending = pending_in_group(context, claim)
    if pending is None or not context.cluster.claims.share(claim_id(claim), context.pod.id):
        raise PluginError("claim allocation not found for node")
    assert pending.status.allocation is not None, "pending claims have allocations"
    return pending.status.allocation


def _cycle(context: SchedulingContext) -> GroupCycle | None:
    groups = context.cluster.groups
    return groups.cycle_of(context.pod) if groups is not None else None


# ---- claims of groups


def group_consumers(pod: Pod, cluster: Cluster) -> dict[int, ClaimConsumer]:
    """The places of the pod's claims that are claims of its group, with the group's entry for reservedFor.

    Parity: an entry of the pod is the group's if name and source are the same, even if both have a claim. Raises
    Unresolved.
    """
    group = _group_of(pod, cluster)
    if group is None or not group.spec.resource_claims:
        return {}
    entries = {entry.name: entry for entry in pod.spec.resource_claims or ()}
    consumer = ClaimConsumer(POD_GROUP.group, POD_GROUP.plural, group.name, group.uid)
    names = (name for name, _ in entries_of(pod, cluster.claims))
    return {index: consumer for index, name in enumerate(names) if _has_claim(group, entries[name])}


def _group_of(pod: Pod, cluster: Cluster) -> PodGroup | None:
    """The group of the pod, where groups may have claims; None: it has none. Raises Unresolved if it does not exist."""
    if pod.group_key is None or not cluster.claims.has_group_claims:
        return None
    group = cluster.pod_group(pod.group_key)
    if group is None:
        raise Unresolved(group_not_found(GroupName(pod.group_key)))
    return group


def _has_claim(group: PodGroup, entry: PodResourceClaim) -> bool:
    """Whether the pod group declares the same claim, by name and by source. Then the pods of the group share it."""
    for claim in group.spec.resource_claims or ():
        if claim.resource_claim_name is None and claim.resource_claim_template_name is None:
            raise Unresolved(f"PodGroup {group.key} claim {claim.name}: none of the supported fields are set")
        if (claim.name, claim.resource_claim_name, claim.resource_claim_template_name) == (
            *(entry.name, entry.resource_claim_name, entry.resource_claim_template_name),
        ):
            return True
    return False


def idle_group_claims(pod: Pod, cluster: Cluster) -> Iterator[tuple[ResourceClaim, str]]:
    """Claims that are reserved for the group of the pod although no member has a node, with the uid of the group. An
    attempt for the group does not count the members that it has placed. Raises Unresolved."""
    group, groups = _group_of(pod, cluster), cluster.groups
    if group is None or groups is None:
        return
    cycle = groups.cycle_of(pod)
    if cycle.scheduled_before[group.key] if cycle is not None else groups.scheduled(group.key):
        return
    for entry in group.spec.resource_claims or ():
        claim = _claim_of_group(group, entry, cluster)
        if claim is not None and claim.status.allocation is not None and is_reserved_for(claim, pod, True):
            yield claim, group.uid


def _claim_of_group(group: PodGroup, entry: PodResourceClaim, cluster: Cluster) -> ResourceClaim | None:
    """The claim that the group names, or that was made for it from a template; None: it has none."""
    name, made = entry.resource_claim_name, None
    if name is None:
        if entry.resource_claim_template_name is None:
            where = f"PodGroup {group.key}, spec.resourceClaim {entry.name}"
            raise Unresolved(f"{where}: none of the supported fields are set")
        made = next((each for each in group.status.resource_claim_statuses or () if each.name == entry.name), None)
        if made is None:
            raise Unresolved(f"PodGroup {group.key}: ResourceClaim not created yet")
        name = made.resource_claim_name
    if name is None:
        return None
    claim = cluster.claims.get(f"{group.namespace}/{name}")
    if claim is None:
        raise Unresolved(f'could not find ResourceClaim "{group.namespace}/{name}"')
    owner = claim.controller()
    return claim if made is None or (owner is not None and owner.uid == group.uid) else None
