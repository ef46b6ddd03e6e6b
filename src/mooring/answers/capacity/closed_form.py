"""The numbers of `one_by_one.py` at once, where a node's answer depends on nothing but its own sums.

Then the order in which copies go to nodes does not matter in the end: each node takes as many as its free resources and its
allowed pods say. Whether that is so, the plugins declare themselves (`@reads`, `demand`). The core has the last word: the
counts are laid on a fork of the cluster, and its decision there must be that no further copy fits.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from mooring.answers.capacity.one_by_one import CopyPlacer, Filling
from mooring.answers.capacity.pod_copies import PodCopies
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.resource_amounts import cells
from mooring.framework.attempt import Attempt, PodRejected, Verdicts
from mooring.framework.feasible import PASSED
from mooring.framework.leave_room import leave_room
from mooring.framework.points import Reads, ResourceDemand
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.plugins.builtin import IN_TREE
from mooring.scheduler.decision import NoFit

Counts = NDArray[np.int64]


def fill_at_once(placer: CopyPlacer, copies: PodCopies) -> Filling | None:
    """As many copies as fit; None if that cannot be worked out at once."""
    pod, claims = copies.copy(0)
    runner = placer.runner(pod)
    if runner is None or claims or not _has_only_builtin_plugins(runner) or placer.gate(pod) is not None:
        return None
    attempt = runner.open(pod, placer.cluster)
    narrowing = attempt.pre_filter()
    if isinstance(narrowing, PodRejected):
        return None
    demand = _only_demand(attempt)
    if demand is None or not _holds_what_it_requests(pod):
        return None
    verdicts = attempt.filter(narrowing)
    if placer.cluster.nominated:
        leave_room(attempt, verdicts, placer.cluster.nominated)
    return _filled(placer, copies, pod, demand, room(attempt, verdicts, demand))


def _has_only_builtin_plugins(runner: Runner) -> bool:
    return all(type(plugin) in IN_TREE for plugin in runner.profile.plugins.values())


def _only_demand(attempt: Attempt) -> ResourceDemand | None:
    """What the one filter compares that reads sums; None if another filter reads more than facts of the node."""
    found = None
    for index, plugin in attempt.active_filters():
        reads = attempt.runner.filter_reads[index]
        if reads <= Reads.NODE:
            continue
        demand = plugin.demand(attempt.context) if reads is Reads.TOTALS else None
        if demand is None or demand.waived is not None or found is not None:
            return None
        found = demand
    return found


def _holds_what_it_requests(pod: Pod) -> bool:
    """Whether a copy takes from its node what it is compared by."""
    return {name: amount for name, (amount, _) in pod.shape.held.items() if amount} == {
        name: amount for name, amount in pod.shape.request.items() if amount
    }


def room(attempt: Attempt, verdicts: Verdicts, demand: ResourceDemand) -> Counts:
    """By row how many pods of the attempt's kind fit.

    | free cpu | free memory | free pods | request | passes | room |
    | 5        | 9           | 110       | 2, 2    | yes    | 2    |
    | 5        | 9           | 1         | 2, 2    | yes    | 1    |
    | 5        | 9           | 110       | 2, 2    | no     | 0    |
    """
    nodes, pod = attempt.context.nodes, attempt.context.pod
    rows = slice(0, nodes.height)
    places = nodes.allowed_pods[rows] - nodes.pod_count[rows]
    free = cells(nodes.amounts.allocatable, demand.resources, rows) - cells(
        nodes.amounts.requested, demand.resources, rows
    )
    if attempt.context.cluster.nominated:
        crowd = attempt.context.cluster.nominated.crowd_beside(pod)
        places[crowd.rows] -= crowd.pod_count
        free[:, crowd.rows] -= crowd.requested[demand.resources]
    fitting = np.vstack((places[None, :], free // np.maximum(demand.amounts, 1))).min(0)
    return np.where(verdicts.first == PASSED, np.maximum(fitting, 0), 0)


def _filled(placer: CopyPlacer, copies: PodCopies, pod: Pod, demand: ResourceDemand, counts: Counts) -> Filling | None:
    """The counts, if the core agrees that no further copy fits beside them."""
    fork = _with_sums(placer.cluster, demand, counts)
    decision = placer.decide(pod, cluster=fork)
    if not isinstance(decision, NoFit):
        return None
    names = placer.cluster.nodes.names
    pods = Counter({(names[row], copies.name): int(counts[row]) for row in np.flatnonzero(counts)})
    return Filling(pods, int(counts.sum()), decision, copies, pod, fork)


def _with_sums(cluster: Cluster, demand: ResourceDemand, counts: Counts) -> Cluster:
    """A fork in which so many pods more are counted on each row: in the sums that the demand is compared with, and nowhere
    else."""
    fork = cluster.fork()
    requested, rows = fork.nodes.amounts.requested, slice(0, fork.nodes.height)
    requested[demand.resources, rows] += demand.amounts * counts
    fork.nodes.pod_count[rows] += counts
    return fork
