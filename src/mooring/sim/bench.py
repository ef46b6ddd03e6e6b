"""`mooring bench`: decisions per second, with nothing else in the measured loop.

The garbage collector is set up after loading as `mooring run` sets it up.
"""

import time
from dataclasses import dataclass

import numpy as np

from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import VirtualClock
from mooring.kit.process import relax_collector
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.inputs import BindAnswered
from mooring.sim.controllers import VolumeController
from mooring.sim.scenario import Outcome, configuration, gates_of, load, parse, put_objects
from mooring.state.assembly import all_plugins, build_scheduler


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

    The shapes of the pods are worked out before the clock starts, as in `measure`: that is a part of reading a pod. So the
    two figures differ by queue, cache, binding and events alone.

    Raises ScenarioError for a scenario that cannot be used.
    """
    scenario = parse(text)
    virtual = VirtualClock(START_NS)
    gates = gates_of(scenario)
    scheduler = build_scheduler(configuration(scenario, gates), virtual, all_plugins(), gates=gates)
    driver = _AssumingDriver(virtual, scheduler)
    waiting: dict[str, Pod] = {}

    def put(item: KubeObject) -> None:
        if isinstance(item, Pod) and not item.spec.node_name:
            waiting[item.key] = item
            item.shape.work_out()
            _ = item.label_set
        else:
            driver.create(item)

    volumes = VolumeController(driver, driver.scheduler.cluster.storage)
    driver.on_changed = volumes.changed
    put_objects(scenario, put)
    volumes.begin()
    name, keys = scenario.name, [key for key in scenario.pods if key in waiting]
    del scenario, text
    clock = _Stopwatch()
    for key in keys:
        driver.create(waiting[key])
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

    def _bind(self, intent: Bind) -> None:
        self.bound += 1
        self.has_moved = True
        self.scheduler.handle(BindAnswered(intent.pod))


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
