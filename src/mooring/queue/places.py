"""The places where pods wait and the moves between them, and what each move counts and tells."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.cluster.pods.pod_groups import GroupTree
from mooring.framework.contract.events import FORCE_ACTIVATE, UNSCHEDULED_POD_ADD
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.heap import KeyedHeap
from mooring.model.pod import Pod
from mooring.queue.backoff import BackoffQueue
from mooring.queue.entry import (
    ATTEMPT_FAILED,
    Place,
    QueueCounters,
    QueuedEntity,
    QueuedGroup,
    QueuedPod,
    ReportFault,
    TellPod,
)
from mooring.queue.gates import Gates
from mooring.queue.hints import QueueingStrategy
from mooring.queue.queue_log import QueueLog
from mooring.queue.unschedulable_pods import UnschedulablePods

BACKOFF_COMPLETE = "BackoffComplete"
POPPED_EARLY = "PopFromBackoffQ"
"""Labels of moves between queues that no cluster event caused."""
WORDS: dict[Place, str] = {
    "active": "the active queue",
    "backoff": "the backoff queue",
    "unschedulable": "unschedulable queue",
    "gated": "unschedulable queue",
    "incomplete": "incompletePodGroupPods",
    "pending": "pendingPodGroupPods",
}
"""Upstream's words in the error for a pod that is queued twice."""


