"""The pods of a DaemonSet: each is meant for one node, and says so before it is there."""

from typing import Any

from mooring.controllers.workloads.daemon_nodes import daemon_tolerations
from mooring.controllers.workloads.revisions import REVISION_LABEL
from mooring.model.json_objects import JsonObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def meant_for(pod: JsonObject, node: str, digest: str) -> JsonObject:
    """A pod of the template for a node; that requirement replaces any other that the template has of nodes."""
    spec, metadata = pod["spec"], pod["metadata"]
    affinity = spec.get("affinity", {})
    line = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [line]}]}
    return {
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), REVISION_LABEL: digest}},
        "spec": {
            **spec,
            "affinity": {**affinity, "nodeAffinity": {**affinity.get("nodeAffinity", {}), _REQUIRED: required}},
            "tolerations": daemon_tolerations(spec),
        },
    }


def node_of(pod: JsonObject) -> str:
    """Where the pod is, or is meant to be; empty: it says nothing of it."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required: Any = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {})
    for term in required.get("nodeSelectorTerms", ()):
        for line in term.get("matchFields", ()):
            if line["key"] == "metadata.name" and line["operator"] == "In" and len(line["values"]) == 1:
                return str(line["values"][0])
    return ""


def is_updated(pod: JsonObject, digest: str) -> bool:
    return bool(pod["metadata"].get("labels", {}).get(REVISION_LABEL) == digest)
