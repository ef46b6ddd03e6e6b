"""Connections within a limit, on both event loops: who has to leave, who may stay, and what is left at the end."""

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from weakref import ref

import pytest
import uvloop

from mooring.kit.listener import ConnectionLimits, Listener

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
both_loops = pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS.keys())
HOST = "127.0.0.1"
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
OPENED: list[Pair] = []


class Echo(asyncio.Protocol):
    """Says what it hears."""

    made: "list[Echo]" = []  # noqa: RUF012

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.made.append(self)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def run(make_loop: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    Echo.made.clear()
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(within_time())


@asynccontextmanager
async def listening(
    connections: int, of_one_remote: int = 1000, **limits: float
) -> AsyncIterator[tuple[Listener, int]]:
    listener = Listener(Echo, ConnectionLimits(connections, of_one_remote, **limits))
    port = await listener.start(HOST, 0)
    try:
        yield listener, port
    finally:
        await listener.close()
        for guest in Echo.made:
            guest.transport.abort()
        for _, writer in OPENED:
            writer.transport.abort()
        OPENED.clear()
        await asyncio.sleep(0)


async def opened(port: int) -> Pair:
    """A connection that ends with the listener."""
    OPENED.append(await asyncio.open_connection(HOST, port))
    return OPENED[-1]


async def connected(port: int) -> Pair:
    """A connection that has been answered, so the listener knows it."""
    pair = await opened(port)
    assert await answers(pair)
    return pair


async def answers(pair: Pair) -> bool:
    reader, writer = pair
    try:
        writer.write(b"?")
        return await reader.read(1) == b"?"
    except ConnectionError:
        return False


@both_loops
def test_the_longest_idle_leaves_first(make_loop: Any) -> None:
    async def main() -> None:
        async with listening(3) as (listener, port):
            first, second, third = [await connected(port) for _ in range(3)]
            listener.idle(Echo.made[0])  # it has just been used
            fourth = await connected(port)
            assert [await answers(pair) for pair in (first, second, third, fourth)] == [True, False, True, True]
            assert listener.count == 3 and listener.rejected == 0

    run(make_loop, main())


@both_loops
def test_the_busy_stay_and_the_new_one_is_closed(make_loop: Any) -> None:
    async def main() -> None:
        async with listening(2) as (listener, port):
            first, second = [await connected(port) for _ in range(2)]
            for echo in Echo.made:
                listener.busy(echo)
            assert not await answers(await opened(port))
            assert [await answers(pair) for pair in (first, second)] == [True, True]
            assert listener.rejected == 1
            listener.idle(Echo.made[1])
            third = await connected(port)
            assert [await answers(pair) for pair in (first, second, third)] == [True, False, True]

    run(make_loop, main())


@both_loops
def test_one_remote_does_not_take_the_place_of_all(make_loop: Any) -> None:
    async def main() -> None:
        async with listening(100, of_one_remote=2) as (listener, port):
            pairs = [await connected(port) for _ in range(5)]
            assert [await answers(pair) for pair in pairs] == [False, False, False, True, True]
            assert listener.count == 2

    run(make_loop, main())


@both_loops
def test_who_has_left_takes_no_place(make_loop: Any) -> None:
    async def main() -> None:
        async with listening(2) as (listener, port):
            kept = await connected(port)
            listener.busy(Echo.made[0])
            for _ in range(5):
                _, writer = await connected(port)
                listener.busy(Echo.made[-1])
                writer.close()
                while listener.count > 1:
                    await asyncio.sleep(0.001)
            assert await answers(kept)
            left = [ref(echo) for echo in Echo.made[1:]]
            del Echo.made[1:]
            gc.collect()
            assert [echo() for echo in left] == [None] * 5

    run(make_loop, main())


@both_loops
def test_a_listener_that_is_closed_accepts_nobody_and_leaves_the_open_alone(make_loop: Any) -> None:
    async def main() -> None:
        async with listening(5) as (listener, port):
            open_pair = await connected(port)
            await listener.close()
            with pytest.raises(OSError):
                await asyncio.open_connection(HOST, port)
            assert await answers(open_pair)

    run(make_loop, main())


@both_loops
def test_an_address_that_is_taken_is_an_error_and_leaves_no_socket_behind(
    make_loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with socket.create_server((HOST, 0)) as taken:
            _, taken_port = taken.getsockname()
            addresses = [
                (socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, taken_port)) for host in ("127.0.0.2", HOST)
            ]

            async def found(*_: Any, **more: Any) -> Any:
                return addresses

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
            listener, held = Listener(Echo, ConnectionLimits(1, 1)), set(os.listdir("/proc/self/fd"))
            with pytest.raises(OSError):
                await listener.start(HOST, taken_port)
            assert set(os.listdir("/proc/self/fd")) == held

    run(make_loop, main())


@both_loops
def test_a_burst_is_accepted_at_once(make_loop: Any) -> None:
    """Not one for each turn of the event loop, in which a busy server answers a request on every other connection."""

    async def main() -> None:
        async with listening(100) as (listener, port):
            burst = [socket.create_connection((HOST, port)) for _ in range(60)]
            for _ in range(5):
                await asyncio.sleep(0)
            assert listener.count == len(burst)
            for client in burst:
                client.close()

    run(make_loop, main())


@both_loops
def test_a_failed_accept_is_tried_again(make_loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for want of descriptors: the connection waits in the backlog."""
    failures = [OSError(24, "Too many open files")] * 3
    accept = socket.socket.accept

    def fail_first(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", fail_first)

    async def main() -> None:
        async with listening(5, pause_s=0.01) as (_, port):
            assert await connected(port)
            assert failures == []

    run(make_loop, main())
