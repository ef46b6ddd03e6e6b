"""Pods in flight, and what happened in the cluster since the attempt of each began.

An attempt sees the cluster as it was when it began. If it fails, the events that came meanwhile decide whether the pod
is unschedulable or tried again; without them an event that comes during an attempt would be lost.
"""

from collections import OrderedDict

from mooring.queue.entry import QueueCounters, QueuedPod
from mooring.queue.hints import ObservedEvent


class InFlight:
    """The pods whose attempts are under way, and one list of events that all of them share.

    A pod remembers at which position of the list it started. Positions are counted from the beginning of time; events
    that came before the oldest start are forgotten, and there are none while nothing is in flight.
    """

    TRIM = 64
    """Forgotten events are cut off in pieces of at least this many, so that each is moved only a few times."""

    def __init__(self, counters: QueueCounters) -> None:
        self._counters = counters
        self._counts = counters.kept_events
        # In a plain dict the search for the oldest start would walk over all that were deleted: 12 µs for each of 20,000.
        self.started: OrderedDict[str, QueuedPod] = OrderedDict()
        """The entries by uid, oldest start first. Each bears the position at which its attempt started (`start`)."""
        self._events: list[ObservedEvent] = []
        self._base = 0
        """The position of the first item of `_events`."""
        self._forgotten = 0
        """The position of the first event that still counts; those before it wait to be cut off."""

    def __len__(self) -> int:
        return len(self.started)

    def __contains__(self, uid: str) -> bool:
        return uid in self.started

    def uids(self) -> list[str]:
        """The pods in flight, oldest start first."""
        return list(self.started)

    def entry(self, uid: str) -> QueuedPod | None:
        """The entry of a pod in flight."""
        return self.started.get(uid)

    def entries(self) -> list[QueuedPod]:
        """The entries of the pods in flight, oldest start first."""
        return list(self.started.values())

    def start(self, entry: QueuedPod) -> bool:
        """An attempt begins. False: one is under way already, and nothing changed."""
        uid = entry.uid
        if uid in self.started:
            return False
        self.started[uid] = entry
        entry.start = self._base + len(self._events)
        self._counters.flights_begun += 1
        return True

    def record(self, observed: ObservedEvent) -> None:
        """Keep an event for all pods in flight; without any, the event is not needed."""
        if self.started:
            self._events.append(observed)
            self._counts[observed.label] += 1

    def since_start(self, uid: str) -> list[ObservedEvent] | None:
        """The events since the pod's attempt began; None: no attempt of it is under way."""
        entry = self.started.get(uid)
        return None if entry is None else self._events[entry.start - self._base :]

    def finish(self, uid: str) -> QueuedPod | None:
        """The attempt is over. Returns the entry of the pod; None: it was over already."""
        entry = self.started.pop(uid, None)
        if entry is None:
            return None
        self._counters.flights_ended += 1
        # Hot: as a rule nothing happened meanwhile, and there is nothing to forget.
        if self._events and entry.start == self._forgotten:
            oldest = next(iter(self.started.values()), None)
            self._forget(self._base + len(self._events) if oldest is None else oldest.start)
        return entry

    def _forget(self, position: int) -> None:
        """Drop the events before a position."""
        for observed in self._events[self._forgotten - self._base : position - self._base]:
            self._counts[observed.label] -= 1
        self._forgotten = position
        cut = position - self._base
        if cut == len(self._events) or cut >= max(self.TRIM, len(self._events) // 2):
            del self._events[:cut]
            self._base = position

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        problems = []
        starts = [entry.start for entry in self.started.values()]
        end = self._base + len(self._events)
        if starts != sorted(starts):
            problems.append("in flight: the pods are not in the order of their starts")
        if self._forgotten != (starts[0] if starts else end):
            problems.append("in flight: events before the oldest start are kept, or later ones forgotten")
        if any(entry.uid != uid for uid, entry in self.started.items()):
            problems.append("in flight: an entry is filed under another pod")
        if not starts and self._events:
            problems.append(f"in flight: {len(self._events)} events are kept, but no pod is in flight")
        counted = self._counters.in_flight_events.total()
        if counted != len(starts) + end - self._forgotten:
            problems.append(f"in flight: {counted} events are counted, {len(starts) + end - self._forgotten} are there")
        return problems
