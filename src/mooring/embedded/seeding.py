"""Objects that a cluster starts with: those that every cluster has, and manifests of a user or the dump of another
cluster."""

from collections.abc import Iterable

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject, value_at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_KIND, RESOURCES
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION
from mooring.apiserver.resource_api import ResourceApi
from mooring.model.pod_spec import FINISHED_PHASES

_SERVER_OWNED = ("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields")
"""Fields of metadata that the other cluster's server set: this one sets its own."""
_ENDING = ("deletionTimestamp", "deletionGracePeriodSeconds")
"""An object that was being deleted there lives again here."""
_EARLY = (
    *("CustomResourceDefinition", "Namespace", "PriorityClass", "RuntimeClass", "LimitRange", "StorageClass", "Node"),
    *("PersistentVolumeClaim", "PersistentVolume"),
)
"""Kinds that admission looks up come first, and claims before volumes, which name the uid of their claim."""
_LATE = (
    "Deployment",
    "CronJob",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "ReplicationController",
    "Pod",
    "ResourceQuota",
)
"""Owners come before the objects that they own. A quota comes last: it is for what is created under it, and the cluster
may have exceeded it."""
_OVER = ("Complete", "Failed")
"""Conditions of a Job that has ended."""
_UNTOLD = ("Event", "Lease")
"""Kinds that a new cluster writes for itself."""


_DEFAULT_CLASS: JsonObject = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "mooring.dev/simulated",
    "volumeBindingMode": "WaitForFirstConsumer",
}
"""As in clusters of kind and of cloud providers: a claim that names no class gets a volume."""


def default_class(items: Iterable[JsonObject]) -> list[JsonObject]:
    """The storage class to add to the objects of a new cluster; none if they bring classes of their own."""
    return [] if any(item.get("kind") == "StorageClass" for item in items) else [_DEFAULT_CLASS]


def seed(api: ResourceApi, items: Iterable[JsonObject]) -> list[str]:
    """Create the objects, in an order in which they find each other. Returns what was refused, in words.

    An object that is there already is left as it is. Namespaces that objects name are made where they are missing, as
    in dumps of one namespace. Owners are found again though they get other uids; owners that are not among the objects
    are left out, or else everything they own would be taken for garbage.
    """
    refusals = []
    uids: dict[str, str] = {}
    written = list(items)
    for item in sorted((*_missing_namespaces(written), *written), key=_rank):
        kind, version = item.get("kind", ""), item.get("apiVersion", "")
        resource = BY_KIND.get((version, kind)) or api.kinds.named(version, kind)
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


def _create(api: ResourceApi, resource: KindSpec, item: JsonObject, uids: dict[str, str]) -> None:
    """One object with new metadata: owners by their new uids. `uids` maps the old uids to the new ones."""
    written = item.get("metadata") or {}
    metadata = {key: value for key, value in written.items() if key not in (*_SERVER_OWNED, *_ENDING)}
    owners = [owner for owner in metadata.pop("ownerReferences", None) or () if owner.get("uid") in uids]
    if owners:
        metadata["ownerReferences"] = [{**owner, "uid": uids[owner["uid"]]} for owner in owners]
    namespace = metadata.get("namespace") or "default"
    made = api.find(resource, namespace, metadata.get("name", ""))
    if made is None:
        made = api.create(resource, namespace, _with_claim_found({**item, "metadata": metadata}, uids))
        if _is_finished(item):  # or else it would run again
            status = item["status"]
            made = api.change(
                resource,
                namespace,
                made["metadata"]["name"],
                lambda held: {**held, "status": status},
                subresource="status",
            )
    if written.get("uid"):
        uids[written["uid"]] = made["metadata"]["uid"]


def _missing_namespaces(items: Iterable[JsonObject]) -> list[JsonObject]:
    """A Namespace for each name that objects are in and that no Namespace among them has, as in dumps of one namespace."""
    homes: dict[str, None] = {}
    written = set()
    items = list(items)
    custom = {
        (value_at(item, "spec.group"), value_at(item, "spec.names.kind"))
        for item in items
        if item.get("kind") == CUSTOM_RESOURCE_DEFINITION.kind and value_at(item, "spec.scope") == "Namespaced"
    }
    for item in items:
        kind, version = item.get("kind", ""), item.get("apiVersion", "")
        resource, metadata = BY_KIND.get((version, kind)), item.get("metadata")
        is_custom = (str(version).partition("/")[0], kind) in custom
        if (resource is None and not is_custom) or not isinstance(metadata, dict) or kind in _UNTOLD:
            continue
        if kind == "Namespace":
            written.add(metadata.get("name"))
        elif (resource is None or resource.namespaced) and metadata.get("namespace"):
            homes[metadata["namespace"]] = None
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in homes if name not in written
    ]


def _with_claim_found(item: JsonObject, uids: dict[str, str]) -> JsonObject:
    """A volume that is bound to a claim of its own cluster names the claim by the uid that it has here."""
    spec = item.get("spec")
    claim = spec.get("claimRef") if item.get("kind") == "PersistentVolume" and isinstance(spec, dict) else None
    if not isinstance(claim, dict) or claim.get("uid") not in uids:
        return item
    found = {key: value for key, value in claim.items() if key != "resourceVersion"}
    return {**item, "spec": {**item["spec"], "claimRef": {**found, "uid": uids[claim["uid"]]}}}


def _is_finished(item: JsonObject) -> bool:
    """Whether it is a pod or a Job whose work is done. Its status is kept, or it would run again."""
    status = item.get("status")
    if not isinstance(status, dict):
        return False
    if item["kind"] == "Pod":
        return status.get("phase") in FINISHED_PHASES
    held = status.get("conditions") if item["kind"] == "Job" else None
    conditions = [condition for condition in held if isinstance(condition, dict)] if isinstance(held, list) else []
    return any(condition.get("type") in _OVER and condition.get("status") == "True" for condition in conditions)


def _rank(item: JsonObject) -> int:
    """When to create an object of this kind: early, late, or between."""
    kind = item.get("kind", "")
    if kind in _EARLY:
        return _EARLY.index(kind)
    return len(_EARLY) + (1 + _LATE.index(kind) if kind in _LATE else 0)


def _name(item: JsonObject) -> str:
    """The name of an object in messages."""
    metadata = item.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '')}..."
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)


# ---- what every cluster has


NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that every cluster has."""

_CLASSES: tuple[JsonObject, ...] = (
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Pods that the cluster needs, on whichever node.",
    },
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Pods that their node needs.",
    },
)
"""Parity: the classes and values that kube-apiserver creates."""
_SERVICE: JsonObject = {
    "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
    "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
}
"""The API server itself, at the first address of the service network."""


def create_initial_objects(api: ResourceApi) -> None:
    """Create what every cluster has from the start, as far as it is not there yet: namespaces with their service
    accounts, the system's priority classes, the service of the API."""
    for name in NAMESPACES:
        _ensure(api, "", "namespaces", {"metadata": {"name": name}})
        _ensure(api, "", "serviceaccounts", {"metadata": {"name": "default", "namespace": name}})
    for priority_class in _CLASSES:
        _ensure(api, "scheduling.k8s.io", "priorityclasses", priority_class)
    _ensure(api, "", "services", _SERVICE)


def _ensure(api: ResourceApi, group: str, plural: str, item: JsonObject) -> None:
    """Create an object that is not there."""
    resource = RESOURCES[group, "v1", plural]
    namespace = item["metadata"].get("namespace", "default") if resource.namespaced else ""
    if api.find(resource, namespace, item["metadata"]["name"]) is None:
        api.create(resource, namespace, item)
