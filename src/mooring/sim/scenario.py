"""Conformance and benchmark scenarios: objects, and pods to attempt in order, one attempt each.

`Placer` attempts single pods without a queue and without time: each attempt sees the placements before it. `mooring
conform decide` and `mooring bench` use it; everything with time uses `drivers/simulated_driver.py`.

`OneByOne` is for pods that arrive one by one, never leave, and are given up if they do not fit. Nothing can wait in
such a run, so it needs no queue, no clock and no events: each pod is decided about once, by the decision, the Reserve
plugins and the node table of a scheduler. PostFilter does not run: a pod that does not fit evicts no other.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import msgspec
import numpy as np

from mooring.api.decode import decode_json
from mooring.api.kinds import KINDS
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.table import ClusterError
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.drivers.single_attempts import gate_of, reserve, write_through
from mooring.framework import config
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.feature_gates import parse_gates, with_defaults
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.intents import Bind, Evict
from mooring.framework.contract.points import Nomination, Plugin, SchedulerServices
from mooring.framework.contract.status import Rejection
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import InputError, ScenarioError
from mooring.kit.choice import mix
from mooring.kit.clock import VirtualClock
from mooring.kit.process import relax_collector
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.preemption.victim_search import PREFIX, Findings, nominate
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.scheduler.extender_steps import at_once
from mooring.scheduler.inputs import BindAnswered, ObjectAdded
from mooring.scheduler.post_filter import PostFilterResult, ask_in_order, run_post_filter_plugins
from mooring.scheduler.ties import TieBreak, first_row, lowest_name
from mooring.sim.controllers import VolumeController
from mooring.state.scheduler_assembly import all_plugins, build_runners, build_scheduler

# ---- the placer


class Outcome(Enum):
    """How an attempt ended; the values are those of the conformance corpus."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IGNORED = "ignored"
    ALREADY_SCHEDULED = "already-scheduled"
    ERROR = "error"
    RESERVE_FAILED = "reserve-failed"


@dataclass(slots=True)
class Step:
    """One attempt."""

    pod: Pod
    outcome: Outcome
    decision: Decision | None = None
    gate: Rejection | None = None
    room: PostFilterResult | None = None
    """The result of PostFilter, for a pod that fits on no node."""
    findings: Findings | None = None
    """All candidates of preemption. Upstream picks any of the best; the corpus needs one, so the lowest node name is
    taken."""


