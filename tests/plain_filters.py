"""Whether a node may take a pod, read from JSON with plain loops: one function for each filter plugin. Nothing
of Mooring is used, so that tests can hold its decisions against these."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from plain_amounts import is_overcommitted

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass
class World:
    """The objects of a cluster. Pods with a node have `spec.nodeName`."""

    nodes: dict[str, Json]
    pods: list[Json]
    namespaces: dict[str, dict[str, str]]
    """Labels by name."""

    def on(self, node: str) -> list[Json]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName") == node]

    def placed(self) -> list[tuple[Json, Json]]:
        """Pods with their nodes."""
        return [(pod, self.nodes[pod["spec"]["nodeName"]]) for pod in self.pods if pod["spec"].get("nodeName")]


def labels_of(item: Json) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


# ---- selectors


def admits(rule: Json, labels: dict[str, str]) -> bool:
    """One requirement on labels."""
    value, values = labels.get(rule["key"]), rule.get("values") or []
    match rule["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        number, bound = int(value or ""), int(values[0])
    except ValueError:
        return False
    return number > bound if rule["operator"] == "Gt" else number < bound


def selects(selector: Json | None, labels: dict[str, str]) -> bool:
    """A missing selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    pairs = (selector.get("matchLabels") or {}).items()
    rules = selector.get("matchExpressions") or []
    return all(labels.get(key) == value for key, value in pairs) and all(admits(rule, labels) for rule in rules)


# ---- nodes


def node_affinity(world: World, pod: Json, node: Json) -> bool:
    labels, spec = labels_of(node), pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in required["nodeSelectorTerms"]:
        rules, named = term.get("matchExpressions") or [], term.get("matchFields") or []
        is_met = all(admits(rule, labels) for rule in rules) and all(admits(rule, fields) for rule in named)
        if (rules or named) and is_met:
            return True
    return False


def tolerates(pod: Json, taint: Json) -> bool:
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def taint_toleration(world: World, pod: Json, node: Json) -> bool:
    taints = node["spec"].get("taints") or ()
    return all(tolerates(pod, taint) for taint in taints if taint["effect"] in ("NoSchedule", "NoExecute"))


def node_unschedulable(world: World, pod: Json, node: Json) -> bool:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return not node["spec"].get("unschedulable") or tolerates(pod, taint)


def host_ports(pod: Json) -> list[tuple[str, str, int]]:
    sidecars = [each for each in pod["spec"].get("initContainers", ()) if each.get("restartPolicy") == "Always"]
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in [*sidecars, *pod["spec"]["containers"]]
        for port in container.get("ports", ())
        if port.get("hostPort")
    ]


def node_ports(world: World, pod: Json, node: Json) -> bool:
    for other in world.on(node["metadata"]["name"]):
        for address, protocol, port in host_ports(other):
            for wanted in host_ports(pod):
                if wanted[1:] == (protocol, port) and (wanted[0] == address or "0.0.0.0" in (wanted[0], address)):
                    return False
    return True


def node_resources(world: World, pod: Json, node: Json) -> bool:
    return not is_overcommitted(node, world.on(node["metadata"]["name"]), pod)


# ---- other pods


def _means(world: World, owner: Json, term: Json, other: Json) -> bool:
    """Whether a term of one pod is about another pod."""
    namespace, wanted = other["metadata"]["namespace"], term.get("namespaceSelector")
    names = term.get("namespaces") or ([owner["metadata"]["namespace"]] if wanted is None else [])
    is_there = namespace in names or selects(wanted, world.namespaces.get(namespace, {}))
    return is_there and selects(term.get("labelSelector"), labels_of(other))


def _terms(pod: Json, kind: str) -> list[Json]:
    return ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or []


def _same_domain(one: Json, other: Json, key: str) -> bool:
    return key in labels_of(one) and labels_of(one)[key] == labels_of(other).get(key)


def pod_affinity(world: World, pod: Json, node: Json) -> bool:
    """Every term needs a pod in its domain, and only pods count that all terms are about. The first pod of its kind needs
    none."""
    terms = _terms(pod, "podAffinity")
    if any(term["topologyKey"] not in labels_of(node) for term in terms):
        return False
    wanted = [(other, there) for other, there in world.placed() if all(_means(world, pod, t, other) for t in terms)]
    found = [any(_same_domain(node, there, term["topologyKey"]) for _, there in wanted) for term in terms]
    if all(found):
        return True
    has_any = any(term["topologyKey"] in labels_of(there) for term in terms for _, there in wanted)
    return not has_any and all(_means(world, pod, term, pod) for term in terms)


def pod_anti_affinity(world: World, pod: Json, node: Json) -> bool:
    for other, there in world.placed():
        for owner, about in ((pod, other), (other, pod)):
            for term in _terms(owner, "podAntiAffinity"):
                if _means(world, owner, term, about) and _same_domain(node, there, term["topologyKey"]):
                    return False
    return True


def topology_spread(world: World, pod: Json, node: Json) -> bool:
    hard = [
        constraint
        for constraint in pod["spec"].get("topologySpreadConstraints") or ()
        if constraint["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    keys = [constraint["topologyKey"] for constraint in hard]
    return all(key in labels_of(node) for key in keys) and all(_is_even(world, pod, node, each, keys) for each in hard)


def _is_even(world: World, pod: Json, node: Json, constraint: Json, keys: Iterable[str]) -> bool:
    key = constraint["topologyKey"]

    def is_counted(there: Json) -> bool:
        if any(each not in labels_of(there) for each in keys):
            return False
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not node_affinity(world, pod, there):
            return False
        return constraint.get("nodeTaintsPolicy", "Ignore") != "Honor" or taint_toleration(world, pod, there)

    named = {each: labels_of(pod)[each] for each in constraint.get("matchLabelKeys", ()) if each in labels_of(pod)}
    selector = constraint.get("labelSelector")
    is_empty = selector is not None and not any(selector.values()) and not named

    def is_meant(other: Json) -> bool:
        if is_empty:
            return other is pod  # upstream counts no pods for an empty selector, but for the new one
        labels = labels_of(other)
        is_same = all(labels.get(each) == value for each, value in named.items())
        return is_same and selects(selector, labels)

    counts = {labels_of(there)[key]: 0 for there in world.nodes.values() if is_counted(there)}
    for other, there in world.placed():
        is_gone = other["metadata"].get("deletionTimestamp") is not None
        is_near = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if is_counted(there) and is_near and not is_gone and is_meant(other):
            counts[labels_of(there)[key]] += 1
    lowest = min(counts.values(), default=0)
    if len(counts) < constraint.get("minDomains", 1):
        lowest = 0
    skew = counts.get(labels_of(node)[key], 0) + is_meant(pod) - lowest
    return bool(skew <= constraint["maxSkew"])


FILTERS: dict[str, tuple[Callable[[World, Json, Json], bool], ...]] = {
    "NodeUnschedulable": (node_unschedulable,),
    "TaintToleration": (taint_toleration,),
    "NodeAffinity": (node_affinity,),
    "NodePorts": (node_ports,),
    "NodeResourcesFit": (node_resources,),
    "PodTopologySpread": (topology_spread,),
    "InterPodAffinity": (pod_affinity, pod_anti_affinity),
}
"""By plugin."""


def rejecting(world: World, pod: Json, node: Json, plugins: Iterable[str]) -> list[str]:
    """Which of these plugins reject a node."""
    return [name for name in plugins if not all(passes(world, pod, node) for passes in FILTERS[name])]
