"""The part of an object that the server owns: names, uid, times, generation, version, and how the object ends.

Clients cannot choose any of it. Functions change the object that they are handed in place, except `ending`, which makes
another one because the stored object must not change.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.nodes import NAMESPACE
from mooring.apiserver.store import Store
from mooring.kit.clock import NS_PER_S, in_seconds, moment_ns
from mooring.kit.shown_text import quoted
from mooring.model.pod_spec import FINISHED_PHASES


@dataclass(frozen=True, slots=True)
class Lookups:
    """The objects that are in the cluster already, as admission reads them, and its feature gates. A gate that is
    not named has its default."""

    store: Store
    gates: Mapping[str, bool] = field(default_factory=dict)

    def find(self, kind: KindSpec, name: str, namespace: str = "") -> JsonObject | None:
        return self.store.find(kind.storage, (namespace, name))

    def all(self, kind: KindSpec, namespace: str = "") -> list[JsonObject]:
        """Every object of a kind, of one namespace or of all."""
        found = self.store.all(kind.storage)
        return [held for held in found if held["metadata"]["namespace"] == namespace] if namespace else found


def name_of(item: JsonObject) -> str:
    """The object's name; empty where it has none yet."""
    name: str = item.get("metadata", {}).get("name", "")
    return name


_LONGEST_STEM = 58
"""The characters of a generated name before the five random ones: together they fit a DNS label."""

