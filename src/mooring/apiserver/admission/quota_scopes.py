"""Which pods a ResourceQuota with scopes is about."""

from collections.abc import Iterator

from mooring.apiserver.admission.qos import qos_class
from mooring.model.json_objects import JsonObject


def covers(quota: JsonObject, pod: JsonObject | None) -> bool:
    """Whether all scopes hold for a pod. None stands for an object of another kind, for which no scope holds."""
    return all(pod is not None and _holds(scope, pod) for scope in _scopes(quota.get("spec", {})))


def _scopes(spec: JsonObject) -> Iterator[JsonObject]:
    for name in spec.get("scopes", ()):
        yield {"scopeName": name, "operator": "Exists"}
    yield from spec.get("scopeSelector", {}).get("matchExpressions", ())


def _holds(scope: JsonObject, pod: JsonObject) -> bool:
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
            return _looks_beyond(spec.get("affinity", {}))
    return False


def _is_limited_in_time(spec: JsonObject) -> bool:
    return bool(spec.get("activeDeadlineSeconds", -1) >= 0)


def _has_class(scope: JsonObject, name: str) -> bool:
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


def _looks_beyond(affinity: JsonObject) -> bool:
    for group in ("podAffinity", "podAntiAffinity"):
        held = affinity.get(group, {})
        preferred = held.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        terms = [
            *held.get("requiredDuringSchedulingIgnoredDuringExecution", ()),
            *(weighted.get("podAffinityTerm", {}) for weighted in preferred),
        ]
        if any(term.get("namespaces") or "namespaceSelector" in term for term in terms):
            return True
    return False
