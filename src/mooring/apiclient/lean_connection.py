"""One HTTP/1.1 connection for short writes: a request goes out as one piece, its answer is read with little ado.

Hot: a bind costs a quarter of what the general client takes for it. What this does not do (redirects, proxies,
compression, streaming) no answer to a write needs.
"""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any, cast

import httptools

from mooring.apiclient.request_errors import ConnectionLost, TooLarge, Unreadable
from mooring.kit.fence import NO_FENCE, Fence

# ---- Reads answers of HTTP/1.1 out of the pieces in which they come, with httptools (ADR 11). No I/O.


MAX_ANSWER_BYTES = 4 << 20
"""The largest object that an API server stores is 1.5 MiB; a body without a limit would take all memory."""
_MAX_HEAD_BYTES = 64 << 10
_CHUNK_BYTES = 5
"""What a chunk takes beside its content, at the least: a digit and two ends of lines. Tiny chunks count as well."""
_LENGTHS = (b"content-length", b"transfer-encoding")


@dataclass(slots=True)
class Reply:
    """An answer: its status, the seconds of Retry-After (None: not asked to), its body."""

    status: int
    retry_after_s: int | None
    body: bytes


class AnswerReader:
    """Give it what was received, in order; one answer at a time."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self.is_last = False
        """The server said that it will close after this answer."""
        self._reply: Reply | None = None
        self._head_bytes = 0
        """What has come of a head that is not all here yet."""
        self._fault: Exception | None = None
        self.on_message_begin()

    def take(self, data: bytes) -> Reply | None:
        """The answer if it is all here. Raises ValueError for what is not HTTP, TooLarge for more than we read."""
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
        return reply

    def end(self) -> Reply | None:
        """The server has closed the connection: an answer that says nothing of its length is all here then."""
        return None if self._is_in_head or self._has_length else self._made()

    def _made(self) -> Reply:
        return Reply(self._parser.get_status_code(), self._retry_after_s, b"".join(self._parts))

    # ---- the parser calls these. An exception in them would lose its type, so they note a fault instead.

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
        elif name == b"retry-after" and value.strip().isdigit():
            self._retry_after_s = int(value)

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
        if self._parser.get_status_code() >= 200:  # such as 100 Continue: the answer is yet to come
            self._reply = self._made()
            self.is_last = not self._parser.should_keep_alive()

    def _check_size(self, length: int) -> None:
        if length > MAX_ANSWER_BYTES:
            self._fault = TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes, which is all we read")


AT_ONCE_BYTES = 16 << 10
"""What an empty socket takes in one piece: the least that Linux starts a send buffer with (tcp_wmem)."""
_DRAIN_POLL_S = 0.005


class LeanConnection(asyncio.Protocol):
    """Carries one request at a time. When it is lost, whoever waits for an answer hears of it.

    Once something went wrong it is never used again: an answer must not be taken for that to a later request.
    """

    def __init__(self) -> None:
        self._socket: asyncio.Transport | None = None
        """What bytes leave through; below TLS, where there is TLS."""
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._reader = AnswerReader()

    async def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """Put TLS on the connection; raises OSError. Not done by `create_connection`: it would hide the lower transport."""
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(self._socket, self, context, server_hostname=server_name)
        if secured is None:
            raise ConnectionResetError("the server closed the connection")
        self._transport = secured

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._reader.is_last and not self._transport.is_closing()

    async def ask(self, request: bytes, fence: Fence = NO_FENCE) -> Reply:
        """Raises FencedOff if the lease runs out before the request is sent."""
        assert self._transport is not None and self._waiting is None
        waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        try:
            if len(request) > AT_ONCE_BYTES:
                request = await self._send_all_but_the_end(request, waiting)
            if not waiting.done():
                self._send_end(request, fence)
            return await waiting
        finally:
            self._waiting = None
            if not waiting.done() or waiting.cancelled():
                self.abort()  # given up: whatever answer comes now is nobody's

    async def _send_all_but_the_end(self, request: bytes, waiting: "asyncio.Future[Reply]") -> bytes:
        """Bytes that do not fit into the socket stay in buffers and leave at any later time, when no check is made.

        A server acts on no request that it has only a part of. So the last byte is kept back until the rest has left.
        """
        assert self._transport is not None
        self._transport.write(request[:-1])
        while self._unsent() and not waiting.done():
            await asyncio.sleep(_DRAIN_POLL_S)
        if waiting.done():
            self.abort()  # an answer to a part of the request: the server reads no more of it
        return request[-1:]

    def _send_end(self, end: bytes, fence: Fence) -> None:
        """Nothing waits between the check and the socket, and nothing is left behind for the event loop to send later."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost("the connection was lost")
        fence.check()
        self._transport.write(end)
        if self._unsent():
            self.abort()
            raise ConnectionLost("the socket takes no more bytes")

    def _unsent(self) -> int:
        layers = {self._transport, self._socket}
        return sum(layer.get_write_buffer_size() for layer in layers if layer is not None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close, and drop what is not sent yet."""
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self._socket.set_write_buffer_limits(high=0)  # with it, every version of uvloop writes at once

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = self._socket = None
        reply = self._reader.end() if error is None else None
        if reply is not None and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(reply)
        self._fail(ConnectionLost("the connection was lost"))

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():  # nobody asked: the server speaks out of turn
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
