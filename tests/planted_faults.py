"""Faults that are planted into the scheduler of a busy cluster: what a self-check has to find."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from build import a_node
from device_building import a_claim as a_device_claim
from device_building import an_allocation
from mooring.framework.kept.feasible import PASSED
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.queue.entry import QueuedPod
from self_checking import HOST, ZONE, CheckedCluster, a, with_version

Plant = Callable[[CheckedCluster], None]


# ---- faults in what is counted


def row_of(cluster: CheckedCluster, name: str = "n2") -> int:
    row: int = cluster.nodes.row_book[name]
    return row


def _tally_off_by_one(cluster: CheckedCluster) -> None:
    next(iter(cluster.nodes.tallies.kept().values())).add((row_of(cluster), 1))


def _sum_of_a_tally_off(cluster: CheckedCluster) -> None:
    sums = next(sums for t in cluster.nodes.tallies.kept().values() for sums in t.sums.values())
    sums.counts[1] += 1


def _carried_terms_off(cluster: CheckedCluster) -> None:
    next(iter(cluster.nodes.tallies.terms.carried.values())).tally.add((row_of(cluster), 1))


def _label_set_off(cluster: CheckedCluster) -> None:
    where = cluster.nodes.tallies.label_sets()[cluster.find("web-2").label_set]
    where.rows[row_of(cluster)] += 1


def requested_off(cluster: CheckedCluster) -> None:
    cluster.nodes.amounts.requested[0, row_of(cluster)] += 500


def _chips_off(cluster: CheckedCluster) -> None:
    amounts = cluster.nodes.amounts
    amounts.requested[amounts.resource("example.com/chip"), row_of(cluster)] -= 1


def _allocatable_off(cluster: CheckedCluster) -> None:
    cluster.nodes.amounts.allocatable[1, row_of(cluster)] -= 1 << 20


def _pod_count_off(cluster: CheckedCluster) -> None:
    cluster.nodes.pod_count[row_of(cluster)] += 1


def _taint_forgotten(cluster: CheckedCluster) -> None:
    taints = a_node(taints=["dedicated=db:NoSchedule"]).taints
    cluster.nodes.taints.put(row_of(cluster), tuple(taints), 4)


def _label_of_another_zone(cluster: CheckedCluster) -> None:
    cluster.nodes.labels.column(ZONE).put(row_of(cluster), "elsewhere")


def _labels_forgotten(cluster: CheckedCluster) -> None:
    cluster.nodes.labels._labels[row_of(cluster)] = {HOST: "n2"}


def _cordon_forgotten(cluster: CheckedCluster) -> None:
    cluster.nodes.unschedulable[row_of(cluster)] = True


def _image_forgotten(cluster: CheckedCluster) -> None:
    cluster.nodes.images.put(row_of(cluster), {})


def _node_counted_twice(cluster: CheckedCluster) -> None:
    cluster.nodes.alive_count += 1


def _floats_stale(cluster: CheckedCluster) -> None:
    cluster.scheduler.cluster.float_columns().held[0, row_of(cluster)] += 1


def _port_leaked(cluster: CheckedCluster) -> None:
    cluster.nodes.ports.occupy(row_of(cluster, "n1"), [("0.0.0.0", "TCP", 80)])


def _pod_twice_on_a_row(cluster: CheckedCluster) -> None:
    cluster.nodes.pods_on[row_of(cluster)].append(cluster.nodes.pods_on[row_of(cluster)][0])


def _volume_count_off(cluster: CheckedCluster) -> None:
    volumes = cluster.scheduler.cluster.volumes_on_nodes()
    next(iter(volumes.by_driver.values()))[row_of(cluster)] += 1


def _volume_filed_wrongly(cluster: CheckedCluster) -> None:
    storage = cluster.scheduler.cluster.storage
    del storage._placed["spare"]


def _device_count_off(cluster: CheckedCluster) -> None:
    cluster.scheduler.cluster.claims.exclusive["gpu.example.com", "n0", "gpu-1"] = 1


def _device_leaked(cluster: CheckedCluster) -> None:
    claim = a_device_claim("gone", status={"allocation": an_allocation("n0/gpu-1", node="n0")})
    cluster.scheduler.cluster.claims.begin(claim)


def _volume_leaked(cluster: CheckedCluster) -> None:
    storage = cluster.scheduler.cluster.storage
    volume = storage.volumes["spare"]
    spec = msgspec.structs.replace(volume.spec, claim_ref=storage.volumes["pv"].spec.claim_ref)
    storage.assume_volume(msgspec.structs.replace(volume, spec=spec))


def _claim_leaked(cluster: CheckedCluster) -> None:
    storage = cluster.scheduler.cluster.storage
    storage.assume_claim(msgspec.structs.replace(storage.claims["default/data"]))


# ---- inputs that were lost


def _changed(cluster: CheckedCluster, item: Any) -> None:
    """The watch shows a new form of an object, but the scheduler does not get it."""
    cluster.driver.objects[type(item).__name__, item.key] = with_version(item, "1000")


def _node_update_missed(cluster: CheckedCluster) -> None:
    node = cluster.driver.objects["Node", "n1"]
    assert isinstance(node, Node)
    status = msgspec.structs.replace(node.status, allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"})
    _changed(cluster, msgspec.structs.replace(node, status=status))


def _node_missed(cluster: CheckedCluster) -> None:
    _changed(cluster, a_node("n9", labels={ZONE: "c"}))


def _node_deletion_missed(cluster: CheckedCluster) -> None:
    del cluster.driver.objects["Node", "n3"]


def _pod_update_missed(cluster: CheckedCluster) -> None:
    pod = cluster.find("web-1")
    _changed(cluster, Pod(msgspec.structs.replace(pod.metadata, labels={"app": "db"}), pod.spec, pod.status))


def _pod_deletion_missed(cluster: CheckedCluster) -> None:
    del cluster.driver.objects["Pod", "default/web-1"]


def _deletion_of_a_waiting_pod_missed(cluster: CheckedCluster) -> None:
    del cluster.driver.objects["Pod", "default/big"]


def _new_pod_missed(cluster: CheckedCluster) -> None:
    _changed(cluster, a("new", cpu="100"))


def _bound_pod_missed(cluster: CheckedCluster) -> None:
    _changed(cluster, a("new", cpu="1", nodeName="n1"))


def _bind_by_others_missed(cluster: CheckedCluster) -> None:
    _changed(cluster, cluster.find("big").with_node("n1"))


def _claim_missed(cluster: CheckedCluster) -> None:
    del cluster.scheduler.cluster.objects[PersistentVolumeClaim]["default/data"]


def _volume_update_missed(cluster: CheckedCluster) -> None:
    volume = cluster.driver.objects["PersistentVolume", "pv"]
    assert isinstance(volume, PersistentVolume)
    _changed(cluster, msgspec.structs.replace(volume))


# ---- where pods are


def _entry(cluster: CheckedCluster, key: str = "default/big") -> QueuedPod:
    entry = cluster.scheduler.queued(key)
    assert entry is not None
    return entry


def _pod_in_no_queue(cluster: CheckedCluster) -> None:
    cluster.core.queue.places.remove("default/big")


def _pod_in_two_places(cluster: CheckedCluster) -> None:
    cluster.core.queue.places.active.push(_entry(cluster))


def _pod_in_flight_for_ever(cluster: CheckedCluster) -> None:
    entry = _entry(cluster)
    cluster.core.queue.places.remove(entry.key)
    cluster.core.queue.in_flight.start(entry)


def _entry_without_a_pod(cluster: CheckedCluster) -> None:
    cluster.core.queue.add(a("ghost", cpu="100"))


def _placed_pod_queued(cluster: CheckedCluster) -> None:
    cluster.core.queue.add(cluster.find("web-0"))


def _old_form_of_a_waiting_pod(cluster: CheckedCluster) -> None:
    entry = _entry(cluster)
    entry.pod = Pod(msgspec.structs.replace(entry.pod.metadata, resource_version="1"), entry.pod.spec, entry.pod.status)


def _nomination_leaked(cluster: CheckedCluster) -> None:
    pod = cluster.find("web-0")
    cluster.core.queue.nominations.node_of_pod[pod.id] = "n1"
    cluster.scheduler.nominated.promise(pod, "n1")


def _nomination_of_a_pod_that_is_gone(cluster: CheckedCluster) -> None:
    cluster.core.queue.nominations.node_of_pod["uid-gone"] = "n1"
    cluster.scheduler.nominated.promise(a("gone", cpu="1"), "n1")


def _nominated_room_without_a_nomination(cluster: CheckedCluster) -> None:
    cluster.scheduler.nominated.promise(cluster.find("big"), "n1")


def _room_of_nominated_off(cluster: CheckedCluster) -> None:
    cluster.core.queue.nominations.add(cluster.find("big"), "n1")
    cluster.scheduler.nominated.crowd_from(0)
    cluster.scheduler.nominated._columns._requested[0, 0] -= 1000


def _kept_sum_of_nominated_off(cluster: CheckedCluster) -> None:
    cluster.core.queue.nominations.add(cluster.find("big"), "n1")
    kept = cluster.scheduler.nominated.crowd_from(0).load
    assert kept is not None
    kept.requested[0, cluster.scheduler.cluster.nodes.row_book["n1"]] -= 1000


def _being_bound(cluster: CheckedCluster) -> Pod:
    """A pod whose Bind was not answered."""
    cluster.driver.create(a("bound", cpu="100m"))
    cluster.scheduler.attempt()
    cluster.scheduler.take_intents()
    return next(iter(cluster.core.bindings.values())).pod


def _assumed_pod_lost(cluster: CheckedCluster) -> None:
    cluster.core.cache.forget(_being_bound(cluster))


def _assumed_pod_that_nobody_binds(cluster: CheckedCluster) -> None:
    del cluster.core.bindings[_being_bound(cluster).id]


def _assumed_pod_that_is_gone(cluster: CheckedCluster) -> None:
    cluster.core.cache.assume(a("gone", cpu="1"), "n1")


def _assumed_on_no_node(cluster: CheckedCluster) -> None:
    cluster.core.cache._assumed.add("uid-gone")


def _confirmation_lost(cluster: CheckedCluster) -> None:
    pod = _being_bound(cluster)
    del cluster.core.bindings[pod.id]
    _changed(cluster, pod)
    cluster.core.pods[pod.key] = cluster.find("bound")


def group_member_lost(cluster: CheckedCluster) -> None:
    assert cluster.scheduler.cluster.groups is not None
    cluster.scheduler.cluster.groups._groups["default/gang"].unscheduled.clear()


# ---- decisions


def _stale_verdict(cluster: CheckedCluster) -> None:
    """Kept: n2 is feasible for `big`, which requests more than any node has."""
    for part in _kept_parts(cluster):
        if part.first is not None and part.filters:
            part.first[row_of(cluster)] = PASSED


def _stale_score(cluster: CheckedCluster) -> None:
    """Kept for a template, of which one pod was placed and another waits for its first attempt."""
    cluster.put(a("first", cpu="200m"))
    cluster.driver.create(a("second", cpu="200m"))
    for part in _kept_parts(cluster):
        if part.sum is not None:
            part.sum[row_of(cluster)] += 7


def _kept_parts(cluster: CheckedCluster) -> list[Any]:
    kept = cluster.core.runners["default-scheduler"].kept
    return [part for by_part in kept._parts.values() for part in by_part.values()]


def _event_dropped(cluster: CheckedCluster) -> None:
    """A node comes on which `big` fits, but nobody wakes it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster.core.queue, "wake", lambda *_, **__: None)
        cluster.driver.create(a_node("huge", cpu="500", labels={ZONE: "a", HOST: "huge"}))


