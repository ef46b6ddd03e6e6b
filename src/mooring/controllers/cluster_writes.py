"""Writes that many controllers make: events about objects, statuses, parts of metadata, finalizers and deletions; and
the kinds that controllers read and write, by short names.
"""

from collections.abc import Collection
from hashlib import blake2b
from typing import Any

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.admission.object_meta import Deletion, Propagation
from mooring.apiserver.resource_api import Change, ResourceApi

PODS = RESOURCES["", "v1", "pods"]
NODES = RESOURCES["", "v1", "nodes"]
NAMESPACES = RESOURCES["", "v1", "namespaces"]
EVENTS = RESOURCES["", "v1", "events"]
CONFIG_MAPS = RESOURCES["", "v1", "configmaps"]
SERVICE_ACCOUNTS = RESOURCES["", "v1", "serviceaccounts"]
QUOTAS = RESOURCES["", "v1", "resourcequotas"]
VOLUMES = RESOURCES["", "v1", "persistentvolumes"]
CLAIMS = RESOURCES["", "v1", "persistentvolumeclaims"]
CLASSES = RESOURCES["storage.k8s.io", "v1", "storageclasses"]
DEVICE_CLAIMS = RESOURCES["resource.k8s.io", "v1", "resourceclaims"]
TEMPLATES = RESOURCES["resource.k8s.io", "v1", "resourceclaimtemplates"]
SLICES = RESOURCES["resource.k8s.io", "v1", "resourceslices"]
LEASES = RESOURCES["coordination.k8s.io", "v1", "leases"]
BUDGETS = RESOURCES["policy", "v1", "poddisruptionbudgets"]

DEPLOYMENTS = RESOURCES["apps", "v1", "deployments"]
REPLICA_SETS = RESOURCES["apps", "v1", "replicasets"]
REPLICATION_CONTROLLERS = RESOURCES["", "v1", "replicationcontrollers"]
STATEFUL_SETS = RESOURCES["apps", "v1", "statefulsets"]
DAEMON_SETS = RESOURCES["apps", "v1", "daemonsets"]
REVISIONS = RESOURCES["apps", "v1", "controllerrevisions"]
JOBS = RESOURCES["batch", "v1", "jobs"]
CRON_JOBS = RESOURCES["batch", "v1", "cronjobs"]

# Hot: a resource works out its storage each time it is asked, which the controllers would do several times a write.
POD_STORE, NODE_STORE, LEASE_STORE, EVENT_STORE = PODS.storage, NODES.storage, LEASES.storage, EVENTS.storage
CLAIM_STORE, VOLUME_STORE, CLASS_STORE, BUDGET_STORE = CLAIMS.storage, VOLUMES.storage, CLASSES.storage, BUDGETS.storage


WARNING, NORMAL = "Warning", "Normal"

GONE, REPLACED = 404, 409
"""Refusals of a deletion: the object does not exist any more, or another object has its name."""


def record_event(
    api: ResourceApi, source: str, item: JsonObject, reason: str, message: str, event_type: str = NORMAL
) -> None:
    """Record an event about an object. The same event again raises the count of the one that is there, as upstream's
    recorder does.

    An event that the API server refuses is dropped, as in a namespace that is being deleted: it must not fail the
    controller.
    """
    meta = item["metadata"]
    namespace = meta.get("namespace", "default")
    # The same event has the same name, so that it is found again.
    mark = blake2b("\0".join((meta["uid"], source, reason, message)).encode(), digest_size=8).hexdigest()
    name, now = f"{meta['name']}.{mark}", api.now()
    try:
        if api.find(EVENTS, namespace, name) is None:
            own = {"reason": reason, "message": message, "type": event_type}
            api.create(EVENTS, namespace, _event(item, name, source, own, now))
        else:
            api.change(
                EVENTS, namespace, name, lambda held: {**held, "count": held.get("count", 1) + 1, "lastTimestamp": now}
            )
    except ApiError:
        return


def _event(item: JsonObject, name: str, source: str, own: JsonObject, now: str) -> JsonObject:
    """The event as core/v1 has it. Events about objects without a namespace go to `default`, as upstream."""
    meta = item["metadata"]
    regarding = {"kind": item["kind"], "apiVersion": item["apiVersion"], "name": meta["name"], "uid": meta["uid"]}
    if meta.get("namespace"):
        regarding["namespace"] = meta["namespace"]
    return {
        "metadata": {"name": name},
        "involvedObject": regarding,
        **own,
        "source": {"component": source},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": source,
    }


# ---- Objects: their status, their metadata, and their end.


def put_status(api: ResourceApi, resource: KindSpec, item: JsonObject, status: JsonObject) -> JsonObject:
    """Write the status of an object if it differs from the one that the object has. Returns the object as it is then."""
    return api.put_status(resource, item, status) if status != item.get("status") else item


def change_object(api: ResourceApi, resource: KindSpec, item: JsonObject, change: Change) -> JsonObject:
    """Replace an object by what `change` makes of it as it is now."""
    meta = item["metadata"]
    return api.change(resource, meta.get("namespace", ""), meta["name"], change)


def change_metadata(api: ResourceApi, resource: KindSpec, item: JsonObject, **parts: Any) -> JsonObject:
    """Replace parts of the metadata of an object: `ownerReferences`, `annotations` or `labels`."""
    return change_object(api, resource, item, lambda held: {**held, "metadata": {**held["metadata"], **parts}})


def lift(api: ResourceApi, resource: KindSpec, item: JsonObject, finalizer: str) -> None:
    """Remove a finalizer from an object, if it is there: the controller that is responsible for it has done its work. The
    API server deletes the object with its last one."""

    def lifted(held: JsonObject) -> JsonObject:
        left = [name for name in held["metadata"].get("finalizers", ()) if name != finalizer]
        return {**held, "metadata": {**held["metadata"], "finalizers": left}}

    if finalizer in item["metadata"].get("finalizers", ()):
        change_object(api, resource, item, lifted)


def delete_object(
    api: ResourceApi,
    resource: KindSpec,
    item: JsonObject,
    propagation: Propagation | None = None,
    grace_s: int | None = None,
    accepted: Collection[int] = (),
) -> None:
    """Delete this very object: its uid protects an object that was created under the same name since.

    `accepted` are refusals (GONE, REPLACED) that are as good as a deletion; any other is raised.
    """
    meta = item["metadata"]
    how = Deletion(grace_s=grace_s, propagation=propagation, uid=meta["uid"])
    try:
        api.delete(resource, meta.get("namespace", ""), meta["name"], how)
    except ApiError as refusal:
        if refusal.code not in accepted:
            raise
