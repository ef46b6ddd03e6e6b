"""Nodes come and go: DaemonSets follow them, new ones are like others, and nodes are drained, removed or tainted.

A drain cordons all its nodes and then evicts their pods. A pod that its disruption budget protects stays until pods that
replace others are placed; what no round can evict is blocked.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count, islice

import msgspec

from mooring.answers.trial.budget_counts import BudgetCounts, is_healthy
from mooring.answers.trial.changing_cluster import BlockedPod, ChangingCluster
from mooring.answers.trial.counterfactual import with_spec
from mooring.answers.trial.workload_book import WorkloadName
from mooring.controllers.nodes.node_lifecycle import UNSCHEDULABLE, tolerated_s
from mooring.inputs.created_objects import pods_of
from mooring.model.devices import ResourceSlice
from mooring.model.meta import KubeObject
from mooring.model.names import HOSTNAME
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, Node, NodeSpec, NodeStatus, Taint
from mooring.model.pod import Pod
from mooring.model.pod_spec import Affinity
from mooring.model.storage import CSINode
from mooring.model.workloads import Workload
from mooring.rules.evictions import is_drained
from mooring.rules.workload_pods import DAEMON_SET, DaemonNodes, affinity_to, is_daemon, node_of

# ---- DaemonSets follow the nodes: a pod for each node that is new or newly eligible, and none where one may not
# stay.


_NOT_ELIGIBLE = "its DaemonSet does not run on the node any more"


def sync_daemons(cluster: ChangingCluster, names: Iterable[str]) -> None:
    """Do what the DaemonSet controller does when these nodes are new or changed."""
    nodes = [node for name in names if isinstance(node := cluster.find("Node", name), Node)]
    daemon_sets = [(name, each) for name, each in cluster.book.workloads.items() if name.kind == DAEMON_SET]
    held = _held(cluster, nodes)
    for name, daemon_set in daemon_sets:
        _sync(cluster, daemon_set, nodes, {node: pod for (owner, node), pod in held.items() if owner == name})


def _sync(cluster: ChangingCluster, daemon_set: Workload, nodes: Sequence[Node], held: dict[str, Pod]) -> None:
    """Create and delete the pods of one DaemonSet; `held` are those that it has, by node."""
    rule = DaemonNodes(msgspec.to_builtins(daemon_set.spec.template.spec))
    verdicts = {node.name: rule.verdict(node.name, node.labels, node.taints) for node in nodes}
    for name, pod in held.items():
        if not verdicts[name].stays:
            cluster.remove(pod, _NOT_ELIGIBLE)
    hosts = [node for node in nodes if verdicts[node.name].runs and node.name not in held]
    for node, pod in zip(hosts, pods_of(daemon_set, hosts), strict=True):
        cluster.admission.admit(pod)
        cluster.create_like(pod, f"{daemon_set.name}-{node.name}")


def _held(cluster: ChangingCluster, nodes: Sequence[Node]) -> dict[tuple[WorkloadName | None, str], Pod]:
    """The daemon pods of these nodes, by DaemonSet and node, also those that are still pending."""
    found = {(cluster.book.owner(pod), node.name): pod for node in nodes for pod in daemons_on(cluster, node.name)}
    wanted = {node.name for node in nodes}
    for pod in cluster.pods():
        if not pod.spec.node_name and is_daemon(pod):
            name = node_of(msgspec.to_builtins(pod))
            if name in wanted:
                found.setdefault((cluster.book.owner(pod), name), pod)
    return found


def daemons_on(cluster: ChangingCluster, name: str) -> list[Pod]:
    return [pod for pod in cluster.pods_on(name) if is_daemon(pod)]


def copy_daemons(cluster: ChangingCluster, template: str, names: Sequence[str]) -> None:
    """For DaemonSets that are not in the input: the pods that the template node has, on new nodes like it."""
    for pod in daemons_on(cluster, template):
        owner = cluster.book.owner(pod)
        if owner is None or owner in cluster.book.workloads:
            continue
        for name in names:
            # The DaemonSet controller chooses the node by this affinity.
            affinity = affinity_to(msgspec.to_builtins(pod.spec.affinity) or {}, name)
            moved = with_spec(pod, affinity=msgspec.convert(affinity, Affinity))
            cluster.create_like(moved, f"{owner.key.rpartition('/')[2]}-{name}")


# ---- Nodes that do not exist yet: like a template, or like a node of the cluster with its drivers and devices.


STATE_TAINTS = "node.kubernetes.io/"
"""Taints with this prefix tell the state of one node: cordoned, not ready, short of memory. A new node has none."""


def node_like(template: Node, name: str) -> Node:
    """A new node: labels, taints and amounts of the template, but not what tells the state of that one node."""
    taints = [taint for taint in template.taints if not taint.key.startswith(STATE_TAINTS)]
    metadata = msgspec.structs.replace(
        template.metadata,
        name=name,
        uid=f"node-{name}",
        resource_version=None,
        labels={**template.labels, HOSTNAME: name},
        creation_timestamp=None,
        owner_references=None,
    )
    status = NodeStatus(
        allocatable=template.status.allocatable,
        capacity=template.status.capacity,
        declared_features=template.status.declared_features,
    )
    return Node(metadata=metadata, spec=NodeSpec(taints=taints or None), status=status)


def free_names(stem: str, number: int, taken: Container[str]) -> list[str]:
    """So many names for new nodes, numbered from 1, without those that are taken."""
    names = (name for i in count(1) if (name := f"{stem}-{i}") not in taken)
    return [*islice(names, number)]


def equipment_of(name: str, objects: Iterable[KubeObject]) -> Iterator[KubeObject]:
    """The CSI drivers and the devices of a node, among these objects."""
    for item in objects:
        if (isinstance(item, CSINode) and item.name == name) or (
            isinstance(item, ResourceSlice) and item.spec.node_name == name
        ):
            yield item


def equipped(item: KubeObject, name: str) -> KubeObject:
    """A CSINode or ResourceSlice of a node, for a new node with this name."""
    own = name
    if isinstance(item, ResourceSlice):
        own = f"{item.name}-{name}"
        pool = msgspec.structs.replace(item.spec.pool, name=f"{item.spec.pool.name}-{name}")
        spec = msgspec.structs.replace(item.spec, node_name=name, pool=pool)
        item = msgspec.structs.replace(item, spec=spec)
    metadata = msgspec.structs.replace(item.metadata, name=own, uid="", owner_references=None)
    return msgspec.structs.replace(item, metadata=metadata)


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
            cluster.driver.update(with_cordon(node, is_cordoned))


def with_cordon(node: Node, is_cordoned: bool) -> Node:
    """The node with this value of spec.unschedulable, and with the taint that follows from it or without."""
    others = [taint for taint in node.taints if taint.key != UNSCHEDULABLE]
    taints = [*others, _CORDONED] if is_cordoned else others
    spec = msgspec.structs.replace(node.spec, unschedulable=is_cordoned, taints=taints or None)
    return msgspec.structs.replace(node, spec=spec)


def drain(cluster: ChangingCluster, names: Sequence[str]) -> None:
    """Cordon the nodes, then evict their pods for as long as budgets allow it. DaemonSet and mirror pods stay.

    Pods that come to a node meanwhile stay too: they tolerate that it is cordoned, and `kubectl drain` lists pods once.
    """
    cordon(cluster, names)
    waiting = by_budget(cluster.budgets, (pod for name in names for pod in cluster.pods_on(name) if is_drained(pod)))
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
        cluster.blocked[pod.key] = BlockedPod.of(pod.key, pod.spec.node_name, budget, message)


def by_budget(budgets: BudgetCounts, pods: Iterable[Pod]) -> dict[str, deque[Pod]]:
    """Pods that a drain has to evict, by the budgets that cover them.

    Those that are not ready come first: a budget may let them go when it lets no other pod go. So it is enough to ask about
    the first of each group, and the work grows with the number of pods, not with its square.
    """
    groups: dict[str, deque[Pod]] = {}
    for pod in pods:
        covering = ",".join(each.budget.key for each in budgets.of(pod))
        groups.setdefault(covering, deque()).append(pod)
    return {covering: deque(sorted(each, key=is_healthy)) for covering, each in groups.items()}


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
            tolerations = msgspec.to_builtins(pod.spec.tolerations or [])
            if tolerated_s({"spec": {"tolerations": tolerations}}, taints) is not None:
                cluster.lose(pod, _TAINTED)
