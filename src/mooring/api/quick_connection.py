"""One HTTP/1.1 connection for short writes: a request goes out as one piece, its answer is read with little ado.

Hot: a bind costs a quarter of what the general client takes for it. What this does not do (redirects, proxies,
compression, streaming) no answer to a write needs.
"""

import asyncio
from typing import cast

from mooring.api.unanswered import ConnectionLost, TooLarge, Unreadable

MAX_ANSWER_BYTES = 4 << 20
_MAX_HEAD_BYTES = 64 << 10
_HEAD_END = b"\r\n\r\n"


class Reply:
    """An answer: its status, the seconds of Retry-After (None: not asked to), its body."""

    __slots__ = ("body", "retry_after_s", "status")

    def __init__(self, status: int, retry_after_s: int | None, body: bytes) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        self.body = body


class QuickConnection(asyncio.Protocol):
    """Carries one request at a time. When it is lost, whoever waits for an answer hears of it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._received = bytearray()
        self._closes = False
        """The server said that it will close after this answer."""

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._closes and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Reply:
        assert self._transport is not None and self._waiting is None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiting
        finally:
            if self._waiting is not None and not self._waiting.done():
                self.close()  # given up: whatever answer comes now is nobody's
            self._waiting = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # ---- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(ConnectionLost("the connection was lost"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._waiting is None:  # nobody asked: the server speaks out of turn
            self.close()
            return
        try:
            reply = self._reply()
        except (ValueError, IndexError):
            self._fail(Unreadable("the answer is not HTTP"))
            self.close()
        except TooLarge as fault:
            self._fail(fault)
            self.close()
        else:
            if reply is not None and not self._waiting.done():
                self._waiting.set_result(reply)

    def _fail(self, fault: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(fault)

    # ---- reading an answer

    def _reply(self) -> Reply | None:
        """The answer if it is all here. Raises ValueError for what is not HTTP."""
        received = self._received
        end = received.find(_HEAD_END)
        if end < 0:
            if len(received) > _MAX_HEAD_BYTES:
                raise ValueError("no end of headers")
            return None
        status, length, is_chunked, retry_after_s, closes = _head(bytes(received[:end]))
        start = end + len(_HEAD_END)
        if 100 <= status < 200:
            del received[:start]
            return self._reply()
        if is_chunked:
            found = _dechunked(received, start)
            if found is None:
                _check_size(len(received))
                return None
            body, end = found
        else:
            _check_size(length)
            end = start + length
            if len(received) < end:
                return None
            body = bytes(received[start:end])
        self._closes = closes
        del received[:end]
        if received:
            raise ValueError("more than one answer")
        return Reply(status, retry_after_s, body)


def _head(head: bytes) -> tuple[int, int, bool, int | None, bool]:
    """Status, length, whether in chunks, Retry-After, whether the connection ends."""
    lines = head.split(b"\r\n")
    version, status = lines[0].split(b" ", 2)[:2]
    if not version.startswith(b"HTTP/1."):
        raise ValueError("not HTTP/1")
    length, is_chunked, retry_after_s, closes = 0, False, None, False
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        match name.lower():
            case b"content-length":
                length = int(value)
            case b"transfer-encoding":
                is_chunked = b"chunked" in value.lower()
            case b"connection":
                closes = b"close" in value.lower()
            case b"retry-after" if value.strip().isdigit():
                retry_after_s = int(value)
    return int(status), length, is_chunked, retry_after_s, closes


def _dechunked(received: bytearray, start: int) -> tuple[bytes, int] | None:
    """The body and where it ends; None if it is not all here."""
    parts: list[bytes] = []
    while True:
        line_end = received.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = int(bytes(received[start:line_end]).partition(b";")[0], 16)
        start = line_end + 2
        if size == 0:
            end = received.find(b"\r\n", start)
            return (b"".join(parts), end + 2) if end == start else None
        if len(received) < start + size + 2:
            return None
        parts.append(bytes(received[start : start + size]))
        start += size + 2


def _check_size(length: int) -> None:
    if length > MAX_ANSWER_BYTES:
        raise TooLarge(f"the answer is larger than {MAX_ANSWER_BYTES} bytes, which is all we read")
