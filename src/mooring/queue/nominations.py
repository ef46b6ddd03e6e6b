"""Nominations: pods for which room is being made on a node, and the node that is promised to each.

A pod is nominated when preemption chose a node for it, or when its status names one (another scheduler process may have
written that). The nomination ends when the pod is bound or deleted, or when an attempt finds that the node cannot help.
"""

from collections.abc import Callable

from mooring.cluster.pods.nominated import NominatedLoad
from mooring.model.pod import Pod, SharedSpec
from mooring.model.pod_spec import PodSpec, PodStatus

_ASKS_FOR_NOTHING = SharedSpec(PodSpec())
"""The spec of pods that are set aside. Hot: its shape is worked out once, and not for each of them."""

Lookup = Callable[[str], Pod | None]
"""`namespace/name` of a pod -> the pod as the watch knows it now."""


class Nominations:
    """The node that each nominated pod waits for. `lookup` finds any pod by its key."""

    def __init__(self, lookup: Lookup, load: NominatedLoad) -> None:
        self._load = load
        """The sums of the nominated pods by node: attempts of other pods leave that much room."""
        self._lookup = lookup
        self.node_of_pod: dict[str, str] = {}
        """Uid -> node. Hot: owners look whether there is any nomination; as a rule there is none."""

    def __len__(self) -> int:
        return len(self.node_of_pod)

    def pod_ids(self) -> list[str]:
        """The nominated pods, by the queue or by the room that is kept for them."""
        return list({*self.node_of_pod, *self._load.pod_ids()})

    def withdraw(self, uid: str) -> None:
        """Forget a nomination that should not be, wherever it is left."""
        self.node_of_pod.pop(uid, None)
        self._load.withdraw(uid)

    def node_of(self, uid: str) -> str | None:
        """The node that a pod is nominated to; None: to none."""
        return self.node_of_pod.get(uid)

    def promised(self) -> dict[str, str]:
        """All nominations: uid -> node."""
        return dict(self.node_of_pod)

    def add(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate a pod to a node; None: to the one that its status names, if any. It loses what it had before.

        A pod that is gone or has a node by now is not nominated.
        """
        node = pod.status.nominated_node_name if node_name is None else node_name
        known = self._lookup(pod.key) if node else None
        if known is None or known.spec.node_name:
            if self.node_of_pod:
                self.delete(pod.id)
            return
        assert node, "only for a node is a pod looked up"
        self._load.promise(pod, node)
        self.node_of_pod[pod.id] = node

    def set_aside(self, pod: Pod) -> None:
        """Let a nominated pod count as one of priority 0 that asks for nothing, until it is added or counted again."""
        if pod.id in self.node_of_pod:
            self._promise(_ASKS_FOR_NOTHING.pod(pod.metadata, "", PodStatus()))

    def count_again(self, pod: Pod) -> None:
        """End `set_aside` of a pod that is still nominated."""
        self._promise(pod)

    def _promise(self, pod: Pod) -> None:
        node = self.node_of_pod.get(pod.id)
        if node is not None:
            self._load.promise(pod, node)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod changed: follow its status. Where neither status names a node, a nomination made here stays.

        It may not have been written to the status yet.
        """
        kept = None
        if not old.status.nominated_node_name and not new.status.nominated_node_name:
            kept = self.node_of_pod.get(old.id)
        if old.id != new.id:
            self.delete(old.id)
        self.add(new, kept)

    def delete(self, uid: str) -> None:
        """The pod is no longer nominated; nothing happens if it was not."""
        if self.node_of_pod.pop(uid, None) is not None:
            self._load.withdraw(uid)

    def check(self) -> list[str]:
        """Invariants that do not hold: the load of each pod is on the node that it is nominated to."""
        return [
            f"nominations: {uid} is nominated to {node}, but its load is on {self._load.node_of(uid)}"
            for uid, node in self.node_of_pod.items()
            if self._load.node_of(uid) != node
        ]
