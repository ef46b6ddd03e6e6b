"""Hints: whether an event could make a pod schedulable, asked of the plugins that rejected the pod and of no others."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from mooring.framework.events import EVERYTHING, NODE, Action, Change, ClusterEvent, Hint, Registration
from mooring.framework.plugin_caller import PluginCaller
from mooring.framework.points import (
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)
from mooring.queue.counters import QueueCounters
from mooring.queue.entry import QueuedPod

if TYPE_CHECKING:
    from mooring.framework.profiles import Profile

Report = Callable[[str, Exception | None], None]
"""Told of what should not have happened: a text, and the exception that is behind it if there is one."""

Listeners = Mapping[str, tuple[Hint | None, ...]]
"""Plugin -> the hints to ask about an event; None stands for one that always says yes."""

REJECTING = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)
"""The points at which a plugin can reject a pod in a way that an event may cure."""

_NODE_TAINTED = Registration(ClusterEvent(NODE, Action.UPDATE_NODE_TAINT))


class ObservedEvent(NamedTuple):
    """An event with the objects that it is about, and its label worked out once."""

    event: ClusterEvent
    change: Change
    label: str


class QueueingStrategy(IntEnum):
    """What an event is worth to a pod that was rejected; the greater, the stronger."""

    SKIP = 0
    """Nothing."""
    AFTER_BACKOFF = 1
    """Another attempt, once the pod has backed off."""
    IMMEDIATELY = 2
    """Another attempt at once."""


def registrations_of(plugin: Plugin) -> Sequence[Registration]:
    """The events that could cure a plugin's rejections."""
    registered = plugin.events()
    if registered is None:
        return EVERYTHING if isinstance(plugin, REJECTING) else ()
    return with_taints(registered)


def with_taints(registered: Sequence[Registration]) -> Sequence[Registration]:
    """Add changes of taints for a plugin that waits for new nodes.

    Parity: a node usually appears tainted and is usable only later; whoever waits for nodes must hear of that too.
    """
    actions = Action(0)
    for registration in registered:
        if registration.event.resource == NODE:
            actions |= registration.event.action
    if actions & Action.ADD and not actions & Action.UPDATE_NODE_TAINT:
        return (*registered, _NODE_TAINTED)
    return registered


class HintMap:
    """Which plugins of one profile want to hear of which event."""

    def __init__(self, registered: Mapping[str, Sequence[Registration]]) -> None:
        self._registered = registered
        self._heard: dict[ClusterEvent, Listeners] = {}
        self._last: tuple[ClusterEvent, Listeners] | None = None

    @classmethod
    def of(cls, profile: "Profile", others: Mapping[str, Sequence[Registration]]) -> "HintMap":
        """The map of a profile. `others` are rejectors that are no plugins."""
        return cls({**{name: registrations_of(plugin) for name, plugin in profile.plugins.items()}, **others})

    def listeners(self, event: ClusterEvent) -> Listeners:
        """Who wants to hear of an event. There are few kinds of events, so each is matched once.

        Hot: all unschedulable pods are asked about one event after another, and hashing an event takes 0.6 µs.
        """
        if self._last is not None and self._last[0] is event:
            return self._last[1]
        heard = self._heard.get(event)
        if heard is None:
            matched = {
                name: tuple(each.hint for each in registered if each.event.covers(event))
                for name, registered in self._registered.items()
            }
            heard = self._heard[event] = {name: hints for name, hints in matched.items() if hints}
        self._last = event, heard
        return heard

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        return tuple(registration.event for registration in self._registered.get(plugin, ()))


class Hints:
    """The hint maps of all profiles, and the question they are for."""

    def __init__(
        self, maps: Mapping[str, HintMap], counters: QueueCounters, report: Report, callers: Mapping[str, PluginCaller]
    ) -> None:
        self._maps = maps
        self._callers = callers
        self._counters = counters
        self._report = report
        self._interested: dict[ClusterEvent, tuple[str, ...]] = {}

    def interested(self, event: ClusterEvent) -> tuple[str, ...]:
        """The plugins, of whichever profile, that registered for an event. (A wildcard concerns everyone.)"""
        plugins = self._interested.get(event)
        if plugins is None:
            names = {name: None for hint_map in self._maps.values() for name in hint_map.listeners(event)}
            plugins = self._interested[event] = tuple(names)
        return plugins

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """All events that a plugin registered, in any profile."""
        return tuple(event for hint_map in self._maps.values() for event in hint_map.events_of(plugin))

    def strategy_for(self, entry: QueuedPod, observed: ObservedEvent) -> QueueingStrategy:
        """What an event is worth to a pod."""
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
            if plugin in listeners and any(self._ask(plugin, hint, entry, observed) for hint in listeners[plugin]):
                return (
                    QueueingStrategy.IMMEDIATELY if plugin in entry.pending_plugins else QueueingStrategy.AFTER_BACKOFF
                )
        return QueueingStrategy.SKIP

    def _ask(self, plugin: str, hint: Hint | None, entry: QueuedPod, observed: ObservedEvent) -> bool:
        """Ask one hint. One that fails counts as a yes: an attempt in vain costs less than a pod that is stranded."""
        caller, label = self._callers[entry.profile], observed.label
        began_ns = caller.began()
        outcome = "Queue"
        try:
            if hint is not None and not hint(entry.pod, observed.change):
                outcome = "QueueSkip"
        except Exception as error:  # a plugin may raise anything
            outcome = "Error"
            self._report(f"the hint of plugin {plugin} for {label} failed on pod {entry.key}", error)
        self._counters.hints[plugin, label, outcome] += 1
        caller.hinted(plugin, label, outcome, began_ns)
        return outcome != "QueueSkip"


def _strategy_for_wildcard(entry: QueuedPod, change: Change) -> QueueingStrategy:
    """A wildcard that names a pod is meant for that pod alone."""
    new = change.new
    if new is not None and (new.uid or new.key) != entry.uid:
        return QueueingStrategy.SKIP
    return QueueingStrategy.AFTER_BACKOFF
