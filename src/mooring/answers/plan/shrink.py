"""Which nodes can go: an ordered list of drains, each made in a simulation before it is listed.

The nodes that are used least are tried first. A drain counts if disruption budgets let all pods go, if every pod that was
placed is placed again, and if nobody is preempted. If not, the step is taken back: the simulation starts again from the
cluster before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mooring.answers.form.answer import Progress
from mooring.answers.form.published import Form
from mooring.answers.plan.judge import objects_of, patient, pending_in
from mooring.answers.plan.trials import broken_gang
from mooring.answers.trial.changing_cluster import ChangingCluster, why_pending
from mooring.answers.trial.changing_nodes import cordon, drain, remove_nodes
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.table import NodeTable
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import some
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.rules.evictions import is_drained
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import NoFit, Placement
from mooring.sim.controllers import replacement
from mooring.sim.gauge import MAIN

MAX_TAKEN_BACK = 20
"""After so many drains that had to be taken back, the search ends: each starts a simulation again."""
MAX_IN_VAIN = 300
"""The search also ends after so many nodes in a row that have to stay: others are used even more."""


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


class KeptNode(Form, frozen=True):
    """A node that has to stay, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shrinking:
    """The drains in their order, and the nodes that stay."""

    steps: Sequence[NodeDrain]
    kept: Sequence[KeptNode]
    is_complete: bool
    """Whether all candidates were tried."""


def nodes_to_remove(loaded: LoadedCluster, keep: Sequence[str] = (), tell: Progress | None = None) -> Shrinking:
    """The drains that leave everything placed. Nodes in `keep` stay."""
    return _Shrinker(loaded).run(keep, tell)


class _Shrinker:
    """Drains nodes in one simulation, and starts it again from the last good moment if a drain fails."""

    def __init__(self, loaded: LoadedCluster) -> None:
        self._start(loaded)
        self._steps: list[NodeDrain] = []
        self._kept: list[KeptNode] = []
        self._taken_back = self._in_vain = 0

    def _start(self, loaded: LoadedCluster) -> None:
        self._cluster = ChangingCluster(patient(loaded))
        self._cluster.settle()
        self._before = objects_of(self._cluster)

    def run(self, keep: Sequence[str], tell: Progress | None) -> Shrinking:
        kept = frozenset(keep)
        candidates = [name for name in least_used(self._cluster.simulated.cluster.nodes) if name not in kept]
        for number, name in enumerate(candidates):
            if tell is not None:
                tell(number, len(candidates))
            self._try(name)
            if self._taken_back >= MAX_TAKEN_BACK or self._in_vain >= MAX_IN_VAIN:
                return Shrinking(self._steps, self._kept, number + 1 == len(candidates))
        return Shrinking(self._steps, self._kept, True)

    def _try(self, name: str) -> None:
        """Drain a node if nothing speaks against it; or note why it stays."""
        self._in_vain += 1
        hindrance = _hindrance(self._cluster, name) or _without_room(self._cluster, name)
        outcome = hindrance or _drained(self._cluster, name)
        if isinstance(outcome, NodeDrain):
            self._steps.append(outcome)
            self._before, self._in_vain = objects_of(self._cluster), 0
            return
        self._kept.append(KeptNode(name, outcome))
        if not hindrance:
            self._taken_back += 1
            self._start(self._before)


def least_used(nodes: NodeTable) -> list[str]:
    """The nodes by the larger of the shares of cpu and memory that pods request, the lowest first."""
    used = []
    for name, row in nodes.row_book.items():
        if nodes.alive[row]:
            shares = []
            for resource in MAIN:
                place = nodes.amounts.resource(resource)
                has, held = int(nodes.amounts.allocatable[place, row]), int(nodes.amounts.requested[place, row])
                shares.append(held / has if has else 0.0)
            used.append((max(shares), name))
    return [name for _, name in sorted(used)]


def _moving(cluster: ChangingCluster, name: str) -> list[Pod]:
    return [pod for pod in cluster.pods_on(name) if is_drained(pod)]


def _hindrance(cluster: ChangingCluster, name: str) -> str:
    """Why a drain need not be tried; empty if it has to be."""
    pods = _moving(cluster, name)
    alone = [pod.key for pod in pods if pod.controller() is None]
    if alone:
        return f"no controller would replace {some(alone)}"
    if broken := broken_gang(cluster.simulated.cluster, pods):
        return broken
    for pod in pods:
        blocking = cluster.budgets.blocking(pod)
        if blocking is not None and len(pods) == 1:
            return f"PodDisruptionBudget {blocking[0]} protects {pod.key}: {blocking[1]}"
    return ""


def _without_room(cluster: ChangingCluster, name: str) -> str:
    """Why the node's pods fit nowhere else, as decisions on a copy of the cluster find it; empty if they fit, or if a copy
    cannot tell, as with claims.

    A drain that fails costs a new simulation, and on a full cluster nearly all would fail.
    """
    pods = _moving(cluster, name)
    if not pods or any(pod.shape.has_storage or pod.spec.resource_claims for pod in pods):
        return ""
    node = cluster.find("Node", name)
    was_cordoned = isinstance(node, Node) and node.spec.unschedulable
    cordon(cluster, [name])
    fork = cluster.simulated.cluster.fork()
    for pod in pods:
        fork.nodes.displace(pod.id)
    reason = next((why for pod in pods if (why := _rejected(cluster, fork, pod))), "")
    if reason and not was_cordoned:
        cordon(cluster, [name], False)
    return reason


def _rejected(cluster: ChangingCluster, fork: Cluster, pod: Pod) -> str:
    """Why the pod fits nowhere; empty if it fits, and then it is placed."""
    runner = cluster.simulated.runner(pod)
    if runner is None:
        return f"no profile has the scheduler name of {pod.key}"
    fresh = replacement(pod, 0, cluster.created)
    decision = decide(runner, fresh, fork, DecideOptions())
    if isinstance(decision, Placement):
        fork.nodes.place(fresh, decision.node)
        return ""
    words = decision.message if isinstance(decision, NoFit) else decision.error
    return f"{pod.key} would be pending: {words}"


def _drained(cluster: ChangingCluster, name: str) -> NodeDrain | str:
    """Drain the node and remove it. Returns why it has to stay, if it has to: the cluster is then to be thrown away."""
    pods = _moving(cluster, name)
    others = len(cluster.pods_on(name)) - len(pods)
    waiting = {pod.key for pod in pending_in(cluster)}
    cluster.preempted.clear()
    drain(cluster, [name])
    if cluster.blocked:
        blocked = next(iter(cluster.blocked.values()))
        return f"PodDisruptionBudget {blocked.budget} protects {blocked.key}: {blocked.message}"
    new = [pod.key for pod in pending_in(cluster) if pod.key not in waiting]
    if new:
        return f"{some(new)} would be pending: {why_pending(cluster, new[0])}"
    if cluster.preempted:
        return f"{cluster.preempted[0].key} would be preempted"
    remove_nodes(cluster, [name])
    cluster.settle()
    new = [pod.key for pod in pending_in(cluster) if pod.key not in waiting]
    if new:
        return f"{some(new)} would be pending"
    moved = [DrainedPod(pod.key, _node_of(cluster, pod.key)) for pod in pods]
    return NodeDrain(name, moved, others)


def _node_of(cluster: ChangingCluster, key: str) -> str:
    pod = cluster.find("Pod", key)
    return pod.spec.node_name if isinstance(pod, Pod) else ""
