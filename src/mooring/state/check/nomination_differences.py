"""Compares the room that is kept for nominated pods, and the members of pod groups."""

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.model.node import Node
from mooring.state.check.difference import Findings, StateDifference


def compare_nominated(running: Cluster, fresh: Cluster) -> Findings:
    """What nominated pods will take, node by node. Which pods are nominated is the same on both sides."""
    ours, theirs = running.nominated, fresh.nominated
    resources = list(running.nodes.amounts.resource_book)
    fresh.nodes.amounts.places(resources)  # before pods are counted there
    priorities = {pod.priority for name in dict.fromkeys(ours._node_of.values()) for pod in ours.on(name)}
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
    for key in running.groups._groups.keys() | fresh.groups._groups.keys():
        ours, theirs = (each._groups.get(key, nobody) for each in (running.groups, fresh.groups))
        for what in ("unscheduled", "assumed", "assigned"):
            believed, right = (sorted(getattr(each, what)) for each in (ours, theirs))
            if believed != right:
                yield StateDifference("group", None, key, what, str(believed), str(right))
    yield None
