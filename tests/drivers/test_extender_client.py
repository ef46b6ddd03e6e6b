"""Extenders over real HTTP, on this machine: what is sent, what is taken for an answer, and what bounds a call."""

import asyncio
import errno
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from mooring.drivers.extender_calls import MAX_REPLY_BYTES, ExtenderClient
from mooring.framework.config.durations import Duration
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Call, CallFault, CallReply

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MILLISECOND_NS = 1_000_000


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """The URL of a server on which the handler answers everything."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def a_call(url: str, **settings: Any) -> Call:
    return Call(Extender(url_prefix=f"{url}/sched/", **settings), "filter", {})


async def asked(call: Call, body: bytes = b"{}", **settings: Any) -> CallReply:
    client = ExtenderClient((call.extender,), **settings)
    try:
        return await client.ask(call, body)
    finally:
        await client.close()


def outcome(handler: Handler, **settings: Any) -> tuple[str, CallReply]:
    """The URL that was called, and the reply."""

    async def run() -> tuple[str, CallReply]:
        async with serving(handler) as url:
            call = a_call(url, **settings)
            return call.url, await asked(call)

    return asyncio.run(run())


def test_a_call_is_one_post() -> None:
    seen: list[tuple[str, str, bytes, dict[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, await request.read(), dict(request.headers)))
        return web.Response(body=b'{"NodeNames":[]}')

    async def run() -> CallReply:
        async with serving(answer) as url:
            return await asked(a_call(url), b'{"Pod":{}}')

    assert asyncio.run(run()) == b'{"NodeNames":[]}'
    ((method, path, body, headers),) = seen
    assert (method, path, body) == ("POST", "/sched/filter", b'{"Pod":{}}')
    assert headers["Content-Type"] == "application/json"
    assert headers["Accept-Encoding"] == "gzip"
    assert headers["User-Agent"] == "kube-scheduler/v1.37.0 (mooring)"
    assert not {"Accept", "Authorization", "Cookie"} & set(headers)


def test_connections_are_kept() -> None:
    ports: set[int] = set()

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.Response(body=b"[]")

    async def run() -> None:
        async with serving(answer) as url:
            call = a_call(url)
            client = ExtenderClient((call.extender,))
            for _ in range(5):
                assert await client.ask(call, b"{}") == b"[]"
            await client.close()

    asyncio.run(run())
    assert len(ports) == 1


@pytest.mark.parametrize("code", [201, 204, 400, 404, 500, 503])
def test_only_200_is_success(code: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=code, body=b"" if code == 204 else b'{"NodeNames":[]}')

    url, reply = outcome(answer)
    assert reply == CallFault(f"failed filter with extender at URL {url}, code {code}")


def test_an_empty_body_is_left_to_the_reader() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    assert outcome(answer)[1] == b""


def test_a_packed_reply_is_unpacked() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert "gzip" in request.headers["Accept-Encoding"]
        return web.Response(body=gzip.compress(b'{"a":1}'), headers={"Content-Encoding": "gzip"})

    assert outcome(answer)[1] == b'{"a":1}'


# ---- time


def test_one_that_does_not_answer_is_given_up() -> None:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        raise AssertionError("nobody waits that long")

    url, reply = outcome(answer, http_timeout=Duration(50 * MILLISECOND_NS))
    waiting = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert reply == CallFault(f'Post "{url}": {waiting}')


def test_the_time_is_for_the_body_too() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):  # each piece in time, the whole never
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    reply = outcome(answer, http_timeout=Duration(100 * MILLISECOND_NS))[1]
    reading = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    assert reply == CallFault(reading)


@pytest.mark.parametrize(("written_ns", "limit_s"), [(0, 5.0), (-5, 5.0), (1_500_000_000, 1.5)])
def test_without_a_time_of_its_own_it_is_five_seconds(
    written_ns: int, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    real = asyncio.timeout

    def timeout(delay: float) -> Any:
        limits.append(delay)
        return real(delay)

    monkeypatch.setattr("mooring.drivers.extender_calls.asyncio.timeout", timeout)
    call = Call(Extender(url_prefix="http://127.0.0.1:1", http_timeout=Duration(written_ns)), "filter", {})
    asyncio.run(asked(call))
    assert limits[0] == limit_s, "the outermost one is ours"


# ---- size


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("says_length", [False, True])
def test_too_long_a_reply_is_not_read(is_packed: bool, says_length: bool) -> None:
    body = gzip.compress(b" " * 100_000) if is_packed else b" " * 100_000
    headers = {"Content-Encoding": "gzip"} if is_packed else {}

    async def answer(request: web.Request) -> web.StreamResponse:
        if says_length:
            return web.Response(body=body, headers=headers)
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        await response.write(body)
        return response

    async def run() -> None:
        async with serving(answer) as url:
            call = a_call(url)
            text = "the reply is larger than 65536 bytes, which is all we read"
            assert await asked(call, max_reply_bytes=65536) == CallFault(f'Post "{call.url}": {text}')
            assert await asked(call, max_reply_bytes=100_000) == b" " * 100_000

    asyncio.run(run())


def test_a_reply_without_an_end_is_left_at_the_limit() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 4096)
            await asyncio.sleep(0.001)

    async def run() -> None:
        async with serving(answer) as url:
            call = a_call(url, http_timeout=Duration(5000 * MILLISECOND_NS))
            text = "the reply is larger than 65536 bytes, which is all we read"
            assert await asked(call, max_reply_bytes=65536) == CallFault(f'Post "{call.url}": {text}')

    asyncio.run(run())


def test_the_limit_is_128_mebibytes() -> None:
    """5,000 nodes of 25 KiB fit into it."""
    assert MAX_REPLY_BYTES == 134_217_728 > 5_000 * 25 * 1024


def test_a_reply_of_tiny_values_is_not_decoded() -> None:
    """A packed reply of some kilobytes would take gigabytes as lists."""
    body = gzip.compress(b"[" + b"[]," * 3_000_000 + b"[]]")

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async def run() -> None:
        async with serving(answer) as url:
            call = a_call(url)
            text = "it has more than one value for each 8 bytes, which no Kubernetes object has"
            assert await asked(call) == CallFault(f'Post "{call.url}": the reply cannot be used: {text}')

    asyncio.run(run())


# ---- secrets


@pytest.mark.parametrize(
    "url", ["http://me:SECRET@127.0.0.1:1/x", "http://127.0.0.1:1/?k=SECRET", "http://me:SECRET@[x/"]
)
def test_no_fault_shows_a_password_or_a_token(url: str) -> None:
    reply = asyncio.run(asked(Call(Extender(url_prefix=url), "filter", {})))
    assert isinstance(reply, CallFault)
    assert "SECRET" not in reply.message and reply.message.startswith('Post "http://')


# ---- no connection


def test_nobody_listens() -> None:
    call = a_call("http://127.0.0.1:1")
    reply = asyncio.run(asked(call))
    refused = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert reply == CallFault(f'Post "http://127.0.0.1:1/sched/filter": {refused}')


def test_a_name_that_no_server_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("aiohttp.connector.DefaultResolver.resolve", resolve)
    reply = asyncio.run(asked(a_call("http://extender.example:8080")))
    lookup = "dial tcp: lookup extender.example: no such host"
    assert reply == CallFault(f'Post "http://extender.example:8080/sched/filter": {lookup}')


def test_a_network_without_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", connect)
    reply = asyncio.run(asked(a_call("http://127.0.0.1:1")))
    unreachable = "dial tcp 127.0.0.1:1: connect: Network is unreachable"
    assert reply == CallFault(f'Post "http://127.0.0.1:1/sched/filter": {unreachable}')


FAULTS: dict[str, tuple[Exception, str]] = {
    "the peer resets the connection": (ConnectionResetError(), "read: connection reset by peer"),
    "a fault with a text": (ValueError("odd"), "odd"),
    "a fault without a text": (ValueError(), "ValueError"),
}


@pytest.mark.parametrize(("fault", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_the_words_of_other_faults(fault: Exception, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr("aiohttp.ClientSession.post", post)
    call = a_call("http://127.0.0.1:1")
    assert asyncio.run(asked(call)) == CallFault(f'Post "{call.url}": {text}')


@pytest.mark.parametrize("prefix", ["", "nowhere", "ftp://127.0.0.1/x", "http://127.0.0.1:99999", "http://["])
def test_a_url_that_is_none_is_a_fault_like_others(prefix: str) -> None:
    call = Call(Extender(url_prefix=prefix), "filter", {})
    reply = asyncio.run(asked(call))
    assert isinstance(reply, CallFault) and reply.message.startswith(f'Post "{call.url}": ')


@asynccontextmanager
async def hanging_up(first: int) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that ends the first so many connections when they have asked; and how often it was asked."""
    asks: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline() not in (b"\r\n", b""):
            pass
        asks.append(len(asks))
        if len(asks) > first:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asks
    finally:
        server.close()


def test_a_question_is_asked_once_more_when_the_connection_ends() -> None:
    async def run() -> None:
        async with hanging_up(1) as (url, asks):
            assert await asked(a_call(url), b"") == b"[]"
            assert len(asks) == 2
        async with hanging_up(9) as (url, asks):
            call = a_call(url)
            assert await asked(call, b"") == CallFault(f'Post "{call.url}": EOF')
            assert len(asks) == 2

    asyncio.run(run())


def test_a_bind_is_not() -> None:
    async def run() -> None:
        async with hanging_up(1) as (url, asks):
            call = Call(Extender(url_prefix=url), "bind", {}, binds=True)
            assert await asked(call, b"") == CallFault(f'Post "{call.url}": EOF')
            assert len(asks) == 1

    asyncio.run(run())
