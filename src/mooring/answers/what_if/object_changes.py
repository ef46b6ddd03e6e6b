"""Objects are applied and deleted, as `kubectl apply` and `kubectl delete` do it, with what controllers do about it."""

from collections.abc import Iterable

import msgspec

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.daemons import sync_daemons
from mooring.answers.trial.draining import remove_nodes
from mooring.answers.trial.workload_book import DAEMON_SET, WorkloadName
from mooring.answers.what_if.scaling import create_from_template, resize, with_scale
from mooring.answers.what_if.targets import object_name, reject
from mooring.api.json_objects import JsonObject
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Objects, read_objects
from mooring.inputs.manifests import Manifests, ReadOptions, note_ignored
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace, Workload
from mooring.rules.pod_defaults import complete_pod

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
