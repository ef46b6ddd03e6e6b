"""Views of the scheduling queue: questions about waiting pods that change nothing."""

from mooring.queue.entry import Place, QueueCounters, QueuedPod
from mooring.queue.group_queue import GroupQueue
from mooring.queue.in_flight import InFlight
from mooring.queue.nominations import Nominations
from mooring.queue.places import Places


class QueueViews:
    """The parts of the queue, and what others ask of it. `SchedulingQueue` makes the parts and moves pods between them."""

    counters: QueueCounters
    places: Places
    groups: GroupQueue | None
    """The part for pod groups; None: pods are scheduled one by one, whatever group they name."""
    in_flight: InFlight
    nominations: Nominations

    def backoff_ends_ns(self, entry: QueuedPod) -> int:
        """When a pod in backoff leaves it at the latest, alone or with its group."""
        group = self.groups.entity_of(entry.pod) if self.groups is not None else None
        return self.places.backoff.rule.release_ns(group or entry)

    def where(self, key: str) -> Place | None:
        """Where a pod waits; None: it is in flight, or unknown."""
        place = self.places.where(key)
        return self.groups.where(key) if place is None and self.groups is not None else place

    def all_with(self, key: str) -> list[Place]:
        """All places that have the pod. More than one is a fault, which the self-check looks for."""
        found = self.places.all_with(key)
        place = self.groups.where(key) if self.groups is not None else None
        return found if place is None else [*found, place]

    def is_in_flight(self, uid: str) -> bool:
        """Whether an attempt of the pod is under way."""
        return uid in self.in_flight

    def get(self, key: str) -> QueuedPod | None:
        """The entry of a pod that waits somewhere."""
        entry = self.single(key)
        return self.groups.get(key) if entry is None and self.groups is not None else entry

    def gate_of(self, entry: QueuedPod) -> str:
        """Why a gate holds a pod back, or another member of its group and the pod with it; empty: none does."""
        group = self.groups.entity_of(entry.pod) if self.groups is not None and not entry.is_gated else None
        return entry.gating_message if group is None else group.gating_message

    def entries(self) -> list[QueuedPod]:
        """All pods that wait: active and backoff in the order in which they will leave, unschedulable as they came."""
        waiting = [entry for entity in self.places for entry in entity.entries]
        return waiting if self.groups is None else [*waiting, *self.groups.incomplete, *self.groups.pending]

    def pending_counts(self) -> dict[Place, int]:
        """The gauge of pending pods."""
        sizes = self.places.sizes()
        for place, count in self.groups.more_pods().items() if self.groups is not None else ():
            sizes[place] = sizes.get(place, 0) + count
        return sizes

    def has_next(self) -> bool:
        """Whether `pop` would find a pod."""
        return bool(self.places.active.live) or self.places.has_early()

    def next_release_ns(self) -> int | None:
        """When `flush_backoff` will next have something to do; None: nothing backs off."""
        return self.places.backoff.next_release_ns()

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        problems = self.places.check() + self.in_flight.check() + self.nominations.check()
        problems += [f"{e.key}: queued, but in flight too" for e in self.entries() if e.uid in self.in_flight]
        return problems + (self.groups.check() if self.groups is not None else [])

    def single(self, key: str) -> QueuedPod | None:
        """The entry of a pod that waits alone."""
        entry = self.places.get(key)
        return entry if isinstance(entry, QueuedPod) else None
