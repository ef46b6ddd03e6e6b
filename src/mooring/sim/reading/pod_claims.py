"""The claims that controllers would make for a pod of a manifest: from resource claim templates and for ephemeral
volumes."""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.model.devices import ResourceClaim, ResourceClaimTemplate
from mooring.model.json_objects import JsonObject
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodClaimStatus
from mooring.model.storage import PersistentVolumeClaim
from mooring.rules.pod_claims import device_claim_for, templates_waited_for, volume_claim_for


def claims_of(pod: Pod, templates: Mapping[str, ResourceClaimTemplate]) -> list[KubeObject]:
    """The claims of a pod that has none yet; `templates` by key. The pod's status then names its resource claims."""
    if not (pod.spec.resource_claims or any(volume.ephemeral for volume in pod.spec.volumes or ())):
        return []
    plain = msgspec.to_builtins(pod)
    return [*_volume_claims(plain), *_device_claims(pod, plain, templates)]


def _volume_claims(pod: JsonObject) -> Iterator[PersistentVolumeClaim]:
    for volume in pod["spec"].get("volumes", ()):
        if "ephemeral" in volume:
            claim = msgspec.convert(volume_claim_for(pod, volume), PersistentVolumeClaim)
            claim.metadata.namespace = pod["metadata"]["namespace"]
            yield claim


def _device_claims(
    pod: Pod, plain: JsonObject, templates: Mapping[str, ResourceClaimTemplate]
) -> Iterator[ResourceClaim]:
    """A server would complete the names with characters that it draws; here they end where these would begin."""
    for entry, wanted in templates_waited_for(plain).items():
        template = templates.get(f"{pod.namespace}/{wanted}")
        if template is not None:
            claim = msgspec.convert(device_claim_for(plain, entry, msgspec.to_builtins(template)), ResourceClaim)
            meta = claim.metadata
            meta.namespace, meta.name, meta.generate_name = pod.namespace, (meta.generate_name or "").rstrip("-"), None
            status = PodClaimStatus(name=entry, resource_claim_name=meta.name)
            pod.status.resource_claim_statuses = [*(pod.status.resource_claim_statuses or ()), status]
            yield claim
