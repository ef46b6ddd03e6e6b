"""Says in a PodGroup's status whether its pods could be scheduled."""

from typing import cast

import msgspec

from mooring.framework.intents import Write
from mooring.kit.rfc3339 import in_seconds
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.rules.conditions import timed_typed, typed_condition
from mooring.scheduler.core import Core
from mooring.scheduler.failure import AttemptFailure

POD_GROUP_SCHEDULED = "PodGroupScheduled"


def write_group_status(core: Core, member: Pod, failure: AttemptFailure | None = None) -> None:
    """Tell how the attempt ended, unless the status says so already. A group that was scheduled once remains so."""
    group = cast("PodGroup | None", core.cluster.objects[PodGroup].get(member.group_key or ""))
    if group is None:
        return
    conditions = group.status.conditions or []
    before = typed_condition(conditions, POD_GROUP_SCHEDULED)
    now = _condition(group, failure)
    if before is not None and (_says(before) == _says(now) or (before.status == "True" and now.status == "False")):
        return
    now = timed_typed(before, now, in_seconds(core.clock.now_ns()))
    written = [condition for condition in conditions if condition is not before] + [now]
    body = {"status": {"conditions": msgspec.to_builtins(written)}}
    core.outbox.append(Write("PATCH", PodGroup, group.name, group.namespace, body, "status"))


def _condition(group: PodGroup, failure: AttemptFailure | None) -> Condition:
    return Condition(
        type=POD_GROUP_SCHEDULED,
        status="True" if failure is None else "False",
        reason="Scheduled" if failure is None else failure.reason,
        message="" if failure is None else failure.message,
        observed_generation=group.metadata.generation,
    )


def _says(condition: Condition) -> tuple[str, str | None, str]:
    return condition.status, condition.reason, condition.message or ""
