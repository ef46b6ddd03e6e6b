"""The pods of a StatefulSet have names that stay: `<set>-<ordinal>`, and with them claims and labels."""

import re

from mooring.controllers.workloads.revisions import REVISION_LABEL, name_of
from mooring.model.json_objects import JsonObject

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


def identified(stateful_set: JsonObject, pod: JsonObject, revision: JsonObject, ordinal: int) -> JsonObject:
    """A pod of the template with the identity of its ordinal: name, labels, host name, volumes."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    metadata = {key: value for key, value in pod["metadata"].items() if key != "generateName"}
    identity = {
        REVISION_LABEL: name_of(revision),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    metadata |= {"name": name, "labels": {**metadata.get("labels", {}), **identity}}
    spec = {**pod["spec"], "hostname": name, "subdomain": stateful_set["spec"].get("serviceName", "")}
    volumes = _with_claims(stateful_set, spec.get("volumes", []), ordinal)
    if volumes:
        spec["volumes"] = volumes
    return {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value != ""}}


def claims_of(stateful_set: JsonObject, ordinal: int) -> list[JsonObject]:
    """The claims that the pod of an ordinal needs."""
    labels = stateful_set["spec"].get("selector", {}).get("matchLabels", {})
    made = []
    for template in stateful_set["spec"].get("volumeClaimTemplates", ()):
        held = template["metadata"]
        metadata: JsonObject = {"name": _claim_name(stateful_set, template, ordinal)}
        metadata["labels"] = {**held.get("labels", {}), **labels}
        if held.get("annotations"):
            metadata["annotations"] = held["annotations"]
        made.append({"metadata": metadata, "spec": template["spec"]})
    return made


def revision_of(pod: JsonObject) -> str:
    name: str = pod["metadata"].get("labels", {}).get(REVISION_LABEL, "")
    return name


def _claim_name(stateful_set: JsonObject, template: JsonObject, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


def _with_claims(stateful_set: JsonObject, volumes: list[JsonObject], ordinal: int) -> list[JsonObject]:
    """A claim takes the place of a volume of the same name."""
    own = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": _claim_name(stateful_set, template, ordinal)},
        }
        for template in stateful_set["spec"].get("volumeClaimTemplates", ())
    ]
    taken = {volume["name"] for volume in own}
    return [*(volume for volume in volumes if volume["name"] not in taken), *own]
