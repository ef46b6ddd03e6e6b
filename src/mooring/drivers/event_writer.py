"""Kubernetes events of the scheduler: which event to write for a record, and the queue that sends events.

`EventSeries` turns records into events: the first of its kind is created, repetitions become a series of it. It does no I/O,
and the embedded driver uses it as well. `EventWriter` sends the events of a live scheduler. Events must never delay a bind,
so the writer has its own connections and drops events if the API server is slower than the scheduler.
"""

import logging
import random
import uuid
from collections import deque
from collections.abc import Callable

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_STRUCT
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.apiclient.throttle import Random, Timing
from mooring.drivers.api_writer import ApiWriter
from mooring.framework.contract.intents import Record
from mooring.kit.clock import NS_PER_S, Clock, in_micros
from mooring.kit.tasks import TaskSet
from mooring.model.workloads import AnyPodGroup

# ---- from records to events


Identity = tuple[str | None, ...]

IDLE_NS = 6 * 60 * NS_PER_S
"""client-go: after six minutes without a repetition a series ends, and the event is forgotten."""
REFRESH_NS = 30 * 60 * NS_PER_S
"""client-go: a series that goes on is written again every half hour, because the API server deletes events after an hour."""
MAX_KEPT = 10_000
"""How many events are remembered, so that a burst of new pods cannot fill the memory; the oldest go first."""
_MAX_NAME_CHARS = 253
"""The longest object name that the API server accepts."""


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event to create.

    Hot: as dataclasses, this, _ToldEvent and _QueuedEvent take 4,100 instructions more for each event.
    """

    record: Record
    name: str
    instance: str
    wall_ns: int
    """When it was seen, on the wall clock."""

    @property
    def event(self) -> JsonObject:
        """The event in the form of events.k8s.io/v1. Hot: made when it is sent, and not between the binds of a burst."""
        return _event(self.record, self.name, self.instance, self.wall_ns)


class Repetition(msgspec.Struct, frozen=True, gc=False):
    """An event that exists and gets a new count."""

    namespace: str
    name: str
    series: JsonObject
    event: JsonObject
    """The event to create instead if the API server has deleted the event."""


class _ToldEvent(msgspec.Struct, gc=False):
    first: NewEvent
    seen_ns: int
    """On the steady clock, by which series end."""
    shown_ns: int
    """When it was seen last, on the wall clock, for the series."""
    count: int = 1
    written_ns: int = 0


class EventSeries(msgspec.Struct):
    """Remembers the events of the last minutes. `instance` names this process in reportingInstance.

    `now_ns` is a moment of the clock by which series end, `wall_ns` what events say.
    """

    instance: str
    _told: dict[Identity, _ToldEvent] = msgspec.field(default_factory=dict)
    _last_ns: int = 0

    def tell(self, record: Record, now_ns: int, wall_ns: int) -> NewEvent | Repetition | None:
        """The event or the repetition to write for a record; None if the record is only counted. The second of its kind
        starts a series."""
        identity = _identity(record)
        told = self._told.get(identity)
        if told is None:
            if len(self._told) >= MAX_KEPT:
                del self._told[next(iter(self._told))]
            self._last_ns = max(wall_ns, self._last_ns + 1)  # a part of the name: no two may be the same
            new = NewEvent(record, _name(record, self._last_ns), self.instance, wall_ns)
            self._told[identity] = _ToldEvent(new, now_ns, wall_ns)
            return new
        told.count += 1
        told.seen_ns, told.shown_ns = now_ns, wall_ns
        return _repetition(told, now_ns) if told.count == 2 else None

    def sweep(self, now_ns: int) -> list[Repetition]:
        """The series to write now, because they ended or half an hour has passed. Forgets what is idle."""
        due = []
        for identity, told in list(self._told.items()):
            is_idle = now_ns - told.seen_ns > IDLE_NS
            if is_idle:
                del self._told[identity]
            if told.count > 1 and (is_idle or now_ns - told.written_ns >= REFRESH_NS):
                due.append(_repetition(told, now_ns))
        return due


def _identity(record: Record) -> Identity:
    """The fields by which two records are the same event. Parity: the note does not count, the version of the pod does."""
    meta = record.pod.metadata
    return (
        record.type,
        record.action,
        record.reason,
        record.pod.spec.scheduler_name,
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
    )


def _repetition(told: _ToldEvent, now_ns: int) -> Repetition:
    told.written_ns = now_ns
    series: JsonObject = {"count": told.count, "lastObservedTime": in_micros(told.shown_ns)}
    event = told.first.event
    return Repetition(event["metadata"]["namespace"], told.first.name, series, {**event, "series": series})


def _name(record: Record, name_ns: int) -> str:
    """The name of the pod with a time in hex, as client-go names events."""
    name = f"{record.pod.metadata.name}.{name_ns:x}"
    return name if len(name) <= _MAX_NAME_CHARS else str(uuid.uuid4())


def _event(record: Record, name: str, instance: str, wall_ns: int) -> JsonObject:
    meta, scheduler = record.pod.metadata, record.pod.spec.scheduler_name
    regarding = {
        "kind": "Pod",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "apiVersion": "v1",
        "resourceVersion": meta.resource_version,
    }
    event: JsonObject = {
        "metadata": {"name": name, "namespace": meta.namespace or "default"},
        "eventTime": in_micros(wall_ns),
        "reportingController": scheduler,
        "reportingInstance": f"{scheduler}-{instance}",
        "action": record.action,
        "reason": record.reason,
        "regarding": regarding,
        "note": record.note,
        "type": record.type,
    }
    if record.related is not None:
        event["related"] = _reference(record.related)
    return event


def _reference(group: AnyPodGroup) -> JsonObject:
    """The reference to a group, as client-go writes references."""
    spec, meta = BY_STRUCT[type(group)], group.metadata
    named = {"kind": spec.kind, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {**named, "apiVersion": spec.api_version, "resourceVersion": meta.resource_version}


log = logging.getLogger(__name__)

SENDERS = 8
"""Connections for events, and tasks that send them, one for each. Events may wait."""
EVENTS_OF_A_SENDER = 1_000
"""Two senders are at work while there are events, and one more for so many events in the queue. Each bind is an event,
which is one write more for the API server: with all senders at once, it works on events while binds of a burst wait. A
queue that grows gets more senders, so that an event waits for some seconds at most."""
HELD_S = 5.0
"""How long an event waits at most while binds wait for a connection. Without that, 7 % of the writes in a burst of 5,000 pods
were events."""
MAX_HELD = 6_000
"""With so many events in the queue, events are sent beside binds that wait."""
MAX_QUEUED = 16_000
"""All senders are at work at 6,000 events. The other 10,000 are ten times the queue of kube-scheduler: a burst of binds is a
burst of events, and events are small."""
MAX_TRIES = 12
RETRY_S = 10.0
"""client-go's numbers: 12 tries, 10 s between them and up to a quarter more, so that schedulers do not retry all at once."""


