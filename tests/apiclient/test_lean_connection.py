"""One lean connection and its reader: answers in any pieces, answers that are none, and answers that nobody waits for."""

import asyncio
from collections.abc import Coroutine
from math import inf
from typing import Any

import pytest

from mooring.apiclient.lean_connection import AT_ONCE_BYTES, MAX_ANSWER_BYTES, AnswerReader, LeanConnection, Reply
from mooring.apiclient.request_errors import ConnectionLost, TooLarge, Unreadable
from mooring.kit.fence import Fence, FencedOff

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n02;x=y\r\nlo\r\n0\r\n\r\n"
TRAILED = CHUNKED[:-2] + b"Checksum: 1\r\nMore: 2\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN
BUSY = b"HTTP/1.1 429 Too Many Requests\r\nretry-after:  7\r\ncontent-length: 0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"

ANSWERS = [
    pytest.param(PLAIN, Reply(201, None, b"hello"), id="with a length"),
    pytest.param(CHUNKED, Reply(200, None, b"hello"), id="in chunks"),
    pytest.param(TRAILED, Reply(200, None, b"hello"), id="in chunks with trailers"),
    pytest.param(CONTINUED, Reply(201, None, b"hello"), id="after 100 Continue and 103"),
    pytest.param(BUSY, Reply(429, 7, b""), id="with Retry-After"),
    pytest.param(EMPTY, Reply(204, None, b""), id="without a body"),
]


# ---- the reader


@pytest.mark.parametrize(("answer", "reply"), ANSWERS)
def test_an_answer_may_be_split_anywhere(answer: bytes, reply: Reply) -> None:
    for cut in range(1, len(answer)):
        reader = AnswerReader()
        assert reader.take(answer[:cut]) is None, cut
        assert reader.take(answer[cut:]) == reply, cut


@pytest.mark.parametrize(("answer", "reply"), ANSWERS)
def test_an_answer_may_come_byte_by_byte_and_another_after_it(answer: bytes, reply: Reply) -> None:
    reader = AnswerReader()
    for _ in range(2):
        replies = [reader.take(answer[i : i + 1]) for i in range(len(answer))]
        assert replies == [None] * (len(answer) - 1) + [reply]
        assert not reader.is_last


@pytest.mark.parametrize(
    ("head", "is_last"),
    [
        (b"HTTP/1.1 200 OK", False),
        (b"HTTP/1.1 200 OK\r\nConnection: close", True),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive", False),
        (b"HTTP/1.0 200 OK", True),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive", False),
    ],
)
def test_the_last_answer_of_a_connection_is_known_as_such(head: bytes, is_last: bool) -> None:
    reader = AnswerReader()
    assert reader.take(head + b"\r\nContent-Length: 0\r\n\r\n") == Reply(200, None, b"")
    assert reader.is_last is is_last


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    reader = AnswerReader()
    assert reader.take(b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>") is None
    assert reader.take(b"oops") is None
    assert reader.end() == Reply(502, None, b"<html>oops")


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n", PLAIN[:-1], CHUNKED[:-1]])
def test_an_answer_that_breaks_off_is_none(part: bytes) -> None:
    reader = AnswerReader()
    assert reader.take(part) is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(b"HTTP/1.1\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 OK\r\n\r\n", id="a status in letters"),
        pytest.param(b"HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n", id="a negative status"),
        pytest.param(b"HTTP/1.1 007 OK\r\nContent-Length: 0\r\n\r\n", id="a status that is none"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n", id="a length as Python writes it"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-6\r\n", id="a negative chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n", id="a chunk as Python writes it"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", id="a chunk without a length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", id="a chunk that is too long"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000, id="a chunk without end"),
        pytest.param(b"x" * 70_000, id="no end of headers"),
        pytest.param(PLAIN + PLAIN, id="two answers"),
        pytest.param(PLAIN + b"H", id="the beginning of a second answer"),
    ],
)
def test_garbage_is_told_as_such(garbage: bytes) -> None:
    with pytest.raises(ValueError):
        AnswerReader().take(garbage)


def test_any_number_of_interim_answers_may_come() -> None:
    assert AnswerReader().take(b"HTTP/1.1 100 Continue\r\n\r\n" * 5000 + PLAIN) == Reply(201, None, b"hello")


@pytest.mark.parametrize(
    "huge",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_ANSWER_BYTES + 1), id="by its length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MAX_ANSWER_BYTES + 9)
            + b"x" * (MAX_ANSWER_BYTES + 1),
            id="in one chunk, before its end",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (MAX_ANSWER_BYTES // 6 + 9),
            id="in small chunks",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_ANSWER_BYTES + 1), id="without a length"),
    ],
)
def test_what_is_too_large_is_not_read(huge: bytes) -> None:
    with pytest.raises(TooLarge):
        AnswerReader().take(huge)


