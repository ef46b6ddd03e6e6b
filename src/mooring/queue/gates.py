"""PreEnqueue: plugins decide whether a pod may be queued at all."""

from collections.abc import Callable, Mapping, Sequence

from mooring.framework.contract.plugin_caller import SUCCESS, PluginCaller, unwrapped
from mooring.framework.contract.status import Rejection, describe
from mooring.framework.profile.profiles import Profile
from mooring.model.pod import Pod
from mooring.queue.entry import (
    AlikeMembers,
    QueueCounters,
    QueuedEntity,
    QueuedGroup,
    QueuedPod,
    ReportFault,
    Standing,
)

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
