"""The claims that controllers make for a pod, and what becomes of claims for devices when their users are gone.

kube-controller-manager's rules (resourceclaim/controller.go, volume/ephemeral/controller.go).
"""

from collections.abc import Sequence

from mooring.model.json_objects import JsonObject

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""Which entry of spec.resourceClaims a claim was made for."""
_LONGEST_STEM = 57
"""So that a hyphen and five random characters still make a name of 63."""


def volume_claim_for(pod: JsonObject, volume: JsonObject) -> JsonObject:
    """The claim of a generic ephemeral volume: the pod brings the template, and owns the claim."""
    template = volume["ephemeral"].get("volumeClaimTemplate") or {}
    metadata = {
        **_given(template),
        "name": f"{pod['metadata']['name']}-{volume['name']}",
        "ownerReferences": [{**_owner(pod), "blockOwnerDeletion": True}],
    }
    return {"metadata": metadata, "spec": template.get("spec", {})}


def templates_waited_for(pod: JsonObject) -> dict[str, str]:
    """Entries of the pod that no claim was made for yet: the name of the entry, and of its template."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return {}
    made = {status["name"] for status in pod.get("status", {}).get("resourceClaimStatuses", ())}
    templates = ((entry["name"], entry.get("resourceClaimTemplateName")) for entry in entries)
    return {name: template for name, template in templates if template and name not in made}


def device_claim_for(pod: JsonObject, entry: str, template: JsonObject) -> JsonObject:
    """The claim for an entry of the pod, made from a template, with a name that is still to be completed."""
    given = _given(template["spec"])
    metadata = {
        "generateName": _stem(pod["metadata"]["name"], entry),
        "labels": given.get("labels", {}),
        "annotations": {**given.get("annotations", {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [_owner(pod)],
    }
    return {"metadata": metadata, "spec": template["spec"].get("spec", {})}


def _stem(pod: str, entry: str) -> str:
    """Of two long names as much of each as their lengths are to each other."""
    stem = f"{pod}-{entry}-"
    if len(stem) <= _LONGEST_STEM:
        return stem
    pod_part, entry_part = (name[: len(name) * _LONGEST_STEM // len(stem)] for name in (pod, entry))
    return f"{pod_part}-{entry_part}"


def _given(template: JsonObject) -> JsonObject:
    held = template.get("metadata") or {}
    return {key: dict(held[key]) for key in ("labels", "annotations") if held.get(key)}


def _owner(pod: JsonObject) -> JsonObject:
    meta = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta.get("uid", ""), "controller": True}


def owning_pod(claim: JsonObject) -> tuple[str, str] | None:
    """Name and uid of the pod that a claim was made for; None: it was made for none, and stays."""
    for owner in claim["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == "Pod" and owner.get("apiVersion", "v1") == "v1":
            return owner["name"], owner.get("uid", "")
    return None


def with_users(status: JsonObject, users: Sequence[JsonObject]) -> JsonObject:
    """The status of a claim for devices that some of its users left: the last one gives the devices back."""
    left = {name: value for name, value in status.items() if name != "reservedFor"}
    if users:
        return {**left, "reservedFor": list(users)}
    return {name: value for name, value in left.items() if name not in ("allocation", "devices")}
