"""Compares what several nodes or pods share: volumes, the devices of claims, room for nominated pods, and pod groups."""

from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.model.node import Node
from mooring.model.storage import PersistentVolume
from mooring.state.check.found_difference import (
    BATCH,
    DifferenceKind,
    Findings,
    RowPairing,
    StateDifference,
    in_batches,
)
from mooring.state.check.object_differences import version_of

# ---- nominated pods and pod groups


def compare_nominated(running: Cluster, fresh: Cluster) -> Findings:
    """Compare the room that nominated pods will take, node by node. Which pods are nominated is the same on both sides."""
    ours, theirs = running.nominated, fresh.nominated
    resources = list(running.nodes.amounts.resource_book)
    fresh.nodes.amounts.places(resources)  # before pods are counted there
    priorities = {pod.priority for pod_id in ours.pod_ids() if (pod := ours.get(pod_id)) is not None}
    for priority in sorted(priorities):
        believed, right = _crowd(running, ours, priority, resources), _crowd(fresh, theirs, priority, resources)
        for name in believed.keys() | right.keys():
            if believed.get(name) != right.get(name):
                what = f"room for pods nominated with priority {priority}"
                yield StateDifference(
                    "nomination", Node, name, what, str(believed.get(name, 0)), str(right.get(name, 0))
                )
        yield None


def _crowd(
    cluster: Cluster, nominated: NominatedLoad, priority: int, resources: list[str]
) -> dict[str, tuple[int, dict[str, int]]]:
    """Node -> how many pods are nominated to it, and what they request."""
    crowd = nominated.crowd_from(priority)
    places = dict(zip(resources, cluster.nodes.amounts.places(resources), strict=True))
    return {
        cluster.nodes.names[row]: (
            int(crowd.pod_count[place]),
            {name: int(crowd.requested[at, place]) for name, at in places.items() if crowd.requested[at, place]},
        )
        for place, row in enumerate(crowd.rows.tolist())
    }


def compare_groups(running: Cluster, fresh: Cluster) -> Findings:
    """The members of pod groups, and how far each has come."""
    if running.groups is None or fresh.groups is None:
        return
    nobody = PodGroupMembers()
    for key in running.groups.members().keys() | fresh.groups.members().keys():
        ours, theirs = (each.members().get(key, nobody) for each in (running.groups, fresh.groups))
        for what in ("unscheduled", "assumed", "assigned"):
            believed, right = (sorted(getattr(each, what)) for each in (ours, theirs))
            if believed != right:
                yield StateDifference("group", None, key, what, str(believed), str(right))
    yield None


def compare_volumes(running: Cluster, fresh: Cluster) -> Findings:
    """Volumes on nodes by driver, and volumes as they are filed by class and claim."""
    for count, _ in enumerate(fresh.refresh_volumes_in_steps(), 1):
        if count % BATCH == 0:
            yield None
    ours, theirs = running.volumes_on_nodes(), fresh.volumes_on_nodes()
    pairing = RowPairing(running.nodes, fresh.nodes)
    for driver in list(ours.by_driver.keys() | theirs.by_driver.keys()):
        nothing = np.zeros(max(running.nodes.capacity, fresh.nodes.capacity), np.int64)
        columns = ours.by_driver.get(driver, nothing), theirs.by_driver.get(driver, nothing)
        for name, believed, right in pairing.now().unequal(*columns):
            yield StateDifference("volume", Node, name, f"volumes of {driver}", str(believed), str(right))
        yield None
    yield from in_batches(pairing.now().names, lambda name: _volumes_of_row(name, running, fresh))
    storage = running.storage
    names = list(storage.filed().keys() | storage.volumes.keys())
    yield from in_batches(names, lambda name: _filed_volume(name, running))


def _volumes_of_row(name: str, running: Cluster, fresh: Cluster) -> Iterator[StateDifference]:
    """Asked of both anew, because between two batches pods may have come."""
    row, other = running.nodes.row_book.get(name), fresh.nodes.row_book.get(name)
    if row is None or other is None:
        return
    ours, theirs = running.volumes_on_nodes().row(row), fresh.volumes_on_nodes().row(other)
    if ours is not theirs and ours != theirs:
        for what in ("used", "attached", "named", "fault"):
            believed, right = getattr(ours, what), getattr(theirs, what)
            if believed != right:
                yield StateDifference("volume", Node, name, f"volumes {what}", str(believed), str(right))


def _filed_volume(name: str, running: Cluster) -> Iterator[StateDifference]:
    volume, filed = running.storage.volume(name), running.storage.filed().get(name)
    if volume is not filed:
        yield StateDifference("volume", PersistentVolume, name, "filed", version_of(filed), version_of(volume))


# ---- devices


def compare_devices(running: Cluster, fresh: Cluster) -> Findings:
    """How many claims hold each device."""
    ours, theirs = running.claims, fresh.claims
    for what in ("exclusive", "shares", "consumed"):
        yield from _unequal("device", what, getattr(ours, what), getattr(theirs, what))
    yield None


def _unequal(
    kind: DifferenceKind, what: str, ours: Mapping[Hashable, object], theirs: Mapping[Hashable, object]
) -> Iterator[StateDifference]:
    """Yield a difference for each key whose values in the running and in the fresh scheduler are not equal."""
    for key in ours.keys() | theirs.keys() if ours != theirs else ():
        if ours.get(key) != theirs.get(key):
            name = "/".join(key) if isinstance(key, tuple) else str(key)
            yield StateDifference(kind, None, name, what, str(ours.get(key, 0)), str(theirs.get(key, 0)))
