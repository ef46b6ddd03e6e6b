"""The claims that controllers create for a pod, and what they do with a claim for devices whose pods are gone.

These are kube-controller-manager's rules (resourceclaim/controller.go, volume/ephemeral/controller.go), for the embedded
controllers and the simulation. The functions return new objects and change none.
"""

from collections.abc import Sequence

from mooring.model.json_objects import JsonObject

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
        "ownerReferences": [{**_owner(pod), "blockOwnerDeletion": True}],
    }
    return {"metadata": metadata, "spec": template.get("spec", {})}


def templates_waited_for(pod: JsonObject) -> dict[str, str]:
    """Entries of the pod that lack a claim, as {name of the entry: name of its template}."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return {}
    made = {status["name"] for status in pod.get("status", {}).get("resourceClaimStatuses", ())}
    templates = ((entry["name"], entry.get("resourceClaimTemplateName")) for entry in entries)
    return {name: template for name, template in templates if template and name not in made}


def device_claim_for(pod: JsonObject, entry: str, template: JsonObject) -> JsonObject:
    """The claim for an entry of the pod, from a ResourceClaimTemplate. The server completes its name, and the controller
    records that name in status.resourceClaimStatuses of the pod."""
    given = _given(template["spec"])
    metadata = {
        "generateName": _stem(pod["metadata"]["name"], entry),
        "labels": given.get("labels", {}),
        "annotations": {**given.get("annotations", {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [_owner(pod)],
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


def _owner(pod: JsonObject) -> JsonObject:
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta.get("uid", ""), "controller": True}


def owning_pod(claim: JsonObject) -> tuple[str, str] | None:
    """Name and uid of the pod that a claim was created for; None if a user created it, so that no controller deletes it."""
    for owner in claim["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == "Pod" and owner.get("apiVersion", "v1") == "v1":
            return owner["name"], owner.get("uid", "")
    return None


def with_users(status: JsonObject, users: Sequence[JsonObject]) -> JsonObject:
    """The status of a claim for devices with these pods left in reservedFor. Without any, the devices become free."""
    left = {name: value for name, value in status.items() if name != "reservedFor"}
    if users:
        return {**left, "reservedFor": list(users)}
    return {name: value for name, value in left.items() if name not in ("allocation", "devices")}
