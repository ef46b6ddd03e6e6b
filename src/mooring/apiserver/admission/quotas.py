"""The ResourceQuota admission: what the objects of a namespace use, counted with every write, and held to its quotas.

Counting is part of the write, and there is one thread, so two requests cannot both take the last of a quota.

Usage has the names that quotas use, and amounts are in nano-units. Pods count for compute resources, services for their
kinds, claims for storage, and every namespaced kind for `count/<plural>.<group>`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from mooring.api.api_errors import forbidden
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.nodes import RESOURCE_QUOTA
from mooring.api.kinds.pods import POD
from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.api.kinds.workloads import SERVICE
from mooring.api.validation.field_rules import amount
from mooring.apiserver.admission.object_meta import LONGEST_GRACE_S, name_of
from mooring.apiserver.admission.pod_plugins import qos_class
from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.names import is_extended_resource
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, PodSpec, PodStatus
from mooring.model.quantity import NANO, parse, scaled_decimal, shorter_text, to_int
from mooring.model.requests import HELD, Amounts, effective_limits, effective_requests
from mooring.rules.claims_and_volumes import class_of
from mooring.rules.pod_admission import pod_terms

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
        hard = {name: nano for name, text in _hard(quota).items() if (nano := amount(text)) is not None}
        counted = {name: kind for name in hard if (kind := kind_counted(name)) is not None}
        storages = frozenset(kind.storage for kind in counted.values())
        return cls(quota, hard, dict.fromkeys(counted, 0), storages)

    def concerns(self, resource: KindSpec, item: JsonObject) -> bool:
        """Whether an object counts for this quota: by kind, and for pods by the scopes."""
        return resource.storage in self.storages and covers(self.quota, item if resource is POD else None)

    def charge(self, resource: KindSpec, key: Key, item: JsonObject | None, now_ns: int) -> None:
        """Count the object as it is now; None: it is gone."""
        place = resource.storage, key
        for name, nano in self._charged.pop(place, {}).items():
            self.used[name] -= nano
        self._expiring.pop(place, None)
        if item is None or not self.concerns(resource, item):
            return
        charges = self.masked(usage_of(resource, item, now_ns))
        self._charged[place] = charges
        for name, nano in charges.items():
            self.used[name] += nano
        ends_ns = expiry_ns(resource, item)
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
            why = missing_amounts(new, account.used) if resource is POD else ""
            if why:
                raise forbidden(resource.plural, name_of(new), f"failed quota: {name}: {why}", resource.group)
        usage = usage_of(resource, new, self._now_ns()) if concerned else {}
        for name, account in concerned:
            before = usage_of(resource, old, self._now_ns()) if old and account.concerns(resource, old) else {}
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


# ---- scopes


def covers(quota: JsonObject, pod: JsonObject | None) -> bool:
    """Whether all scopes hold for a pod. None stands for an object of another kind, for which no scope holds."""
    return all(pod is not None and _holds(scope, pod) for scope in _scopes(quota.get("spec", {})))


def _scopes(spec: JsonObject) -> Iterator[JsonObject]:
    """The older `scopes`, as the expressions that they stand for, and `scopeSelector`."""
    for name in spec.get("scopes", ()):
        yield {"scopeName": name, "operator": "Exists"}
    yield from spec.get("scopeSelector", {}).get("matchExpressions", ())


def _holds(scope: JsonObject, pod: JsonObject) -> bool:
    """Whether one scope holds for a pod. An unknown scope holds for none, so its quota counts nothing."""
    spec = pod["spec"]
    match scope.get("scopeName"):
        case "Terminating":
            return _is_limited_in_time(spec)
        case "NotTerminating":
            return not _is_limited_in_time(spec)
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _has_class(scope, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or "namespaceSelector" in term for term in pod_terms(spec))
    return False


def _is_limited_in_time(spec: JsonObject) -> bool:
    """Parity: `Terminating` is about a deadline, not about a deletion."""
    return bool(spec.get("activeDeadlineSeconds", -1) >= 0)


def _has_class(scope: JsonObject, name: str) -> bool:
    """The scope PriorityClass, by its operator."""
    match scope.get("operator"):
        case "In":
            return bool(name) and name in scope.get("values", ())
        case "NotIn":
            return name not in scope.get("values", ())
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
    return False


# ---- names

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
"""Resources that a quota names with and without `requests.`."""
_POD_NAMES = frozenset(
    (*_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE), "pods")
)
"""The names that pods count for, besides hugepages and extended resources."""
_POD_PREFIXES = ("hugepages-", "requests.hugepages-")
_SERVICE_NAMES = frozenset(("services", "services.nodeports", "services.loadbalancers"))
_BY_CLASS = ".storageclass.storage.k8s.io/"
"""Between a storage class and what is counted for it: `gold.storageclass.storage.k8s.io/requests.storage`."""
_CLAIM_NAMES = frozenset(("persistentvolumeclaims", "requests.storage"))
_ALIASES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Kinds that quotas could count by their plain names before `count/` came."""


def count_name(resource: KindSpec) -> str:
    """`count/deployments.apps`: what every namespaced kind can be counted by."""
    return f"count/{resource.resource}"


