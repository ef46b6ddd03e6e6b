"""The places where pods wait and the moves between them, with the gates that a pod passes, and what each move counts
and tells."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.cluster.pods.group_tree import GroupTree
from mooring.framework.contract.events import FORCE_ACTIVATE, UNSCHEDULED_POD_ADD
from mooring.framework.contract.plugin_caller import SUCCESS, PluginCaller, unwrapped
from mooring.framework.contract.status import Rejection, describe
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.heap import KeyedHeap
from mooring.model.pod import Pod
from mooring.queue.backoff import BackoffQueue
from mooring.queue.entry import (
    ATTEMPT_FAILED,
    AlikeMembers,
    Place,
    QueueCounters,
    QueuedEntity,
    QueuedGroup,
    QueuedPod,
    ReportFault,
    Standing,
    TellPod,
)
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

# ---- Gates: PreEnqueue plugins decide whether a pod may be queued at all.

Asks = Sequence[tuple[str, Callable[[Pod], Rejection | None], bool]]
"""The names of plugins, their methods to call, and whether all pods of a PodGroup get the same answer."""
Said = dict[str, Rejection | None]
"""The answers of such plugins about a PodGroup, by plugin, while its members that wait are asked about."""


class Gates:
    """Asks the PreEnqueue plugins of a pod's profile and notes on the entry which one holds it back."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        counters: QueueCounters,
        report: ReportFault,
        callers: Mapping[str, PluginCaller],
    ) -> None:
        self._by_profile: dict[str, tuple[PluginCaller | None, Asks]] = {
            name: (
                caller if caller.measures else None,
                [(each.name, each.pre_enqueue, each.is_asked_by_group) for each in profiles[name].pre_enqueues],
            )
            for name, caller in callers.items()
            if name in profiles
        }
        """By profile: the caller of its PreEnqueue plugins, if calls are measured, and the plugins to ask in order."""
        self._ask_about_one: dict[str, list[Callable[[Pod], bool]]] = {
            name: [each.may_gate for each in profile.pre_enqueues if not each.is_asked_by_group]
            for name, profile in profiles.items()
        }
        """By profile: of the plugins that answer for each pod of a group by itself, whether they may hold a pod back."""
        self._gating_first: dict[tuple[str, str], Asks] = {}
        """PreEnqueue plugins to ask by profile and plugin, with this plugin moved to the first place."""
        self._counters = counters
        self._report = report
        self._admissions = 0

    def admit(self, entity: QueuedEntity, said: Said | None = None) -> bool:
        """Whether an entity may be queued; the first plugin that objects is noted, and the others are not asked. A group may
        if all its members may. A member is asked about with what plugins `said` about all pods of its PodGroup."""
        if type(entity) is QueuedPod:
            found = self._by_profile.get(entity.pod.spec.scheduler_name)
            if found is None:
                return True  # no profile is named so: there is no plugin that could object
            caller, asks = found
            if entity.gating_plugin:  # it most likely still objects
                asks = self._with_first(entity, asks)
            return self._passes(entity, asks, said) if caller is None else self._measured(entity, asks, said, caller)
        assert isinstance(entity, QueuedGroup)
        return self._admit_group(entity)

    def _admit_group(self, group: QueuedGroup) -> bool:
        """Ask about members that are alike at once. Parity: the group has the objection to its last gated member."""
        alike, is_gated = group.alike_by(self._asks_alone), False
        said: dict[tuple[str, str], Said] = {}
        for standing, members in alike.classes():
            answers = said.setdefault((standing.group_key, standing.profile), {})
            if not standing.is_asked_alone:
                is_gated = not self._admit_alike(alike, standing, members, answers) or is_gated
                continue
            for entry in [*members.values()]:
                is_gated = not self.admit(entry, answers) or is_gated
                alike.moved(entry)
        group.gating_plugin = group.gating_message = ""
        if is_gated:
            entries = (entry for entries in reversed(group.members.values()) for entry in reversed(entries))
            last = next(entry for entry in entries if entry.gating_plugin)
            group.gating_plugin, group.gating_message = last.gating_plugin, last.gating_message
        return not is_gated

    def _admit_alike(self, alike: AlikeMembers, standing: Standing, members: dict[str, QueuedPod], said: Said) -> bool:
        """Ask about the first of the members that are alike; the others get its answer."""
        first = next(iter(members.values()))
        passes = self.admit(first, said)
        if len(members) > 1:
            caller, _ = self._by_profile.get(standing.profile, (None, ()))
            if caller is not None:
                caller.point_known("PreEnqueue", len(members) - 1)
        plugin, message = first.gating_plugin, first.gating_message
        if plugin != standing.gating_plugin or message != standing.gating_message:
            alike.move_all(standing, lambda entry: self._gate(entry, plugin, message))
        return passes

    def _asks_alone(self, pod: Pod) -> bool:
        """Whether a gate may say something else about a pod than about the others of its PodGroup. So says one that cannot
        tell: it is asked anyway."""
        try:
            for may_gate in self._ask_about_one.get(pod.spec.scheduler_name, ()):
                if may_gate(pod):
                    return True
        except Exception:  # a plugin may raise anything
            return True
        return False

    def _measured(self, entry: QueuedPod, asks: Asks, said: Said | None, caller: PluginCaller) -> bool:
        """Ask the plugins (`_passes`), and measure how long that takes. Where single calls are measured, each pod is asked
        about."""
        self._admissions += 1
        began_ns, wrap = caller.began(), caller.wrap_for(self._admissions)
        if wrap is not unwrapped:
            asks = [(name, wrap("PreEnqueue", name, ask), False) for name, ask, _ in asks]
        passes = self._passes(entry, asks, said)
        caller.ended("PreEnqueue", SUCCESS, began_ns)  # Parity: whether or not the pod is gated
        return passes

    def _passes(self, entry: QueuedPod, asks: Asks, said: Said | None) -> bool:
        """Ask the plugins. One that fails holds the pod back too: it may know a reason.

        Answers about the group are kept in `said`; None: the pod comes alone.
        """
        pod, name = entry.pod, ""
        try:
            for name, ask, is_by_group in asks:
                if said is None or not is_by_group:
                    rejection = ask(pod)
                elif name in said:
                    rejection = said[name]
                else:
                    rejection = said[name] = ask(pod)
                if rejection is not None:
                    self._gate(entry, name, rejection.message)
                    return False
        except Exception as error:  # a plugin may raise anything, or answer with anything
            self._report(f"PreEnqueue of plugin {name} failed on pod {entry.key}", error)
            self._gate(entry, name, describe(error))
            return False
        if entry.gating_plugin:
            entry.gating_plugin = entry.gating_message = ""
        return True

    def _with_first(self, entry: QueuedPod, asks: Asks) -> Asks:
        """The questions in another order: the plugin that holds the pod back is asked first."""
        profile, first = entry.profile, entry.gating_plugin
        found = self._gating_first.get((profile, first))
        if found is None:
            found = self._gating_first[profile, first] = sorted(asks, key=lambda each: each[0] != first)
        return found

    def _gate(self, entry: QueuedPod, plugin: str, message: str) -> None:
        """Note the objection, if there is one. The plugin counts as one that rejected the pod, and its events can wake it."""
        if entry.gating_plugin == plugin:
            entry.gating_message = message
            return
        if not plugin:
            entry.gating_plugin = entry.gating_message = ""
            return
        if plugin not in entry.rejectors:
            self._counters.unschedulable[plugin, entry.profile] += 1
        if plugin not in entry.unschedulable_plugins:
            entry.unschedulable_plugins = (*entry.unschedulable_plugins, plugin)
        entry.gating_plugin, entry.gating_message = plugin, message


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
