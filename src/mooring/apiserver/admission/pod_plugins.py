"""Admission of a new pod after defaulting, in kube-apiserver's order.

`admit_pod` runs the plugins LimitRanger, Priority, DefaultTolerationSeconds, RuntimeClass and PodTopologyLabels;
`finish_pod` is the part of the pod's strategy. The rules themselves are in `rules.pod_admission`, where simulations use
them too; here is what needs other objects of the cluster, and what the server says when it refuses.
"""

from collections.abc import Mapping

from mooring.api.api_errors import ApiError, forbidden
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.nodes import LIMIT_RANGE, NODE, RUNTIME_CLASS
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import PRIORITY_CLASS
from mooring.apiserver.admission.object_meta import Lookups, name_of
from mooring.kit.shown_text import quoted
from mooring.model.names import TOPOLOGY
from mooring.model.quantity import parse
from mooring.rules import pod_admission as rules
from mooring.rules.pod_defaults import complete_whole

GATED = "Scheduling is blocked due to non-empty scheduling gates"
"""The message of the condition PodScheduled, which upstream's clients match."""


def admit_pod(pod: JsonObject, cluster: Lookups) -> None:
    """All admission plugins that change pods, in upstream's order: later ones see what earlier ones set."""
    rules.drop_disabled_fields(pod["spec"], cluster.gates)
    apply_limit_ranges(pod, cluster)
    set_priority(pod, cluster)
    rules.add_tolerations(pod["spec"])
    _add_runtime(pod, cluster)
    if pod["spec"].get("nodeName"):
        add_topology(pod, cluster.find(NODE, pod["spec"]["nodeName"]))


def finish_pod(pod: JsonObject, now: str, gates: Mapping[str, bool]) -> None:
    """The strategy's part: a status that no client can choose, and selectors that schedulers can read as they are."""
    complete_whole(pod["spec"])
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        condition = {"type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
        pod["status"]["conditions"] = [condition | {"reason": "SchedulingGated", "message": GATED}]
    rules.merge_label_keys(pod, rules.merges_spread_keys(gates))


def add_topology(pod: JsonObject, node: JsonObject | None) -> None:
    """Write the topology of the node onto its pod, because containers can read their pod's labels but not their node's."""
    held = (node or {}).get("metadata", {}).get("labels", {})
    found = {key: held[key] for key in TOPOLOGY if key in held}
    if found:
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **found}


def _add_runtime(pod: JsonObject, cluster: Lookups) -> None:
    """Give the pod what its RuntimeClass adds. Raises 403 where the class is missing or contradicts the pod."""
    wanted = pod["spec"].get("runtimeClassName", "")
    given = cluster.find(RUNTIME_CLASS, wanted) if wanted else {}
    if given is None:
        raise _forbid(pod, f"pod rejected: RuntimeClass {quoted(wanted)} not found")
    fault = rules.overhead_fault(pod["spec"].get("overhead", {}), rules.overhead_of(given))
    if fault:
        raise _forbid(pod, f"pod rejected: {fault}")
    for key, value, own in rules.selector_conflicts(pod["spec"], given):
        sides = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
        raise _forbid(pod, f"conflict: {sides}")
    rules.add_runtime(pod["spec"], given)


def _forbid(pod: JsonObject, why: str) -> ApiError:
    return forbidden("pods", name_of(pod), why)


# ---- QoS class


_COUNTED = ("cpu", "memory")
"""The resources that decide the QoS class."""
Amounts = dict[str, int]


def qos_class(spec: JsonObject) -> str:
    """Guaranteed: limits for both resources in every container, and nothing asked beyond or below them."""
    parts = _parts(spec)
    asked, limits = _sum(parts, "requests"), _sum(parts, "limits")
    if not asked and not limits:
        return "BestEffort"
    limited = all(len(_counted_amounts(part, "limits")) == len(_COUNTED) for part in parts)
    return "Guaranteed" if limited and asked == limits else "Burstable"


def _parts(spec: JsonObject) -> list[JsonObject]:
    """Resources of the pod as a whole, where they are set, stand for those of its containers."""
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return [whole]
    return [c.get("resources") or {} for c in (*spec.get("initContainers", ()), *spec.get("containers", ()))]


