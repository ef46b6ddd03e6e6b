"""The pods of workloads: what the controller of each kind makes of its pod template.

Pure functions on plain JSON, for the embedded controllers and the simulation. The pods share parts with the template, so
callers must not change them in depth.
"""

import hashlib
import json
from collections.abc import Iterator

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.model.names import safe_encode
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE
from mooring.model.pod_spec import REQUIRED_TERMS

HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"
INDEX = "batch.kubernetes.io/job-completion-index"

_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_DAEMON_TAINTS = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
"""Taints of node.kubernetes.io/ that daemon pods tolerate: a node in trouble needs its daemons most of all."""


def template_hash(template: JsonObject, collisions: int = 0) -> str:
    """A name of ten letters for the content of a template: equal templates have equal names, in every run.

    `collisions` gives the same template another name, for the case that an object of the first name already exists.
    The digest is our own; upstream hashes Go's representation of the struct, which has no equivalent here.
    """
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    digest = hashlib.blake2b(f"{text}{collisions or ''}".encode(), digest_size=10).digest()
    return safe_encode(digest)


def owner_reference(resource: KindSpec, owner: JsonObject, is_waited_for: bool = True) -> JsonObject:
    """The reference by which `owner` controls an object. A foreground deletion of the owner waits for that object, unless
    `is_waited_for` is false."""
    meta = owner["metadata"]
    named = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": meta["name"],
        "uid": meta.get("uid", ""),
    }
    return {**named, "controller": True} | ({"blockOwnerDeletion": True} if is_waited_for else {})


def pod_of(resource: KindSpec, owner: JsonObject, template: JsonObject) -> JsonObject:
    """A pod from the template of a workload. The server completes its name (generateName)."""
    held = template.get("metadata", {})
    metadata: JsonObject = {
        "generateName": f"{owner['metadata']['name']}-",
        "ownerReferences": [owner_reference(resource, owner)],
    }
    metadata |= {key: held[key] for key in ("labels", "annotations", "finalizers") if held.get(key)}
    return {"metadata": metadata, "spec": template.get("spec", {})}


# ---- StatefulSets


def identified(stateful_set: JsonObject, pod: JsonObject, revision: str, ordinal: int) -> JsonObject:
    """The pod of a StatefulSet with the identity of its ordinal: name, labels, host name, volumes."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    metadata = {key: value for key, value in pod["metadata"].items() if key != "generateName"}
    identity = {
        REVISION_LABEL: revision,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    metadata |= {"name": name, "labels": {**metadata.get("labels", {}), **identity}}
    spec = {**pod["spec"], "hostname": name, "subdomain": stateful_set["spec"].get("serviceName", "")}
    volumes = _with_claims(stateful_set, spec.get("volumes", []), ordinal)
    if volumes:
        spec["volumes"] = volumes
    return {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value != ""}}


def claims_of(stateful_set: JsonObject, ordinal: int) -> Iterator[JsonObject]:
    """The claims that the pod of an ordinal needs. They have no owner: data stays when the pod is deleted."""
    labels = stateful_set["spec"].get("selector", {}).get("matchLabels", {})
    for template in stateful_set["spec"].get("volumeClaimTemplates", ()):
        held = template["metadata"]
        metadata: JsonObject = {"name": _claim_name(stateful_set, template, ordinal)}
        metadata["labels"] = {**held.get("labels", {}), **labels}
        if held.get("annotations"):
            metadata["annotations"] = held["annotations"]
        yield {"metadata": metadata, "spec": template.get("spec", {})}


def _claim_name(stateful_set: JsonObject, template: JsonObject, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


def _with_claims(stateful_set: JsonObject, volumes: list[JsonObject], ordinal: int) -> list[JsonObject]:
    """The volumes of the pod with those of the claim templates, which replace volumes of the same name."""
    own = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": _claim_name(stateful_set, template, ordinal)},
        }
        for template in stateful_set["spec"].get("volumeClaimTemplates", ())
    ]
    taken = {volume["name"] for volume in own}
    return [*(volume for volume in volumes if volume["name"] not in taken), *own]


# ---- DaemonSets


def meant_for(pod: JsonObject, node: str, digest: str) -> JsonObject:
    """The pod of a DaemonSet for one node.

    Parity: the requirement of the node replaces the template's required node affinity, which the controller has already
    evaluated when it chose the node. The scheduler still places the pod.
    """
    spec, metadata = pod["spec"], pod["metadata"]
    return {
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), REVISION_LABEL: digest}},
        "spec": {
            **spec,
            "affinity": affinity_to(spec.get("affinity", {}), node),
            "tolerations": daemon_tolerations(spec),
        },
    }


def affinity_to(affinity: JsonObject, node: str) -> JsonObject:
    """The affinity with the requirement of one node."""
    line = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [line]}]}
    return {**affinity, "nodeAffinity": {**affinity.get("nodeAffinity", {}), REQUIRED_TERMS: required}}


def daemon_tolerations(spec: JsonObject) -> list[JsonObject]:
    """The tolerations of the template, and those of every daemon that the template lacks."""
    troubles = _DAEMON_TAINTS + ((("network-unavailable", NO_SCHEDULE),) if spec.get("hostNetwork") else ())
    added = [{"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": effect} for k, effect in troubles]
    held = spec.get("tolerations", [])
    return [*held, *(line for line in added if line not in held)]


# ---- Jobs


def job_labels(name: str, uid: str) -> dict[str, str]:
    """The labels that the API server adds to the template of a new job, by which the job selects its pods.

    Each has an old name and one with a prefix. `uid` is empty for a job of a manifest, which no server has seen.
    """
    own = {"job-name": name} | ({"controller-uid": uid} if uid else {})
    return own | {f"batch.kubernetes.io/{key}": value for key, value in own.items()}


def with_index(pod: JsonObject, job_name: str, index: int) -> JsonObject:
    """The pod of an indexed job: its index is in the name, labels, annotations, host name and environment variables."""
    metadata, spec, text = pod["metadata"], pod["spec"], str(index)
    return {
        "metadata": {
            **metadata,
            "generateName": f"{job_name}-{index}-",
            "labels": {**metadata.get("labels", {}), INDEX: text},
            "annotations": {**metadata.get("annotations", {}), INDEX: text},
        },
        "spec": {
            **spec,
            "hostname": f"{job_name}-{index}",
            **{
                group: [_with_variable(container) for container in spec[group]]
                for group in ("initContainers", "containers")
                if group in spec
            },
        },
    }


def _with_variable(container: JsonObject) -> JsonObject:
    """The container with JOB_COMPLETION_INDEX, unless its author set that variable."""
    held = container.get("env", [])
    if any(variable["name"] == _INDEX_VARIABLE for variable in held):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}}
    return {**container, "env": [*held, {"name": _INDEX_VARIABLE, "valueFrom": source}]}
