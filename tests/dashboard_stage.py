"""A scheduler on a virtual clock behind a dashboard, and a client that asks it over HTTP."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any, TypeVar

import aiohttp

from mooring.dashboard.interfaces import SourceFacts
from mooring.dashboard.questions.child_questions import ChildProcess
from mooring.dashboard.questions.question_process import answer_to, answered, write
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler, LoopbackServer
from mooring.dashboard.views.scheduling_flow import FlowCounters, PodStories, SelfCheckFigures
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework.config import default
from mooring.kit.clock import VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler

TOKEN = "a-token-of-tests"
FILES = {
    "index.html": b"<!doctype html><title>Mooring</title>",
    "assets/index-4f2a.js": b"export {}",
}
T = TypeVar("T")


class AnsweringThread(ChildProcess):
    """Stands for the process that answers a question: a thread with its pipes. A process takes half a second to start."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        its_stdin, stdin = os.pipe()
        stdout, its_stdout = os.pipe()
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(stdin, "wb", 0),
            os.fdopen(stdout, "rb", 0),
            os.fdopen(os.open(os.devnull, os.O_RDONLY), "rb"),
        )
        os.set_blocking(stdin, False)
        os.set_blocking(stdout, False)
        self._thread = Thread(target=self._answer, args=(its_stdin, its_stdout))
        self._thread.start()

    @staticmethod
    def _answer(stdin: int, stdout: int) -> None:
        with os.fdopen(stdin, "rb") as lines:
            status, body = answered(lines, answer_to)
        write(os.fdopen(stdout, "wb"), status, body)

    @property
    def status(self) -> int | None:
        return None if self._thread.is_alive() else 0

    async def end(self) -> None:
        for each in (self.stdin, self.stdout, self.stderr):
            each.close()
        await self.wait()


class StagedSource:
    """A DashboardSource with a scheduler of its own."""

    def __init__(
        self, *items: KubeObject, clock: VirtualClock | None = None, gates: Mapping[str, bool] | None = None
    ) -> None:
        self.clock = VirtualClock(START_NS) if clock is None else clock
        self.stories: PodStories | None = PodStories(self.clock.now_ns)
        self.flow: FlowCounters | None = FlowCounters(self.clock)
        self.scheduler: Scheduler = build_scheduler(
            default(feature_gates=gates),
            self.clock,
            listeners=SchedulerListeners(tell=self.stories.tell, observer=self.flow.around(Observer())),
            gates=gates,
        )
        self.driver = Driver(self.clock, self.scheduler)
        self.checked: SelfCheckFigures | None = None
        self.add(*items)

    def add(self, *items: KubeObject) -> None:
        """Create objects; pods are for the default profile unless they name another one."""
        for item in items:
            if isinstance(item, Pod) and not item.spec.scheduler_name:
                item.spec.scheduler_name = "default-scheduler"
            self.driver.create(item)

    def now_ns(self) -> int:
        return self.clock.now_ns()

    def facts(self) -> SourceFacts:
        return SourceFacts("up", ["default-scheduler"])

    def self_check(self) -> SelfCheckFigures | None:
        return self.checked


class StagedClient:
    """Asks a dashboard. `faults` are what the server reported."""

    def __init__(self, session: aiohttp.ClientSession, url: str, faults: list[str], handler: DashboardHandler) -> None:
        self.session, self.url, self.faults, self.handler = session, url, faults, handler

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[int, Any, Mapping[str, str]]:
        """(status, JSON or bytes, headers); with the token unless `headers` are given."""
        headers = {"Authorization": f"Bearer {TOKEN}"} if headers is None else headers
        url = f"{self.url}{path}"
        async with self.session.request(method, url, headers=headers, allow_redirects=False, **more) as reply:
            is_json = reply.content_type == "application/json"
            return reply.status, await reply.json() if is_json else await reply.read(), reply.headers

    async def get(self, path: str) -> Any:
        """The JSON of a path below /dashboard/api/ that answers 200."""
        status, body, _ = await self.ask("GET", f"/dashboard/api/{path}")
        assert status == 200, body
        return body


@asynccontextmanager
async def served(parts: DashboardParts, files: Mapping[str, bytes] = FILES) -> AsyncIterator[StagedClient]:
    faults: list[str] = []

    def report(text: str, fault: Exception | None) -> None:
        faults.append(f"{text}: {fault!r}")

    handler = DashboardHandler(parts, report, files)
    server = LoopbackServer(handler, TOKEN, report)
    link = await server.start(0)
    try:
        async with aiohttp.ClientSession() as session:
            yield StagedClient(session, link.partition("/dashboard/")[0], faults, handler)
    finally:
        await server.stop()


def with_dashboard(parts: DashboardParts, test: Callable[[StagedClient], Awaitable[T]]) -> T:
    """Run a test against a served dashboard. A fault that the server reports ends it."""

    async def run() -> T:
        async with served(parts) as client:
            result = await test(client)
            assert client.faults == []
            return result

    return asyncio.run(run())
