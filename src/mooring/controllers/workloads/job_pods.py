"""The pods of a job; those of an Indexed job know which part of the work is theirs."""

from mooring.model.json_objects import JsonObject
from mooring.rules.workload_pods import INDEX


def index_of(pod: JsonObject) -> int | None:
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdecimal() else None
