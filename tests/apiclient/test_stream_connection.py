"""One connection whose answers are read as they arrive: in any pieces, too fast, too large, broken off, and not HTTP."""

import asyncio
import ssl
from collections.abc import Coroutine
from typing import Any

import pytest
from test_lean_connection import BUSY, CHUNKED, CONTINUED, EMPTY, PLAIN, TRAILED

from mooring.apiclient.http_requests import TooLarge
from mooring.apiclient.stream_transport import READ_AHEAD_BYTES, NotHttp, StreamConnection
from mooring.kit.tasks import NO_FENCE, Fence, FencedOff

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire:
    """Stands for the LeanSocket: what was written, and whether it is read."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_read, self.is_closed = True, False
        self.unsent = 0

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause(self) -> None:
        self.is_read = False

    def resume(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True


async def asked(fence: Fence = NO_FENCE) -> tuple[StreamConnection, Wire, "asyncio.Task[None]"]:
    """A connection with a request under way."""
    wire: Any = Wire()
    connection = StreamConnection(wire)
    asking = asyncio.create_task(connection.ask(b"GET / HTTP/1.1\r\n\r\n", fence))
    await asyncio.sleep(0)
    return connection, wire, asking


async def body_of(connection: StreamConnection) -> bytes:
    return b"".join([piece async for piece in connection.content.iter_any()])


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        pytest.param(PLAIN, 201, b"hello", id="with a length"),
        pytest.param(CHUNKED, 200, b"hello", id="in chunks"),
        pytest.param(TRAILED, 200, b"hello", id="in chunks with trailers"),
        pytest.param(CONTINUED, 201, b"hello", id="after 100 Continue and 103"),
        pytest.param(BUSY, 429, b"", id="with Retry-After"),
        pytest.param(EMPTY, 204, b"", id="without a body"),
    ],
)
def test_an_answer_may_be_split_anywhere_and_another_follows(answer: bytes, status: int, body: bytes) -> None:
    async def main() -> None:
        for cut in range(1, len(answer)):
            connection, wire, asking = await asked()
            for _ in range(2):
                connection.data_received(answer[:cut])
                assert not connection.is_usable
                connection.data_received(answer[cut:])
                await asking
                assert (connection.status, await body_of(connection)) == (status, body), cut
                assert connection.is_usable and not wire.is_closed
                asking = asyncio.create_task(connection.ask(b"GET / HTTP/1.1\r\n\r\n", NO_FENCE))
                await asyncio.sleep(0)
            asking.cancel()

    run(main())


def test_headers_have_names_in_lower_case() -> None:
    async def main() -> None:
        connection, _, asking = await asked()
        connection.data_received(b'HTTP/1.1 200 OK\r\nETag:  "x" \r\nContent-Length: 12\r\n\r\n')
        await asking
        assert connection.headers == {"etag": '"x"', "content-length": "12"}
        assert connection.content_length == 12

    run(main())


def test_pieces_that_arrive_together_come_together() -> None:
    async def main() -> None:
        connection, _, asking = await asked()
        connection.data_received(STREAM + b"2\r\nab\r\n1\r\nc\r\n")
        await asking
        pieces = connection.iter_any()
        assert await anext(pieces) == b"abc"
        waiting = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        connection.data_received(b"1\r\nd\r\n0\r\n\r\n")
        assert await waiting == b"d"
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)

    run(main())


@pytest.mark.parametrize("chunk", [b"x" * 65_536, b"x"], ids=["large pieces", "pieces of one byte"])
def test_a_body_that_nobody_takes_is_read_ahead_to_a_limit(chunk: bytes) -> None:
    async def main() -> None:
        connection, wire, asking = await asked()
        connection.data_received(STREAM)
        await asking
        arrived = 0
        while wire.is_read:
            connection.data_received((b"%x\r\n%b\r\n" % (len(chunk), chunk)) * 1000)
            arrived += 1000
        assert READ_AHEAD_BYTES < arrived * (len(chunk) + 64) < READ_AHEAD_BYTES + 1001 * (len(chunk) + 64)
        assert await anext(connection.iter_any()) == chunk * arrived
        assert wire.is_read

    run(main())


@pytest.mark.parametrize(
    ("received", "fault"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", NotHttp, id="another protocol"),
        pytest.param(b"HTTP/1.1 007 OK\r\nContent-Length: 0\r\n\r\n", NotHttp, id="a status that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70_000, TooLarge, id="no end of headers"),
    ],
)
def test_a_head_that_is_none_ends_the_connection(received: bytes, fault: type[Exception]) -> None:
    async def main() -> None:
        connection, wire, asking = await asked()
        connection.data_received(received)
        with pytest.raises(fault):
            await asking
        assert wire.is_closed and not connection.is_usable

    run(main())


@pytest.mark.parametrize(
    ("received", "fault"),
    [
        pytest.param(b"1\r\nabc", NotHttp, id="a chunk that is too long"),
        pytest.param(b"-6\r\n", NotHttp, id="a negative chunk"),
        pytest.param(b"0\r\nChecksum: " + b"1" * 70_000, TooLarge, id="trailers without end"),
        pytest.param(b"1;" + b"x" * 70_000, TooLarge, id="an extension without end"),
    ],
)
def test_what_came_before_a_fault_is_handed_out_first(received: bytes, fault: type[Exception]) -> None:
    async def main() -> None:
        connection, wire, asking = await asked()
        connection.data_received(STREAM + b"2\r\nok\r\n")
        await asking
        for start in range(0, len(received), 10_000):
            connection.data_received(received[start : start + 10_000])
        pieces = connection.iter_any()
        assert (await anext(pieces)).startswith(b"ok")
        with pytest.raises(fault):
            await anext(pieces)
        assert wire.is_closed

    run(main())


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (None, ConnectionResetError),
        (OSError(104, "Connection reset by peer"), ConnectionResetError),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), ConnectionResetError),
        (ssl.SSLError(1, "certificate required"), ssl.SSLError),
    ],
)
def test_an_answer_that_breaks_off_is_a_fault(error: Exception | None, raised: type[Exception]) -> None:
    async def main() -> None:
        connection, _, asking = await asked()
        connection.data_received(STREAM)
        await asking
        connection.connection_lost(error)
        with pytest.raises(raised):
            await body_of(connection)
        assert not connection.is_usable

    run(main())


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def main() -> None:
        connection, _, asking = await asked()
        connection.data_received(b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>")
        await asking
        connection.connection_lost(None)
        assert await body_of(connection) == b"<html>"

    run(main())


def test_bytes_without_a_request_end_the_connection() -> None:
    wire: Any = Wire()
    StreamConnection(wire).data_received(PLAIN)
    assert wire.is_closed


def test_two_answers_to_one_request_are_not_http() -> None:
    async def main() -> None:
        connection, wire, asking = await asked()
        connection.data_received(PLAIN + PLAIN)
        await asking
        assert wire.is_closed and not connection.is_usable

    run(main())


def test_the_last_byte_waits_for_the_others_and_for_the_fence() -> None:
    async def main() -> None:
        wire: Any = Wire()
        wire.unsent = 3
        fence = Fence()
        connection = StreamConnection(wire)
        asking = asyncio.create_task(connection.ask(b"POST / HTTP/1.1\r\n\r\n{}", fence))
        await asyncio.sleep(0.02)
        assert wire.sent == [b"POST / HTTP/1.1\r\n\r\n{"]
        wire.unsent = 0
        with pytest.raises(FencedOff):
            await asking
        assert wire.sent == [b"POST / HTTP/1.1\r\n\r\n{"]

    run(main())
