"""The scheduling queue: which pod is tried next, and when a pod that was rejected is tried again.

A pod is in one place at most, and in none while an attempt of it is under way (it is *in flight*):

    add ──> active ──pop──> in flight ──done──> (placed, or gone)
              ^ ^               │
     flush_   │ └───────────────┤ add_unschedulable: an event came meanwhile, or an error
     backoff  │    backoff <────┤
              │       ^         v
              └───────┴── unschedulable: waits for an event that one of its rejectors can use (wake), or for five
                          minutes (flush_unschedulable); gated if a PreEnqueue plugin holds it back
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import (
    CONFIGURATION_CHANGE,
    FORCE_ACTIVATE,
    TARGET_POD_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    Change,
    ClusterEvent,
    Registration,
)
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.heap import KeyedHeap
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.backoff import BackoffQueue, QueueSettings
from mooring.queue.entry import (
    ATTEMPT_FAILED,
    Place,
    QueueCounters,
    QueuedEntity,
    QueuedGroup,
    QueuedPod,
    QueueListeners,
    new_entry,
)
from mooring.queue.gates import Gates
from mooring.queue.group_queue import GroupQueue, Outcome
from mooring.queue.hints import HintMap, Hints, NamedPods, ObservedEvent, QueueingStrategy, pod_events
from mooring.queue.in_flight import InFlight
from mooring.queue.nominations import Lookup, Nominations
from mooring.queue.places import BACKOFF_COMPLETE, WORDS, Places, order_of, taken
from mooring.queue.queue_log import QueueLog
from mooring.queue.queue_views import QueueViews
from mooring.queue.unschedulable_pods import UnschedulablePods

UNSCHEDULABLE_FLUSH_PERIOD_S = 30
"""How often `flush_unschedulable` is to be called, as upstream; `flush_backoff` on every whole second."""

_ADDED = UNSCHEDULED_POD_ADD.label


class AlreadyQueued(ValueError):
    """A pod came back from an attempt, but is in the queue: two attempts of it were under way."""


class SchedulingQueue(QueueViews):
    """All pods that wait for a node: upstream's PriorityQueue. It has no thread and no timer: its owner calls the two
    flushes.

    `lookup` finds a pod by its key as the watch knows it, `cluster` is handed to hints. `other_rejectors` register
    events without being plugins. `callers` call the plugins, by profile.
    """

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, Profile],
        *,
        cluster: Cluster,
        lookup: Lookup,
        settings: QueueSettings | None = None,
        other_rejectors: Mapping[str, Sequence[Registration]] | None = None,
        callers: Mapping[str, PluginCaller] | None = None,
        listeners: QueueListeners | None = None,
    ) -> None:
        self.counters = counters = QueueCounters()
        self.nominations = Nominations(lookup, cluster.nominated)
        self.attempts = 0
        """How many attempts were begun: the number of the current scheduling cycle."""
        self._clock = clock
        self._cluster = cluster
        listeners = listeners or QueueListeners()
        self._tell, self._report = listeners.tell, listeners.report
        self._log = None if listeners.log is None else QueueLog(listeners.log)
        settings = settings or QueueSettings()
        self._max_unschedulable_ns = round(settings.max_unschedulable_s * NS_PER_S)
        self.in_flight = InFlight(counters)
        callers = callers or {name: PluginCaller() for name in profiles}
        active, backoff, unschedulable, gates = self._places_for(profiles, settings, other_rejectors or {}, callers)
        self.places = Places(
            active=active,
            backoff=backoff,
            unschedulable=unschedulable,
            gates=gates,
            counters=counters,
            clock=clock,
            report=self._report,
            tell=self._tell,
            log=self._log,
            pops_early=settings.pop_from_backoff,
        )
        heeds_groups = cluster.groups is not None
        parts = (self.places, cluster.group_tree, counters, clock, self._tell, self._log)
        self.groups = GroupQueue(*parts) if heeds_groups else None

    def _places_for(
        self,
        profiles: Mapping[str, Profile],
        settings: QueueSettings,
        other_rejectors: Mapping[str, Sequence[Registration]],
        callers: Mapping[str, PluginCaller],
    ) -> "tuple[KeyedHeap[QueuedEntity], BackoffQueue, UnschedulablePods, Gates]":
        """Empty places that go by these profiles, and hints that they use."""
        maps = {name: HintMap.of(profile, other_rejectors) for name, profile in profiles.items()}
        self.hints = Hints(maps, self.counters, self._report, callers, settings.pre_queueing_hints)
        order = order_of(next(iter(profiles.values())), self._cluster.group_tree, self._report)
        return (
            KeyedHeap(order),
            BackoffQueue(settings.backoff_rule(), order if settings.pop_from_backoff else None),
            UnschedulablePods(self.hints),
            Gates(profiles, self.counters, self._report, callers),
        )

    def adopt(
        self,
        profiles: Mapping[str, Profile],
        settings: QueueSettings,
        other_rejectors: Mapping[str, Sequence[Registration]],
        callers: Mapping[str, PluginCaller],
    ) -> None:
        """Go by other profiles from now on. Pods keep their times, attempts and backoffs, and the new QueueSort orders them.

        The new gates are asked about the pods that passed the old ones. Unschedulable pods, and those in flight if they
        come back, get another attempt: the new plugins may accept what the old ones rejected.
        """
        waiting, places = self.places.entities(), self.places
        found = self._places_for(profiles, settings, other_rejectors, callers)
        places.active, places.backoff, places.unschedulable, places.gates = found
        places.take_over(waiting)
        places.ask_gates_again(CONFIGURATION_CHANGE.label)
        self.wake(CONFIGURATION_CHANGE)

    # ---- Pods come, change and go

    def add(self, pod: Pod) -> Place:
        """A new pod without a node. The node that its status names is kept for it even if a gate holds the pod back."""
        if pod.status.nominated_node_name or self.nominations.node_of_pod:
            self.nominations.add(pod)
        # Hot: without a call where there are no groups
        groups = None if self.groups is None else self._groups_with(pod)
        if groups is not None:
            return groups.add(new_entry(pod, self._clock.now_ns()))
        return self.places.to_active(new_entry(pod, self._clock.now_ns()), _ADDED)

    def update(self, old: Pod | None, new: Pod) -> Place | None:
        """A pod without a node was changed. Returns where it is now; None: in flight."""
        if new.id in self.in_flight:
            for event in [TARGET_POD_UPDATE] if old is None else pod_events(old, new, is_target=True):
                self.in_flight.record(self._observed(event, old, new))
            return None
        groups = self._groups_with(new)
        if groups is not None:
            return self._update_member(groups, old, new)
        entry = self.single(new.key)
        if entry is None or entry.uid != new.id:
            self.places.remove(new.key)
            return self.add(new)
        old = old or entry.pod
        self.nominations.update(old, new)
        self.places.replace_pod(entry, new)
        if entry.key in self.places.unschedulable:
            self._wake_updated(entry, old, new)
        return self.places.where(entry.key)

    def _update_member(self, groups: GroupQueue, old: Pod | None, new: Pod) -> Place:
        """A member of a pod group that is not in flight was changed."""
        entry = groups.get(new.key)
        if entry is None or entry.uid != new.id or entry.pod.group_key != new.group_key:
            groups.remove(new.key)
            return self.add(new)
        old = old or entry.pod
        self.nominations.update(old, new)
        group = groups.replace_pod(entry, new)
        if group is not None and group.key in self.places.unschedulable:
            self._wake_updated(group, old, new)
        return groups.where(new.key) or "pending"

    def _wake_updated(self, entry: QueuedEntity, old: Pod, new: Pod) -> None:
        """Move an unschedulable pod, or the group with it, if its update can cure its rejection.

        Parity: unlike other events, its own update reaches a gated pod even if the gating plugin did not register it.
        """
        for event in pod_events(old, new, is_target=True):
            observed = self._observed(event, old, new)
            worth = self.hints.strategy_for_entity(entry, observed)
            if worth is QueueingStrategy.SKIP:
                continue
            if self.places.requeue(entry, worth, observed.label) in ("active", "backoff"):
                return

    def delete(self, pod: Pod) -> None:
        """A pod is gone, or has a node. One that is in flight is left to its attempt."""
        self.nominations.delete(pod.id)
        entry = self.places.remove(pod.key)
        if entry is None and self.groups is not None:
            entry = self.groups.remove(pod.key)
        if entry is not None and self._tell is not None:
            self._tell(entry.pod, "deleted from the queue")

    # ---- Attempts

    def pop(self) -> QueuedEntity | None:
        """Take the next pod, or pod group, for an attempt, or None if none may be tried yet.

        An idle scheduler takes rejected pods before their backoff is over.
        """
        while True:
            entry = self.places.active.pop()
            is_early = entry is None
            if entry is None:
                entry = self.places.pop_early()
                if entry is None:
                    return None
            if self._take_off(entry, is_early):
                return entry

    def _take_off(self, entry: QueuedEntity, is_early: bool) -> bool:
        """The pod is in flight from now on. False: it was already, so this second entry of it is dropped."""
        entry.attempts += 1
        if isinstance(entry, QueuedGroup):
            return self._take_group_off(entry)
        if not self.in_flight.start(entry):
            self._report(f"the same pod is tracked in multiple places in the scheduler: {entry.key}", None)
            return False
        self.attempts += 1
        if entry.unschedulable_plugins or entry.pending_plugins:
            self.counters.release(entry)
        if self._tell is not None:
            self._tell(entry.pod, taken(entry, is_early))
        return True

    def _take_group_off(self, group: QueuedGroup) -> bool:
        """All members are in flight from now on, except those that were already: their entries are dropped. False: no
        member is left."""
        assert self.groups is not None, "there are groups only where they are heeded"
        self.groups.popped(group)
        for entry in group.entries:
            entry.attempts += 1
            if not self.in_flight.start(entry):
                self._report(f"the same pod is tracked in multiple places in the scheduler: {entry.key}", None)
                group.remove(entry)
        if not group.members:
            self.groups.in_cycle = ""
            return False
        self.attempts += 1
        for entry in group.entries:
            self.counters.release(entry)
            if self._tell is not None:
                self._tell(entry.pod, taken(entry, is_early=False))
        return True

    def done(self, uid: str, *, placed: bool = True) -> None:
        """The attempt is over: the pod has its node, or (`placed=False`) need not come back. A second call does
        nothing."""
        entry = self.in_flight.finish(uid)
        if entry is not None and entry.was_flushed and placed:
            self.counters.rescued += 1

    def add_unschedulable(self, entry: QueuedPod) -> Place:
        """The attempt failed. The entry bears the present pod and its rejectors (`reject_by`); none: it was an error.

        The pod waits for an event, or if one came during the attempt, or after an error, for its backoff to end.
        """
        try:
            place = self.where(entry.key)
            if place is not None:
                raise AlreadyQueued(f"Pod {entry.key} is already present in {WORDS[place]}")
            entry.note_return(self._clock.now_ns())
            self.counters.hold(entry)
            groups = self._groups_with(entry.pod)
            if groups is not None:
                return groups.add(entry)
            worth = self._strategy_after_flight(entry)
            place = self.places.requeue(entry, worth, ATTEMPT_FAILED)
            if self._log is not None:
                self._log.failed(entry, place, self.attempts, worth)
            return place
        finally:
            self.in_flight.finish(entry.uid)

    def end_group_cycle(self, group: QueuedGroup, outcome: Outcome) -> None:
        """The attempt of a group is over (`GroupQueue.end_cycle`)."""
        assert self.groups is not None, "there are groups only where they are heeded"
        place = self.groups.end_cycle(group, outcome)
        if self._log is not None and place is not None:
            self._log.group_failed(group, place, self.attempts)

    def _groups_with(self, pod: Pod) -> GroupQueue | None:
        """The part of the queue in which the pod waits with its group; None: it waits alone, as a resize does."""
        is_alone = pod.group_key is None or self._cluster.is_resize(pod)
        return None if is_alone else self.groups

    def _strategy_after_flight(self, entry: QueuedPod) -> QueueingStrategy:
        """The worth of the events during the attempt to the pod: the strongest counts."""
        if not entry.rejectors:
            return QueueingStrategy.AFTER_BACKOFF
        observed_events = self.in_flight.since_start(entry.uid)
        if observed_events is None:
            self._report(
                "in flight entity isn't found in the scheduling queue. "
                "If you see this error log, it's likely a bug in the scheduler",
                None,
            )
            return QueueingStrategy.AFTER_BACKOFF
        return self.hints.strongest_for(entry, observed_events)

    # ---- Events and times that move pods

    def wake(
        self,
        event: ClusterEvent,
        old: KubeObject | None = None,
        new: KubeObject | None = None,
        admits: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Something happened in the cluster: requeue the unschedulable pods that it could help and that `admits` lets
        in.

        For pods in flight the event is recorded, whatever `admits` says: it counts when they come back.
        """
        if not self.places.unschedulable.filed and not self.in_flight.started:
            return  # Hot: the usual case; 0.2 µs
        interested = self.hints.interested(event)
        if not interested and not event.is_wildcard:
            return
        observed = self._observed(event, old, new)
        named = self.hints.named_pods(observed)
        self._wake(self.places.unschedulable.concerned(observed, admits, counts_others=named is None), observed, named)
        self.in_flight.record(observed)
        if self._log is not None and self.in_flight.started:
            self._log.kept(observed.label)

    def _wake(self, entries: Iterable[QueuedEntity], observed: ObservedEvent, named: NamedPods | None = None) -> None:
        """Requeue those of these unschedulable pods and groups that the event could help; of pods that plugins name, if they
        do."""
        log = self._log
        for entry in entries:
            if type(entry) is QueuedPod:  # Hot: without a call in between
                unasked = self.hints.not_naming(entry, named) if named is not None else ()
                if named is not None and len(unasked) == len(named):
                    continue
                worth = self.hints.strategy_for(entry, observed, unasked)
            else:
                worth = self.hints.strategy_for_entity(entry, observed)
            if worth is QueueingStrategy.SKIP:
                if log is not None:
                    log.skipped(entry, observed.label)
            elif self.places.unschedulable.remove(entry.key) is not None:
                self.places.requeue(entry, worth, observed.label)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pods active whatever they wait for; only gates can still hold back those that are unschedulable.

        One that is in flight will back off instead of being unschedulable if its attempt fails.
        """
        for pod in pods:
            groups = self._groups_with(pod)
            if groups is not None:
                if not groups.activate(pod) and pod.id in self.in_flight:
                    self.in_flight.record(self._observed(FORCE_ACTIVATE, None, pod))
                continue
            place = self.places.where(pod.key)
            if place is not None and place != "active":
                entry = self.places.get(pod.key)
                assert entry is not None
                self.places.to_active(entry, FORCE_ACTIVATE.label, from_backoff=place == "backoff")
            elif pod.id in self.in_flight:
                self.in_flight.record(self._observed(FORCE_ACTIVATE, None, pod))

    def reconsider(self, pod: Pod) -> None:
        """The reason why a gate held a pod back is gone: queue it as the event would have done that the gate kept from it."""
        entry: QueuedEntity | None = self.places.unschedulable.get(pod.key)
        groups = self._groups_with(pod)
        if groups is not None:
            group = groups.entity_of(pod)
            entry = None if group is None else self.places.unschedulable.get(group.key)
        elif isinstance(entry, QueuedPod) and entry.uid != pod.id:
            return
        if entry is not None and entry.is_gated:
            self.places.requeue(entry, QueueingStrategy.AFTER_BACKOFF, FORCE_ACTIVATE.label)

    def flush_backoff(self) -> None:
        """Make the pods active whose backoff is over. To be called on each whole second."""
        for entry in self.places.backoff.pop_complete(self._clock.now_ns()):
            self.places.to_active(entry, BACKOFF_COMPLETE, from_backoff=True)

    def flush_unschedulable(self) -> None:
        """Requeue the pods that have been unschedulable for too long. To be called at the start, then every 30 seconds.

        It is a safety net: a pod that is placed after it missed an event (`counters.rescued`).
        """
        now_ns = self._clock.now_ns()
        since_ns = now_ns - self._max_unschedulable_ns
        overdue = [entry for entry in self.places.unschedulable if max(entry.timestamp_ns, entry.flushed_ns) < since_ns]
        if not overdue:
            return
        for entity in overdue:
            entity.flushed_ns = now_ns
            for entry in (entity, *entity.entries):
                entry.was_flushed = True
        observed = self._observed(UNSCHEDULABLE_TIMEOUT, None, None)
        self._wake(overdue, observed)
        self.counters.flushed += sum(entry.was_flushed for entry in overdue)
        self.in_flight.record(observed)

    # ---- Copying the pods into another queue

    def entities_by_place(self) -> dict[str, list[QueuedEntity]]:
        """All entities by where they are, in the order in which `take_over` must get them."""
        return {
            **self.places.entities(),
            "incomplete": [] if self.groups is None else list(self.groups.incomplete),
            "in flight": list(self.in_flight.entries()),
        }

    def take_over(self, entries: Mapping[str, Iterable[QueuedEntity]], attempts: int) -> None:
        """Put the entities of another queue where they were. This queue must be empty; no gate is asked again."""
        self.attempts = attempts
        if self.groups is not None:
            waiting = (*entries["active"], *entries["backoff"], *entries["unschedulable"])
            incomplete = (entry for entry in entries["incomplete"] if isinstance(entry, QueuedPod))
            self.groups.take_over((each for each in waiting if isinstance(each, QueuedGroup)), incomplete)
        self.places.take_over(entries)
        for entry in entries["in flight"]:
            assert isinstance(entry, QueuedPod), "pods are in flight one by one"
            self.in_flight.start(entry)

    def put_right(self, key: str, pod: Pod | None) -> None:
        """Forget a pod wherever it waits, and queue it once, active, if it is to wait (`pod`): a fault was found."""
        found = self.places.remove(key)
        while self.places.remove(key) is not None:
            pass
        if self.groups is not None:
            found = self.groups.remove(key) or found
        if pod is None:
            return
        self.in_flight.finish(pod.id)
        if found is not None and found.uid == pod.id:
            entry = found
            self.counters.hold(entry)
        else:
            entry = new_entry(pod, self._clock.now_ns())
        entry.pod = pod
        groups = self._groups_with(pod)
        if groups is not None:
            groups.add(entry)
        else:
            self.places.to_active(entry, FORCE_ACTIVATE.label)

    def _observed(self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None) -> ObservedEvent:
        """An event with its objects and its label."""
        return ObservedEvent(event, Change(old, new, self._cluster), event.label)
