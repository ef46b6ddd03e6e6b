"""One HTTP/1.1 connection for short writes: a request goes out as one piece, its answer is read with little ado.

Hot: a bind costs a quarter of what the general client takes for it. What this does not do (redirects, proxies,
compression, streaming) no answer to a write needs.
"""

import asyncio
import ssl
from typing import cast

from mooring.apiclient.lean_answers import AnswerReader, Reply
from mooring.apiclient.unanswered import ConnectionLost, TooLarge, Unreadable
from mooring.kit.fence import NO_FENCE, Fence

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
