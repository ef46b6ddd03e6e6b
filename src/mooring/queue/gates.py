"""Gates: PreEnqueue plugins decide whether a pod may be queued at all."""

from collections.abc import Callable, Mapping

from mooring.framework.events import ClusterEvent
from mooring.framework.plugin_caller import SUCCESS, PluginCaller, Wrap
from mooring.framework.points import PreEnqueuePlugin
from mooring.framework.profiles import Profile
from mooring.framework.status import describe
from mooring.queue.counters import QueueCounters
from mooring.queue.entry import QueuedPod
from mooring.queue.hints import Report


class Gates:
    """Asks the PreEnqueue plugins of a pod's profile and notes on the entry who holds it back."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        events_of: Callable[[str], tuple[ClusterEvent, ...]],
        counters: QueueCounters,
        report: Report,
        callers: Mapping[str, PluginCaller],
    ) -> None:
        self._plugins = {name: profile.pre_enqueues for name, profile in profiles.items()}
        self._events_of = events_of
        self._counters = counters
        self._report = report
        self._callers = callers
        self._admissions = 0

    def admit(self, entry: QueuedPod) -> bool:
        """Whether the pod may be queued. The first plugin that objects is noted, and the others are not asked."""
        caller = self._callers.get(entry.profile)
        if caller is None:
            return True  # no profile is named so: there is no plugin that could object
        self._admissions += 1
        began_ns = caller.began()
        is_admitted = self._admit(entry, caller.wrap_for(self._admissions))
        caller.ended("PreEnqueue", SUCCESS, began_ns)  # Parity: whether or not the pod is gated
        return is_admitted

    def _admit(self, entry: QueuedPod, wrap: Wrap) -> bool:
        plugins = self._plugins.get(entry.profile, ())
        if entry.gating_plugin:  # it most likely still objects
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != entry.gating_plugin))
        for plugin in plugins:
            objection = self._objection(plugin, entry, wrap)
            if objection is not None:
                self._gate(entry, plugin.name, objection)
                return False
        entry.gating_plugin = entry.gating_message = ""
        entry.gating_events = ()
        return True

    def _objection(self, plugin: PreEnqueuePlugin, entry: QueuedPod, wrap: Wrap) -> str | None:
        """Why the plugin holds the pod back. One that fails holds it back too: it may know a reason."""
        try:
            rejection = wrap("PreEnqueue", plugin.name, plugin.pre_enqueue)(entry.pod)
            return None if rejection is None else rejection.message
        except Exception as error:  # a plugin may raise anything, or answer with anything
            self._report(f"PreEnqueue of plugin {plugin.name} failed on pod {entry.key}", error)
            return describe(error)

    def _gate(self, entry: QueuedPod, plugin: str, message: str) -> None:
        if plugin not in entry.rejectors:
            self._counters.unschedulable[plugin, entry.profile] += 1
        if plugin not in entry.unschedulable_plugins:
            entry.unschedulable_plugins = (*entry.unschedulable_plugins, plugin)
        entry.gating_plugin, entry.gating_message = plugin, message
        entry.gating_events = self._events_of(plugin)
