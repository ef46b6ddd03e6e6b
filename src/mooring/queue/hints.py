"""Hints: whether an event could make a pod schedulable, asked of the plugins that rejected the pod and of no others.

A plugin registers events, each with an optional hint. A wrong no strands the pod until the flush after five minutes; a
wrong yes costs one attempt. So everything in doubt is a yes here.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from mooring.framework.contract.events import (
    ASSIGNED_POD,
    EVERYTHING,
    TARGET_POD,
    UNSCHEDULED_POD,
    Action,
    Change,
    ClusterEvent,
    EventKeys,
    Hint,
    Registration,
)
from mooring.framework.contract.plugin_caller import ERROR, QUEUE, QUEUE_SKIP, PluginCaller
from mooring.framework.contract.points import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from mooring.model.pod import Pod
from mooring.model.quantity import to_milli
from mooring.model.requests import held_requests
from mooring.queue.entry import QueueCounters, QueuedEntity, QueuedGroup, QueuedPod, ReportFault, Standing

if TYPE_CHECKING:
    from mooring.framework.profile.profiles import Profile

Listeners = Mapping[str, tuple[Registration, ...]]
"""Plugin -> its registrations that cover an event."""

REJECTING = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)
"""The points at which a plugin can reject a pod in a way that an event may cure."""


class ObservedEvent(NamedTuple):
    """An event with the objects that it is about, and its label worked out once."""

    event: ClusterEvent
    change: Change
    label: str


class RejectionKind(NamedTuple):
    """The traits of unschedulable pods by which an event is judged: pods with equal traits are asked the same hints."""

    profile: str
    """Empty: the pod's profile is unknown."""
    rejectors: tuple[str, ...]
    gating_plugin: str


class AskedHints(NamedTuple):
    """The hints that are asked about an event for pods of one kind, plugin by plugin."""

    registered: tuple[tuple[str, Registration], ...]
    keys: tuple[EventKeys, ...]
    """By which keys the event names the pods to ask about; none: all pods of the kind are asked about."""


NamedPods = Mapping[str, Sequence[tuple[EventKeys, frozenset[Hashable]]]]
"""Plugin -> the keys by which it names the pods that an event is about (upstream's PreQueueingHint)."""


class QueueingStrategy(IntEnum):
    """The worth of an event to a pod that was rejected; the greater, the stronger. Upstream's queueingStrategy."""

    SKIP = 0
    """Nothing."""
    AFTER_BACKOFF = 1
    """Another attempt, once the pod has backed off."""
    IMMEDIATELY = 2
    """Another attempt at once."""


def registrations_of(plugin: Plugin) -> Sequence[Registration]:
    """The events that could cure a plugin's rejections. A plugin that can reject and registers none is woken by
    everything."""
    registered = plugin.events()
    if registered is None:
        return EVERYTHING if isinstance(plugin, REJECTING) else ()
    return registered


class HintMap:
    """Which plugins of one profile registered which event."""

    def __init__(self, registered: Mapping[str, Sequence[Registration]]) -> None:
        self._registered = registered
        self._heard: dict[ClusterEvent, Listeners] = {}
        self._last: tuple[ClusterEvent, Listeners] | None = None

    @classmethod
    def of(cls, profile: "Profile", others: Mapping[str, Sequence[Registration]]) -> "HintMap":
        """The map of a profile. `others` are rejectors that are no plugins."""
        return cls({**{name: registrations_of(plugin) for name, plugin in profile.plugins.items()}, **others})

    def listeners(self, event: ClusterEvent) -> Listeners:
        """The hints to ask about an event, by plugin. There are few kinds of events, so each is matched once.

        Hot: all unschedulable pods are asked about one event after another, so the last answer is kept by identity.
        """
        if self._last is not None and self._last[0] is event:
            return self._last[1]
        heard = self._heard.get(event)
        if heard is None:
            matched = {
                name: tuple(each for each in registered if each.event.covers(event))
                for name, registered in self._registered.items()
            }
            heard = self._heard[event] = {name: found for name, found in matched.items() if found}
        self._last = event, heard
        return heard

    def registered(self, plugin: str) -> Sequence[Registration]:
        """The registrations of one plugin."""
        return self._registered.get(plugin, ())


