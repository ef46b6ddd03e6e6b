"""Drains that can be taken back, and the simulation that confirms them.

A trial cordons, empties and removes nodes on a scheduler's own columns, decision by decision. It follows the drain of
`changing_nodes.py`: budgets let pods go in rounds, controllers create them again, and the core places them. It has no
queue, no time and no preemption, so that a drain takes a fraction of the time of a simulation, and going back takes
even less. A search tries many orders here.

A simulation with queue, time, preemption and controllers confirms the order that is chosen. Nodes are drained and
removed one after the other. A drain counts if disruption budgets let all pods go, if every pod that was placed is
placed again, and if no pod is preempted. If not, the node stays, and the simulation starts again from a moment before
it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec

from mooring.answers.form.published import Form
from mooring.answers.trial.budget_counts import BudgetCounts
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of, why_pending, with_siblings
from mooring.answers.trial.changing_nodes import by_budget, cordon, drain, remove_nodes, with_cordon
from mooring.answers.trial.counterfactual import SchedulerView
from mooring.answers.trial.workload_book import WorkloadBook
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.choice import mix
from mooring.kit.words import some
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget, ReplicaSet
from mooring.rules.evictions import is_drained
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import NoFit, Placement
from mooring.scheduler.ties import by_seed
from mooring.sim.controllers import replacement, volume_claims_of

CANNOT_TELL = "only a simulation can tell"
"""The reason that a trial gives for pods whose claims or groups it does not follow."""
_NOW = "2026-01-01T00:00:00Z"
"""When replacements are created: no decision reads it."""


class DrainTrials(SchedulerView):
    """A cluster in which nodes are drained and put back. Raises ConfigError, InputError.

    `luck` is the number of the way in which chance falls: 0 takes the node with the lowest name among those with the best
    score, and pods in the order of their controllers; any other number shuffles both, as they fall in a real cluster.
    """

    def __init__(self, loaded: LoadedCluster) -> None:
        super().__init__(loaded)
        self.luck = 0
        self._dice, self._lucky_since = Random(0), 0
        self._made = 0
        self.moves = 0
        """How many pods have moved since the first moment."""
        self._undo: list[Callable[[], object]] = []
        replica_sets = {item.key: item for item in loaded.objects if isinstance(item, ReplicaSet)}
        book = WorkloadBook(loaded.workloads, lambda kind, key: replica_sets.get(key) if kind == "ReplicaSet" else None)
        pods = [item for item in loaded.objects if isinstance(item, Pod)]
        budgets = (item for item in loaded.objects if isinstance(item, PodDisruptionBudget))
        self.budgets = BudgetCounts(budgets, pods, book.scales(pods))

    def use_luck(self, number: int) -> None:
        """Let chance fall in the way of this number from now on."""
        self.luck, self._dice, self._lucky_since = number, Random(number), self.decisions
        self.options = DecideOptions(by_seed) if number else DecideOptions()

    def seed(self) -> int:
        """A number that is the same whenever the same drains are made with the same luck: an order is not tried anew until it
        happens to hold."""
        return mix(self.luck) + self.decisions - self._lucky_since

    # ---- going back

    @property
    def mark(self) -> int:
        """The moment, to come back to."""
        return len(self._undo)

    def go_back(self, mark: int) -> None:
        """Take back everything since a moment."""
        while len(self._undo) > mark:
            self._undo.pop()()

    # ---- nodes

    def moving(self, name: str) -> list[Pod]:
        """The pods of a node that a drain evicts, sorted by key."""
        nodes = self.cluster.nodes
        row = nodes.row_book.get(name)
        pods = nodes.pods_on[row] if row is not None else ()
        return sorted((pod for pod in pods if is_drained(pod)), key=lambda pod: pod.key)

    def cordon(self, names: Sequence[str], is_cordoned: bool = True) -> None:
        """Cordon nodes, or lift that."""
        nodes = self.cluster.nodes
        for name in names:
            node = nodes.nodes[nodes.row_book[name]]
            if isinstance(node, Node) and node.spec.unschedulable != is_cordoned:
                nodes.put_node(with_cordon(node, is_cordoned))
                self._undo.append(partial(nodes.put_node, node))

    def drain(self, name: str) -> str:
        """Drain a node and remove it. Returns why it has to stay, and then nothing is changed; empty if it went."""
        mark = self.mark
        reason = self._hindrance(name) or self._emptied(name)
        if reason:
            self.go_back(mark)
        else:
            self._remove(name)
        return reason

    def _hindrance(self, name: str) -> str:
        pods = self.moving(name)
        alone = [pod.key for pod in pods if pod.controller() is None]
        if alone:
            return f"no controller would replace {some(alone)}"
        return CANNOT_TELL if any(map(self._is_beyond, pods)) else ""

    def _is_beyond(self, pod: Pod) -> bool:
        """Whether more than columns changes when the pod moves: claims of its own, or members of its group."""
        is_grouped = self.cluster.groups is not None and pod.group_key is not None
        return is_grouped or bool(pod.spec.resource_claims or volume_claims_of(pod)) or pod.is_terminating

    def _emptied(self, name: str) -> str:
        """Evict the pods of a node for as long as budgets allow it, and place those that come instead."""
        self.cordon([name])
        waiting = by_budget(self.budgets, self.moving(name))
        while any(waiting.values()):
            lost = []
            for pods in waiting.values():
                while pods and self.budgets.blocking(pods[0]) is None:
                    lost.append(pods.popleft())
                    self._evict(lost[-1])
            if not lost:
                pod = next(pods[0] for pods in waiting.values() if pods)
                budget, message = self.budgets.blocking(pod) or ("", "")
                return f"PodDisruptionBudget {budget} protects {pod.key}: {message}"
            if reason := self._place_all(lost):
                return reason
        return ""

    def _remove(self, name: str) -> None:
        nodes = self.cluster.nodes
        row = nodes.row_book[name]
        for pod in list(nodes.pods_on[row]):
            self._displace(pod)
        node = nodes.nodes[row]
        assert node is not None, "a node is drained once"
        nodes.remove_node(name)
        self._undo.append(partial(nodes.put_node, node))

    # ---- pods

    def _evict(self, pod: Pod) -> None:
        self._displace(pod)
        self.budgets.left(pod)
        self._undo.append(partial(self.budgets.came, pod))

    def _displace(self, pod: Pod) -> None:
        nodes = self.cluster.nodes
        counted = nodes.displace(pod.id)
        self._undo.append(partial(nodes.place, counted, counted.spec.node_name))

    def _place_all(self, lost: Sequence[Pod]) -> str:
        """Place the replacements of pods in the order of the queue. Returns why one of them fits nowhere."""
        for pod in self._queued(lost):
            self._made += 1
            fresh = replacement(pod, self._made, _NOW)
            decision = self.decide(fresh)
            if not isinstance(decision, Placement):
                words = decision.message if isinstance(decision, NoFit) else decision.error
                return f"{pod.key} would be pending: {words}"
            assert decision.context is not None, "a placement comes with its context"
            placed = decision.context.assumed(fresh.with_node(decision.node), decision.node)
            self.cluster.nodes.place(placed, decision.node)
            self._undo.append(partial(self._take_back, placed))
            self.budgets.came(placed)
            self.moves += 1
        return ""

    def _take_back(self, placed: Pod) -> None:
        self.cluster.nodes.displace(placed.id)
        self.budgets.left(placed)
        self.moves -= 1

    def _queued(self, lost: Sequence[Pod]) -> list[Pod]:
        """Controller by controller, and those of a higher priority first, as in a simulation."""
        pods = with_siblings(lost)
        if self.luck:
            self._dice.shuffle(pods)
        return sorted(pods, key=lambda pod: -pod.priority)


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
