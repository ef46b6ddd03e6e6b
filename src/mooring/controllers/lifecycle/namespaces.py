"""Namespaces: each has its service account and root certificate, and when it ends, all that is in it goes first."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from mooring.kit.clock import NS_PER_S
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.kinds import RESOURCES

ROOT_CERTIFICATE = "kube-root-ca.crt"
_MOST_A_STEP = 500
_LOOK_AGAIN_NS = NS_PER_S // 2
_INHABITED: dict[str, KindSpec] = {
    r.storage: r for r in sorted(RESOURCES.values(), key=lambda r: r is not PODS) if r.namespaced
}
"""One resource for each storage that has objects in namespaces.

Parity: pods go first, so that none runs on without what was to bound it (upstream: OrderedNamespaceDeletion).
"""


class Namespaces:
    name = "namespaces"
    storages: Sequence[str] = (NAMESPACES.storage, SERVICE_ACCOUNTS.storage, CONFIG_MAPS.storage)
    rest_ns = 0

    def __init__(self, api: ResourceApi, root_certificate: str = "") -> None:
        """`root_certificate` is what clients in the cluster trust, as PEM."""
        self._api = api
        self._furniture: tuple[tuple[KindSpec, JsonObject], ...] = (
            (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}),
            (CONFIG_MAPS, {"metadata": {"name": ROOT_CERTIFICATE}, "data": {"ca.crt": root_certificate}}),
        )

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == NAMESPACES.storage:
            return (write.key,) if write.type != "DELETED" else ()
        return (("", write.key[0]),) if write.type == "DELETED" else ()

    def sync(self, key: Key) -> int | None:
        namespace = self._api.find(NAMESPACES, *key)
        if namespace is None:
            return None
        if namespace["metadata"].get("deletionTimestamp"):
            return self._empty(namespace)
        for resource, item in self._furniture:
            if self._api.find(resource, key[1], item["metadata"]["name"]) is None:
                self._api.create(resource, key[1], item)
        return None

    def _empty(self, namespace: JsonObject) -> int | None:
        """So much at a time, so that a large namespace holds nobody up; what ends slowly is looked for again."""
        name = namespace["metadata"]["name"]
        left = 0
        for resource, item in self._content(name):
            left += 1
            if not item["metadata"].get("deletionTimestamp"):
                self._delete(resource, item)
            if left == _MOST_A_STEP:
                break
        if not left:
            self._finish(name)
            return None
        now_ns = self._api.clock.now_ns()
        return now_ns if left == _MOST_A_STEP else now_ns + _LOOK_AGAIN_NS

    def _content(self, name: str) -> Iterable[tuple[KindSpec, JsonObject]]:
        for storage, resource in _INHABITED.items():
            for item in self._api.store.all(storage):
                if item["metadata"].get("namespace") == name:
                    yield resource, item

    def _delete(self, resource: KindSpec, item: JsonObject) -> None:
        meta = item["metadata"]
        how = Deletion(propagation="Background", uid=meta["uid"])
        try:
            self._api.delete(resource, meta["namespace"], meta["name"], how)
        except ApiError as refusal:
            if refusal.code not in (404, 409):
                raise

    def _finish(self, name: str) -> None:
        def finalized(namespace: JsonObject) -> JsonObject:
            return {**namespace, "spec": {**namespace.get("spec", {}), "finalizers": []}}

        self._api.change(NAMESPACES, "", name, finalized, subresource="finalize")
