"""The places where pods wait, and the moves between them, with what each move counts and tells."""

from collections.abc import Iterator
from dataclasses import dataclass

from mooring.framework.events import UNSCHEDULABLE_POD_ADD, UNSCHEDULABLE_POD_UPDATE
from mooring.kit.clock import Clock
from mooring.kit.heap import KeyedHeap
from mooring.model.pod import Pod
from mooring.queue.backoff import BackoffQueue
from mooring.queue.counters import QueueCounters
from mooring.queue.entry import Place, QueuedPod
from mooring.queue.gates import Gates
from mooring.queue.hints import QueueingStrategy, Report
from mooring.queue.nominations import Nominations
from mooring.queue.story import Tell, moved
from mooring.queue.unschedulable_pods import UnschedulablePods

_NOMINATING = frozenset((UNSCHEDULABLE_POD_ADD.label, UNSCHEDULABLE_POD_UPDATE.label))
"""When pods become active by these, their status says where they are nominated."""


@dataclass(slots=True)
class Places:
    """Active, backoff and unschedulable pods; a pod is in one of them at most.

    Each move takes a label: what caused it, as metrics call it. It answers where the pod is now, which may be among the
    gated ones although it was meant to go elsewhere.
    """

    active: KeyedHeap[QueuedPod]
    backoff: BackoffQueue
    unschedulable: UnschedulablePods
    gates: Gates
    nominations: Nominations
    counters: QueueCounters
    clock: Clock
    report: Report
    tell: Tell | None
    pops_early: bool
    """Pods may be taken out of backoff early. So they meet the gates on their way in, and not again when they leave."""

    def get(self, key: str) -> QueuedPod | None:
        return self.active.get(key) or self.unschedulable.get(key) or self.backoff.get(key)

    def where(self, key: str) -> Place | None:
        if key in self.active:
            return "active"
        if key in self.backoff:
            return "backoff"
        unschedulable = self.unschedulable.get(key)
        if unschedulable is None:
            return None
        return "gated" if unschedulable.is_gated else "unschedulable"

    def __iter__(self) -> Iterator[QueuedPod]:
        """All pods: active and backoff in the order in which they will leave, unschedulable as they came."""
        yield from self.active.sorted()
        yield from self.backoff
        yield from self.unschedulable

    def requeue(self, entry: QueuedPod, worth: QueueingStrategy, label: str) -> Place:
        """Bring a pod to where it belongs after something happened that was worth this much to it."""
        if worth is QueueingStrategy.SKIP:
            return self.to_parked(entry, label)
        if worth is QueueingStrategy.AFTER_BACKOFF and self.backoff.rule.holds(entry, self.clock.now_ns()):
            return self.to_backoff(entry, label)
        return self.to_active(entry, label)

    def to_active(self, entry: QueuedPod, label: str, from_backoff: bool = False) -> Place:
        if not (from_backoff and self.pops_early) and not self.gates.admit(entry):
            return self._to_gated(entry, label)
        if entry.initial_attempt_ns is None:
            entry.initial_attempt_ns = self.clock.now_ns()
        self.active.push(entry)  # first: should it fail, the pod stays where it is
        self.unschedulable.remove(entry.key)
        self.backoff.remove(entry.key)
        self.counters.incoming["active", label] += 1
        if label in _NOMINATING:
            self.nominations.add(entry.pod)
        self._tell(entry, label, "active")
        return "active"

    def to_backoff(self, entry: QueuedPod, label: str) -> Place:
        if self.pops_early and not self.gates.admit(entry):
            return self._to_gated(entry, label)
        if not self.backoff.push(entry):
            self.report(f"pod {entry.key} was in both backoff heaps", None)
        self.unschedulable.remove(entry.key)
        self.counters.incoming["backoff", label] += 1
        self._tell(entry, label, "backoff")
        return "backoff"

    def to_parked(self, entry: QueuedPod, label: str) -> Place:
        if self.unschedulable.put(entry):
            self.counters.incoming["unschedulable", label] += 1
        place: Place = "gated" if entry.is_gated else "unschedulable"
        self._tell(entry, label, place)
        return place

    def _to_gated(self, entry: QueuedPod, label: str) -> Place:
        """Park a pod that a gate held back, unless it is queued: it passed then, and no one takes that back."""
        place = self.where(entry.key)
        if place in ("active", "backoff"):
            return place
        entry.was_flushed = False
        return self.to_parked(entry, label)

    def replace_pod(self, entry: QueuedPod, pod: Pod) -> None:
        """The pod of an entry was changed: bring the entry to where it belongs in the same place."""
        entry.pod, entry.uid = pod, pod.id
        if entry.key in self.active:
            self.active.push(entry)
        elif entry.key in self.backoff:
            self.backoff.update(entry)
        else:
            self.unschedulable.put(entry)

    def remove(self, key: str) -> QueuedPod | None:
        entry = self.active.remove(key) or self.backoff.remove(key)
        if entry is None:
            entry = self.unschedulable.remove(key)
            # Parity: only unschedulable pods are taken off the gauge; those deleted elsewhere stay on it.
            if entry is not None:
                self.counters.release(entry)
        return entry

    def _tell(self, entry: QueuedPod, label: str, place: Place) -> None:
        if self.tell is not None:
            until_ns = self.backoff.rule.release_ns(entry) if place == "backoff" else None
            self.tell(entry.pod, moved(entry, label, place, until_ns))

    def check(self) -> list[str]:
        problems = [f"active {problem}" for problem in self.active.check()]
        problems += self.backoff.check() + self.unschedulable.check()
        for entry in self.active:
            if entry.is_gated:
                problems.append(f"{entry.key}: active, but gated")
            if entry.initial_attempt_ns is None:
                problems.append(f"{entry.key}: active, but it never became so")
            if entry.key in self.backoff or entry.key in self.unschedulable:
                problems.append(f"{entry.key}: active, and in another place too")
        problems += [f"{e.key}: in backoff, and parked too" for e in self.backoff if e.key in self.unschedulable]
        return problems
