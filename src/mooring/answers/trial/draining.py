"""Nodes are emptied: drained as `kubectl drain` does it, removed, or tainted with NoExecute.

A drain cordons all its nodes and then evicts their pods. A pod that its disruption budget protects stays until pods that
replace others are placed; what no round can evict is blocked.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from mooring.answers.trial.budget_counts import is_healthy
from mooring.answers.trial.changing_cluster import BlockedPod, ChangingCluster
from mooring.answers.trial.owners import is_daemon
from mooring.answers.trial.workload_book import is_static
from mooring.controllers.nodes.node_lifecycle import UNSCHEDULABLE, tolerated_s
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, Node, Taint
from mooring.model.pod import Pod

_NO_CONTROLLER = "no controller replaces it; `kubectl drain` deletes it only with --force"
_NODE_GONE = "its node is removed"
_TAINTED = "a NoExecute taint that it does not tolerate"
_SETTLED = 1000
"""A drain gives up after it has waited so often for pods that need time to be placed. Each wait evicts at least one pod."""
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
    waiting = _by_budget(cluster, names)
    settled = 0
    while any(waiting.values()) and settled < _SETTLED:
        if _evict_allowed(cluster, waiting):
            cluster.attempt_all()  # pods that are placed instead may give a budget its next disruption
            continue
        cluster.settle()
        settled += 1
        if not _evict_allowed(cluster, waiting):
            break
    for pod in (pod for pods in waiting.values() for pod in pods):
        budget, message = cluster.budgets.blocking(pod) or ("", f"the drain gave up after {_SETTLED} waits")
        cluster.blocked[pod.key] = BlockedPod(pod.key, pod.spec.node_name, budget, message)


def _by_budget(cluster: ChangingCluster, names: Sequence[str]) -> dict[str, deque[Pod]]:
    """The pods that a drain has to evict, by the budgets that cover them, in the order of their nodes.

    Those that are not ready come first: a budget may let them go when it lets no other pod go. So it is enough to ask about
    the first of each group, and the work grows with the number of pods, not with its square.
    """
    groups: dict[str, deque[Pod]] = {}
    for name in names:
        for pod in cluster.pods_on(name):
            if not is_daemon(pod) and not is_static(pod):
                budgets = ",".join(each.budget.key for each in cluster.budgets.of(pod))
                groups.setdefault(budgets, deque()).append(pod)
    return {budgets: deque(sorted(pods, key=is_healthy)) for budgets, pods in groups.items()}


def _evict_allowed(cluster: ChangingCluster, waiting: dict[str, deque[Pod]]) -> bool:
    """Evict all that may be evicted now. Returns whether there was any. Skips pods that were preempted meanwhile."""
    before = cluster.evicted
    for pods in waiting.values():
        while pods and (not _is_there(cluster, pods[0]) or cluster.evict(pods[0], _NO_CONTROLLER)):
            pods.popleft()
    return cluster.evicted > before


def _is_there(cluster: ChangingCluster, pod: Pod) -> bool:
    now = cluster.find("Pod", pod.key)
    return isinstance(now, Pod) and now.id == pod.id


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
