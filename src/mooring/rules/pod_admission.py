"""Admission of pods: what the API server's admission plugins add to a new pod.

Callers pass the objects of the cluster that a plugin reads. Functions change plain JSON in place. What is wrong with a
pod they return as a value: the API server rejects the request, a simulation reports the manifest.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mooring.api.json_objects import JsonObject
from mooring.api.validation.field_rules import amount
from mooring.model.node import COMPARISON_GATE, COMPARISON_OPERATORS, NO_EXECUTE
from mooring.model.pod_spec import PREFERRED_TERMS, REQUIRED_TERMS
from mooring.model.quantity import NANO, parse, shorter_text
from mooring.model.workloads import PREEMPT_LOWER_PRIORITY, SYSTEM_PRIORITIES

# ---- Fields of pods that a cluster admits only with a feature gate. Gates that are not named have their defaults.


LABEL_KEYS_GATE = "MatchLabelKeysInPodTopologySpread"
TOLERATION_OPERATORS = ("Equal", "Exists", *COMPARISON_OPERATORS)
"""Parity: upstream names Lt and Gt as supported even where it refuses them because of the gate."""


def gated_operators(spec: JsonObject, gates: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Path in the spec, and operator, of each toleration that compares numbers, where that gate is off."""
    if gates.get(COMPARISON_GATE, False):
        return
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") in COMPARISON_OPERATORS:
            yield f"tolerations[{i}].operator", toleration["operator"]


def drop_disabled_fields(spec: JsonObject, gates: Mapping[str, bool]) -> None:
    """Take off what the API server drops from a new pod: fields whose gate is off."""
    if not gates.get("PodLevelResources", True):
        spec.pop("resources", None)
    if not gates.get(LABEL_KEYS_GATE, True):
        for constraint in spec.get("topologySpreadConstraints") or ():
            constraint.pop("matchLabelKeys", None)


_OLD_ANNOTATIONS = frozenset(
    f"pod.{stage}.kubernetes.io/init-container{end}" for stage in ("alpha", "beta") for end in ("s", "-statuses")
)
"""Annotations of Kubernetes 1.5, before pods had init containers."""


def drop_old_annotations(metadata: JsonObject) -> None:
    """Take off the annotations that once stood for init containers: API servers never store them."""
    held = metadata.get("annotations") or {}
    if _OLD_ANNOTATIONS & held.keys():
        metadata["annotations"] = {key: value for key, value in held.items() if key not in _OLD_ANNOTATIONS}


def merges_spread_keys(gates: Mapping[str, bool]) -> bool:
    """Whether the API server writes matchLabelKeys of spread constraints into their selectors."""
    return gates.get(LABEL_KEYS_GATE, True) and gates.get(f"{LABEL_KEYS_GATE}SelectorMerge", True)


