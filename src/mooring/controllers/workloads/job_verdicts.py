"""When a job is over, and how: by its counts, its limits and the time."""

from typing import NamedTuple

from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.json_objects import JsonObject
from mooring.rules.conditions import condition_of, find_condition

COMPLETE, FAILED = "Complete", "Failed"
CRITERIA_MET, TARGETS_FAILURE, SUSPENDED = "SuccessCriteriaMet", "FailureTarget", "Suspended"


class JobVerdict(NamedTuple):
    """`target` is the condition that is set at once, `end` the one that follows when all pods have ended."""

    target: str
    end: str
    reason: str
    message: str


_REACHED = JobVerdict(CRITERIA_MET, COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")
_TOO_MANY = JobVerdict(TARGETS_FAILURE, FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LONG = JobVerdict(TARGETS_FAILURE, FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")


class Counts(NamedTuple):
    """Of the pods of a job; of an Indexed one, `succeeded` are its indexes."""

    active: int
    succeeded: int
    failed: int


def is_over(job: JsonObject) -> bool:
    status = job.get("status", {})
    held = status.get("conditions", ())
    return any(c["type"] in (COMPLETE, FAILED) and c["status"] == "True" for c in held)


def verdict_on(job: JsonObject, counts: Counts, owned: OwnedPods, now_ns: int) -> JobVerdict | None:
    """None: there is still work to do. A verdict that was given stands."""
    given = _given(job)
    if given is not None:
        return given
    spec = job["spec"]
    if counts.failed > spec["backoffLimit"] or _restarted_too_often(job, owned):
        return _TOO_MANY
    if _is_done(spec, counts):
        return _REACHED
    due_ns = deadline_ns(job)
    return _TOO_LONG if due_ns is not None and due_ns <= now_ns else None


def deadline_ns(job: JsonObject) -> int | None:
    limit_s, started = job["spec"].get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
    if limit_s is None or started is None or job["spec"].get("suspend"):
        return None
    return int(moment_ns(started) + limit_s * NS_PER_S)


def wanted_active(job: JsonObject, counts: Counts) -> int:
    """How many pods should run now. A work queue that has seen one success lets its pods finish and adds none."""
    parallelism: int = job["spec"]["parallelism"]
    if job["spec"].get("suspend"):
        return 0
    completions: int | None = job["spec"].get("completions")
    if completions is None:
        return min(parallelism, counts.active) if counts.succeeded else parallelism
    return max(0, min(parallelism, completions - counts.succeeded))


def expires_ns(job: JsonObject) -> int | None:
    """When a job that is over may be deleted."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None:
        return None
    status = job["status"]
    end = next(held for type in (COMPLETE, FAILED) if (held := find_condition(status["conditions"], type)) is not None)
    return int(moment_ns(end["lastTransitionTime"]) + ttl_s * NS_PER_S)


def _given(job: JsonObject) -> JobVerdict | None:
    for target, end in ((CRITERIA_MET, COMPLETE), (TARGETS_FAILURE, FAILED)):
        held = condition_of(job, target)
        if held is not None and held["status"] == "True":
            return JobVerdict(target, end, held["reason"], held["message"])
    return None


def _is_done(spec: JsonObject, counts: Counts) -> bool:
    completions = spec.get("completions")
    if completions is None:
        return counts.succeeded > 0 and counts.active == 0
    return bool(counts.succeeded >= completions)


def _restarted_too_often(job: JsonObject, owned: OwnedPods) -> bool:
    """Containers that are restarted in place use up the same limit."""
    spec = job["spec"]
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in owned.active())
    return bool(restarts > 0 if spec["backoffLimit"] == 0 else restarts >= spec["backoffLimit"])


def _restarts(pod: JsonObject) -> int:
    status = pod.get("status", {})
    held = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    return sum(container.get("restartCount", 0) for container in held)
