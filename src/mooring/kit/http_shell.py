"""Common frame of all HTTP servers of the program around their routes: a listener with limits, a count of open
requests, an orderly end, bodies with a limit, tokens that are compared in constant time, and requests of web pages
from elsewhere.

A browser reaches every listener of its machine, and sends what any page asks it to send. A page can point a name of its
own at 127.0.0.1 and then read the answers (DNS rebinding), or send a form to this address and not see the answer
(CSRF). The first shows in `Host`, which then has the name; the second in `Origin`, which browsers add to all requests
that change something. Clients such as kubectl send no `Origin`, and as `Host` the address that they connect to.

A server that asks for a token, or speaks TLS, is safe from rebinding already: a page has neither the token nor a
certificate for its name.
"""

import asyncio
import hmac
import ipaddress
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


LOCAL_NAMES = frozenset(("localhost",))
"""Names that always mean this machine. No page can have one as its own."""


def is_own_host(headers: Mapping[str, str], port: int | None = None) -> bool:
    """Whether the request names this machine: as localhost, or by an IP address, which no page can point elsewhere.

    `port` must be named too; None accepts any, because a forwarded one differs. Browsers always send `Host`: a request
    without it is not from one.
    """
    host = headers.get("Host")
    if host is None:
        return True
    name, _, written = _split(host.strip().lower())
    return (_is_address(name) or name in LOCAL_NAMES) and (port is None or written == str(port))


def is_own_origin(headers: Mapping[str, str]) -> bool:
    """Whether the request comes from a page of this server, or from no page."""
    origin = headers.get("Origin")
    if origin is None:
        return True
    scheme, _, host = origin.partition("://")
    return scheme in ("http", "https") and host.lower() == headers.get("Host", "").lower()


def _split(host: str) -> tuple[str, str, str]:
    """`[::1]:80` -> `::1` and `80`; the port is empty if there is none."""
    if host.startswith("["):
        return host[1:].partition("]:") if "]:" in host else (host[1:].removesuffix("]"), "", "")
    return host.partition(":") if host.count(":") == 1 else (host, "", "")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
