"""The simulated cluster: a store of objects and a virtual clock around the scheduler. What it wants is done at once."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from mooring.apiserver.patches.merge_patch import apply_merge_patch
from mooring.apiserver.patches.strategic_merge import apply_strategic_merge_patch
from mooring.framework.intents import (
    Bind,
    Call,
    CallFault,
    CallReply,
    Evict,
    Intent,
    PatchStatus,
    Record,
    Write,
    WriteFault,
)
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import Condition, KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S
from mooring.rules.conditions import with_typed_condition
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.inputs import (
    BindAnswered,
    CallAnswered,
    EvictionAnswered,
    HalfMinutePassed,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    SecondPassed,
    WriteAnswered,
)
from mooring.scheduler.scheduler import Scheduler

ATTEMPT_NS = 1_000_000
"""How long an attempt takes on the virtual clock."""

EVENTS = 10_000
"""How many events are kept; older ones are forgotten."""

START_NS = 1_769_904_000_000_000_000
"""When simulations begin: 2026-02-01T00:00:00Z."""


class Driver:
    """Keeps the objects, moves the clock, and carries out what the scheduler wants."""

    def __init__(self, clock: VirtualClock, scheduler: Scheduler, *, with_versions: bool = False) -> None:
        self.clock = clock
        self._version = 0 if with_versions else None
        """Objects get a new resourceVersion with each change, as on a real server; without, they keep what they have."""
        self.scheduler = scheduler
        self.objects: dict[tuple[str, str], KubeObject] = {}
        """By kind and key."""
        self.events: deque[Record] = deque(maxlen=EVENTS)
        self.on_changed: Callable[[KubeObject], None] | None = None
        """Told each object that was created or changed, after the scheduler."""
        self.extender: Callable[[Call], Any] | None = None
        """Stands in for the extenders: answers with plain data, or with a CallFault. None: they are not asked."""
        self.on_removed: Callable[[KubeObject], None] | None = None
        """Told each object that is gone, after the scheduler."""
        self.on_bound: Callable[[Pod], None] | None = None
        self.on_evicted: Callable[[Pod, Pod], None] | None = None
        """Told the victim and the preemptor."""
        self._names_given = 0
        """Objects that asked for a name of their own."""
        self._seconds = 0
        self._flush_ns = clock.now_ns() + UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S

    # ---- the cluster changes

    def create(self, item: KubeObject) -> None:
        item = self._versioned(item)
        self.objects[_name(item)] = item
        self.scheduler.handle(ObjectAdded(item))
        if self.on_changed is not None:
            self.on_changed(item)

    def update(self, item: KubeObject) -> None:
        """Change an object; a pod keeps the status and the node that the cluster has. Nothing happens if it is gone."""
        old = self.objects.get(_name(item))
        if old is None:
            return
        if isinstance(item, Pod) and isinstance(old, Pod):
            spec = msgspec.structs.replace(item.spec, node_name=old.spec.node_name)
            item = Pod(metadata=item.metadata, spec=spec, status=old.status)
        self._replace(old, item)

    def delete(self, kind: str, key: str) -> None:
        """Remove an object. Nothing happens if it is gone."""
        item = self.objects.pop((kind, key), None)
        if item is not None:
            self.scheduler.handle(ObjectRemoved(item))
            if self.on_removed is not None:
                self.on_removed(item)

    def pods(self) -> list[Pod]:
        return [item for item in self.objects.values() if isinstance(item, Pod)]

    def nodes(self) -> list[Node]:
        return [item for item in self.objects.values() if isinstance(item, Node)]

    # ---- time passes

    def advance_second(self) -> None:
        """One second later: backoffs and waits that are over, and each half minute the pods that waited too long."""
        self.clock.advance_ns(NS_PER_S)
        self._seconds += 1
        self.tick()
        if self._seconds % UNSCHEDULABLE_FLUSH_PERIOD_S == 0:
            self.scheduler.handle(HalfMinutePassed())
        self.scheduler.carry_out(self._do)

    def next_ns(self, planned_ns: int | None = None) -> int | None:
        """When something happens next: a backoff or a wait ends, or what others have planned for then.

        The flush of unschedulable pods comes in between where there are any; it alone is nothing to wait for.
        """
        times = (planned_ns, self.scheduler.next_release_ns(), self.scheduler.next_deadline_ns())
        known = [when for when in times if when is not None]
        if not known:
            return None
        next_ns = min(known)
        if self._flush_ns < next_ns and self._has_unschedulable():
            next_ns = self._flush_ns
        return max(next_ns, self.clock.now_ns())

    def _has_unschedulable(self) -> bool:
        waiting = self.scheduler.pending_counts()
        return bool(waiting["unschedulable"] or waiting["gated"])

    def jump(self, when_ns: int) -> None:
        """Go ahead to that moment, unless it has passed, and let pods go whose backoff or wait is over by then."""
        now_ns = max(when_ns, self.clock.now_ns())
        self.clock.advance_ns(now_ns - self.clock.now_ns())
        self.tick()
        if self._flush_ns <= now_ns:
            self.scheduler.handle(HalfMinutePassed())
            period_ns = UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S
            self._flush_ns += (1 + (now_ns - self._flush_ns) // period_ns) * period_ns
        self.scheduler.carry_out(self._do)

    def tick(self) -> None:
        """Let pods go whose backoff or wait is over."""
        self.scheduler.handle(SecondPassed())
        self.scheduler.release_waiting()

    def settle(self) -> list[str]:
        """Attempts until no one's turn is left. Returns the pods in the order in which they were tried."""
        attempted = []
        self.scheduler.release_waiting()
        self.scheduler.carry_out(self._do)
        while (pod := self.attempt_once()) is not None:
            attempted.append(pod.key)
        return attempted

    def attempt_once(self) -> Pod | None:
        """One attempt, and what it leads to. None when no one's turn has come."""
        if not self.scheduler.has_work():
            return None
        self.clock.advance_ns(ATTEMPT_NS)
        pod = self.scheduler.attempt()
        self.scheduler.carry_out(self._do)
        return pod

    # ---- what the scheduler wants

    def _do(self, intent: Intent) -> None:
        match intent:
            case Bind():
                self._bind(intent)
            case PatchStatus():
                self._patch(intent.pod, intent.condition, intent.nominated_node_name)
            case Evict():
                self._patch(intent.victim, intent.condition, None)
                self.delete("Pod", intent.victim.key)
                self.scheduler.handle(EvictionAnswered(intent.victim, intent.preemptor))
                if self.on_evicted is not None:
                    self.on_evicted(intent.victim, intent.preemptor)
            case Record():
                self.events.append(intent)
            case Write():
                self._write(intent)
            case Call():
                self.scheduler.handle(CallAnswered(intent.token, self._reply(intent)))

    def _bind(self, intent: Bind) -> None:
        pod = self.objects.get(("Pod", intent.pod.key))
        if not isinstance(pod, Pod) or pod.id != intent.pod.id:
            self.scheduler.handle(BindAnswered(intent.pod, f'pods "{intent.pod.name}" not found'))
            return
        conditions = with_typed_condition(pod.status.conditions, Condition(type=POD_SCHEDULED, status="True"))
        status = msgspec.structs.replace(pod.status, conditions=conditions, nominated_node_name="")
        bound = pod.with_status(status).with_node(intent.node_name)
        self._replace(pod, bound)
        self.scheduler.handle(BindAnswered(intent.pod))
        if self.on_bound is not None:
            self.on_bound(bound)

    def _reply(self, call: Call) -> CallReply:
        if self.extender is None:
            return CallFault(f'Post "{call.url}": a simulation asks no extenders')
        answer = self.extender(call)
        return answer if isinstance(answer, CallFault) else msgspec.json.encode(answer)

    def _write(self, intent: Write) -> None:
        """Create, change or delete an object, then tell the scheduler what came of it."""
        try:
            item = self._written(intent)
        except WriteRefused as fault:
            self.scheduler.handle(WriteAnswered(intent.token, None, WriteFault(str(fault), fault.code)))
        else:
            self.scheduler.handle(WriteAnswered(intent.token, item))

    def _written(self, intent: Write) -> KubeObject | None:
        if intent.method == "POST" and not intent.name:
            self._names_given += 1
            intent = named(intent, f"{self._names_given:05d}")
        key = f"{intent.namespace}/{intent.name}" if intent.namespace else intent.name
        old = self.objects.get((intent.kind.__name__, key))
        if intent.method == "DELETE":
            self.delete(intent.kind.__name__, key)
            return None
        new = after(intent, old)
        if old is None:
            self.create(new)
        else:
            self._replace(old, new)
        return self.objects[_name(new)]

    def _patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        old = self.objects.get(("Pod", pod.key))
        if not isinstance(old, Pod) or old.id != pod.id:
            return
        status = msgspec.structs.replace(old.status)
        if condition is not None:
            status.conditions = with_typed_condition(status.conditions, condition)
        if nominated is not None:
            status.nominated_node_name = nominated
        self._replace(old, old.with_status(status))

    def _replace(self, old: KubeObject, new: KubeObject) -> None:
        new = self._versioned(new)
        self.objects[_name(new)] = new
        self.scheduler.handle(ObjectUpdated(old, new))
        if self.on_changed is not None:
            self.on_changed(new)

    def _versioned(self, item: KubeObject) -> KubeObject:
        if self._version is None:
            return item
        self._version += 1
        if isinstance(item, Pod):
            return item.with_version(str(self._version))
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        if not metadata.uid:
            metadata.uid = f"uid-of-{item.key}"  # volumes know their claims by it
        versioned: KubeObject = msgspec.structs.replace(item, metadata=metadata)
        return versioned


