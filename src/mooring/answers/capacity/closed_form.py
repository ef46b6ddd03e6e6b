"""The numbers of `one_by_one.py` at once, where a node's answer depends on nothing but its own sums.

Then the order in which copies go to nodes does not matter in the end: each node takes as many as its free resources and its
allowed pods say. Whether that is so, the plugins declare themselves (`@reads`, `demand`). The core has the last word: the
counts are laid on a fork of the cluster, and its decision there must be that no further copy fits.
"""

from collections import Counter

import numpy as np

from mooring.answers.capacity.one_by_one import CopyPlacer, Filling
from mooring.answers.capacity.pod_copies import PodCopies
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Ints
from mooring.framework.attempts.runner import Runner
from mooring.framework.attempts.slots import count_slots
from mooring.framework.contract.points import ResourceDemand
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.plugins.builtin import in_tree_plugins
from mooring.scheduler.decision import NoFit


def fill_at_once(placer: CopyPlacer, copies: PodCopies) -> Filling | None:
    """As many copies as fit; None if that cannot be worked out at once."""
    pod, claims = copies.copy(0)
    runner = placer.runner(pod)
    if runner is None or claims or not _has_only_builtin_plugins(runner) or placer.gate(pod) is not None:
        return None
    try:
        slots = count_slots(runner.open(pod, placer.cluster))
    except AttemptError:
        return None  # the decision on the first copy says it
    if slots is None or len(slots.demands) != 1 or slots.demands[0].waived is not None:
        return None
    return _filled(placer, copies, pod, slots.demands[0], slots.counts) if _holds_what_it_requests(pod) else None


def _has_only_builtin_plugins(runner: Runner) -> bool:
    return all(type(plugin) in in_tree_plugins() for plugin in runner.profile.plugins.values())


def _holds_what_it_requests(pod: Pod) -> bool:
    """Whether a copy takes from its node what it is compared by, and nothing else: `_with_sums` counts no more."""
    return {name: amount for name, (amount, _) in pod.shape.held.items() if amount} == {
        name: amount for name, amount in pod.shape.request.items() if amount
    }


def _filled(placer: CopyPlacer, copies: PodCopies, pod: Pod, demand: ResourceDemand, counts: Ints) -> Filling | None:
    """The counts, if the core agrees that no further copy fits beside them."""
    fork = _with_sums(placer.cluster, demand, counts)
    decision = placer.decide(pod, cluster=fork)
    if not isinstance(decision, NoFit):
        return None
    names = placer.cluster.nodes.names
    pods = Counter({(names[row], copies.name): int(counts[row]) for row in np.flatnonzero(counts)})
    return Filling(pods, int(counts.sum()), decision, copies, pod, fork)


def _with_sums(cluster: Cluster, demand: ResourceDemand, counts: Ints) -> Cluster:
    """A fork in which so many pods more are counted on each row: in the sums that the demand is compared with, and nowhere
    else."""
    fork = cluster.fork()
    requested, rows = fork.nodes.amounts.requested, slice(0, fork.nodes.height)
    requested[demand.resources, rows] += demand.amounts * counts
    fork.nodes.pod_count[rows] += counts
    return fork
