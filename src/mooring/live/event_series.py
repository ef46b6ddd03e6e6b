"""Kubernetes events out of records: the first of its kind is created, repetitions become a series of it."""

import uuid
from dataclasses import dataclass, field

from mooring.framework.intents import Record
from mooring.kit.clock import NS_PER_S, in_micros
from mooring.model.json_objects import JsonObject

Identity = tuple[str | None, ...]

IDLE_NS = 6 * 60 * NS_PER_S
"""After so long without a repetition a series ends, and an event is forgotten."""
REFRESH_NS = 30 * 60 * NS_PER_S
MAX_KEPT = 10_000
_MAX_NAME_CHARS = 253


@dataclass(frozen=True, slots=True)
class NewEvent:
    """To be created, in the form of events.k8s.io/v1."""

    event: JsonObject


@dataclass(frozen=True, slots=True)
class Repetition:
    """The series of an event that was created before."""

    namespace: str
    name: str
    series: JsonObject
    event: JsonObject
    """To be created instead, should that one be gone."""


@dataclass(slots=True)
class _ToldEvent:
    event: JsonObject
    seen_ns: int
    count: int = 1
    written_ns: int = 0


@dataclass(slots=True)
class EventSeries:
    """Remembers what was told of late. `instance` names this process."""

    instance: str
    _told: dict[Identity, _ToldEvent] = field(default_factory=dict)
    _last_ns: int = 0

    def tell(self, record: Record, now_ns: int) -> NewEvent | Repetition | None:
        """What to write because of a record; None: it is only counted."""
        identity = _identity(record)
        told = self._told.get(identity)
        if told is None:
            if len(self._told) >= MAX_KEPT:
                del self._told[next(iter(self._told))]
            self._last_ns = max(now_ns, self._last_ns + 1)  # the moment is the event's name: no two are the same
            event = _event(record, self.instance, self._last_ns)
            self._told[identity] = _ToldEvent(event, now_ns)
            return NewEvent(event)
        told.count += 1
        told.seen_ns = now_ns
        return _repetition(told, now_ns) if told.count == 2 else None

    def sweep(self, now_ns: int) -> list[Repetition]:
        """Series to be written again after half an hour or because they ended. What is idle is forgotten."""
        due = []
        for identity, told in list(self._told.items()):
            is_idle = now_ns - told.seen_ns > IDLE_NS
            if is_idle:
                del self._told[identity]
            if told.count > 1 and (is_idle or now_ns - told.written_ns >= REFRESH_NS):
                due.append(_repetition(told, now_ns))
        return due


def _identity(record: Record) -> Identity:
    """Parity: the note does not count, the version of the pod does."""
    meta = record.pod.metadata
    return (
        *(record.type, record.action, record.reason, record.pod.spec.scheduler_name),
        *(meta.namespace, meta.name, meta.uid, meta.resource_version),
    )


def _repetition(told: _ToldEvent, now_ns: int) -> Repetition:
    told.written_ns = now_ns
    series: JsonObject = {"count": told.count, "lastObservedTime": in_micros(told.seen_ns)}
    metadata = told.event["metadata"]
    return Repetition(metadata["namespace"], metadata["name"], series, {**told.event, "series": series})


def _event(record: Record, instance: str, now_ns: int) -> JsonObject:
    pod = record.pod
    name = f"{pod.name}.{now_ns:x}"
    if len(name) > _MAX_NAME_CHARS:
        name = str(uuid.uuid4())
    scheduler = pod.spec.scheduler_name
    regarding = {
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "apiVersion": "v1",
        "resourceVersion": pod.metadata.resource_version,
    }
    return {
        "metadata": {"name": name, "namespace": pod.namespace or "default"},
        "eventTime": in_micros(now_ns),
        "reportingController": scheduler,
        "reportingInstance": f"{scheduler}-{instance}",
        "action": record.action,
        "reason": record.reason,
        "regarding": regarding,
        "note": record.note,
        "type": record.type,
    }
