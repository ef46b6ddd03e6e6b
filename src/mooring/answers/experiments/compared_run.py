"""One run of a comparison: a simulation under one configuration, its figures and where each pod went."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from mooring.answers.experiments.figures import (
    PLACEMENTS,
    PriorityFigures,
    RunFigures,
    UseFigures,
    curves_of,
    group_figures,
    pack,
    placements_digest,
    wait_figures,
)
from mooring.answers.experiments.run_plan import RunPlan, digest_of
from mooring.answers.experiments.workers import RunFault
from mooring.answers.form.report_parts import wait_counts
from mooring.answers.form.utilisation import utilisation_of
from mooring.answers.trial.node_prices import node_prices
from mooring.api.validation.problem import Problem
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.profile.registry import Registry, load_file
from mooring.inputs.arrivals import MAX_ARRIVALS, Arrival, ArrivalsError, ListedArrivals, PlannedChange
from mooring.inputs.generated_load import GeneratedLoad
from mooring.inputs.load_plan import MAX_PODS, LoadPlan, LoadPlanError
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.bounded_reading import read_file
from mooring.kit.callbacks import Progress
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.rules.workload_pods import is_daemon
from mooring.sim.day import Day, DayReport, Waits
from mooring.sim.fragmentation import FragmentationGauge, WeighedShape, cut_shapes, fragmentation_of, weighed_shapes
from mooring.sim.results import Fate, PodCounts, Report, SimulatedEviction
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.sim.simulation import UNTIL_NS, Simulation
from mooring.state.scheduler_assembly import all_plugins

# ---- More or fewer pods of the same kind: what `load=1.5` means.


def scaled_arrivals(arrivals: Sequence[Arrival], load: float, objects: Sequence[KubeObject] = ()) -> list[Arrival]:
    """As many arrivals as `load` says, evenly over those that are given, in the order of time.

    A load of 0.5 leaves every second one out, a load of 2 has each twice; a copy has its own name and the same time.
    Raises ArrivalsError if there are too many.
    """
    if load == 1:
        return [*arrivals]
    if len(arrivals) * load > MAX_ARRIVALS:
        told = f"{load:g} times {len(arrivals)} pods are more than {MAX_ARRIVALS}: write a smaller load"
        raise ArrivalsError([Problem("load", told)])
    taken = {item.key for item in objects if isinstance(item, Pod)} | {arrival.pod.key for arrival in arrivals}
    scaled = []
    for i, arrival in enumerate(sorted(arrivals, key=lambda arrival: arrival.at_ns)):
        times = math.floor((i + 1) * load) - math.floor(i * load)
        scaled += [arrival if copy == 0 else _copy(arrival, copy, taken) for copy in range(times)]
    return scaled


def _copy(arrival: Arrival, number: int, taken: set[str]) -> Arrival:
    pod = arrival.pod
    name = f"{pod.name}-copy-{number}"
    while f"{pod.namespace}/{name}" in taken:
        name += "-x"
    key = f"{pod.namespace}/{name}"
    taken.add(key)
    return Arrival(arrival.at_ns, pod.with_name(name, key), arrival.run_ns)


def scaled_plan(plan: LoadPlan, load: float) -> LoadPlan:
    """The plan with as many pods as `load` says. Raises LoadPlanError if there are too many."""
    pods = max(round((plan.pods or 0) * load), 1)
    if pods > MAX_PODS:
        told = f"{load:g} times {plan.pods} pods are more than {MAX_PODS}: write a smaller load"
        raise LoadPlanError([Problem("load", told)])
    return plan if load == 1 else msgspec.structs.replace(plan, pods=pods)


HOUR_NS = 3600 * NS_PER_S


@dataclass
class RunInputs:
    """The inputs that all runs have in common. They are sent to each worker process once; the registry is built there
    again."""

    objects: Sequence[KubeObject]
    arrivals: Sequence[Arrival] | None = None
    load_plan: LoadPlan | None = None
    gates: Mapping[str, bool] | None = None
    plugin_files: tuple[str, ...] = ()
    until_ns: int | None = None
    prices: PriceList | None = None
    registry: Registry | None = field(default=None, repr=False)
    """The registry of the process that asks; worker processes build theirs from `plugin_files`."""
    changes: Sequence[PlannedChange] = ()
    """The changes that others make while a day passes."""
    replaced: frozenset[str] = frozenset()
    """Pods whose replacements, should they be preempted, are among the arrivals."""

    @property
    def is_day(self) -> bool:
        return self.arrivals is not None or self.load_plan is not None

    @cached_property
    def own_registry(self) -> Registry:
        if self.registry is not None:
            return self.registry
        registry = all_plugins()
        for file in self.plugin_files:
            load_file(registry, file)
        return registry

    @cached_property
    def shapes(self) -> tuple[list[WeighedShape], list[str]]:
        """The measure of fragmentation, the same for all runs, whatever their load; and a note about it."""
        return cut_shapes(weighed_shapes(self._counted_pods()))

    @cached_property
    def nodes(self) -> list[Node]:
        coming = (change.item for change in self.changes)
        given = [*{item.name: item for item in (*self.objects, *coming) if isinstance(item, Node)}.values()]
        return [*given, *self._as_planned.nodes] if self.load_plan is not None else given

    @cached_property
    def node_prices(self) -> dict[str, float]:
        """The price of an hour of each node, by name; empty if no price is known. Raises InputError."""
        return node_prices(self.nodes, self.prices)

    def generated(self, load: float) -> GeneratedLoad:
        """The load of the plan, scaled. Raises LoadPlanError."""
        assert self.load_plan is not None
        return self._as_planned if load == 1 else GeneratedLoad(scaled_plan(self.load_plan, load), self.objects)

    @cached_property
    def _as_planned(self) -> GeneratedLoad:
        assert self.load_plan is not None
        return GeneratedLoad(self.load_plan, self.objects)

    def pods_per_run(self) -> int:
        coming = len(self.arrivals or ()) + ((self.load_plan.pods or 0) if self.load_plan is not None else 0)
        return coming + sum(isinstance(item, Pod) and not item.spec.node_name for item in self.objects)

    def digest(self, version: str) -> str:
        """Changes with everything that a run depends on, apart from its plan."""
        files = [hashlib.sha256(read_file(file)).hexdigest() for file in self.plugin_files]
        plan, is_listed = msgspec.to_builtins(self.load_plan), self.arrivals is not None
        rest = [plan, is_listed, self.gates, files, self.until_ns, msgspec.to_builtins(self.prices), version]
        total = hashlib.sha256(digest_of(rest).encode())
        for item in self.objects:
            total.update(type(item).__name__.encode() + msgspec.json.encode(item))
        for arrival in self.arrivals or ():
            total.update(msgspec.json.encode((arrival.at_ns, arrival.run_ns, arrival.pod)))
        for change in self.changes:
            total.update(msgspec.json.encode((change.at_ns, change.is_removal, change.item)))
        return total.hexdigest()[:16]

    def run(self, plan: RunPlan, on_progress: Progress | None = None) -> "RunResult":
        """Run a plan. Raises ConfigError, InputError."""
        return run_once(self, plan, on_progress)

    def failed(self, plan: RunPlan, reason: str) -> "RunResult":
        """A comparison needs all of its runs. Raises RunFault."""
        raise RunFault(reason)

    def _counted_pods(self) -> Iterator[tuple[Pod, int]]:
        yield from ((item, 1) for item in self.objects if isinstance(item, Pod) and not item.is_finished)
        yield from ((arrival.pod, 1) for arrival in self.arrivals or ())
        if self.load_plan is not None:
            load = self._as_planned
            yield from ((pod, count) for pod, count in zip(load.pods(), load.counts(), strict=True) if count)

    def __getstate__(self) -> dict[str, Any]:
        """Without what each process makes for itself."""
        own = {"registry": None}
        return {name: own.get(name, getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run."""

    figures: RunFigures
    placements: str = field(repr=False)
    """Packed (placements.py); empty if the run has so many pods that only their digest is kept."""
    placements_digest: str


