"""Pods that could leave so that one more pod of a group fits on their node, counted in resources alone."""

from collections.abc import Mapping

from mooring.answers.trial.owners import is_daemon
from mooring.cluster.cluster import Cluster
from mooring.model.pod import Pod


def leavers_by_node(cluster: Cluster, member: Pod) -> list[list[Pod]]:
    """For each node that can hold one more such pod if some leave: the fewest found that have to.

    Nodes whose pods have the lowest priorities come first, then those from which few leave. Whether the group is placed then,
    an attempt has to tell.
    """
    found = []
    for row, name in enumerate(cluster.nodes.names[: cluster.nodes.height]):
        leavers = _leavers(cluster, row, member) if cluster.nodes.alive[row] else []
        if leavers:
            found.append(((max(pod.priority for pod in leavers), len(leavers), name), leavers))
    return [leavers for _, leavers in sorted(found, key=lambda each: each[0])]


def _leavers(cluster: Cluster, row: int, member: Pod) -> list[Pod]:
    """The pods that have to leave a node for one more slot; none if they would free too little."""
    wants = {name: amount for name, amount in member.shape.request.items() if amount}
    free = _free(cluster, row, wants)
    slots = min((free[name] // wants[name] for name in wants), default=0)
    lack = {name: (max(slots, 0) + 1) * wants[name] - free[name] for name in wants}
    pods = [pod for pod in cluster.nodes.pods_on[row] if not is_daemon(pod) and not pod.is_terminating]
    chosen = []
    for pod in sorted(pods, key=lambda pod: (pod.priority, _left(lack, pod), -_freed(lack, pod), pod.key)):
        if all(amount <= 0 for amount in lack.values()):
            break
        if _freed(lack, pod):
            chosen.append(pod)
            lack = {name: amount - pod.shape.held.get(name, (0, 0))[0] for name, amount in lack.items()}
    return chosen if all(amount <= 0 for amount in lack.values()) else []


def _free(cluster: Cluster, row: int, wants: Mapping[str, int]) -> dict[str, int]:
    amounts = cluster.nodes.amounts
    places = zip(wants, amounts.places(wants), strict=True)
    return {name: int(amounts.allocatable[at, row] - amounts.requested[at, row]) for name, at in places}


def _left(lack: Mapping[str, int], pod: Pod) -> bool:
    """Whether something is still missing when the pod has left."""
    return any(amount > pod.shape.held.get(name, (0, 0))[0] for name, amount in lack.items())


def _freed(lack: Mapping[str, int], pod: Pod) -> float:
    """How much of what is missing the pod frees, in shares."""
    return sum(min(amount, pod.shape.held.get(name, (0, 0))[0]) / amount for name, amount in lack.items() if amount > 0)
