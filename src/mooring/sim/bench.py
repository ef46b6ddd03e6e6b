"""`mooring bench`: how many decisions a second, with nothing else in the loop."""

import gc
import time
from dataclasses import dataclass

import numpy as np

from mooring.app.assembly import all_plugins
from mooring.cycle.decide import Manner
from mooring.sim.placer import Outcome
from mooring.sim.scenario import load, parse


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run gave; the names are those that the conformance README fixes."""

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
    placer = load(scenario, Manner(), all_plugins())
    name, keys = scenario.name, scenario.pods
    del scenario, text
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look at it again and again
    taken_ns = np.zeros(len(keys), np.int64)
    scheduled = 0
    begin = before = time.perf_counter_ns()
    for i, key in enumerate(keys):
        scheduled += placer.place(key).outcome is Outcome.SCHEDULED
        now = time.perf_counter_ns()
        taken_ns[i] = now - before
        before = now
    seconds = (before - begin) / 1e9
    p50, p99 = (np.percentile(taken_ns, (50, 99)) / 1000).tolist() if keys else (0.0, 0.0)
    rate = len(keys) / seconds if seconds else 0.0
    return Figures(
        name,
        len(keys),
        scheduled,
        len(keys) - scheduled,
        round(seconds, 4),
        round(rate, 1),
        round(p50, 1),
        round(p99, 1),
    )
