"""The workloads of a cluster, and which of them each pod belongs to: a Deployment above its ReplicaSets."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mooring.inputs.created_objects import count_pods
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import alike_names, some
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet, Workload
from mooring.rules.workload_pods import DAEMON_SET, HASH_LABEL

# ---- Which pods belong to a workload, by the owner references that controllers set.


Owner = tuple[str, str, str]
"""(kind, namespace, name)."""


def workload_named(loaded: LoadedCluster, kind: str, name: str, namespace: str = "") -> Workload | None:
    """The workload, if the cluster has one of this name in this namespace, or in one of all namespaces alone."""
    found = [
        item
        for item in loaded.workloads
        if (item.kind, item.name) == (kind, name) and namespace in ("", item.namespace)
    ]
    return found[0] if len(found) == 1 else None


def pods_of_workload(
    loaded: LoadedCluster, kind: str, name: str, namespace: str = "", *, may_lack: bool = False
) -> list[Pod]:
    """The pods of a workload. Raises NoSuchPod if several workloads have the name, and also if it has no pods, unless it
    `may_lack` them."""
    replica_sets = {item.key: item for item in loaded.objects if isinstance(item, ReplicaSet)}
    found: dict[str, list[Pod]] = {}
    for pod in loaded.pods():
        if (not namespace or pod.namespace == namespace) and (kind, pod.namespace, name) in _owners(pod, replica_sets):
            found.setdefault(pod.namespace, []).append(pod)
    if len(found) > 1:
        raise NoSuchPod(f"{kind} {name!r} is in several namespaces: {some(sorted(found), 5)}; add its namespace")
    if not found and may_lack:
        return []
    if not found:
        raise NoSuchPod(_unknown(loaded, replica_sets, kind, name, namespace))
    return next(iter(found.values()))


def _unknown(
    loaded: LoadedCluster, replica_sets: Mapping[str, ReplicaSet], kind: str, name: str, namespace: str
) -> str:
    """Why a workload has no pods: it is not there (then similar names follow), or it has none."""
    there = {(item.namespace, item.name) for item in loaded.workloads if item.kind == kind}
    if any(own == name and namespace in ("", home) for home, own in there):
        return f"{kind} {name!r} has no pods"
    pods = loaded.pods()
    there |= {(home, own) for pod in pods for each, home, own in _owners(pod, replica_sets) if each == kind}
    named = [f"{home}/{own}" for home, own in sorted(there)]
    wanted = f"{namespace}/{name}" if namespace else name
    return f"no pod of {kind} {name!r} among {len(pods)} pods{alike_names(wanted, named)}"


def _owners(pod: Pod, replica_sets: Mapping[str, ReplicaSet]) -> set[Owner]:
    """The controller of a pod, and the one behind it."""
    owner = pod.controller()
    if owner is None:
        return set()
    owners: set[Owner] = {(owner.kind, pod.namespace, owner.name)}
    if owner.kind == "ReplicaSet":
        behind = behind_replica_set(pod, owner.name, replica_sets.get(f"{pod.namespace}/{owner.name}"))
        owners |= {(behind[0], pod.namespace, behind[1])} if behind is not None else set()
    return owners


def behind_replica_set(pod: Pod, name: str, replica_set: KubeObject | None) -> tuple[str, str] | None:
    """Kind and name of what controls the ReplicaSet of a pod: a Deployment, as a rule. A dump may have pods but no
    ReplicaSets: then the label of the pod tells which part of the name is the Deployment's."""
    above = replica_set.controller() if replica_set is not None else None
    if above is not None:
        return above.kind, above.name
    suffix = f"-{pod.labels.get(HASH_LABEL, '')}"
    if replica_set is None and len(suffix) > 1 and name.endswith(suffix):
        return "Deployment", name.removesuffix(suffix)
    return None


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
        known_scales: dict[tuple[str, ...], tuple[str, int] | None] = {}

        def scale(pod: Pod) -> tuple[str, int] | None:
            """Hot: looked up once for the pods of a controller."""
            controller = pod.controller()
            if controller is None:
                return None
            key = (pod.namespace, controller.kind, controller.name, pod.labels.get(HASH_LABEL, ""))
            if key not in known_scales:
                known_scales[key] = work_out(pod)
            return known_scales[key]

        def work_out(pod: Pod) -> tuple[str, int] | None:
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
