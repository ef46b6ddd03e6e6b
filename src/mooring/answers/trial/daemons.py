"""DaemonSets follow the nodes: a pod for each node that is new or newly eligible, and none where one may not stay."""

from collections.abc import Iterable, Sequence

import msgspec

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.owners import is_daemon
from mooring.answers.trial.workload_book import DAEMON_SET, WorkloadName
from mooring.controllers.workloads.daemon_sets import Eligibility, NodeVerdict, node_of
from mooring.inputs.created_objects import pods_of
from mooring.model.meta import Requirement
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import Affinity, NodeAffinitySpec, NodeSelector, NodeSelectorTerm
from mooring.model.workloads import Workload
from mooring.sim.controllers import replacement

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
    eligibility = Eligibility(msgspec.to_builtins(daemon_set.spec.template))
    verdicts = {node.name: _verdict(eligibility, node) for node in nodes}
    for name, pod in held.items():
        if not verdicts[name].stays:
            cluster.remove(pod, _NOT_ELIGIBLE)
    hosts = [node for node in nodes if verdicts[node.name].runs and node.name not in held]
    for node, pod in zip(hosts, pods_of(daemon_set, hosts), strict=True):
        cluster.admission.admit(pod)
        name = f"{daemon_set.name}-{node.name}"
        cluster.create_pod(replacement(pod, cluster.next_number(), cluster.created, name))


def _verdict(eligibility: Eligibility, node: Node) -> NodeVerdict:
    spec = {"taints": msgspec.to_builtins(node.taints)}
    return eligibility.of({"metadata": {"name": node.name, "labels": node.labels}, "spec": spec})


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
            moved = _meant_for(pod, name)
            stem = owner.key.rpartition("/")[2]
            cluster.create_pod(replacement(moved, cluster.next_number(), cluster.created, f"{stem}-{name}"))


def _meant_for(pod: Pod, name: str) -> Pod:
    """The pod with the node affinity by which the DaemonSet controller chooses the node."""
    line = Requirement(key="metadata.name", operator="In", values=[name])
    affinity = pod.spec.affinity or Affinity()
    held = affinity.node_affinity or NodeAffinitySpec()
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[line])])
    chosen = msgspec.structs.replace(held, required=required)
    spec = msgspec.structs.replace(pod.spec, affinity=msgspec.structs.replace(affinity, node_affinity=chosen))
    return Pod(metadata=pod.metadata, spec=spec, status=pod.status)
