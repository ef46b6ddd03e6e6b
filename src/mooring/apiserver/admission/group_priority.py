"""Priority and disruption mode of pod groups: how groups preempt each other. Gate WorkloadAwarePreemption.

Without the gate the server drops these fields, but for groups that have them already.
"""

from mooring.api.api_errors import ApiError, Cause, field_invalid, field_unsupported, forbidden
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.scheduling import HIGHEST_USER_PRIORITY, POD_GROUP
from mooring.apiserver.admission.lookups import Lookups, name_of
from mooring.model.workloads import DISRUPTED_ALONE, DISRUPTED_TOGETHER
from mooring.rules.pod_admission import global_default, priority_of

GATE = "WorkloadAwarePreemption"
_FIELDS = ("disruptionMode", "priorityClassName", "priority")
_MODES = (DISRUPTED_ALONE, DISRUPTED_TOGETHER)


def admit_priority(group: JsonObject, cluster: Lookups) -> None:
    """Give a new group its mode and the priority of its class. Raises 403 for a class that is missing, and for a group that
    brings another priority."""
    spec = group["spec"]
    if not cluster.gates.get(GATE, False):
        _drop(spec, {})
        return
    spec.setdefault("disruptionMode", DISRUPTED_ALONE)
    wanted = spec.get("priorityClassName") or ""
    found = cluster.priority_class(wanted) if wanted else None
    given = priority_of(wanted, found, None if wanted else global_default(cluster.priority_classes()))
    if given is None:
        raise _forbid(group, f"no PriorityClass with name {wanted} was found")
    if spec.get("priority", given.value) != given.value:
        raise _forbid(
            group,
            f"priority set in the pod group ({spec['priority']}) must match the priority computed ({given.value}) based on "
            "the priority class set in the spec",
        )
    spec["priority"] = given.value
    if given.class_name:
        spec["priorityClassName"] = given.class_name


def admit_changed_priority(old: JsonObject, new: JsonObject, cluster: Lookups) -> None:
    """The same for a group that changes. Parity: nothing but the mode is filled in, so a writer that leaves the priority out
    is refused because it may not change."""
    if cluster.gates.get(GATE, False):
        new["spec"].setdefault("disruptionMode", DISRUPTED_ALONE)
    else:
        _drop(new["spec"], old["spec"])


def priority_faults(spec: JsonObject) -> list[Cause]:
    """What is wrong with mode and priority."""
    faults = []
    mode, priority = spec.get("disruptionMode", DISRUPTED_ALONE), spec.get("priority", 0)
    if mode not in _MODES:
        faults.append(field_unsupported("spec.disruptionMode", mode, _MODES))
    if isinstance(priority, int) and priority > HIGHEST_USER_PRIORITY:
        faults.append(
            field_invalid("spec.priority", priority, f"must be less than or equal to {HIGHEST_USER_PRIORITY}")
        )
    return faults


def _drop(spec: JsonObject, held: JsonObject) -> None:
    for field in _FIELDS:
        if not held.get(field):
            spec.pop(field, None)


def _forbid(group: JsonObject, why: str) -> ApiError:
    return forbidden(POD_GROUP.plural, name_of(group), why, POD_GROUP.group)
