"""Metrics of kept answers: how much is kept, within which limit, and how often it was of use."""

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.kept.kept_answers import DEFAULT_LIMIT_BYTES
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import SchedulerLimits, build_scheduler


class World:
    """A measured scheduler with one node."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.metrics = SchedulerMetrics(self.clock)
        listeners, limits = SchedulerListeners(observer=self.metrics), SchedulerLimits(kept_answers_bytes=limit_bytes)
        self.scheduler = build_scheduler(config.default(), self.clock, listeners=listeners, limits=limits)
        self.kept = self.scheduler.core.runners["default-scheduler"].kept
        self.scheduler.handle(ObjectAdded(a_node("n", cpu="100")))

    def attempt(self, *pods: Pod) -> None:
        for pod in pods:
            self.scheduler.handle(ObjectAdded(pod))
            self.scheduler.attempt()

    def shown(self) -> dict[str, float]:
        """The lines of /metrics about kept answers, without their prefix."""
        prefix = "mooring_kept_answers_"
        lines = [line.split(" ") for line in self.metrics.registry.text().splitlines() if line.startswith(prefix)]
        return {name.removeprefix(prefix): float(value) for name, value in lines}


def pod_of(name: str, cpu: str) -> Pod:
    return a_pod(name, cpu=cpu, metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler")


def test_bytes_memos_and_lookups_are_shown() -> None:
    world = World()
    world.attempt(pod_of("a", "1"), pod_of("b", "1"), pod_of("c", "2"))
    assert world.shown() == {
        "bytes": world.kept.byte_count.bytes,
        "limit_bytes": DEFAULT_LIMIT_BYTES,
        "memos": 2,
        'lookups_total{result="hit"}': 1,
        'lookups_total{result="miss"}': 2,
        "evictions_total": 0,
    }
    assert world.kept.byte_count.bytes > 0


@pytest.mark.parametrize("limit_bytes", [0, 1000])
def test_evictions_are_counted_and_a_reset_starts_the_counters_at_zero(limit_bytes: int) -> None:
    world = World(limit_bytes)
    world.attempt(pod_of("a", "1"), pod_of("b", "2"), pod_of("c", "3"))
    shown = world.shown()
    assert (shown["limit_bytes"], shown["memos"], shown["evictions_total"]) == (limit_bytes, 1, 2)
    world.metrics.registry.clear()
    after = world.shown()
    assert after["evictions_total"] == 0
    assert not any(name.startswith("lookups_total") for name in after)
    assert (after["limit_bytes"], after["memos"]) == (limit_bytes, 1), "what is kept stays"
