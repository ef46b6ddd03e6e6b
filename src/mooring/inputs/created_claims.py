"""The claims that controllers would create for the pods and pod groups of manifests.

Names are those that a server would generate, without random characters, so that two runs have the same names. The rules are
those of the embedded cluster's controllers (`rules/pod_claims.py`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.model.devices import ResourceClaim, ResourceClaimTemplate
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodClaimStatus
from mooring.model.storage import PersistentVolumeClaim
from mooring.model.workloads import GroupClaimStatus, PodGroup
from mooring.rules.pod_claims import (
    GROUP_CLAIMS_GATE,
    device_claim_for,
    is_claim_of,
    templates_waited_for,
    volume_claim_for,
)


@dataclass(frozen=True, slots=True)
class ClaimSources:
    """What decides which claims a pod gets."""

    templates: Mapping[str, ResourceClaimTemplate]
    """By key."""
    groups: Mapping[str, PodGroup] = field(default_factory=dict)
    """By key: the groups that may have claims of their own; none without the gate DRAWorkloadResourceClaims."""

    @classmethod
    def of(cls, objects: Iterable[KubeObject], gates: Mapping[str, bool] | None) -> "ClaimSources":
        """Those of a cluster with these objects and feature gates."""
        held = list(objects)
        has_groups = (gates or {}).get(GROUP_CLAIMS_GATE, False)
        return cls(
            {item.key: item for item in held if isinstance(item, ResourceClaimTemplate)},
            {item.key: item for item in held if has_groups and isinstance(item, PodGroup)},
        )


def claims_for(pod: Pod, sources: ClaimSources) -> list[KubeObject]:
    """The claims for a pod that has none yet. Sets the pod's status to name its resource claims and those of its group."""
    if not (pod.spec.resource_claims or any(volume.ephemeral for volume in pod.spec.volumes or ())):
        return []
    plain = msgspec.to_builtins(pod)
    own, made = _device_claims(plain, _named_of_group(pod, plain, sources), sources.templates, POD)
    if made:
        named = [PodClaimStatus(name=entry, resource_claim_name=name) for entry, name in made]
        pod.status.resource_claim_statuses = [*(pod.status.resource_claim_statuses or ()), *named]
    return [*_volume_claims(plain), *own]


def group_claims_for(group: PodGroup, sources: ClaimSources) -> list[ResourceClaim]:
    """The claims for a group that has none yet; none without the gate. Sets the group's status to name them."""
    if group.key not in sources.groups or not group.spec.resource_claims:
        return []
    claims, made = _device_claims(msgspec.to_builtins(group), {}, sources.templates, POD_GROUP)
    if made:
        named = [GroupClaimStatus(name=entry, resource_claim_name=name) for entry, name in made]
        group.status.resource_claim_statuses = [*(group.status.resource_claim_statuses or ()), *named]
    return claims


def _named_of_group(pod: Pod, plain: JsonObject, sources: ClaimSources) -> dict[str, str | None]:
    """The entries of the pod that are those of its group, with the claim of the group; None: the group has none yet."""
    group = sources.groups.get(pod.group_key or "")
    if group is None:
        return {}
    written = msgspec.to_builtins(group)
    made = {each.name: each.resource_claim_name for each in group.status.resource_claim_statuses or ()}
    entries = (entry.name for entry in pod.spec.resource_claims or ())
    return {entry: made.get(entry) for entry in entries if is_claim_of(written, plain, entry)}


def _volume_claims(pod: JsonObject) -> Iterator[PersistentVolumeClaim]:
    for volume in pod["spec"].get("volumes", ()):
        if "ephemeral" in volume:
            claim = msgspec.convert(volume_claim_for(pod, volume), PersistentVolumeClaim)
            claim.metadata.namespace = pod["metadata"]["namespace"]
            yield claim


def _device_claims(
    holder: JsonObject,
    of_group: Mapping[str, str | None],
    templates: Mapping[str, ResourceClaimTemplate],
    kind: KindSpec,
) -> tuple[list[ResourceClaim], list[tuple[str, str]]]:
    """The claims of a pod or a group, and (entry, claim) for its status. Those of its group are only named."""
    claims: list[ResourceClaim] = []
    named: list[tuple[str, str]] = []
    for entry, wanted in templates_waited_for(holder).items():
        template = templates.get(f"{holder['metadata']['namespace']}/{wanted}")
        shared = of_group.get(entry)
        if shared is not None:
            named.append((entry, shared))
        elif template is not None and entry not in of_group:
            claim = _from_template(holder, entry, template, kind)
            claims.append(claim)
            named.append((entry, claim.name))
    return claims, named


def _from_template(holder: JsonObject, entry: str, template: ResourceClaimTemplate, kind: KindSpec) -> ResourceClaim:
    """Its name is the generateName without random characters."""
    claim = msgspec.convert(device_claim_for(holder, entry, msgspec.to_builtins(template), kind), ResourceClaim)
    meta = claim.metadata
    meta.namespace, meta.name = holder["metadata"]["namespace"], (meta.generate_name or "").rstrip("-")
    meta.generate_name = None
    return claim
