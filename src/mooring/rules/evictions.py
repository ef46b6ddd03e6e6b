"""Evictions: which pods a drain evicts, which come back, and how many their disruption budgets let go.

The disruption controller, the eviction API and simulations count by these rules.
"""

from collections.abc import Callable
from typing import NamedTuple

from mooring.model.pod import Pod
from mooring.rules.workload_pods import is_daemon

ALWAYS_ALLOW = "AlwaysAllow"
"""The unhealthyPodEvictionPolicy by which a pod that is not ready may always go."""
_MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the mirror pod of a static pod, which only its kubelet can stop."""
_KUBELET = "Node"
"""The owner of the mirror of a static pod, which no controller creates again."""


def share_of(total: int, value: int | str | None, rounds_up: bool = False) -> int:
    """A number, or so many percent of a total.

    | total | value | rounded down | rounded up |
    | 10    | 3     | 3            | 3          |
    | 10    | 25%   | 2            | 3          |
    """
    if value is None:
        return 0
    if not isinstance(value, str) or not value.endswith("%"):
        return int(value)
    percent = int(value.removesuffix("%"))
    return -(-total * percent // 100) if rounds_up else total * percent // 100


# ---- budgets


class BudgetNeeds(NamedTuple):
    """How many pods a budget expects, and how many of them have to be healthy."""

    expected: int
    desired: int

    def allowed(self, healthy: int) -> int:
        """status.disruptionsAllowed."""
        return max(healthy - self.desired, 0) if self.expected > 0 else 0


def budget_needs(
    max_unavailable: int | str | None, min_available: int | str | None, pods: int, scale: Callable[[], int]
) -> BudgetNeeds:
    """The needs of a budget that covers so many pods. Only percentages and maxUnavailable need the `scale`, the number of
    pods that the workloads should have."""
    if max_unavailable is not None:
        expected = scale()
        return BudgetNeeds(expected, max(expected - share_of(expected, max_unavailable, rounds_up=True), 0))
    expected = scale() if isinstance(min_available, str) and min_available.endswith("%") else pods
    return BudgetNeeds(expected, share_of(expected, min_available, rounds_up=True))


def lets_unready_go(policy: str | None, desired: int, healthy: int) -> bool:
    """Whether a pod that is not ready may be evicted without being counted: if the budget is met without it, or always."""
    return policy == ALWAYS_ALLOW or 0 < desired <= healthy


# ---- drains


def is_static(pod: Pod) -> bool:
    """Whether the pod is the mirror of a static pod."""
    controller = pod.controller()
    has_mark = _MIRROR in (pod.metadata.annotations or {})
    return has_mark or (controller is not None and controller.kind == _KUBELET)


def is_drained(pod: Pod) -> bool:
    """Whether a drain evicts the pod: DaemonSet and mirror pods stay on the node, and end with it."""
    return not is_daemon(pod) and not is_static(pod)


def comes_back(pod: Pod) -> bool:
    """Whether a controller creates the pod again when it is preempted. A pod without a controller is gone."""
    owner = pod.controller()
    return owner is not None and owner.kind != _KUBELET
