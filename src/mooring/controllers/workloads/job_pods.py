"""The pods of a job; those of an Indexed job know which part of the work is theirs."""

from mooring.model.json_objects import JsonObject

INDEX = "batch.kubernetes.io/job-completion-index"
_VARIABLE = "JOB_COMPLETION_INDEX"


def index_of(pod: JsonObject) -> int | None:
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def with_index(pod: JsonObject, job_name: str, index: int) -> JsonObject:
    """A pod of the template for one index: in its name, labels, host name and the environment of its containers."""
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
    held = container.get("env", [])
    if any(variable["name"] == _VARIABLE for variable in held):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}}
    return {**container, "env": [*held, {"name": _VARIABLE, "valueFrom": source}]}
