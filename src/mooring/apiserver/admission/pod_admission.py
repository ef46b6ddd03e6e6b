"""What admission does to a new pod after defaulting, in kube-apiserver's order."""

from collections.abc import Iterable, Iterator

from mooring.apiserver.admission.limit_ranges import apply_limit_ranges
from mooring.apiserver.admission.priority import set_priority
from mooring.apiserver.admission.qos import qos_class
from mooring.apiserver.lookups import JsonObject, Lookups, name_of
from mooring.apiserver.patches.merge_keys import compact
from mooring.model.api_errors import ApiError, forbidden, quoted
from mooring.model.node import NO_EXECUTE
from mooring.model.pod_defaults import DEFAULT_TOLERATION_S, NODE_TROUBLES

TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
GATED = "Scheduling is blocked due to non-empty scheduling gates"


def admit_pod(pod: JsonObject, cluster: Lookups) -> None:
    apply_limit_ranges(pod, cluster)
    set_priority(pod, cluster)
    add_tolerations(pod["spec"])
    _add_runtime(pod, cluster)
    if pod["spec"].get("nodeName"):
        add_topology(pod, cluster.node(pod["spec"]["nodeName"]))


def finish_pod(pod: JsonObject, now: str) -> None:
    """The strategy's part: a status that no client can choose, and selectors that schedulers can read as they are."""
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        condition = {"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        pod["status"]["conditions"] = [condition | {"reason": "SchedulingGated", "message": GATED}]
    merge_label_keys(pod)


def add_tolerations(spec: JsonObject) -> None:
    """A pod stays for five minutes on a node in trouble, unless it says otherwise."""
    held = list(spec.get("tolerations", ()))
    for trouble in NODE_TROUBLES:
        if not any(t.get("key", "") in (trouble, "") and t.get("effect", "") in (NO_EXECUTE, "") for t in held):
            given = {"key": trouble, "operator": "Exists", "effect": NO_EXECUTE}
            held.append(given | {"tolerationSeconds": DEFAULT_TOLERATION_S})
    spec["tolerations"] = held


def add_topology(pod: JsonObject, node: JsonObject | None) -> None:
    """Where a pod runs is written onto it, because containers can read their pod's labels but not their node's."""
    held = (node or {}).get("metadata", {}).get("labels", {})
    found = {key: held[key] for key in TOPOLOGY_LABELS if key in held}
    if found:
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **found}


def _add_runtime(pod: JsonObject, cluster: Lookups) -> None:
    """Overhead, node selector and tolerations of the runtime class."""
    spec = pod["spec"]
    wanted = spec.get("runtimeClassName", "")
    given = cluster.runtime_class(wanted) if wanted else {}
    if given is None:
        raise _forbid(pod, f"pod rejected: RuntimeClass {quoted(wanted)} not found")
    _add_overhead(pod, given.get("overhead", {}).get("podFixed", {}))
    scheduling = given.get("scheduling", {})
    own = spec.get("nodeSelector", {})
    for key, value in scheduling.get("nodeSelector", {}).items():
        if own.get(key, value) != value:
            sides = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own[key]}"
            raise _forbid(pod, f"conflict: {sides}")
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), key: value}
    held = spec.get("tolerations", [])
    spec["tolerations"] = _joined(held, scheduling.get("tolerations", ()))


def _add_overhead(pod: JsonObject, given: JsonObject) -> None:
    own = pod["spec"].get("overhead", {})
    if own and not given:
        raise _forbid(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if own and own != given:
        raise _forbid(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if given:
        pod["spec"]["overhead"] = dict(given)


def merge_label_keys(pod: JsonObject) -> None:
    """matchLabelKeys and mismatchLabelKeys become lines of the selector: schedulers read only that."""
    labels = pod["metadata"].get("labels", {})
    for term in (*_pod_terms(pod["spec"]), *pod["spec"].get("topologySpreadConstraints", ())):
        if "labelSelector" not in term:
            continue
        lines = [*_lines(labels, term, "matchLabelKeys", "In"), *_lines(labels, term, "mismatchLabelKeys", "NotIn")]
        held = term["labelSelector"].get("matchExpressions", [])
        merged = _joined(held, lines)
        if merged:
            term["labelSelector"] = {**term["labelSelector"], "matchExpressions": merged}


def _joined(held: Iterable[JsonObject], added: Iterable[JsonObject]) -> list[JsonObject]:
    """What is held, then what is added and not held yet."""
    known = {compact(line) for line in held}
    return [*held, *(line for line in added if compact(line) not in known)]


def _lines(labels: JsonObject, term: JsonObject, group: str, operator: str) -> Iterator[JsonObject]:
    for key in term.get(group, ()):
        if key in labels:
            yield {"key": key, "operator": operator, "values": [labels[key]]}


def _pod_terms(spec: JsonObject) -> Iterator[JsonObject]:
    for group in ("podAffinity", "podAntiAffinity"):
        held = spec.get("affinity", {}).get(group, {})
        yield from held.get("requiredDuringSchedulingIgnoredDuringExecution", ())
        for weighted in held.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            yield weighted.get("podAffinityTerm", {})


def _forbid(pod: JsonObject, why: str) -> ApiError:
    return forbidden("pods", name_of(pod), why)
