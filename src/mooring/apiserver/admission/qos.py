"""The quality-of-service class of a pod, which follows from its requests and limits alone."""

from mooring.model.json_objects import JsonObject
from mooring.model.quantity import parse

_COUNTED = ("cpu", "memory")
Amounts = dict[str, int]


def qos_class(spec: JsonObject) -> str:
    """Guaranteed: limits for both resources in every container, and nothing asked beyond or below them."""
    parts = _parts(spec)
    asked, limits = _sum(parts, "requests"), _sum(parts, "limits")
    if not asked and not limits:
        return "BestEffort"
    limited = all(len(_amounts(part, "limits")) == len(_COUNTED) for part in parts)
    return "Guaranteed" if limited and asked == limits else "Burstable"


def _parts(spec: JsonObject) -> list[JsonObject]:
    """Resources of the pod as a whole, where they are set, stand for those of its containers."""
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return [whole]
    return [c.get("resources") or {} for c in (*spec.get("initContainers", ()), *spec.get("containers", ()))]


def _sum(parts: list[JsonObject], group: str) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, nano in _amounts(part, group).items():
            total[name] = total.get(name, 0) + nano
    return total


def _amounts(resources: JsonObject, group: str) -> Amounts:
    written = resources.get(group) or {}
    amounts = {name: parse(written[name]) for name in _COUNTED if name in written}
    return {name: nano for name, nano in amounts.items() if nano > 0}
