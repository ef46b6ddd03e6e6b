"""The pods of a DaemonSet: each is meant for one node, and says so before it is there."""

from typing import Any

from mooring.model.json_objects import JsonObject
from mooring.rules.workload_pods import REVISION_LABEL

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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
