"""The state of a running scheduler for people: SIGUSR2 logs and checks it, `mooring snapshot` fetches it as objects.

Upstream's cache debugger has the comparison and the dump, in the same words; the snapshot is an addition.
"""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_STRUCT
from mooring.cluster.columns.facts import amounts_on
from mooring.framework.config.settings import settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.waiting import WaitingPod
from mooring.kit.clock import in_seconds
from mooring.kit.logs import Log
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.queue.queue_record import ON_PERMIT, PermitRecord, QueueRecord, WaitingPodRecord, record_object
from mooring.scheduler.scheduler import Scheduler

# ---- SIGUSR2


def compare(scheduler: Scheduler, nodes: Mapping[str, KubeObject], pods: Mapping[str, KubeObject], log: Log) -> bool:
    """Whether the scheduler's cache and the reflectors agree; logs the differences.

    Pods are compared by uid. A pod is known to the scheduler if it is in the cache or in the queue.
    """
    cluster = scheduler.cluster
    log.v(3, "Cache comparer started")
    cached_nodes = {node.name for node in cluster.nodes.nodes if node is not None}
    known = {pod.uid for pod in cluster.nodes.pods()} | {entry.pod.uid for entry in scheduler.queued_pods()}
    seen = {
        pod.uid
        for pod in pods.values()
        if isinstance(pod, Pod) and (pod.spec.node_name or scheduler.runner(pod.spec.scheduler_name) is not None)
    }
    agree = True
    for what, ours, theirs in (("Nodes", cached_nodes, {item.name for item in nodes.values()}), ("Pods", known, seen)):
        missed, redundant = sorted(theirs - ours), sorted(ours - theirs)
        if missed or redundant:
            agree = False
            log.info("Cache mismatch", **{f"missed{what}": missed, f"redundant{what}": redundant})
    log.v(3, "Cache comparer finished")
    return agree


def dump(scheduler: Scheduler, log: Log) -> None:
    """Log nodes with their pods, then the queue."""
    log.info("Dump of cached NodeInfo", nodes="\n".join(_nodes(scheduler)))
    counts = {str(place): count for place, count in scheduler.pending_counts().items()}
    unschedulable = counts["unschedulable"] + counts["gated"]
    summary = f"activeQ:{counts['active']}; backoffQ:{counts['backoff']}; unschedulableEntities:{unschedulable}"
    if scheduler.cluster.groups is not None:
        pending, incomplete = counts.get("pending", 0), counts.get("incomplete", 0)
        summary += f"; pendingPodGroupMemberPods:{pending}; incompletePodGroupPods:{incomplete}"
    pods = "\n".join(_pod_line(entry.pod) for entry in scheduler.queued_pods())
    log.info("Dump of scheduling queue", summary=summary, pods=pods)


def _nodes(scheduler: Scheduler) -> Iterator[str]:
    """One block of lines for each node, in the form of upstream's CacheDumper. A deleted node that still has pods
    is shown."""
    table = scheduler.cluster.nodes
    for row, node in enumerate(table.nodes):
        if node is None and not table.pods_on[row]:
            continue
        yield f"Node name: {table.names[row]}"
        yield f"Deleted: {str(node is None).lower()}"
        amounts = amounts_on(table.nodes[row], table.pods_on[row])
        yield f"Requested Resources: { {name: used for name, (used, _) in amounts.items() if used} }"
        yield f"Allocatable Resources: { {name: room for name, (_, room) in amounts.items() if room} }"
        yield f"Scheduled Pods(number: {len(table.pods_on[row])}):"
        yield from (_pod_line(pod) for pod in table.pods_on[row])
        nominated = scheduler.nominated.on(table.names[row])
        if nominated:
            yield f"Nominated Pods(number: {len(nominated)}):"
            yield from (_pod_line(pod) for pod in nominated)
        yield ""


def _pod_line(pod: Pod) -> str:
    return (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, phase: {pod.status.phase}, "
        f"nominated node: {pod.status.nominated_node_name}"
    )


# ---- the snapshot


def snapshot(
    scheduler: Scheduler, config: KubeSchedulerConfiguration, gates: Mapping[str, bool] | None = None
) -> JsonObject:
    """A v1 List of the settings, the queue, and all objects that the next decision would use; `mooring simulate` reads it and
    makes the same decisions. Assumed pods are shown on their nodes."""
    return {
        "kind": "List",
        "apiVersion": "v1",
        "metadata": {},
        "items": [
            settings_object(config, gates),
            record_object(_queue_record(scheduler)),
            *(_written(item) for item in _believed(scheduler)),
        ],
    }


def waiting_record(scheduler: Scheduler, pod: Pod) -> WaitingPodRecord | None:
    """The record of one pod that waits; None if it waits neither in the queue nor on Permit."""
    waiting = scheduler.waiting.get(pod.id)
    if waiting is not None:
        return _permitted(waiting)
    entry = scheduler.queued(pod.key)
    return _queued(scheduler, entry) if entry is not None else None


def _queue_record(scheduler: Scheduler) -> QueueRecord:
    """The pods in the queue, and those that wait on Permit."""
    pods = [_queued(scheduler, entry) for entry in scheduler.queued_pods()]
    pods += [_permitted(waiting) for waiting in scheduler.waiting]
    return QueueRecord(taken_at=in_seconds(scheduler.core.clock.now_ns()), pods=tuple(pods))


def _queued(scheduler: Scheduler, entry: QueuedPod) -> WaitingPodRecord:
    place = scheduler.place_in_queue(entry.key) or ""
    until = in_seconds(scheduler.backoff_ends_ns(entry)) if place == "backoff" else ""
    return WaitingPodRecord(pod=entry.key, place=place, attempts=entry.attempts, backoff_until=until)


def _permitted(waiting: WaitingPod) -> WaitingPodRecord:
    permits = (PermitRecord(plugin=name, until=in_seconds(until)) for name, until in waiting.deadlines_ns.items())
    return WaitingPodRecord(pod=waiting.pod.key, place=ON_PERMIT, node=waiting.node_name, permits=tuple(permits))


def _believed(scheduler: Scheduler) -> Iterator[KubeObject]:
    """Nodes, other objects, placed and assumed pods, then pods in the queue; each pod once."""
    cluster = scheduler.cluster
    yield from (node for node in cluster.nodes.nodes if node is not None)
    for objects in cluster.objects.values():
        yield from objects.values()
    placed = {pod.id: pod for pod in cluster.nodes.pods()}
    yield from placed.values()
    yield from (pod for pod in scheduler.pods.values() if pod.id not in placed)


def _written(item: KubeObject) -> JsonObject:
    """The object as a manifest."""
    spec = BY_STRUCT[type(item)]
    body: JsonObject = msgspec.to_builtins(item)
    if spec.makes_pods:
        body["spec"] = {
            **body.get("spec", {}),
            "replicas": 0,
        }  # the list has its pods; a simulation must not create them again
    return {"apiVersion": spec.api_version, "kind": spec.kind, **body}
