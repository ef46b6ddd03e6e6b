"""One HTTP/1.1 connection for short writes, and the reader of its answers (httptools, ADR 11).

Hot: a bind costs a quarter of what it costs with the general client. Redirects, proxies, compression and streaming are
missing: answers to writes do not need them.
"""

import asyncio
from typing import Any

import httptools
import msgspec

from mooring.apiclient.http_requests import ConnectionLost, TooLarge, Unreadable
from mooring.apiclient.lean_socket import LeanSocket
from mooring.apiclient.throttle import retry_after_s
from mooring.kit.tasks import NO_FENCE, Fence

# ---- answers


MAX_ANSWER_BYTES = 4 << 20
"""The largest object that an API server stores has 1.5 MiB; a body without a limit could take all memory."""
_MAX_HEAD_BYTES = 64 << 10
"""The limit for status line and headers; API servers send a few hundred bytes."""
_CHUNK_BYTES = 5
"""Overhead of a chunk in bytes beside its content: a digit and two line ends. It counts so that empty chunks use up the limit
too."""
_LENGTHS = (b"content-length", b"transfer-encoding")


class Reply(msgspec.Struct):
    """An answer: status, the seconds of Retry-After (None: the request is not to be repeated), and body."""

    status: int
    retry_after_s: int | None
    body: bytes


_AUDIT_ID = b"\r\nAudit-Id: "
"""The header whose value differs in every answer of an API server. Servers of Go write it first."""
_UUID_BYTES = 36
_MAX_HEADS = 64
"""How many heads are remembered. Answers to binds have one length, those to events a dozen."""


class _KnownHead(msgspec.Struct):
    """The head of an answer that httptools has read, up to the value of Audit-Id and after it."""

    before: bytes
    after: bytes
    begin: int
    end: int
    """Where the value of Audit-Id begins and ends."""
    head_bytes: int
    status: int
    retry_after_s: int | None


class KnownHeads:
    """Heads of answers that httptools has read. Connections to the same server share them.

    An answer of the same length whose head differs from a known one in nothing but the digits of its Audit-Id has the same
    status, the same headers and a body of the same length, so that httptools need not read it. The Date is a part of the
    head: each second the first answer of a length is read in full.

    Hot: 7,700 instructions an answer, and 30,000 with httptools, which calls Python for each header (ADR 11).
    """

    def __init__(self) -> None:
        self._by_length: dict[int, _KnownHead] = {}

    def read(self, answer: bytes) -> Reply | None:
        """The reply, if these bytes are one answer with a known head; None means that httptools has to read them."""
        head = self._by_length.get(len(answer))
        if head is None or not answer.startswith(head.before) or not answer.startswith(head.after, head.end):
            return None
        if not answer[head.begin : head.end].replace(b"-", b"").isalnum():
            return None
        return Reply(head.status, head.retry_after_s, answer[head.head_bytes :])

    def learn(self, answer: bytes, reply: Reply) -> None:
        """Remember the head of an answer that httptools has read from exactly these bytes."""
        head_bytes = len(answer) - len(reply.body)
        begin = answer.find(_AUDIT_ID) + len(_AUDIT_ID)
        end = begin + _UUID_BYTES
        is_one_head = answer.find(b"\r\n\r\n") == head_bytes - 4  # neither chunks nor an interim answer before it
        if begin < len(_AUDIT_ID) or not is_one_head or answer[end : end + 2] != b"\r\n" or end > head_bytes:
            return
        if len(self._by_length) >= _MAX_HEADS and len(answer) not in self._by_length:
            self._by_length.clear()
        parts = answer[:begin], answer[end:head_bytes], begin, end, head_bytes
        self._by_length[len(answer)] = _KnownHead(*parts, reply.status, reply.retry_after_s)


class AnswerReader:
    """Reads answers from the bytes of a connection, one at a time. It does no I/O."""

    def __init__(self, heads: KnownHeads | None = None) -> None:
        self._heads = heads or KnownHeads()
        self._parser: Any = httptools.HttpResponseParser(self)
        self.is_last = False
        """Whether the server closes the connection after this answer."""
        self._reply: Reply | None = None
        self._head_bytes = 0
        """Bytes received of a head that is not complete."""
        self._fault: Exception | None = None
        self.on_message_begin()

    def take(self, data: bytes) -> Reply | None:
        """The answer, once it is complete. Raises ValueError for what is not HTTP, and TooLarge above the limit."""
        is_first = self._is_in_head and not self._head_bytes and self._fault is None
        if is_first and (known := self._heads.read(data)) is not None:
            return known
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise self._fault or ValueError("not HTTP/1") from error
        if self._fault is not None:
            raise self._fault
        if self._is_in_head and self._head_bytes > _MAX_HEAD_BYTES:
            raise ValueError("no end of headers")
        reply, self._reply = self._reply, None
        if reply is not None and is_first and not self.is_last:
            self._heads.learn(data, reply)
        return reply

    def end(self) -> Reply | None:
        """The server has closed the connection: that ends an answer without a length."""
        return None if self._is_in_head or self._has_length else self._made()

    def _made(self) -> Reply:
        return Reply(self._parser.get_status_code(), self._retry_after_s, b"".join(self._parts))

    # ---- httptools calls these. It replaces exceptions of callbacks by its own, so they store a fault instead.

    def on_message_begin(self) -> None:
        if self._reply is not None:
            self._fault = ValueError("more than one answer")
        self._parts: list[bytes] = []
        self._body_bytes = 0
        self._retry_after_s: int | None = None
        self._is_in_head, self._has_length = True, False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _LENGTHS:
            self._has_length = True
            if value.isdigit():
                self._check_size(int(value))
        elif name == b"retry-after":
            self._retry_after_s = retry_after_s(self._parser.get_status_code(), value.decode("latin-1").strip())

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._head_bytes = 0
        if self._parser.get_status_code() < 100:
            self._fault = ValueError("no status of HTTP")

    def on_chunk_header(self) -> None:
        self._body_bytes += _CHUNK_BYTES

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._check_size(self._body_bytes)
        if self._fault is None:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        self._is_in_head = True
        if self._parser.get_status_code() >= 200:  # below it, such as 100 Continue, the answer follows
            self._reply = self._made()
            self.is_last = not self._parser.should_keep_alive()

    def _check_size(self, length: int) -> None:
        if length > MAX_ANSWER_BYTES:
            self._fault = TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes, the limit of this client")


