"""One HTTP/1.1 connection for short writes: a request goes out as one piece, its answer is read with little ado.

Hot: a bind costs a quarter of what the general client takes for it. What this does not do (redirects, proxies,
compression, streaming) no answer to a write needs.
"""

import asyncio
from typing import cast

from mooring.api.client.quick_answers import AnswerReader, Reply
from mooring.api.client.unanswered import ConnectionLost, TooLarge, Unreadable


class QuickConnection(asyncio.Protocol):
    """Carries one request at a time. When it is lost, whoever waits for an answer hears of it.

    Once something went wrong it is never used again: an answer must not be taken for that to a later request.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Reply] | None = None
        self._reader = AnswerReader()

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._reader.is_last and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Reply:
        assert self._transport is not None and self._waiting is None
        waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._transport.write(request)
        try:
            return await waiting
        finally:
            self._waiting = None
            if not waiting.done() or waiting.cancelled():
                self.close()  # given up: whatever answer comes now is nobody's

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # ---- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
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