_OWNED = ("name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "generateName")
"""Metadata that an update takes over from the stored object."""
_ENDING = ("deletionTimestamp", "deletionGracePeriodSeconds")
"""Metadata that only a deletion sets."""


def place(resource: KindSpec, namespace: str, item: JsonObject, cluster: Lookups) -> None:
    """Put the object into the namespace of the request, which must exist and must not be ending. Raises 400, 404, 403."""
    meta = item["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.get("namespace") not in (None, "", namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = namespace
    found = cluster.find(NAMESPACE, namespace)
    if found is None:
        raise errors.not_found("namespaces", namespace)
    if found.get("status", {}).get("phase") == "Terminating":
        raise _terminating(resource, name_of(item), namespace)


def _terminating(resource: KindSpec, name: str, namespace: str) -> errors.ApiError:
    """Parity: the refusal has a cause by which controllers recognise a namespace that is being deleted and stop
    retrying."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    refusal = errors.forbidden(resource.plural, name, why, resource.group)
    cause = errors.Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
    details = errors.StatusDetails(name, resource.group, resource.plural, (cause,))
    return errors.ApiError(refusal.code, refusal.reason, refusal.message, details)


def give_name(resource: KindSpec, item: JsonObject, random_suffix: Callable[[], str]) -> None:
    """Give a new object a name from `generateName` if it has none. Raises 422 where it has neither."""
    meta = item["metadata"]
    if not meta.get("name"):
        stem = meta.get("generateName", "")
        if not stem:
            fault = errors.field_required("metadata.name", "name or generateName is required")
            raise errors.invalid(resource.kind, "", [fault], resource.group)
        meta["name"] = stem[:_LONGEST_STEM] + random_suffix()


def stamp(resource: KindSpec, item: JsonObject, now: str, new_uid: Callable[[], str]) -> None:
    """Give a new object its uid, time and generation; a client cannot choose any of it."""
    meta = item["metadata"]
    if meta.pop("resourceVersion", ""):
        raise errors.unexplained("resourceVersion should not be set on objects to be created")
    for key in (*_ENDING, "selfLink", "generation"):
        meta.pop(key, None)
    meta |= {"uid": new_uid(), "creationTimestamp": now}
    if resource.has_generation:
        meta["generation"] = 1


def keep_owned(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """An update leaves alone what the server owns. Refuses one that is meant for another object of the same name."""
    held, meta = old["metadata"], new["metadata"]
    check_uid(resource, old, meta.get("uid"))
    if meta.get("name") not in (None, held.get("name")):
        fault = errors.field_invalid("metadata.name", meta["name"], "field is immutable")
        raise errors.invalid(resource.kind, name_of(old), [fault], resource.group)
    for key in (*_OWNED, *_ENDING):
        meta.pop(key, None)
        if key in held:
            meta[key] = held[key]


def check_uid(resource: KindSpec, item: JsonObject, expected: str | None) -> None:
    """Refuse a write that is meant for an object of the same name that is gone. Raises 409."""
    held = item["metadata"].get("uid", "")
    if expected and expected != held:
        raise precondition_failed(resource, item, f"UID in precondition: {expected}, UID in object meta: {held}")


def precondition_failed(resource: KindSpec, item: JsonObject, what: str) -> errors.ApiError:
    """Parity: the text names the key under which etcd would keep the object."""
    meta = item["metadata"]
    parts = ["", "registry", resource.plural, meta.get("namespace", ""), name_of(item)]
    key = "/".join(parts if resource.namespaced else [*parts[:3], parts[4]])
    why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
    return errors.conflict(resource.plural, name_of(item), f"{why}Precondition failed: {what}", resource.group)


def count_change(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """A changed spec is another generation: that is how readers of status know what it speaks of."""
    parts = [item.get("spec") for item in (old, new)]
    if resource.definition:  # a custom object may have any fields beside its status
        kept = ("metadata", "status") if "status" in resource.subresources else ("metadata",)
        parts = [{key: part for key, part in item.items() if key not in kept} for item in (old, new)]
    if resource.has_generation and parts[0] != parts[1]:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# ---- versions


_DIGITS = re.compile(r"[0-9]+")
_MAX_VERSION = (1 << 64) - 1
"""A version is an unsigned integer of 64 bits; upstream refuses larger ones with the words of Go's parser."""


def check_version(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """Refuse an update that is for another version than the present one, or for none where there must be one.

    Parity: "0" is as good as nothing, and means whatever is there. Raises ApiError: 409, 422, and 500 for what is no
    version.
    """
    metadata = new.get("metadata")
    text = str((metadata.get("resourceVersion") if isinstance(metadata, dict) else None) or "0")
    version = _parsed(text)
    if version == 0 and resource.needs_version:
        fault = errors.field_invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(resource.plural, old["metadata"]["name"], [fault], resource.group)
    if version and version != int(old["metadata"]["resourceVersion"]):
        raise errors.conflict(resource.plural, old["metadata"]["name"], group=resource.group)


def _parsed(text: str) -> int:
    """The version as a number. Parity: other text is an error of the server (500), in the words of Go's strconv."""
    if not _DIGITS.fullmatch(text):
        raise _unparsed(text, "invalid syntax")
    if len(text.lstrip("0")) > len(str(_MAX_VERSION)) or int(text) > _MAX_VERSION:
        raise _unparsed(text, "value out of range")
    return int(text)


def _unparsed(text: str, why: str) -> errors.ApiError:
    return errors.unexplained(f"strconv.ParseUint: parsing {quoted(text)}: {why}")


# ---- deletion


Propagation = Literal["Background", "Foreground", "Orphan"]
"""The fate of dependents: deleted afterwards, deleted before, or left without an owner."""

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
"""The finalizers by which the garbage collector is asked to see to the dependents first."""

_DEFAULT_GRACE_S = 30
"""As upstream, for a pod whose spec does not say."""
LONGEST_GRACE_S = 1 << 32
"""136 years: no client waits longer, and the end of such a grace period is still a date that RFC 3339 can write."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a deletion: seconds of grace, dependents, and which object (uid, version) it means."""

    grace_s: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    version: str = ""


_IMMORTAL = ("default", "kube-public", "kube-system")
"""Namespaces that every cluster has."""


def check_mortal(resource: KindSpec, name: str) -> None:
    """Refuse to delete a namespace that every cluster has. Raises 403."""
    if resource is NAMESPACE and name in _IMMORTAL:
        raise errors.forbidden(resource.plural, name, "this namespace may not be deleted")


def check_preconditions(resource: KindSpec, item: JsonObject, how: Deletion) -> None:
    """Refuse a deletion that names another uid or version than the object has. Raises 409."""
    meta = item["metadata"]
    for what, expected, held, advice in (
        ("UID", how.uid, meta["uid"], ". The object might have been deleted and then recreated"),
        ("ResourceVersion", how.version, meta["resourceVersion"], ". The object might have been modified"),
    ):
        if expected and expected != held:
            why = f"the {what} in the precondition ({expected}) does not match the {what} in record ({held}){advice}"
            raise errors.conflict(resource.kind, meta["name"], why, resource.group)


def ending(resource: KindSpec, item: JsonObject, how: Deletion, now_ns: int) -> JsonObject:
    """The object as it is once its deletion has begun. To ask again can shorten the grace period, never extend it."""
    grace_s = _grace_s(item, how) if resource.has_grace_period else 0
    meta = {**item["metadata"]}
    is_first = not meta.get("deletionTimestamp")
    if is_first and "generation" in meta:
        meta["generation"] += 1
    if is_first:
        meta["deletionTimestamp"] = in_seconds(now_ns + min(grace_s, LONGEST_GRACE_S) * NS_PER_S)
        meta["deletionGracePeriodSeconds"] = grace_s
    elif grace_s < meta.get("deletionGracePeriodSeconds", 0) and (how.grace_s is not None or not grace_s):
        _shorten(meta, grace_s, now_ns)
    _ask_collector(meta, how)
    ended = {**item, "metadata": meta}
    if resource.has_spec_finalizers:
        ended["status"] = {**item.get("status", {}), "phase": "Terminating"}
    return ended


def deleted_ns(meta: JsonObject) -> int:
    """When an object that is on its way out was first deleted."""
    grace_s = min(meta.get("deletionGracePeriodSeconds") or 0, LONGEST_GRACE_S)
    return moment_ns(meta["deletionTimestamp"]) - grace_s * NS_PER_S


def _shorten(meta: JsonObject, grace_s: int, now_ns: int) -> None:
    """The grace counts from the first deletion. A shorter one that would be over already becomes the shortest there is."""
    end_ns = deleted_ns(meta) + min(grace_s, LONGEST_GRACE_S) * NS_PER_S
    if end_ns < now_ns:
        end_ns, grace_s = now_ns, min(grace_s, 1)
    meta["deletionTimestamp"] = in_seconds(end_ns)
    meta["deletionGracePeriodSeconds"] = grace_s


def _grace_s(pod: JsonObject, how: Deletion) -> int:
    """How long a pod has to stop. A pod that runs nowhere or has finished needs no time."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in FINISHED_PHASES:
        return 0
    asked = how.grace_s if how.grace_s is not None else pod["spec"].get("terminationGracePeriodSeconds")
    grace_s = _DEFAULT_GRACE_S if asked is None else int(asked)
    return grace_s if grace_s >= 0 else 1


def _ask_collector(meta: JsonObject, how: Deletion) -> None:
    """Set the finalizer by which the garbage collector deletes or orphans the dependents first; one asked for earlier
    goes."""
    if how.propagation is None:
        return
    wanted = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[how.propagation]
    others = [finalizer for finalizer in meta.get("finalizers", ()) if finalizer not in (FOREGROUND, ORPHAN)]
    meta["finalizers"] = [*others, *wanted]
    if not meta["finalizers"]:
        del meta["finalizers"]


def is_over(resource: KindSpec, item: JsonObject) -> bool:
    """Whether nothing holds an object any more that is to be deleted."""
    meta = item["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if resource.has_spec_finalizers and item.get("spec", {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
