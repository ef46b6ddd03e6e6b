"""A server in this process that answers lists and watches by script, and a reflector that meets it in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec, Watch
from mooring.apiclient.client import ApiClient, ClientOptions, Limits
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import Reflector, ReflectorOptions
from mooring.apiclient.throttle import Timing
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

PODS = KindSpec("", "v1", "pods", "Pod", struct=Pod, watch=Watch(True, "status.phase!=Failed"))
OPTIONAL = KindSpec("", "v1", "pods", "Pod", struct=Pod)

STREAMED_LIST = {
    "allowWatchBookmarks": "true",
    "fieldSelector": "status.phase!=Failed",
    "resourceVersionMatch": "NotOlderThan",
    "sendInitialEvents": "true",
    "timeoutSeconds": "300",
    "watch": "true",
}
WATCH = {
    "allowWatchBookmarks": "true",
    "fieldSelector": "status.phase!=Failed",
    "timeoutSeconds": "300",
    "watch": "true",
}
PAGE = {"fieldSelector": "status.phase!=Failed", "limit": "500"}
NEWER_PAGE = {**PAGE, "resourceVersionMatch": "NotOlderThan"}
"""Of a list that is at least as new as a version: without the match, a limit asks for exactly that version."""


# Objects and lines


def seen(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}}


def line(event_type: str, item: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"type": event_type, "object": item}) + b"\n"


def added(name: str, version: int, uid: str = "") -> bytes:
    return line("ADDED", seen(name, version, uid))


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def list_end(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return line("BOOKMARK", {"metadata": metadata})


def failing(error: ApiError) -> bytes:
    return line("ERROR", error.status())


# The server: one answer a request

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def says(*chunks: bytes, then: str = "end") -> Answer:
    """A stream of these chunks; then it ends, breaks off, or stays open and silent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "stay":
            await asyncio.Event().wait()
        if then == "break":
            await asyncio.sleep(0.02)  # or else the reset overtakes what was sent
            assert request.transport
            request.transport.abort()
        return response

    return answer


def refuses(error: ApiError) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(error.status(), status=error.code)

    return answer


def lists(version: int, *items: Mapping[str, Any], more: str = "") -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": items})

    return answer


STAYS = says(then="stay")


class Script:
    """Gives the answers one after the other, and stays silent when there are no more."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        return await (self._answers.pop(0) if self._answers else STAYS)(request)


@asynccontextmanager
async def served(handle: Answer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


# Time


@dataclass
class Time:
    """Pauses pass at once; those who guard against silence wait until `let_pass`."""

    now_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)
    _waiting: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    async def sleep(self, for_s: float) -> None:
        task = asyncio.current_task()
        if task and task.get_name().startswith("silence"):
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((self.now_s + for_s, future))
            await future
            return
        self.slept_s.append(for_s)
        self.now_s += for_s
        await asyncio.sleep(0)

    @property
    def guards(self) -> int:
        return sum(not future.done() for _, future in self._waiting)

    def let_pass(self, for_s: float) -> None:
        self.now_s += for_s
        for until_s, future in self._waiting:
            if until_s <= self.now_s and not future.done():
                future.set_result(None)

    def timing(self) -> Timing:
        return Timing(lambda: self.now_s, self.sleep)


# The stage


@dataclass
class Story:
    """What a listener was told, and an operator."""

    told: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    def __call__(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if old is None and new is not None:
            self.added(new)
        elif new is None and old is not None:
            self.removed(old)
        elif old is not None and new is not None:
            self.updated(old, new)

    def added(self, item: KubeObject) -> None:
        self.told.append(f"+{item.key}@{item.metadata.resource_version}")

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        self.told.append(f"~{new.key}@{new.metadata.resource_version}")

    def removed(self, item: KubeObject) -> None:
        self.told.append(f"-{item.key}")

    def report(self, text: str, fault: Exception | None) -> None:
        assert fault is None
        self.reports.append(text)


@dataclass
class Stage:
    script: Script
    time: Time
    story: Story
    reflector: Reflector

    async def asked(self, count: int) -> list[dict[str, str]]:
        """Wait until the server was asked so often."""
        await self.until(lambda: len(self.script.asked) >= count)
        return self.script.asked

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def a_stage(
    *answers: Answer, watched: KindSpec = PODS, draw: Callable[[], float] = lambda: 0.0
) -> AsyncIterator[Stage]:
    script, time, story = Script(*answers), Time(), Story()
    reflector_options = ReflectorOptions(time.timing(), draw, report=story.report)
    client_time = Time()
    async with served(script.handle) as url:
        client = ApiClient(
            ConnectionSettings(url),
            "test/1",
            -1,
            limits=Limits(request_s=5, answer_bytes=1_000_000),
            options=ClientOptions(client_time.timing()),
        )
        async with client:
            reflector = Reflector(client, watched, story, reflector_options)
            task = asyncio.create_task(reflector.run())
            try:
                yield Stage(script, time, story, reflector)
                assert not task.done()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)
