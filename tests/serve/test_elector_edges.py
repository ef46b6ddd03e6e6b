"""The elector at its edges: settings that are refused, what it writes and logs, and what it leaves alone at the end."""

import asyncio
import io
import logging
import re
import socket
from typing import Any

import pytest

from electing import LEASE, TIMES, a_lease
from mooring.api.api_errors import ApiError, conflict, internal_error
from mooring.apiclient.client import ApiClient, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.apiclient.throttle import Timing
from mooring.framework.config import default as default_configuration
from mooring.kit.clock import elapsed_s
from mooring.kit.logs import Logs, start_logs
from mooring.kit.tasks import Fence
from mooring.serve.lease import leader_elector
from mooring.serve.lease.leader_election import ElectionError, ElectionTimes
from mooring.serve.lease.leader_elector import (
    Callbacks,
    ElectorSettings,
    LeaderElector,
    TimeAndChance,
    elector_settings,
    lease_client,
    new_identity,
)
from mooring.serve.lease.lease_record import LeaseName, leader_event
from recording_server import a_recorder, always, said
from virtual_elections import Contender, FakeApi, now_s, on_virtual_time

# ---- settings


PAST = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")


@pytest.mark.parametrize(
    ("lock", "why"),
    [("chains", "Invalid lock-type chains"), *((lock, f"{lock} lock is removed, migrate to leases") for lock in PAST)],
)
def test_other_locks_than_leases_are_refused_in_upstreams_words(lock: str, why: str) -> None:
    config = default_configuration().leader_election
    config.resource_lock = lock
    with pytest.raises(ElectionError) as caught:
        elector_settings(config, "me", "s")
    assert str(caught.value) == f"couldn't create resource lock: {why}"


def test_settings_have_the_lease_of_kube_scheduler_and_its_times() -> None:
    settings = ElectorSettings("me")
    assert (settings.lease, settings.times, settings.component) == (LEASE, ElectionTimes(), "default-scheduler")
    config = default_configuration().leader_election
    config.resource_namespace, config.resource_name = "team", "mine"
    assert elector_settings(config, "me", "s").lease == LeaseName("team", "mine")


def test_an_identity_has_the_name_of_this_host_unless_another_is_given() -> None:
    assert new_identity().startswith(f"{socket.gethostname()}_")
    assert re.fullmatch(r"h_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", new_identity("h"))


def test_the_clock_is_that_of_the_fence() -> None:
    assert TimeAndChance().timing.monotonic_s is elapsed_s
    assert 0 <= TimeAndChance().random() < 1


def test_the_client_of_the_lease_says_so_and_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[Limits] = []

    def noted(access: ConnectionSettings, user_agent: str, qps: float, burst: int, *, limits: Limits) -> ApiClient:
        bounds.append(limits)
        return ApiClient(access, user_agent, qps, burst, limits=limits)

    monkeypatch.setattr(leader_elector, "ApiClient", noted)

    async def main() -> None:
        async with a_recorder(always(said(200, a_lease("a")))) as recorder:
            connection = default_configuration().client_connection
            async with lease_client(ConnectionSettings(recorder.url), "agent", connection, TIMES) as client:
                await client.get(LEASE.path)
            (limits,) = bounds
            assert (limits.request_s, limits.connections, limits.answer_bytes) == (5, 2, 1 << 20)
            assert recorder.requests[0].headers["user-agent"] == "agent/leader-election"

    asyncio.run(main())


# ---- what it writes


def test_an_event_names_the_lease_and_who_leads() -> None:
    lease = a_lease("me") | {"metadata": {"uid": "u", "resourceVersion": "7", "name": "x"}}
    assert leader_event(lease, LEASE, "mine", "me became leader", 1_800_000_000_000_000_000) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "kube-scheduler.18fae27693b40000", "namespace": "kube-system"},
        "involvedObject": {
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "apiVersion": "coordination.k8s.io/v1",
            "uid": "u",
            "resourceVersion": "7",
        },
        "reason": "LeaderElection",
        "message": "me became leader",
        "source": {"component": "mine"},
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": "mine",
        "reportingInstance": "",
    }
    bare = leader_event({"spec": {}}, LEASE, "mine", "me stopped leading", 0)
    assert "uid" not in bare["involvedObject"] and bare["message"] == "me stopped leading"


def test_events_go_to_the_namespace_of_the_lease() -> None:
    async def main() -> None:
        api, paths = FakeApi(), []
        post = api.post

        async def noting(path: str, body: Any, params: Any = None) -> Any:
            paths.append(path)
            return await post(path, body, params)

        api.post = noting  # type: ignore[method-assign]
        only = Contender(api, "only")
        await asyncio.sleep(1)
        only.elector.stop()
        await only.task
        assert paths == [LEASE.collection, *["/api/v1/namespaces/kube-system/events"] * 2]

    on_virtual_time(main)


# ---- what it logs


def logged(verbosity: int = 5) -> tuple[io.StringIO, Logs]:
    lines = io.StringIO()
    return lines, start_logs(logging.Logger("test_elector_edges"), verbosity=verbosity, stream=lines)


def an_elector(api: FakeApi, logs: Logs, events: Any = None) -> tuple[LeaderElector, "asyncio.Task[Any]"]:
    timing = Timing(lambda: asyncio.get_running_loop().time(), asyncio.sleep)
    callbacks = Callbacks(lambda: None, lambda: None)
    around = TimeAndChance(timing, random=lambda: 0.5)
    settings = ElectorSettings("only", LEASE, TIMES)
    elector = LeaderElector(api, settings, callbacks, logs.log, around, events, Fence(now_s=timing.monotonic_s))
    return elector, asyncio.ensure_future(elector.run())


