"""How a driver ends and what it logs: the lease is lost, the process stops, a write fails in an unforeseen way."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from build import a_node
from live_stage import DONE_ALL_THE_SAME, V1, V2, P, Stage, a_stage, deletions, pod, preempted, run
from mooring.api.api_errors import ApiError, internal_error, too_many_requests
from mooring.apiclient.http_requests import ConnectionLost, ConnectionRefused, Unreadable
from mooring.drivers.driver import PeriodicTasks
from mooring.framework.contract.intents import Evict
from mooring.framework.contract.waiting import WaitingPod
from mooring.kit.clock import NS_PER_S
from mooring.kit.tasks import Fence, FencedOff
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.scheduler.inputs import EvictionAnswered, ObjectAdded

LOGGER = "mooring.drivers.live_driver"


# ---- the end of the lease


def test_a_driver_that_halts_gives_up_binds_statuses_and_events_that_are_under_way() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            never = asyncio.Event()

            async def hang(*what: Any) -> None:
                stage.server.calls.append("begun")
                try:
                    await never.wait()
                except asyncio.CancelledError:
                    stage.server.calls.append("given up")
                    raise

            for call in ("bind", "patch_status", "create_event"):
                setattr(stage.server, call, hang)
            stage.shows(P, pod("large", cpu="99"))
            await stage.rest()
            assert stage.server.calls == ["begun"] * 3, "a bind, a status, an event"
            stage.driver.halt()
            for _ in range(20):
                await asyncio.sleep(0)
            assert stage.server.calls == ["begun"] * 3 + ["given up"] * 3

    run(main())


def test_a_driver_that_halts_drops_what_waits_to_be_written() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            never = asyncio.Event()

            async def hang(event: Any) -> None:
                stage.server.calls.append("event")
                await never.wait()

            stage.server.create_event = hang  # type: ignore[method-assign]
            stage.shows(*(pod(f"p{number}", cpu="99") for number in range(20)))
            await stage.rest()
            begun = stage.server.calls.count("event")
            assert 0 < begun < 20
            stage.driver.halt()
            await stage.driver.close()
            assert stage.server.calls.count("event") == begun

    run(main())


@pytest.mark.parametrize("call", ["bind", "patch_status", "create_event"])
def test_a_write_that_is_fenced_off_is_neither_repeated_nor_reported(call: str) -> None:
    async def main() -> None:
        async with a_stage() as stage:

            async def refuse(*what: Any) -> None:
                stage.server.calls.append("refused")
                Fence().check()

            setattr(stage.server, call, refuse)
            stage.shows(P if call == "bind" else pod("large", cpu="99"))
            await stage.later(60)
            assert stage.server.calls.count("refused") == 1
            if call == "bind":
                assert stage.server.calls == ["refused"]
                assert stage.counted == {"uid-p": "n1"}, "it is still assumed: there is no failure to act upon"
                assert stage.reports == []

    run(main())


def test_a_victim_that_is_fenced_off_stays_and_its_preemptor_hears_nothing() -> None:
    async def main() -> None:
        async with a_stage() as stage:

            async def refuse(*what: Any) -> None:
                stage.server.calls.append("refused")
                Fence().check()

            stage.server.delete = refuse  # type: ignore[assignment]
            await preempted(stage)
            await stage.later(60)
            assert stage.server.calls.count("refused") == 1
            assert deletions(stage) == []

    run(main())


def test_a_driver_behind_a_fence_that_is_shut_makes_no_attempt() -> None:
    async def main() -> None:
        fence = Fence(now_s=lambda: 5.0)
        stage = Stage(fence=fence)
        stage.scheduler.handle(ObjectAdded(a_node("n1")))
        stage.shows(P)
        with pytest.raises(FencedOff):
            await stage.driver.run()
        assert stage.counted == {} and stage.server.calls == []
        fence.open_until(6.0)
        running = asyncio.create_task(stage.driver.run())
        await stage.rest()
        assert stage.counted == {"uid-p": "n1"}
        fence.shut()
        stage.driver.wake()
        await asyncio.wait((running,))
        assert running.cancelled()
        await stage.driver.close()

    run(main())


# ---- the end of the process


def test_a_driver_that_ends_asks_extenders_for_nothing_more() -> None:
    class Extenders:
        stopped = closed = 0

        def stop(self) -> None:
            self.stopped += 1

        async def close(self) -> None:
            self.closed += 1

    async def main() -> None:
        async with a_stage() as stage:
            extenders = Extenders()
            stage.driver.extenders = extenders  # type: ignore[assignment]
            running = asyncio.create_task(stage.driver.run())
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait((running,))
            assert extenders.stopped == 1
            stage.driver.halt()
            assert extenders.stopped == 2
            await stage.driver.close()
            assert extenders.closed == 1

    run(main())


def test_a_driver_that_closes_sends_the_last_events_and_statuses() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            create_event = stage.server.create_event

            async def slowly(event: Any) -> None:
                for _ in range(20):
                    await asyncio.sleep(0)
                await create_event(event)

            stage.server.create_event = slowly  # type: ignore[method-assign]
            others = asyncio.all_tasks()
            stage.shows(P, pod("large", cpu="99"))
            while not stage.server.calls:
                await asyncio.sleep(0)
            assert stage.server.events == [], "they are under way"
            await stage.driver.close()
            assert "patch large" in stage.server.calls
            assert sorted(stage.server.events) == ["FailedScheduling large", "Scheduled p"]
            assert asyncio.all_tasks() == others

    run(main())


# ---- what it logs


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any]]:
    told = ((record.getMessage(), getattr(record, "call_keys", {})) for record in caplog.records)
    return [(text, {name: str(value) for name, value in keys.items()}) for text, keys in told]


def test_decisions_are_told_in_upstreams_words_from_verbosity_two_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO - 2, LOGGER)

    async def main() -> None:
        async with a_stage() as stage:
            await preempted(stage)
            for victim in (V1, V2):
                stage.shows_end(victim)
            await stage.later(3)

    run(main())
    told = dict(lines(caplog))
    assert told["Successfully bound pod to node"] == {"pod": "default/high", "node": "n1"}
    assert told["Preemptor Pod preempted victim Pod"]["pod"].startswith("default/v")
    assert told["Unable to schedule pod; no fit; waiting"]["err"].startswith("0/1 nodes are available")
    assert {record.levelno for record in caplog.records} == {logging.INFO - 2}


def test_decisions_are_not_told_below_verbosity_two(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO - 1, LOGGER)

    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [ApiError(403, "Forbidden", "may not")]
            stage.shows(P, pod("large", cpu="99"))
            await stage.rest()

    run(main())
    assert lines(caplog) == [("Failed to bind pod", {"pod": "default/p", "err": "may not"})]


def test_a_write_that_fails_in_an_unforeseen_way_is_told_and_one_that_is_cancelled_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            others = asyncio.all_tasks()
            handle = stage.scheduler.handle

            def failing(news: Any) -> None:
                if isinstance(news, EvictionAnswered):
                    raise ZeroDivisionError
                handle(news)

            async def cancelled(*what: Any) -> None:
                raise asyncio.CancelledError

            stage.scheduler.handle = failing  # type: ignore[method-assign, assignment]
            stage.shows(V1, V2)
            for victim, delete in ((V1, stage.server.delete), (V2, cancelled)):
                stage.server.delete = delete  # type: ignore[method-assign, assignment]
                stage.driver.do(Evict(victim, P, Condition(type="DisruptionTarget", status="True")))
                stage.driver.carry_out()
                await stage.rest()
            assert asyncio.all_tasks() == others

    run(main())
    (record,) = caplog.records
    assert record.getMessage() == "a write failed unexpectedly"
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError


# ---- turns


@pytest.mark.parametrize(("due_in_s", "rests_s"), [(0.25, 0.25), (60.0, 1.0), (-5.0, 0.0)])
def test_a_driver_rests_until_something_is_due_and_at_most_a_second(
    monkeypatch: pytest.MonkeyPatch, due_in_s: float, rests_s: float
) -> None:
    async def main() -> None:
        stage, asked = Stage(), []
        due_ns = stage.clock.now_ns() + int(due_in_s * NS_PER_S)
        monkeypatch.setattr(PeriodicTasks, "next_ns", lambda self: due_ns)
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def noting(delay: float, callback: Any) -> Any:
            asked.append(delay)
            return call_later(0, callback)

        monkeypatch.setattr(loop, "call_later", noting)
        running = asyncio.create_task(stage.driver.run())
        while len(asked) < 2:
            await asyncio.sleep(0)
        running.cancel()
        assert asked == [pytest.approx(rests_s)] * len(asked)

    asyncio.run(main())


def test_pods_that_wait_are_looked_at_after_intents_were_carried_out() -> None:
    async def main() -> None:
        stage = Stage()
        stage.scheduler.handle(ObjectAdded(a_node("n1")))
        stage.shows(P)
        stage.scheduler.attempt()
        released: list[bool] = []
        stage.scheduler.waiting.by_id["uid"] = cast(WaitingPod, SimpleNamespace())
        stage.scheduler.release_waiting = lambda: released.append(True)  # type: ignore[method-assign]
        stage.driver.carry_out()
        assert released == [True]
        await stage.driver.close()

    run(main())


def test_a_victim_that_stays_is_told_and_the_last_one_is_spared(caplog: pytest.LogCaptureFixture) -> None:
    """Two of three are asked to leave; one of them cannot, so the third keeps its place, and nobody counts it as gone."""

    async def main() -> None:
        async with a_stage(cpu="6") as stage:
            stage.server.faults["delete v1"] = [internal_error("x")] * 99
            stage.shows(*(pod(f"v{number}", cpu="2", node="n1") for number in range(3)))
            stage.shows(pod("large", cpu="6", priority=9))
            await stage.rest()
            asked = deletions(stage)
            assert asked[:2] == ["delete v0", "delete v1"] and "delete v2" not in asked

    run(main())
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told[:2] == [
        "Error preempting pod default/v1 for default/large: Internal error occurred: x",
        "Error preempting pod default/v2 for default/large: Internal error occurred: x",
    ]


@pytest.mark.parametrize("code", [401, 403])
def test_who_may_not_look_gives_up_after_the_usual_waits(code: int) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            forbidden = ApiError(code, "Forbidden", "no")
            stage.server.faults = {"bind p": [ConnectionLost("x")], "read p": [forbidden] * 100}
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls.count("read p") == 7
            assert stage.time.slept_s[:7] == [0.5, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
            assert (stage.counted, stage.where(P)) == ({}, "backoff")

    run(main())


@pytest.mark.parametrize("fault", [too_many_requests("no"), Unreadable("a page")], ids=["429", "unreadable"])
def test_a_server_that_never_shows_the_pod_holds_it_for_eight_seconds(fault: Exception) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults = {"bind p": [Unreadable("a page")], "read p": [fault] * 100}
            stage.shows(P)
            await stage.rest()
            assert sum(stage.time.slept_s) == pytest.approx(0.5 + 8.8)
            assert (stage.counted, stage.where(P)) == ({}, "backoff")

    run(main())


def test_a_server_in_trouble_is_asked_for_the_pod_for_as_long_as_the_bind_may_take_effect() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults = {"bind p": [ConnectionLost("x")], "read p": [internal_error("x")] * 100}
            stage.shows(P)
            await stage.rest()
            assert 60 <= sum(stage.time.slept_s) < 66
            assert (stage.counted, stage.where(P)) == ({}, "backoff")

    run(main())


def test_a_server_that_cannot_be_reached_is_asked_for_as_long_as_it_takes() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults = {"bind p": [DONE_ALL_THE_SAME], "read p": [ConnectionRefused("x")] * 30}
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == ["bind p"] + ["read p"] * 31
            assert stage.counted == {"uid-p": "n1"}

    run(main())


def test_a_bind_that_was_done_but_answered_with_a_page_counts_at_once() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults = {"bind p": [None]}
            real = stage.server.bind

            async def bind(pod: Pod, node_name: str) -> None:
                await real(pod, node_name)
                raise Unreadable("a page")

            stage.server.bind = bind  # type: ignore[method-assign]
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == ["bind p", "read p"]
            assert stage.counted == {"uid-p": "n1"}
            assert stage.server.events == ["Scheduled p"]

    run(main())


def test_a_pod_that_turns_out_to_be_bound_after_the_lookups_is_not_bound_twice() -> None:
    """The bind took effect, but no lookup shows it: the server rejects the next bind, and then the pod is found."""

    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults = {"bind p": [DONE_ALL_THE_SAME], "read p": [Unreadable("a page")] * 7}
            stage.shows(P)
            await stage.rest()
            assert stage.where(P) == "backoff"
            await stage.later(3)
            assert stage.server.calls == ["bind p", *["read p"] * 7, "bind p", "read p"]
            assert stage.server.nodes == {"uid-p": "n1"}
            assert stage.counted == {"uid-p": "n1"}

    run(main())
