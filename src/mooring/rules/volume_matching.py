"""Which volume serves a claim: what has to fit, which of those that fit is taken, and what binding writes.

kube-controller-manager's rules (pv_controller.go, index.go). The scheduler has columns of its own for the choice on each
node (`plugins/volumes/choice.py`), which goes by size alone.
"""

from collections.abc import Collection, Iterable

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.meta import LabelSelector
from mooring.model.quantity import parse
from mooring.model.selectors import compile_selector
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volume_claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, FILESYSTEM

PROVISIONER = "volume.kubernetes.io/storage-provisioner"


def class_of(item: JsonObject) -> str:
    """Of a claim or a volume; the old annotation wins over the field."""
    annotations = item["metadata"].get("annotations", {})
    name: str = annotations.get(CLASS_ANNOTATION, item["spec"].get("storageClassName") or "")
    return name


def claim_key(volume: JsonObject) -> str:
    """`namespace/name` of the claim that the volume is for; empty: for any."""
    reference = volume["spec"].get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def is_for(volume: JsonObject, claim: JsonObject) -> bool:
    """Whether the volume names this very claim; a reference without uid means whichever has the name."""
    meta, reference = claim["metadata"], volume["spec"].get("claimRef") or {}
    named = (reference.get("namespace"), reference.get("name")) == (meta["namespace"], meta["name"])
    return named and reference.get("uid", "") in ("", meta.get("uid", ""))


def capacity_of(volume: JsonObject) -> int:
    return parse(volume["spec"].get("capacity", {}).get("storage", 0))


def request_of(claim: JsonObject) -> int:
    return parse(claim["spec"].get("resources", {}).get("requests", {}).get("storage", 0))


def mismatch(volume: JsonObject, claim: JsonObject) -> str:
    """Why a volume that the claim names cannot serve it, in upstream's words; empty: it can."""
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity_of(volume) < request_of(claim):
        return "requested PV is too small"
    return "storageClassName does not match" if class_of(volume) != class_of(claim) else _other_kind(volume, claim)


def _other_kind(volume: JsonObject, claim: JsonObject) -> str:
    spec, asked = volume["spec"], claim["spec"]
    if (spec.get("volumeAttributesClassName") or "") != (asked.get("volumeAttributesClassName") or ""):
        return "volumeAttributesClassName does not match"
    if (spec.get("volumeMode") or FILESYSTEM) != (asked.get("volumeMode") or FILESYSTEM):
        return "incompatible volumeMode"
    return (
        "" if set(asked.get("accessModes") or ()) <= set(spec.get("accessModes") or ()) else "incompatible accessMode"
    )


def chosen_volume(claim: JsonObject, named: JsonObject | None, naming: Iterable[JsonObject]) -> JsonObject | None:
    """The volume that user or scheduler have chosen, if it can be had.

    `named` is the volume that the claim names, `naming` are volumes that name the claim.
    """
    if not claim["spec"].get("volumeName"):
        return next((volume for volume in naming if is_for(volume, claim) and _can_hold(volume, claim)), None)
    if named is None or (named["spec"].get("claimRef") and not is_for(named, claim)):
        return None
    # Parity: where the two name each other, what they are is not compared.
    return named if is_for(named, claim) or not mismatch(named, claim) else None


def _can_hold(volume: JsonObject, claim: JsonObject) -> bool:
    """Parity: a volume that names its claim may be of another class."""
    is_there = not volume["metadata"].get("deletionTimestamp") and capacity_of(volume) >= request_of(claim)
    return is_there and not _other_kind(volume, claim)


def best_volume(claim: JsonObject, volumes: Iterable[JsonObject]) -> JsonObject | None:
    """Of free volumes that suit and are selected the one that comes first."""
    written = claim["spec"].get("selector")
    selector = compile_selector(msgspec.convert(written, LabelSelector)) if written is not None else None
    fitting = [
        volume
        for volume in volumes
        if is_free(volume)
        and not mismatch(volume, claim)
        and (selector is None or selector.matches(volume["metadata"].get("labels", {})))
    ]
    return min(fitting, key=_preference, default=None)


def _preference(volume: JsonObject) -> tuple[int, int, str]:
    return preference(volume["spec"].get("accessModes", ()), capacity_of(volume), volume["metadata"]["name"])


def preference(access_modes: Collection[str], capacity_nano: int, name: str) -> tuple[int, int, str]:
    """Volumes with fewer access modes come first, then smaller ones; of equals the first by name."""
    return len(set(access_modes)), capacity_nano, name


def is_free(volume: JsonObject) -> bool:
    is_available = volume.get("status", {}).get("phase") in ("Available", "Pending", None)
    return is_available and not volume["spec"].get("claimRef") and not volume["metadata"].get("deletionTimestamp")


def binding_marks(names_volume: bool, provisioner: str = "") -> dict[str, str]:
    """The annotations that a claim gets when it is bound. `names_volume`: it did before, so the user chose."""
    marks = {BIND_COMPLETED: "yes"}
    if not names_volume:
        marks[BOUND_BY_CONTROLLER] = "yes"
    if provisioner:
        marks[PROVISIONER] = provisioner
    return marks
