"""Kinds whose admission needs more than their spec can hold: the admission of pods, or other objects of the cluster."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mooring.apiserver.admission.pod_admission import admit_pod, finish_pod
from mooring.apiserver.admission.pod_updates import update_faults
from mooring.apiserver.admission.priority import check_only_default, keep_priority
from mooring.apiserver.admission.services import give_addresses
from mooring.apiserver.lookups import Lookups, name_of
from mooring.model.api_errors import Cause
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.kinds.pods import POD
from mooring.model.kinds.scheduling import PRIORITY_CLASS
from mooring.model.kinds.services import SERVICE
from mooring.model.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.model.kinds.workloads import JOB
from mooring.model.storage import CLASS_ANNOTATION
from mooring.rules.persistent_volumes import default_storage_class
from mooring.rules.pod_admission import add_tolerations
from mooring.rules.pod_defaults import complete_pod
from mooring.rules.workload_pods import job_labels


def _no_admission(item: JsonObject, cluster: Lookups, now: str) -> None:
    pass


def _no_faults(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    return []


def _no_status_rule(old: JsonObject, new: JsonObject) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Special:
    """What is done to objects of a kind besides what its spec says. Objects are changed in place."""

    complete: Callable[[JsonObject], None] | None = None
    """Defaulting, in place of that of the spec."""
    admit: Callable[[JsonObject, Lookups, str], None] = _no_admission
    """A new object, with its defaults, at a time in RFC 3339."""
    change: Callable[[JsonObject, JsonObject, Lookups], list[Cause]] = _no_faults
    """An old and a new object: admits the new one and returns why the server rejects it."""
    change_status: Callable[[JsonObject, JsonObject], None] = _no_status_rule
    """An old object and one with a new status."""
    allocate: Callable[[JsonObject, Collection[JsonObject]], None] | None = None
    """A valid new object, and all others of its kind: gives it what no two of them may have."""


def _admit_pod(pod: JsonObject, cluster: Lookups, now: str) -> None:
    admit_pod(pod, cluster)
    finish_pod(pod, now)


def _change_pod(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    keep_priority(old, new)
    add_tolerations(new["spec"])
    return update_faults(old, new)


def _change_pod_status(old: JsonObject, new: JsonObject) -> None:
    """Writers that know nothing of observedGeneration or the QoS class do not clear them."""
    before, status = old.get("status", {}), new["status"]
    for key in ("observedGeneration", "qosClass"):
        if before.get(key) and not status.get(key):
            status[key] = before[key]
    held: dict[Any, JsonObject] = {condition.get("type"): condition for condition in before.get("conditions", ())}
    for condition in status.get("conditions", ()):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
        seen = held.get(condition.get("type"), {}).get("observedGeneration")
        if seen and not condition.get("observedGeneration"):
            condition["observedGeneration"] = seen


def _admit_claim(claim: JsonObject, cluster: Lookups, now: str) -> None:
    """A claim that names no class gets the default one."""
    if "storageClassName" not in claim["spec"]:
        chosen = default_storage_class(cluster.storage_classes())
        if chosen and CLASS_ANNOTATION not in claim["metadata"].get("annotations", {}):
            claim["spec"]["storageClassName"] = chosen


def _admit_priority_class(priority_class: JsonObject, cluster: Lookups, now: str) -> None:
    check_only_default(priority_class, cluster)


def _change_priority_class(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    check_only_default(new, cluster)
    return []


def _admit_job(job: JsonObject, cluster: Lookups, now: str) -> None:
    """A new job finds its pods by its uid, so that two jobs of one name, one after the other, do not share them."""
    spec = job["spec"]
    if spec.get("manualSelector") or "selector" in spec:
        return
    uid, name = job["metadata"]["uid"], name_of(job)
    meta = spec["template"]["metadata"]
    meta["labels"] = {**meta.get("labels", {}), **job_labels(name, uid)}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


_ORDINARY = Special()
_SPECIAL: Mapping[KindSpec, Special] = {
    POD: Special(complete_pod, _admit_pod, _change_pod, _change_pod_status),
    PERSISTENT_VOLUME_CLAIM: Special(admit=_admit_claim),
    PRIORITY_CLASS: Special(admit=_admit_priority_class, change=_change_priority_class),
    JOB: Special(admit=_admit_job),
    SERVICE: Special(allocate=give_addresses),
}


def special(resource: KindSpec) -> Special:
    return _SPECIAL.get(resource, _ORDINARY)
