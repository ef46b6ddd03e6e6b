"""What a real API server would refuse and what would change a decision, told before a simulation starts.

Only manifests that people wrote are checked. Conformance input and what a live API server sends are taken as they are.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mooring.model import devices, storage, workloads
from mooring.model.meta import MAX_INT32, MAX_INT64, KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.selectors import SelectorError, compile_selector
from mooring.model.validation import claim_rules
from mooring.model.validation import field_rules as rules
from mooring.model.validation.pod_rules import PREEMPTION_POLICIES, check_pod
from mooring.model.validation.problem import NOTHING_THERE, Problem, Problems, show
from mooring.model.workloads import SYSTEM_PRIORITIES

HIGHEST_USER_PRIORITY = 1_000_000_000
_PERCENTAGE = re.compile(r"[0-9]+%")


def validate(checked: KubeObject) -> list[Problem]:
    """Every problem of one object, in the order of its fields."""
    problems = [*_metadata(checked)]
    check = _CHECKS.get(type(checked))
    if check is not None:
        problems += check(checked)
    return problems


def _metadata(checked: KubeObject) -> Problems:
    meta = checked.metadata
    name_rule = rules.short_name if isinstance(checked, workloads.Namespace) else rules.object_name
    if meta.name or not meta.generate_name:
        yield from name_rule("metadata.name", meta.name)
    if meta.namespace:
        yield from rules.short_name("metadata.namespace", meta.namespace)
    yield from rules.labels("metadata.labels", meta.labels)


def _node(node: Node) -> Problems:
    yield from rules.taints("spec.taints", node.spec.taints)
    yield from rules.quantities("status.capacity", node.status.capacity)
    yield from rules.quantities("status.allocatable", node.status.allocatable)
    for i, image in enumerate(node.status.images or ()):
        yield from rules.in_range(f"status.images[{i}].sizeBytes", image.size_bytes, 0, MAX_INT64)


def _priority_class(priority_class: workloads.PriorityClass) -> Problems:
    system = SYSTEM_PRIORITIES.get(priority_class.name)
    if system is not None:
        if priority_class.value != system:
            yield Problem("value", show(priority_class.value), f"{system}, the value of this system class")
    elif priority_class.name.startswith("system-"):
        yield Problem("metadata.name", show(priority_class.name), "a name that does not start with system-")
    else:
        yield from rules.in_range("value", priority_class.value, -MAX_INT32 - 1, HIGHEST_USER_PRIORITY)
    yield from rules.one_of("preemptionPolicy", priority_class.preemption_policy, PREEMPTION_POLICIES)


def _disruption_budget(budget: workloads.PodDisruptionBudget) -> Problems:
    spec = budget.spec
    yield from rules.label_selector("spec.selector", spec.selector)
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Problem("spec", "both minAvailable and maxUnavailable", "at most one of them must be set")
    for name, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        good = bool(_PERCENTAGE.fullmatch(value)) if isinstance(value, str) else value is None or value >= 0
        if not good:
            yield Problem(f"spec.{name}", show(value), "a number of pods, or a percentage, e.g. 50%")


def _selector_map(owner: workloads.Service | workloads.ReplicationController) -> Problems:
    yield from rules.labels("spec.selector", owner.spec.selector)


def _replicas(owner: workloads.ReplicaSet | workloads.StatefulSet) -> Problems:
    yield from rules.label_selector("spec.selector", owner.spec.selector)


def _workload(workload: workloads.Workload) -> Problems:
    """The part that is not the template's: that is checked in the pods which are made from it."""
    spec = workload.spec
    counts = {"replicas": spec.replicas, "parallelism": spec.parallelism, "completions": spec.completions}
    for name, count in counts.items():
        yield from rules.in_range(f"spec.{name}", count, 0)
    for i, template in enumerate(spec.volume_claim_templates or ()):
        yield from rules.object_name(f"spec.volumeClaimTemplates[{i}].metadata.name", template.name)
        yield from claim_rules.check_claim_spec(f"spec.volumeClaimTemplates[{i}].spec", template.spec)
    if workload.kind not in ("Job", "ReplicationController"):
        yield from _template_is_selected(workload)


def _template_is_selected(workload: workloads.Workload) -> Problems:
    spec = workload.spec
    if spec.replicas == 0 and not spec.template.spec.containers:
        return  # a workload that makes no pods may be told without its template, as snapshots do
    if spec.selector is None:
        yield Problem("spec.selector", NOTHING_THERE, "a selector that matches the labels of the template")
        return
    faults = [*rules.label_selector("spec.selector", spec.selector)]
    yield from faults
    try:
        matches = compile_selector(spec.selector).matches(spec.template.metadata.labels or {})
    except SelectorError:
        return
    if not matches and not faults:
        yield Problem(
            "spec.template.metadata.labels", "labels that spec.selector does not match", "labels that it matches"
        )


def _limit_range(written: workloads.LimitRange) -> Problems:
    for i, item in enumerate(written.spec.limits or ()):
        groups = {"default": item.default, "defaultRequest": item.default_request, "min": item.min, "max": item.max}
        for name, group in groups.items():
            yield from rules.quantities(f"spec.limits[{i}].{name}", group)


def _runtime_class(written: workloads.RuntimeClass) -> Problems:
    if written.overhead is not None:
        yield from rules.quantities("overhead.podFixed", written.overhead.pod_fixed)
    if written.scheduling is not None:
        yield from rules.labels("scheduling.nodeSelector", written.scheduling.node_selector)
        yield from rules.tolerations("scheduling.tolerations", written.scheduling.tolerations)


_CHECKS: Mapping[type[KubeObject], Callable[[Any], Problems]] = {
    Pod: check_pod,
    Node: _node,
    workloads.PriorityClass: _priority_class,
    workloads.PodDisruptionBudget: _disruption_budget,
    workloads.Service: _selector_map,
    workloads.ReplicationController: _selector_map,
    workloads.ReplicaSet: _replicas,
    workloads.StatefulSet: _replicas,
    workloads.Workload: _workload,
    workloads.LimitRange: _limit_range,
    workloads.RuntimeClass: _runtime_class,
    storage.PersistentVolume: claim_rules.check_volume,
    storage.PersistentVolumeClaim: claim_rules.check_claim,
    storage.StorageClass: claim_rules.check_storage_class,
    storage.CSINode: claim_rules.check_csi_node,
    storage.CSIStorageCapacity: claim_rules.check_capacity,
    devices.ResourceClaim: claim_rules.check_resource_claim,
    devices.ResourceClaimTemplate: claim_rules.check_resource_claim_template,
    devices.DeviceClass: claim_rules.check_device_class,
    devices.ResourceSlice: claim_rules.check_resource_slice,
}
