"""Objects that a cluster starts with: manifests of a user, or the dump of another cluster."""

from collections.abc import Iterable

from mooring.api.access import Api
from mooring.api.errors import ApiError
from mooring.api.resources import BY_KIND, Resource
from mooring.api.store import JsonObject

_SERVER_OWNED = ("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields")
_ENDING = ("deletionTimestamp", "deletionGracePeriodSeconds")
_EARLY = ("Namespace", "PriorityClass", "RuntimeClass", "LimitRange", "StorageClass", "Node")
_LATE = ("Deployment", "CronJob", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController", "Pod")
"""Owners come before those that they own, and what admission looks up comes first."""
_UNTOLD = ("Event", "Lease")
"""Kinds that a new cluster writes for itself."""


def seed(api: Api, items: Iterable[JsonObject]) -> list[str]:
    """Create the objects, in an order in which they find each other. Returns what was refused, in words.

    An object that is there already is left as it is. Owners are found again though they get other uids; owners that
    are not among the objects are left out, or else everything they own would be taken for garbage.
    """
    refusals = []
    uids: dict[str, str] = {}
    for item in sorted(items, key=_rank):
        kind, version = item.get("kind", ""), item.get("apiVersion", "")
        resource = BY_KIND.get((version, kind))
        if kind in _UNTOLD:
            continue
        if resource is None:
            refusals.append(f"{kind} {_name(item)}: {version} is not served here")
            continue
        try:
            _create(api, resource, item, uids)
        except ApiError as refused:
            refusals.append(f"{kind} {_name(item)}: {refused.message}")
    return refusals


def _create(api: Api, resource: Resource, item: JsonObject, uids: dict[str, str]) -> None:
    written = item.get("metadata") or {}
    metadata = {key: value for key, value in written.items() if key not in (*_SERVER_OWNED, *_ENDING)}
    owners = [owner for owner in metadata.pop("ownerReferences", None) or () if owner.get("uid") in uids]
    if owners:
        metadata["ownerReferences"] = [{**owner, "uid": uids[owner["uid"]]} for owner in owners]
    namespace = metadata.get("namespace") or "default"
    found = api.find(resource, namespace, metadata.get("name", ""))
    made = found or api.create(resource, namespace, {**item, "metadata": metadata})
    if written.get("uid"):
        uids[written["uid"]] = made["metadata"]["uid"]


def _rank(item: JsonObject) -> int:
    kind = item.get("kind", "")
    if kind in _EARLY:
        return _EARLY.index(kind)
    return len(_EARLY) + (1 + _LATE.index(kind) if kind in _LATE else 0)


def _name(item: JsonObject) -> str:
    metadata = item.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '')}..."
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)