class Hints:
    """The hint maps of all profiles, and the question they are for."""

    def __init__(
        self,
        maps: Mapping[str, HintMap],
        counters: QueueCounters,
        report: ReportFault,
        callers: Mapping[str, PluginCaller],
        narrows: bool = False,
    ) -> None:
        """`narrows`: the gate SchedulerPreQueueingHints is on."""
        self._maps = maps
        self._narrows = narrows
        self._callers = callers
        self._counters = counters
        self._report = report
        self._interested: dict[ClusterEvent, tuple[str, ...]] = {}
        self._last: tuple[ClusterEvent | None, tuple[str, ...]] = None, ()
        """Hot: one event follows another of its kind."""

    def interested(self, event: ClusterEvent) -> tuple[str, ...]:
        """The plugins, of whichever profile, that registered for an event. (A wildcard concerns everyone.)"""
        if self._last[0] is event:
            return self._last[1]
        plugins = self._interested.get(event)
        if plugins is None:
            names = {name: None for hint_map in self._maps.values() for name in hint_map.listeners(event)}
            plugins = self._interested[event] = tuple(names)
        self._last = event, plugins
        return plugins

    def kind_of(self, entity: QueuedEntity) -> RejectionKind:
        """To which other unschedulable pods an event means the same. A group is asked about what any member waits for; if
        one of them waits for nothing in particular, about every event."""
        if isinstance(entity, QueuedPod):
            profile = entity.profile
            return RejectionKind(profile if profile in self._maps else "", entity.rejectors, entity.gating_plugin)
        profiles, rejectors = set[str](), set[str]()
        for standing, _ in entity.classes():
            profile, plugins, pending = _traits(standing)
            if not plugins and not pending:
                return RejectionKind("", (), entity.gating_plugin)
            profiles.add(profile)
            rejectors.update(plugins, pending)
        profile = profiles.pop()
        if profiles or profile not in self._maps:
            return RejectionKind("", (), entity.gating_plugin)
        return RejectionKind(profile, tuple(sorted(rejectors)), entity.gating_plugin)

    def keys_of(self, kind: RejectionKind) -> tuple[EventKeys, ...]:
        """The keys by which events name pods of this kind."""
        hint_map = self._maps.get(kind.profile)
        if hint_map is None:
            return ()
        registered = (each for plugin in kind.rejectors for each in hint_map.registered(plugin))
        return tuple(dict.fromkeys(each.keys for each in registered if each.keys is not None))

    def asked(self, kind: RejectionKind, event: ClusterEvent) -> AskedHints | None:
        """The hints that pods of this kind are to be asked about; None: the event means nothing to them."""
        if kind.gating_plugin and not self._opens(kind.gating_plugin, event):
            return None
        hint_map = self._maps.get(kind.profile)
        if event.is_wildcard or hint_map is None or not kind.rejectors:
            return AskedHints((), ())  # `strategy_for` answers without a hint
        heard = hint_map.listeners(event)
        registered = tuple((plugin, each) for plugin in kind.rejectors for each in heard.get(plugin, ()))
        keys = tuple(dict.fromkeys(each.keys for _, each in registered))
        return AskedHints(registered, () if None in keys else keys) if registered else None  # type: ignore[arg-type]

    def _opens(self, gating_plugin: str, event: ClusterEvent) -> bool:
        """Whether an event can open a gate: its plugin registered the event, in any profile."""
        return event.is_wildcard or any(registered.covers(event) for registered in self.events_of(gating_plugin))

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """All events that a plugin registered, in any profile."""
        return tuple(each.event for hint_map in self._maps.values() for each in hint_map.registered(plugin))

    def waking_events(self, entry: QueuedPod) -> list[str]:
        """The changes that may have a rejected pod tried again, such as `Node/Add`: its rejectors registered them."""
        events = (event for plugin in entry.rejectors for event in self.events_of(plugin))
        return list(dict.fromkeys(name for event in events for name in event.names()))

    def keys_of_pod(self, keys: EventKeys, entity: QueuedEntity) -> frozenset[Hashable] | None:
        """The keys of a pod, or of all members of a group; None: they cannot be told, so every event is asked about."""
        try:
            if keys.by_group and isinstance(entity, QueuedGroup):
                entries: Iterable[QueuedPod] = (members[0] for members in entity.members.values())
            else:
                entries = entity.entries
            return frozenset(key for entry in entries for key in keys.of_pod(entry.pod))
        except Exception as error:  # a plugin may raise anything
            self._report(f"a plugin failed to say which events name pod {entity.key}", error)
            return None

    def keys_of_change(self, keys: EventKeys, observed: ObservedEvent) -> frozenset[Hashable] | None:
        """The keys of an event; None: it may be about any pod."""
        try:
            found = keys.of_change(observed.change)
            return None if found is None else frozenset(found)
        except Exception as error:  # a plugin may raise anything
            self._report(f"a plugin failed to say which pods {observed.label} names", error)
            return None

    def named_pods(self, observed: ObservedEvent) -> NamedPods | None:
        """The pods that plugins name for an event; None: any pod may be asked about.

        Parity: plugins that registered the event and name no pods do not count, so pods that only they rejected are not
        asked about if another plugin names others.
        """
        change = observed.change
        if not self._narrows or observed.event.is_wildcard or (change.old is None and change.new is None):
            return None
        named: dict[str, list[tuple[EventKeys, frozenset[Hashable]]]] = {}
        for hint_map in self._maps.values():
            for plugin, registered in hint_map.listeners(observed.event).items():
                for keys in (each.keys for each in registered if each.keys is not None and each.keys.narrows):
                    names = self.keys_of_change(keys, observed)
                    self._counters.pre_hints[plugin, "all_pods" if names is None else "narrowed"] += 1
                    if names is None:
                        return None
                    named.setdefault(plugin, []).append((keys, names))
        return named or None

    def not_naming(self, entry: QueuedPod, named: NamedPods) -> frozenset[str]:
        """The plugins that name pods, but not this one."""
        return frozenset(
            plugin
            for plugin, all_keys in named.items()
            if not any(self._has_name(entry, keys, names) for keys, names in all_keys)
        )

    def _has_name(self, entry: QueuedPod, keys: EventKeys, names: frozenset[Hashable]) -> bool:
        own = self.keys_of_pod(keys, entry)
        return own is None or not own.isdisjoint(names)

    def skip(self, kind: RejectionKind, asked: AskedHints, observed: ObservedEvent, count: int) -> None:
        """Count pods that have none of the event's keys: each hint says no about them. They count as asked, as upstream asks
        them."""
        caller, label = self._callers[kind.profile], observed.label
        for plugin, _ in asked.registered:
            self._counters.hints[plugin, label, QUEUE_SKIP] += count
            caller.hints_known(plugin, label, QUEUE_SKIP, count)

    def strategy_for_entity(self, entity: QueuedEntity, observed: ObservedEvent) -> QueueingStrategy:
        """The worth of an event to a pod, or to the member of a group that the event helps most."""
        if isinstance(entity, QueuedPod):
            return self.strategy_for(entity, observed)
        found = QueueingStrategy.SKIP
        for standing, members in entity.classes():
            is_one_asked = len(members) == 1 or self._is_one_asked(_traits(standing), observed.event)
            for entry in [next(iter(members.values()))] if is_one_asked else members.values():
                worth = self.strategy_for(entry, observed, count=len(members) if is_one_asked else 1)
                if worth is QueueingStrategy.IMMEDIATELY:
                    return worth
                found = max(found, worth)
        return found

    def _is_one_asked(self, traits: "_Traits", event: ClusterEvent) -> bool:
        """Whether one of the members of a PodGroup with these traits is asked about for all: each hint says the same about
        them. With a plugin that waits for an event, the first yes ends the questions."""
        profile, rejectors, pending = traits
        hint_map = self._maps.get(profile)
        if pending or event.is_wildcard or hint_map is None:
            return False
        heard = hint_map.listeners(event)
        asked = (each.keys for plugin in rejectors for each in heard.get(plugin, ()))
        return all(keys is not None and keys.by_group for keys in asked)

    def strategy_for(
        self, entry: QueuedPod, observed: ObservedEvent, unasked: Collection[str] = (), count: int = 1
    ) -> QueueingStrategy:
        """The worth of an event to a pod. Pods without a rejector failed with an error: any event gives them another
        attempt. Plugins that are `unasked` said before that the event is not about the pod. The answers count for so many
        pods."""
        rejectors = entry.rejectors
        if not rejectors:
            return QueueingStrategy.AFTER_BACKOFF
        if observed.event.is_wildcard:
            return _strategy_for_wildcard(entry, observed.change)
        hint_map = self._maps.get(entry.profile)
        if hint_map is None:
            self._report(f"no profile is named {entry.profile}, so pod {entry.key} is woken by any event", None)
            return QueueingStrategy.AFTER_BACKOFF
        listeners = hint_map.listeners(observed.event)
        for plugin in rejectors:  # those that wait for an event come first, so the first yes is the strongest
            for registered in () if plugin in unasked else listeners.get(plugin, ()):
                if self._ask(plugin, registered.hint, entry, observed, count):
                    is_awaited = plugin in entry.pending_plugins
                    return QueueingStrategy.IMMEDIATELY if is_awaited else QueueingStrategy.AFTER_BACKOFF
        return QueueingStrategy.SKIP

    def strongest_for(self, entry: QueuedPod, events: Iterable[ObservedEvent]) -> QueueingStrategy:
        """The worth of several events to a pod: the strongest counts."""
        strongest = QueueingStrategy.IMMEDIATELY if entry.pending_plugins else QueueingStrategy.AFTER_BACKOFF
        found = QueueingStrategy.SKIP
        for observed in events:
            found = max(found, self.strategy_for(entry, observed))
            if found is strongest:
                break  # no later event can be worth more
        return found

    def _ask(self, plugin: str, hint: Hint | None, entry: QueuedPod, observed: ObservedEvent, count: int) -> bool:
        """Ask one hint. One that fails counts as a yes: an attempt in vain costs less than a pod that is stranded."""
        caller, label = self._callers[entry.profile], observed.label
        began_ns = caller.began()
        outcome = QUEUE
        try:
            if hint is not None and not hint(entry.pod, observed.change):
                outcome = QUEUE_SKIP
        except Exception as error:  # a plugin may raise anything
            outcome = ERROR
            self._report(f"the hint of plugin {plugin} for {label} failed on pod {entry.key}", error)
        self._counters.hints[plugin, label, outcome] += count
        caller.hinted(plugin, label, outcome, began_ns)
        if count > 1:
            caller.hints_known(plugin, label, outcome, count - 1)
        return outcome is not QUEUE_SKIP


