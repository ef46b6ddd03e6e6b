"""Drains in the full simulation, with queue, time, preemption and controllers: the last word on what a search has found.

Nodes are drained and removed one after the other. A drain counts if disruption budgets let all pods go, if every pod that was
placed is placed again, and if no pod is preempted. If not, the node stays, and the simulation starts again from a moment
before it.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from mooring.answers.form.published import Form
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of, why_pending
from mooring.answers.trial.changing_nodes import cordon, drain, remove_nodes
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import some
from mooring.model.pod import Pod
from mooring.rules.evictions import is_drained

MAX_TAKEN_BACK = 20
"""After so many drains that had to be taken back, the others are not tried: each starts a simulation again."""
SAVED_STEPS = 50
"""After so many drains the cluster is saved to start again from: a copy of the list of 200,000 objects takes some 10 ms."""

Hindrance = Callable[[ChangingCluster, Sequence[Pod]], str]
"""(cluster, pods that would move) -> why they may not, in words; empty if they may."""


class DrainedPod(Form, frozen=True):
    """A pod that a drain moves."""

    key: str = msgspec.field(name="pod")
    node: str = msgspec.field(name="to")
    """Where it runs then."""


class NodeDrain(Form, frozen=True):
    """One node to drain and remove."""

    node: str
    moved: Sequence[DrainedPod]
    """The pods that the drain evicts, and where the scheduler places their replacements."""
    daemons: int = msgspec.field(name="daemonPods")
    """DaemonSet and static pods, which end with the node."""


class SimulatedDrains:
    """A simulation in which nodes are drained, and started again where a drain fails.

    Raises ConfigError, and InputError for objects that contradict each other.
    """

    def __init__(self, loaded: LoadedCluster, hindrance: Hindrance) -> None:
        self._hindrance = hindrance
        self._start(loaded)
        self.saved = objects_of(self._cluster)
        """The cluster to start again from; at first the one in which nothing is drained yet."""
        self.steps: list[NodeDrain] = []
        self.kept: dict[str, str] = {}
        """By node that could not be drained: why."""
        self.is_complete = True
        """Whether all nodes were tried."""

    def _start(self, loaded: LoadedCluster) -> None:
        self._cluster = ChangingCluster(loaded)
        self._cluster.settle()

    def run(self, names: Sequence[str], cordons_first: bool = False) -> None:
        """Drain nodes in this order. Those that have to stay are `kept`."""
        ahead, since, taken_back = deque(names), list[str](), 0
        cordon(self._cluster, names if cordons_first else ())
        while ahead:
            name = ahead.popleft()
            hindrance = self._hindrance(self._cluster, _moving(self._cluster, name))
            if hindrance and not cordons_first:
                self.kept[name] = hindrance  # nothing is changed yet
                continue
            outcome = hindrance or _drained(self._cluster, name)
            if isinstance(outcome, NodeDrain):
                self.steps.append(outcome)
                since.append(name)
                if len(since) == SAVED_STEPS and not cordons_first:
                    self.saved, since = objects_of(self._cluster), []
                continue
            self.kept[name] = outcome
            taken_back += 1
            if taken_back > MAX_TAKEN_BACK:
                self.is_complete = not ahead
                ahead.clear()
            self._go_back(since)
            ahead.extendleft(reversed(since))
            since = []
            cordon(self._cluster, [*ahead] if cordons_first else ())

    def _go_back(self, since: Sequence[str]) -> None:
        """Start again from the saved cluster, without the steps that came after it."""
        del self.steps[len(self.steps) - len(since) :]
        self._start(self.saved)


def _moving(cluster: ChangingCluster, name: str) -> list[Pod]:
    return [pod for pod in cluster.pods_on(name) if is_drained(pod)]


def _drained(cluster: ChangingCluster, name: str) -> NodeDrain | str:
    """Drain the node and remove it. Returns why it has to stay, if it has to: the cluster is then to be thrown away."""
    pods = _moving(cluster, name)
    others = len(cluster.pods_on(name)) - len(pods)
    cluster.preempted.clear()
    drain(cluster, [name])
    if cluster.blocked:
        blocked = next(iter(cluster.blocked.values()))
        return f"PodDisruptionBudget {blocked.budget} protects {blocked.key}: {blocked.message}"
    came = _moving(cluster, name)
    if reason := _left_without_node(cluster, pods):
        return reason
    remove_nodes(cluster, [name])
    cluster.settle()
    if reason := _left_without_node(cluster, [*pods, *came]):
        return reason
    return NodeDrain(name, [DrainedPod(pod.key, _node_of(cluster, pod.key)) for pod in pods], others)


def _left_without_node(cluster: ChangingCluster, pods: Sequence[Pod]) -> str:
    """Which of the pods that had to move are pending, or which others were preempted for them, in words."""
    pending = [pod.key for pod in pods if _is_pending(cluster, pod.key)]
    if pending:
        return f"{some(pending)} would be pending: {why_pending(cluster, pending[0])}"
    return f"{cluster.preempted[0].key} would be preempted" if cluster.preempted else ""


def _is_pending(cluster: ChangingCluster, key: str) -> bool:
    """Whether the pod has no node; one that waits for a Permit plugin has none either."""
    pod, scheduler = cluster.find("Pod", key), cluster.simulated.scheduler
    if not isinstance(pod, Pod) or pod.spec.node_name:
        return False
    return scheduler.placed(pod.id) is None or scheduler.waiting.get(pod.id) is not None


def _node_of(cluster: ChangingCluster, key: str) -> str:
    pod = cluster.find("Pod", key)
    return pod.spec.node_name if isinstance(pod, Pod) else ""
