"""DeferredPodScheduling: a pod whose resize the kubelet deferred is for its own node, where pods may be preempted for it.

Such a pod runs already. It is queued (scheduler/intake.py) so that the scheduler finds out whether its node has room for the
resize, and makes room if not. Nothing is ever bound: the kubelet carries the resize out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    NODE,
    Action,
    Change,
    ClusterEvent,
    Registration,
    new_node_of,
    nodes_of,
)
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Handle,
    PermitPlugin,
    PreFilterPlugin,
    Rows,
)
from mooring.framework.contract.status import SKIP, Rejection, Skip, final
from mooring.model.pod import Pod

_OTHER_NODE = 1
_DISABLED = 2
_TEXTS = {_OTHER_NODE: "pod assigned to different node", _DISABLED: "node had resize preemption disabled"}
_FITS = final("pod resize fits, waiting for Kubelet actuation")


class DeferredPodScheduling(PreFilterPlugin, FilterPlugin, PermitPlugin):
    """Concerns pods with a deferred resize alone, and with the gate InPlacePodVerticalScalingSchedulerPreemption alone."""

    name = "DeferredPodScheduling"

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._is_on = handle.feature_gates.get("InPlacePodVerticalScalingSchedulerPreemption", False)

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(NODE, Action.UPDATE_NODE_PREEMPTION_POLICY), self._policy_changed),
            Registration(ClusterEvent(NODE, Action.ADD), self._node_added),
        )

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return pod.is_resize_deferred

    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        return None if context.is_resize else SKIP

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Without `@reads`, because neither spec.nodeName nor the policy of nodes is part of what answers are kept for."""
        if not context.is_resize:
            return None
        nodes, own = context.nodes, context.pod.spec.node_name
        codes = np.zeros(nodes.height, np.int64)
        if own:
            codes[:] = _OTHER_NODE
            codes[nodes.row_book.get(own, slice(0, 0))] = 0
        for row in np.arange(nodes.height)[rows]:
            node = nodes.nodes[row]
            if not codes[row] and node is not None and node.disables_resize_preemption:
                codes[row] = _DISABLED
        return codes[rows]

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final(_TEXTS[code])

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        """Keeps a pod that fits in the queue, until the kubelet has carried the resize out.

        Parity: a pod on a node does not come so far, because it is in the cache and cannot be assumed. That is an error,
        after which the pod backs off.
        """
        return _FITS if context.is_resize else None

    def _policy_changed(self, pod: Pod, change: Change) -> bool:
        """Whether preemption for resizes was disabled on the pod's node, and is not any more."""
        (old, _), new = nodes_of(change), new_node_of(change)
        return self._is_on_node(pod, new.name) and bool(
            old is not None and old.disables_resize_preemption and not new.disables_resize_preemption
        )

    def _node_added(self, pod: Pod, change: Change) -> bool:
        """Whether the pod's node came, with preemption for resizes enabled."""
        new = new_node_of(change)
        return self._is_on_node(pod, new.name) and not new.disables_resize_preemption

    def _is_on_node(self, pod: Pod, name: str) -> bool:
        return self._is_on and pod.is_resize_deferred and pod.spec.node_name == name


PLUGINS = (DeferredPodScheduling,)
