"""Common frame of all HTTP servers of the program around their routes: a listener with limits, a count of open requests, an
orderly end, bodies with a limit, and tokens that are compared in constant time."""

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mooring.kit.callbacks import Tell
from mooring.kit.listener import ConnectionLimits, Listener, connection_log

if TYPE_CHECKING:
    from aiohttp import web

Handle = Callable[["web.BaseRequest"], Awaitable["web.StreamResponse"]]
"""Answers one request. It must not raise."""

LINGERING_S = 10.0
"""How long a server reads what is left of a body that it has not used, by default: aiohttp's number."""


class HttpShell:
    """`start`, then `stop_listening` and `close` once. Open requests may go on in between."""

    def __init__(
        self,
        handle: Handle,
        limits: ConnectionLimits,
        tell: Tell,
        *,
        idle_s: float,
        lingering_s: float = LINGERING_S,
        cancels: bool = False,
    ) -> None:
        """A connection is closed after `idle_s` without a request. `cancels`: a request whose client has left is cancelled.
        `tell` gets a line about connections that do not speak HTTP."""
        self._handle = handle
        self._limits = limits
        self._settings: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": idle_s,
            "lingering_time": lingering_s,
            "handler_cancellation": cancels,
            "logger": connection_log(tell),
        }
        self._connections: web.Server | None = None
        """Made for the first connection. Hot: the server of aiohttp takes 90 ms to import, with what it needs."""
        self._listener: Listener | None = None
        self.open = 0
        """Requests that are not answered."""
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port: the one that was asked for, or a free one for 0. Raises OSError."""
        listener = Listener(self._protocol, self._limits, tls)
        bound = await listener.start(host, port)
        self._listener = listener
        return bound

    @property
    def listener(self) -> Listener:
        assert self._listener is not None
        return self._listener

    def _protocol(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        if self._connections is None:
            from mooring.kit.late_authorities import web

            self._connections = web().Server(self._answer, **self._settings)
        return self._connections()

    async def _answer(self, incoming: "web.BaseRequest") -> "web.StreamResponse":
        """Count the request as open, so that `drain` waits for it and the listener does not close its connection as idle."""
        listener = self.listener
        listener.busy(incoming.protocol)
        self.open += 1
        self._idle.clear()
        try:
            return await self._handle(incoming)
        finally:
            listener.idle(incoming.protocol)
            self.open -= 1
            if not self.open:
                self._idle.set()

    async def stop_listening(self) -> None:
        """Accept no new connections."""
        await self.listener.close()

    async def drain(self, patience_s: float) -> int:
        """Close idle connections, and wait for open requests. Returns how many are still open after `patience_s`."""
        if self._connections is not None:
            self._connections.pre_shutdown()
        try:
            async with asyncio.timeout(patience_s):
                await self._idle.wait()
        except TimeoutError:
            return self.open
        return 0

    async def close(self, patience_s: float) -> None:
        """Close all connections; requests that are open get `patience_s` to end."""
        if self._connections is not None:
            self._connections.pre_shutdown()
            await self._connections.shutdown(patience_s)
        self._listener = None


def accepted_media(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, in the client's order."""
    for wish in accept.split(","):
        media, *settings = (part.strip() for part in wish.split(";"))
        pairs = (setting.partition("=") for setting in settings)
        yield media.lower(), {name.strip(): value.strip() for name, _, value in pairs}


def bears_token(headers: Mapping[str, str], token: str) -> bool:
    """Whether a request has this bearer token. The comparison takes the same time for every wrong token."""
    return hmac.compare_digest(bearer_token(headers).encode(errors="replace"), token.encode())


def bearer_token(headers: Mapping[str, str]) -> str:
    """The bearer token of a request; empty if it has none."""
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""
