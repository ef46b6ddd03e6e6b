"""Fragmentation: the share of what is free that the pods that people run cannot use.

For each shape of the pods of a cluster, weighted by how many pods have it, the free CPU (or memory) on nodes where such a pod
still fits is the usable part; fragmentation is the mean of the rest, as a share of all that is free:

    1 - sum over shapes (share of the shape * free on nodes where the shape fits) / free on all nodes

"Fits" means that every Filter plugin of the pod's profile lets the node pass, as in a decision. So free CPU on a node without
free memory is fragmented, and so is free CPU behind a taint that most pods do not tolerate.

By real use, what is idle (allocatable and not in use) takes the place of what is free (allocatable and not requested). The
scheduler gives away only what is free, so that idle CPU which is requested is fragmented as well.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.runner import Runner
from mooring.framework.kept.feasible import PASSED
from mooring.model.pod import Pod
from mooring.model.quantity import show_percent
from mooring.model.shape import has_storage
from mooring.rules.workload_pods import is_daemon
from mooring.scheduler.decide import DecideOptions, begin
from mooring.sim.gauge import MAIN
from mooring.sim.simulated_cluster import SimulatedCluster

SHAPES = 200
"""How many shapes are asked about, the most frequent: each takes a filter run over all nodes, some 0.1 ms for 5,000."""
SMALL = 100_000
"""Shapes times nodes up to which a matrix of floats is made: it is quicker than a loop over the shapes."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WeighedShape:
    """A pod that stands for all pods of its shape, without a node, and how many these are."""

    pod: Pod
    count: int


def weighed_shapes(pods: Iterable[tuple[Pod, int]]) -> list[WeighedShape]:
    """The shapes of pods, each with how often it counts; the most frequent first.

    Pods of a DaemonSet are left out, because each of them is for one node, and so are pods with claims for volumes or
    devices: another pod like that would have claims of its own.
    """
    counts: Counter[tuple[int, str]] = Counter()
    first: dict[tuple[int, str], Pod] = {}
    for pod, times in pods:
        if is_daemon(pod) or has_storage(pod.spec) or pod.spec.resource_claims:
            continue
        key = id(pod.shape), pod.spec.scheduler_name
        first.setdefault(key, pod)
        counts[key] += times
    return [WeighedShape(_another(first[key]), count) for key, count in counts.most_common() if count]


def _another(pod: Pod) -> Pod:
    """One more pod of this kind, which has no node yet."""
    return pod.with_name(f"{pod.name}-another", f"{pod.id}-another").with_node("")


def cut_shapes(shapes: Sequence[WeighedShape]) -> tuple[list[WeighedShape], list[str]]:
    """The shapes to ask about, and a note if these are not all."""
    kept, pods = [*shapes[:SHAPES]], sum(shape.count for shape in shapes)
    if len(kept) == len(shapes):
        return kept, []
    share = show_percent(sum(shape.count for shape in kept) / pods, decimals=0)
    return kept, [f"fragmentation goes by the {SHAPES} most frequent of {len(shapes)} shapes, {share} of the pods"]


class FilteringCluster(Protocol):
    """A cluster whose profiles can be asked where a pod fits."""

    @property
    def cluster(self) -> Cluster: ...

    def runner(self, pod: Pod) -> Runner | None:
        """The profile that schedules the pod."""


def fragmentation_of(
    simulated: FilteringCluster, shapes: Sequence[WeighedShape], resources: Sequence[str] = MAIN
) -> dict[str, float | None]:
    """By resource; None where nothing is free, or where no pod says what people run."""
    nodes, (fits, counts) = simulated.cluster.nodes, _fitting(simulated, shapes)
    return {name: fragmented_share(free_amounts(nodes, name), fits, counts) for name in resources}


def fragmentation_by_use(
    simulated: FilteringCluster, shapes: Sequence[WeighedShape], used: Mapping[str, Floats]
) -> dict[str, float | None]:
    """By resource of `used`, which has the real use of each row, and NaN for rows of which it is not known: these do not
    count. None where nothing is idle, or where no pod says what people run."""
    nodes, (fits, counts) = simulated.cluster.nodes, _fitting(simulated, shapes)
    return {
        name: fragmented_share(idle_amounts(nodes, name, amounts), fits, counts, free_amounts(nodes, name))
        for name, amounts in used.items()
    }


def _fitting(simulated: FilteringCluster, shapes: Sequence[WeighedShape]) -> tuple[Mask, Floats]:
    """The nodes that fit each shape (shapes x nodes), and how often each shape counts."""
    fits = [fitting_nodes(simulated, shape.pod) for shape in shapes]
    counts = np.array([shape.count for shape in shapes], np.float64)
    return np.array(fits, np.bool_).reshape(len(shapes), simulated.cluster.nodes.height), counts


def fragmented_share(free: Floats, fits: Mask, counts: Floats, given: Floats | None = None) -> float | None:
    """The share of `free` (by node) that shapes cannot use; `fits` is shapes x nodes. They get at most `given` of a node, if
    that is less.

    | free  | fits         | counts | given | share                           |
    | 6 2   | [1 1]        | 1      |       | 0                               |
    | 6 2   | [1 1], [0 1] | 3, 1   |       | (3*0 + 1*6/8) / 4 = 0.1875      |
    | 6 2   | [1 1]        | 1      | 3 9   | 3/8: of the 6, 3 are given      |
    | 0 0   | [1 1]        | 1      |       | None: nothing is free           |
    """
    total = float(free.sum())
    if not total or not len(counts):
        return None
    if given is None:
        return unusable_amount(free, fits, counts) / total
    usable = np.minimum(free, given)
    return (total - float(usable.sum()) + unusable_amount(usable, fits, counts)) / total


