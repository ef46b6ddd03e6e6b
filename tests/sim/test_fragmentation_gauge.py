"""The mean of fragmentation over a day: at which moments it is taken, and for how long each of them counts."""

from types import SimpleNamespace
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.answers.experiments.compared_run import RunInputs, run_once
from mooring.answers.experiments.run_plan import RunPlan
from mooring.framework import config
from mooring.inputs.arrivals import Arrival
from mooring.kit.clock import NS_PER_S
from mooring.sim import fragmentation
from mooring.sim.fragmentation import FragmentationGauge


class DayOfShares:
    """A clock that a test moves, and a gauge that reads the shares which the test writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, horizon_ns: int) -> None:
        self.now_ns, self.taken_ns = 100, list[int]()
        self.shares: dict[str, float | None] = {"cpu": 0.0, "memory": None}
        monkeypatch.setattr(fragmentation, "fragmentation_of", self._taken)
        simulated: Any = SimpleNamespace(clock=SimpleNamespace(now_ns=lambda: self.now_ns))
        self.gauge = FragmentationGauge(simulated, (), horizon_ns)

    def _taken(self, *_: object) -> dict[str, float | None]:
        self.taken_ns.append(self.now_ns - 100)
        return self.shares

    def pass_time(self, until_ns: int, step_ns: int = 1) -> None:
        while self.now_ns < 100 + until_ns:
            self.gauge.read(self.now_ns + step_ns)
            self.now_ns += step_ns


def test_a_day_is_read_at_some_thirty_two_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    day = DayOfShares(monkeypatch, 320)
    day.pass_time(320)
    assert day.taken_ns == [10 * (i + 1) - 1 for i in range(32)]


def test_a_day_that_is_longer_than_expected_is_read_half_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    day = DayOfShares(monkeypatch, 320)
    day.pass_time(320 + 20 * 32 + 40)
    assert day.taken_ns[32:64] == [320 + 20 * (i + 1) - 1 for i in range(32)]
    assert day.taken_ns[64:] == [320 + 20 * 32 + 40 - 1]


def test_shares_count_for_the_time_in_which_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    day = DayOfShares(monkeypatch, 320)
    day.pass_time(10, step_ns=10)
    day.shares = {"cpu": 1.0, "memory": 0.5}  # an event at 10
    day.pass_time(40, step_ns=30)
    assert day.taken_ns == [0, 10]
    day.shares = {"cpu": 0.5, "memory": None}  # an event at 40
    day.pass_time(45, step_ns=5)
    assert day.taken_ns == [0, 10], "5 is less than a step: it is counted at the end"
    mean = day.gauge.mean()
    assert mean["cpu"] == pytest.approx((0.0 * 10 + 1.0 * 30 + 0.5 * 5) / 45)
    assert mean["memory"] == 0.5, "only the time in which there was a share"


def test_moves_that_are_shorter_than_a_step_count_with_the_move_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    day = DayOfShares(monkeypatch, 320)
    day.pass_time(2)
    day.shares = {"cpu": 1.0, "memory": None}
    day.pass_time(102, step_ns=100)
    assert (day.taken_ns, day.gauge.mean()["cpu"]) == ([2], 1.0)


def test_a_day_without_time_has_the_share_of_its_only_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    day = DayOfShares(monkeypatch, 0)
    day.shares = {"cpu": 0.25, "memory": None}
    assert day.gauge.mean() == {"cpu": 0.25, "memory": None}
    assert day.taken_ns == [0]


HOUR_NS = 3600 * NS_PER_S


def test_a_day_counted_by_hand() -> None:
    """A node of 4 CPUs for 8 hours, and two pods of 3 CPUs: from 0 to 4 h and from 7 h on. While one is there, 1 CPU is free,
    which no pod can use: 4 + 1 hours of 8. In between all is free, and a pod fits."""
    pods = [a_pod(name, cpu="3", schedulerName="default-scheduler", metadata={"uid": name}) for name in ("a", "b")]
    arrivals = [Arrival(0, pods[0], 4 * HOUR_NS), Arrival(7 * HOUR_NS, pods[1], None)]
    inputs = RunInputs([a_node("n", cpu="4")], arrivals, until_ns=8 * HOUR_NS)
    figures = run_once(inputs, RunPlan("run", "cluster", config.default(), (), None, 1.0)).figures
    assert figures.fragmentation["cpu"] == pytest.approx(5 / 8, abs=1e-6)
