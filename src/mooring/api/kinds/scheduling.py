"""PriorityClasses, pod groups and PodDisruptionBudgets: which pods are scheduled first, and which may be evicted."""

import re

import msgspec

from mooring.api.api_errors import Cause, field_forbidden, field_invalid
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import AGE, NAME, NONE, Column, KindSpec, Watch, field_cell, number
from mooring.api.validation import field_rules as rules
from mooring.api.validation.group_rules import (
    HIGHEST_USER_PRIORITY,
    check_composite_pod_group,
    check_pod_group,
    composite_changes,
    pod_group_changes,
    workload_changes,
    workload_faults,
)
from mooring.api.validation.pod_rules import PREEMPTION_POLICIES
from mooring.api.validation.problem import Problem, Problems, show
from mooring.model import workloads
from mooring.model.meta import MAX_INT32
from mooring.model.names import percent_faults

_PERCENTAGE = re.compile(r"[0-9]+%")


def _priority_class_changes(old: JsonObject, new: JsonObject) -> list[Cause]:
    """Pods have copied value and policy, so that a change would contradict them."""
    faults = []
    if old.get("value", 0) != new.get("value", 0):
        faults.append(field_forbidden("value", "may not be changed in an update."))
    if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
        faults.append(field_invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    return faults


def _check_priority_class(priority_class: workloads.PriorityClass) -> Problems:
    """Names with the prefix system- are reserved for the two system classes, with fixed values. Parity: a value above the
    highest one of users is forbidden, not invalid."""
    name, value, system = (
        priority_class.name,
        priority_class.value,
        workloads.SYSTEM_PRIORITIES.get(priority_class.name),
    )
    if system is not None:
        if value != system:
            told = _reserved(f"value of {name} PriorityClass must be {system}")
            yield Problem("value", show(value), f"{system}, the value of this system class", told=told)
    elif name.startswith("system-"):
        told = _reserved(f"{name} is not a known system priority class")
        yield Problem("metadata.name", show(name), "a name that does not start with system-", told=told)
    else:
        most = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        told = field_forbidden("value", most)
        lowest = -MAX_INT32 - 1
        yield from rules.in_range("value", value, lowest, HIGHEST_USER_PRIORITY, told if value > lowest else "")
    yield from rules.one_of("preemptionPolicy", priority_class.preemption_policy, PREEMPTION_POLICIES)


def _reserved(why: str) -> Cause:
    reserved = "priority class names with 'system-' prefix are reserved for system use only"
    return field_forbidden("metadata.name", f"{reserved}. error: {why}")


def _check_budget(budget: workloads.PodDisruptionBudget) -> Problems:
    """A budget has either minAvailable or maxUnavailable, each a number of pods or a percentage of them."""
    spec = budget.spec
    yield from rules.label_selector("spec.selector", spec.selector)
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Problem(
            "spec", "both minAvailable and maxUnavailable", "at most one of them must be set", told=_both(spec)
        )
    for name, value in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        good = bool(_PERCENTAGE.fullmatch(value)) if isinstance(value, str) else value is None or value >= 0
        if not good:
            told = percent_faults("")[0]
            yield Problem(f"spec.{name}", show(value), "a number of pods, or a percentage, e.g. 50%", told=told)


def _both(spec: workloads.DisruptionBudgetSpec) -> Cause:
    """Parity: the value is shown as Go would, with the names of its fields."""
    shown = {
        "MinAvailable": spec.min_available,
        "Selector": msgspec.to_builtins(spec.selector),
        "MaxUnavailable": spec.max_unavailable,
        "UnhealthyPodEvictionPolicy": spec.unhealthy_pod_eviction_policy,
    }
    return field_invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")


PRIORITY_CLASS = KindSpec(
    *("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",)),
    struct=workloads.PriorityClass,
    check=_check_priority_class,
    defaults={"value": 0, "preemptionPolicy": workloads.PREEMPT_LOWER_PRIORITY},
    change_faults=_priority_class_changes,
    has_generation=True,
    columns=(
        *(NAME, Column("Value", field_cell("value", 0)), Column("Global-Default", field_cell("globalDefault", False))),
        *(AGE, Column("PreemptionPolicy", field_cell("preemptionPolicy"))),
    ),
)

GROUP_PROTECTION = "scheduling.k8s.io/podgroup-protection"
"""The finalizer that keeps a group until its pods have ended."""


def _group_state_cell(group: JsonObject, now_ns: int) -> str:
    """A group that is about to be evicted says why; or else whether it could be scheduled."""
    found = {each.get("type"): each for each in at(group, "status.conditions", [])}
    target, scheduled = found.get("DisruptionTarget"), found.get("PodGroupInitiallyScheduled")
    if target is not None:
        return str(target.get("reason", ""))
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


_VERSIONS = ("scheduling.k8s.io/v1alpha3",)
"""The alpha version has the same PodGroups and Workloads, and CompositePodGroups."""


def _complete_group(group: JsonObject) -> None:
    """A group whose disruption mode is not given has pods that may be evicted one by one."""
    spec = group.setdefault("spec", {})
    if spec.get("disruptionMode") is None:
        spec["disruptionMode"] = {"single": {}}


def _policy_cell(group: JsonObject, now_ns: int) -> str:
    return "Basic" if at(group, "spec.schedulingPolicy.gang") is None else "Gang"


POD_GROUP = KindSpec(
    *("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"),
    other_versions=_VERSIONS,
    served_too=_VERSIONS,
    subresources=("status",),
    struct=workloads.PodGroup,
    check=check_pod_group,
    complete=_complete_group,
    change_faults=pod_group_changes,
    needs_version=True,
    columns=(
        *(NAME, Column("Policy", _policy_cell), Column("Workload", field_cell("spec.workloadRef.workloadName", NONE))),
        *(Column("Status", _group_state_cell), AGE),
    ),
    watch=Watch(needs_gate="GenericWorkload", wakes_pods=True, wakes_by_default=True),
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
)

COMPOSITE_POD_GROUP = KindSpec(
    *("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup"),
    subresources=("status",),
    struct=workloads.CompositePodGroup,
    check=check_composite_pod_group,
    complete=_complete_group,
    change_faults=composite_changes,
    needs_version=True,
    columns=(
        *(NAME, Column("Policy", _policy_cell), Column("Workload", field_cell("spec.workloadRef.workloadName", NONE))),
        AGE,
    ),
    watch=Watch(needs_gate="CompositePodGroup", wakes_pods=True),
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
)

POD_DISRUPTION_BUDGET = KindSpec(
    *("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",)),
    subresources=("status",),
    struct=workloads.PodDisruptionBudget,
    check=_check_budget,
    watch=Watch(),
    new_status={"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    has_generation=True,
    needs_version=True,
    columns=(
        NAME,
        Column("Min Available", lambda budget, _: str(at(budget, "spec.minAvailable", "N/A"))),
        Column("Max Unavailable", lambda budget, _: str(at(budget, "spec.maxUnavailable", "N/A"))),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
)


# ---- Workloads of scheduling.k8s.io: templates that controllers make PodGroups from. No decision reads them.


GROUP_TEMPLATES = KindSpec(
    *("scheduling.k8s.io", "v1beta1", "workloads", "Workload"),
    other_versions=_VERSIONS,
    served_too=_VERSIONS,
    faults=workload_faults,
    change_faults=workload_changes,
    needs_version=True,
)
