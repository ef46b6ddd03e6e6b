"""The driver of a live scheduler: whatever becomes of a write, each pod is counted once and none is forgotten."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from build import a_node
from live_stage import DONE_ALL_THE_SAME, HIGH, V1, V2, Fault, P, Stage, a_stage, deletions, on, pod, preempted, run
from mooring.api.api_errors import ApiError, conflict, internal_error, not_found
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import ConnectionLost, ConnectionRefused, TimedOut
from mooring.apiclient.throttle import Timing
from mooring.drivers import binder, live_driver
from mooring.drivers.api_writer import RETRY_WAITS_S
from mooring.drivers.binder import LOOKUP_WAITS_S
from mooring.framework.contract.intents import Evict
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.scheduler.inputs import BindAnswered, ObjectAdded

# Turns


def test_attempts_leave_the_event_loop_to_others_every_few_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with a_stage(cpu="64") as stage:
            attempts: list[Pod | None] = []
            attempt = stage.scheduler.attempt

            def slow_attempt() -> Pod | None:
                stage.time.now_s += 0.002
                attempts.append(attempt())
                return attempts[-1]

            monkeypatch.setattr(stage.scheduler, "attempt", slow_attempt)
            stage.shows(*(pod(f"p{number}", cpu="1") for number in range(20)))
            turns = [0]
            while len(attempts) < 20:
                await asyncio.sleep(0)
                turns.append(len(attempts))
            assert max(later - earlier for earlier, later in pairwise(turns)) == 3, "5 ms are over after the third"
            await stage.rest()
            assert stage.binds() == 20

    run(main())


# ---- binds that come to a good end


@pytest.mark.parametrize(
    ("faults", "calls"),
    [
        pytest.param([], ["bind p"], id="answered"),
        pytest.param([DONE_ALL_THE_SAME], ["bind p", "read p"], id="done, and the answer was lost"),
        pytest.param(
            [conflict("pods/binding", "p", 'pod p is already assigned to node "n1"')],
            ["bind p", "read p"],
            id="our own first try stands against it",
        ),
        pytest.param(
            [internal_error("etcd timed out"), conflict("pods/binding", "p", 'pod p is already assigned to node "n1"')],
            ["bind p", "bind p", "read p"],
            id="v1.37, 8.3: the server is in trouble, and the next try meets the first",
        ),
        pytest.param(
            [internal_error("etcd timed out"), *[ConnectionRefused("nobody listens")] * 3],
            [*["bind p"] * 4, "read p"],
            id="v1.37, 8.3: the server is in trouble, and is gone then",
        ),
        pytest.param([ApiError(504, "Timeout", "timeout")], ["bind p", "read p"], id="the server took too long"),
        pytest.param([TimedOut("no answer")], ["bind p", "read p"], id="we took too long"),
    ],
)
def test_a_bind_that_was_done_counts_however_it_was_answered(faults: list[Fault], calls: list[str]) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [*faults]
            if faults and isinstance(faults[0], Exception):
                stage.server.meanwhile["bind p"] = lambda: stage.server.nodes.update({P.uid: "n1"})
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == calls
            assert stage.server.events == ["Scheduled p"]
            assert (stage.counted, stage.where(P), stage.driver.bound) == ({"uid-p": "n1"}, None, 1)
            stage.shows_change(P, on(P, "n1"))
            await stage.later()
            assert (stage.counted, stage.binds()) == ({"uid-p": "n1"}, calls.count("bind p"))
            assert stage.scheduler.core.bindings == {} and stage.scheduler.core.cache.assumed_count == 0
            assert stage.reports == []

    run(main())


def test_the_watch_may_tell_before_anyone_looks() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [DONE_ALL_THE_SAME]
            stage.server.meanwhile["bind p"] = lambda: stage.shows_change(P, on(P, "n1"))
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == ["bind p"]
            assert stage.server.events == ["Scheduled p"] and stage.counted == {"uid-p": "n1"}

    run(main())


def test_a_bind_in_doubt_is_looked_up_until_there_is_an_answer() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            silence: list[Fault | None] = [
                TimedOut("x"),
                ConnectionRefused("x"),
                internal_error("x"),
                CredentialsError("x"),
            ]
            stage.server.faults = {"bind p": [DONE_ALL_THE_SAME], "read p": silence * 3}
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == ["bind p"] + ["read p"] * 13
            assert stage.time.slept_s == [0.5, *LOOKUP_WAITS_S, *[5.0] * 6]
            assert stage.server.events == ["Scheduled p"] and stage.counted == {"uid-p": "n1"}

    run(main())


def test_while_nobody_knows_the_room_is_held() -> None:
    async def main() -> None:
        is_over = asyncio.Event()

        async def wait(for_s: float) -> None:
            await is_over.wait()

        async with a_stage(stage=Stage(timing=Timing(lambda: 0.0, wait))) as stage:
            stage.server.faults["bind p"] = [DONE_ALL_THE_SAME]
            stage.shows(P, pod("q"))
            await stage.later()
            assert stage.counted == {"uid-p": "n1"} and stage.where(pod("q")) == "unschedulable"
            is_over.set()
            await stage.rest()
            assert stage.counted == {"uid-p": "n1"} and "Scheduled p" in stage.server.events

    run(main())


# ---- binds that fail


FAILURES = [
    pytest.param([ConnectionRefused("nobody listens")] * 4, "nobody listens", False, id="nobody listens"),
    pytest.param([CredentialsError("no token")], "no token", False, id="without credentials"),
    pytest.param([ApiError(403, "Forbidden", "may not")], "may not", False, id="forbidden"),
    pytest.param([ApiError(429, "TooManyRequests", "slow down")], "slow down", False, id="busy"),
    pytest.param([internal_error("x")] * 4, "Internal error occurred: x", True, id="failing"),
    pytest.param([ApiError(500, "ServerTimeout", "later")], "later", True, id="a timeout of the server is final"),
    pytest.param([ApiError(503, "", "a proxy")] * 4, "a proxy", True, id="failing without a reason"),
    pytest.param([internal_error("x"), ApiError(404, "NotFound", "gone")], "gone", True, id="failing, then not found"),
    pytest.param([ApiError(409, "Conflict", "has gates")], "has gates", True, id="a conflict"),
    pytest.param([ValueError("a bug")], "ValueError('a bug')", False, id="a bug of ours"),
]


@pytest.mark.parametrize(("faults", "words", "is_in_doubt"), FAILURES)
def test_a_pod_whose_bind_failed_is_tried_again(faults: list[Exception], words: str, is_in_doubt: bool) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [*faults]
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == [*["bind p"] * len(faults), *["read p"] * is_in_doubt, "patch p"]
            assert (stage.counted, stage.where(P)) == ({}, "backoff")
            assert stage.server.events == ["FailedScheduling p"]
            (condition,) = stage.server.bodies[0]["status"]["conditions"]
            assert (condition["reason"], condition["observedGeneration"]) == ("SchedulerError", 4)
            assert condition["message"] == f'running Bind plugin "DefaultBinder": {words}'
            await stage.later(2)
            assert (stage.counted, stage.server.nodes) == ({"uid-p": "n1"}, {"uid-p": "n1"})
            assert stage.server.events == ["FailedScheduling p", "Scheduled p"]

    run(main())


NOT_READY = [
    pytest.param(internal_error("x"), id="an internal error"),
    pytest.param(ApiError(503, "ServiceUnavailable", "no"), id="unavailable"),
    pytest.param(ApiError(500, "", "a page"), id="500 without a reason"),
    pytest.param(ConnectionRefused("nobody listens"), id="nobody listens"),
]


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("fault", NOT_READY)
def test_v137_8_3_a_bind_is_tried_four_times_while_the_server_is_not_ready(fault: Exception, failures: int) -> None:
    """After 10, 50 and 250 ms, and up to a tenth more."""

    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [fault] * failures
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == ["bind p"] * (failures + 1)
            assert stage.server.events == ["Scheduled p"] and stage.counted == {"uid-p": "n1"}
            for slept_s, wait_s in zip(stage.time.slept_s, RETRY_WAITS_S[:failures], strict=True):
                assert wait_s <= slept_s <= wait_s * 1.1

    run(main())


IN_DOUBT = [
    pytest.param(ConnectionLost("the connection was lost"), id="the connection was lost"),
    pytest.param(TimedOut("no answer"), id="no answer in time"),
    pytest.param(ApiError(504, "Timeout", "timeout"), id="a gateway waited no longer"),
]


@pytest.mark.parametrize("fault", IN_DOUBT)
def test_a_bind_that_was_lost_is_tried_again_but_its_pod_is_not_called_unscheduled(fault: Exception) -> None:
    """It may be on its way still, and what is said of the pod would come after it."""

    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [fault]
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls == ["bind p", "read p"]
            assert (stage.counted, stage.where(P)) == ({}, "backoff")
            await stage.later(2)
            assert (stage.counted, stage.server.nodes) == ({"uid-p": "n1"}, {"uid-p": "n1"})
            assert stage.server.events == ["FailedScheduling p", "Scheduled p"]

    run(main())


def test_a_bind_that_fails_after_one_that_was_lost_leaves_the_doubt_for_a_minute() -> None:
    """The second failure is certain, but the first bind may still take effect."""

    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults["bind p"] = [ConnectionLost("x"), *[ConnectionRefused("nobody listens")] * 100]
            stage.shows(P)
            await stage.rest()
            stage.time.now_s += 55
            await stage.later()
            assert stage.server.calls.count("bind p") > 1 and "patch p" not in stage.server.calls
            stage.time.now_s += 5
            await stage.later()
            assert "patch p" in stage.server.calls

    run(main())


def test_whoever_may_not_look_takes_the_bind_for_failed_in_the_end() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            forbidden = ApiError(403, "Forbidden", "no")
            stage.server.faults = {"bind p": [ConnectionLost("x")], "read p": [forbidden] * 100}
            stage.shows(P)
            await stage.rest()
            assert stage.server.calls.count("read p") == len(LOOKUP_WAITS_S) + 1
            assert (stage.counted, stage.where(P)) == ({}, "backoff")

    run(main())


def test_a_bind_that_lands_after_it_was_given_up_is_counted_where_it_landed() -> None:
    """The first try is on its way for longer than we believe; by then the pod is to go elsewhere."""

    async def main() -> None:
        async with a_stage("n1") as stage:
            stage.server.faults["bind p"] = [ConnectionLost("x"), TimedOut("x")]
            stage.shows(P)
            await stage.rest()
            assert stage.counted == {}
            stage.shows(pod("q"))  # takes the room
            await stage.rest()
            stage.shows_change(pod("q"), on(pod("q"), "n1"))
            stage.scheduler.handle(ObjectAdded(a_node("n2")))
            stage.server.meanwhile["bind p"] = lambda: stage.server.nodes.update({P.uid: "n1"})  # and now it lands
            await stage.later(2)
            assert stage.counted == {"uid-p": "n1", "uid-q": "n1"}
            assert stage.server.bodies == [], "or a pod that runs would be called unscheduled"
            stage.shows_change(P, on(P, "n1"))
            await stage.later()
            assert stage.counted == {"uid-p": "n1", "uid-q": "n1"} == stage.server.nodes
            assert sum(stage.scheduler.core.queue.pending_counts().values()) == 0

    run(main())


# ---- others act meanwhile


@pytest.mark.parametrize("when", ["before the answer", "after the answer"])
def test_a_pod_that_someone_else_bound_is_counted_there(when: str) -> None:
    async def main() -> None:
        async with a_stage("n1", "n2") as stage:
            theirs = on(P, "n2")
            stage.scheduler.handle(ObjectAdded(pod("filler", node="n2", cpu="2")))
            stage.server.faults["bind p"] = [conflict("pods/binding", "p", 'already assigned to node "n2"')]
            stage.server.meanwhile["bind p"] = lambda: stage.server.nodes.update({P.uid: "n2"})
            if when == "before the answer":
                stage.server.meanwhile["bind p"] = lambda: stage.shows_change(P, theirs)
            stage.shows(P)
            await stage.rest()
            assert stage.counted == {"uid-p": "n2", "uid-filler": "n2"}, "as the server says, though no watch did"
            assert stage.where(P) is None
            if when == "after the answer":
                stage.shows_change(P, theirs)
            await stage.later()
            assert "patch p" not in stage.server.calls, "it is scheduled, whoever did that"
            assert stage.counted == {"uid-p": "n2", "uid-filler": "n2"}
            assert stage.where(P) is None and stage.binds() == 1 and stage.driver.bound == 0

    run(main())


def test_room_that_was_held_for_a_pod_which_someone_else_bound_wakes_others() -> None:
    async def main() -> None:
        async with a_stage("n1") as stage:
            stage.scheduler.handle(ObjectAdded(a_node("n2", cpu="1")))
            waits = pod("waits")
            stage.server.faults["bind p"] = [conflict("pods/binding", "p", "x")]

            def bound_elsewhere() -> None:
                assert stage.where(waits) == "unschedulable"
                stage.shows_change(P, on(P, "n2"))

            stage.server.meanwhile["bind p"] = bound_elsewhere
            stage.shows(P, waits)
            await stage.later(3)
            assert stage.counted == {"uid-p": "n2", "uid-waits": "n1"}

    run(main())


@pytest.mark.parametrize("is_seen", [True, False], ids=["and the watch shows it", "and the watch is late"])
@pytest.mark.parametrize("fault", [None, ConnectionLost("x"), not_found("pods", "p")], ids=["done", "lost", "404"])
def test_a_pod_that_is_deleted_while_it_is_bound_holds_no_room(fault: Exception | None, is_seen: bool) -> None:
    async def main() -> None:
        async with a_stage() as stage:

            def deleted() -> None:
                stage.server.uids.pop("p")
                if is_seen:
                    stage.shows_end(P)

            stage.server.faults["bind p"] = [fault]
            stage.server.meanwhile["bind p"] = deleted
            stage.shows(P)
            await stage.rest()
            if not is_seen:
                stage.shows_end(P if fault else on(P, "n1"))
            await stage.later()
            assert stage.counted == {} and stage.where(P) is None
            assert stage.scheduler.core.bindings == {} and stage.binds() == 1

    run(main())


@pytest.mark.parametrize("is_seen", [True, False], ids=["and the watch shows it", "and the watch is late"])
def test_a_pod_whose_name_another_has_taken_is_dropped(is_seen: bool) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            heir = pod(uid="heir", version=5)

            def replaced() -> None:
                stage.server.uids["p"], stage.server.nodes["heir"] = "heir", ""
                if is_seen:
                    stage.shows_change(P, heir)

            stage.server.faults["bind p"] = [conflict("pods", "p", "Precondition failed: UID in precondition")]
            stage.server.meanwhile["bind p"] = replaced
            stage.shows(P)
            await stage.rest()
            if is_seen:
                assert "FailedScheduling p" not in stage.server.events and stage.server.bodies == []
                assert "read p" not in stage.server.calls, "the watch has said all there is to know"
            else:
                assert stage.counted == {}
                stage.shows_change(P, heir)
            await stage.later()
            assert stage.counted == {"heir": "n1"} and stage.server.nodes["heir"] == "n1"
            assert stage.server.nodes["uid-p"] == ""

    run(main())


def test_another_pod_of_that_name_on_that_node_is_not_ours() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            heir = pod(uid="heir", version=5, node="n1")
            stage.server.faults["bind p"] = [ConnectionLost("x")]
            stage.server.meanwhile["bind p"] = lambda: stage.server.has(heir)
            stage.shows(P)
            await stage.rest()
            assert stage.driver.bound == 0 and stage.counted == {}
            stage.shows_change(P, heir)
            await stage.later()
            assert stage.counted == {"heir": "n1"} and "Scheduled p" not in stage.server.events

    run(main())


# ---- how many, and in which order


def test_no_more_binds_are_under_way_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(live_driver, "MAX_BINDS", 3)
        async with a_stage() as stage:
            under_way = asyncio.Semaphore(0)
            bind = stage.server.bind

            async def slowly(pod: Pod, node_name: str) -> None:
                stage.server.calls.append("begun")
                await under_way.acquire()
                await bind(pod, node_name)

            stage.server.bind = slowly  # type: ignore[method-assign]
            stage.shows(*(pod(f"p{number}", cpu="10m") for number in range(10)))
            await stage.rest()
            assert stage.server.calls == ["begun"] * 3
            for _ in range(10):
                under_way.release()
            await stage.rest()
            assert stage.binds() == 10 and len(stage.counted) == 10

    run(main())


def test_attempts_go_on_when_several_binds_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(live_driver, "MAX_BINDS", 5)
        monkeypatch.setattr(live_driver, "REFILL", 2)
        async with a_stage() as stage:
            under_way, bind = asyncio.Semaphore(0), stage.server.bind

            async def slowly(pod: Pod, node_name: str) -> None:
                await under_way.acquire()
                await bind(pod, node_name)

            stage.server.bind = slowly  # type: ignore[method-assign]
            stage.shows(*(pod(f"p{number}", cpu="10m") for number in range(12)))
            counted = []
            for _ in range(8):
                await stage.rest()
                counted.append(len(stage.counted))
                under_way.release()
            assert counted == [5, 5, 7, 7, 9, 9, 11, 11]
            for _ in range(12):
                under_way.release()
            await stage.rest()
            assert stage.binds() == 12

    run(main())


def test_an_answer_that_the_scheduler_fails_on_stops_no_other_bind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            monkeypatch.setattr(binder, "BINDERS", 1)
            handle = stage.scheduler.handle

            def fail_once(input: Any) -> None:
                if isinstance(input, BindAnswered) and input.pod.name == "p0":
                    raise ZeroDivisionError
                handle(input)

            monkeypatch.setattr(stage.scheduler, "handle", fail_once)
            stage.shows(*(pod(f"p{number}", cpu="10m") for number in range(3)))
            await stage.rest()
            assert stage.binds() == 3 and "Scheduled p2" in stage.server.events

    run(main())
    (record,) = caplog.records
    assert record.getMessage() == "the answer to the bind of default/p0 failed unexpectedly"


@pytest.mark.parametrize("is_refused", [False, True], ids=["bound", "refused"])
def test_events_are_written_after_binds_that_wait_for_a_connection(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr(binder, "BINDERS", 2)
        async with a_stage() as stage:
            under_way, bind = asyncio.Semaphore(0), stage.server.bind

            async def slowly(pod: Pod, node_name: str) -> None:
                await under_way.acquire()
                await bind(pod, node_name)

            stage.server.bind = slowly  # type: ignore[method-assign]
            if is_refused:
                stage.server.faults["bind p3"] = [ApiError(403, "Forbidden", "no")]
            stage.shows(*(pod(f"p{number}", cpu="10m") for number in range(5)))
            written = []
            for _ in range(5):
                await stage.rest()
                written.append(len(stage.server.events))
                under_way.release()
            assert written == [0, 0, 0, 0, 4], "the third answer leaves two binds, the fourth one"
            await stage.rest()
            assert len(stage.server.events) == 5

    run(main())


def test_what_was_said_of_a_pod_reaches_the_server_before_its_bind() -> None:
    async def main() -> None:
        async with a_stage(cpu="1") as stage:
            is_over = asyncio.Event()
            write = stage.server.patch_status

            async def slowly(pod: Pod, patch: dict[str, Any], cause_id: str = "") -> None:
                await is_over.wait()
                await write(pod, patch)

            stage.server.patch_status = slowly  # type: ignore[method-assign]
            stage.shows(P)
            await stage.rest()
            stage.scheduler.handle(ObjectAdded(a_node("n2")))
            await stage.later(3)
            assert stage.server.calls == [] and stage.counted == {"uid-p": "n2"}
            is_over.set()
            await stage.rest()
            assert stage.server.calls == ["patch p", "bind p"]

    run(main())


# ---- victims


def test_victims_are_told_why_then_deleted_and_the_last_after_the_others() -> None:
    async def main() -> None:
        async with a_stage() as stage:
            await preempted(stage)
            first, last = sorted(("v1", "v2"), key=lambda name: stage.server.calls.index(f"delete {name}"))
            calls = [call for call in stage.server.calls if call != "patch high"]
            assert calls == [f"patch {first}", f"delete {first}", f"patch {last}", f"delete {last}"]
            (condition,) = next(
                body["status"]["conditions"]
                for body in stage.server.bodies
                if body["status"]["conditions"][0]["type"] == "DisruptionTarget"
            )
            assert condition == {
                "lastProbeTime": None,
                "lastTransitionTime": "2027-01-15T08:00:00Z",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
                "observedGeneration": 4,
                "reason": "PreemptionByScheduler",
                "status": "True",
                "type": "DisruptionTarget",
            }
            assert sorted(stage.server.events) == ["FailedScheduling high", "Preempted v1", "Preempted v2"]
            stage.shows_end(V1)
            stage.shows_end(V2)
            await stage.later(3)
            assert stage.counted == {"uid-high": "n1"}

    run(main())


@pytest.mark.parametrize("step", ["patch", "delete"])
def test_a_victim_that_is_gone_is_as_good_as_evicted_and_nothing_is_said(step: str) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            gone: list[Fault | None] = [not_found("pods", "v")]
            stage.server.faults = {f"{step} v1": [*gone], f"{step} v2": [*gone]}
            await preempted(stage)
            assert stage.server.events == ["FailedScheduling high"]
            assert len(deletions(stage)) == (2 if step == "delete" else 0)
            assert stage.scheduler.core.evictions.by_preemptor == {}

    run(main())


@pytest.mark.parametrize(
    "fault",
    [internal_error("x"), ApiError(403, "Forbidden", "no"), TimedOut("x"), CredentialsError("x"), ValueError("a bug")],
    ids=["500", "403", "unanswered", "without credentials", "a bug of ours"],
)
@pytest.mark.parametrize("step", ["patch", "delete"])
def test_a_victim_that_cannot_be_evicted_spares_the_last_and_the_preemptor_comes_again(
    step: str, fault: Exception
) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            stage.server.faults = {f"{step} v1": [fault], f"{step} v2": [fault]}
            stage.shows(V1, V2)
            stage.shows(HIGH)
            while not (victims := [call for call in stage.server.calls if call in (f"{step} v1", f"{step} v2")]):
                await asyncio.sleep(0)
            first = victims[0].rpartition(" ")[2]
            last = {"v1": "v2", "v2": "v1"}[first]
            while stage.scheduler.core.evictions.by_preemptor:
                assert f"patch {last}" not in stage.server.calls
                await asyncio.sleep(0)
            assert not [event for event in stage.server.events if event.startswith("Preempted")]
            stage.server.faults = {}
            await stage.later()  # it was activated, and preempts anew
            assert sorted(set(deletions(stage))) == ["delete v1", "delete v2"]
            assert stage.scheduler.core.evictions.by_preemptor == {}

    run(main())


@pytest.mark.parametrize("when", ["before it is told", "before it is deleted"])
def test_a_pod_that_has_the_name_of_a_victim_is_spared(when: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with a_stage() as stage:
            heir = pod("v2", uid="heir", version=5, cpu="2", node="n1")
            stage.shows(V2)
            if when == "before it is told":
                stage.shows_change(V2, heir)
            stage.server.meanwhile["patch v2"] = lambda: stage.shows_change(V2, heir)
            condition = Condition(type="DisruptionTarget", status="True")
            stage.driver.do(Evict(V2, HIGH, condition))
            stage.driver.carry_out()
            await stage.rest()
            assert stage.server.calls == ([] if when == "before it is told" else ["patch v2"])
            assert stage.server.events == [] and stage.counted == {"heir": "n1"}
            assert caplog.records == [], "the victim counts as evicted"

    run(main())
