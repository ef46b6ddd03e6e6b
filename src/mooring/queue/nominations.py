"""Nominations: pods for which room is being made on a node, and the node that is promised to each."""

from collections.abc import Callable, Iterator

from mooring.cluster.pods.nominated import NominatedLoad
from mooring.model.meta import ObjectMeta
from mooring.model.pod import Pod

Lookup = Callable[[str], Pod | None]
"""`namespace/name` of a pod -> the pod as the watch knows it now."""


class Nominations:
    """Which pod is nominated to which node, found from both sides.

    `lookup` finds any pod by its key, `queued` one that is in the queue.
    """

    def __init__(self, lookup: Lookup, queued: Lookup, load: NominatedLoad | None = None) -> None:
        self._load = load
        """The sums of the nominated pods by node: attempts of other pods leave that much room."""
        self._lookup = lookup
        self._queued = queued
        self._by_node: dict[str, dict[str, Pod]] = {}
        """Node -> uid -> the pod's name, namespace and uid: the rest may change, and is looked up."""
        self._node_of: dict[str, str] = {}
        """uid -> node: the same from the other side."""

    def __len__(self) -> int:
        return len(self._node_of)

    def __iter__(self) -> Iterator[str]:
        """The nodes that pods are nominated to."""
        return iter(self._by_node)

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def for_node(self, name: str) -> list[Pod]:
        """The pods nominated to a node, in the order in which they were.

        Parity: a pod in flight is in no queue, so it is bare: priority 0, no requests.
        """
        return [self._queued(bare.key) or bare for bare in self._by_node.get(name, {}).values()]

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate a pod to a node; None: to the one that its status names, if any. It loses what it had before.

        A pod that is gone or has a node by now is not nominated.
        """
        self.delete(pod.id)
        node = pod.status.nominated_node_name if node_name is None else node_name
        if not node:
            return
        known = self._lookup(pod.key)
        if known is None or known.spec.node_name:
            return
        bare = Pod(metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid))
        self._by_node.setdefault(node, {})[pod.id] = bare
        self._node_of[pod.id] = node
        if self._load is not None:
            self._load.promise(pod, node)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod changed: follow its status. Where neither status names a node, a nomination made here stays.

        It may not have been written to the status yet.
        """
        kept = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            kept = self._node_of.get(old.id)
        self.delete(old.id)
        self.add(new, kept)

    def delete(self, uid: str) -> None:
        """The pod is no longer nominated; nothing happens if it was not."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        del self._by_node[node][uid]
        if not self._by_node[node]:
            del self._by_node[node]
        if self._load is not None:
            self._load.withdraw(uid)

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        by_node = {uid: node for node, pods in self._by_node.items() for uid in pods}
        problems = [
            f"nominations: node {node} is kept without pods" for node, pods in self._by_node.items() if not pods
        ]
        if by_node != self._node_of:
            problems.append("nominations: pods and nodes do not agree")
        if sum(map(len, self._by_node.values())) != len(self._node_of):
            problems.append("nominations: a pod is nominated to two nodes")
        return problems
