"""The claims that controllers would make for a pod: from resource claim templates and for ephemeral volumes."""

from collections.abc import Mapping

import msgspec

from mooring.model.devices import ResourceClaim, ResourceClaimTemplate
from mooring.model.meta import KubeObject, ObjectMeta, OwnerReference
from mooring.model.pod import ClaimTemplate, Pod, PodClaimStatus
from mooring.model.storage import PersistentVolumeClaim


def claims_of(pod: Pod, templates: Mapping[str, ResourceClaimTemplate]) -> list[KubeObject]:
    """The claims of a pod that has none yet; `templates` by key. The pod's status then names its resource claims."""
    return [*_volume_claims(pod), *_resource_claims(pod, templates)]


def _volume_claims(pod: Pod) -> list[PersistentVolumeClaim]:
    made = []
    for volume in pod.spec.volumes or ():
        if volume.ephemeral is not None:
            template = volume.ephemeral.volume_claim_template or ClaimTemplate()
            meta = _owned_by(pod, f"{pod.name}-{volume.name}", template.metadata)
            made.append(PersistentVolumeClaim(metadata=meta, spec=msgspec.structs.replace(template.spec)))
    return made


def _resource_claims(pod: Pod, templates: Mapping[str, ResourceClaimTemplate]) -> list[ResourceClaim]:
    made = []
    known = {status.name for status in pod.status.resource_claim_statuses or ()}
    for entry in pod.spec.resource_claims or ():
        template = templates.get(f"{pod.namespace}/{entry.resource_claim_template_name}")
        if template is None or entry.name in known:
            continue
        meta = _owned_by(pod, f"{pod.name}-{entry.name}", template.spec.metadata)
        made.append(ResourceClaim(metadata=meta, spec=template.spec.spec))
        status = PodClaimStatus(name=entry.name, resource_claim_name=meta.name)
        pod.status.resource_claim_statuses = [*(pod.status.resource_claim_statuses or ()), status]
    return made


def _owned_by(pod: Pod, name: str, template: ObjectMeta) -> ObjectMeta:
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    return ObjectMeta(
        name=name,
        namespace=pod.namespace,
        labels={**(template.labels or {})} or None,
        annotations={**(template.annotations or {})} or None,
        owner_references=[owner],
    )