def _gate_shut_for_nothing(cluster: CheckedCluster) -> None:
    cluster.put(a("shut", cpu="100m", schedulingGates=[{"name": "later"}]))
    pod = cluster.find("shut")
    open_pod = Pod(pod.metadata, msgspec.structs.replace(pod.spec, scheduling_gates=None), pod.status)
    cluster.driver.objects["Pod", pod.key] = cluster.core.pods[pod.key] = open_pod
    _entry(cluster, pod.key).pod = open_pod


PLANTS: dict[str, tuple[Plant, set[str]]] = {
    "a tally is off by one": (_tally_off_by_one, {"tally"}),
    "a sum of a tally over a label is off": (_sum_of_a_tally_off, {"tally"}),
    "the count of pods that carry a term is off": (_carried_terms_off, {"tally"}),
    "the count of pods with some labels is off": (_label_set_off, {"tally"}),
    "a requested sum is off": (requested_off, {"row"}),
    "a requested sum of an extended resource is off": (_chips_off, {"row"}),
    "an allocatable amount is off": (_allocatable_off, {"row"}),
    "a number of pods is off": (_pod_count_off, {"row"}),
    "a row has taints that its node has not": (_taint_forgotten, {"row"}),
    "a column has another zone than the node": (_label_of_another_zone, {"row"}),
    "the labels of a row are not those of its node": (_labels_forgotten, {"row"}),
    "a row is cordoned and its node is not": (_cordon_forgotten, {"row"}),
    "a row has no images and its node has": (_image_forgotten, {"row"}),
    "the number of nodes is off": (_node_counted_twice, {"row"}),
    "floats lag behind the table": (_floats_stale, {"row"}),
    "a port is taken by no pod": (_port_leaked, {"port"}),
    "a pod is twice on a row": (_pod_twice_on_a_row, {"row"}),
    "a number of volumes is off": (_volume_count_off, {"volume"}),
    "a volume is not filed": (_volume_filed_wrongly, {"volume"}),
    "a device is counted that nobody holds": (_device_count_off, {"device"}),
    "a pending allocation belongs to no binding": (_device_leaked, {"device"}),
    "an assumed volume belongs to no binding": (_volume_leaked, {"volume"}),
    "an assumed claim belongs to no binding": (_claim_leaked, {"volume"}),
    "an update of a node was missed": (_node_update_missed, {"object", "row"}),
    "a new node was missed": (_node_missed, {"object", "row"}),
    "a deletion of a node was missed": (_node_deletion_missed, {"object", "row"}),
    "an update of a pod was missed": (_pod_update_missed, {"object", "tally"}),
    "a deletion of a placed pod was missed": (_pod_deletion_missed, {"object", "row", "tally"}),
    "a deletion of a waiting pod was missed": (_deletion_of_a_waiting_pod_missed, {"object", "queue"}),
    "a new pod was missed": (_new_pod_missed, {"object", "queue"}),
    "a pod that others placed was missed": (_bound_pod_missed, {"object", "row", "tally"}),
    "a bind by others was missed": (_bind_by_others_missed, {"object", "row", "tally", "queue"}),
    "a claim was missed": (_claim_missed, {"object", "volume"}),
    "an update of a volume was missed": (_volume_update_missed, {"object"}),
    "a pod is in no queue": (_pod_in_no_queue, {"queue"}),
    "a pod is in two places": (_pod_in_two_places, {"queue"}),
    "an attempt never ended": (_pod_in_flight_for_ever, {"queue"}),
    "an entry of the queue has no pod": (_entry_without_a_pod, {"queue"}),
    "a placed pod is queued": (_placed_pod_queued, {"queue"}),
    "an old form of a pod is queued": (_old_form_of_a_waiting_pod, {"queue"}),
    "a placed pod is nominated": (_nomination_leaked, {"nomination"}),
    "a pod that is gone is nominated": (_nomination_of_a_pod_that_is_gone, {"nomination"}),
    "room is kept for a pod that is not nominated": (_nominated_room_without_a_nomination, {"nomination"}),
    "the room of nominated pods is off": (_room_of_nominated_off, {"nomination"}),
    "the kept sum of nominated pods is off": (_kept_sum_of_nominated_off, {"nomination"}),
    "a pod that is being bound lost its room": (_assumed_pod_lost, {"assumed", "queue"}),
    "an assumed pod is not being bound": (_assumed_pod_that_nobody_binds, {"assumed"}),
    "an assumed pod is gone": (_assumed_pod_that_is_gone, {"assumed"}),
    "an assumed pod is on no node": (_assumed_on_no_node, {"assumed"}),
    "the confirmation of a bind was lost": (_confirmation_lost, {"assumed"}),
    "a kept verdict is stale": (_stale_verdict, {"answer"}),
    "a kept score is stale": (_stale_score, {"answer"}),
    "the event that helps a pod was dropped": (_event_dropped, {"stranded"}),
    "a gate is shut though nobody objects": (_gate_shut_for_nothing, {"stranded"}),
}