def test_the_largest_answer_is_read() -> None:
    body = b"x" * MAX_ANSWER_BYTES
    reply = AnswerReader().take(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert reply == Reply(200, None, body)


# ---- the connection


class Wire(asyncio.Transport):
    """Keeps what is written; closes when it is told to. A full one keeps so many bytes back."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.kept_back = 0
        self._is_closing = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.kept_back

    def abort(self) -> None:
        self._is_closing = True

    def close(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def a_connection() -> tuple[LeanConnection, Wire]:
    wire = Wire()
    return LeanConnection(wire), wire


async def asked(connection: LeanConnection, request: bytes = b"request") -> "asyncio.Task[Reply]":
    task = asyncio.create_task(connection.ask(request))
    await asyncio.sleep(0)
    return task


def test_requests_and_answers_take_turns() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        for number in range(3):
            task = await asked(connection, b"request %d" % number)
            connection.data_received(PLAIN[:20])
            connection.data_received(PLAIN[20:])
            assert await task == Reply(201, None, b"hello")
            assert connection.is_usable
        assert wire.written == [b"request 0", b"request 1", b"request 2"]

    run(main())


def test_the_end_of_a_connection_is_told_to_whoever_waits() -> None:
    async def main() -> None:
        connection, _ = a_connection()
        task = await asked(connection)
        connection.data_received(PLAIN[:-1])
        connection.connection_lost(None)
        with pytest.raises(ConnectionLost):
            await task
        assert not connection.is_usable

    run(main())


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_only_a_proper_end_completes_an_answer_without_a_length(error: Exception | None) -> None:
    async def main() -> None:
        connection, _ = a_connection()
        task = await asked(connection)
        connection.data_received(b"HTTP/1.1 502 Bad Gateway\r\n\r\noops")
        connection.connection_lost(error)
        if error is None:
            assert await task == Reply(502, None, b"oops")
        else:
            with pytest.raises(ConnectionLost):
                await task

    run(main())


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"garbage\r\n\r\n", Unreadable),
        (PLAIN + PLAIN, Unreadable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", TooLarge),
    ],
)
def test_a_connection_with_an_unusable_answer_is_given_up(answer: bytes, fault: type[Exception]) -> None:
    async def main() -> None:
        connection, wire = a_connection()
        task = await asked(connection)
        connection.data_received(answer)
        with pytest.raises(fault):
            await task
        assert wire.is_closing() and not connection.is_usable

    run(main())


def test_a_server_that_speaks_out_of_turn_is_not_listened_to() -> None:
    async def main() -> None:
        connection, _ = a_connection()
        connection.data_received(PLAIN)
        assert not connection.is_usable

    run(main())


def test_a_second_answer_is_never_kept_for_the_next_request() -> None:
    async def main() -> None:
        connection, _ = a_connection()
        task = await asked(connection)
        connection.data_received(PLAIN)
        connection.data_received(PLAIN[:30])  # before the task has its turn
        assert (await task).status == 201
        assert not connection.is_usable

    run(main())


@pytest.mark.parametrize("way", ["cancelled", "timed out"])
def test_an_answer_to_a_request_that_was_given_up_is_nobodys(way: str) -> None:
    async def main() -> None:
        connection, wire = a_connection()
        if way == "cancelled":
            task = await asked(connection)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await connection.ask(b"request")
        assert wire.is_closing() and not connection.is_usable, (
            "or the answer would be taken for that to the next request"
        )

    run(main())


def test_an_answer_that_came_before_the_cancellation_leaves_the_connection_usable() -> None:
    async def main() -> None:
        connection, _ = a_connection()
        task = await asked(connection)
        connection.data_received(PLAIN)
        task.cancel()
        await asyncio.wait((task,))
        assert connection.is_usable

    run(main())


def test_a_connection_that_the_server_will_close_is_not_used_again() -> None:
    async def main() -> None:
        connection, _ = a_connection()
        task = await asked(connection)
        connection.data_received(PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await task).status == 201
        assert not connection.is_usable

    run(main())


# ---- the fence


def test_a_request_after_the_deadline_is_not_written_and_the_connection_is_given_up() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        with pytest.raises(FencedOff):
            await connection.ask(b"request", Fence())
        assert wire.written == []
        assert not connection.is_usable

    run(main())


def test_bytes_that_the_socket_does_not_take_are_dropped_and_not_left_to_the_loop() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        wire.kept_back = 3
        with pytest.raises(ConnectionLost, match="the socket accepts no more bytes"):
            await connection.ask(b"request")
        assert wire.is_closing()

    run(main())


LARGE = b"x" * AT_ONCE_BYTES + b"!"


def test_the_last_byte_of_a_large_request_waits_for_the_rest_and_asks_the_fence_again() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        wire.kept_back = 9000
        fence = Fence(inf)
        task = asyncio.create_task(connection.ask(LARGE, fence))
        await asyncio.sleep(0.05)
        assert wire.written == [LARGE[:-1]]
        fence.shut()
        wire.kept_back = 0
        with pytest.raises(FencedOff):
            await task
        assert wire.written == [LARGE[:-1]] and wire.is_closing()

    run(main())


def test_a_large_request_is_complete_when_the_rest_has_left() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        wire.kept_back = 9000
        task = await asked(connection, LARGE)
        wire.kept_back = 0
        while len(wire.written) < 2:
            await asyncio.sleep(0.001)
        connection.data_received(PLAIN)
        assert (await task).status == 201
        assert b"".join(wire.written) == LARGE
        assert connection.is_usable

    run(main())


def test_an_answer_to_a_part_of_a_request_is_the_answer_and_the_connection_is_given_up() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        wire.kept_back = 9000
        task = await asked(connection, LARGE)
        connection.data_received(BUSY)
        assert (await task).status == 429
        assert wire.written == [LARGE[:-1]]
        assert not connection.is_usable

    run(main())


def test_a_large_request_whose_connection_ends_is_lost() -> None:
    async def main() -> None:
        connection, wire = a_connection()
        wire.kept_back = 9000
        task = await asked(connection, LARGE)
        connection.connection_lost(None)
        with pytest.raises(ConnectionLost):
            await task

    run(main())
