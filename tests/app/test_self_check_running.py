"""`mooring run --self-check` against an API server over HTTP: it finds nothing where nothing is wrong, and lost events."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from cluster_api import an_api
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import Reflector
from mooring.apiserver.server.http import HttpServer
from mooring.app.run import Running, RunSettings, ServingSettings
from mooring.drivers import self_checks
from mooring.drivers.self_checks import SelfCheckSettings
from mooring.framework import config as configuration
from mooring.kit.logs import start_logs
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.state.check import check

PODS = "/api/v1/namespaces/default/pods"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (check, self_checks):
        monkeypatch.setattr(module, "RETAKES_S", (0.1, 0.1))


class CheckedRun:
    """A process that checks itself every tenth of a second."""

    def __init__(self, running: Running, client: ApiClient, lines: io.StringIO) -> None:
        self.running, self.client, self._lines = running, client, lines

    def says(self, text: str) -> bool:
        return text in self._lines.getvalue()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.02)

    async def two_checks(self) -> None:
        """Let a check end that began after now."""
        before = self._lines.getvalue().count("Self-check finished")
        await self.until(lambda: self._lines.getvalue().count("Self-check finished") >= before + 2)

    def reflector(self, kind: type) -> Reflector:
        return next(each for each in self.running._live.reflectors.members if each.spec.struct is kind)


@asynccontextmanager
async def a_run(repairs: bool = False) -> AsyncIterator[CheckedRun]:
    server = HttpServer(an_api())
    access = ConnectionSettings(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
    config, lines = configuration.default(), io.StringIO()
    config.leader_election.leader_elect = False
    settings = RunSettings(
        config, access, replace(access), serving=ServingSettings(port=0), self_check=SelfCheckSettings(0.1, repairs)
    )
    running = Running(settings, start_logs(logging.Logger("test_self_check_running"), stream=lines, verbosity=2))
    task = asyncio.create_task(running.run())
    async with ApiClient(access, "tests/1") as client:
        for name in ("n1", "n2"):
            status = {"allocatable": {"pods": "9", "cpu": "2"}}
            await client.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        for number, cpu in enumerate(("1", "1", "1", "9")):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
            await client.post(PODS, {"metadata": {"name": f"p{number}"}, "spec": {"containers": [container]}})
        try:
            yield CheckedRun(running, client, lines)
        finally:
            task.cancel()
            await asyncio.wait((task,))
            await server.stop()


def test_a_run_that_is_right_differs_in_nothing() -> None:
    async def main() -> None:
        async with a_run() as run:
            await run.two_checks()
            await run.client.delete(f"{PODS}/p0")
            await run.two_checks()
            assert not run.says("difference ") and not run.says("Self-check failed")

    asyncio.run(main())


def test_an_event_that_a_watch_lost_is_found_and_mended() -> None:
    async def main() -> None:
        async with a_run(repairs=True) as run:
            await run.two_checks()
            reflector = run.reflector(Node)
            node = reflector.mirror.known.objects.pop("n2")
            reflector.mirror._listen(node, None)
            await run.until(lambda: run.says("Self-check mended a difference"))
            assert run.says('kind="watch" subject="Node n2" what="version" believed="there is none"')
            assert "n2" in reflector.objects
            assert run.running._scheduler.cluster.nodes.row_book.keys() == {"n1", "n2"}

    asyncio.run(main())


def test_a_pod_whose_deletion_a_watch_lost_is_found_and_mended() -> None:
    async def main() -> None:
        async with a_run(repairs=True) as run:
            await run.two_checks()
            mirror = run.reflector(Pod).mirror
            known = mirror.known.objects["default/p0"]
            metadata = msgspec.structs.replace(known.metadata, name="ghost", uid="ghost", resource_version="1")
            ghost = Pod(metadata, known.spec, known.status)
            mirror.known.objects[ghost.key] = ghost
            mirror._listen(None, ghost)
            await run.until(lambda: run.says('mended a difference" kind="watch" subject="Pod default/ghost"'))
            assert "default/ghost" not in run.running._scheduler.pods

    asyncio.run(main())
