"""What the status of a pod says about it, as workload controllers need it: five states, readiness, and availability."""

from typing import Literal

from mooring.api.json_objects import JsonObject
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.pod_spec import FINISHED_PHASES

State = Literal["ready", "unready", "terminating", "Succeeded", "Failed"]

ACTIVE: tuple[State, ...] = ("ready", "unready")
"""Neither finished nor being deleted: these pods count as replicas."""


def state_of(pod: JsonObject) -> State:
    """The state of a pod; each pod is in exactly one."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded" or phase == "Failed":
        return "Succeeded" if phase == "Succeeded" else "Failed"
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating"
    return "ready" if _has_ready_condition(status) else "unready"


def is_active(pod: JsonObject) -> bool:
    return state_of(pod) in ACTIVE


def is_terminating(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def phase_of(pod: JsonObject) -> str:
    phase: str = pod.get("status", {}).get("phase", "")
    return phase


def is_finished(pod: JsonObject) -> bool:
    return phase_of(pod) in FINISHED_PHASES


def is_ready(pod: JsonObject) -> bool:
    return _has_ready_condition(pod.get("status", {}))


def available_at_ns(pod: JsonObject, min_ready_s: int) -> int | None:
    """When a pod will have been, or had been, ready for minReadySeconds; None: it is not ready. 0 without
    minReadySeconds."""
    if not is_ready(pod):
        return None
    if not min_ready_s:
        return 0
    since = ready_since(pod)
    return moment_ns(since) + min_ready_s * NS_PER_S if since else None


def is_available(pod: JsonObject, min_ready_s: int, now_ns: int) -> bool:
    at_ns = available_at_ns(pod, min_ready_s)
    return at_ns is not None and at_ns <= now_ns


def ready_since(pod: JsonObject) -> str:
    """The time as written; empty: the pod is not ready, or the condition has no time."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return condition.get("lastTransitionTime") or ""
    return ""


def restarts_of(pod: JsonObject) -> int:
    """The restarts of the container that restarted most often."""
    held = pod.get("status", {}).get("containerStatuses", ())
    return max((container.get("restartCount", 0) for container in held), default=0)


def _has_ready_condition(status: JsonObject) -> bool:
    for condition in status.get("conditions", ()):
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return False