def _sum(parts: list[JsonObject], group: str) -> Amounts:
    """The amounts of all parts together, by resource."""
    total: Amounts = {}
    for part in parts:
        for name, nano in _counted_amounts(part, group).items():
            total[name] = total.get(name, 0) + nano
    return total


def _counted_amounts(resources: JsonObject, group: str) -> Amounts:
    """The amounts of cpu and memory that are more than nothing: zero counts as not given."""
    written = resources.get(group) or {}
    amounts = {name: parse(written[name]) for name in _COUNTED if name in written}
    return {name: nano for name, nano in amounts.items() if nano > 0}


# ---- Priority


def class_priority(wanted: str, cluster: Lookups) -> rules.PodPriority | None:
    """The priority of a pod or a group that names the class `wanted`, or none; None: there is no such class."""
    if wanted:
        return rules.priority_of(wanted, cluster.find(PRIORITY_CLASS, wanted), None)
    return rules.priority_of("", None, rules.global_default(cluster.all(PRIORITY_CLASS)))


def set_priority(pod: JsonObject, cluster: Lookups) -> None:
    """Give the pod the value and policy of its class. Raises 403 as `give_priority`."""
    mismatch = (
        "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {} from "
        "the given PriorityClass name"
    )
    give_priority(POD, pod, cluster, "pod", mismatch)


def give_priority(
    kind: KindSpec, item: JsonObject, cluster: Lookups, called: str, mismatch: str, has_policy: bool = True
) -> None:
    """Give a pod or a group the value of its class, and its policy unless `has_policy` is false. Raises 403 for a class that
    is missing, and for an object that brings another value (`mismatch` is the text) or another policy."""
    spec = item["spec"]
    wanted = spec.get("priorityClassName") or ""
    given, why = class_priority(wanted, cluster), ""
    if given is None:
        why = f"no PriorityClass with name {wanted} was found"
    elif spec.get("priority", given.value) != given.value:
        why = mismatch.format(spec["priority"], given.value)
    elif has_policy and spec.get("preemptionPolicy", given.policy) != given.policy:
        why = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in {called} spec; "
            f"priority admission controller computed {given.policy} from the given PriorityClass name"
        )
    if given is None or why:
        raise forbidden(kind.plural, name_of(item), why, kind.group)
    spec["priority"] = given.value
    if given.class_name:
        spec["priorityClassName"] = given.class_name
    if has_policy:
        spec["preemptionPolicy"] = given.policy


def keep_priority(old: JsonObject, new: JsonObject) -> None:
    """An update that does not name a priority keeps what creation found, whatever became of the class since."""
    for key in ("priority", "preemptionPolicy"):
        if key in old["spec"]:
            new["spec"].setdefault(key, old["spec"][key])


def check_only_default(priority_class: JsonObject, cluster: Lookups) -> None:
    """Refuse a second class that is marked for pods that name none. Raises 403."""
    held = rules.global_default(cluster.all(PRIORITY_CLASS))
    if priority_class.get("globalDefault") and held is not None and name_of(held) != name_of(priority_class):
        why = f"PriorityClass {name_of(held)} is already marked as default. Only one default can exist"
        raise forbidden(PRIORITY_CLASS.plural, name_of(priority_class), why, PRIORITY_CLASS.group)


# ---- LimitRanger


_NOTE = "kubernetes.io/limit-ranger"
"""The annotation in which LimitRanger says what it has set."""


def apply_limit_ranges(pod: JsonObject, cluster: Lookups) -> None:
    """Fill in the defaults of the namespace, then check the pod against its bounds."""
    found = sorted(cluster.all(LIMIT_RANGE, pod["metadata"]["namespace"]), key=name_of)
    items = [item for held in found for item in held.get("spec", {}).get("limits", ())]
    notes = [note for item in items for note in rules.add_limits(pod["spec"], item)]
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_NOTE] = f"LimitRanger plugin set: {'; '.join(notes)}"
    faults = [fault for item in items for fault in rules.limit_faults(pod["spec"], item)]
    if faults:
        raise forbidden("pods", name_of(pod), faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
