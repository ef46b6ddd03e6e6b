"""Pods on nodes, seen and assumed: what the scheduler believes of the cluster between its own acts and the watch.

A pod is *assumed* on a node when the scheduler decides so, *confirmed* when the watch shows it there, *forgotten* when
its binding fails. There is no timer: an assumed pod stays until one of these happens or the pod is removed.

A call that raises changes nothing, with one exception: a pod that is to be removed is removed even then. Texts of errors
are upstream's.
"""

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.check import check_table
from mooring.cluster.nodes.table import ClusterError
from mooring.model.pod import Pod


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

    def forget(self, pod: Pod) -> None:
        """Give up on an assumed pod; nothing happens when it is not known any more."""
        known = self._nodes.placed(pod.id)
        if known is None:
            return
        if known.spec.node_name != pod.spec.node_name:
            where, counted = pod.spec.node_name, known.spec.node_name
            raise ClusterError(f"pod {_shown(pod)} was assumed on {where} but assigned to {counted}")
        if pod.id not in self._assumed:
            raise ClusterError(f"pod {_shown(pod)} wasn't assumed so cannot be forgotten")
        try:
            self._take(known.id)
        finally:
            if self._groups is not None:
                self._groups.forget(known)

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