def _name(item: KubeObject) -> tuple[str, str]:
    return type(item).__name__, item.key


# ---- What a write makes of an object in the simulated cluster, and what it is refused for.


_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class WriteRefused(Exception):
    """The object is gone, there already, or not the one that was meant; `code` is that of the HTTP answer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def named(write: Write, ending: str) -> Write:
    """A creation with a name, where it only said how the name should begin."""
    body = write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body)
    name = f"{body['metadata'].get('generateName', '')}{ending}"
    return replace(write, name=name, body={**body, "metadata": {**body["metadata"], "name": name}})


def after(write: Write, old: KubeObject | None) -> KubeObject:
    """The object as the write leaves it."""
    kind = write.kind.__name__.lower()
    if write.method == "POST" and old is not None:
        raise WriteRefused(f'{kind} "{write.name}" already exists', 409)
    if write.method != "POST" and old is None:
        raise WriteRefused(f'{kind} "{write.name}" not found', 404)
    body = write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body)
    expected = body.get("metadata", {}).get("resourceVersion")
    if old is not None and expected and expected != old.metadata.resource_version:
        raise WriteRefused(f'Operation cannot be fulfilled on {kind} "{write.name}": {_MODIFIED}', 409)
    if write.method == "PATCH":
        known = {"kind": write.kind.__name__, **msgspec.to_builtins(old)}
        body = apply_strategic_merge_patch(known, body) if write.form == "strategic" else apply_merge_patch(known, body)
    return msgspec.convert(body, write.kind)
