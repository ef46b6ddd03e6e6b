"""Statuses of pods on their way to the API server: one write at a time for each pod, and only the latest word counts."""

import asyncio
import logging
from dataclasses import dataclass

from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.apiclient.unanswered import Unanswered
from mooring.framework.intents import PatchStatus
from mooring.kit.clock import Clock
from mooring.kit.rfc3339 import in_seconds
from mooring.kit.tasks import settle
from mooring.live.api_writer import Writer
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus
from mooring.rules.conditions import timed_typed, typed_condition, with_typed_condition

# ---- Patches of a pod's status as kube-scheduler writes them: the difference of two statuses, as a strategic merge patch.


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
    conditions = (
        list(old.conditions or []) if condition is None else with_typed_condition(old.conditions, condition, now)
    )
    nominated = old.nominated_node_name if nominated_node_name is None else nominated_node_name
    return PodStatus(phase=old.phase, start_time=old.start_time, nominated_node_name=nominated, conditions=conditions)


def _conditions_patch(held: list[Condition], condition: Condition, now: str) -> JsonObject:
    before = typed_condition(held, condition.type)
    written = timed_typed(before, condition, now)
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


def _changed(before: Condition | None, after: Condition) -> JsonObject:
    """The fields in which a condition differs, and those that it no longer has as null."""
    changed = {}
    for name, attribute in _FIELDS.items():
        old, new = getattr(before, attribute, None), getattr(after, attribute)
        if old != new and (new or old):
            changed[name] = new or None
    return changed


log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Wish:
    """What a pod's status is to say: of two wishes for one pod the later completes or corrects the earlier."""

    pod: Pod
    conditions: dict[str, Condition]
    nominated: str | None

    def add(self, intent: PatchStatus) -> None:
        self.pod = intent.pod
        if intent.condition is not None:
            self.conditions[intent.condition.type] = intent.condition
        if intent.nominated_node_name is not None:
            self.nominated = intent.nominated_node_name


class StatusWriter:
    """Writes differences only, and strings wishes for the same pod together while one is being written."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._wishes: dict[str, _Wish] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}

    def patch(self, intent: PatchStatus) -> None:
        """Write it soon. What goes wrong is told in the log: the next attempt says it again."""
        wish = self._wishes.get(intent.pod.id)
        if wish is None:
            wish = self._wishes[intent.pod.id] = _Wish(intent.pod, {}, None)
        wish.add(intent)
        if intent.pod.id not in self._busy:
            self._busy[intent.pod.id] = asyncio.create_task(self._write_all(intent.pod.id))

    async def patch_now(self, pod: Pod, condition: Condition) -> None:
        """Write a condition and wait for it. Raises ApiError, Unanswered, CredentialsError."""
        patch = status_patch(pod.status, condition, None, in_seconds(self._clock.now_ns()))
        if patch is not None:
            await self._writer.patch_status(pod, patch)

    async def settle(self, pod_id: str) -> None:
        """Return when nothing about a pod is being written; what has yet to be, is not.

        To be awaited before a bind: the server says then that the pod is scheduled and clears its nomination, and what
        we said before must not come after that.
        """
        self._wishes.pop(pod_id, None)
        task = self._busy.get(pod_id)
        if task is not None:
            await settle((task,))

    async def close(self, patience_s: float = 2.0) -> None:
        await settle(self._busy.values(), patience_s)
        self.halt()

    def halt(self) -> None:
        """Leave off at once, in the middle of whatever is under way."""
        self._wishes.clear()
        for task in self._busy.values():
            task.cancel()

    async def _write_all(self, pod_id: str) -> None:
        written: PodStatus | None = None
        try:
            while (wish := self._wishes.pop(pod_id, None)) is not None:
                written = await self._write(wish, written)
        finally:
            self._busy.pop(pod_id, None)

    async def _write(self, wish: _Wish, written: PodStatus | None) -> PodStatus | None:
        """Returns the status as it is now: the watch may not have shown it yet when the next wish is written."""
        now = in_seconds(self._clock.now_ns())
        status = written or wish.pod.status
        nominated = wish.nominated
        conditions: list[Condition | None] = [*wish.conditions.values()] or [None]
        try:
            for condition in conditions:
                patch = status_patch(status, condition, nominated, now)
                if patch is not None:
                    await self._writer.patch_status(wish.pod, patch)
                    status = with_patch(status, condition, nominated, now)
                nominated = None
        except (ApiError, Unanswered, CredentialsError) as fault:
            level = logging.INFO if isinstance(fault, ApiError) and fault.code == 404 else logging.ERROR
            log.log(level, "Error updating pod %s: %s", wish.pod.key, fault)
            return None
        return status
