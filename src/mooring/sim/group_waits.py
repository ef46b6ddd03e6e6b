"""How long the pod groups of a day waited: from the arrival of the last pod that a group needs until so many are bound."""

from dataclasses import dataclass, field

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import gang_minimum
from mooring.model.pod import Pod


@dataclass(slots=True)
class _Members:
    arrived_s: list[float] = field(default_factory=list)
    bound_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class GroupWait:
    """One group in the end."""

    key: str
    members: int
    """How many of its pods arrived."""
    waited_s: float | None
    """None: it was not placed."""


class GroupWaits:
    """Told of each pod that arrives or is bound; keeps nothing where the scheduler heeds no groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._groups: dict[str, _Members] = {}

    def arrived(self, pod: Pod, at_s: float) -> None:
        if self._cluster.groups is not None and pod.group_key is not None:
            self._groups.setdefault(pod.group_key, _Members()).arrived_s.append(at_s)

    def bound(self, pod: Pod, at_s: float) -> None:
        group = self._groups.get(pod.group_key or "")
        if group is not None:
            group.bound_s.append(at_s)

    def waits(self) -> list[GroupWait]:
        return [
            GroupWait(key, len(group.arrived_s), self._waited(key, group))
            for key, group in sorted(self._groups.items())
        ]

    def _waited(self, key: str, group: _Members) -> float | None:
        declared = self._cluster.pod_group(key)
        needed = gang_minimum(declared, self._cluster.gates) or len(group.arrived_s)
        if not 0 < needed <= min(len(group.arrived_s), len(group.bound_s)):
            return None
        return group.bound_s[needed - 1] - sorted(group.arrived_s)[needed - 1]