_COUNTS: Mapping[str, KindSpec] = {
    **{count_name(resource): resource for resource in RESOURCES.values() if resource.namespaced},
    **{plural: RESOURCES["", "v1", plural] for plural in _ALIASES},
}
"""The kind that a name counts the objects of."""


def kind_counted(name: str) -> KindSpec | None:
    """Which kind of object counts for a name in a quota; None: nothing here does."""
    if name in _POD_NAMES or name.startswith(_POD_PREFIXES):
        return POD
    if name in _SERVICE_NAMES:
        return SERVICE
    if name in _CLAIM_NAMES or name.partition(_BY_CLASS)[2] in _CLAIM_NAMES:
        return PERSISTENT_VOLUME_CLAIM
    if name.startswith("requests.") and is_extended_resource(name.removeprefix("requests.")):
        return POD
    return _COUNTS.get(name)


def usage_of(resource: KindSpec, item: JsonObject, now_ns: int) -> Amounts:
    """Amounts that an object uses of each resource of a quota, in nano-units."""
    counts = ((name, _COUNTS.get(name)) for name in (count_name(resource), resource.plural))
    names = [name for name, kind in counts if kind is not None and kind.storage == resource.storage]
    counted: Amounts = dict.fromkeys(names, NANO)
    measure = _MEASURES.get(resource.storage)
    return counted | (measure(item, now_ns) if measure is not None else {})


def expiry_ns(resource: KindSpec, item: JsonObject) -> int | None:
    """When a pod stops counting though no write changes it: its deletion has taken twice its grace; None: never."""
    meta = item["metadata"]
    if resource is not POD or "deletionTimestamp" not in meta:
        return None
    grace_s = min(meta.get("deletionGracePeriodSeconds") or 0, LONGEST_GRACE_S)
    return moment_ns(meta["deletionTimestamp"]) + grace_s * NS_PER_S


# ---- pods


def _pod(pod: JsonObject, now_ns: int) -> Amounts:
    """A pod counts until it has finished, or until its grace is over twice: its node may be lost."""
    if pod.get("status", {}).get("phase") in FINISHED_PHASES:
        return {}
    ends_ns = expiry_ns(POD, pod)
    if ends_ns is not None and now_ns > ends_ns:
        return {}
    spec = msgspec.convert(pod["spec"], PodSpec)
    status = msgspec.convert(pod.get("status", {}), PodStatus)
    asked = effective_requests(Pod(spec=spec, status=status), HELD)
    return {"pods": NANO} | _compute_names(asked, effective_limits(Pod(spec=spec)))


def _compute_names(asked: Mapping[str, int], limits: Mapping[str, int]) -> Amounts:
    """The names under which requests and limits count. Parity: of limits, only compute resources count."""
    used: Amounts = {}
    for name, nano in asked.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = nano
        elif is_extended_resource(name):
            used[f"requests.{name}"] = nano
    return used | {f"limits.{name}": nano for name, nano in limits.items() if name in _COMPUTE}


_REQUIRED = frozenset(name for name in _POD_NAMES if name.endswith(("cpu", "memory")))
"""Parity: a quota for one of these makes every container say how much of it it wants."""


def missing_amounts(pod: JsonObject, hard: Mapping[str, object]) -> str:
    """The amounts that containers must name under a quota and do not, in upstream's words; empty: nothing."""
    spec = pod["spec"]
    whole = spec.get("resources", {})
    if whole.get("requests") or whole.get("limits"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        resources = container.get("resources", {})
        said = _compute_names(
            dict.fromkeys(resources.get("requests", {}), 0), dict.fromkeys(resources.get("limits", {}), 0)
        )
        for name in _REQUIRED.intersection(hard) - said.keys():
            missing.setdefault(name, set()).add(container["name"])
    told = (f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items()))
    return f"must specify {'; '.join(told)}" if missing else ""


# ---- other kinds


def _service(service: JsonObject, now_ns: int) -> Amounts:
    """A service counts as one, for the node ports that it gets, and as a load balancer where it is one."""
    spec = service.get("spec", {})
    ports, kind = spec.get("ports", ()), spec.get("type")
    used = {"services": NANO, "services.nodeports": 0, "services.loadbalancers": 0}
    if kind in ("NodePort", "LoadBalancer"):
        if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        used["services.nodeports"] = len(ports) * NANO
        used["services.loadbalancers"] = NANO if kind == "LoadBalancer" else 0
    return used


def _claim(claim: JsonObject, now_ns: int) -> Amounts:
    """A claim counts for the larger of what it asks for and what it was given, altogether and for its class."""
    spec = claim.get("spec", {})
    used = {"persistentvolumeclaims": NANO}
    asked = spec.get("resources", {}).get("requests", {}).get("storage")
    if asked is not None:
        granted = claim.get("status", {}).get("allocatedResources", {}).get("storage", 0)
        used["requests.storage"] = to_int(max(parse(asked), parse(granted))) * NANO
    name = class_of(claim)
    return used | ({f"{name}{_BY_CLASS}{key}": nano for key, nano in used.items()} if name else {})


_MEASURES: Mapping[str, Callable[[JsonObject, int], Amounts]] = {
    POD.storage: _pod,
    SERVICE.storage: _service,
    PERSISTENT_VOLUME_CLAIM.storage: _claim,
}
"""The usage of objects of a storage besides their number."""