def unusable_amount(free: Floats, fits: Mask, counts: Floats) -> float:
    """The part of `free` (by node) that the mean of the shapes cannot use, each as often as it counts."""
    # The product copies all of `fits` as floats.
    usable = fits @ free if fits.size <= SMALL else np.array([free[fitting].sum() for fitting in fits])
    return max(0.0, float(free.sum()) - float(counts @ usable) / float(counts.sum()))


def free_amounts(nodes: NodeTable, resource: str) -> Floats:
    """The amount of a resource that each row has left: 0 where nothing is left, or where no node is."""
    place, rows = nodes.amounts.resource(resource), slice(0, nodes.height)
    free = nodes.amounts.allocatable[place, rows] - nodes.amounts.requested[place, rows]
    return np.where(nodes.alive[rows], np.maximum(free, 0), 0).astype(np.float64)


def idle_amounts(nodes: NodeTable, resource: str, used: Floats) -> Floats:
    """The amount of a resource that each row has and does not use: 0 where the use is not known (NaN), or where no node
    is."""
    place, rows = nodes.amounts.resource(resource), slice(0, nodes.height)
    counts = nodes.alive[rows] & ~np.isnan(used)
    return np.where(counts, np.maximum(nodes.amounts.allocatable[place, rows] - used, 0), 0).astype(np.float64)


def fitting_nodes(simulated: FilteringCluster, pod: Pod) -> Mask:
    """The nodes that pass all filters for a pod; none if its scheduler is another one or an attempt would fail."""
    runner = simulated.runner(pod)
    begun = None if runner is None else begin(runner, pod, simulated.cluster, DecideOptions())
    return np.zeros(simulated.cluster.nodes.height, np.bool_) if begun is None else begun.verdicts.first == PASSED


class TypicalRequests:
    """The most frequent requests of pods, for a measure that is taken after every decision: amounts alone say where a pod
    fits, and no filter is asked."""

    def __init__(self, shapes: Iterable[WeighedShape], resources: Sequence[str], most: int) -> None:
        counted: Counter[tuple[int, ...]] = Counter()
        for shape in shapes:
            counted[tuple(shape.pod.shape.request.get(name, 0) for name in resources)] += shape.count
        frequent = counted.most_common(most)
        self._resources = tuple(resources)
        self._requests = np.array([request for request, _ in frequent], np.float64).reshape(
            len(frequent), len(resources)
        )
        self._counts = np.array([count for _, count in frequent], np.float64)

    def __len__(self) -> int:
        return len(self._counts)

    def unusable_share(self, nodes: NodeTable, of: str) -> float:
        """The expected share of the allocatable amount of a resource that is free where a typical pod does not fit."""
        rows = slice(0, nodes.height)
        total = nodes.amounts.allocatable[nodes.amounts.resource(of), rows][nodes.alive[rows]].sum()
        return (
            unusable_amount(free_amounts(nodes, of), self._fits(nodes), self._counts) / float(total) if total else 0.0
        )

    def fragmentation_by_use(self, nodes: NodeTable, used: Mapping[str, Floats]) -> dict[str, float | None]:
        """The measure of the function of that name, for pods that fit wherever their requests do."""
        fits = self._fits(nodes)
        return {
            name: fragmented_share(idle_amounts(nodes, name, amounts), fits, self._counts, free_amounts(nodes, name))
            for name, amounts in used.items()
        }

    def _fits(self, nodes: NodeTable) -> Mask:
        free = np.array([free_amounts(nodes, name) for name in self._resources])
        found: Mask = np.all(self._requests[:, :, None] <= free[None, :, :], axis=1)
        return found


class FragmentationGauge:
    """The mean over a day of which `horizon_ns` is the likely length, from some 32 looks at the cluster.

    A look is taken before the clock moves, and its shares count until the time that the clock moves to. So they count for the
    time in which they hold. Moves before it that together are shorter than a step count with it: to look each time would take
    too long.
    """

    MOMENTS = 32

    def __init__(self, simulated: SimulatedCluster, shapes: Sequence[WeighedShape], horizon_ns: int) -> None:
        self._simulated, self._shapes = simulated, shapes
        self._step_ns = max(horizon_ns // self.MOMENTS, 1)
        self._counted_ns = simulated.clock.now_ns()
        """The time until which shares are counted."""
        self._taken = 0
        self._sums = dict.fromkeys(MAIN, 0.0)
        self._times_ns = dict.fromkeys(MAIN, 0)

    def read(self, until_ns: int) -> None:
        """To be called before each step of the clock, which goes to `until_ns`."""
        if until_ns >= self._counted_ns + self._step_ns:
            self._take(until_ns)

    def mean(self) -> dict[str, float | None]:
        """By resource, at the end of the day; None if nothing was free at any of the moments."""
        now_ns = self._simulated.clock.now_ns()
        if now_ns > self._counted_ns or not self._taken:
            self._take(max(now_ns, self._counted_ns + 1))  # a day without time has one moment
        return {name: self._sums[name] / self._times_ns[name] if self._times_ns[name] else None for name in MAIN}

    def _take(self, until_ns: int) -> None:
        """Count the present shares until that time."""
        passed_ns = until_ns - self._counted_ns
        for name, share in fragmentation_of(self._simulated, self._shapes).items():
            if share is not None:
                self._sums[name] += share * passed_ns
                self._times_ns[name] += passed_ns
        self._counted_ns, self._taken = until_ns, self._taken + 1
        if self._taken % self.MOMENTS == 0:
            self._step_ns *= 2  # the day is longer than expected: the number of moments grows with its logarithm
