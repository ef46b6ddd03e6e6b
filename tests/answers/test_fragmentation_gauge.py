"""The mean of fragmentation over a day: at which moments it is taken, and for how long each of them counts."""

from types import SimpleNamespace
from typing import Any

import pytest

from mooring.answers.compare import node_use
from mooring.answers.compare.node_use import FragmentationGauge


class Day:
    """A clock that a test moves, and a gauge that reads the shares which the test writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, horizon_ns: int) -> None:
        self.now_ns, self.taken_ns = 100, list[int]()
        self.shares: dict[str, float | None] = {"cpu": 0.0, "memory": None}
        monkeypatch.setattr(node_use, "fragmentation_of", self._taken)
        simulated: Any = SimpleNamespace(clock=SimpleNamespace(now_ns=lambda: self.now_ns))
        self.gauge = FragmentationGauge(simulated, (), horizon_ns)

    def _taken(self, *_: object) -> dict[str, float | None]:
        self.taken_ns.append(self.now_ns - 100)
        return self.shares

    def pass_time(self, until_ns: int, step_ns: int = 1) -> None:
        while self.now_ns < 100 + until_ns:
            self.now_ns += step_ns
            self.gauge.read()


def test_a_day_is_read_at_some_thirty_two_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(monkeypatch, 320)
    day.pass_time(320)
    assert day.taken_ns == [10 * (i + 1) for i in range(32)]


def test_a_day_that_is_longer_than_expected_is_read_half_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(monkeypatch, 320)
    day.pass_time(320 + 20 * 32 + 40)
    assert day.taken_ns[32:64] == [320 + 20 * (i + 1) for i in range(32)]
    assert day.taken_ns[64:] == [320 + 20 * 32 + 40]


def test_each_moment_counts_for_the_time_since_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(monkeypatch, 320)
    day.pass_time(10)
    day.shares = {"cpu": 1.0, "memory": 0.5}
    day.pass_time(40, step_ns=30)
    assert day.taken_ns == [10, 40]
    day.now_ns += 10
    day.shares = {"cpu": 0.5, "memory": None}
    mean = day.gauge.mean()
    assert mean["cpu"] == pytest.approx((0.0 * 10 + 1.0 * 30 + 0.5 * 10) / 50)
    assert mean["memory"] == 0.5, "only the time in which there was a share"


def test_a_day_without_time_has_the_share_of_its_only_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day(monkeypatch, 0)
    day.shares = {"cpu": 0.25, "memory": None}
    assert day.gauge.mean() == {"cpu": 0.25, "memory": None}
    assert day.taken_ns == [0]