Look = Callable[[SimulatedCluster, "RunResult"], None]
"""Called with the cluster at the end of a run, and its result."""


def run_once(
    inputs: RunInputs, plan: RunPlan, on_progress: Progress | None = None, look: Look | None = None
) -> RunResult:
    """Run a plan. Raises ConfigError, InputError."""
    result, simulated = (_run_day if inputs.is_day else _run_at_once)(inputs, plan, on_progress)
    if look is not None:
        look(simulated, result)
    return result


# ---- all pods at once


def _run_at_once(inputs: RunInputs, plan: RunPlan, on_progress: Progress | None) -> tuple[RunResult, SimulatedCluster]:
    simulation = Simulation(inputs.objects, plan.config, inputs.own_registry, inputs.gates, plan.seed)
    until_ns = UNTIL_NS if inputs.until_ns is None else inputs.until_ns
    report = simulation.run(None, on_progress, None, until_ns)
    simulated = simulation.simulated
    now_ns = simulated.clock.now_ns()
    used = NodesInUse(simulated.cluster.nodes, now_ns).used_ns(now_ns)
    prices, (shapes, notes) = inputs.node_prices, inputs.shapes
    waited_s = [result.waited_s for result in report.pods if result.waited_s is not None]
    figures = RunFigures(
        *_counted(report.counts),
        simulated.scheduler.attempts,
        report.simulated_s,
        wait_figures(waited_s),
        [_priority_figures(waits) for waits in _waits_of(report)],
        use_now(simulated.cluster.nodes),
        fragmentation_of(simulated, shapes),
        len(used),
        None,
        float(sum(prices[name] for name in used) if prices else len(used)),
        [*report.notes, *notes],
        wait_counts(waited_s),
        groups=group_figures([(group.is_placed, group.waited_s) for group in report.groups]),
    )
    placements = {result.pod.key: result.node or None for result in report.pods}
    return _result(figures, placements, report.preempted), simulated


