"""Namespaces: each has a default service account and the root certificate, its content is deleted before it is, and its
quotas say what it uses."""

from collections.abc import Iterable

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import (
    CONFIG_MAPS,
    GONE,
    NAMESPACES,
    PODS,
    QUOTAS,
    REPLACED,
    SERVICE_ACCOUNTS,
    delete_object,
)
from mooring.controllers.control_loop import Controller
from mooring.kit.clock import NS_PER_S

ROOT_CERTIFICATE = "kube-root-ca.crt"
"""The name of the ConfigMap, upstream's root-ca-cert-publisher."""
_MOST_A_STEP = 500
"""Objects deleted in one sync, so that a large namespace does not delay other controllers."""
_LOOK_AGAIN_NS = NS_PER_S // 2
"""When to look again for objects that take time to end, such as pods with a grace period."""
_INHABITED: dict[str, KindSpec] = {
    r.storage: r for r in sorted(RESOURCES.values(), key=lambda r: r is not PODS) if r.namespaced
}
"""One resource for each storage that has objects in namespaces.

Parity: pods go first, so that none runs on without what was to bound it (upstream: OrderedNamespaceDeletion).
"""


_DEFAULTS: tuple[tuple[KindSpec, JsonObject], ...] = (
    (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}),
    (CONFIG_MAPS, {"metadata": {"name": ROOT_CERTIFICATE}, "data": {"ca.crt": ""}}),
)
"""Objects that every namespace has. The certificate is empty: simulated pods open no connections."""


class Namespaces(Controller):
    """Keys are namespaces. Upstream has three controllers for this."""

    name = "namespaces"
    storages = (NAMESPACES.storage, SERVICE_ACCOUNTS.storage, CONFIG_MAPS.storage)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A namespace that changed, or one whose default object was deleted."""
        if write.storage == NAMESPACES.storage:
            return (write.key,) if write.type != "DELETED" else ()
        return (("", write.key[0]),) if write.type == "DELETED" else ()

    def sync(self, key: Key) -> int | None:
        """Empty a namespace that is being deleted; otherwise create its default objects, also after a user deleted one."""
        namespace = self._api.find(NAMESPACES, *key)
        if namespace is None:
            return None
        if namespace["metadata"].get("deletionTimestamp"):
            return self._empty(namespace)
        for resource, item in _DEFAULTS:
            if self._api.find(resource, key[1], item["metadata"]["name"]) is None:
                self._api.create(resource, key[1], item)
        return None

    def _empty(self, namespace: JsonObject) -> int | None:
        """Delete some of the content. Returns when to go on; None: the namespace is empty and finalized."""
        name = namespace["metadata"]["name"]
        left = 0
        for resource, item in self._content(name):
            left += 1
            if not item["metadata"].get("deletionTimestamp"):
                # It may be gone already, or another of its name may be there.
                delete_object(self._api, resource, item, "Background", accepted=(GONE, REPLACED))
            if left == _MOST_A_STEP:
                break
        if not left:
            self._finish(name)
            return None
        now_ns = self._api.clock.now_ns()
        return now_ns if left == _MOST_A_STEP else now_ns + _LOOK_AGAIN_NS

    def _content(self, name: str) -> Iterable[tuple[KindSpec, JsonObject]]:
        """All objects in the namespace, pods first."""
        custom = {storage: kind for storage, kind in self._api.kinds.stored().items() if kind.namespaced}
        for storage, resource in (_INHABITED | custom).items():
            for item in self._api.store.all(storage):
                if item["metadata"].get("namespace") == name:
                    yield resource, item

    def _finish(self, name: str) -> None:
        """Remove the finalizer of the spec: the API server then deletes the namespace."""

        def finalized(namespace: JsonObject) -> JsonObject:
            return {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": []}}

        self._api.change(NAMESPACES, "", name, finalized, subresource="finalize")


# ---- Quotas: the status of each says what its namespace uses. Admission does the counting.


class ResourceQuotas(Controller):
    """Keys are quotas."""

    name = "resource-quotas"
    storages = tuple({r.storage: None for r in RESOURCES.values() if r.namespaced})
    rest_ns = NS_PER_S // 20
    """Creating many objects changes the usage with each: 20 statuses a second are enough."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Quotas that count objects of this storage. Hot: most namespaces have no quota, and then this is all there is
        to do."""
        namespace = write.key[0]
        accounts = self._api.quotas.of(namespace)
        return [
            (namespace, name)
            for name, account in accounts.items()
            if write.storage in account.storages or write.storage == QUOTAS.storage
        ]

    def sync(self, key: Key) -> int | None:
        """Write the status if it differs. Returns when a pod's grace period ends, after which it counts no more."""
        account = self._api.quotas.of(key[0]).get(key[1])
        quota = self._api.find(QUOTAS, *key)
        if account is None or quota is None:
            return None
        if quota.get("status") != account.status():
            self._api.put_status(QUOTAS, quota, account.status())
        ends_ns = account.next_expiry_ns()
        return ends_ns + 1 if ends_ns is not None else None


CONTROLLERS = (Namespaces, ResourceQuotas)
