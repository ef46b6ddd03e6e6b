"""The driver of simulations: a store of objects and a virtual clock around the scheduler.

It carries out every intent at once and without failures, except for writes that contradict the store. Time passes only when a
caller says so, and jumps over the time in which nothing happens, so a simulated day takes seconds.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.drivers.driver import IntentDriver, changed_by, plain_body
from mooring.framework.contract.intents import Bind, Call, CallFault, CallReply, Evict, PatchStatus, Record, Write
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import Condition, KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S
from mooring.rules.conditions import with_typed_condition
from mooring.scheduler import inputs
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.scheduler import Scheduler

ATTEMPT_NS = 1_000_000
"""How long an attempt takes on the virtual clock: 1 ms. Not zero, so that no two attempts have the same time."""

EVENTS = 10_000
"""How many events are kept, the latest: a day of a large cluster has millions."""

START_NS = 1_769_904_000_000_000_000
"""When simulations begin: 2026-02-01T00:00:00Z. Fixed, so that two runs print the same times."""


class Driver(IntentDriver):
    """Keeps the objects, moves the clock, and carries out intents.

    The order of callbacks is fixed: the scheduler sees a change first, then `on_changed` or `on_removed`.
    """

    def __init__(self, clock: VirtualClock, scheduler: Scheduler, *, with_versions: bool = False) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self._version = 0 if with_versions else None
        """With versions, each change gives an object a new resourceVersion, as an API server does; without, objects keep
        theirs, as in the timelines of the conformance corpus."""
        self.objects: dict[tuple[str, str], KubeObject] = {}
        """(kind, key) -> object; the key is `namespace/name` or `name`."""
        self.events: deque[Record] = deque(maxlen=EVENTS)
        self.on_changed: Callable[[KubeObject], None] | None = None
        """Called with each object that was created or changed."""
        self.extender: Callable[[Call], Any] | None = None
        """Answers calls to extenders with plain data or a CallFault. None: every call fails."""
        self.on_removed: Callable[[KubeObject], None] | None = None
        """Called with each object that was deleted."""
        self.on_bound: Callable[[Pod], None] | None = None
        self.on_evicted: Callable[[Pod, Pod], None] | None = None
        """Called with the victim and the preemptor."""
        self._names_given = 0
        """How many objects with a generateName were created; the number ends their names."""
        self._seconds = 0
        self._flush_ns = clock.now_ns() + UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S

    @property
    def version(self) -> int:
        """Grows with every change of an object; stays 0 without versions."""
        return self._version or 0

    # ---- the cluster changes

    def create(self, item: KubeObject) -> None:
        """Create an object in the simulated cluster and tell the scheduler about it, as a watch would."""
        if self._version is not None:
            item = self._versioned(item)
        self.objects[type(item).__name__, item.key] = item
        self.scheduler.handle(inputs.ObjectAdded(item))
        if self.on_changed is not None:
            self.on_changed(item)

    def begin_with(self, items: Iterable[KubeObject]) -> None:
        """Create the objects that are there when a simulation begins. Where the scheduler can, it takes pods on nodes in at
        once, after all others; they keep the versions that they have."""
        can_fill, placed = self.scheduler.can_fill, list[Pod]()
        for item in items:
            if can_fill and isinstance(item, Pod) and item.spec.node_name and item.metadata.resource_version:
                self.objects["Pod", item.key] = item
                placed.append(item)
            else:
                self.create(item)
        self.scheduler.fill(placed)
        if self._version is not None:
            self._version += len(placed)

    def update(self, item: KubeObject) -> None:
        """Change an object. A pod keeps the status and the node that the cluster has. Does nothing if the object is gone."""
        old = self.objects.get(_name(item))
        if old is None:
            return
        if isinstance(item, Pod) and isinstance(old, Pod):
            spec = msgspec.structs.replace(item.spec, node_name=old.spec.node_name)
            item = Pod(metadata=item.metadata, spec=spec, status=old.status)
        self._replace(old, item)

    def delete(self, kind: str, key: str) -> None:
        """Delete an object. Does nothing if it is gone."""
        item = self.objects.pop((kind, key), None)
        if item is not None:
            self.scheduler.handle(inputs.ObjectRemoved(item))
            if self.on_removed is not None:
                self.on_removed(item)

    def pods(self) -> list[Pod]:
        return [item for item in self.objects.values() if isinstance(item, Pod)]

    def nodes(self) -> list[Node]:
        return [item for item in self.objects.values() if isinstance(item, Node)]

    # ---- time passes

    def advance_second(self) -> None:
        """Let one second pass: ends backoffs and waits that are over, and flushes unschedulable pods each half minute."""
        self.clock.advance_ns(NS_PER_S)
        self._seconds += 1
        self.tick()
        if self._seconds % UNSCHEDULABLE_FLUSH_PERIOD_S == 0:
            self.scheduler.handle(inputs.HalfMinutePassed())
        self.carry_out()

    def next_ns(self, planned_ns: int | None = None) -> int | None:
        """When something happens next: the end of a backoff or a wait, or `planned_ns`. None: nothing will happen.

        The flush of unschedulable pods counts only before such an event: it never ends, and alone it changes nothing.
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
        """Set the clock to that time, unless it has passed, and end the backoffs and waits that are over by then."""
        now_ns = max(when_ns, self.clock.now_ns())
        self.clock.advance_ns(now_ns - self.clock.now_ns())
        self.tick()
        if self._flush_ns <= now_ns:
            self.scheduler.handle(inputs.HalfMinutePassed())
            period_ns = UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S
            self._flush_ns += (1 + (now_ns - self._flush_ns) // period_ns) * period_ns
        self.carry_out()

    def tick(self) -> None:
        """End the backoffs and waits that are over."""
        self.scheduler.handle(inputs.TimePassed())
        self.scheduler.release_waiting()

    def settle(self) -> list[str]:
        """Attempt pods until the active queue is empty. Returns the pods in the order of their attempts."""
        attempted = []
        self.scheduler.release_waiting()
        self.carry_out()
        while (pod := self.attempt_once()) is not None:
            attempted.append(pod.key)
        return attempted

    def attempt_once(self) -> Pod | None:
        """Attempt one pod and carry out the intents. None if the active queue is empty."""
        if not self.scheduler.has_work():
            return None
        self.clock.advance_ns(ATTEMPT_NS)
        pod = self.scheduler.attempt()
        self.carry_out()
        return pod

    # ---- intents

    def _record(self, intent: Record) -> None:
        self.events.append(intent)

    def _patch_status(self, intent: PatchStatus) -> None:
        self._patch(intent.pod, intent.condition, intent.nominated_node_name)

    def _evict(self, intent: Evict) -> None:
        self._patch(intent.victim, intent.condition, None)
        self.delete("Pod", intent.victim.key)
        self.scheduler.handle(inputs.EvictionAnswered(intent.victim, intent.preemptor))
        if self.on_evicted is not None:
            self.on_evicted(intent.victim, intent.preemptor)

    def _bind(self, intent: Bind) -> None:
        """Bind as the API server does: set PodScheduled and the node, clear the nomination."""
        pod = self.objects.get(("Pod", intent.pod.key))
        if not isinstance(pod, Pod) or pod.id != intent.pod.id:
            self.scheduler.handle(inputs.BindAnswered(intent.pod, f'pods "{intent.pod.name}" not found'))
            return
        conditions = with_typed_condition(pod.status.conditions, Condition(type=POD_SCHEDULED, status="True"))
        status = msgspec.structs.replace(pod.status, conditions=conditions, nominated_node_name="")
        bound = pod.with_status(status).with_node(intent.node_name)
        self._replace(pod, bound)
        self.bound += 1
        self.scheduler.handle(inputs.BindAnswered(intent.pod))
        if self.on_bound is not None:
            self.on_bound(bound)

    def _call(self, intent: Call) -> None:
        self.scheduler.handle(inputs.CallAnswered(intent.token, self._reply(intent)))

    def _reply(self, call: Call) -> CallReply:
        if self.extender is None:
            return CallFault(f'Post "{call.shown_url}": a simulation asks no extenders')
        answer = self.extender(call)
        return answer if isinstance(answer, CallFault) else msgspec.json.encode(answer)

    def _written(self, intent: Write) -> KubeObject | None:
        """The object after the write, None after a deletion. Raises ApiError."""
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
        """Patch the status of a pod, unless it is gone or another pod has its name."""
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
        self.scheduler.handle(inputs.ObjectUpdated(old, new))
        if self.on_changed is not None:
            self.on_changed(new)

    def _versioned(self, item: KubeObject) -> KubeObject:
        """The object with a new resourceVersion, if this driver gives versions."""
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


# ---- writes: the object after a write, and refusals in the words of an API server


_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def named(write: Write, ending: str) -> Write:
    """The creation of an object with a generateName, with its name completed."""
    body = plain_body(write)
    name = f"{body['metadata'].get('generateName', '')}{ending}"
    return replace(write, name=name, body={**body, "metadata": {**body["metadata"], "name": name}})


def after(write: Write, old: KubeObject | None) -> KubeObject:
    """The object after the write. Raises ApiError."""
    kind = write.kind.__name__.lower()
    if write.method == "POST" and old is not None:
        raise ApiError(409, "AlreadyExists", f'{kind} "{write.name}" already exists')
    if write.method != "POST" and old is None:
        raise ApiError(404, "NotFound", f'{kind} "{write.name}" not found')
    body = plain_body(write)
    expected = body.get("metadata", {}).get("resourceVersion")
    if old is not None and expected and expected != old.metadata.resource_version:
        raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on {kind} "{write.name}": {_MODIFIED}')
    held = {"kind": write.kind.__name__, **msgspec.to_builtins(old)} if write.method == "PATCH" else {}
    return msgspec.convert(changed_by(write, held, body), write.kind)
