"""The Priority admission: a pod gets the numbers of its PriorityClass, and cannot bring others."""

from mooring.apiserver.lookups import Lookups, name_of
from mooring.model.api_errors import ApiError, forbidden
from mooring.model.json_objects import JsonObject
from mooring.rules.pod_admission import global_default, priority_of

GROUP = "scheduling.k8s.io"


def set_priority(pod: JsonObject, cluster: Lookups) -> None:
    spec = pod["spec"]
    wanted = spec.get("priorityClassName", "")
    found = cluster.priority_class(wanted) if wanted else None
    given = priority_of(wanted, found, None if wanted else global_default(cluster.priority_classes()))
    if given is None:
        raise _forbid(pod, f"no PriorityClass with name {wanted} was found")
    if given.class_name:
        spec["priorityClassName"] = given.class_name
    if spec.get("priority", given.value) != given.value:
        raise _forbid(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {given.value} from the given PriorityClass name",
        )
    if spec.get("preemptionPolicy", given.policy) != given.policy:
        raise _forbid(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {given.policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = given.value, given.policy


def keep_priority(old: JsonObject, new: JsonObject) -> None:
    """An update that does not say takes over what creation found, whatever became of the class since."""
    for key in ("priority", "preemptionPolicy"):
        if key in old["spec"]:
            new["spec"].setdefault(key, old["spec"][key])


def check_only_default(priority_class: JsonObject, cluster: Lookups) -> None:
    """One class may be for the pods that name none."""
    held = global_default(cluster.priority_classes())
    if priority_class.get("globalDefault") and held is not None and name_of(held) != name_of(priority_class):
        why = f"PriorityClass {name_of(held)} is already marked as default. Only one default can exist"
        raise forbidden("priorityclasses", name_of(priority_class), why, GROUP)


def _forbid(pod: JsonObject, why: str) -> ApiError:
    return forbidden("pods", name_of(pod), why)
