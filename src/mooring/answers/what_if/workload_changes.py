"""Workloads are scaled, and objects applied and deleted as by kubectl, with what controllers do about it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.changing_nodes import remove_nodes, sync_daemons
from mooring.answers.trial.workload_book import WorkloadName
from mooring.answers.what_if.targets import object_name, reject, split_number
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import KINDS
from mooring.controllers.workloads.owned_pods import first_to_go
from mooring.inputs.created_objects import count_pods, expand
from mooring.inputs.custom_workloads import MAX_PODS
from mooring.inputs.documents import ManifestFile
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, Objects, read_objects
from mooring.inputs.manifests import Manifests, ReadOptions, note_ignored, read_files
from mooring.kit.clock import moment_ns
from mooring.kit.words import some
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace, Workload
from mooring.rules.conditions import find_condition
from mooring.rules.pod_defaults import complete_pod, complete_whole
from mooring.rules.workload_pods import DAEMON_SET, INDEX

# ---- A workload gets more pods or fewer, as its controller would create and delete them.


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
    return msgspec.structs.replace(workload, spec=msgspec.structs.replace(workload.spec, **field))


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
            cluster.create_like(newest, name)
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
            cluster.create_like(product)


_DELETED = "a change deletes it"
_NEW_TEMPLATE = "its workload has a new pod template"

# ---- apply


def apply(cluster: ChangingCluster, written: Objects) -> None:
    """Create the objects of files or dictionaries, or change those that are there."""
    loaded, there = cluster.loaded, [*cluster.driver.objects.values()]
    manifests = read_objects(written, ReadOptions(there, cluster.validation, loaded.gates, loaded.templates))
    if not manifests.problems and not manifests.objects and not manifests.workloads:
        reject("there are no objects that decisions read")
    apply_manifests(cluster, manifests)


def apply_manifests(cluster: ChangingCluster, manifests: Manifests) -> None:
    """Create objects that were read for this cluster, or change those that are there. Raises InputError for problems."""
    if manifests.problems:
        raise InputError(manifests.problems)
    for warning in manifests.warnings:
        cluster.note(str(warning))
    for text in (*note_ignored(manifests), *manifests.custom.notes()):
        cluster.note(text)
    _put(cluster, manifests)
    cluster.recount()
    for each in manifests.workloads:
        if isinstance(each.object, Workload):
            _apply_workload(cluster, each.object)


def _put(cluster: ChangingCluster, manifests: Manifests) -> None:
    """Create or change all objects, nodes first. `manifests` has the pods of new workloads."""
    items = sorted((each.object for each in manifests.objects), key=lambda item: not isinstance(item, Node))
    for item in items:
        held = cluster.find(type(item).__name__, item.key)
        if held is not None:
            cluster.driver.update(_changed(held, item))
        else:
            cluster.driver.create(item)
    sync_daemons(cluster, [item.name for item in items if isinstance(item, Node)])


def _changed(held: KubeObject, item: KubeObject) -> KubeObject:
    """The object that is there with the content of the new one. The spec of a pod cannot be changed."""
    metadata = msgspec.structs.replace(item.metadata, uid=held.uid)
    if isinstance(held, Pod) and isinstance(item, Pod):
        return Pod(metadata=metadata, spec=held.spec, status=held.status)
    changed: KubeObject = msgspec.structs.replace(item, metadata=metadata)
    status = getattr(held, "status", None)
    if status is not None and not isinstance(held, Node):
        changed = msgspec.structs.replace(changed, status=status)
    return changed


def _apply_workload(cluster: ChangingCluster, workload: Workload) -> None:
    """A new workload has its pods already; one that was there is scaled, or gets new pods for a new template."""
    name = WorkloadName(workload.kind, workload.key)
    held = cluster.book.workloads.get(name)
    cluster.book.workloads[name] = workload
    if held is None:
        cluster.recount()
        return
    workload = msgspec.structs.replace(workload, metadata=msgspec.structs.replace(workload.metadata, uid=held.uid))
    if workload.spec.replicas is None and held.spec.replicas is not None:
        workload = with_scale(workload, held.spec.replicas)  # `kubectl apply` leaves what the manifest does not say
    if _template(held) != _template(workload):
        _roll_out(cluster, name, workload)
    elif workload.kind != DAEMON_SET:
        resize(cluster, name, workload)


def _template(workload: Workload) -> JsonObject:
    """The pod template with its defaults: those of a server are written out, those of a manifest are not."""
    plain: JsonObject = msgspec.to_builtins(workload.spec.template)
    pod = {"metadata": {"labels": plain.get("metadata", {}).get("labels", {})}, "spec": plain.get("spec", {})}
    complete_pod(pod)
    complete_whole(pod["spec"])
    return pod


def _roll_out(cluster: ChangingCluster, name: WorkloadName, workload: Workload) -> None:
    """Replace all pods by those of the new template at once."""
    cluster.note(f"{name} has a new pod template: all its pods are replaced at once, not step by step")
    cluster.book.workloads[name] = workload
    for pod in cluster.book.pods_of(name, cluster.pods()):
        cluster.remove(pod, _NEW_TEMPLATE)
    if workload.kind == DAEMON_SET:
        sync_daemons(cluster, cluster.nodes())
    else:
        create_from_template(cluster, workload)
    cluster.recount()


# ---- delete


def delete(cluster: ChangingCluster, value: str) -> None:
    """`KIND/[NAMESPACE/]NAME`, with what belongs to it."""
    name = object_name(cluster, value)
    held = cluster.find(name.kind, name.key)
    if isinstance(held, Namespace):
        reject(f"{name}: delete its workloads and pods instead")
    if isinstance(held, Node):
        remove_nodes(cluster, [held.name])
    elif isinstance(held, Pod):
        _delete_pod(cluster, held)
    else:
        _delete_workload(cluster, name)
        cluster.driver.delete(name.kind, name.key)
    cluster.recount()


def _delete_pod(cluster: ChangingCluster, pod: Pod) -> None:
    """A pod with a controller comes again."""
    if pod.controller() is None:
        cluster.remove(pod, _DELETED)
    else:
        cluster.note(f"Pod {pod.key} has a controller, which creates it again")
        cluster.lose(pod, _DELETED)


def _delete_workload(cluster: ChangingCluster, name: WorkloadName) -> None:
    """Delete the pods of a workload, and its ReplicaSets. Does nothing for another kind of object."""
    if cluster.book.workloads.pop(name, None) is None:
        return
    for pod in cluster.book.pods_of(name, cluster.pods()):
        cluster.remove(pod, _DELETED)
    if name.kind == "Deployment":
        _forget(cluster, cluster.book.replica_sets_of(name, cluster.driver.objects.values()))


def _forget(cluster: ChangingCluster, replica_sets: Iterable[KubeObject]) -> None:
    for item in replica_sets:
        cluster.book.workloads.pop(WorkloadName("ReplicaSet", item.key), None)
        cluster.driver.delete("ReplicaSet", item.key)


# ---- A cluster after manifests were applied to it, before its scheduler sees them: would these fit?


NAMED = 5
"""How many objects that were there a note names."""


def with_applied(loaded: LoadedCluster, written: Objects, validation: Validation = Validation.STRICT) -> LoadedCluster:
    """The cluster after objects of files or dictionaries were applied to it. Raises InputError, ConfigError."""
    return _with_manifests(loaded, partial(read_objects, written), validation)


def with_files(
    loaded: LoadedCluster, files: Sequence[ManifestFile], validation: Validation = Validation.STRICT
) -> LoadedCluster:
    """The cluster after files were applied to it that are in memory already. Raises InputError, ConfigError."""
    return _with_manifests(loaded, partial(read_files, files), validation)


def _with_manifests(
    loaded: LoadedCluster, read: Callable[[ReadOptions], Manifests], validation: Validation
) -> LoadedCluster:
    """The cluster after the manifests that `read` reads for it were applied."""
    cluster = ChangingCluster(loaded, validation)
    there = [*cluster.driver.objects.values()]
    manifests = read(ReadOptions(there, validation, loaded.gates, loaded.templates))
    replaced = _replaced(cluster, manifests)
    apply_manifests(cluster, manifests)
    if replaced:
        cluster.note(f"applied over objects that the cluster has: {some(replaced, NAMED)}")
    return replace(
        loaded,
        objects=[*cluster.driver.objects.values()],
        workloads=[*cluster.book.workloads.values()],
        notes=[*loaded.notes, *cluster.notes],
    )


def _replaced(cluster: ChangingCluster, manifests: Manifests) -> list[str]:
    """The objects of the manifests that the cluster has, in the order of the input: a reader may have meant others."""
    written = [*manifests.objects, *(each for each in manifests.workloads if each.kind not in KINDS)]
    return [
        each.where
        for each in sorted(written, key=lambda each: each.order)
        if not each.made_from
        and (
            cluster.find(each.kind, each.object.key) is not None
            or WorkloadName(each.kind, each.object.key) in cluster.book.workloads
        )
    ]
