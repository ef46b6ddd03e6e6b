"""The pod that a controller creates instead of one that is gone, and the claims that belong to it.

In an answer a pod and the one that replaces it are the same: the new pod has the old name, also where a real controller would
choose another, and so one sees where it moved.
"""

import msgspec

from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus
from mooring.model.well_known_labels import TOPOLOGY
from mooring.sim.reading.created_claims import ClaimSources, claims_for

_GENERATION = "~"
"""Stands between the uid of the first pod of a name and the number of its replacement. No uid of a server has it."""


def replacement(pod: Pod, number: int, created: str, name: str = "") -> Pod:
    """A new pod from the same template, without a node. `number` makes its uid unique; `name` is for one more pod."""
    first = pod.id.partition(_GENERATION)[0]
    uid = f"{first}{_GENERATION}{number}"
    if _is_as_created(pod):
        # Hot: with what is computed from the template, which the new pod has too: 4 µs instead of 40 µs.
        fresh = pod.with_node("").with_status(PodStatus(phase="Pending")).with_name(name or pod.name, uid)
        meta = fresh.metadata
    else:
        # The API server copies these labels from the node when a pod is bound; a new pod has none yet.
        labels = {key: value for key, value in pod.labels.items() if key not in TOPOLOGY}
        meta = msgspec.structs.replace(pod.metadata, name=name or pod.name, uid=uid, labels=labels)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        fresh = Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))
    meta.resource_version, meta.deletion_timestamp, meta.creation_timestamp = None, None, created
    return fresh


def _is_as_created(pod: Pod) -> bool:
    """Whether neither binding nor the kubelet has changed what the shape and the labels of the pod depend on."""
    status = pod.status
    taken = status.node_allocatable_resource_claim_statuses
    if status.resources is not None or status.allocated_resources is not None or taken is not None:
        return False
    containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    if any(each.resources is not None or each.allocated_resources is not None for each in containers):
        return False
    if any(condition.type == "PodResizePending" for condition in status.conditions or ()):
        return False
    return not any(key in pod.labels for key in TOPOLOGY)


def claims_with(pod: Pod, sources: ClaimSources) -> list[KubeObject]:
    """The claims that controllers create for a new pod, with uids of their own. Sets the pod's status to name them."""
    claims = claims_for(pod, sources)
    for claim in claims:
        claim.metadata.uid = f"{claim.key}{_GENERATION}{pod.id.rpartition(_GENERATION)[2]}"
    return claims


def volume_claims_of(pod: Pod) -> list[str]:
    """Keys of the claims of its ephemeral volumes, which are deleted with it."""
    return [f"{pod.namespace}/{pod.name}-{volume.name}" for volume in pod.spec.volumes or () if volume.ephemeral]