class Placer:
    """A cluster, its pending pods, and the profiles that place them."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        options: DecideOptions,
        registry: Registry | None = None,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        """`gates`: feature gates by name; one that is not named has its default. Raises ConfigError."""
        gates = with_defaults(gates)
        self.cluster = Cluster(gates)
        self.nominated = self.cluster.nominated
        self.pending: dict[str, Pod] = {}
        self._runners = build_runners(
            config, registry, SchedulerServices(self.cluster, want=partial(write_through, self.cluster)), gates
        )
        self._options = options
        self._attempts = 0
        self._placed: set[str] = set()
        """Pods that this placer placed: such a pod is pending again after its preemption, any other victim is gone."""

    def put(self, item: KubeObject) -> None:
        """Add an object: a pod without a node is pending, everything else is part of the cluster."""
        if isinstance(item, Pod) and not item.spec.node_name and not item.is_finished:
            self.pending[item.key] = item
            if item.status.nominated_node_name and self.runner_of(item) is not None:
                self.nominated.promise(item, item.status.nominated_node_name)
            item.shape.work_out()  # when the pod arrives, as in a scheduler: a benchmark does not count it
            _ = item.label_set
        else:
            self.cluster.put(item)

    def runner_of(self, pod: Pod) -> Runner | None:
        """The profile that schedules the pod; None: no profile has the name that it asks for."""
        return self._runners.get(pod.spec.scheduler_name)

    def place(self, key: str) -> Step:
        """Attempt one pod. A pod that is placed stays on its node."""
        pod = self.pending.get(key)
        if pod is None:
            placed = next((p for p in self.cluster.nodes.pods() if p.key == key), None)
            return Step(placed or Pod(), Outcome.ALREADY_SCHEDULED)
        runner = self.runner_of(pod)
        if runner is None:
            return Step(pod, Outcome.IGNORED)
        gate = gate_of(runner, pod)
        if isinstance(gate, DecisionError):
            return Step(pod, Outcome.ERROR, gate)
        if gate is not None:
            return Step(pod, Outcome.GATED, gate=gate)
        self._attempts += 1
        decision = decide(runner, pod, self.cluster, self._options, self._attempts)
        if isinstance(decision, NoFit):
            return self._preempt(runner, pod, decision)
        if isinstance(decision, DecisionError):
            return Step(pod, Outcome.ERROR, decision)
        if reserve(runner, decision) is not None:
            return Step(pod, Outcome.RESERVE_FAILED, decision)
        del self.pending[key]
        self.nominated.withdraw(pod.id)
        self.cluster.nodes.place(pod, decision.node)
        self._placed.add(key)
        return Step(pod, Outcome.SCHEDULED, decision)

    def _preempt(self, runner: Runner, pod: Pod, decision: NoFit) -> Step:
        """Run PostFilter: victims leave at once, and the pod is nominated for its next attempt."""
        step = Step(pod, Outcome.UNSCHEDULABLE, decision)
        if decision.failure is None:
            return step
        step.room = at_once(run_post_filter_plugins(runner, decision.failure))
        preemption = runner.profile.plugin(DefaultPreemption.name)
        if step.room.nomination is None and preemption in runner.profile.post_filters:
            step.room = _own_words(preemption, decision.failure, step.room)
        if step.room.nomination and isinstance(preemption, DefaultPreemption):
            step.findings = found = preemption.search(decision.failure)
            names = self.cluster.nodes.names
            lowest = min(found.least_harmful().tolist(), key=lambda row: names[row])
            step.room.nomination = nominate(names[lowest], found.victims(lowest))
        if step.room.nomination is not None:
            self._act_on(pod, step.room.nomination)
        return step

    def _act_on(self, pod: Pod, nomination: Nomination) -> None:
        """Carry out a nomination: victims leave, and lower-priority nominations on the node are cleared, as
        upstream does."""
        for victim in nomination.victims:
            self.cluster.nodes.displace(victim.id)
            if victim.key in self._placed:
                self.pending[victim.key] = victim
        for other in self.nominated.on(nomination.node_name):
            if other.priority < pod.priority:
                self._promise(other, "")
        self._promise(pod, nomination.node_name)

    def _promise(self, pod: Pod, node_name: str) -> None:
        """Set the nominated node in the pod's status ("" clears it), and reserve room there."""
        self.nominated.withdraw(pod.id)
        status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
        updated = msgspec.structs.replace(pod, status=status)
        self.pending[pod.key] = updated
        if node_name:
            self.nominated.promise(updated, node_name)


def _own_words(preemption: Plugin | None, failure: RejectedAttempt, room: PostFilterResult) -> PostFilterResult:
    """The message of DefaultPreemption if an earlier PostFilter plugin ended the run: the corpus always has it."""
    if not isinstance(preemption, DefaultPreemption) or PREFIX in room.message:
        return room
    own = at_once(ask_in_order((preemption,), failure))
    return msgspec.structs.replace(room, message=own.message)


# ---- scenarios

UNUSABLE = (msgspec.MsgspecError, ValueError, OverflowError, ClusterError, RecursionError)
"""The errors of input that is no object, and of objects that cannot be counted or contradict each other."""


class Scenario(msgspec.Struct):
    """A line of the corpus; objects stay JSON until their kind is known."""

    name: str = ""
    config: Any = None
    objects: list[msgspec.Raw] = msgspec.field(default_factory=list)
    pods: list[str] = msgspec.field(default_factory=list)
    featureGates: str = ""
    """As `--feature-gates` takes them."""


class _ScenarioHeader(msgspec.Struct):
    kind: str = ""


_scenario = msgspec.json.Decoder(Scenario)
_header = msgspec.json.Decoder(_ScenarioHeader)


def parse(line: bytes | str) -> Scenario:
    """Raises ScenarioError for what is not a scenario in JSON."""
    try:
        return _scenario.decode(line)
    except RecursionError:
        raise ScenarioError("nesting that is too deep") from None
    except (msgspec.MsgspecError, ValueError) as fault:
        raise ScenarioError(str(fault)) from fault


def gates_of(scenario: Scenario) -> dict[str, bool]:
    """All feature gates. Raises ScenarioError."""
    try:
        return parse_gates(scenario.featureGates)
    except ValueError as fault:
        raise ScenarioError(f"featureGates: {fault}") from fault


