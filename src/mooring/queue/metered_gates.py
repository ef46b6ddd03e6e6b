"""Gates whose PreEnqueue plugins are measured."""

from collections.abc import Callable, Mapping

from mooring.framework.events import ClusterEvent
from mooring.framework.point_meters import SUCCESS, PluginProbe, PointMeters
from mooring.framework.points import PreEnqueuePlugin
from mooring.framework.profiles import Profile
from mooring.framework.status import Rejection
from mooring.model.pod import Pod
from mooring.queue.counters import QueueCounters
from mooring.queue.entry import QueuedPod
from mooring.queue.gates import Ask, Gates
from mooring.queue.hints import Report


class MeteredGates(Gates):
    """Does what gates do, and records how long it took, by profile."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        events_of: Callable[[str], tuple[ClusterEvent, ...]],
        counters: QueueCounters,
        report: Report,
        ask: Ask,
        meters: Mapping[str, PointMeters],
    ) -> None:
        super().__init__(profiles, events_of, counters, report, self._ask_measured)
        self._ask_plainly = ask
        self._meters = meters
        self._admissions = 0
        self._probe: PluginProbe | None = None

    def admit(self, entry: QueuedPod) -> bool:
        meters = self._meters.get(entry.profile)
        if meters is None:
            return super().admit(entry)
        self._admissions += 1
        self._probe = meters.probe(self._admissions)
        began_ns = meters.now_ns()
        is_admitted = super().admit(entry)
        meters.observe("PreEnqueue", SUCCESS, began_ns)  # Parity: whether or not the pod is gated
        self._probe = None
        return is_admitted

    def _ask_measured(self, plugin: PreEnqueuePlugin, pod: Pod) -> Rejection | None:
        if self._probe is None:
            return self._ask_plainly(plugin, pod)
        return self._probe.call("PreEnqueue", plugin.name, self._ask_plainly, plugin, pod)