def test_a_candidate_says_that_it_stands() -> None:
    async def main() -> None:
        lines, logs = logged()
        elector, task = an_elector(FakeApi(), logs)
        await asyncio.sleep(1)
        assert '"Attempting to acquire leader lease..." lock="kube-system/kube-scheduler"' in lines.getvalue()
        assert elector.holder == "only"
        elector.stop()
        assert await task == "stopped"

    on_virtual_time(main)


@pytest.mark.parametrize("fault", [internal_error("x"), Unanswered("lost"), CredentialsError("no token")])
def test_an_event_that_cannot_be_written_is_only_noted(fault: Exception) -> None:
    class Broken(FakeApi):
        async def post(self, path: str, body: Any, params: Any = None) -> Any:
            raise fault

    async def main() -> None:
        lines, logs = logged()
        elector, task = an_elector(FakeApi(), logs, Broken())
        await asyncio.sleep(1)
        elector.stop()
        assert await task == "stopped"
        assert lines.getvalue().count(f'"Unable to write event" err="{fault}"') == 2

    on_virtual_time(main)


def test_a_release_that_meets_a_conflict_is_noted_and_tried_again_in_a_moment() -> None:
    async def main() -> None:
        lines, logs = logged()
        api = FakeApi()
        elector, task = an_elector(api, logs)
        await asyncio.sleep(1)
        api.faults = [None, conflict("leases", LEASE.name), None, None]
        elector.stop()
        began_s = now_s()
        assert await task == "stopped"
        assert now_s() - began_s == pytest.approx(0.1)
        assert (
            '"Failed to release lease, retrying" lock="kube-system/kube-scheduler" err="Operation' in lines.getvalue()
        )
        assert api.spec()["holderIdentity"] == ""

    on_virtual_time(main)


def test_a_release_of_a_lease_that_goes_away_meanwhile_says_so() -> None:
    async def main() -> None:
        lines, logs = logged()
        api = FakeApi()
        elector, task = an_elector(api, logs)
        await asyncio.sleep(1)
        put = api.put

        async def gone(path: str, body: Any, params: Any = None) -> Any:
            api.objects.clear()
            return await put(path, body, params)

        api.put = gone  # type: ignore[method-assign]
        elector.stop()
        assert await task == "stopped"
        assert 'err="the lease is gone"' in lines.getvalue()

    on_virtual_time(main)


def test_a_release_that_cannot_even_look_says_so_and_ends() -> None:
    async def main() -> None:
        lines, logs = logged()
        api = FakeApi()
        elector, task = an_elector(api, logs)
        await asyncio.sleep(1)
        api.always = ApiError(403, "Forbidden", "may not")
        elector.stop()
        assert await task == "stopped"
        said_so = '"error retrieving resource lock" lock="kube-system/kube-scheduler" err="may not"'
        assert said_so in lines.getvalue()

    on_virtual_time(main)


@pytest.mark.parametrize(("outcome", "limit_s"), [("stopped", 10), ("lost", 5)])
def test_a_release_takes_no_longer_than_it_may(outcome: str, limit_s: float) -> None:
    """Asked to stop, it has the renewDeadline; having lost the lease, only one request."""

    async def main() -> None:
        _, logs = logged()
        api = FakeApi()
        elector, task = an_elector(api, logs)
        await asyncio.sleep(1)
        if outcome == "stopped":
            elector.stop()
        else:
            api.always = internal_error("x")
            await asyncio.sleep(10.9)
        api.always, api.faults = None, [3600.0]
        began_s = now_s() if outcome == "stopped" else 12
        assert await task == outcome
        assert now_s() - began_s == pytest.approx(limit_s)

    on_virtual_time(main)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Unanswered("the connection was lost"), "the connection was lost"),
        (CredentialsError("no token"), "no token"),
        (ApiError(403, "Forbidden", "may not"), "may not"),
        (3600.0, "no answer within 5 s"),
    ],
)
def test_a_lease_that_cannot_be_read_is_told_with_the_reason(fault: Any, told: str) -> None:
    async def main() -> None:
        lines, logs = logged()
        elector, task = an_elector(FakeApi(faults=[fault]), logs)
        await asyncio.sleep(6)
        assert f'"Error retrieving lease lock" lock="kube-system/kube-scheduler" err="{told}"' in lines.getvalue()
        elector.stop()
        await task

    on_virtual_time(main)


def test_an_answer_that_is_no_lease_is_told_as_such() -> None:
    async def main() -> None:
        lines, logs = logged()
        api = FakeApi()
        api.objects[LEASE.path] = {"metadata": {"resourceVersion": "1"}, "spec": {"leaseDurationSeconds": "many"}}
        elector, task = an_elector(api, logs)
        await asyncio.sleep(1)
        assert 'err="the answer is no Lease: Expected `int | null`, got `str`' in lines.getvalue()
        elector.stop()
        await task

    on_virtual_time(main)


def test_events_that_do_not_end_are_given_up_after_a_second() -> None:
    class Hanging(FakeApi):
        async def post(self, path: str, body: Any, params: Any = None) -> Any:
            await asyncio.sleep(3600)

    async def main() -> None:
        _, logs = logged()
        elector, task = an_elector(FakeApi(), logs, Hanging())
        await asyncio.sleep(1)
        elector.stop()
        began_s = now_s()
        await task
        assert now_s() - began_s == pytest.approx(1)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_virtual_time(main)


def test_a_candidate_whose_requests_were_all_reads_touches_nothing_at_its_end() -> None:
    async def main() -> None:
        _, logs = logged()
        api = FakeApi()
        api.store(a_lease("other"))
        elector, task = an_elector(api, logs)
        await asyncio.sleep(1)
        asked = len(api.asked)
        elector.stop()
        await task
        assert len(api.asked) == asked, "not even a look"

    on_virtual_time(main)
