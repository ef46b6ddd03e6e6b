"""The status of a Deployment: what its sets add up to, and whether the rollout makes progress. Texts are upstream's."""

from collections.abc import Sequence

from mooring.api.json_objects import JsonObject
from mooring.controllers.workloads.deployment_sets import DeploymentSync, available_of, replicas_of
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.rules.conditions import (
    condition_of,
    find_condition,
    holds,
    timed,
    with_workload_condition,
    without_condition,
    workload_condition,
)

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
ROLLED_OUT, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"
_NO_DEADLINE = 2**31 - 1
"""Upstream's value for "no deadline": the largest int32."""
_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def note(sync: DeploymentSync, type: str, status: bool | str, now: str, reason: str, message: str) -> None:
    """Set a condition. Conditions of Deployments also have the time of their last update."""
    condition = {**workload_condition(type, status, now, reason, message), "lastUpdateTime": now}
    sync.conditions = with_workload_condition(sync.conditions, condition)


def note_pause(sync: DeploymentSync, now: str) -> None:
    """Say in the Progressing condition that no deadline runs while a Deployment is paused."""
    held = find_condition(sync.conditions, PROGRESSING)
    reason = held.get("reason", "") if held else ""
    if not has_deadline(sync) or reason == TIMED_OUT:
        return
    if sync.deployment["spec"].get("paused") and reason != _PAUSED:
        note(sync, PROGRESSING, "Unknown", now, _PAUSED, "Deployment is paused")
    elif not sync.deployment["spec"].get("paused") and reason == _PAUSED:
        note(sync, PROGRESSING, "Unknown", now, _RESUMED, "Deployment is resumed")


def counted(sync: DeploymentSync, now: str) -> JsonObject:
    """The status by the sets as they are; of conditions, only Available is set here."""
    counts = _counts(sync)
    status: JsonObject = {"observedGeneration": sync.deployment["metadata"]["generation"]}
    status |= {key: counts[key] for key in _COUNTS if counts[key]}
    status["terminatingReplicas"] = _sum(sync.sets, "terminatingReplicas")
    if sync.collisions:
        status["collisionCount"] = sync.collisions
    if counts["availableReplicas"] >= sync.bounds.fewest_available:
        note(sync, AVAILABLE, True, now, "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        note(
            sync, AVAILABLE, False, now, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )
    status["conditions"] = sync.conditions
    return status


def progressed(sync: DeploymentSync, now_ns: int, now: str) -> JsonObject:
    """The status with a judgement of the rollout: complete, progressing, or stuck for too long."""
    status = counted(sync, now)
    held = find_condition(status.get("conditions", ()), PROGRESSING)
    settled = held is not None and held.get("reason") == ROLLED_OUT
    # A rollout that completed is judged again only when pods of another template appear.
    rests = settled and status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if has_deadline(sync) and not rests:
        if is_complete(sync, status):
            message = f"{_subject(sync)} has successfully progressed."
            note(sync, PROGRESSING, True, now, ROLLED_OUT, message)
        elif _moves(sync, status):
            _note_movement(sync, now)
        elif _is_late(sync, now_ns):
            note(sync, PROGRESSING, False, now, TIMED_OUT, f"{_subject(sync)} has timed out progressing.")
    sync.conditions = _with_failure(sync)
    status["conditions"] = sync.conditions
    return status


def is_complete(sync: DeploymentSync, status: JsonObject) -> bool:
    """Whether all pods have the present template and are available, and no other pod is left."""
    wanted = sync.bounds.replicas
    return all(status.get(key, 0) == wanted for key in ("updatedReplicas", "replicas", "availableReplicas"))


def late_at_ns(sync: DeploymentSync) -> int | None:
    """When a rollout that does not progress will have taken too long; None: no deadline runs."""
    held = find_condition(sync.conditions, PROGRESSING)
    if held is None or not has_deadline(sync) or held.get("reason") in (ROLLED_OUT, TIMED_OUT, _PAUSED):
        return None
    # Times are written in whole seconds: one more, so that the deadline has passed for certain.
    return _deadline_ns(sync, held) + NS_PER_S


def has_deadline(sync: DeploymentSync) -> bool:
    return bool(sync.deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE)


def _counts(sync: DeploymentSync) -> dict[str, int]:
    available = sum(available_of(item) for item in sync.sets)
    return {
        "replicas": _sum(sync.sets, "replicas"),
        "updatedReplicas": _sum([sync.new] if sync.new is not None else [], "replicas"),
        "readyReplicas": _sum(sync.sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(replicas_of(item) for item in sync.sets) - available),
    }


def _sum(sets: Sequence[JsonObject], count: str) -> int:
    return sum(item.get("status", {}).get(count, 0) for item in sets)


def _subject(sync: DeploymentSync) -> str:
    """What messages are about: the new set, or the Deployment if there is none yet."""
    if sync.new is not None:
        return f'ReplicaSet "{sync.new["metadata"]["name"]}"'
    return f'Deployment "{sync.deployment["metadata"]["name"]}"'


def _moves(sync: DeploymentSync, status: JsonObject) -> bool:
    """Whether there are more new, ready or available replicas than at the last sync, or fewer old ones."""
    before = sync.deployment.get("status", {})
    more = any(status.get(key, 0) > before.get(key, 0) for key in _COUNTS[1:4])
    return more or _outdated(status) < _outdated(before)


def _outdated(status: JsonObject) -> int:
    old: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    return old


def _note_movement(sync: DeploymentSync, now: str) -> None:
    """Restart the deadline, also where neither status nor reason changes."""
    held = find_condition(sync.conditions, PROGRESSING)
    condition = workload_condition(PROGRESSING, True, now, "ReplicaSetUpdated", f"{_subject(sync)} is progressing.")
    condition["lastUpdateTime"] = now
    sync.conditions = [*without_condition(sync.conditions, PROGRESSING), timed(held, condition, now)]


def _is_late(sync: DeploymentSync, now_ns: int) -> bool:
    """Whether the deadline has passed since the last progress."""
    held = find_condition(sync.conditions, PROGRESSING)
    if held is None or held.get("reason") in (ROLLED_OUT, _PAUSED):
        return False
    if held.get("reason") == TIMED_OUT:
        return True
    return now_ns > _deadline_ns(sync, held)


def _deadline_ns(sync: DeploymentSync, progress: JsonObject) -> int:
    deadline_s: int = sync.deployment["spec"]["progressDeadlineSeconds"]
    return moment_ns(progress["lastUpdateTime"]) + deadline_s * NS_PER_S


def _with_failure(sync: DeploymentSync) -> list[JsonObject]:
    """A set that cannot create its pods has a condition; the Deployment copies it, the new set's first."""
    for item in [*([sync.new] if sync.new is not None else []), *sync.old]:
        if holds(item, FAILURE):
            held = condition_of(item, FAILURE) or {}
            failure = {**held, "lastUpdateTime": held["lastTransitionTime"]}
            return with_workload_condition(sync.conditions, failure)
    return without_condition(sync.conditions, FAILURE)