AT_ONCE_BYTES = 16 << 10
"""Bytes that an empty socket accepts in one call: the smallest initial send buffer of Linux (tcp_wmem)."""
_DRAIN_POLL_S = 0.005
"""How often to look whether the socket has sent a large request; asyncio has no call that waits for an empty buffer."""


class LeanConnection:
    """A connection with one request at a time. If the connection is lost, the caller that waits gets ConnectionLost.

    After any fault the connection is not used again: a late answer must not be taken for the answer to a later request.
    """

    def __init__(self, transport: LeanSocket, heads: KnownHeads | None = None) -> None:
        """Connections to the same server share `heads`."""
        self._loop = asyncio.get_running_loop()
        """Hot: to ask for the running loop is a system call, getpid, in CPython 3.11."""
        self._transport: LeanSocket | None = transport
        self._waiting: asyncio.Future[Reply] | None = None
        self._reader = AnswerReader(heads)

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._reader.is_last and not self._transport.is_closing()

    async def ask(self, request: bytes, fence: Fence = NO_FENCE) -> Reply:
        """Send a request and wait for its answer. Raises FencedOff if the lease runs out before the request is sent."""
        try:
            if len(request) <= AT_ONCE_BYTES:
                return await self.begin(request, fence)
            waiting = self._wait()
            request = await self._send_all_but_the_end(request, waiting)
            if not waiting.done():
                self._send_end(request, fence)
            return await waiting
        finally:
            self.end()

    def begin(self, request: bytes, fence: Fence) -> "asyncio.Future[Reply]":
        """Send a request of at most AT_ONCE_BYTES. Await the answer, and call `end`, whatever this raises.

        Hot: `ask` does the same, and is one coroutine more for each request.
        """
        waiting = self._wait()
        self._send_end(request, fence)
        return waiting

    def end(self) -> None:
        """The caller waits no longer. Without an answer the connection is not used again: one that arrives later belongs to
        no request."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and (not waiting.done() or waiting.cancelled()):
            self.abort()

    def _wait(self) -> "asyncio.Future[Reply]":
        assert self._transport is not None and self._waiting is None
        waiting: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting = waiting
        return waiting

    async def _send_all_but_the_end(self, request: bytes, waiting: "asyncio.Future[Reply]") -> bytes:
        """Send all but the last byte, and return that byte.

        Bytes that do not fit into the socket stay in buffers and are sent later, without a check of the fence. A server
        does not act on an incomplete request, so the last byte is kept until all others have been sent.
        """
        assert self._transport is not None
        self._transport.write(request[:-1])
        while not waiting.done() and self._transport is not None and self._transport.get_write_buffer_size():
            await asyncio.sleep(_DRAIN_POLL_S)
        if waiting.done():
            self.abort()  # the server answered before it had the whole request, and reads no more of it
        return request[-1:]

    def _send_end(self, end: bytes, fence: Fence) -> None:
        """Check the fence and send, without an await between the two, and leave no byte for the event loop to send later."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost("the connection was lost")
        fence.check()
        self._transport.write(end)
        if self._transport.get_write_buffer_size():
            self.abort()
            raise ConnectionLost("the socket accepts no more bytes")

    def give_up(self, fault: Exception) -> None:
        """The caller that waits gets this fault, and the connection is not used again."""
        self._fail(fault)
        self.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, and drop bytes that are not sent."""
        if self._transport is not None:
            self._transport.abort()

    # ---- the transport calls these

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        reply = self._reader.end() if error is None else None
        if reply is not None and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(reply)
        self._fail(ConnectionLost("the connection was lost"))

    def data_received(self, data: bytes) -> None:
        """Take bytes from the server and complete the waiting request when its answer is whole. The connection is closed if
        the bytes are no HTTP, belong to no request, or exceed the limit."""
        if self._waiting is None or self._waiting.done():  # bytes without a request: the connection is out of step
            self.close()
            return
        try:
            reply = self._reader.take(data)
        except ValueError:
            self._fail(Unreadable("the answer is not HTTP"))
            self.close()
        except TooLarge as fault:
            self._fail(fault)
            self.close()
        else:
            if reply is not None:
                self._waiting.set_result(reply)

    def _fail(self, fault: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(fault)
