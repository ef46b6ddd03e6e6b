"""Gangs in trials of nodes: their pods are placed together or not at all, so that no node is added for half a gang."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import gang_minimum
from mooring.framework.attempts.group_asking import generate_placements
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.group_points import PodGroupContext, PodGroupPlacement
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod


@dataclass(frozen=True, slots=True)
class PlacedTogether:
    """Pods that are placed one after another; fewer than `least` of them are taken back."""

    pods: Sequence[Pod]
    least: int = 0
    gang: str = ""
    """The key of the PodGroup; empty for a pod that goes alone."""

    def form(self, placements: Sequence[PodGroupPlacement | None]) -> tuple[object, ...]:
        """What another gang agrees in that fits where this one does, among these placements."""
        kinds = Counter((id(pod.shape), id(pod.label_set), pod.namespace) for pod in self.pods)
        where = tuple(placement.rows.tobytes() for placement in placements if placement is not None)
        return self.least, frozenset(kinds.items()), where


def _order(pod: Pod) -> tuple[int, str, str]:
    """How the scheduler orders the pods of a group that came at once."""
    return -pod.priority, pod.metadata.creation_timestamp or "", pod.key


@dataclass(slots=True)
class GangUnits:
    """The gangs of a cluster, and how many of their pods a trial has placed so far."""

    cluster: Cluster
    placed: Counter[str] = field(default_factory=Counter)
    """By key of the group, beside those that ran before."""

    def units(self, pods: Sequence[Pod]) -> list[PlacedTogether]:
        """The pods in the order of the queue; a gang is tried when the first of its pods is."""
        gangs: dict[str, list[Pod]] = {}
        order: list[Pod | str] = []
        for pod in pods:
            key = self.gang_of(pod)
            if key is None:
                order.append(pod)
            elif key in gangs:
                gangs[key].append(pod)
            else:
                gangs[key] = [pod]
                order.append(key)
        return [
            PlacedTogether(sorted(gangs[each], key=_order), self._missing(each, gangs[each][0]), each)
            if isinstance(each, str)
            else PlacedTogether((each,))
            for each in order
        ]

    def gang_of(self, pod: Pod) -> str | None:
        """The key of the pod's gang; None if it goes alone."""
        return None if self._minimum(pod) is None else pod.group_key

    def unfit(self, pods: Sequence[Pod], hopeless: Mapping[str, str]) -> dict[str, str]:
        """Pods of gangs that cannot be complete, because of pods that fit nowhere: by key, and why."""
        found: dict[str, str] = {}
        for unit in self.units(pods):
            lost = [pod for pod in unit.pods if pod.key in hopeless]
            if unit.gang and lost and len(unit.pods) - len(lost) < unit.least:
                reason = f"its group {unit.gang} stays pending: {hopeless[lost[0].key]}"
                found |= {pod.key: hopeless.get(pod.key, reason) for pod in unit.pods}
        return found

    def least_and_there(self, pod: Pod) -> tuple[int, int]:
        """The minimum of a pod's gang, and how many of its pods have nodes without this trial."""
        group = self.cluster.groups.of(pod) if self.cluster.groups is not None else None
        return self._minimum(pod) or 0, group.scheduled_count if group is not None else 0

    def _missing(self, key: str, pod: Pod) -> int:
        """How many pods of the gang must fit yet."""
        least, there = self.least_and_there(pod)
        return max(least - there - self.placed[key], 0)

    def _minimum(self, pod: Pod) -> int | None:
        if self.cluster.groups is None or pod.group_key is None:
            return None
        declared = self.cluster.pod_group(pod.group_key)
        return gang_minimum(declared, self.cluster.gates)


def placements_of(gang: PlacedTogether, cluster: Cluster, runner: Runner | None) -> Sequence[PodGroupPlacement | None]:
    """Parts of the cluster that the gang is tried in, such as racks; None: on all nodes. Where there are none, the scheduler
    would try it nowhere."""
    if runner is None or not runner.profile.tries_placements:
        return [None]
    try:
        found = generate_placements(runner.profile, PodGroupContext(gang.pods, cluster))
    except AttemptError:
        return []
    return [] if isinstance(found, Rejection) else found


def broken_gang(cluster: Cluster, leaving: Sequence[Pod]) -> str:
    """Which gang has fewer pods than its minimum while these leave their node, in words; empty if none has."""
    gangs = GangUnits(cluster)
    for key, number in Counter(pod.group_key for pod in leaving if gangs.gang_of(pod) is not None).items():
        pod = next(pod for pod in leaving if pod.group_key == key)
        least, there = gangs.least_and_there(pod)
        if there - number < least <= there:
            return f"PodGroup {key} needs {least} pods, and would have {there - number} while they move"
    return ""
