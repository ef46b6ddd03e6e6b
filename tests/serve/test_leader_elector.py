"""The runner of leader election on virtual time, and two of them over real HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cluster_api import an_api
from electing import LEASE, SILENT, a_lease
from mooring.api.api_errors import ApiError, conflict, internal_error
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import ConnectionRefused
from mooring.apiserver.server.http import HttpServer
from mooring.framework.config import default as default_configuration
from mooring.kit.clock import WallClock
from mooring.serve.lease.leader_election import ElectionTimes
from mooring.serve.lease.leader_elector import Callbacks, ElectorSettings, LeaderElector, TimeAndChance, lease_client
from mooring.serve.lease.lease_record import LeaseRecord, changed_lease
from virtual_elections import Contender, FakeApi, VirtualLoop, on_virtual_time


def test_a_clean_stop_hands_over_within_about_a_period() -> None:
    async def main() -> None:
        api = FakeApi()
        first = Contender(api, "first")
        await asyncio.sleep(1)
        second = Contender(api, "second")
        await asyncio.sleep(20)
        assert (first.elector.is_leading(), second.elector.is_leading()) == (True, False)
        first.elector.stop()
        assert await first.task == "stopped"
        assert api.spec() | {"acquireTime": "", "renewTime": ""} == {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": "",
            "renewTime": "",
            "leaseTransitions": 0,
        }
        assert api.spec()["acquireTime"] == api.spec()["renewTime"] == "2027-01-15T08:00:21.000000Z"
        await asyncio.sleep(4.4)
        assert second.elector.is_leading()
        assert api.spec()["leaseTransitions"] == 1
        assert first.story == [(0, "leads"), (21, "stops")]
        assert first.status == [False, True, False]
        messages = [event["message"] for event in api.events]
        assert messages == ["first became leader", "first stopped leading", "second became leader"]
        second.elector.stop()
        await second.task

    on_virtual_time(main)


def test_a_crash_hands_over_after_the_lease_and_a_jittered_period() -> None:
    async def main() -> None:
        api = FakeApi()
        first, second = Contender(api, "first", skew_s=-86400), Contender(api, "second", skew_s=+86400)
        await asyncio.sleep(10.5)
        first.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first.task
        assert first.story[-1] == (10.5, "stops")
        assert api.spec()["holderIdentity"] == "first"
        await asyncio.sleep(30)
        [(took_s, what)] = second.story
        assert what == "leads"
        assert 10 + 15 <= took_s <= 10 + 3.2 + 15 + 3.2, "the last renewal was at 10"
        second.elector.stop()
        await second.task

    on_virtual_time(main)


def test_errors_shorter_than_the_deadline_do_not_end_a_reign() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.always = internal_error("etcd")
        await asyncio.sleep(9)
        api.always = None
        await asyncio.sleep(20)
        assert only.story == [(0, "leads")]
        only.elector.stop()
        assert await only.task == "stopped"

    on_virtual_time(main)


UNUSABLE: dict[str, Exception] = {
    "500": internal_error("etcd"),
    "nobody listens": ConnectionRefused("cannot connect"),
    "forbidden": ApiError(403, "Forbidden", "no"),
}


@pytest.mark.parametrize("error", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_leader_that_cannot_renew_stops_and_has_lost(error: Exception) -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.always = error
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (12, "stops")]
        assert not only.elector.is_leading()

    on_virtual_time(main)


def test_a_server_that_hangs_does_not_make_a_leader_late() -> None:
    async def main() -> None:
        api = FakeApi(faults=[None, None, *[3600.0] * 20])
        only = Contender(api, "only")
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (12, "stops")]
        assert api.asked[:5] == ["GET", "POST", "PUT", "GET", "GET"], "5 s each; the last is to let go"

    on_virtual_time(main)


def test_a_request_is_given_up_at_the_moment_at_which_a_leader_must_stop() -> None:
    """The renewal at 2 takes 4 s, so this leader leads until 17 s; requests of 5 s begin at 8 and at 13."""

    async def main() -> None:
        api = FakeApi(faults=[None, None, 4.0, *[3600.0] * 20])
        only = Contender(api, "only")
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (17, "stops")]

    on_virtual_time(main)


def test_the_fence_is_open_exactly_while_the_lease_lasts() -> None:
    """Whoever leads from 2 s on and is never answered again must not write from 2 + 12 s on, even if nobody tells it."""

    async def main() -> None:
        api = FakeApi(faults=[None, None, None, *[3600.0] * 20])
        only = Contender(api, "only")
        assert not only.fence.is_open
        await asyncio.sleep(1)
        assert only.fence.is_open
        await asyncio.sleep(12.9)
        assert only.fence.is_open
        await asyncio.sleep(0.1)
        assert not only.fence.is_open
        assert await only.task == "lost"

    on_virtual_time(main)


def test_the_fence_opens_no_further_for_a_loop_that_is_late() -> None:
    """The process is stopped past its lease and continues: before any callback has run, the fence is shut."""

    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.skipping.now_s += 30
        assert only.story == [(0, "leads")]
        assert not only.fence.is_open
        assert await only.task == "lost"
        assert not only.fence.is_open

    on_virtual_time(main)


def test_the_fence_is_shut_before_the_lease_is_given_back() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        seen: list[bool] = []
        store = api.store
        api.store = lambda body: (seen.append(only.fence.is_open), store(body))[1]  # type: ignore[method-assign, func-returns-value]
        only.elector.stop()
        assert await only.task == "stopped"
        assert seen == [False]

    on_virtual_time(main)


@pytest.mark.parametrize("turns", range(30))
def test_events_that_end_just_when_they_are_waited_for_are_no_error(turns: int) -> None:
    """Each number of turns of the loop is another moment at which the last event is written."""

    async def main() -> None:
        api = FakeApi(faults=[None, None])
        post = api.post

        async def slowly(path: str, body: Any, params: Any = None) -> Any:
            for _ in range(turns if path.endswith("/events") else 0):
                await asyncio.sleep(0)
            return await post(path, body, params)

        api.post = slowly  # type: ignore[method-assign]
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.always = ConnectionRefused("cannot connect")
        assert await only.task == "lost"
        assert [event["message"] for event in api.events] == ["only became leader", "only stopped leading"]

    on_virtual_time(main)


def test_a_lease_that_somebody_took_is_lost_at_once_and_left_alone() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        taken = changed_lease(api.objects[LEASE.path], LeaseRecord("thief", 15, "", "", 1))
        await api.put(LEASE.path, taken, {"timeout": "5s"})
        assert await only.task == "lost"
        assert only.story == [(0, "leads"), (2, "stops")]
        assert api.spec()["holderIdentity"] == "thief"

    on_virtual_time(main)


def test_a_conflict_by_an_edit_of_something_else_is_overcome_within_the_round() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        edited = api.objects[LEASE.path]
        edited["metadata"]["labels"] = {"by": "hand"}
        await api.put(LEASE.path, edited, {"timeout": "5s"})
        api.asked.clear()
        await asyncio.sleep(1.5)
        assert api.asked == ["PUT", "GET", "PUT"]
        assert api.objects[LEASE.path]["metadata"]["labels"] == {"by": "hand"}
        only.elector.stop()
        assert await only.task == "stopped"

    on_virtual_time(main)


def test_a_release_that_meets_a_conflict_looks_again() -> None:
    async def main() -> None:
        api = FakeApi()
        only = Contender(api, "only")
        await asyncio.sleep(1)
        api.faults = [None, conflict("leases", LEASE.name), None, None]
        only.elector.stop()
        assert await only.task == "stopped"
        assert api.spec()["holderIdentity"] == ""

    on_virtual_time(main)


def test_who_stops_while_its_acquisition_is_under_way_lets_go_of_it() -> None:
    """The write was carried out although nobody waited for the answer."""

    async def main() -> None:
        api = FakeApi()

        async def slow_put(path: str, body: Any, params: Any = None) -> Any:
            api.put = FakeApi.put.__get__(api)  # type: ignore[method-assign]
            api.store(body)
            await asyncio.sleep(3)

        api.store({**a_lease("")})
        api.put = slow_put  # type: ignore[method-assign]
        only = Contender(api, "only")
        await asyncio.sleep(1)
        assert api.spec()["holderIdentity"] == "only"
        only.elector.stop()
        assert await only.task == "stopped"
        assert only.story == []
        assert api.spec()["holderIdentity"] == ""

    on_virtual_time(main)


def test_a_standby_that_stops_touches_nothing() -> None:
    async def main() -> None:
        api = FakeApi()
        api.store(a_lease("other"))
        standby = Contender(api, "standby")
        await asyncio.sleep(5)
        standby.elector.stop()
        assert await standby.task == "stopped"
        assert set(api.asked) == {"GET"}
        assert api.events == []

    on_virtual_time(main)


def test_an_answer_that_is_no_lease_is_a_failure_and_no_crash() -> None:
    async def main() -> None:
        api = FakeApi()
        api.objects[LEASE.path] = {"metadata": {"resourceVersion": "1"}, "spec": {"leaseDurationSeconds": "many"}}
        only = Contender(api, "only")
        await asyncio.sleep(10)
        assert only.story == []
        only.elector.stop()
        assert await only.task == "stopped"

    on_virtual_time(main)


# ---- over HTTP


def test_two_over_http_hand_over_when_the_first_lets_go() -> None:
    async def main() -> None:
        api = an_api()
        server = HttpServer(api)
        access = ConnectionSettings(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
        config = default_configuration()
        times = ElectionTimes(10, 5, 0.1)
        started: list[str] = []

        def an_elector(client: ApiClient, identity: str) -> LeaderElector:
            callbacks = Callbacks(lambda: started.append(identity), lambda: started.append(f"{identity} stops"))
            settings = ElectorSettings(identity, LEASE, times, "default-scheduler")
            return LeaderElector(client, settings, callbacks, SILENT, TimeAndChance(wall=WallClock()), client)

        async with lease_client(access, "mooring-tests", config.client_connection, times) as client:
            first, second = an_elector(client, "first"), an_elector(client, "second")
            running = [asyncio.ensure_future(first.run())]
            await _until(first.is_leading)
            running.append(asyncio.ensure_future(second.run()))
            await asyncio.sleep(0.3)
            assert not second.is_leading()
            first.stop()
            await _until(second.is_leading)
            lease = await client.get(LEASE.path)
            assert lease["spec"]["holderIdentity"] == "second"
            assert lease["spec"]["leaseTransitions"] == 1
            second.stop()
            assert await asyncio.gather(*running) == ["stopped", "stopped"]
            events = (await client.get("/api/v1/namespaces/kube-system/events"))["items"]
            assert {event["message"] for event in events} == {
                "first became leader", "first stopped leading", "second became leader", "second stopped leading",
            }  # fmt: skip
            assert {(event["reason"], event["source"]["component"], event["count"]) for event in events} == {
                ("LeaderElection", "default-scheduler", 1)
            }
        await server.stop()
        assert started == ["first", "first stops", "second", "second stops"]

    asyncio.run(main())


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)
