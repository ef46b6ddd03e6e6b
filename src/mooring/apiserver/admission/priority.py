"""The Priority admission: a pod gets the numbers of its PriorityClass, and cannot bring others."""

from mooring.apiserver.lookups import JsonObject, Lookups, name_of
from mooring.model.api_errors import ApiError, forbidden
from mooring.model.workloads import PREEMPT_LOWER_PRIORITY, SYSTEM_PRIORITIES

GROUP = "scheduling.k8s.io"


def set_priority(pod: JsonObject, cluster: Lookups) -> None:
    spec = pod["spec"]
    given = _class_of(pod, cluster)
    value = given.get("value", 0)
    policy = given.get("preemptionPolicy") or PREEMPT_LOWER_PRIORITY
    if given:
        spec["priorityClassName"] = name_of(given)
    if spec.get("priority", value) != value:
        raise _forbid(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise _forbid(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


def keep_priority(old: JsonObject, new: JsonObject) -> None:
    """An update that does not say takes over what creation found, whatever became of the class since."""
    for key in ("priority", "preemptionPolicy"):
        if key in old["spec"]:
            new["spec"].setdefault(key, old["spec"][key])


def check_only_default(priority_class: JsonObject, cluster: Lookups) -> None:
    """One class may be for the pods that name none."""
    held = global_default(cluster)
    if priority_class.get("globalDefault") and held is not None and name_of(held) != name_of(priority_class):
        why = f"PriorityClass {name_of(held)} is already marked as default. Only one default can exist"
        raise forbidden("priorityclasses", name_of(priority_class), why, GROUP)


def global_default(cluster: Lookups) -> JsonObject | None:
    marked = (held for held in cluster.priority_classes() if held.get("globalDefault"))
    return min(marked, key=lambda held: (held.get("value", 0), name_of(held)), default=None)


def _class_of(pod: JsonObject, cluster: Lookups) -> JsonObject:
    name = pod["spec"].get("priorityClassName", "")
    if not name:
        return global_default(cluster) or {}
    found = cluster.priority_class(name)
    if found is None and name in SYSTEM_PRIORITIES:
        found = {"metadata": {"name": name}, "value": SYSTEM_PRIORITIES[name]}
    if found is None:
        raise _forbid(pod, f"no PriorityClass with name {name} was found")
    return found


def _forbid(pod: JsonObject, why: str) -> ApiError:
    return forbidden("pods", name_of(pod), why)
