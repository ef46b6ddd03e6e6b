"""The pods of a StatefulSet have names that stay: `<set>-<ordinal>`, and with them claims and labels."""

import re

from mooring.model.json_objects import JsonObject
from mooring.rules.workload_pods import REVISION_LABEL

_NAME = re.compile(r"(.*)-([0-9]+)")


def ordinal_of(stateful_set: JsonObject, pod: JsonObject) -> int | None:
    """None: by its name the pod is not one of the set's."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    if found is None or found.group(1) != stateful_set["metadata"]["name"]:
        return None
    return int(found.group(2))


def ordinals_of(stateful_set: JsonObject) -> range:
    """Of the pods that there should be."""
    start = stateful_set["spec"].get("ordinals", {}).get("start", 0)
    return range(start, start + stateful_set["spec"]["replicas"])


def revision_of(pod: JsonObject) -> str:
    name: str = pod["metadata"].get("labels", {}).get(REVISION_LABEL, "")
    return name
