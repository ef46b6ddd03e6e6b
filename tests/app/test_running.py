"""One process of `mooring run` from start to exit status, in this process: how a reign begins and how it ends."""

import asyncio
import io
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from aiohttp import web

from build import a_pod
from cluster_api import an_api
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiserver.server.http import HttpServer
from mooring.apiserver.server.request import Answer
from mooring.app.run import Running, RunSettings, ServingSettings
from mooring.framework import config as configuration
from mooring.framework.config.durations import Duration
from mooring.kit.clock import Clock
from mooring.kit.logs import Logs, start_logs
from mooring.scheduler.inputs import ObjectAdded
from mooring.serve.pages.pages import PageRequest

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE = f"{LEASES}/kube-scheduler"
pytestmark = pytest.mark.slow


@dataclass
class Server(HttpServer):
    """Notes writes as they come: binds, and whom the lease is to name. Binds wait until they are let through."""

    writes: list[str] = field(default_factory=list)
    lets_binds: asyncio.Event = field(default_factory=asyncio.Event)

    async def _answer(self, incoming: web.BaseRequest) -> Any:
        if incoming.path.endswith("/binding"):
            self.writes.append("bind")
            await self.lets_binds.wait()
        answered = await HttpServer._answer(self, incoming)
        if incoming.path.startswith(LEASES) and incoming.method != "GET" and isinstance(answered, Answer):
            self.writes.append("lease" if answered.body["spec"]["holderIdentity"] else "free")
        return answered


