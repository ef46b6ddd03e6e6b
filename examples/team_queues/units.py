"""What waits for quota together: a pod, or the pods of a gang."""

from collections.abc import Container
from dataclasses import dataclass
from typing import cast

from mooring.plugin import Cluster, Pod, PodGroup

from .teams import Amounts


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """Pods that are admitted together or not at all."""

    key: str
    """The id of the pod, or the key of the PodGroup."""
    team: int
    pods: dict[str, Pod]
    amounts: Amounts
    priority: int
    since_ns: int

    def asks_for(self) -> str:
        return "the pod asks for" if len(self.pods) == 1 else f"the {len(self.pods)} pods of its gang ask for"


@dataclass(frozen=True, slots=True)
class Gathered:
    """A pod with those that it is judged with."""

    key: str
    pods: dict[str, Pod]
    least: int
    """So many of them have to be admitted together."""

    def fewest(self, pod: Pod) -> "Gathered":
        """The pod with as few others as its gang needs: the most important ones."""
        others = sorted(self.pods.values(), key=lambda other: (other.id != pod.id, -other.priority, other.key))
        return Gathered(self.key, {other.id: other for other in others[: self.least]}, self.least)


def gather(cluster: Cluster, pod: Pod, admitted: Container[str]) -> Gathered | None:
    """The pod with the members of its gang that are not admitted, if they complete the gang; None: they do not.

    A pod without a gang, or whose gang is complete without it, is judged alone.
    """
    groups, alone = cluster.groups, Gathered(pod.id, {pod.id: pod}, 1)
    if groups is None or pod.group_key is None:
        return alone
    declared = cast("PodGroup | None", cluster.objects[PodGroup].get(pod.group_key))
    members = groups.of(pod)
    if declared is None or members is None:
        return None
    gang = declared.spec.scheduling_policy.gang
    waiting = {each.id: each for each in members.unscheduled.values() if each.id not in admitted}
    ready = members.member_count - len(waiting)
    if gang is None or ready >= gang.min_count:
        return alone
    waiting[pod.id] = pod
    missing = gang.min_count - ready
    return Gathered(pod.group_key, waiting, missing) if len(waiting) >= missing else None