DEFAULT_TOLERATION_S = 300
"""kube-apiserver's default of --default-not-ready-toleration-seconds and --default-unreachable-toleration-seconds."""
NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""The keys of the NoExecute taints that the node lifecycle controller sets."""

# ---- Priority


class PodPriority(NamedTuple):
    """The priority that a pod gets from its PriorityClass."""

    class_name: str
    value: int
    policy: str


def priority_of(wanted: str, found: JsonObject | None, default: JsonObject | None) -> PodPriority | None:
    """The priority of a pod that names the class `wanted`; None if there is no such class.

    `found` is the class of that name, `default` the one for pods that name none. The two system classes always exist: a
    server creates them at its start, and a simulation may come without them.
    """
    if not wanted:
        found = default or {"metadata": {"name": ""}}
    elif found is None and wanted in SYSTEM_PRIORITIES:
        found = {"metadata": {"name": wanted}, "value": SYSTEM_PRIORITIES[wanted]}
    if found is None:
        return None
    policy = found.get("preemptionPolicy") or PREEMPT_LOWER_PRIORITY
    return PodPriority(found["metadata"]["name"], found.get("value", 0), policy)


def global_default(classes: Iterable[JsonObject]) -> JsonObject | None:
    """The class for pods that name none. Of several that are marked, the one with the lowest value, as upstream."""
    marked = (held for held in classes if held.get("globalDefault"))
    return min(marked, key=lambda held: (held.get("value", 0), held["metadata"]["name"]), default=None)


# ---- LimitRanger


def add_limits(spec: JsonObject, item: JsonObject) -> Iterator[str]:
    """Give containers the requests and limits that they lack; `item` is an item of a LimitRange.

    Yields what it gave, in the words of LimitRanger's annotation. Call it before validation: limits that it gives count.
    """
    if item.get("type") != "Container":
        return
    for group, what in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(group, ()):
            resources = container.setdefault("resources", {})
            for part, default, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
                held = resources.get(part, {})
                given = {name: text for name, text in item.get(default, {}).items() if name not in held}
                if given:
                    resources[part] = {**held, **given}
                    yield f"{', '.join(sorted(given))} {word} for {what} {container.get('name', '')}"


def limit_faults(spec: JsonObject, item: JsonObject) -> Iterator[str]:
    """The bounds that the pod, or a container of it, does not keep."""
    if item.get("type") == "Container":
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            resources = container.get("resources", {})
            yield from _Bounds(
                "Container", _resource_amounts(resources, "requests"), _resource_amounts(resources, "limits")
            ).broken(item)
    elif item.get("type") == "Pod":
        yield from _Bounds("Pod", _total(spec, "requests"), _total(spec, "limits")).broken(item)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """One container, or one pod, against the bounds of one item of a LimitRange. Amounts are in nano-units."""

    what: str
    asked: dict[str, int]
    limits: dict[str, int]

    def broken(self, item: JsonObject) -> Iterator[str]:
        """Every bound of the item that does not hold, in LimitRanger's words."""
        for name, text in item.get("min", {}).items():
            yield from self._below(name, parse(text))
        for name, text in item.get("max", {}).items():
            yield from self._above(name, parse(text))
        for name, text in item.get("maxLimitRequestRatio", {}).items():
            yield from self._apart(name, amount(text) or 0)

    def _below(self, name: str, bound: int) -> Iterator[str]:
        """A minimum holds for what is asked, and for the limit where there is one."""
        rule = f"minimum {name} usage per {self.what} is {shorter_text(bound)}"
        if name not in self.asked:
            yield f"{rule}.  No request is specified"
        elif self.asked[name] < bound:
            yield f"{rule}, but request is {shorter_text(self.asked[name])}"
        elif name in self.limits and self.limits[name] < bound:
            yield f"{rule}, but limit is {shorter_text(self.limits[name])}"

    def _above(self, name: str, bound: int) -> Iterator[str]:
        """A maximum needs a limit, and holds for the request as well."""
        rule = f"maximum {name} usage per {self.what} is {shorter_text(bound)}"
        if name not in self.limits:
            yield f"{rule}.  No limit is specified"
        elif self.limits[name] > bound:
            yield f"{rule}, but limit is {shorter_text(self.limits[name])}"
        elif self.asked.get(name, 0) > bound:
            yield f"{rule}, but request is {shorter_text(self.asked[name])}"

    def _apart(self, name: str, ratio: int) -> Iterator[str]:
        """The limit may be at most so many times the request; without both the ratio cannot hold."""
        if not ratio:
            return
        rule = f"{name} max limit to request ratio per {self.what} is {shorter_text(ratio)}"
        if not self.asked.get(name):
            yield f"{rule}, but no request is specified or request is 0"
        elif not self.limits.get(name):
            yield f"{rule}, but no limit is specified or limit is 0"
        elif self.limits[name] * NANO > ratio * self.asked[name]:
            yield f"{rule}, but provided ratio is {self.limits[name] / self.asked[name]:f}"


def _resource_amounts(resources: JsonObject, group: str) -> dict[str, int]:
    """Requests or limits in nano-units."""
    return {name: parse(text) for name, text in resources.get(group, {}).items()}


def _total(spec: JsonObject, group: str) -> dict[str, int]:
    """The amounts of all containers together, or one init container alone where that is more."""
    total: dict[str, int] = {}
    for name, nano in _each(spec.get("containers", ()), group):
        total[name] = total.get(name, 0) + nano
    for name, nano in _each(spec.get("initContainers", ()), group):
        total[name] = max(total.get(name, 0), nano)
    return total


def _each(containers: Iterable[JsonObject], group: str) -> Iterator[tuple[str, int]]:
    for container in containers:
        yield from _resource_amounts(container.get("resources", {}), group).items()


