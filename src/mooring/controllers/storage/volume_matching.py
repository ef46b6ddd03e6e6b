"""Which volume serves a claim: what has to fit, and which of those that fit is taken."""

from collections.abc import Iterable

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.meta import LabelSelector
from mooring.model.quantity import parse
from mooring.model.selectors import compile_selector

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def class_of(item: JsonObject) -> str:
    """Of a claim or a volume; the old annotation wins over the field."""
    annotations = item["metadata"].get("annotations", {})
    name: str = annotations.get(_CLASS_ANNOTATION, item["spec"].get("storageClassName") or "")
    return name


def claim_key(volume: JsonObject) -> str:
    """`namespace/name` of the claim that the volume is for; empty: for any."""
    reference = volume["spec"].get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def is_for(volume: JsonObject, claim: JsonObject) -> bool:
    """Whether the volume names this very claim; a reference without uid means whichever has the name."""
    meta, reference = claim["metadata"], volume["spec"].get("claimRef") or {}
    named = (reference.get("namespace"), reference.get("name")) == (meta["namespace"], meta["name"])
    return named and reference.get("uid", "") in ("", meta["uid"])


def capacity_of(volume: JsonObject) -> int:
    return parse(volume["spec"].get("capacity", {}).get("storage", 0))


def request_of(claim: JsonObject) -> int:
    return parse(claim["spec"].get("resources", {}).get("requests", {}).get("storage", 0))


def suits(volume: JsonObject, claim: JsonObject) -> bool:
    """What must be so even if somebody has bound the two by name."""
    spec, asked = volume["spec"], claim["spec"]
    return (
        capacity_of(volume) >= request_of(claim)
        and spec.get("volumeMode", "Filesystem") == asked.get("volumeMode", "Filesystem")
        and (spec.get("volumeAttributesClassName") or "") == (asked.get("volumeAttributesClassName") or "")
        and class_of(volume) == class_of(claim)
        and set(asked.get("accessModes", ())) <= set(spec.get("accessModes", ()))
    )


def smallest_fit(claim: JsonObject, volumes: Iterable[JsonObject]) -> JsonObject | None:
    """Of free volumes the smallest that suits and is selected; of equals the first by name."""
    written = claim["spec"].get("selector")
    selector = compile_selector(msgspec.convert(written, LabelSelector)) if written is not None else None
    fitting = [
        volume
        for volume in volumes
        if is_free(volume)
        and suits(volume, claim)
        and (selector is None or selector.matches(volume["metadata"].get("labels", {})))
    ]
    return min(fitting, key=lambda volume: (capacity_of(volume), volume["metadata"]["name"]), default=None)


def is_free(volume: JsonObject) -> bool:
    is_available = volume.get("status", {}).get("phase") in ("Available", "Pending", None)
    return is_available and not volume["spec"].get("claimRef") and not volume["metadata"].get("deletionTimestamp")