_Traits = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The profile of a pod, the plugins that rejected it, and those that wait for an event: which hints are asked about it."""


def _traits(standing: Standing) -> _Traits:
    return standing.profile, standing.unschedulable_plugins, standing.pending_plugins


def _strategy_for_wildcard(entry: QueuedPod, change: Change) -> QueueingStrategy:
    """A wildcard that names a pod is meant for that pod alone."""
    new = change.new
    if new is not None and (new.uid or new.key) != entry.uid:
        return QueueingStrategy.SKIP
    return QueueingStrategy.AFTER_BACKOFF


# ---- Changes of a pod, as the events that plugins register for.


def pod_events(old: Pod, new: Pod, *, is_target: bool = False) -> Sequence[ClusterEvent]:
    """The events that an update of a pod amounts to, in the order in which hints are asked about them; at least one.

    `is_target`: hints are asked about the very pod. Parity: to lose one of several gates, or to begin to terminate, is an
    unspecific update.
    """
    resource = ASSIGNED_POD if new.spec.node_name else TARGET_POD if is_target else UNSCHEDULED_POD
    # Hot: the usual change is one of the status: it cannot be one of labels, requests, gates or tolerations.
    if old.spec is new.spec and old.shape is new.shape and old.labels == new.labels:
        return _CLAIMS_EVENTS[resource] if _claims_changed(old, new) else _UNSPECIFIC_EVENTS[resource]
    actions = [action for action, happened in _CHANGES if happened(old, new)]
    return [_EVENTS[resource, action] for action in actions or (Action.UPDATE,)]


def _labels_changed(old: Pod, new: Pod) -> bool:
    return old.labels != new.labels


def _shrank(old: Pod, new: Pod) -> bool:
    """Whether the pod holds less of some resource. Sums are made only if one of their parts changed."""
    if old.shape is new.shape or _resources(old) == _resources(new):
        return False
    before, after = held_requests(old), held_requests(new)
    return any(name not in after or to_milli(after[name]) < to_milli(amount) for name, amount in before.items())


def _grew(old: Pod, new: Pod) -> bool:
    """Whether the pod holds more of some resource. It may hold less of another in the same update."""
    return _shrank(new, old)


def _resources(pod: Pod) -> tuple[object, ...]:
    """The values that the requests of a pod are computed from: spec, status of in-place resizes, overhead."""
    spec, status = pod.spec, pod.status
    return (
        *(spec.containers, spec.init_containers, spec.resources, spec.overhead),
        *(status.container_statuses, status.init_container_statuses, status.conditions),
        *(status.resources, status.allocated_resources, status.node_allocatable_resource_claim_statuses),
    )


def _gates_vanished(old: Pod, new: Pod) -> bool:
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _tolerations_changed(old: Pod, new: Pod) -> bool:
    """Parity: tolerations can only be added, so their number tells."""
    return len(old.spec.tolerations or ()) != len(new.spec.tolerations or ())


def _claims_changed(old: Pod, new: Pod) -> bool:
    before, after = old.status, new.status
    return (before.resource_claim_statuses or []) != (after.resource_claim_statuses or []) or (
        before.extended_resource_claim_status != after.extended_resource_claim_status
    )


_CLAIMS_CHANGE = (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _claims_changed)
_CHANGES = (
    (Action.UPDATE_POD_LABEL, _labels_changed),
    (Action.UPDATE_POD_SCALE_DOWN, _shrank),
    (Action.UPDATE_POD_SCALE_UP, _grew),
    (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_vanished),
    (Action.UPDATE_POD_TOLERATION, _tolerations_changed),
    _CLAIMS_CHANGE,
)
"""In upstream's order (podChangeExtracters)."""

_POD_RESOURCES = (ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD)
_EVENTS = {
    (resource, action): ClusterEvent(resource, action)
    for resource in _POD_RESOURCES
    for action in (Action.UPDATE, *(action for action, _ in _CHANGES))
}
_UNSPECIFIC_EVENTS = {resource: (_EVENTS[resource, Action.UPDATE],) for resource in _POD_RESOURCES}
_CLAIMS_EVENTS = {resource: (_EVENTS[resource, _CLAIMS_CHANGE[0]],) for resource in _POD_RESOURCES}
