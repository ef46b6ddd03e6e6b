"""The claims that controllers create for a pod or a pod group, and what they do with a claim for devices whose pods are
gone.

These are kube-controller-manager's rules (resourceclaim/controller.go, volume/ephemeral/controller.go), for the embedded
controllers and the simulation. The functions return new objects and change none.
"""

from collections.abc import Sequence

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.rules.workload_pods import owner_reference

GROUP_CLAIMS_GATE = "DRAWorkloadResourceClaims"
"""The gate with which pod groups have claims of their own."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""The annotation that names the entry of spec.resourceClaims that a claim was created for."""
_LONGEST_STEM = 57
"""A name has at most 63 characters, of which the server adds a hyphen and five random ones."""


def volume_claim_for(pod: JsonObject, volume: JsonObject) -> JsonObject:
    """The claim of a generic ephemeral volume, from the template in the pod. The pod owns the claim, which is deleted
    with it. Its name is fixed: the kubelet and the scheduler look for `<pod>-<volume>`."""
    template = volume["ephemeral"].get("volumeClaimTemplate") or {}
    metadata = {
        **_given(template),
        "name": f"{pod['metadata']['name']}-{volume['name']}",
        "ownerReferences": [owner_reference(POD, pod)],
    }
    return {"metadata": metadata, "spec": template.get("spec", {})}


def templates_waited_for(holder: JsonObject) -> dict[str, str]:
    """Entries of a pod or a group that lack a claim, as {name of the entry: name of its template}."""
    entries = holder.get("spec", {}).get("resourceClaims")
    if not entries:
        return {}
    made = {status["name"] for status in holder.get("status", {}).get("resourceClaimStatuses", ())}
    templates = ((entry.get("name", ""), entry.get("resourceClaimTemplateName")) for entry in entries)
    return {name: template for name, template in templates if template and name not in made}


def group_name(pod: JsonObject) -> str:
    """The PodGroup that the pod is in; empty: none."""
    name: str = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""
    return name


def is_claim_of(group: JsonObject | None, pod: JsonObject, entry: str) -> bool:
    """Whether an entry of the pod is one of its group: name and source are the same."""
    wanted = next((_source(each) for each in pod["spec"].get("resourceClaims", ()) if each["name"] == entry), None)
    return group is not None and wanted in [_source(each) for each in group.get("spec", {}).get("resourceClaims", ())]


def _source(entry: JsonObject) -> tuple[str, str | None, str | None]:
    return entry.get("name", ""), entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName")


def device_claim_for(holder: JsonObject, entry: str, template: JsonObject, kind: KindSpec = POD) -> JsonObject:
    """The claim for an entry of a pod or a group, from a ResourceClaimTemplate. The server completes its name, and the
    controller records that name in status.resourceClaimStatuses of the holder."""
    given = _given(template["spec"])
    metadata = {
        "generateName": _stem(holder["metadata"]["name"], entry),
        "labels": given.get("labels", {}),
        "annotations": {**given.get("annotations", {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [owner_reference(kind, holder, is_waited_for=False)],
    }
    return {"metadata": metadata, "spec": template["spec"].get("spec", {})}


def _stem(pod: str, entry: str) -> str:
    """The generateName. Long names are both cut in proportion to their lengths, so that both stay recognisable."""
    stem = f"{pod}-{entry}-"
    if len(stem) <= _LONGEST_STEM:
        return stem
    pod_part, entry_part = (name[: len(name) * _LONGEST_STEM // len(stem)] for name in (pod, entry))
    return f"{pod_part}-{entry_part}"


def _given(template: JsonObject) -> JsonObject:
    """The labels and annotations of a template: the only metadata that an object takes from it."""
    held = template.get("metadata") or {}
    return {key: dict(held[key]) for key in ("labels", "annotations") if held.get(key)}


def owning_pod(claim: JsonObject) -> tuple[str, str] | None:
    """Name and uid of the pod that a claim was created for; None if a user created it, so that no controller deletes it."""
    for owner in claim["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == "Pod" and owner.get("apiVersion", "v1") == "v1":
            return owner["name"], owner.get("uid", "")
    return None


def is_group_user(user: JsonObject) -> bool:
    """Whether an entry of reservedFor is a PodGroup."""
    return user.get("apiGroup") == POD_GROUP.group and user.get("resource") == POD_GROUP.plural


def with_users(status: JsonObject, users: Sequence[JsonObject]) -> JsonObject:
    """The status of a claim for devices with these users left in reservedFor. Without any, the devices become free."""
    left = {name: value for name, value in status.items() if name != "reservedFor"}
    if users:
        return {**left, "reservedFor": list(users)}
    return {name: value for name, value in left.items() if name not in ("allocation", "devices")}