@dataclass(slots=True)
class Places:
    """Active, backoff and unschedulable pods; a pod is in one of them at most.

    Each move takes a label: what caused it, as metrics call it. It answers where the pod is now, which may be among the
    gated ones although it was meant to go elsewhere.

    Parity: a move by strategy (`worth`) counts among the incoming entities only if it ends in another queue than the one
    that the strategy names: active for IMMEDIATELY, backoff for AFTER_BACKOFF, unschedulable for SKIP.
    """

    active: KeyedHeap[QueuedEntity]
    backoff: BackoffQueue
    unschedulable: UnschedulablePods
    gates: Gates
    counters: QueueCounters
    clock: Clock
    report: ReportFault
    tell: TellPod | None
    log: QueueLog | None
    pops_early: bool
    """Pods may be taken out of backoff early. So they meet the gates on their way in, and not again when they leave."""
    is_heard: bool = field(init=False)
    """Whether anything wants to know about moves."""

    def __post_init__(self) -> None:
        self.is_heard = self.tell is not None or self.log is not None

    def get(self, key: str) -> QueuedEntity | None:
        """The entity with a key in any place."""
        return self.active.get(key) or self.unschedulable.get(key) or self.backoff.get(key)

    def where(self, key: str) -> Place | None:
        """The place of a pod; None: it is in none."""
        if key in self.active:
            return "active"
        if key in self.backoff:
            return "backoff"
        unschedulable = self.unschedulable.get(key)
        if unschedulable is None:
            return None
        return "gated" if unschedulable.is_gated else "unschedulable"

    def all_with(self, key: str) -> list[Place]:
        """All places that have the pod. More than one is a fault, which the self-check looks for."""
        found: list[Place] = ["active"] if key in self.active else []
        found += ["backoff" for heap in (self.backoff.rejected, self.backoff.errors) if key in heap]
        unschedulable = self.unschedulable.get(key)
        if unschedulable is not None:
            found.append("gated" if unschedulable.is_gated else "unschedulable")
        return found

    def __iter__(self) -> Iterator[QueuedEntity]:
        """All entities: active and backoff in the order in which they will leave, unschedulable as they came."""
        yield from self.active.sorted()
        yield from self.backoff
        yield from self.unschedulable

    def entities(self) -> dict[str, list[QueuedEntity]]:
        """All entities by their place, in the order in which `take_over` must get them."""
        return {
            "active": list(self.active),
            "backoff": [*self.backoff.rejected, *self.backoff.errors],
            "unschedulable": list(self.unschedulable),
        }

    def take_over(self, entries: Mapping[str, Iterable[QueuedEntity]]) -> None:
        """Put the entities of other places where they were."""
        for entry in entries["active"]:
            self.active.push(entry)
        for entry in entries["backoff"]:
            self.backoff.push(entry)
        for entry in entries["unschedulable"]:
            self.unschedulable.put(entry)

    def ask_gates_again(self, label: str) -> None:
        """Ask the gates about the pods that passed others. Pods that cannot leave backoff early meet them when they leave."""
        for entry in [*self.active, *(self.backoff if self.pops_early else ())]:
            if not self.gates.admit(entry):
                self._to_gated(entry, label, None)

    def has_early(self) -> bool:
        """Whether `pop_early` would find a pod."""
        return self.pops_early and bool(self.backoff.rejected.live)

    def peek(self) -> QueuedEntity | None:
        """The pod, or pod group, that the queue would hand out next, left where it is."""
        first = self.active.peek()
        return first if first is not None or not self.has_early() else self.backoff.rejected.peek()

    def pop_early(self) -> QueuedEntity | None:
        """The rejected pod whose backoff ends first: there is nothing else to do (gate SchedulerPopFromBackoffQ)."""
        entry = self.backoff.pop_early() if self.pops_early else None
        if entry is not None:
            self.counters.came_in("active", POPPED_EARLY, entry)
        return entry

    def requeue(self, entry: QueuedEntity, worth: QueueingStrategy, label: str) -> Place:
        """Bring a pod to where it belongs after something happened that was worth this much to it."""
        if worth is QueueingStrategy.SKIP:
            return self.to_unschedulable(entry, label, worth)
        if worth is QueueingStrategy.AFTER_BACKOFF and self.backoff.rule.holds(entry, self.clock.now_ns()):
            return self.to_backoff(entry, label, worth)
        return self.to_active(entry, label, worth=worth)

    def to_active(
        self, entry: QueuedEntity, label: str, from_backoff: bool = False, worth: QueueingStrategy | None = None
    ) -> Place:
        """Make a pod active, if the gates let it in. A pod that may leave backoff early passed them on its way into
        backoff."""
        is_pod = type(entry) is QueuedPod
        if not (from_backoff and self.pops_early) and not self.gates.admit(entry):
            return self._to_gated(entry, label, worth)
        if entry.initial_attempt_ns is None:
            entry.initial_attempt_ns = self.clock.now_ns()
        if not is_pod:
            assert isinstance(entry, QueuedGroup)
            entry.ready(self.clock.now_ns())
        self.active.push(entry)  # first: should it fail, the pod stays where it is
        if self.unschedulable.filed:
            self.unschedulable.remove(entry.key)
        backoff = self.backoff
        if backoff.rejected.live or backoff.errors.live:
            backoff.remove(entry.key)
        if not is_pod:
            self.counters.came_in("active", label, entry, worth is QueueingStrategy.IMMEDIATELY)
        else:  # Hot: most pods come in here
            self.counters.incoming["active", label] += 1
            if worth is QueueingStrategy.IMMEDIATELY:
                self.counters.uncounted["active", label] += 1
        if self.is_heard:
            self._tell(entry, label, "active")
        return "active"

    def to_backoff(self, entry: QueuedEntity, label: str, worth: QueueingStrategy | None = None) -> Place:
        """Let a pod back off. The gates come first where it may be popped from there."""
        if self.pops_early and not self.gates.admit(entry):
            return self._to_gated(entry, label, worth)
        if not self.backoff.push(entry):
            self.report(f"pod {entry.key} was in both backoff heaps", None)
        self.unschedulable.remove(entry.key)
        self.counters.came_in("backoff", label, entry, worth is QueueingStrategy.AFTER_BACKOFF)
        self._tell(entry, label, "backoff")
        return "backoff"

    def to_unschedulable(self, entry: QueuedEntity, label: str, worth: QueueingStrategy | None = None) -> Place:
        """File a pod as unschedulable, or anew if it is filed already."""
        if self.unschedulable.put(entry):
            self.counters.came_in("unschedulable", label, entry, worth is QueueingStrategy.SKIP)
        place: Place = "gated" if entry.is_gated else "unschedulable"
        if self.is_heard:
            self._tell(entry, label, place, is_logged=False)
        return place

    def _to_gated(self, entry: QueuedEntity, label: str, worth: QueueingStrategy | None) -> Place:
        """File a pod or group that a gate held back, wherever it was before."""
        if self.log is not None and entry.key not in self.unschedulable:
            self.log.moved(entry, label, "gated")
        replaced = self.active.remove(entry.key) or self.backoff.remove(entry.key)
        if isinstance(replaced, QueuedPod) and replaced is not entry:
            self.counters.release(replaced)
        if entry.was_flushed:
            for each in (entry, *entry.entries):
                each.was_flushed = False
        return self.to_unschedulable(entry, label, worth)

    def replace_pod(self, entry: QueuedPod, pod: Pod) -> None:
        """The pod of an entry was changed: bring the entry to where it belongs in the same place."""
        entry.pod, entry.uid = pod, pod.id
        self.changed(entry)

    def changed(self, entry: QueuedEntity) -> None:
        """An entity was changed: bring it to where it belongs in the same place."""
        if entry.key in self.active:
            self.active.push(entry)
        elif entry.key in self.backoff:
            self.backoff.update(entry)
        else:
            self.unschedulable.put(entry)

    def take_out(self, key: str) -> tuple[QueuedGroup, QueueingStrategy] | None:
        """Take a group out, with the strategy that brings it back to the same place; None: it is in none."""
        for place, worth in (  # Hot: most groups that a member joins are gated
            (self.unschedulable, QueueingStrategy.SKIP),
            (self.active, QueueingStrategy.IMMEDIATELY),
            (self.backoff, QueueingStrategy.AFTER_BACKOFF),
        ):
            found = place.remove(key)
            if isinstance(found, QueuedGroup):
                return found, worth
        return None

    def remove(self, key: str) -> QueuedPod | None:
        """Take a pod out, wherever it is."""
        entry = self.active.remove(key) or self.backoff.remove(key) or self.unschedulable.remove(key)
        if not isinstance(entry, QueuedPod):
            return None
        self.counters.release(entry)
        return entry

    def sizes(self) -> dict[Place, int]:
        """How many pods are in each place."""
        gated = self.unschedulable.gated
        return {
            "active": len(self.active),
            "backoff": len(self.backoff),
            "unschedulable": len(self.unschedulable) - gated,
            "gated": gated,
        }

    def _tell(self, entity: QueuedEntity, label: str, place: Place, is_logged: bool = True) -> None:
        """Tell the story of a move, and log it. Parity: no line says that an entity stays unschedulable."""
        if self.log is not None and is_logged:
            self.log.moved(entity, label, place)
        if self.tell is not None:
            until_ns = self.backoff.rule.release_ns(entity) if place == "backoff" else None
            for entry in entity.entries:
                is_member = entity is not entry
                self.tell(entry.pod, moved(entry, label, place, until_ns, entity.gating_message if is_member else ""))

    def check(self) -> list[str]:
        """Invariants that do not hold, those of each place included."""
        problems = [f"active {problem}" for problem in self.active.check()]
        problems += self.backoff.check() + self.unschedulable.check()
        for entry in self.active:
            if entry.is_gated:
                problems.append(f"{entry.key}: active, but gated")
            if entry.initial_attempt_ns is None:
                problems.append(f"{entry.key}: active, but it never became so")
            if entry.key in self.backoff or entry.key in self.unschedulable:
                problems.append(f"{entry.key}: active, and in another place too")
        problems += [f"{e.key}: in backoff, and unschedulable too" for e in self.backoff if e.key in self.unschedulable]
        return problems


