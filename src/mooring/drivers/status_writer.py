"""Writes the statuses of pods: at most one patch under way for each pod, and later requests for it are combined.

The second half makes the patches: the difference of two statuses as a strategic merge patch, byte for byte as kube-scheduler
writes it, because tools and recordings compare them.
"""

import asyncio
import logging

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.drivers.api_writer import ApiWriter
from mooring.framework.contract.intents import PatchStatus
from mooring.kit.clock import Clock, in_seconds
from mooring.kit.tasks import settle
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus
from mooring.rules.conditions import timed_typed, typed_condition, with_typed_condition

log = logging.getLogger(__name__)


class _PendingPatch(msgspec.Struct):
    """The next changes of a pod's status: a later request adds to an earlier one or replaces it."""

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
    """Writes only what changes. While a patch of a pod is under way, requests for the pod wait in `_pending`.

    Conditions get their times from `wall`.
    """

    def __init__(self, writer: ApiWriter, wall: Clock) -> None:
        self._writer = writer
        self._wall = wall
        self._pending: dict[str, _PendingPatch] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}

    def patch(self, intent: PatchStatus) -> None:
        """Write it soon. A failure is only logged: the next attempt of the pod asks again."""
        pending = self._pending.get(intent.pod.id)
        if pending is None:
            pending = self._pending[intent.pod.id] = _PendingPatch(intent.pod, {}, None)
        pending.add(intent)
        if intent.pod.id not in self._busy:
            self._busy[intent.pod.id] = asyncio.create_task(self._write_all(intent.pod.id))

    async def patch_now(self, pod: Pod, condition: Condition, cause_id: str) -> None:
        """Write a condition for an attempt of the pod with the id `cause_id`, and wait for it. Raises ApiError, Unanswered,
        CredentialsError."""
        patch = status_patch(pod.status, condition, None, in_seconds(self._wall.now_ns()))
        if patch is not None:
            await self._writer.patch_status(pod, patch, cause_id)

    def is_busy(self, pod_id: str) -> bool:
        """Whether a patch of the pod is under way, or waits."""
        return pod_id in self._busy

    async def settle(self, pod_id: str) -> None:
        """Drop what waits for the pod, and return when no patch of it is under way.

        The driver awaits this before a bind. The API server sets PodScheduled and clears the nomination with the bind; an
        older patch that arrived later would undo that.
        """
        self._pending.pop(pod_id, None)
        task = self._busy.get(pod_id)
        if task is not None:
            await settle((task,))

    async def close(self, patience_s: float = 2.0) -> None:
        await settle(self._busy.values(), patience_s)
        self.halt()

    def halt(self) -> None:
        """Cancel everything at once: this instance lost the lease."""
        self._pending.clear()
        for task in self._busy.values():
            task.cancel()

    async def _write_all(self, pod_id: str) -> None:
        """Write the pending patches of a pod one after another, also those that arrive meanwhile, until none is left."""
        written: PodStatus | None = None
        try:
            while (pending := self._pending.pop(pod_id, None)) is not None:
                written = await self._write(pending, written)
        finally:
            self._busy.pop(pod_id, None)

    async def _write(self, pending: _PendingPatch, written: PodStatus | None) -> PodStatus | None:
        """Returns the status as it is now, for the next patch: the watch may not have shown this one yet."""
        now = in_seconds(self._wall.now_ns())
        status = written or pending.pod.status
        nominated = pending.nominated
        conditions: list[Condition | None] = [*pending.conditions.values()] or [None]
        try:
            for condition in conditions:
                patch = status_patch(status, condition, nominated, now)
                if patch is not None:
                    await self._writer.patch_status(pending.pod, patch)
                    status = with_patch(status, condition, nominated, now)
                nominated = None
        except (ApiError, Unanswered, CredentialsError) as fault:
            level = logging.INFO if isinstance(fault, ApiError) and fault.code == 404 else logging.ERROR
            log.log(level, "Error updating pod %s: %s", pending.pod.key, fault)
            return None
        return status


# ---- patches


_FIELDS = dict(zip(Condition.__struct_encode_fields__, Condition.__struct_fields__, strict=True))
"""The fields of a condition, by their names in JSON."""


def status_patch(
    old: PodStatus, condition: Condition | None, nominated_node_name: str | None, now: str
) -> JsonObject | None:
    """The patch after which the status has this condition and names this node; None if it has both already.

    Parity: a change of observedGeneration alone writes nothing; lastTransitionTime changes only with the status.
    """
    status: JsonObject = {}
    if condition is not None:
        status |= _conditions_patch(old.conditions or [], condition, now)
    if nominated_node_name is not None and nominated_node_name != old.nominated_node_name:
        status["nominatedNodeName"] = nominated_node_name or None
    return {"status": status} if status else None


def with_patch(old: PodStatus, condition: Condition | None, nominated_node_name: str | None, now: str) -> PodStatus:
    """The status after the patch, so that a second patch need not wait for the watch."""
    conditions = (
        list(old.conditions or []) if condition is None else with_typed_condition(old.conditions, condition, now)
    )
    nominated = old.nominated_node_name if nominated_node_name is None else nominated_node_name
    return PodStatus(phase=old.phase, start_time=old.start_time, nominated_node_name=nominated, conditions=conditions)


def _conditions_patch(held: list[Condition], condition: Condition, now: str) -> JsonObject:
    """The part of the patch for one condition, with `$setElementOrder` as client-go computes it."""
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
        patch = {"$setElementOrder/conditions": [{"type": each} for each in types], **patch}
    return patch


def _changed(before: Condition | None, after: Condition) -> JsonObject:
    """The fields in which a condition differs; null for a field that it no longer has."""
    changed = {}
    for name, attribute in _FIELDS.items():
        if name == "type":
            continue
        old, new = getattr(before, attribute, None), getattr(after, attribute)
        if old != new and (new or old):
            changed[name] = new or None
    return changed