def _waits_of(report: Report) -> list[Waits]:
    """By priority, the highest first, as the report of a day has them."""
    found: dict[int, Waits] = {}
    for result in report.pods:
        waits = found.setdefault(result.pod.priority, Waits(result.pod.priority))
        if result.waited_s is not None:
            waits.waited_s.append(result.waited_s)
        waits.preempted += result.fate is Fate.PREEMPTED
    for result in report.pending:
        found[result.pod.priority].pending += 1
    return [found[priority] for priority in sorted(found, reverse=True)]


def use_now(nodes: NodeTable) -> dict[str, UseFigures]:
    """The requested shares of schedulable nodes, as `simulate` and `what-if` tell them."""
    total = utilisation_of(nodes).total
    shares = {name: total.share(name) for name in total.amounts}
    return {name: UseFigures(share, share) for name, share in shares.items() if share is not None}


# ---- pods over time


def _run_day(inputs: RunInputs, plan: RunPlan, on_progress: Progress | None) -> tuple[RunResult, SimulatedCluster]:
    day, over_ns, horizon_ns = _day(inputs, plan)
    simulated = day.simulated
    clock = simulated.clock
    in_use = NodesInUse(simulated.cluster.nodes, clock.now_ns())
    shapes, notes = inputs.shapes
    gauge = FragmentationGauge(simulated, shapes, horizon_ns)

    def read(until_ns: int) -> None:
        in_use.read(clock.now_ns())
        gauge.read(until_ns)

    day.on_reading = read
    report = day.run(over_ns, on_progress)
    used_ns, prices = in_use.used_ns(clock.now_ns()), inputs.node_prices
    cost = sum(prices[name] * ns / HOUR_NS for name, ns in sorted(used_ns.items())) if prices else len(used_ns)
    waited_s = [each for waits in report.waits for each in waits.waited_s]
    figures = RunFigures(
        *_counted(report.counts),
        report.attempts,
        report.simulated_s,
        wait_figures(waited_s),
        [_priority_figures(waits) for waits in report.waits],
        _use_over_time(report),
        gauge.mean(),
        len(used_ns),
        sum(used_ns.values()) / HOUR_NS,
        float(cost),
        [*report.notes, *notes],
        wait_counts(waited_s),
        curves_of(report),
        group_figures([(group.waited_s is not None, group.waited_s) for group in report.groups]),
    )
    placements = {**report.placements, **dict.fromkeys(day.pending_keys())}
    return _result(figures, placements, report.preempted), simulated