_NS_IN_S = float(NS_PER_S)
"""Hot: a division of two whole numbers of this size takes 60 % longer."""


def order_of(profile: Profile, tree: GroupTree, report: ReportFault) -> Callable[[QueuedEntity], Any]:
    """The order of the active queue. Seconds as a float cannot tell times 200 ns apart, so nanoseconds decide then.

    A pod that the plugin fails on comes last: a move between places must not lose it.
    """
    sorter = profile.queue_sorts[0]
    sort_key = sorter.sort_key

    def order(entry: QueuedEntity) -> tuple[Any, ...]:
        try:
            queued_ns = entry.timestamp_ns
            if isinstance(entry, QueuedGroup):
                group, pods = tree.find(entry.root), [member.pod for member in entry.entries]
                return 0, sorter.group_sort_key(group, pods, queued_ns / _NS_IN_S), queued_ns
            return 0, sort_key(entry.pod, queued_ns / _NS_IN_S), queued_ns
        except Exception as error:  # a plugin may raise anything
            report(f"QueueSort of plugin {sorter.name} failed on pod {entry.key}", error)
            return 1, entry.timestamp_ns

    return order


# ---- Sentences about what happens to a pod in the queue.


def moved(entry: QueuedPod, label: str, place: Place, until_ns: int | None, gate_of_group: str = "") -> str:
    """A pod came to a place for a reason; `until_ns` is when its backoff will be over."""
    if place == "gated" and entry.is_gated:
        return f"gated by {entry.gating_plugin}: {entry.gating_message}"
    if place == "gated":
        return f"gated with its group: {gate_of_group}"
    if place == "unschedulable":
        return f"unschedulable, {_failure(entry)}"
    where = "the active queue" if until_ns is None else f"backoff until {time_of_day(until_ns)}"
    return f"{_cause(entry, label)} to {where}"


def taken(entry: QueuedPod, is_early: bool) -> str:
    """A pod left the queue for an attempt."""
    early = " before its backoff was over, as nothing else waits" if is_early else ""
    return f"taken for attempt {entry.attempts}{early}"


def time_of_day(time_ns: int) -> str:
    """UTC, to the second: 12:00:04."""
    minutes, seconds = divmod(time_ns // NS_PER_S, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours % 24:02}:{minutes:02}:{seconds:02}"


def _failure(entry: QueuedPod) -> str:
    """Why the last attempt failed, in a few words."""
    if entry.rejectors:
        return f"rejected by {', '.join(entry.rejectors)}"
    return "sent back with its group" if entry.pod.group_key is not None else "failed with an error"


def _cause(entry: QueuedPod, label: str) -> str:
    """The cause of a move, as the beginning of a sentence."""
    if label == ATTEMPT_FAILED:
        was_woken = entry.rejectors and entry.pod.group_key is None
        return f"{_failure(entry)}{' but an event moved it meanwhile,' if was_woken else ','}"
    return _CAUSES.get(label) or f"moved by {label}"


_CAUSES = {UNSCHEDULED_POD_ADD.label: "added", BACKOFF_COMPLETE: "backoff over,", FORCE_ACTIVATE.label: "activated,"}
