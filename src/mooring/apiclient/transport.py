"""One HTTP attempt to an API server: connections, TLS, proxy, and the headers that say who asks.

What an answer means, and whether to ask again, is the business of `client`.
"""

import logging
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials.certificates import KeyPair
from mooring.apiclient.credentials.credentials import CredentialsError, Grant
from mooring.apiclient.fenced_body import FencedBody
from mooring.apiclient.proxies import proxy_of
from mooring.apiclient.tls import client_context
from mooring.apiclient.unanswered import Unanswered, unanswered
from mooring.kit.fence import NO_FENCE, Fence

log = logging.getLogger(__name__)

Params = Mapping[str, str]

_IDLE_S = 60.0
"""Less than the 90 s after which API servers close idle connections: a POST that meets such an end is lost."""
_CONNECT_S = 30.0
_READ_BUFFER_BYTES = 4 << 20
"""Half of what is read ahead of whoever takes it in, on each connection; then the other side has to wait. 8 MiB are some
5,000 events of pods: what a busy server sends in seconds."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    method: str
    path: str
    params: Params = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = ""
    time_limit_s: float | None = None
    """For the whole attempt with its body; None stands for no limit."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """The connections of one client. They stay open between requests, and watches hold one each."""

    def __init__(
        self, access: ConnectionSettings, headers: Mapping[str, str], max_connections: int, fence: Fence = NO_FENCE
    ) -> None:
        self._access = access
        self._fence = fence
        self._headers = CIMultiDict(headers)
        self._headers.extend(access.impersonation)
        self._max_connections = max_connections
        self._proxy = access.proxy_url or proxy_of(access.server) or None
        self._session: aiohttp.ClientSession | None = None
        self._tls: tuple[KeyPair | None, ssl.SSLContext] | None = None

    async def open(self) -> None:
        connector = aiohttp.TCPConnector(
            limit=self._max_connections, keepalive_timeout=_IDLE_S, socket_factory=_socket_that_notices_death
        )
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=_READ_BUFFER_BYTES
        )
        # Or else the library sends GET, PUT and DELETE a second time on a lost connection, and says nothing of it.
        self._session._retry_connection = False

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def attempt(self, request: OutgoingRequest, grant: Grant) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, its body still to be read; what goes wrong until that is done is told as Unanswered."""
        if self._session is None:
            raise RuntimeError("the client is not open: use it with `async with`")
        try:
            async with self._session.request(
                request.method, self._url(request), **self._options(request, grant)
            ) as answer:
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._check_fence(request)
            raise unanswered(error, str(request)) from None
        except aiohttp.http_exceptions.HttpProcessingError:
            raise Unanswered(f"{request}: the answer is not HTTP") from None

    def _check_fence(self, request: OutgoingRequest) -> None:
        """A write that failed after the lease has run out is not repeated; the fence may be why it failed."""
        if request.body is not None:
            self._fence.check()

    def _url(self, request: OutgoingRequest) -> URL:
        return URL(self._access.server + request.path)

    def _options(self, request: OutgoingRequest, grant: Grant) -> dict[str, Any]:
        headers = self._headers.copy()
        if grant.authorization:
            headers["Authorization"] = grant.authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return {
            "params": request.params or None,
            "data": self._body(request),
            "headers": headers,
            "allow_redirects": False,
            "proxy": self._proxy,
            "ssl": self._context(grant.pair),
            "server_hostname": self._access.server_name or None,
            "timeout": aiohttp.ClientTimeout(total=request.time_limit_s, connect=_CONNECT_S),
        }

    def _body(self, request: OutgoingRequest) -> FencedBody | None:
        return None if request.body is None else FencedBody(request.body, request.content_type, self._fence)

    def _context(self, pair: KeyPair | None) -> ssl.SSLContext:
        """One context for as long as the certificate stays the same: connections are shared by context."""
        if self._tls is None or self._tls[0] != pair:
            try:
                self._tls = (pair, client_context(self._access, pair))
            except CredentialsError as error:
                if self._tls is None:
                    raise
                # Certificate and key are two files: we may have looked while only one was replaced.
                log.warning("%s; the certificate used before is kept", error)
        return self._tls[1]


def _socket_that_notices_death(address: tuple[Any, ...]) -> socket.socket:
    """A watch may be silent for minutes; keep-alives tell whether anyone is still there, after 30 + 3 * 10 s."""
    made = socket.socket(address[0], address[1], address[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
