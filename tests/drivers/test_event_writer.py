"""Events on their way: a refusal is final, silence is not, and nobody waits for another's bad luck."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from build import a_pod
from mooring.api.api_errors import ApiError
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import ConnectionRefused
from mooring.drivers import event_writer
from mooring.drivers.event_writer import HELD_S, IDLE_NS, MAX_HELD, EventWriter
from mooring.framework.contract.intents import Record
from mooring.kit.clock import NS_PER_S, VirtualClock
from recording_server import Time
from silent_writer import SilentWriter

GONE = ApiError(404, "NotFound", "gone")
REFUSED = ApiError(403, "Forbidden", "no")
LOST = ConnectionRefused("nobody listens")


@dataclass
class Sink(SilentWriter):
    """Takes events, unless it is told to fail them."""

    written: list[str] = field(default_factory=list)
    faults: dict[str, list[Exception]] = field(default_factory=dict)
    """By pod: how its writes fail, one after the other."""
    bodies: list[Any] = field(default_factory=list)

    async def create_event(self, event: dict[str, Any]) -> None:
        self.bodies.append(event)
        self._write("POST", event["regarding"]["name"])

    async def patch_event(self, namespace: str, name: str, series: dict[str, Any]) -> None:
        self.bodies.append(series)
        self._write("PATCH", name.partition(".")[0])

    def _write(self, method: str, pod_name: str) -> None:
        self.written.append(f"{method} {pod_name}")
        if faults := self.faults.get(pod_name):
            raise faults.pop(0)


@dataclass
class Stage:
    sink: Sink = field(default_factory=Sink)
    time: Time = field(default_factory=Time)
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(1_800_000_000 * NS_PER_S))
    draw: float = 0.0

    def __post_init__(self) -> None:
        self.writer = EventWriter(self.sink, self.clock, self.clock, "host", self.time.timing(), lambda: self.draw)

    def record(self, name: str) -> None:
        pod = a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler")
        self.writer.record(Record(pod, "Warning", "FailedScheduling", "Scheduling", "no room"))

    async def rest(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_an_event_then_a_series_of_it() -> None:
    async def main() -> None:
        stage = Stage()
        for _ in range(4):
            stage.record("p")
            stage.clock.advance_ns(NS_PER_S)
        await stage.rest()
        assert stage.sink.written == ["POST p", "PATCH p"]
        assert stage.sink.bodies[1] == {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.000000Z"}
        stage.clock.advance_ns(IDLE_NS + NS_PER_S)
        stage.writer.sweep()
        await stage.rest()
        assert stage.sink.written[2:] == ["PATCH p"]
        assert stage.sink.bodies[2] == {"count": 4, "lastObservedTime": "2027-01-15T08:00:03.000000Z"}

    run(main())


def test_a_series_whose_event_is_gone_is_created_anew() -> None:
    async def main() -> None:
        stage = Stage()
        stage.record("p")
        await stage.rest()
        stage.sink.faults["p"] = [GONE]
        stage.record("p")
        await stage.rest()
        assert stage.sink.written == ["POST p", "PATCH p", "POST p"]
        first, series, again = stage.sink.bodies
        assert again == {**first, "series": series}

    run(main())


def test_a_refusal_is_final(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        stage.sink.faults["p"] = [REFUSED]
        stage.record("p")
        await stage.rest()
        assert (stage.sink.written, stage.time.slept_s) == (["POST p"], [])
        assert [record.getMessage() for record in caplog.records] == ["Server rejected event: no"]

    run(main())


def test_an_event_that_was_written_though_its_answer_was_lost_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        stage.sink.faults["p"] = [LOST, ApiError(409, "AlreadyExists", "it is there")]
        stage.record("p")
        await stage.rest()
        assert stage.sink.written == ["POST p", "POST p"]
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    run(main())


@pytest.mark.parametrize("fault", [LOST, CredentialsError("no token")], ids=["unreachable", "without credentials"])
def test_a_server_that_cannot_be_reached_is_tried_twelve_times(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        stage = Stage()
        stage.sink.faults["p"] = [fault] * 11
        stage.record("p")
        await stage.rest()
        assert stage.sink.written == ["POST p"] * 12
        assert stage.time.slept_s == [10.0] * 11
        stage.sink.faults["q"] = [fault] * 99
        stage.record("q")
        await stage.rest()
        assert stage.sink.written[12:] == ["POST q"] * 12
        messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert messages == [f"Unable to write event after 12 tries: {fault}"]

    run(main())


def test_tries_are_up_to_a_quarter_further_apart() -> None:
    async def main() -> None:
        stage = Stage(draw=1.0)
        stage.sink.faults["p"] = [LOST]
        stage.record("p")
        await stage.rest()
        assert stage.time.slept_s == [12.5]

    run(main())


def test_others_do_not_wait_for_an_event_that_is_to_be_tried_again() -> None:
    async def main() -> None:
        stage = Stage()
        is_over = asyncio.Event()

        async def sleep(for_s: float) -> None:
            await is_over.wait()

        stage.time.sleep = sleep  # type: ignore[method-assign]
        stage.__post_init__()
        unlucky = [f"unlucky-{number}" for number in range(50)]
        stage.sink.faults = {name: [LOST] for name in unlucky}
        for name in (*unlucky, "lucky"):
            stage.record(name)
        await stage.rest()
        assert stage.sink.written[-1] == "POST lucky"
        is_over.set()
        await stage.rest()
        assert sorted(stage.sink.written[51:]) == sorted(f"POST {name}" for name in unlucky)

    run(main())


def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(event_writer, "MAX_QUEUED", 3)
        stage = Stage()
        for number in range(5):
            stage.record(f"p{number}")
        await stage.rest()
        assert stage.sink.written == ["POST p0", "POST p1", "POST p2"]
        assert stage.writer.dropped == 2

    run(main())


def test_closing_sends_what_is_queued_and_gives_up_the_rest() -> None:
    async def main() -> None:
        stage = Stage()
        for number in range(30):
            stage.record(f"p{number}")
        await stage.writer.close()
        assert len(stage.sink.written) == 30

    run(main())


@dataclass
class Hanging(Sink):
    """Never answers for these pods; for no pod at all, if none is named."""

    hanging: set[str] = field(default_factory=set)

    async def create_event(self, event: dict[str, Any]) -> None:
        name = event["regarding"]["name"]
        self._write("POST", name)
        if not self.hanging or name in self.hanging:
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("recorded", "under_way"),
    [(1, 1), (2, 2), (3, 2), (102, 2), (103, 3), (607, 7), (608, 8), (900, 8)],
)
def test_a_queue_that_grows_gets_more_senders(recorded: int, under_way: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(event_writer, "EVENTS_OF_A_SENDER", 100)
        stage = Stage(Hanging())
        for number in range(recorded):
            stage.record(f"p{number}")
            await asyncio.sleep(0)  # senders take their first event
        await stage.rest()
        assert len(stage.sink.written) == under_way
        stage.writer.halt()

    run(main())


@pytest.mark.parametrize(
    ("recorded", "after_s", "are_sent"),
    [
        pytest.param(20, 0.0, False, id="they wait"),
        pytest.param(20, HELD_S - 0.1, False, id="not for long"),
        pytest.param(20, HELD_S, True, id="the first of them has waited long enough"),
        pytest.param(MAX_HELD - 1, 0.0, False, id="many wait"),
        pytest.param(MAX_HELD, 0.0, True, id="they are too many to wait"),
    ],
)
def test_events_wait_while_other_writes_have_precedence(recorded: int, after_s: float, are_sent: bool) -> None:
    async def main() -> None:
        stage = Stage()
        stage.writer.yield_to(lambda: True)
        for number in range(recorded):
            stage.record(f"p{number}")
        await stage.rest()
        stage.time.now_s = after_s
        stage.writer.go_on()
        await stage.rest()
        assert bool(stage.sink.written) == are_sent
        stage.writer.halt()

    run(main())


def test_events_that_were_held_are_sent_in_their_order_when_the_other_writes_are_over() -> None:
    async def main() -> None:
        stage, has_precedence = Stage(), [True]
        stage.writer.yield_to(lambda: has_precedence[0])
        for number in range(10):
            stage.record(f"p{number}")
        await stage.rest()
        assert stage.sink.written == []
        has_precedence[0] = False
        stage.writer.go_on()
        await stage.rest()
        assert stage.sink.written == [f"POST p{number}" for number in range(10)]

    run(main())


def test_senders_at_work_stop_for_writes_with_precedence() -> None:
    async def main() -> None:
        stage = Stage()
        stage.writer.yield_to(lambda: len(stage.sink.written) >= 3)
        for number in range(10):
            stage.record(f"p{number}")
        await stage.rest()
        assert stage.sink.written == ["POST p0", "POST p1", "POST p2"]

    run(main())


def test_closing_sends_events_that_are_held() -> None:
    async def main() -> None:
        stage = Stage()
        stage.writer.yield_to(lambda: True)
        for number in range(10):
            stage.record(f"p{number}")
        await stage.writer.close()
        assert len(stage.sink.written) == 10

    run(main())


def test_an_event_that_hangs_delays_no_other() -> None:
    async def main() -> None:
        stage = Stage(Hanging(hanging={"p0"}))
        for number in range(20):
            stage.record(f"p{number}")
        await stage.rest()
        assert len(stage.sink.written) == 20
        stage.writer.halt()

    run(main())


def test_closing_sends_eight_events_at_a_time_and_ends_those_that_hang() -> None:
    async def main() -> None:
        stage = Stage(Hanging())
        for number in range(20):
            stage.record(f"p{number}")
        await stage.rest()
        assert len(stage.sink.written) == 2
        await stage.writer.close(0.01)
        await stage.rest()
        assert len(stage.sink.written) == 8
        assert asyncio.all_tasks() == {asyncio.current_task()}
        stage.record("late")
        await stage.rest()
        assert stage.sink.written[8:] == ["POST late"], "what was queued is gone"
        stage.writer.halt()

    run(main())


def test_after_closing_nothing_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        is_over = asyncio.Event()

        async def sleep(for_s: float) -> None:
            await is_over.wait()

        stage.time.sleep = sleep  # type: ignore[method-assign]
        stage.__post_init__()
        stage.sink.faults["p"] = [LOST]
        stage.record("p")
        await stage.rest()
        await stage.writer.close()
        is_over.set()
        await stage.rest()
        assert stage.sink.written == ["POST p"]

    with caplog.at_level(logging.INFO):
        run(main())
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("INFO", "Unable to write event, retrying: nobody listens") in messages


def test_events_that_wait_for_their_next_try_count_as_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(event_writer, "MAX_QUEUED", 3)
        stage = Stage()

        async def sleep(for_s: float) -> None:
            await asyncio.Event().wait()

        stage.time.sleep = sleep  # type: ignore[method-assign]
        stage.__post_init__()
        stage.sink.faults = {name: [LOST] for name in "abc"}
        for name in "abc":
            stage.record(name)
        await stage.rest()
        stage.record("d")
        assert stage.writer.dropped == 1
        stage.writer.halt()

    run(main())


def test_a_series_that_the_server_refuses_is_not_created_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stage = Stage()
        stage.record("p")
        await stage.rest()
        stage.sink.faults["p"] = [REFUSED]
        stage.record("p")
        await stage.rest()
        assert stage.sink.written == ["POST p", "PATCH p"]

    run(main())
    assert [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno > 20] == [
        ("WARNING", "Server rejected event: no")
    ]
