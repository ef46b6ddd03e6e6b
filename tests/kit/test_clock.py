"""Clocks and moments: what is steady when the machine's clock is set, and what a time without a zone means."""

import time
from collections.abc import Iterator

import pytest

from jumping_clock import JumpingClock
from mooring.kit.clock import NS_PER_S, SteadyClock, VirtualClock, elapsed_ns, elapsed_s, in_micros, moment_ns


@pytest.mark.parametrize("jump_s", [-3600, -30, 30, 3600])
def test_a_steady_clock_goes_on_when_the_wall_clock_is_set(jump_s: int) -> None:
    elapsed = VirtualClock(5 * NS_PER_S)
    wall = JumpingClock(VirtualClock(1_800_000_000 * NS_PER_S))
    steady = SteadyClock(wall, elapsed.now_ns)
    assert steady.now_ns() == 1_800_000_000 * NS_PER_S, "it starts with the time of the wall clock"
    wall.jump(jump_s)
    assert steady.now_ns() == 1_800_000_000 * NS_PER_S
    elapsed.advance_ns(7)
    assert steady.now_ns() == 1_800_000_000 * NS_PER_S + 7


def test_a_steady_clock_shows_the_time_of_this_machine_at_its_start() -> None:
    before_ns = time.time_ns()
    clocks = SteadyClock(), SteadyClock(elapsed_ns=elapsed_ns)
    for clock in clocks:
        assert before_ns - 1000 <= clock.now_ns() <= time.time_ns() + NS_PER_S
        assert clock.now_ns() <= clock.now_ns()


def test_both_units_of_the_elapsed_time_are_of_one_clock() -> None:
    before_s = elapsed_s()
    assert before_s <= elapsed_ns() / NS_PER_S + 1e-6
    assert elapsed_ns() / NS_PER_S <= elapsed_s() + 1e-6


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is in this zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    ("text", "moment_s"),
    [
        ("2027-01-15T08:00:00Z", 1_800_000_000),
        ("2027-01-15T08:00:00", 1_800_000_000),
        ("2027-01-15T08:00:00.000000", 1_800_000_000),
        ("2027-01-15", 1_799_971_200),
        ("2027-01-15T09:30:00+01:30", 1_800_000_000),
        ("2027-07-15T08:00:00", 1_815_638_400),
    ],
)
def test_a_time_without_a_zone_is_utc_whatever_the_zone_of_the_machine(text: str, moment_s: int) -> None:
    assert moment_ns(text) == moment_s * NS_PER_S


@pytest.mark.usefixtures("_zone")
def test_a_moment_survives_being_written_and_read() -> None:
    assert moment_ns(in_micros(1_800_000_000_123_456_789)) == 1_800_000_000_123_456_000
