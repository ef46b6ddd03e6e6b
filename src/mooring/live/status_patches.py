"""Patches of a pod's status as kube-scheduler writes them: the difference of two statuses, as a strategic merge patch."""

from mooring.model.json_objects import JsonObject
from mooring.model.meta import Condition
from mooring.model.pod_spec import PodStatus

_FIELDS = {
    "message": "message",
    "observedGeneration": "observed_generation",
    "reason": "reason",
    "status": "status",
    "lastTransitionTime": "last_transition_time",
}


def status_patch(
    old: PodStatus, condition: Condition | None, nominated_node_name: str | None, now: str
) -> JsonObject | None:
    """What to send so that the status has this condition and names this node; None: it does already.

    A change of observedGeneration alone is none, and the time of a condition changes only with its status.
    """
    status: JsonObject = {}
    if condition is not None:
        status |= _conditions_patch(old.conditions or [], condition, now)
    if nominated_node_name is not None and nominated_node_name != old.nominated_node_name:
        status["nominatedNodeName"] = nominated_node_name or None
    return {"status": status} if status else None


def with_patch(old: PodStatus, condition: Condition | None, nominated_node_name: str | None, now: str) -> PodStatus:
    """The status as it is once the patch was written."""
    conditions = list(old.conditions or [])
    if condition is not None:
        before = _of_type(conditions, condition.type)
        written = _timed(before, condition, now)
        conditions = [*conditions, written] if before is None else [written if c is before else c for c in conditions]
    nominated = old.nominated_node_name if nominated_node_name is None else nominated_node_name
    return PodStatus(phase=old.phase, start_time=old.start_time, nominated_node_name=nominated, conditions=conditions)


def _conditions_patch(held: list[Condition], condition: Condition, now: str) -> JsonObject:
    before = _of_type(held, condition.type)
    written = _timed(before, condition, now)
    if before is None:
        entry: JsonObject = {"lastProbeTime": None, **_changed(None, written), "type": condition.type}
    else:
        changed = _changed(before, written)
        if not changed.keys() - {"observedGeneration"}:
            return {}
        entry = {**changed, "type": condition.type}
    patch: JsonObject = {"conditions": [dict(sorted(entry.items()))]}
    if held:
        types = [c.type for c in held] + ([condition.type] if before is None else [])
        patch = {"$setElementOrder/conditions": [{"type": type} for type in types], **patch}
    return patch


def _of_type(held: list[Condition], type: str) -> Condition | None:
    return next((condition for condition in held if condition.type == type), None)


def _timed(before: Condition | None, condition: Condition, now: str) -> Condition:
    same = before is not None and before.status == condition.status
    moment = before.last_transition_time if before is not None and same else now
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        last_transition_time=moment,
        observed_generation=condition.observed_generation,
    )


def _changed(before: Condition | None, after: Condition) -> JsonObject:
    """The fields in which a condition differs, and those that it no longer has as null."""
    changed = {}
    for name, attribute in _FIELDS.items():
        old, new = getattr(before, attribute, None), getattr(after, attribute)
        if old != new and (new or old):
            changed[name] = new or None
    return changed