@dataclass
class Reign:
    """Somebody leads, with a lease of two seconds."""

    server: Server
    running: Running
    task: "asyncio.Task[int]"
    client: ApiClient
    lines: io.StringIO
    settings: RunSettings
    logs: Logs

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                assert not self.task.done(), self.task.result()
                await asyncio.sleep(0.01)

    async def ends(self) -> int:
        async with asyncio.timeout(20):
            return await self.task

    async def begin_a_bind(self) -> None:
        """The server has it, and does not answer."""
        await self.client.post("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}})
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await self.client.post(PODS, pod)
        await self.until(lambda: "bind" in self.server.writes)

    async def steal_the_lease(self) -> None:
        await self.client.patch(LEASE, {"spec": {"holderIdentity": "thief"}})

    async def holder(self) -> str:
        return str((await self.client.get(LEASE))["spec"]["holderIdentity"])


@asynccontextmanager
async def a_reign(wall: Clock | None = None, server: Server | None = None) -> AsyncIterator[Reign]:
    server = server or Server(an_api())
    access = ConnectionSettings(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
    config = configuration.default()
    config.leader_election.lease_duration = Duration.parse("2s")
    config.leader_election.renew_deadline = Duration.parse("1500ms")
    config.leader_election.retry_period = Duration.parse("200ms")
    lines = io.StringIO()
    logs = start_logs(logging.Logger("test_running"), stream=lines)
    settings = RunSettings(config, access, replace(access), serving=ServingSettings(port=0))
    running = Running(settings, logs, wall)
    task = asyncio.create_task(running.run())
    async with ApiClient(access, "tests/1") as client:
        reign = Reign(server, running, task, client, lines, settings, logs)
        try:
            await reign.until(running.leads)
            yield reign
        finally:
            server.lets_binds.set()
            task.cancel()
            await asyncio.wait((task,))
            await server.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_leader_that_is_asked_to_stop_finishes_its_binds_before_it_frees_the_lease(number: signal.Signals) -> None:
    async def main() -> None:
        async with a_reign() as reign:
            await reign.begin_a_bind()
            os.kill(os.getpid(), number)
            await reign.until(lambda: f'"Received signal, stopping" signal="{number.name}"' in reign.lines.getvalue())
            if number == signal.SIGHUP:
                os.kill(os.getpid(), number)  # a terminal that closes and its shell each send one
            renewals = reign.server.writes.count("lease")
            await reign.until(lambda: reign.server.writes.count("lease") > renewals + 2)
            assert "free" not in reign.server.writes, "it renews while it waits for the bind"
            reign.server.lets_binds.set()
            assert await reign.ends() == 0
            assert reign.server.writes[-1] == "free"
            assert await reign.holder() == ""
            assert (await reign.client.get(f"{PODS}/p"))["spec"]["nodeName"] == "n1"
            assert "Requested to terminate, exiting" in reign.lines.getvalue()

    asyncio.run(main())


def test_a_leader_that_loses_its_lease_gives_up_its_binds_at_once() -> None:
    async def main() -> None:
        async with a_reign() as reign:
            await reign.begin_a_bind()
            driver, under_way = reign.running._live.driver, []
            close = driver.close

            async def look_and_close() -> None:
                await asyncio.sleep(0)
                under_way.append(len(driver._tasks))
                await close()

            driver.close = look_and_close  # type: ignore[method-assign, assignment]
            await reign.steal_the_lease()
            assert await reign.ends() == 1
            assert under_way == [0], "nothing is left to wait for at the end"
            assert await reign.holder() == "thief"
            assert not reign.running._fence.is_open
            assert "Leaderelection lost" in reign.lines.getvalue()

    asyncio.run(main())


def test_a_leader_whose_fence_shuts_before_its_thread_says_so_ends_as_if_it_had() -> None:
    async def main() -> None:
        async with a_reign() as reign:
            fence = reign.running._fence
            fence.open_until = lambda until_s: None  # type: ignore[method-assign]
            fence.shut()
            assert await reign.ends() == 1
            assert "Leaderelection lost" in reign.lines.getvalue()

    asyncio.run(main())


def test_a_bug_that_ends_the_scheduler_frees_the_lease_and_ends_the_process() -> None:
    async def main() -> None:
        async with a_reign() as reign:

            def broken() -> None:
                raise ZeroDivisionError

            reign.running._live.driver.carry_out = broken  # type: ignore[method-assign]
            with pytest.raises(ZeroDivisionError):
                await reign.ends()
            assert await reign.holder() == ""

    asyncio.run(main())


def test_a_candidate_that_never_led_leaves_the_lease_to_its_holder() -> None:
    async def main() -> None:
        async with a_reign() as reign:
            second = Running(reign.settings, reign.logs)
            waiting = asyncio.create_task(second.run())
            await reign.until(lambda: reign.lines.getvalue().count("Attempting to acquire leader lease") == 2)
            second._stop(signal.SIGTERM)
            assert await waiting == 0
            assert not second.leads()
            assert reign.running.leads() and reign.running._fence.is_open

    asyncio.run(main())


@pytest.mark.parametrize(
    ("elects", "is_dry_run", "is_open"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_only_a_scheduler_that_needs_a_lease_is_fenced(elects: bool, is_dry_run: bool, is_open: bool) -> None:
    async def main() -> None:
        config = configuration.default()
        config.leader_election.leader_elect = elects
        access = ConnectionSettings("http://127.0.0.1:1")
        logs = start_logs(logging.Logger("test_running"), stream=io.StringIO())
        assert Running(RunSettings(config, access, access, is_dry_run=is_dry_run), logs)._fence.is_open is is_open

    asyncio.run(main())


@pytest.mark.parametrize(
    ("elects", "is_dry_run", "is_counted"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_the_pods_are_shown_by_the_scheduler_at_work(elects: bool, is_dry_run: bool, is_counted: bool) -> None:
    """A process that elects does not lead before it has the lease."""

    async def main() -> None:
        config = configuration.default()
        config.leader_election.leader_elect = elects
        access = ConnectionSettings("http://127.0.0.1:1")
        logs = start_logs(logging.Logger("test_running"), stream=io.StringIO())
        running = Running(RunSettings(config, access, access, is_dry_run=is_dry_run), logs)
        running._scheduler.handle(ObjectAdded(a_pod("p", cpu="1", nodeName="n1")))
        shown = running._pages().answer(PageRequest("GET", "/metrics/resources")).body.decode()
        assert ('kube_pod_resource_request{namespace="default",pod="p",node="n1"' in shown) is is_counted

    asyncio.run(main())
