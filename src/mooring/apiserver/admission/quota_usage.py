"""The usage of an object under a ResourceQuota, by the names that quotas use. Amounts are in nano-units.

Pods count for compute resources, services for their kinds, claims for storage, and every namespaced kind for
`count/<plural>.<group>`.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.pods import POD
from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.api.kinds.workloads import SERVICE
from mooring.apiserver.admission.object_meta import LONGEST_GRACE_S
from mooring.apiserver.admission.pod_plugins import qos_class
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.names import is_extended_resource
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, PodSpec, PodStatus
from mooring.model.quantity import NANO, parse, to_int
from mooring.model.requests import FILTER, HELD, Amounts, effective_requests
from mooring.rules.pod_admission import pod_terms
from mooring.rules.volume_rules import class_of

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
    return {"pods": NANO} | _compute_names(asked, _limits(pod["spec"]))


def _limits(spec: JsonObject) -> Amounts:
    """Limits add up as requests do; overhead counts only where there is a limit."""
    turned = {key: value for key, value in spec.items() if key != "overhead"}
    for group in ("containers", "initContainers"):
        turned[group] = [_with_limits_asked(container) for container in spec.get(group, ())]
    if "resources" in spec:
        turned = _with_limits_asked(turned)
    limits = effective_requests(Pod(spec=msgspec.convert(turned, PodSpec)), FILTER)
    overhead = spec.get("overhead", {})
    return {name: nano + parse(overhead.get(name, 0)) for name, nano in limits.items()}


def _with_limits_asked(item: JsonObject) -> JsonObject:
    """The container, or pod, as if it asked for its limits: so that limits add up by the rules of requests."""
    return {**item, "resources": {"requests": item.get("resources", {}).get("limits", {})}}


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
