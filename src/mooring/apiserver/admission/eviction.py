"""Eviction: a deletion that asks the disruption budgets first."""

from mooring.apiserver.admission.binding import PODS
from mooring.apiserver.admission.deletion import Deletion, check_preconditions
from mooring.apiserver.resource_api import CONTROL_PLANE, Requester, ResourceApi
from mooring.apiserver.written_selectors import selector_from
from mooring.model.api_errors import budget_exhausted, too_many_requests, unexplained
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.model.pod_spec import FINISHED_PHASES

BUDGETS = RESOURCES["policy", "v1", "poddisruptionbudgets"]
_PROCESSING_RETRY_S = 10


def evict(api: ResourceApi, namespace: str, name: str, how: Deletion, by: Requester = CONTROL_PLANE) -> None:
    """Delete a pod if its budget allows that, and count it there. Raises 429 if not now."""
    pod = api.get(PODS, namespace, name)
    check_preconditions(PODS, pod, how)  # before a budget is charged for what does not happen
    budget = None if _needs_no_budget(pod) else _budget_of(api, pod)
    if budget is not None and not _is_unhealthy_and_free(pod, budget):
        _take_one(api, budget, pod, by)
    api.delete(PODS, namespace, name, how, by)


def _needs_no_budget(pod: JsonObject) -> bool:
    """A pod that does not run, or is on its way out, is nobody's loss."""
    phase = pod.get("status", {}).get("phase")
    return phase in FINISHED_PHASES or phase == "Pending" or bool(pod["metadata"].get("deletionTimestamp"))


def _budget_of(api: ResourceApi, pod: JsonObject) -> JsonObject | None:
    namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels", {})
    found = [
        budget
        for budget in api.store.all(BUDGETS.storage)
        if budget["metadata"]["namespace"] == namespace
        and selector_from(budget["spec"].get("selector")).matches(labels)
    ]
    if len(found) > 1:
        raise unexplained(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return found[0] if found else None


def _is_unhealthy_and_free(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether a pod that is not ready may go without being counted, by the budget's policy."""
    conditions = pod.get("status", {}).get("conditions", ())
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    status = budget.get("status", {})
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired: int = status.get("desiredHealthy", 0)
    return desired > 0 and status.get("currentHealthy", 0) >= desired


def _take_one(api: ResourceApi, budget: JsonObject, pod: JsonObject, by: Requester) -> None:
    status, name = budget.get("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = "Cannot evict pod as it would violate the pod's disruption budget."
        raise too_many_requests(
            f"{why} The disruption budget {name} is still being processed by the server.", _PROCESSING_RETRY_S
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise budget_exhausted(name, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))
    if not by.is_dry_run:
        disrupted = {**status.get("disruptedPods", {}), pod["metadata"]["name"]: api.now()}
        api.put_status(BUDGETS, budget, {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted})