def configuration(scenario: Scenario, gates: Mapping[str, bool] | None = None) -> config.KubeSchedulerConfiguration:
    """The scenario's configuration, or the default one. Raises ScenarioError."""
    try:
        if scenario.config is None:
            return config.default(feature_gates=gates)
        return config.from_object(scenario.config, feature_gates=gates)
    except ValueError as fault:
        raise ScenarioError(f"config: {fault}") from fault


def decoded(raw: msgspec.Raw) -> KubeObject | None:
    """The object as an API server returns it, so nothing is defaulted; None for a kind that decisions do not read."""
    kind = _header.decode(raw).kind
    return decode_json(raw, kind) if kind in KINDS else None


def put_objects(scenario: Scenario, put: Callable[[KubeObject], None]) -> None:
    """Pass the objects to `put` one by one. Raises ScenarioError."""
    for i, raw in enumerate(scenario.objects):
        try:
            item = decoded(raw)
            if item is not None:
                put(item)
        except UNUSABLE as fault:
            raise ScenarioError(f"objects[{i}]: {fault}") from fault


def load(scenario: Scenario, options: DecideOptions, registry: Registry | None = None) -> Placer:
    """A placer with the scenario's objects. Raises ScenarioError."""
    gates = gates_of(scenario)
    chosen = configuration(scenario, gates)
    try:
        placer = Placer(chosen, options, registry, gates)
    except ValueError as fault:
        raise ScenarioError(f"config: {fault}") from fault
    put_objects(scenario, placer.put)
    return placer


