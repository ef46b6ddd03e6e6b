"""Pods on nodes, seen and assumed: what the scheduler believes of the cluster between its own acts and the watch.

A pod is *assumed* on a node when the scheduler decides so, *confirmed* when the watch shows it there, *forgotten* when
its binding fails. There is no timer: an assumed pod stays until one of these happens or the pod is removed.

A call that raises changes nothing, with one exception: a pod that is to be removed is removed even then. Texts of errors
are upstream's.
"""

from collections import Counter

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.facts import NO_FACTS, facts_of
from mooring.cluster.columns.resource_amounts import MAX_SUM
from mooring.cluster.nodes.table import ClusterError, NodeTable
from mooring.model.pod import Pod
from mooring.model.quantity import MAX_AMOUNT

# ---- The invariants of the node table: everything that is kept up to date is counted anew and compared.
#
# Simulations and state machine tests run this after every step; it is far too slow for service.


def check_table(nodes: NodeTable) -> list[str]:
    """The invariants that do not hold, in words; empty when all is well. Counts everything anew."""
    return [
        *_check_rows(nodes),
        *_check_facts(nodes),
        *_check_sums(nodes),
        *nodes.labels.check([None if node is None else node.labels for node in nodes.nodes]),
        *nodes.tallies.check(nodes.pods_on),
    ]


def _check_rows(nodes: NodeTable) -> list[str]:
    """Names, rows and pods refer to each other."""
    faults = []
    if sorted(nodes.row_book.values()) != sorted(set(range(nodes.height)) - set(nodes.free_rows())):
        faults.append("rows in use and free rows do not make up the table")
    for name, row in nodes.row_book.items():
        if nodes.names[row] != name:
            faults.append(f"row {row} of node {name} is named {nodes.names[row]!r}")
    alive = [row for row in range(nodes.height) if nodes.nodes[row] is not None]
    if np.flatnonzero(nodes.alive).tolist() != alive or nodes.alive_count != len(alive):
        faults.append("alive rows are not those that have a node")
    where = {pod_id: row for row, pods in enumerate(nodes.pods_on) for pod_id in (pod.id for pod in pods)}
    if where != {pod_id: nodes.row_of_pod(pod_id) for pod_id in nodes.pod_ids()}:
        faults.append("pods are not on the rows where they are looked up")
    return faults


def _check_facts(nodes: NodeTable) -> list[str]:
    """Columns hold what the objects of nodes say."""
    faults, amounts = [], nodes.amounts
    for row, node in enumerate(nodes.nodes):
        facts = NO_FACTS if node is None else facts_of(node)
        held = {name: int(amounts.allocatable[i, row]) for name, i in amounts.resource_book.items()}
        wanted = {name: facts.allocatable.get(name, 0) for name in amounts.resource_book}
        if (row in amounts.huge_rows) != (max(facts.allocatable.values(), default=0) >= MAX_AMOUNT):
            faults.append(f"row {row}: whether its node has more than cells can show is noted wrongly")
        if held != wanted or nodes.allowed_pods[row] != facts.allowed_pods:
            faults.append(f"row {row}: allocatable is {held} ({nodes.allowed_pods[row]} pods), its node has {wanted}")
        taints, features = (
            nodes.taints.values[nodes.taints.codes[row]],
            nodes.features.values[nodes.features.codes[row]],
        )
        if (bool(nodes.unschedulable[row]), taints, features) != (facts.unschedulable, facts.taints, facts.features):
            faults.append(f"row {row}: taints or features are not those of its node")
    return faults


def _check_sums(nodes: NodeTable) -> list[str]:
    """Amounts and numbers of pods are sums over the pods of a row, also beyond what a cell can show."""
    faults, amounts = [], nodes.amounts
    for row in range(nodes.height):
        pods = nodes.pods_on[row]
        held: Counter[str] = Counter()
        scored: Counter[str] = Counter()
        for pod in pods:
            held.update({name: amount for name, (amount, _) in pod.shape.held.items()})
            scored.update({name: amount for name, (_, amount) in pod.shape.held.items()})
        for name, index in amounts.resource_book.items():
            if amounts.requested[index, row] != _shown_amount(held[name]) or amounts.scored[
                index, row
            ] != _shown_amount(scored[name]):
                kept = f"{amounts.requested[index, row]} (scored {amounts.scored[index, row]})"
                faults.append(f"row {row}: {name} requested is {kept}, pods hold {held[name]} ({scored[name]})")
            beyond = amounts.kept_aside(index, row)
            if beyond != (_aside(held[name]), _aside(scored[name])):
                faults.append(f"row {row}: {name} is kept aside as {beyond}, pods hold {held[name]} ({scored[name]})")
        if nodes.pod_count[row] != len(pods):
            faults.append(f"row {row}: counts {nodes.pod_count[row]} pods, has {len(pods)}")
    return faults


def _shown_amount(total: int) -> int:
    """The sum as a cell shows it."""
    return max(-MAX_SUM, min(total, MAX_SUM))


