"""The dashboard behind the pages of `mooring run`: files for everyone, data for those who may get it, and no writes."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from build import a_node, a_pod
from dashboard_stage import FILES, StagedSource
from fake_client import FakeClient
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler
from mooring.kit.clock import WallClock
from mooring.kit.logs import Log
from mooring.serve.pages.access import AccessSettings, request_authorizer
from mooring.serve.pages.pages import Health, Pages, Sources, health_pages
from mooring.serve.pages.server import WebLimits, WebServer

SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))
API = "/dashboard/api/"


class StagedReviews(FakeClient):
    """Knows alice, who may get all data; bob, who may get the session; and mallory, who may get nothing."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        spec = body["spec"]
        if "token" in spec:
            is_known = spec["token"] in ("alice", "bob", "mallory")
            return {"status": {"authenticated": is_known, "user": {"username": spec["token"]}}}
        wanted = spec["nonResourceAttributes"]
        self.asked.append({"user": spec["user"], **wanted})
        is_alices = spec["user"] == "alice" and wanted["path"].startswith(API)
        is_bobs = spec["user"] == "bob" and wanted == {"path": f"{API}session", "verb": "get"}
        return {"status": {"allowed": is_alices or is_bobs}}


class Mounted:
    def __init__(self, session: aiohttp.ClientSession, port: int, reviews: StagedReviews) -> None:
        self.session, self.port, self.reviews = session, port, reviews

    async def ask(self, method: str, path: str, token: str = "", **more: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, headers=headers, allow_redirects=False, **more) as reply:
            is_json = reply.content_type == "application/json"
            return reply.status, await reply.json() if is_json else await reply.read()


@asynccontextmanager
async def mounted(limits: WebLimits | None = None) -> AsyncIterator[Mounted]:
    reviews = StagedReviews()
    sources = Sources(lambda: b"m 1\n", lambda: b"", lambda: b"", lambda: None, dict, dict)
    pages = Pages(sources, health_pages(Health(True, lambda: False, lambda: True), SILENT), WallClock(), time.time_ns())
    source = StagedSource(a_node("n"), a_pod("p", cpu="9"))
    handler = DashboardHandler(DashboardParts(source, "1"), _no_report, FILES)
    authorizer = request_authorizer(AccessSettings(), reviews, reviews, time.monotonic, SILENT)
    server = WebServer(pages, authorizer, SILENT, limits, handler)
    port = await server.start("127.0.0.1", 0, None)
    handler.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Mounted(session, port, reviews)
    finally:
        await handler.close()
        await server.stop()


def _no_report(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault


def test_files_are_open_and_data_is_authorized_by_path_and_verb() -> None:
    async def run() -> None:
        async with mounted() as pages:
            assert (await pages.ask("GET", "/dashboard/"))[0] == 200
            assert (await pages.ask("GET", "/dashboard"))[0] == 307
            assert pages.reviews.asked == []
            for path in ("session", "nodes/n", "pods", "stream", "history", "nothing"):
                assert (await pages.ask("GET", API + path))[0] == 403
                assert (await pages.ask("GET", API + path, "wrong"))[0] == 401
                assert (await pages.ask("GET", API + path, "mallory"))[0] == 403
            assert (await pages.ask("GET", f"{API}session", "bob"))[0] == 200
            assert (await pages.ask("GET", f"{API}pods", "bob"))[0] == 403
            assert (await pages.ask("GET", f"{API}pods", "alice"))[0] == 200
            asked = {"user": "alice", "path": f"{API}pods", "verb": "get"}
            assert asked in pages.reviews.asked

    asyncio.run(run())


def test_other_pages_are_as_they_were() -> None:
    async def run() -> None:
        async with mounted() as pages:
            assert (await pages.ask("GET", "/healthz"))[0] == 200
            assert (await pages.ask("GET", "/metrics"))[0] == 403
            assert (await pages.ask("GET", "/dashboards", "alice"))[0] == 403

    asyncio.run(run())


def test_it_is_read_only_also_for_those_who_may_post() -> None:
    async def run() -> None:
        async with mounted() as pages:
            _, session = await pages.ask("GET", f"{API}session", "alice")
            assert (session["readOnly"], session["canDo"], session["canAsk"]) == (True, False, False)
            for path in ("do", "what-if", "replay/seek"):
                assert (await pages.ask("POST", API + path, "bob", json={}))[0] == 403
                assert (await pages.ask("POST", API + path, "alice", json={}))[0] == 404
            for method in ("PUT", "PATCH", "DELETE"):
                assert (await pages.ask(method, f"{API}nodes/n", "alice"))[0] == 405
            assert {each["verb"] for each in pages.reviews.asked} == {"get", "post", "put", "patch", "delete"}

    asyncio.run(run())


def test_a_stream_outlasts_the_time_limit_of_pages_and_ends_with_the_server() -> None:
    async def run() -> None:
        async with mounted(WebLimits(request_s=0.3)) as pages:
            url = f"http://127.0.0.1:{pages.port}{API}stream"
            reply = await pages.session.get(url, headers={"Authorization": "Bearer alice"})
            began = asyncio.get_running_loop().time()
            received = b""
            async with asyncio.timeout(10):
                while asyncio.get_running_loop().time() < began + 1 or b"event: nodes" not in received:
                    received += await reply.content.readany()
            assert not reply.closed

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/dashboard/%61pi/session", "/dashboard/x/../api/session", "/dashboard//api/session"])
def test_paths_that_are_written_otherwise_do_not_pass_the_door(path: str) -> None:
    async def run() -> None:
        async with mounted() as pages:
            reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            reply = await asyncio.wait_for(reader.read(), 5)
            writer.close()
            assert reply.split(b" ")[1] in (b"401", b"403", b"404")
            assert b"program" not in reply

    asyncio.run(run())
