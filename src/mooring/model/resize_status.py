"""The part of a pod's status that says what the pod holds on its node: resources in force, resizes, what devices take."""

from mooring.model.pod_spec import NodeAllocatableClaimStatus, PodStatus

NO_STATUS = PodStatus()
_Taken = NodeAllocatableClaimStatus


def resize_status(status: PodStatus) -> PodStatus:
    """The part of a status that changes what a pod holds: resources in force, and a resize that is pending. Everything
    else (phase, IPs, readiness) differs between pods of a template and must not be part of the shape."""
    taken = status.node_allocatable_resource_claim_statuses
    if not (
        status.conditions or status.container_statuses or status.init_container_statuses or status.resources or taken
    ):
        return NO_STATUS  # Hot: pods that are yet to be placed
    pending = [c for c in status.conditions or () if c.type == "PodResizePending"]
    containers = [c for c in status.container_statuses or () if c.resources is not None]
    sidecars = [c for c in status.init_container_statuses or () if c.resources is not None]
    if not (pending or containers or sidecars or taken) and status.resources is None:
        return NO_STATUS
    return PodStatus(
        conditions=pending or None,
        container_statuses=containers or None,
        init_container_statuses=sidecars or None,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
        node_allocatable_resource_claim_statuses=[_Taken(resources=each.resources) for each in taken]
        if taken
        else None,
    )