def _aside(total: int) -> int | None:
    """The sum as it is kept aside, where a cell cannot show it."""
    return None if _shown_amount(total) == total else total


class Cache:
    """The pods of a cluster's node table, with the knowledge of which of them are only assumed to be there.

    Which pods are counted, each with its node, the table knows; nothing else keeps it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = cluster.nodes
        self._groups = cluster.groups
        self._assumed: set[str] = set()

    def assume(self, pod: Pod, node_name: str) -> Pod:
        """Count the pod on the node from now on. Returns it as it will look when it is bound."""
        placed = pod.with_node(node_name)
        try:
            self._nodes.place(placed, node_name)  # first: it may refuse the pod
        except ClusterError:
            if self.has(pod.id):  # Hot: asked only now, because the table has asked the same before it counts a pod
                raise ClusterError(f"pod {_shown(pod)} is in the cache, so can't be assumed") from None
            raise
        self._assumed.add(pod.id)
        if self._groups is not None:
            self._groups.assume(placed)
        return placed

    def forget(self, pod: Pod, *, is_gone: bool = False) -> None:
        """Give up on an assumed pod; nothing happens when it is not known any more. A member of a group is unscheduled
        again, unless the pod is gone (upstream: RemoveAssumedPod)."""
        known = self._nodes.placed(pod.id)
        if known is None:
            return
        if known.spec.node_name != pod.spec.node_name:
            where, counted = pod.spec.node_name, known.spec.node_name
            raise ClusterError(f"pod {_shown(pod)} was assumed on {where} but assigned to {counted}")
        if pod.id not in self._assumed:
            raise ClusterError(f"pod {_shown(pod)} is not assumed, so it cannot be removed or forgotten")
        try:
            self._take(known.id)
        finally:
            if self._groups is not None:
                (self._groups.remove if is_gone else self._groups.forget)(known)

    def confirm(self, pod: Pod) -> None:
        """The watch shows a pod on a node: one that was assumed (wherever that was), or one that is new to us."""
        if not self.has(pod.id):
            self._nodes.place(pod, pod.spec.node_name)
            return
        if pod.id not in self._assumed:
            raise ClusterError(f"pod {_shown(pod)} was already in added state")
        # Hot: as a rule nothing but the object changes, so no answer that is kept about the row is void.
        if not self._nodes.exchange(pod):
            self._replace(pod)
        self._assumed.discard(pod.id)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod on a node changed."""
        if not self.has(old.id):
            raise ClusterError(f"pod {_shown(old)} is not added to scheduler cache, so cannot be updated")
        if old.id in self._assumed:
            raise ClusterError(f"assumed pod {_shown(old)} should not be updated")
        if not self._nodes.exchange(new):  # Hot: as a rule only the status changes
            self._replace(new)

    def remove(self, pod: Pod) -> Pod:
        """A pod that was on a node is gone, assumed or not. Returns it as it was counted."""
        if not self.has(pod.id):
            raise ClusterError(f"pod {_shown(pod)} is not found in scheduler cache, so cannot be removed from it")
        try:
            return self._take(pod.id)
        finally:
            if self._groups is not None:
                self._groups.remove(pod)

    def has(self, pod_id: str) -> bool:
        """Whether the pod is counted on a node."""
        return self._nodes.row_of_pod(pod_id) is not None

    def get(self, pod_id: str) -> Pod | None:
        """The pod as it is counted, with its node."""
        return self._nodes.placed(pod_id)

    def is_assumed(self, pod_id: str) -> bool:
        """Whether the pod is counted on a node by decision only: the watch has not shown it there."""
        return pod_id in self._assumed

    def assumed_ids(self) -> set[str]:
        return set(self._assumed)

    def drop_assumed(self, pod_id: str) -> None:
        """Forget that a pod is assumed which is on no node: a fault was found."""
        if not self.has(pod_id):
            self._assumed.discard(pod_id)

    def pod_ids(self) -> list[str]:
        return self._nodes.pod_ids()

    @property
    def assumed_count(self) -> int:
        return len(self._assumed)

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        faults = check_table(self._nodes)
        counted = {pod.id: pod for pod in self._nodes.pods()}
        if not self._assumed <= counted.keys():
            faults.append("a pod is assumed that is not in the cache")
        if self._groups is not None:
            faults += self._groups.check(counted, self._assumed)
        return faults

    def _take(self, pod_id: str) -> Pod:
        """Even if counting fails, the pod does not stay: it will not be removed a second time."""
        try:
            return self._nodes.displace(pod_id)
        finally:
            self._assumed.discard(pod_id)

    def _replace(self, new: Pod) -> None:
        """Count the new object instead of the one that is counted; if that fails, the other one stays counted."""
        known = self._nodes.placed(new.id)
        assert known is not None, "only a pod that is counted is replaced"
        try:
            self._nodes.displace(known.id)
            self._nodes.place(new, new.spec.node_name)
        except BaseException:
            self._nodes.place(known, known.spec.node_name)
            raise


def _shown(pod: Pod) -> str:
    """A pod as upstream's errors name it."""
    return f"{pod.uid}({pod.key})"
