"""Writes into the status of each ResourceQuota what its namespace uses. Admission does the counting."""

from collections.abc import Iterable, Sequence

from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.kit.clock import NS_PER_S

_QUOTAS = RESOURCES["", "v1", "resourcequotas"]


class ResourceQuotas:
    """Keys are quotas."""

    name = "resource-quotas"
    storages: Sequence[str] = tuple({r.storage: None for r in RESOURCES.values() if r.namespaced})
    rest_ns = NS_PER_S // 20
    """Creating many objects changes the usage with each: 20 statuses a second are enough."""

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Quotas that count objects of this storage. Hot: most namespaces have no quota, and then this is all there is
        to do."""
        namespace = write.key[0]
        accounts = self._api.quotas.of(namespace)
        return [
            (namespace, name)
            for name, account in accounts.items()
            if write.storage in account.storages or write.storage == _QUOTAS.storage
        ]

    def sync(self, key: Key) -> int | None:
        """Write the status if it differs. Returns when a pod's grace period ends, after which it counts no more."""
        account = self._api.quotas.of(key[0]).get(key[1])
        quota = self._api.find(_QUOTAS, *key)
        if account is None or quota is None:
            return None
        if quota.get("status") != account.status():
            self._api.put_status(_QUOTAS, quota, account.status())
        ends_ns = account.next_expiry_ns()
        return ends_ns + 1 if ends_ns is not None else None


CONTROLLERS = (ResourceQuotas,)