# ---- DefaultTolerationSeconds


def add_tolerations(spec: JsonObject) -> None:
    """A pod stays for five minutes on a node that is not ready or unreachable, unless its own tolerations cover that.

    A toleration with an empty key or an empty effect covers every key or effect.
    """
    held = list(spec.get("tolerations", ()))
    for trouble in NODE_TROUBLES:
        if not any(t.get("key", "") in (trouble, "") and t.get("effect", "") in (NO_EXECUTE, "") for t in held):
            given = {"key": trouble, "operator": "Exists", "effect": NO_EXECUTE}
            held.append(given | {"tolerationSeconds": DEFAULT_TOLERATION_S})
    spec["tolerations"] = held


# ---- RuntimeClass


def overhead_fault(own: JsonObject, given: JsonObject) -> str:
    """Why a server rejects a pod with the overhead `own` whose class has the overhead `given`; empty if it does not."""
    if own and not given:
        return "Pod Overhead set without corresponding RuntimeClass defined Overhead"
    return "Pod's Overhead doesn't match RuntimeClass's defined Overhead" if own and own != given else ""


def add_runtime(spec: JsonObject, runtime_class: JsonObject) -> None:
    """Add overhead, node selector and tolerations of the runtime class. Ask `selector_conflicts` before: this overrides."""
    overhead = overhead_of(runtime_class)
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = runtime_class.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    if scheduling.get("tolerations"):
        spec["tolerations"] = _joined(spec.get("tolerations") or [], scheduling["tolerations"])


def overhead_of(runtime_class: JsonObject) -> JsonObject:
    """The resources that the runtime itself takes for each pod, beside the containers."""
    found: JsonObject = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    return found


def selector_conflicts(spec: JsonObject, runtime_class: JsonObject) -> Iterator[tuple[str, str, str]]:
    """(key, value of the class, value of the pod) of each label on which the node selectors of the two differ."""
    own = spec.get("nodeSelector") or {}
    for key, value in ((runtime_class.get("scheduling") or {}).get("nodeSelector") or {}).items():
        if own.get(key, value) != value:
            yield key, value, own[key]


# ---- what the API server's pod strategy adds


def merge_label_keys(pod: JsonObject, merges_spread: bool = True) -> None:
    """matchLabelKeys and mismatchLabelKeys become requirements of the selector, so that schedulers read only selectors.

    A key that the pod has no label for adds nothing, and neither does a term without a selector. `merges_spread`: whether
    spread constraints are merged too, or only terms of pod affinity.
    """
    labels = pod["metadata"].get("labels") or {}
    spread = pod["spec"].get("topologySpreadConstraints", ()) if merges_spread else ()
    for term in (*pod_terms(pod["spec"]), *spread):
        if "labelSelector" not in term:
            continue
        lines = [*_lines(labels, term, "matchLabelKeys", "In"), *_lines(labels, term, "mismatchLabelKeys", "NotIn")]
        if lines:
            held = term["labelSelector"].get("matchExpressions", [])
            term["labelSelector"] = {**term["labelSelector"], "matchExpressions": _joined(held, lines)}


def _lines(labels: JsonObject, term: JsonObject, group: str, operator: str) -> Iterator[JsonObject]:
    for key in term.get(group, ()):
        if key in labels:
            yield {"key": key, "operator": operator, "values": [labels[key]]}


def pod_terms(spec: JsonObject) -> Iterator[JsonObject]:
    """All terms of pod affinity and anti-affinity, the required before the preferred."""
    for group in ("podAffinity", "podAntiAffinity"):
        held = spec.get("affinity", {}).get(group, {})
        yield from held.get(REQUIRED_TERMS, ())
        for weighted in held.get(PREFERRED_TERMS, ()):
            yield weighted.get("podAffinityTerm", {})


def _joined(held: Iterable[JsonObject], added: Iterable[JsonObject]) -> list[JsonObject]:
    """`held`, then the lines of `added` that it lacks. Compared as text in a set: a pod may have thousands of lines, and
    comparing each with each takes quadratic time."""
    known = {json.dumps(line, sort_keys=True) for line in held}
    return [*held, *(line for line in added if json.dumps(line, sort_keys=True) not in known)]
