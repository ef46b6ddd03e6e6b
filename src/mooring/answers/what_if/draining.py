"""Nodes are emptied: drained as `kubectl drain` does it, removed, or tainted with NoExecute.

A drain cordons all its nodes and then evicts their pods node by node. A pod that its disruption budget protects stays until
pods that replace others are placed; what no round can evict is blocked.
"""

from collections.abc import Sequence

import msgspec

from mooring.answers.what_if.changing_cluster import BlockedPod, ChangingCluster
from mooring.answers.what_if.workload_book import is_daemon, is_static
from mooring.controllers.nodes.node_lifecycle import UNSCHEDULABLE
from mooring.controllers.nodes.taint_eviction import tolerated_s
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, Node, Taint
from mooring.model.pod import Pod

_NO_CONTROLLER = "no controller replaces it; `kubectl drain` deletes it only with --force"
_NODE_GONE = "its node is removed"
_TAINTED = "a NoExecute taint that it does not tolerate"
_ROUNDS = 1000
"""After so many rounds over all nodes a drain gives up. Each round evicts at least one pod, most evict nearly all."""
_CORDONED = Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE)
"""The taint that the node lifecycle controller gives a cordoned node."""


def cordon(cluster: ChangingCluster, names: Sequence[str], is_cordoned: bool = True) -> None:
    """Set spec.unschedulable, with the taint that follows from it."""
    for name in names:
        node = cluster.find("Node", name)
        if isinstance(node, Node) and node.spec.unschedulable != is_cordoned:
            others = [taint for taint in node.taints if taint.key != UNSCHEDULABLE]
            taints = [*others, _CORDONED] if is_cordoned else others
            spec = msgspec.structs.replace(node.spec, unschedulable=is_cordoned, taints=taints or None)
            cluster.driver.update(msgspec.structs.replace(node, spec=spec))


def drain(cluster: ChangingCluster, names: Sequence[str]) -> None:
    """Cordon the nodes, then evict their pods for as long as budgets allow it. DaemonSet and mirror pods stay.

    Pods that come to a node meanwhile stay too: they tolerate that it is cordoned, and `kubectl drain` lists pods once.
    """
    cordon(cluster, names)
    listed = {pod.id for name in names for pod in cluster.pods_on(name) if not is_daemon(pod) and not is_static(pod)}
    left = list(names)
    for _ in range(_ROUNDS):
        before = cluster.evicted
        left = [name for name in left if not _empty(cluster, name, listed)]
        cluster.settle()
        if not left or cluster.evicted == before:
            break
    for name in left:
        for pod in _listed_on(cluster, name, listed):
            budget, message = cluster.budgets.blocking(pod) or ("", f"the drain gave up after {_ROUNDS} rounds")
            cluster.blocked[pod.key] = BlockedPod(pod.key, name, budget, message)


def _empty(cluster: ChangingCluster, name: str, listed: set[str]) -> bool:
    """Evict what can be evicted on a node. Returns whether nothing of what is listed is left.

    After each pass the scheduler places the replacements, which may give a budget its next disruption.
    """
    while True:
        pods = _listed_on(cluster, name, listed)
        leaving = [pod for pod in pods if cluster.evict(pod, _NO_CONTROLLER)]
        if not leaving:
            return not pods
        cluster.attempt_all()


def _listed_on(cluster: ChangingCluster, name: str, listed: set[str]) -> list[Pod]:
    return [pod for pod in cluster.pods_on(name) if pod.id in listed]


def remove_nodes(cluster: ChangingCluster, names: Sequence[str]) -> None:
    """Delete the nodes with all their pods at once: no budget is asked."""
    lost = [pod for name in names for pod in cluster.pods_on(name)]
    for name in names:
        cluster.driver.delete("Node", name)
    for pod in lost:
        cluster.lose(pod, _NODE_GONE)


def evict_intolerant(cluster: ChangingCluster, names: Sequence[str]) -> None:
    """Delete the pods that do not tolerate the NoExecute taints of their nodes, or not for ever: no budget is asked."""
    for name in names:
        node = cluster.find("Node", name)
        taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE] if isinstance(node, Node) else []
        for pod in cluster.pods_on(name) if taints else ():
            if _stays_s(pod, taints) is not None:
                cluster.lose(pod, _TAINTED)


def _stays_s(pod: Pod, taints: list[Taint]) -> int | None:
    """How long the pod may stay; None for ever."""
    return tolerated_s({"spec": {"tolerations": msgspec.to_builtins(pod.spec.tolerations or [])}}, taints)
