"""One lean connection and its reader: answers in any pieces, answers that are none, and answers that nobody waits for."""

import asyncio
from collections.abc import Coroutine
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiclient.http_requests import ConnectionLost, TooLarge, Unreadable
from mooring.apiclient.lean_connection import (
    AT_ONCE_BYTES,
    MAX_ANSWER_BYTES,
    AnswerReader,
    KnownHeads,
    LeanConnection,
    Reply,
)
from mooring.apiclient.lean_socket import LeanSocket
from mooring.kit.tasks import Fence, FencedOff

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


class Wire(LeanSocket):
    """Keeps what is written; closes when it is told to. A full one keeps so many bytes back."""

    def __init__(self) -> None:
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


# ---- known heads


AUDIT_ID = b"3c4a2b7e-5a0e-4b8c-9a51-0f5c6b7f1a2d"


def an_answer(
    audit_id: bytes = AUDIT_ID,
    status: bytes = b"201 Created",
    more: bytes = b"",
    length: bytes = b"5",
    body: bytes = b"hello",
) -> bytes:
    """An answer as API servers write it."""
    head = b"HTTP/1.1 " + status + b"\r\nAudit-Id: " + audit_id + b"\r\n" + more + b"Content-Length: " + length
    return head + b"\r\n\r\n" + body


def read_by(heads: KnownHeads, answer: bytes) -> tuple[Reply | None, bool] | type[Exception]:
    reader = AnswerReader(heads)
    try:
        return reader.take(answer), reader.is_last
    except (ValueError, TooLarge) as fault:
        return type(fault)


def test_an_answer_with_a_known_head_is_read_without_httptools() -> None:
    heads = KnownHeads()
    first, second = an_answer(), an_answer(AUDIT_ID[::-1], body=b"world")
    assert heads.read(first) is None
    assert AnswerReader(heads).take(first) == Reply(201, None, b"hello")
    assert heads.read(second) == Reply(201, None, b"world")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(an_answer(status=b"409 Created"), id="another status"),
        pytest.param(an_answer(length=b"4"), id="another length"),
        pytest.param(an_answer(AUDIT_ID[:-1] + b"\n"), id="a line end in the audit id"),
        pytest.param(an_answer(AUDIT_ID[:20] + b"\r\nContent-Len: 9"), id="a header in the audit id"),
        pytest.param(an_answer(body=b"hello!"), id="one byte more"),
        pytest.param(an_answer()[:-1], id="one byte less"),
    ],
)
def test_an_answer_with_another_head_is_not_taken_for_a_known_one(other: bytes) -> None:
    heads = KnownHeads()
    heads.learn(an_answer(), Reply(201, None, b"hello"))
    assert heads.read(other) is None


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(PLAIN, id="without an audit id"),
        pytest.param(an_answer(AUDIT_ID + b"0"), id="with a longer audit id"),
        pytest.param(an_answer(more=b"Connection: close\r\n"), id="the last of a connection"),
        pytest.param(CHUNKED.replace(b"\r\n", b"\r\nAudit-Id: " + AUDIT_ID + b"\r\n", 1), id="in chunks"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + an_answer(), id="after an interim answer"),
    ],
)
def test_the_head_of_an_unusual_answer_is_not_remembered(answer: bytes) -> None:
    heads = KnownHeads()
    assert AnswerReader(heads).take(answer) is not None
    assert heads.read(answer) is None


def test_heads_are_remembered_only_for_answers_in_one_piece() -> None:
    heads = KnownHeads()
    reader = AnswerReader(heads)
    assert reader.take(an_answer()[:50]) is None
    assert reader.take(an_answer()[50:]) == Reply(201, None, b"hello")
    assert heads.read(an_answer()) is None
    assert reader.take(an_answer()) == Reply(201, None, b"hello")
    assert heads.read(an_answer()) is not None


def test_an_answer_that_has_begun_is_not_mixed_up_with_a_known_head() -> None:
    """A body may look like an answer."""
    heads = KnownHeads()
    heads.learn(an_answer(), Reply(201, None, b"hello"))
    reader = AnswerReader(heads)
    body = an_answer()
    assert reader.take(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)) is None
    assert reader.take(body) == Reply(200, None, body)


def test_the_number_of_known_heads_is_limited() -> None:
    heads = KnownHeads()
    answers = {size: an_answer(length=b"%d" % size, body=b"x" * size) for size in range(1000)}
    for size, answer in answers.items():
        heads.learn(answer, Reply(201, None, b"x" * size))
    assert 0 < sum(heads.read(answer) is not None for answer in answers.values()) <= 64


_PIECES = st.sampled_from(
    [
        *(b"HTTP/1.1 201 Created", b"HTTP/1.1 200 OK", b"HTTP/1.1 429 Busy", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No"),
        *(b"\r\nAudit-Id: ", AUDIT_ID, AUDIT_ID[::-1], AUDIT_ID[:-1], AUDIT_ID[:-2] + b"\r\n", AUDIT_ID[:-1] + b"\0"),
        *(b"\r\nContent-Length: 5", b"\r\nContent-Length: 0", b"\r\nRetry-After: 3", b"\r\nConnection: close"),
        *(b"\r\nTransfer-Encoding: chunked", b"\r\n\r\n", b"\r\n", b"hello", b"world", b"5\r\nhello\r\n0\r\n\r\n"),
    ]
)
_USUAL = st.builds(
    an_answer,
    audit_id=st.sampled_from(
        [AUDIT_ID, AUDIT_ID[::-1], AUDIT_ID[:-1] + b"\n", AUDIT_ID[:34] + b"\r\n", AUDIT_ID + b"0"]
    ),
    status=st.sampled_from([b"201 Created", b"200 Created", b"429 Created", b"204 Created"]),
    more=st.sampled_from([b"", b"Retry-After: 3\r\n", b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n"]),
    length=st.sampled_from([b"5", b"0", b"6", b"05"]),
    body=st.sampled_from([b"hello", b"world", b"", b"hello!", b"5\r\nhello\r\n0\r\n\r\n"]),
)


@given(st.lists(st.one_of(_USUAL, st.lists(_PIECES, max_size=8).map(b"".join)), min_size=2, max_size=6))
def test_known_heads_change_no_result(answers: list[bytes]) -> None:
    heads = KnownHeads()
    for answer in answers:
        assert read_by(heads, answer) == read_by(KnownHeads(), answer)
