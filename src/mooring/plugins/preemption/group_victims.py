"""The victims that preemption for a pod group chooses from: single pods, and whole groups that are disrupted together.

A group with the disruption mode PodGroup leaves as one or stays as one, and counts with the priority of the group. All
other pods, members of groups too, are victims of their own.
"""

from collections.abc import Iterable, Sequence

import msgspec

from mooring.cluster.nodes.ranks import start_ns
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins.preemption.search import Budget

Importance = tuple[int, bool, int, int, int]
"""Ascending: the more important victim is the lesser."""
_MOST_PODS = 1 << 32
"""More than there are on any node."""


class GroupVictim(msgspec.Struct):
    """Pods that leave together: one pod, or all pods of a group on nodes."""

    pods: list[Pod]
    importance: Importance
    """Priority, groups before pods, size, start, place."""


def pod_place(node_position: int, index: int) -> int:
    """The place of a pod among all pods, node by node in the order of upstream's snapshot. A pod that has not started counts
    as started when it is looked at, so the earlier it is met, the more important it is."""
    return node_position * _MOST_PODS + index


def single(pod: Pod, place: int) -> GroupVictim:
    """A pod that may leave alone. Parity: any pod that names a group counts as a group, of one."""
    is_group = pod.spec.scheduling_group is not None
    return GroupVictim([pod], (-pod.priority, not is_group, -1, start_ns(pod), place))


def whole(group: PodGroup, pods: list[Pod], place: int) -> GroupVictim:
    """A group that leaves as one, with its pods in the order of their places, the first of which is given.

    Parity: it counts as started when that first pod was, whichever is the oldest.
    """
    return GroupVictim(pods, (-group.priority, False, -len(pods), start_ns(pods[0]), place))


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
