"""The ResourceQuota admission: what the objects of a namespace use, counted with every write, and held to its quotas.

Counting is part of the write, and there is one thread, so two requests cannot both take the last of a quota.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mooring.api.api_errors import forbidden
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.nodes import RESOURCE_QUOTA
from mooring.api.kinds.pods import POD
from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.api.kinds.workloads import SERVICE
from mooring.apiserver.admission import quota_usage
from mooring.apiserver.admission.object_meta import name_of
from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.model.quantity import QuantityError, parse, scaled_decimal, shorter_text

_BY_STORAGE: Mapping[str, KindSpec] = {r.storage: r for r in RESOURCES.values() if r.namespaced}
"""The kinds that quotas can count, by where their objects are stored."""

Charges = dict[str, int]
"""Amounts by name, in nano-units."""


@dataclass(slots=True)
class QuotaAccount:
    """One quota, and what is charged to it. `used` has an entry for each name of `hard` that something counts for."""

    quota: JsonObject
    hard: Charges = field(default_factory=dict)
    used: Charges = field(default_factory=dict)
    storages: frozenset[str] = frozenset()
    """The storages of objects that count for any of its names: writes elsewhere are none of its concern."""
    _charged: dict[tuple[str, Key], Charges] = field(default_factory=dict)
    """The charges of each object, to take off again when it changes or goes."""
    _expiring: dict[tuple[str, Key], int] = field(default_factory=dict)
    _soonest_ns: int | None = None
    """Nothing expires before this moment, so that a look costs nothing while many objects are being deleted."""

    @classmethod
    def of(cls, quota: JsonObject) -> "QuotaAccount":
        """An empty account. Amounts that cannot be read limit nothing."""
        hard = {name: nano for name, text in _hard(quota).items() if (nano := _amount(text)) is not None}
        counted = {name: kind for name in hard if (kind := quota_usage.kind_counted(name)) is not None}
        storages = frozenset(kind.storage for kind in counted.values())
        return cls(quota, hard, dict.fromkeys(counted, 0), storages)

    def concerns(self, resource: KindSpec, item: JsonObject) -> bool:
        """Whether an object counts for this quota: by kind, and for pods by the scopes."""
        return resource.storage in self.storages and quota_usage.covers(self.quota, item if resource is POD else None)

    def charge(self, resource: KindSpec, key: Key, item: JsonObject | None, now_ns: int) -> None:
        """Count the object as it is now; None: it is gone."""
        place = resource.storage, key
        for name, nano in self._charged.pop(place, {}).items():
            self.used[name] -= nano
        self._expiring.pop(place, None)
        if item is None or not self.concerns(resource, item):
            return
        charges = self.masked(quota_usage.usage_of(resource, item, now_ns))
        self._charged[place] = charges
        for name, nano in charges.items():
            self.used[name] += nano
        ends_ns = quota_usage.expiry_ns(resource, item)
        if ends_ns is not None and now_ns <= ends_ns:
            self._expiring[place] = ends_ns
            self._soonest_ns = ends_ns if self._soonest_ns is None else min(self._soonest_ns, ends_ns)

    def masked(self, usage: Charges) -> Charges:
        """The part of a usage that this quota has a name for."""
        return {name: nano for name, nano in usage.items() if name in self.used}

    def expired(self, now_ns: int) -> list[tuple[str, Key]]:
        """The objects to charge anew because their time is over."""
        if self._soonest_ns is None or now_ns <= self._soonest_ns:
            return []
        over = {place for place, ends_ns in self._expiring.items() if now_ns > ends_ns}
        self._soonest_ns = min((ends for place, ends in self._expiring.items() if place not in over), default=None)
        return list(over)

    def next_expiry_ns(self) -> int | None:
        return min(self._expiring.values(), default=None)

    def status(self) -> JsonObject:
        """As the quota is to say it. Names that nothing counts for have no usage, as upstream."""
        return {"hard": _hard(self.quota), "used": {name: shown(name, nano) for name, nano in self.used.items()}}


class Quotas:
    """The accounts of all namespaces. It listens to every write to the store, and so is always up to date."""

    def __init__(self, store: Store, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._now_ns = now_ns
        self._accounts: dict[str, dict[str, QuotaAccount]] = {}
        for quota in store.all(RESOURCE_QUOTA.storage):
            self._open(quota)
        store.listen(self._hear)

    def of(self, namespace: str) -> dict[str, QuotaAccount]:
        """The accounts of a namespace by the names of their quotas, up to date."""
        accounts = self._accounts.get(namespace, {})
        for account in accounts.values():
            for storage, key in account.expired(self._now_ns()):
                account.charge(_BY_STORAGE[storage], key, self._store.find(storage, key), self._now_ns())
        return accounts

    # ---- admission

    def check_create(self, resource: KindSpec, item: JsonObject) -> None:
        """Refuse an object that exceeds a quota, or that does not say how much it wants where a quota requires that.
        Raises 403."""
        if self._accounts and resource.namespaced:
            self._check(resource, None, item)

    def check_change(self, resource: KindSpec, old: JsonObject, new: JsonObject, subresource: str) -> None:
        """Refuse an update that exceeds a quota. Most changes cannot use more than before and are not checked. Raises 403."""
        if self._accounts and resource.namespaced and _can_use_more(resource, old, new, subresource):
            self._check(resource, old, new)

    def _check(self, resource: KindSpec, old: JsonObject | None, new: JsonObject) -> None:
        """Refuse what a quota does not allow, in upstream's order: first what must be said, then what is too much.
        Raises 403."""
        accounts = self.of(new["metadata"].get("namespace", ""))
        concerned = [(name, account) for name, account in sorted(accounts.items()) if account.concerns(resource, new)]
        for name, account in concerned:
            why = quota_usage.missing_amounts(new, account.used) if resource is POD else ""
            if why:
                raise forbidden(resource.plural, name_of(new), f"failed quota: {name}: {why}", resource.group)
        usage = quota_usage.usage_of(resource, new, self._now_ns()) if concerned else {}
        for name, account in concerned:
            before = (
                quota_usage.usage_of(resource, old, self._now_ns()) if old and account.concerns(resource, old) else {}
            )
            more = {key: nano - before.get(key, 0) for key, nano in account.masked(usage).items()}
            why = _excess(account, {key: nano for key, nano in more.items() if nano > 0})
            if why:
                raise forbidden(resource.plural, name_of(new), f"exceeded quota: {name}, {why}", resource.group)

    # ---- counting

    def _hear(self, write: StoreWrite) -> None:
        """Charge a write. Hot: without quotas this is one comparison."""
        if write.storage == RESOURCE_QUOTA.storage:
            self._hear_quota(write)
        if not self._accounts:
            return
        resource = _BY_STORAGE.get(write.storage)
        accounts = self._accounts.get(write.key[0]) if resource is not None else None
        if accounts is None or resource is None:
            return
        item = write.object if write.type != "DELETED" else None
        for account in accounts.values():
            if write.storage in account.storages:
                account.charge(resource, write.key, item, self._now_ns())

    def _hear_quota(self, write: StoreWrite) -> None:
        """A quota with another spec counts from the beginning; a new status alone, which a controller writes, changes
        nothing."""
        namespace, name = write.key
        if write.type == "DELETED":
            accounts = self._accounts.get(namespace, {})
            accounts.pop(name, None)
            if not accounts:
                self._accounts.pop(namespace, None)
        elif write.before is None or write.before.get("spec") != write.object.get("spec"):
            self._open(write.object)

    def _open(self, quota: JsonObject) -> None:
        """Count everything that is there already."""
        namespace, name = quota["metadata"]["namespace"], name_of(quota)
        account = QuotaAccount.of(quota)
        for storage in account.storages:
            for item in self._store.all(storage):
                if item["metadata"].get("namespace") == namespace:
                    account.charge(_BY_STORAGE[storage], (namespace, name_of(item)), item, self._now_ns())
        self._accounts.setdefault(namespace, {})[name] = account


def _can_use_more(resource: KindSpec, old: JsonObject, new: JsonObject, subresource: str) -> bool:
    """Whether a change is held to quotas, as upstream sees it: most changes cannot use more than there was."""
    if resource is POD:
        has_deadline = ["activeDeadlineSeconds" in pod["spec"] for pod in (old, new)]
        return subresource == "resize" or (not subresource and has_deadline[0] != has_deadline[1])
    return not subresource and resource in (SERVICE, PERSISTENT_VOLUME_CLAIM)


def _excess(account: QuotaAccount, more: Charges) -> str:
    """The names that exceed the quota, in upstream's words; empty: everything can."""
    beyond = sorted(name for name, nano in more.items() if account.used[name] + nano > account.hard[name])
    if not beyond:
        return ""
    hard = _hard(account.quota)
    wanted, used = (",".join(f"{name}={shown(name, of[name])}" for name in beyond) for of in (more, account.used))
    return f"requested: {wanted}, used: {used}, limited: {','.join(f'{name}={hard[name]}' for name in beyond)}"


def shown(name: str, nano: int) -> str:
    """Bytes may be written in powers of two, everything else is not."""
    is_bytes = "memory" in name or "storage" in name.rpartition("/")[2] or "hugepages-" in name
    return shorter_text(nano) if is_bytes else scaled_decimal(nano)


def _hard(quota: JsonObject) -> JsonObject:
    """The limits as they are written."""
    hard: JsonObject = quota.get("spec", {}).get("hard", {})
    return hard


def _amount(text: object) -> int | None:
    """A quantity in nano-units; None for what is no quantity."""
    try:
        return parse(text) if isinstance(text, (str, int, float)) else None
    except QuantityError:
        return None
