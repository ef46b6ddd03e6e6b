"""A scheduler with its connections: it acts only while it sees, and stops when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.api.api_errors import ApiError, too_many_requests
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import ReflectorOptions
from mooring.apiclient.throttle import Timing
from mooring.drivers.live_service import LiveOptions, LiveScheduler
from mooring.framework import config
from mooring.kit.clock import SteadyClock
from mooring.scheduler.inputs import ObjectAdded
from mooring.state.scheduler_assembly import build_scheduler
from recording_server import Recorded, Recorder, a_recorder, nowhere, refused, said

POD = a_pod("p", cpu="1", metadata={"uid": "u", "resourceVersion": "1"}, schedulerName="default-scheduler")


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(within_time())


class Bug(Exception):
    pass


def a_live(server: str, reflector_options: ReflectorOptions | None = None) -> LiveScheduler:
    live = LiveScheduler(
        build_scheduler(config.default(), SteadyClock()),
        ConnectionSettings(server),
        options=LiveOptions(reflectors=reflector_options) if reflector_options is not None else None,
    )
    live.scheduler.handle(ObjectAdded(a_node("n1")))
    return live


def blind(live: LiveScheduler, until: asyncio.Event) -> LiveScheduler:
    """Watches nothing, and breaks when it is told to."""

    async def run() -> None:
        await until.wait()
        raise Bug

    live.reflectors.run = run  # type: ignore[method-assign]
    return live


@asynccontextmanager
async def a_server(held: asyncio.Event | None = None) -> AsyncIterator[Recorder]:
    """Takes every write; binds only when they are let through."""

    async def answer(request: Recorded) -> bytes:
        if held is not None and request.path.endswith("/binding"):
            await held.wait()
        return said(201)

    async with a_recorder(answer) as recorder:
        yield recorder


@pytest.mark.parametrize("act", ["settle", "schedule"])
def test_a_bug_that_ends_the_watches_ends_what_relies_on_them(act: str) -> None:
    async def main() -> None:
        breaks = asyncio.Event()
        async with blind(a_live(nowhere()), breaks) as live:
            acting = asyncio.create_task(getattr(live, act)())
            await asyncio.sleep(0.01)
            assert not acting.done()
            breaks.set()
            with pytest.raises(Bug):
                await acting

    run(main())


def test_pods_are_bound_and_recorded() -> None:
    async def main() -> None:
        async with a_server() as server, blind(a_live(server.url), asyncio.Event()) as live:
            scheduling = asyncio.create_task(live.schedule())
            await asyncio.sleep(0.01)
            live.take_change(None, POD)
            while len(server.requests) < 2:
                await asyncio.sleep(0.001)
            assert server.lines == [
                "POST /api/v1/namespaces/default/pods/p/binding",
                "POST /apis/events.k8s.io/v1/namespaces/default/events",
            ]
            scheduling.cancel()

    run(main())


PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"


@pytest.mark.parametrize(
    "odd", [PAGE, refused(too_many_requests("no"), **{"Retry-After": "100000"})], ids=["a page", "a wait of a day"]
)
def test_a_bind_with_an_odd_answer_is_tried_again_soon(odd: bytes) -> None:
    """The pod has no node, so that the bind was not carried out; the second one succeeds."""
    binds: list[str] = []

    async def answer(request: Recorded) -> bytes:
        if request.path.endswith("/binding"):
            binds.append(request.line)
            return odd if len(binds) == 1 else said(201)
        return said(200, {"metadata": {"name": "p", "uid": "u"}, "spec": {}})

    async def main() -> None:
        async with a_recorder(answer) as server, blind(a_live(server.url), asyncio.Event()) as live:
            scheduling = asyncio.create_task(live.schedule())
            live.take_change(None, POD)
            while live.driver.bound == 0:
                await asyncio.sleep(0.01)
            assert len(binds) == 2
            scheduling.cancel()

    run(main())


def test_whoever_is_told_to_stop_begins_nothing_more() -> None:
    async def main() -> None:
        async with a_server() as server, blind(a_live(server.url), asyncio.Event()) as live:
            scheduling = asyncio.create_task(live.schedule())
            await asyncio.sleep(0.01)
            scheduling.cancel()
            await asyncio.wait((scheduling,))
            assert scheduling.cancelled()
            live.scheduler.handle(ObjectAdded(POD))
            live.driver.wake()
            await asyncio.sleep(0.05)
            assert server.requests == []

    run(main())


def test_a_write_that_is_under_way_comes_to_its_end() -> None:
    async def main() -> None:
        held = asyncio.Event()
        async with a_server(held) as server:
            async with blind(a_live(server.url), asyncio.Event()) as live:
                live.scheduler.handle(ObjectAdded(POD))
                scheduling = asyncio.create_task(live.schedule())
                while not server.requests:
                    await asyncio.sleep(0.001)
                scheduling.cancel()
                asyncio.get_running_loop().call_later(0.05, held.set)
            assert live.driver.bound == 1
            assert server.lines[-1] == "POST /apis/events.k8s.io/v1/namespaces/default/events"

    run(main())


def test_waits_between_tries_pass_in_the_time_that_was_handed_in() -> None:
    async def main() -> None:
        slept_s: list[float] = []

        async def sleep(for_s: float) -> None:
            slept_s.append(for_s)
            await asyncio.sleep(0)

        busy = [refused(too_many_requests("x"), **{"Retry-After": "7"}), refused(ApiError(403, "Forbidden", "no"))]

        async def answer(request: Recorded) -> bytes:
            return busy.pop(0) if busy and request.path.endswith("/binding") else said(201)

        async with a_recorder(answer) as server:
            live = a_live(server.url, ReflectorOptions(Timing(lambda: 0.0, sleep)))
            async with blind(live, asyncio.Event()):
                live.scheduler.handle(ObjectAdded(POD))
                scheduling = asyncio.create_task(live.schedule())
                while len(server.requests) < 3:
                    await asyncio.sleep(0.001)
                scheduling.cancel()
            assert slept_s == [7]

    run(main())