# ---- sending


class _QueuedEvent(msgspec.Struct, gc=False):
    """An event in the queue, and how often it was sent."""

    told: NewEvent | Repetition
    since_s: float
    """When it came to the queue, on the monotonic clock."""
    tries: int = 0


def _nothing_has_precedence() -> bool:
    return False


class EventWriter:
    """`record` never waits: it drops and counts what does not fit into the queue.

    Series end by `clock`; the times in events come from `wall`.
    """

    def __init__(
        self, writer: ApiWriter, clock: Clock, wall: Clock, instance: str, timing: Timing, draw: Random = random.random
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._wall = wall
        self._series = EventSeries(instance)
        self._timing = timing
        self._draw = draw
        self._queue: deque[_QueuedEvent] = deque()
        self._senders, self._resting = TaskSet(), TaskSet()
        """Tasks that send, and events that wait for their next try; those count towards MAX_QUEUED."""
        self._have_precedence: Callable[[], bool] = _nothing_has_precedence
        self.dropped = 0

    def yield_to(self, have_precedence: Callable[[], bool]) -> None:
        """Hold events back for some seconds while other writes have precedence. When these are over, call `go_on`."""
        self._have_precedence = have_precedence

    def go_on(self) -> None:
        """Have senders at work, as many as the queue needs, unless events are held."""
        if not self._queue or self._is_held():
            return
        queued = len(self._queue)
        for _ in range(min(min(SENDERS, 2 + (queued - 1) // EVENTS_OF_A_SENDER) - len(self._senders), queued)):
            self._senders.start(self._send_all())

    def record(self, record: Record) -> None:
        told = self._series.tell(record, self._clock.now_ns(), self._wall.now_ns())
        if told is not None:
            self._enqueue(_QueuedEvent(told, self._timing.monotonic_s()))

    def sweep(self) -> None:
        """Called once a minute: writes series that ended or have gone on for half an hour."""
        for repetition in self._series.sweep(self._clock.now_ns()):
            self._enqueue(_QueuedEvent(repetition, self._timing.monotonic_s()))

    async def close(self, patience_s: float = 2.0) -> None:
        """Send what is queued for up to `patience_s`, then stop."""
        self._have_precedence = _nothing_has_precedence
        for _ in range(min(SENDERS, len(self._queue)) - len(self._senders)):
            self._senders.start(self._send_all())
        await self._senders.settle(patience_s)
        self.halt()

    def halt(self) -> None:
        """Cancel everything at once: this instance lost the lease."""
        self._queue.clear()
        self._senders.cancel()
        self._resting.cancel()

    def _enqueue(self, queued: _QueuedEvent) -> None:
        """Queue an event, and have senders at work. With MAX_QUEUED events in the queue, the event is dropped and counted."""
        if len(self._queue) + len(self._resting) >= MAX_QUEUED:
            self.dropped += 1
            return
        self._queue.append(queued)
        self.go_on()

    def _is_held(self) -> bool:
        """Whether events wait for binds: not longer than HELD_S, and no more than MAX_HELD of them."""
        queue = self._queue
        return (
            len(queue) < MAX_HELD and self._have_precedence() and self._timing.monotonic_s() - queue[0].since_s < HELD_S
        )

    async def _send_all(self) -> None:
        while self._queue and not self._is_held():
            await self._send(self._queue.popleft())

    async def _send(self, queued: _QueuedEvent) -> None:
        """Send once. A refusal is final; without an answer the event is tried again for two minutes."""
        queued.tries += 1
        try:
            await self._write(queued.told)
        except ApiError as refused:
            is_ours = refused.reason == "AlreadyExists"  # an earlier try was carried out, but its answer was lost
            log.log(logging.DEBUG if is_ours else logging.WARNING, "Server rejected event: %s", refused)
        except (Unanswered, CredentialsError) as fault:
            if queued.tries == MAX_TRIES:
                log.warning("Unable to write event after %d tries: %s", MAX_TRIES, fault)
                return
            log.info("Unable to write event, retrying: %s", fault)
            self._resting.start(self._send_again(queued))

    async def _send_again(self, queued: _QueuedEvent) -> None:
        """Wait outside of the queue, so that other events are sent meanwhile."""
        await self._timing.sleep(RETRY_S * (1 + 0.25 * self._draw()))
        queued.since_s = self._timing.monotonic_s()
        self._enqueue(queued)

    async def _write(self, told: NewEvent | Repetition) -> None:
        """Create the event, or patch its series; an event that the API server no longer has is created again."""
        if isinstance(told, NewEvent):
            await self._writer.create_event(told.event)
            return
        try:
            await self._writer.patch_event(told.namespace, told.name, told.series)
        except ApiError as refused:
            if refused.code != 404:
                raise
            await self._writer.create_event(told.event)
