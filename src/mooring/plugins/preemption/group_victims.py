"""The victims that preemption for a pod group chooses from: single pods, and whole groups that are disrupted together.

A group with the disruption mode PodGroup leaves as one or stays as one, and counts with the priority of the group. All
other pods, members of groups too, are victims of their own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import start_ns
from mooring.model.pod import Pod
from mooring.model.workloads import DISRUPTED_TOGETHER, PodGroup
from mooring.plugins.preemption.search import Budget

Importance = tuple[int, bool, int, int, int]
"""Ascending: the more important victim is the lesser."""


@dataclass(slots=True, eq=False)
class GroupVictim:
    """Pods that leave together: one pod, or all pods of a group on nodes."""

    pods: list[Pod]
    priority: int
    started_ns: int
    """Parity: of a group, the start of the pod that is met first, not the earliest."""
    place: int
    """The place of the first pod among all pods, node by node in upstream's order. A pod that has not started counts as
    started when it is looked at, so the earlier it is met, the more important it is."""

    @property
    def importance(self) -> Importance:
        """Priority, groups before pods, size, start. Parity: any pod that names a group counts as a group, of one."""
        is_group = self.pods[0].spec.scheduling_group is not None
        return -self.priority, not is_group, -len(self.pods) if is_group else 0, self.started_ns, self.place


def disrupted_together(pod: Pod, cluster: Cluster) -> PodGroup | None:
    """The group of a pod that does not leave without the others; None: it may leave alone."""
    if pod.group_key is None:
        return None
    group = cast("PodGroup | None", cluster.objects[PodGroup].get(pod.group_key))
    return group if group is not None and group.spec.disruption_mode == DISRUPTED_TOGETHER else None


def victims_below(cluster: Cluster, priority: int) -> list[GroupVictim]:
    """All victims with a lower priority, the most important first."""
    found: dict[str, GroupVictim] = {}
    for place, pod in enumerate(_pods_in_order(cluster)):
        group = disrupted_together(pod, cluster)
        if group is None:
            found[pod.id] = GroupVictim([pod], pod.priority, start_ns(pod), place)
        elif (whole := found.get(f"group/{group.key}")) is not None:
            whole.pods.append(pod)
        else:
            found[f"group/{group.key}"] = GroupVictim([pod], group.priority, start_ns(pod), place)
    lower = (victim for victim in found.values() if victim.priority < priority)
    return sorted(lower, key=lambda victim: victim.importance)


def _pods_in_order(cluster: Cluster) -> Iterator[Pod]:
    """The pods of all nodes that are known, in the order in which upstream's snapshot has them."""
    nodes = cluster.nodes
    for name in nodes.order.round_robin():
        row = nodes.row_book.get(name)
        if row is not None and nodes.alive[row]:
            yield from nodes.pods_on[row]


def split_by_budgets(
    victims: Iterable[GroupVictim], budgets: Sequence[Budget]
) -> tuple[list[GroupVictim], list[GroupVictim]]:
    """(victims that break a budget if all leave in this order, the others).

    Parity: the pods of a victim take from budgets one after another until one finds a budget used up. Unlike for a single
    preemptor, the budgets and pods behind that one are not counted any more.
    """
    left = [budget.allowed for budget in budgets]
    breaking: list[GroupVictim] = []
    others: list[GroupVictim] = []
    for victim in victims:
        breaks = any(_breaks(pod, budgets, left) for pod in victim.pods)
        (breaking if breaks else others).append(victim)
    return breaking, others


def _breaks(pod: Pod, budgets: Sequence[Budget], left: list[int]) -> bool:
    for i, budget in enumerate(budgets):
        if budget.matches(pod) and pod.name not in budget.disrupted:
            left[i] -= 1
            if left[i] < 0:
                return True
    return False
