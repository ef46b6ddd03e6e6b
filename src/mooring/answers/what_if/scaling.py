"""A workload gets more pods or fewer, as its controller would create and delete them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.workload_book import DAEMON_SET, WorkloadName
from mooring.answers.what_if.targets import object_name, reject, split_number
from mooring.api.json_objects import JsonObject
from mooring.controllers.workloads.owned_pods import first_to_go
from mooring.inputs.created_objects import count_pods, expand
from mooring.inputs.custom_workloads import MAX_PODS
from mooring.kit.clock import moment_ns
from mooring.model.pod import Pod
from mooring.model.workloads import Workload
from mooring.rules.conditions import find_condition
from mooring.rules.workload_pods import INDEX
from mooring.sim.controllers import replacement

_SCALED_DOWN = "its workload is scaled down"


def scale(cluster: ChangingCluster, value: str) -> None:
    """`KIND/[NAMESPACE/]NAME=N`."""
    written, number = split_number(value, "KIND/[NAMESPACE/]NAME=N, such as Deployment/shop/web=5", MAX_PODS)
    name = object_name(cluster, written)
    workload = cluster.book.workloads.get(name)
    if workload is None:
        reject(f"{name} is not a workload with a number of pods, or its pod template is not in the input")
    if name.kind == DAEMON_SET:
        reject(f"{name} has as many pods as there are nodes for it; it cannot be scaled")
    above = workload.controller()
    if name.kind == "ReplicaSet" and above is not None:
        reject(f"{name} belongs to {above.kind} {above.name}, which would undo the change; scale that")
    resize(cluster, name, with_scale(workload, number))


def with_scale(workload: Workload, number: int) -> Workload:
    """The workload with this number of pods. A Job has a parallelism instead."""
    field: dict[str, Any] = {"parallelism" if workload.kind == "Job" else "replicas": number}
    scaled: Workload = msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, **field))
    return scaled


def resize(cluster: ChangingCluster, name: WorkloadName, workload: Workload) -> None:
    """Take the workload as it is wanted now, and create or delete pods until it has as many as it should."""
    cluster.book.workloads[name] = workload
    pods = cluster.book.pods_of(name, cluster.pods())
    missing = count_pods(workload) - len(pods)
    if workload.kind == "StatefulSet":
        _renumber(cluster, workload, pods)
    elif missing < 0:
        for pod in _surplus(cluster, pods, -missing):
            cluster.remove(pod, _SCALED_DOWN)
    elif missing > 0:
        _add(cluster, workload, pods, missing)
    cluster.recount()


def _renumber(cluster: ChangingCluster, workload: Workload, pods: Sequence[Pod]) -> None:
    """A StatefulSet has one pod for each of its ordinals. A pod with another name is not its own, whoever its owner is."""
    first = workload.spec.ordinals.start if workload.spec.ordinals else 0
    ordinals = range(first, first + count_pods(workload))
    for pod in pods:
        stem, _, number = pod.name.rpartition("-")
        if stem == workload.name and number.isdecimal() and int(number) not in ordinals:
            cluster.remove(pod, _SCALED_DOWN)
    create_from_template(cluster, workload)


def _surplus(cluster: ChangingCluster, pods: Sequence[Pod], number: int) -> list[Pod]:
    """The pods that the controller deletes first."""
    by_key = {(pod.namespace, pod.name): pod for pod in pods}
    written = [_as_running(pod, cluster.created) for pod in pods]
    leaving = first_to_go(written, number, moment_ns(cluster.created))
    return [by_key[pod["metadata"]["namespace"], pod["metadata"]["name"]] for pod in leaving]


def _as_running(pod: Pod, created: str) -> JsonObject:
    """The pod as the controller would see it: in a simulation no kubelet has reported that it runs and is ready."""
    plain: JsonObject = msgspec.to_builtins(pod)
    metadata, status = plain["metadata"], plain.setdefault("status", {})
    since = metadata.setdefault("creationTimestamp", created)
    metadata.setdefault("uid", pod.id)
    conditions = status.setdefault("conditions", [])
    if pod.spec.node_name and find_condition(conditions, "Ready") is None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": since})
        status["phase"] = "Running"
    return plain


# ---- more pods


def _is_numbered(workload: Workload) -> bool:
    """Whether each pod has a number that belongs to its name and its template."""
    return workload.kind == "StatefulSet" or workload.spec.completion_mode == "Indexed"


def _add(cluster: ChangingCluster, workload: Workload, pods: Sequence[Pod], missing: int) -> None:
    """Copies of the newest pod, which has all that controllers and admission add; or the first pods, from the template."""
    if not pods or _is_numbered(workload):
        create_from_template(cluster, workload, pods)
        return
    newest = max(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
    number = 0
    while missing:
        name = f"{workload.name}-{number}"
        if cluster.find("Pod", f"{workload.namespace}/{name}") is None:
            cluster.create_pod(replacement(newest, cluster.next_number(), cluster.created, name))
            missing -= 1
        number += 1


def create_from_template(cluster: ChangingCluster, workload: Workload, pods: Sequence[Pod] = ()) -> None:
    """Create what the controller would create, as far as it is not there: claims, a ReplicaSet, pods with numbers.

    `pods` are those that the workload has; an indexed Job knows them by their index, not by their names.
    """
    indices = {pod.labels[INDEX] for pod in pods if INDEX in pod.labels}
    taken = () if _is_numbered(workload) else [pod.key for pod in cluster.pods()]
    for product in expand(workload, cluster.driver.nodes(), taken):
        cluster.admission.admit(product)
        if cluster.find(type(product).__name__, product.key) is not None:
            continue
        if not isinstance(product, Pod):
            cluster.driver.create(product)
        elif product.labels.get(INDEX) not in indices:
            cluster.create_pod(replacement(product, cluster.next_number(), cluster.created))