def _day(inputs: RunInputs, plan: RunPlan) -> tuple[Day, int | None, int]:
    """A day, when it is to end, and how long it is likely to be."""
    objects, until_ns = inputs.objects, inputs.until_ns
    settings = (plan.config, inputs.own_registry, inputs.gates)
    if inputs.load_plan is not None:
        load = inputs.generated(plan.load)
        over_ns = load.over_ns if until_ns is None else until_ns
        return Day([*objects, *load.nodes], load, *settings, ties=plan.seed), over_ns, over_ns
    arrivals = scaled_arrivals(inputs.arrivals or (), plan.load, objects)
    last_ns = max((arrival.at_ns + (arrival.run_ns or 0) for arrival in arrivals), default=0)
    stream = ListedArrivals(arrivals, inputs.changes, inputs.replaced)
    day = Day(objects, stream, *settings, ties=plan.seed)
    return day, until_ns, last_ns if until_ns is None else until_ns


def _use_over_time(report: DayReport) -> dict[str, UseFigures]:
    peaks = {name: max(span.used.get(name, 0.0) for span in report.spans) for name in report.mean_used}
    return {name: UseFigures(mean, peaks[name]) for name, mean in report.mean_used.items()}


# ---- both


def _counted(counts: PodCounts) -> tuple[int, int, int, int]:
    return counts.pods, counts.placed, counts.pending, counts.preempted


def _priority_figures(waits: Waits) -> PriorityFigures:
    bound = len(waits.waited_s)
    return PriorityFigures(waits.priority, bound, waits.pending, waits.preempted, wait_figures(waits.waited_s))


def _result(
    figures: RunFigures, placements: dict[str, str | None], evictions: Sequence[SimulatedEviction]
) -> RunResult:
    """The result, with no node for the pods that were preempted. Pods that replace them have names of their own, but those of
    StatefulSets have the same."""
    gone = (eviction.pod.key for eviction in evictions if eviction.replaced_by != eviction.pod.key)
    placements.update(dict.fromkeys(gone))
    kept = pack(placements) if len(placements) <= PLACEMENTS else ""
    return RunResult(figures, kept, placements_digest(placements))


class NodesInUse:
    """Follows which nodes are in use and for how long. `read` is to be called each time before the clock moves.

    A node is in use while it has a pod that does not belong to a DaemonSet: without such pods it could be switched off.
    """

    def __init__(self, nodes: NodeTable, now_ns: int) -> None:
        self._nodes = nodes
        self._position = -1
        self._since: dict[int, tuple[str, int]] = {}
        """Row -> the node that is in use there, and since when. Another node may take the row of one that is removed."""
        self._used_ns: dict[str, int] = {}
        """How long nodes were in use before; every node that ever was is there."""
        self.read(now_ns)

    def read(self, now_ns: int) -> None:
        touches = self._nodes.touches
        if touches.end == self._position:
            return
        rows = touches.since(self._position)  # None at first: the log begins later
        for row in range(self._nodes.height) if rows is None else rows:
            self._look_at(row, now_ns)
        self._position = touches.end

    def _look_at(self, row: int, now_ns: int) -> None:
        nodes = self._nodes
        is_used = bool(nodes.alive[row]) and not all(map(is_daemon, nodes.pods_on[row]))
        if held := self._since.pop(row, None):
            self._used_ns[held[0]] += now_ns - held[1]
        if is_used:
            self._since[row] = nodes.names[row], now_ns
            self._used_ns.setdefault(nodes.names[row], 0)

    def used_ns(self, now_ns: int) -> dict[str, int]:
        """How long each node was in use, of those that ever were."""
        self.read(now_ns)
        for row, (name, since_ns) in self._since.items():
            self._used_ns[name] += now_ns - since_ns
            self._since[row] = name, now_ns
        return dict(self._used_ns)
