"""What admission does to a new pod after defaulting, in kube-apiserver's order."""

from mooring.apiserver.admission.limit_ranges import apply_limit_ranges
from mooring.apiserver.admission.priority import set_priority
from mooring.apiserver.admission.qos import qos_class
from mooring.apiserver.lookups import Lookups, name_of
from mooring.model.api_errors import ApiError, forbidden, quoted
from mooring.model.json_objects import JsonObject
from mooring.rules.pod_admission import (
    add_runtime,
    add_tolerations,
    merge_label_keys,
    overhead_fault,
    overhead_of,
    selector_conflicts,
)

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


def add_topology(pod: JsonObject, node: JsonObject | None) -> None:
    """Where a pod runs is written onto it, because containers can read their pod's labels but not their node's."""
    held = (node or {}).get("metadata", {}).get("labels", {})
    found = {key: held[key] for key in TOPOLOGY_LABELS if key in held}
    if found:
        pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), **found}


def _add_runtime(pod: JsonObject, cluster: Lookups) -> None:
    wanted = pod["spec"].get("runtimeClassName", "")
    given = cluster.runtime_class(wanted) if wanted else {}
    if given is None:
        raise _forbid(pod, f"pod rejected: RuntimeClass {quoted(wanted)} not found")
    fault = overhead_fault(pod["spec"].get("overhead", {}), overhead_of(given))
    if fault:
        raise _forbid(pod, f"pod rejected: {fault}")
    for key, value, own in selector_conflicts(pod["spec"], given):
        sides = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
        raise _forbid(pod, f"conflict: {sides}")
    add_runtime(pod["spec"], given)


def _forbid(pod: JsonObject, why: str) -> ApiError:
    return forbidden("pods", name_of(pod), why)
