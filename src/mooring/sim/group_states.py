"""How far the pod groups of a simulated cluster have come: a group is placed or pending as one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import gang_minimum
from mooring.framework.contract.group_points import tells_of_group
from mooring.model.pod import Pod


@dataclass(slots=True)
class GroupState:
    """One group. Pods that have finished are not counted."""

    key: str
    min_count: int | None = None
    """How many pods must fit before any of them goes; None: they need not go together."""
    nodes: dict[str, str] = field(default_factory=dict)
    """By key of the pod: its node, empty while it is pending."""
    waited_s: float | None = None
    """From the beginning until enough pods were bound; None if they are not, or if they ran before."""
    message: str = ""
    """Why it is pending: the reason of a pod that fits nowhere, or why none is attempted."""

    @property
    def placed_count(self) -> int:
        return sum(bool(node) for node in self.nodes.values())

    @property
    def needed(self) -> int:
        """How many pods have to be on nodes: the minimum of a gang, else all."""
        return len(self.nodes) if self.min_count is None else self.min_count

    @property
    def is_placed(self) -> bool:
        return self.placed_count >= self.needed


def group_states(cluster: Cluster, pods: Iterable[tuple[Pod, str]]) -> dict[str, GroupState]:
    """The groups of pods, which come with their nodes; none where the scheduler keeps no groups."""
    found: dict[str, GroupState] = {}
    for pod, node in pods if cluster.groups is not None else ():
        key = pod.group_key
        if key is None:
            continue
        if key not in found:
            declared = cluster.pod_group(key)
            found[key] = GroupState(key, gang_minimum(declared, cluster.gates))
        found[key].nodes[pod.key] = node
    return dict(sorted(found.items()))


def note_waits(state: GroupState, bound_s: Mapping[str, float]) -> None:
    """When the last pod was bound that the group needed."""
    times = sorted(bound_s[key] for key in state.nodes if key in bound_s)
    missing = state.needed - (state.placed_count - len(times))
    if state.is_placed and 0 < missing <= len(times):
        state.waited_s = times[missing - 1]


def group_reason(messages: Iterable[str]) -> str:
    """The most telling reason of a group's pods. A pod with room says only that its group does not go."""
    told = [message for message in messages if message]
    return next((text for text in told if not tells_of_group(text)), told[0] if told else "")
