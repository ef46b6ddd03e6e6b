"""A pod or a pod group in the queue, with what the queue remembers of it from one attempt to the next, and what the queue
counts."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import msgspec

from mooring.cluster.pods.pod_groups import GroupName
from mooring.kit.logs import Log
from mooring.model.pod import Pod

K = TypeVar("K")

Place = Literal["active", "backoff", "unschedulable", "gated", "incomplete", "pending"]
"""Where a queued pod is; the words are labels of metrics. The last two are for members of pod groups (group_queue.py)."""

TellPod = Callable[[Pod, str], None]
"""Takes a sentence about a pod, for the story of the pod (`--explain`)."""
ReportFault = Callable[[str, Exception | None], None]
"""Takes what should not have happened: a text, and the exception behind it if there is one."""


def _ignore(text: str, error: Exception | None) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class QueueListeners:
    """Receivers of what happens to pods in the queue."""

    tell: TellPod | None = None
    """Receives the story of each pod, line by line; None: no story is wanted."""
    report: ReportFault = _ignore
    """Receives what should not have happened: contradictions in the watch, faults of plugins after the fact."""
    log: Log | None = None
    """Receives upstream's log lines of the queue; None: none of them would be shown."""


class QueuedPod(msgspec.Struct, eq=False, gc=False):
    """A pod on its way to a node: upstream's QueuedPodInfo. `new_entry` makes one.

    It is made once, handed out by `pop`, and comes back by `add_unschedulable` if its attempt fails. Times are
    nanoseconds of the scheduler's clock.

    Hot: a struct fills in its defaults in C; 18 slots were set one by one. It is in no reference cycle, so the garbage
    collector need not look at it.
    """

    pod: Pod
    timestamp_ns: int
    """When it was made, or came back from its last attempt. Moving between queues does not change it."""
    key: str
    uid: str
    """Key and id of the pod. Hot: kept here, because a pod works them out each time."""
    initial_attempt_ns: int | None = None
    """When it first became ready to be tried: gated pods have not."""
    attempts: int = 0
    began_ns: int = 0
    """When its present attempt began, where that is measured."""
    start: int = 0
    """While it is in flight: how many events there had been when its attempt began (in_flight.py)."""
    unschedulable_count: int = 0
    """How often it came back rejected by plugins; never reset."""
    consecutive_errors: int = 0
    """How often in a row it came back without a plugin to blame."""
    backoff_until_ns: int | None = None
    """The end of its backoff, worked out when first needed (backoff.py); None again after each return."""
    unschedulable_plugins: tuple[str, ...] = ()
    """Plugins that rejected it; an event that one of them registered may move it."""
    pending_plugins: tuple[str, ...] = ()
    """Plugins that wait for an event: when it comes the pod is tried at once, without backoff."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that holds it back; empty: none does."""
    gating_message: str = ""
    was_flushed: bool = False
    """Only the flush of pods that waited too long gave it its present attempt, not an event."""
    flushed_ns: int = 0
    """When that flush was: the time for the next one counts from there."""

    @property
    def profile(self) -> str:
        """The name of the profile that is to schedule it."""
        return self.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def entries(self) -> "tuple[QueuedPod, ...]":
        """The pods of the entity: the pod itself."""
        return (self,)

    @property
    def size(self) -> int:
        return 1

    @property
    def rejectors(self) -> tuple[str, ...]:
        """All plugins that rejected it in its last attempt, or gated it since, each once."""
        pending = self.pending_plugins
        if not pending:
            return self.unschedulable_plugins
        return pending + tuple(name for name in self.unschedulable_plugins if name not in pending)

    def reject_by(self, plugins: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Note the plugins that rejected it in the attempt that just failed; none: the attempt ended in an error."""
        self.unschedulable_plugins = tuple(sorted(set(plugins)))
        self.pending_plugins = tuple(sorted(set(pending)))
        self.gating_plugin = self.gating_message = ""

    def note_return(self, now_ns: int) -> None:
        """Note that the pod came back from an attempt: what the entry remembers decides how long the pod backs off."""
        if self.rejectors:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        else:
            self.consecutive_errors += 1
        self.timestamp_ns = now_ns
        self.backoff_until_ns = None
        self.was_flushed = False
        self.flushed_ns = 0

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, attempts={self.attempts}, rejectors={list(self.rejectors)})"


def new_entry(pod: Pod, now_ns: int) -> QueuedPod:
    """A pod that comes to the queue."""
    return QueuedPod(pod, now_ns, pod.key, pod.id)


class Standing(NamedTuple):
    """The properties of a member of a pod group that gates and hints go by."""

    group_key: str
    """The key of its PodGroup."""
    profile: str
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    gating_plugin: str
    gating_message: str
    is_asked_alone: bool
    """Whether a gate may say something else about it than about the others of its PodGroup."""


class AlikeMembers:
    """The members of a queued group by their standing, in the order in which standings came. Of those that are alike, gates
    and hints are asked about one.

    Hot: each member that comes has gates and hints asked about its whole group. Member by member, the 4,000 members of a gang
    took 12 s to come.
    """

    __slots__ = ("_by_standing", "_standings", "asks_alone")

    def __init__(self, asks_alone: Callable[[Pod], bool], entries: Iterable[QueuedPod]) -> None:
        self.asks_alone = asks_alone
        self._by_standing: dict[Standing, dict[str, QueuedPod]] = {}
        self._standings: dict[str, Standing] = {}
        """By key of the member: where it is, whatever became of it since."""
        for entry in entries:
            self.add(entry)

    def classes(self) -> list[tuple[Standing, dict[str, QueuedPod]]]:
        """Each standing with the members that have it, by key."""
        return [*self._by_standing.items()]

    def add(self, entry: QueuedPod) -> None:
        standing = self._standings[entry.key] = self._standing(entry, self.asks_alone(entry.pod))
        self._by_standing.setdefault(standing, {})[entry.key] = entry

    def remove(self, entry: QueuedPod) -> None:
        standing = self._standings.pop(entry.key)
        members = self._by_standing[standing]
        del members[entry.key]
        if not members:
            del self._by_standing[standing]

    def moved(self, entry: QueuedPod) -> None:
        """The standing of a member may have changed."""
        if self._standing(entry, self.asks_alone(entry.pod)) != self._standings[entry.key]:
            self.remove(entry)
            self.add(entry)

    def move_all(self, former: Standing, change: Callable[[QueuedPod], None]) -> None:
        """Change all members that have a standing: they are still alike."""
        members = self._by_standing.pop(former)
        for entry in members.values():
            change(entry)
        standing = self._standing(entry, former.is_asked_alone)
        self._standings.update(dict.fromkeys(members, standing))
        self._by_standing.setdefault(standing, members).update(members)

    def _standing(self, entry: QueuedPod, is_asked_alone: bool) -> Standing:
        pod = entry.pod
        return Standing(
            pod.group_key or "",
            pod.spec.scheduler_name,
            entry.unschedulable_plugins,
            entry.pending_plugins,
            entry.gating_plugin,
            entry.gating_message,
            is_asked_alone,
        )


class QueuedGroup(msgspec.Struct, eq=False):
    """A root pod group on its way to nodes, with the members that wait: upstream's QueuedPodGroupInfo.

    It waits, backs off and is tried as one. What rejected its members is noted on their entries; the group itself has no
    rejectors. Times are nanoseconds of the scheduler's clock.
    """

    root: GroupName
    timestamp_ns: int
    key: str
    members: dict[str, list[QueuedPod]] = msgspec.field(default_factory=dict)
    """By key of the PodGroup: the members that wait, in the order in which they are tried."""
    initial_attempt_ns: int | None = None
    attempts: int = 0
    unschedulable_count: int = 0
    """How often the group came back rejected since it was last scheduled."""
    consecutive_errors: int = 0
    backoff_until_ns: int | None = None
    gating_plugin: str = ""
    """The PreEnqueue plugin that holds a member back, and with it the group; empty: none does."""
    gating_message: str = ""
    was_flushed: bool = False
    """Whether the group, or one of its members, was flushed."""
    flushed_ns: int = 0
    not_ready_yet: list[QueuedPod] = msgspec.field(default_factory=list)
    """The members that have not been active."""
    alike: AlikeMembers | None = None
    """The members by their standing; None: not worked out, or the members are in flight."""

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> tuple[str, ...]:
        """Parity: a group has none of its own, so its backoff is that of an error: an idle scheduler does not end it."""
        return ()

    @property
    def entries(self) -> list[QueuedPod]:
        """All members that wait."""
        return [entry for entries in self.members.values() for entry in entries]

    @property
    def size(self) -> int:
        return sum(map(len, self.members.values()))

    def add(self, entry: QueuedPod) -> None:
        """Add a member: higher priorities come first, then those that were tried more often, then the oldest."""
        insort(self.members.setdefault(entry.pod.group_key or "", []), entry, key=member_order)
        self.was_flushed = self.was_flushed or entry.was_flushed
        if entry.initial_attempt_ns is None:
            self.not_ready_yet.append(entry)
        if self.alike is not None:
            self.alike.add(entry)

    def remove(self, entry: QueuedPod) -> None:
        """Take a member out."""
        group = entry.pod.group_key or ""
        self.members[group].remove(entry)
        if not self.members[group]:
            del self.members[group]
        if entry.initial_attempt_ns is None and entry in self.not_ready_yet:
            self.not_ready_yet.remove(entry)
        if self.alike is not None:
            self.alike.remove(entry)

    def become(self, entries: Iterable[QueuedPod]) -> None:
        """Have these members and no others."""
        self.members.clear()
        self.not_ready_yet.clear()
        self.alike = None
        for entry in entries:
            self.add(entry)

    def ready(self, now_ns: int) -> None:
        """The group is active: so are its members."""
        for entry in self.not_ready_yet:
            entry.initial_attempt_ns = now_ns
        self.not_ready_yet.clear()

    def alike_by(self, asks_alone: Callable[[Pod], bool]) -> AlikeMembers:
        """The members by their standing, with these gates."""
        if self.alike is None or self.alike.asks_alone != asks_alone:
            self.alike = AlikeMembers(asks_alone, self.entries)
        return self.alike

    def classes(self) -> list[tuple[Standing, dict[str, QueuedPod]]]:
        """The members that are alike, for hints."""
        alike = AlikeMembers(_asks_all_at_once, self.entries) if self.alike is None else self.alike
        return alike.classes()

    def __repr__(self) -> str:
        return f"QueuedGroup({self.key}, attempts={self.attempts}, members={self.size})"


def _asks_all_at_once(pod: Pod) -> bool:
    return False


def member_order(entry: QueuedPod) -> tuple[int, int, int, str]:
    """The order in which the members of a PodGroup are tried."""
    return -entry.pod.priority, -entry.attempts, entry.timestamp_ns, entry.pod.name


def group_entry(root: GroupName, first: QueuedPod) -> QueuedGroup:
    """A group that comes to the queue with its first member.

    Unlike upstream, a CompositePodGroup and a PodGroup of the same name are not taken for each other, and a member that comes
    back alone from a binding that failed backs off: a binding that always fails would be tried at once, for ever.
    """
    group = QueuedGroup(
        root,
        first.timestamp_ns,
        group_entry_key(root),
        initial_attempt_ns=first.initial_attempt_ns,
        unschedulable_count=first.unschedulable_count,
        consecutive_errors=first.consecutive_errors,
    )
    group.add(first)
    return group


def group_entry_key(root: GroupName) -> str:
    """The key of a group in the queue. Keys of pods have one slash."""
    return f"{'compositepodgroup' if root.is_composite else 'podgroup'}/{root.key}"


QueuedEntity = QueuedPod | QueuedGroup
"""Upstream's QueuedEntityInfo: what waits as one."""


# ---- Counters of the queue: plain numbers, which metrics read when they are collected.


POD_ENTITY, GROUP_ENTITY = "pod", "podgroup"
"""The types of entities of the queue: single pods, and groups, composite ones included."""

ATTEMPT_FAILED = "ScheduleAttemptFailure"
"""The label of moves of pods that come back from an attempt."""
POD_POPPED = "PodPopped"
"""The label under which the starts of attempts are counted among the in-flight events."""


class LabelCounts(dict[K, int]):
    """How often something happened, by the labels of a metric; 0 for labels that were never counted.

    Hot: `+= 1` takes a third fewer instructions than in collections.Counter, which replaces `__delitem__`.
    """

    def __missing__(self, key: K) -> int:
        return 0


class QueueCounters:
    """Counters only grow; gauges say what is there now. How many pods wait in each place, the queue itself knows.

    Hot: a class with slots, because the numbers change with each pod, and structs take three times as long to set a field.
    """

    __slots__ = (
        "flights_begun",
        "flights_ended",
        "flushed",
        "hints",
        "incoming",
        "incoming_groups",
        "kept_events",
        "pre_hints",
        "rescued",
        "uncounted",
        "unschedulable",
    )

    def __init__(self) -> None:
        self.incoming: LabelCounts[tuple[str, str]] = LabelCounts()
        """Counter: (queue, event label) -> pods that came in."""
        self.incoming_groups: LabelCounts[tuple[str, str]] = LabelCounts()
        """Counter: (queue, event label) -> pod groups that came in as entities; their pods are in both other counters."""
        self.uncounted: LabelCounts[tuple[str, str]] = LabelCounts()
        """Counter: (queue, event label) -> those of the pods that came in which do not count as entities that came in.

        Hot: they are rare, so the entities are worked out from both (`incoming_entities`)."""
        self.kept_events: Counter[str] = Counter()
        """Gauge: event label -> events kept for pods in flight."""
        self.flights_begun = 0
        self.flights_ended = 0
        """Counters: attempts that began, and those that are over. Hot: numbers, because each pod counts in both."""
        self.unschedulable: Counter[tuple[str, str]] = Counter()
        """Gauge: (plugin, profile) -> pods that the plugin rejected."""
        self.hints: Counter[tuple[str, str, str]] = Counter()
        """Counter: (plugin, event label, outcome) -> hints that were asked."""
        self.pre_hints: Counter[tuple[str, str]] = Counter()
        """Counter: (plugin, all_pods or narrowed) -> events for which a plugin named the pods to ask about."""
        self.flushed = 0
        """Counter: pods that got another chance only because they had been unschedulable for too long."""
        self.rescued = 0
        """Counter: those of them that were then placed. Each is a wake-up that was lost."""

    @property
    def in_flight_events(self) -> Counter[str]:
        """Gauge: the kept events, and the starts of attempts that are under way among them (POD_POPPED)."""
        begun = {POD_POPPED: self.flights_begun - self.flights_ended} if self.flights_begun else {}
        return Counter({**self.kept_events, **begun})

    @property
    def incoming_entities(self) -> dict[tuple[str, str, str], int]:
        """Counter: (queue, event label, type) -> entities that came in."""
        pods = {(*key, POD_ENTITY): count - self.uncounted[key] for key, count in self.incoming.items()}
        groups = {(*key, GROUP_ENTITY): count for key, count in self.incoming_groups.items()}
        return {key: count for key, count in (pods | groups).items() if count}

    def came_in(self, queue: str, label: str, entity: QueuedEntity, is_expected: bool = False) -> None:
        """Count a pod or a group that came into a queue. An expected one does not count as an entity."""
        key, is_group, size = (queue, label), isinstance(entity, QueuedGroup), entity.size
        self.incoming[key] += size
        if is_group or is_expected:
            self.uncounted[key] += size
        if is_group and not is_expected:
            self.incoming_groups[key] += 1

    def forget_entities(self) -> None:
        """Begin to count entities anew."""
        self.uncounted.clear()
        self.incoming_groups.clear()

    def hold(self, entry: QueuedPod) -> None:
        """The pod counts as rejected by its plugins from now on."""
        for plugin in entry.rejectors:
            self.unschedulable[plugin, entry.profile] += 1

    def release(self, entry: QueuedPod) -> None:
        """The pod no longer counts as rejected."""
        for plugin in entry.rejectors:
            self.unschedulable[plugin, entry.profile] -= 1
