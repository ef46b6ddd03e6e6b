"""The workloads of a cluster, and which of them each pod belongs to: a Deployment above its ReplicaSets."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mooring.answers.trial.owners import behind_replica_set
from mooring.inputs.created_objects import count_pods
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet, Workload

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of the mirror pod of a static pod, which only its kubelet can stop."""
DAEMON_SET = "DaemonSet"
_STATIC_OWNER = "Node"

Find = Callable[[str, str], KubeObject | None]
"""The object of a kind and a key, as the cluster has it now."""


@dataclass(frozen=True, slots=True, order=True)
class WorkloadName:
    """Kind and key of a workload."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class WorkloadBook:
    """Workloads by name. `find` looks objects up: it needs the ReplicaSets between Deployments and pods."""

    def __init__(self, workloads: Iterable[Workload], find: Find) -> None:
        self.workloads = {WorkloadName(each.kind, each.key): each for each in workloads}
        self._find = find

    def owner(self, pod: Pod) -> WorkloadName | None:
        """The workload that decides how many such pods there are; None for a pod without a controller."""
        controller = pod.controller()
        if controller is None:
            return None
        direct = WorkloadName(controller.kind, f"{pod.namespace}/{controller.name}")
        if controller.kind != "ReplicaSet":
            return direct
        return self._above(direct, pod) or direct

    def _above(self, replica_set: WorkloadName, pod: Pod) -> WorkloadName | None:
        """The Deployment of a ReplicaSet. Where only names tell, it must be one that the cluster has."""
        found = self._find("ReplicaSet", replica_set.key) or self.workloads.get(replica_set)
        behind = behind_replica_set(pod, replica_set.key.rpartition("/")[2], found)
        if behind is None:
            return None
        above = WorkloadName(behind[0], f"{pod.namespace}/{behind[1]}")
        return above if found is not None or above in self.workloads else None

    def pods_of(self, name: WorkloadName, pods: Iterable[Pod]) -> list[Pod]:
        """The pods of a workload that are neither finished nor being deleted."""
        namespace = name.key.partition("/")[0]
        return [
            pod
            for pod in pods
            if pod.namespace == namespace and not pod.is_finished and not pod.is_terminating and self.owner(pod) == name
        ]

    def replica_sets_of(self, name: WorkloadName, objects: Iterable[KubeObject]) -> list[KubeObject]:
        """The ReplicaSets of a Deployment."""
        namespace, _, plain = name.key.partition("/")
        return [
            item
            for item in objects
            if isinstance(item, ReplicaSet)
            and item.namespace == namespace
            and (above := item.controller()) is not None
            and (above.kind, above.name) == (name.kind, plain)
        ]

    def scales(self, pods: Sequence[Pod]) -> Callable[[Pod], tuple[str, int] | None]:
        """For each pod its workload and how many pods that should have. A workload that is not in the input should have as
        many as there are: its controller keeps it so."""
        seen: Counter[WorkloadName | None] = Counter()

        def scale(pod: Pod) -> tuple[str, int] | None:
            owner = self.owner(pod)
            if owner is None:
                return None
            known = self.workloads.get(owner)
            if known is not None and known.kind != DAEMON_SET:
                return str(owner), count_pods(known)
            if not seen:
                seen.update(self.owner(each) for each in pods)
            return str(owner), seen[owner]

        return scale


def is_static(pod: Pod) -> bool:
    """Whether the pod is the mirror of a static pod."""
    controller = pod.controller()
    has_mark = MIRROR in (pod.metadata.annotations or {})
    return has_mark or (controller is not None and controller.kind == _STATIC_OWNER)
