"""Whether kube-scheduler's rule for ties says which node a recorded pod had to get.

kube-scheduler draws no random number for a pod without extenders. But Go's map order and races between goroutines decide in
what order it finds nodes, unless the configuration and the recording rule them out (docs/parity.md, "Equal totals").
"""

from collections.abc import Mapping

from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.shape import PodShape
from mooring.scheduler.inputs import ObjectAdded
from mooring.state.replay.run_reader import ClusterStep


class TieCertainty:
    """Follows a recording. `saw` is to be called with each step, and `decided` with each decision."""

    def __init__(self, config: KubeSchedulerConfiguration, gates: Mapping[str, bool]) -> None:
        self._is_serial = config.parallelism == 1 and not config.extenders
        """One goroutine finds nodes in the order of the walk, and no extender brings random numbers."""
        self._batches = with_defaults(gates).get("OpportunisticBatching", False)
        self._knows_walk = True
        """Whether every node came while the recording ran, so that their order is known, and every search since then looked
        at all nodes, so that the walk begins at the first node."""
        self._last: tuple[str, PodShape] | None = None
        """Id and shape of the pod of the last decision."""

    def saw(self, step: ClusterStep) -> None:
        """The scheduler got the nodes that were there before in the order of a Go map."""
        change = step.step.input
        if step.is_known and isinstance(change, ObjectAdded) and isinstance(change.item, Node):
            self._knows_walk = False

    def decided(self, pod: Pod, looked_at_all: bool) -> bool:
        """Whether the rule says which of several tied nodes the pod gets. The decisions come in their order.

        A pod that PreFilter plugins keep to some nodes gets them in the order of a Go map, and moves the start of the walk;
        attempts of such pods that failed are not in a recording. Where batching is on, the second of two equal pods gets its
        node from what is left of the heap of the first, if it comes within half a second.
        """
        self._knows_walk = self._knows_walk and looked_at_all
        last, self._last = self._last, (pod.id, pod.shape)
        is_batched = self._batches and last is not None and last[0] != pod.id and last[1] == pod.shape
        return self._is_serial and self._knows_walk and not is_batched
