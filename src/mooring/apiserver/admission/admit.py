"""What the server does to an object on its way into the store: one function for each way of writing.

An object that comes in is never changed; a tidied copy goes on. What is refused raises an ApiError.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mooring.apiserver.admission import event_rules, object_meta, other_kinds
from mooring.apiserver.admission.data_limits import data_faults
from mooring.apiserver.admission.faults import check_form, check_valid, reading
from mooring.apiserver.admission.pod_admission import add_tolerations, admit_pod, finish_pod
from mooring.apiserver.admission.pod_fields import complete_pod
from mooring.apiserver.admission.pod_updates import update_faults
from mooring.apiserver.admission.priority import check_only_default, keep_priority
from mooring.apiserver.admission.tidy import tidy
from mooring.apiserver.lookups import JsonObject, Lookups
from mooring.model.api_errors import Cause
from mooring.model.resources import Resource

_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
"""What the status subresource takes besides the status, as the object itself does."""
_CLOSED_METADATA: Mapping[str, tuple[str, ...]] = {
    "pods": ("ownerReferences",),
    "deployments": ("labels",),
    **dict.fromkeys(("resourceclaims", "volumeattachments", "podgroups"), _METADATA),
}
"""Parity: ... but for these, kind by kind."""


def prepare_create(
    resource: Resource,
    namespace: str,
    item: JsonObject,
    cluster: Lookups,
    now: str,
    new_uid: Callable[[], str],
    random_suffix: Callable[[], str],
) -> JsonObject:
    """A new object as it is to be stored. `now` is written as RFC 3339 in whole seconds, `namespace` is the URL's."""
    made = _readable(resource, item)
    object_meta.give_name(resource, made, random_suffix)
    object_meta.place(resource, namespace, made, cluster)
    object_meta.stamp(resource, made, now, new_uid)
    with reading(resource):
        _complete(resource, made)
    if resource.plural == "pods":
        admit_pod(made, cluster)
        finish_pod(made, now)
    else:
        _admit(resource, made, cluster)
        _reset_status(resource, made)
    check_valid(resource, made, [*_event_faults(resource, made), *data_faults(resource.plural, made)])
    return made


def prepare_update(resource: Resource, old: JsonObject, new: JsonObject, cluster: Lookups) -> JsonObject:
    """An object in the place of `old`, with what the server owns taken over from there, status included."""
    made = _readable(resource, new)
    object_meta.keep_owned(resource, old, made)
    with reading(resource):
        _complete(resource, made)
    _keep_status(resource, old, made)
    if resource.plural == "pods":
        keep_priority(old, made)
        add_tolerations(made["spec"])
        faults = update_faults(old, made)
    else:
        if resource.plural == "priorityclasses":
            check_only_default(made, cluster)
        faults = [*other_kinds.change_faults(resource.plural, old, made), *data_faults(resource.plural, made)]
    check_valid(resource, made, faults)
    object_meta.count_change(resource, old, made)
    return made


def prepare_status(resource: Resource, old: JsonObject, new: JsonObject) -> JsonObject:
    """`old` with the status of `new`, and with what its metadata may change."""
    given = _readable(resource, new)
    object_meta.check_uid(resource, old, given["metadata"].get("uid"))
    made = {**old, "metadata": {**old["metadata"]}, "status": given.get("status", {})}
    closed = _CLOSED_METADATA.get(resource.plural, ())
    _take(made["metadata"], given["metadata"], tuple(key for key in _METADATA if key not in closed))
    if resource.plural == "pods":
        _complete_pod_status(old.get("status", {}), made["status"])
    elif resource.plural in ("nodes", "namespaces"):
        other_kinds.complete(resource.plural, made)
    check_valid(resource, made)
    return made


def _readable(resource: Resource, item: JsonObject) -> JsonObject:
    check_form(resource, item)
    made: JsonObject = {"kind": resource.kind, "apiVersion": resource.api_version} | tidy(item)
    made.setdefault("metadata", {})
    return made


def _complete(resource: Resource, item: JsonObject) -> None:
    if resource.plural == "pods":
        complete_pod(item)
    elif resource.plural == "events":
        event_rules.complete_event(resource, item)
    else:
        other_kinds.complete(resource.plural, item)


def _admit(resource: Resource, item: JsonObject, cluster: Lookups) -> None:
    other_kinds.admit_storage(resource.plural, item, cluster)
    if resource.plural == "priorityclasses":
        check_only_default(item, cluster)
    elif resource.plural == "jobs":
        other_kinds.select_own_pods(item)


def _event_faults(resource: Resource, item: JsonObject) -> list[Cause]:
    with reading(resource):
        return event_rules.event_faults(resource, item) if resource.plural == "events" else []


def _reset_status(resource: Resource, item: JsonObject) -> None:
    """A new node brings its own status; every other kind starts from scratch."""
    if "status" in resource.subresources and resource.plural != "nodes":
        item["status"] = other_kinds.new_status(resource.plural)


def _keep_status(resource: Resource, old: JsonObject, new: JsonObject) -> None:
    if "status" in resource.subresources:
        _take(new, old, ("status",))


def _take(target: JsonObject, source: JsonObject, keys: tuple[str, ...]) -> None:
    """Make these entries what they are in `source`, absent included."""
    for key in keys:
        target.pop(key, None)
        if key in source:
            target[key] = source[key]


def _complete_pod_status(old: JsonObject, status: JsonObject) -> None:
    """Writers that know nothing of observedGeneration or the QoS class do not clear them."""
    for key in ("observedGeneration", "qosClass"):
        if old.get(key) and not status.get(key):
            status[key] = old[key]
    held: dict[Any, JsonObject] = {condition.get("type"): condition for condition in old.get("conditions", ())}
    for condition in status.get("conditions", ()):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
        seen = held.get(condition.get("type"), {}).get("observedGeneration")
        if seen and not condition.get("observedGeneration"):
            condition["observedGeneration"] = seen
