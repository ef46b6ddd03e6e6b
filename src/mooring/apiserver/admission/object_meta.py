"""The part of an object that the server owns: names, uid, times, generation."""

import re
from collections.abc import Callable

from mooring.apiserver.admission.store_lookups import Lookups, name_of
from mooring.model.api_errors import (
    ApiError,
    Cause,
    StatusDetails,
    bad_request,
    conflict,
    field_invalid,
    field_required,
    forbidden,
    invalid,
    not_found,
    quoted,
    unexplained,
)
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec

_LONGEST_STEM = 58
"""Of a generated name, before the five random characters: together they fit a DNS label."""

_OWNED = ("name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "generateName")
_ENDING = ("deletionTimestamp", "deletionGracePeriodSeconds")


def place(resource: KindSpec, namespace: str, item: JsonObject, cluster: Lookups) -> None:
    """Put the object into the namespace of the request, which must be there and stay."""
    meta = item["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = namespace
    found = cluster.namespace(namespace)
    if found is None:
        raise not_found("namespaces", namespace)
    if found.get("status", {}).get("phase") == "Terminating":
        raise _terminating(resource, name_of(item), namespace)


def _terminating(resource: KindSpec, name: str, namespace: str) -> ApiError:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = forbidden(resource.plural, name, why, resource.group)
    cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
    details = StatusDetails(name, resource.group, resource.plural, (cause,))
    return ApiError(refusal.code, refusal.reason, refusal.message, details)


def give_name(resource: KindSpec, item: JsonObject, random_suffix: Callable[[], str]) -> None:
    meta = item["metadata"]
    if not meta.get("name"):
        stem = meta.get("generateName", "")
        if not stem:
            fault = field_required("metadata.name", "name or generateName is required")
            raise invalid(resource.kind, "", [fault], resource.group)
        meta["name"] = stem[:_LONGEST_STEM] + random_suffix()


def stamp(resource: KindSpec, item: JsonObject, now: str, new_uid: Callable[[], str]) -> None:
    """What a new object gets; a client cannot choose any of it."""
    meta = item["metadata"]
    if meta.pop("resourceVersion", ""):
        raise unexplained("resourceVersion should not be set on objects to be created")
    for key in (*_ENDING, "selfLink", "generation"):
        meta.pop(key, None)
    meta |= {"uid": new_uid(), "creationTimestamp": now}
    if resource.has_generation:
        meta["generation"] = 1


def keep_owned(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """An update leaves alone what the server owns; one that means another object of the same name is refused."""
    held, meta = old["metadata"], new["metadata"]
    check_uid(resource, old, meta.get("uid"))
    if meta.get("name") not in (None, held.get("name")):
        fault = field_invalid("metadata.name", meta["name"], "field is immutable")
        raise invalid(resource.kind, name_of(old), [fault], resource.group)
    for key in (*_OWNED, *_ENDING):
        meta.pop(key, None)
        if key in held:
            meta[key] = held[key]


def check_uid(resource: KindSpec, item: JsonObject, expected: str | None) -> None:
    held = item["metadata"].get("uid", "")
    if expected and expected != held:
        raise precondition_failed(resource, item, f"UID in precondition: {expected}, UID in object meta: {held}")


def precondition_failed(resource: KindSpec, item: JsonObject, what: str) -> ApiError:
    """Parity: the text names the key under which etcd would keep the object."""
    meta = item["metadata"]
    parts = ["", "registry", resource.plural, meta.get("namespace", ""), name_of(item)]
    key = "/".join(parts if resource.namespaced else [*parts[:3], parts[4]])
    why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
    return conflict(resource.plural, name_of(item), f"{why}Precondition failed: {what}", resource.group)


def count_change(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """A changed spec is another generation: that is how readers of status know what it speaks of."""
    if resource.has_generation and old.get("spec") != new.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# ---- Which version of an object an update is for: what optimistic concurrency asks of writers.


_DIGITS = re.compile(r"[0-9]+")
_MAX_VERSION = (1 << 64) - 1


def check_version(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """Refuse an update that is for another version than the present one, or for none where there must be one.

    Parity: "0" is as good as nothing, and means whatever is there. Raises ApiError: 409, 422, and 500 for what is no
    version.
    """
    metadata = new.get("metadata")
    text = str((metadata.get("resourceVersion") if isinstance(metadata, dict) else None) or "0")
    version = _parsed(text)
    if version == 0 and resource.needs_version:
        fault = field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.plural, old["metadata"]["name"], [fault], resource.group)
    if version and version != int(old["metadata"]["resourceVersion"]):
        raise conflict(resource.plural, old["metadata"]["name"], group=resource.group)


def _parsed(text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise _unparsed(text, "invalid syntax")
    if len(text.lstrip("0")) > len(str(_MAX_VERSION)) or int(text) > _MAX_VERSION:
        raise _unparsed(text, "value out of range")
    return int(text)


def _unparsed(text: str, why: str) -> ApiError:
    return unexplained(f"strconv.ParseUint: parsing {quoted(text)}: {why}")
