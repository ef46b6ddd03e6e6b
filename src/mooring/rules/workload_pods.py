"""The pods of workloads: what the controller of each kind makes of its pod template, and on which nodes the controller
of a DaemonSet wants a pod.

Pure functions on plain JSON, for the embedded controllers and the simulation. The pods share parts with the template,
so callers must not change them in depth.

The controller of a DaemonSet decides before the scheduler does, by the rules of node affinity and taints; daemon pods
tolerate the taints of troubled nodes. Manifests, what-if questions and the embedded controller go by these rules.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.model.names import safe_encode
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, Taint, tolerates_hard
from mooring.model.pod import Pod
from mooring.model.pod_spec import REQUIRED_TERMS, NodeSelector, Toleration
from mooring.model.selectors import compile_node_selector

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


DAEMON_SET = "DaemonSet"


class NodeVerdict(NamedTuple):
    """Whether a DaemonSet wants a pod on the node, and if not, whether one that is there may stay."""

    runs: bool
    stays: bool


_NEITHER = NodeVerdict(False, False)


class DaemonNodes:
    """Judges nodes for the spec of one pod template."""

    def __init__(self, spec: JsonObject, compares: bool = True) -> None:
        """`compares` is the gate of the operators Lt and Gt in tolerations. Manifests have them only where the gate is on:
        admission refuses others."""
        self._spec, self._compares = spec, compares
        self._tolerations = msgspec.convert(daemon_tolerations(spec), list[Toleration])
        required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED_TERMS)
        self._matcher = compile_node_selector(msgspec.convert(required, NodeSelector)) if required else None

    def verdict(self, name: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> NodeVerdict:
        """Node name, selector and affinity must match. A taint NoSchedule keeps new pods away; NoExecute also evicts."""
        if (self._spec.get("nodeName") or name) != name:
            return _NEITHER
        if any(labels.get(key) != value for key, value in self._spec.get("nodeSelector", {}).items()):
            return _NEITHER
        if self._matcher is not None and not self._matcher.matches(name, labels):
            return _NEITHER
        if tolerates_hard(self._tolerations, taints, self._compares):
            return NodeVerdict(True, True)
        evicting = [taint for taint in taints if taint.effect == NO_EXECUTE]
        return NodeVerdict(False, tolerates_hard(self._tolerations, evicting, self._compares))


def is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet controls the pod."""
    controller = pod.controller()
    return controller is not None and controller.kind == DAEMON_SET


def node_of(pod: JsonObject) -> str:
    """The node that a daemon pod is on, or is meant for by its affinity before it is scheduled; empty: neither."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required: Any = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED_TERMS, {})
    for term in required.get("nodeSelectorTerms", ()):
        for line in term.get("matchFields", ()):
            if line["key"] == "metadata.name" and line["operator"] == "In" and len(line["values"]) == 1:
                return str(line["values"][0])
    return ""
