"""Claims that members of a pod group share.

In one attempt for a group, the first member that needs a claim gets devices for it, and the members that follow count on
the same allocation, although no claim says so yet. Whoever binds first writes it.

With the gate DRAWorkloadResourceClaims a group has claims of its own. They are reserved for the group instead of its pods,
so they keep their devices until the group ends, and any number of pods can use them.
"""

from collections.abc import Iterator

from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.claims.claim_ledger import claim_id
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import GroupCycle, GroupName
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import group_not_found
from mooring.framework.contract.status import PluginError
from mooring.model.devices import Allocation, ClaimConsumer, ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodResourceClaim
from mooring.model.workloads import PodGroup
from mooring.plugins.devices.device_claims import Unresolved, entries_of, is_reserved_for

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
