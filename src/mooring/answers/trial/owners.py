"""Which pods belong to a workload, by the owner references that controllers set."""

from collections.abc import Mapping

from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import alike, some
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet
from mooring.rules.workload_pods import HASH_LABEL

Owner = tuple[str, str, str]
"""(kind, namespace, name)."""


def pods_of_workload(loaded: LoadedCluster, kind: str, name: str, namespace: str = "") -> list[Pod]:
    """The pods of a workload. Raises NoSuchPod if it has none, or if several workloads have the name."""
    replica_sets = {item.key: item for item in loaded.objects if isinstance(item, ReplicaSet)}
    found: dict[str, list[Pod]] = {}
    for pod in loaded.pods():
        if (not namespace or pod.namespace == namespace) and (kind, pod.namespace, name) in _owners(pod, replica_sets):
            found.setdefault(pod.namespace, []).append(pod)
    if len(found) > 1:
        raise NoSuchPod(f"{kind} {name!r} is in several namespaces: {some(sorted(found), 5)}; add its namespace")
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
    named = [KubeObject(metadata=ObjectMeta(name=own, namespace=home)) for home, own in sorted(there)]
    wanted = f"{namespace}/{name}" if namespace else name
    return f"no pod of {kind} {name!r} among {len(pods)} pods{alike(wanted, named)}"


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


def is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet controls the pod."""
    controller = pod.controller()
    return controller is not None and controller.kind == "DaemonSet"