# ---- `mooring bench`: decisions per second, with nothing else in the measured loop


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a run. The README of the corpus fixes the names; times in microseconds."""

    name: str
    pods: int
    scheduled: int
    failed: int
    seconds: float
    perSecond: float
    p50us: float
    p99us: float


def measure(text: bytes) -> Figures:
    """Attempt every pod of a scenario once. Raises ScenarioError for a scenario that cannot be used."""
    scenario = parse(text)
    placer = load(scenario, DecideOptions(), all_plugins())
    name, keys = scenario.name, scenario.pods
    del scenario, text
    clock = _Stopwatch()
    scheduled = 0
    for key in keys:
        scheduled += placer.place(key).outcome is Outcome.SCHEDULED
        clock.lap()
    return clock.figures(name, len(keys), scheduled)


def measure_with_queue(text: bytes) -> Figures:
    """Attempt every pod of a scenario through the queue: arrive, pop, decide, assume, bind. Victims of preemption leave at
    once.

    The shapes of the pods are worked out before the clock starts, as in `measure`, and pods have their versions: that is a
    part of reading a pod. So the two figures differ by queue, cache, binding and events alone.

    Raises ScenarioError for a scenario that cannot be used.
    """
    scenario = parse(text)
    virtual = VirtualClock(START_NS)
    gates = gates_of(scenario)
    scheduler = build_scheduler(configuration(scenario, gates), virtual, all_plugins(), gates=gates)
    driver = _AssumingDriver(virtual, scheduler, with_versions=True)  # a nomination is seen in a new version
    waiting: dict[str, Pod] = {}

    def put(item: KubeObject) -> None:
        if isinstance(item, Pod) and not item.spec.node_name:
            item.shape.work_out()
            _ = item.label_set
            pod = item.with_version("1")
            waiting[pod.key] = pod
        else:
            driver.create(item)

    volumes = VolumeController(driver)
    driver.on_changed = volumes.changed
    put_objects(scenario, put)
    volumes.begin()
    name, keys = scenario.name, [key for key in scenario.pods if key in waiting]
    del scenario, text
    clock = _Stopwatch()
    for key in keys:
        driver.arrive(waiting[key])
    while driver.attempt_once() is not None or _attempt_after_backoff(driver):
        clock.lap()
    return clock.figures(name, len(keys), driver.bound)


def _attempt_after_backoff(driver: "_AssumingDriver") -> bool:
    """No pod is active: let the time pass until the next backoff ends, and attempt a pod, as long as that leads to pods that
    are bound or evicted. False: the run is over."""
    if not driver.has_moved or not driver.scheduler.core.queue.pending_counts()["backoff"]:
        return False
    driver.has_moved = False
    next_ns = driver.next_ns()
    if next_ns is not None:
        driver.jump(next_ns)
        driver.tick()
    return driver.attempt_once() is not None


class _AssumingDriver(Driver):
    """Answers every bind at once without a change of the pod: the measurement ends with the assumed pod."""

    bound = 0
    has_moved = False
    """Whether a pod was bound or evicted since the clock moved."""

    def arrive(self, pod: Pod) -> None:
        """A pod comes that was read with a version. Its next one is another: the driver counts them, and nodes came first."""
        self.objects["Pod", pod.key] = pod
        self.scheduler.handle(ObjectAdded(pod))
        if self.on_changed is not None:
            self.on_changed(pod)

    def _bind(self, intent: Bind) -> None:
        self.bound += 1
        self.has_moved = True
        self.scheduler.handle(BindAnswered(intent.pod))

    def _evict(self, intent: Evict) -> None:
        self.has_moved = True
        super()._evict(intent)


class _Stopwatch:
    """Measures laps from its construction on."""

    def __init__(self) -> None:
        relax_collector()  # as in `mooring run`
        self._taken_ns: list[int] = []
        self._begin = self._before = time.perf_counter_ns()

    def lap(self) -> None:
        now = time.perf_counter_ns()
        self._taken_ns.append(now - self._before)
        self._before = now

    def figures(self, name: str, pods: int, scheduled: int) -> Figures:
        """Throughput, and the median and 99th percentile of the laps."""
        seconds = (self._before - self._begin) / 1e9
        p50, p99 = (np.percentile(self._taken_ns, (50, 99)) / 1000).tolist() if self._taken_ns else (0.0, 0.0)
        return Figures(
            name,
            pods,
            scheduled,
            pods - scheduled,
            round(seconds, 4),
            round(pods / seconds if seconds else 0.0, 1),
            round(p50, 1),
            round(p99, 1),
        )


class AttemptFailed(InputError):
    """An attempt that ended with an error of a plugin; the text says which pod and why."""


class OneByOne:
    """A cluster that pods come to. `ties` decides among nodes with the same score. With `first_row`, nodes come in an
    order that the seed decides."""

    def __init__(
        self,
        objects: Sequence[KubeObject],
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        gates: Mapping[str, bool] | None = None,
        ties: TieBreak = lowest_name,
        seed: int = 0,
    ) -> None:
        """`seed` gives attempts other random numbers. Raises ConfigError."""
        self.cluster = cluster = Cluster(gates)
        services = SchedulerServices(cluster, want=partial(write_through, cluster))
        self._runners = build_runners(config, registry, services, gates)
        self._options = DecideOptions(tie_break=ties)
        self._seed = mix(seed)  # so that the attempts of two seeds draw unrelated numbers
        self.attempts = 0
        self.nodes_by_pod: dict[str, str] = {}
        """Pod -> its node, of those that were placed."""
        for item in _shuffled(objects, seed) if ties is first_row else objects:
            cluster.put(item)

    def place(self, pod: Pod) -> str | None:
        """Attempt a pod once; it stays on its node. None: it is given up. Raises AttemptFailed."""
        runner = self.runner(pod)
        if runner is None:
            return None
        gate = gate_of(runner, pod)
        if gate is not None:
            self._check(pod, gate)
            return None
        self.attempts += 1
        decision = decide(runner, pod, self.cluster, self._options, self._seed + self.attempts)
        self._check(pod, decision)
        if not isinstance(decision, Placement) or reserve(runner, decision) is not None:
            return None
        self.cluster.nodes.place(pod, decision.node)
        self.nodes_by_pod[pod.key] = decision.node
        return decision.node

    def _check(self, pod: Pod, decision: object) -> None:
        if isinstance(decision, DecisionError):
            raise AttemptFailed(f"pod {pod.key}: {decision.error}")

    def runner(self, pod: Pod) -> Runner | None:
        """The profile that schedules the pod; None: no profile has the name that it asks for."""
        return self._runners.get(pod.spec.scheduler_name)


def _shuffled(objects: Sequence[KubeObject], seed: int) -> list[KubeObject]:
    """The objects with the nodes first, in an order that follows from the seed."""
    nodes = [item for item in objects if isinstance(item, Node)]
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(nodes)).tolist()
    return [*(nodes[at] for at in order), *(item for item in objects if not isinstance(item, Node))]
