"""`mooring run --dashboard`: one process with its pages, on an API server of this process."""

import asyncio
import io
import logging
import os
import signal
import socket
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from cluster_api import an_api
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiserver.server.http import HttpServer
from mooring.app.run import Running, RunSettings, ServingSettings
from mooring.framework import config as configuration
from mooring.kit.logs import start_logs

pytestmark = pytest.mark.slow

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "9"}}}


@pytest.mark.parametrize("verbosity", [0, 3])
def test_the_dashboard_shows_the_scheduler_at_work_and_ends_with_it(verbosity: int) -> None:
    """With a high verbosity the log has the stories too."""

    async def run() -> None:
        server = HttpServer(an_api())
        access = ConnectionSettings(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        config = configuration.default()
        config.leader_election.leader_elect = False
        serving = ServingSettings("127.0.0.1", port, looks_up=False)
        lines = io.StringIO()
        logs = start_logs(logging.Logger("test_dashboard"), verbosity=verbosity, stream=lines)
        running = Running(RunSettings(config, access, replace(access), serving=serving, has_dashboard=True), logs)
        task = asyncio.create_task(running.run())
        try:
            async with ApiClient(access, "tests/1") as client, aiohttp.ClientSession() as session:
                await client.post("/api/v1/nodes", NODE)
                await client.post("/api/v1/namespaces/default/pods", POD)
                asked = Asked(session, f"https://127.0.0.1:{port}/dashboard/")
                async with asyncio.timeout(20):
                    while (await asked.get("api/pods?state=bound"))["total"] != 1:
                        await asyncio.sleep(0.05)
                found = await asked.get("api/session")
                assert (found["program"], found["isLeader"], found["readOnly"]) == ("run", True, True)
                async with asyncio.timeout(20):  # the watch may tell of the bind before its answer does
                    while (told := await asked.story("default/p"))[-1] != "bound":
                        await asyncio.sleep(0.05)
                assert told == ["queued", "popped", "placed", "bound"]
                assert ("is bound to n1" in lines.getvalue()) is (verbosity == 3)
                stream = await session.get(f"{asked.url}api/stream", ssl=False)
                assert b"event: " in await stream.content.readany()
                os.kill(os.getpid(), signal.SIGTERM)
                async with asyncio.timeout(10):
                    assert await task == 0
                    await stream.read()  # it had a proper end
        finally:
            task.cancel()
            await asyncio.wait((task,))
            await server.stop()

    asyncio.run(run())


class Asked:
    """A caller on this machine: without reviews, it needs no token."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def get(self, path: str) -> Any:
        try:
            async with self.session.get(f"{self.url}{path}", ssl=False) as reply:
                assert reply.status == 200
                return await reply.json()
        except aiohttp.ClientConnectorError:  # it does not listen yet
            return {"total": 0}

    async def story(self, key: str) -> list[str]:
        return [line["what"] for line in (await self.get(f"api/pods/{key}"))["timeline"]]
