"""One HTTP attempt to an API server by way of aiohttp, which supports proxies: connections, TLS, the headers with the
credentials, and the bytes of bodies. Without a proxy, `stream_transport` does the same at less cost.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from multidict import CIMultiDict
from yarl import URL

from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts, proxy_of
from mooring.apiclient.credentials import Grant
from mooring.apiclient.http_requests import (
    ConnectionLost,
    NotTrusted,
    OutgoingRequest,
    Unanswered,
    told,
    unanswered,
    unconnected,
    untrusted,
)
from mooring.apiclient.lean_socket import keep_alive
from mooring.kit.late_authorities import aiohttp
from mooring.kit.tasks import NO_FENCE, Fence

_IDLE_S = 60.0
"""How long a connection may be idle before it is closed: less than the 90 s after which API servers close it. A POST on a
connection that the server closes at the same moment is lost."""
_CONNECT_S = 30.0
"""How long a connection may take to open: the limit of client-go's dialer."""
_READ_BUFFER_BYTES = 4 << 20
"""aiohttp reads ahead up to twice this on each connection; then the server has to wait. 8 MiB hold about 5,000 events of
pods, which is what a busy server sends in seconds."""


class FencedBody(aiohttp.BytesPayload):
    """The body of a write, which is sent only while the lease lasts. It checks the fence when aiohttp writes the body to
    the socket; a server does not act on a request without its body.

    Not covered: bytes that the socket does not accept at once wait in the transport and are sent later without a check.
    That concerns only requests of more than a few KiB through a proxy; all other writes use `lean_connection`.
    """

    def __init__(self, value: bytes, content_type: str, fence: Fence) -> None:
        super().__init__(value, content_type=content_type)
        self._fence = fence

    async def write(self, writer: Any) -> None:
        self._check()
        await super().write(writer)

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)

    def _check(self) -> None:
        """Raises an OSError, because aiohttp passes that on to the caller, who then checks the fence too."""
        if not self._fence.is_open:
            raise ConnectionAbortedError("the lease has run out: this instance must not write")


class _ConnectionIsLost(aiohttp.ClientError):
    """Stands for the error of aiohttp about a lost connection on its way through aiohttp."""

    def __init__(self, why: aiohttp.ClientError) -> None:
        super().__init__()
        self.why = why


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request, as a middleware. Otherwise aiohttp silently repeats GET, PUT and DELETE after its own errors about a
    lost connection; `client` decides that."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _ConnectionIsLost(error) from error


class ProxyTransport:
    """The connections of one client. They stay open between requests; each watch holds one."""

    def __init__(
        self,
        access: ConnectionSettings,
        headers: Mapping[str, str],
        max_connections: int,
        fence: Fence = NO_FENCE,
        tls: TlsContexts | None = None,
    ) -> None:
        self._access = access
        self._fence = fence
        self._headers = CIMultiDict(headers)
        self._headers.extend(access.impersonation)
        self._max_connections = max_connections
        self._proxy = access.proxy_url or proxy_of(access.server) or None
        self._session: aiohttp.ClientSession | None = None
        self._tls = tls or TlsContexts(access)

    async def open(self) -> None:
        connector = aiohttp.TCPConnector(
            limit=self._max_connections, keepalive_timeout=_IDLE_S, socket_factory=_socket_that_notices_death
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BUFFER_BYTES,
            middlewares=(_send_once,),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def attempt(self, request: OutgoingRequest, grant: Grant) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, with its body still to be read. Raises Unanswered for everything that fails until the block ends."""
        if self._session is None:
            raise RuntimeError("the client is not open: use it with `async with`")
        try:
            url = URL(self._access.server + request.path)
            async with self._session.request(request.method, url, **self._options(request, grant)) as answer:
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if request.body is not None:
                # A write that failed after the lease has run out is FencedOff: the fence may be the reason, and the write
                # must not be repeated.
                self._fence.check()
            raise _unanswered(error.why if isinstance(error, _ConnectionIsLost) else error, str(request)) from None
        except aiohttp.http_exceptions.HttpProcessingError:
            raise Unanswered(f"{request}: the answer is not HTTP") from None

    def _options(self, request: OutgoingRequest, grant: Grant) -> dict[str, Any]:
        """Arguments of one aiohttp request: headers with the credentials, body, TLS context, proxy and time limits in
        seconds. Redirects are not followed."""
        headers, body = self._headers.copy(), None
        if grant.authorization:
            headers["Authorization"] = grant.authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = FencedBody(request.body, request.content_type, self._fence)
        if request.traceparent:
            headers["traceparent"] = request.traceparent
        if request.accept:
            headers["Accept"] = request.accept
        if request.etag:
            headers["If-None-Match"] = request.etag
        return {
            "params": request.params or None,
            "data": body,
            "headers": headers,
            "allow_redirects": False,
            "proxy": self._proxy,
            "ssl": self._tls.of(grant.pair),
            "server_hostname": self._access.server_name or None,
            "timeout": aiohttp.ClientTimeout(total=request.time_limit_s, connect=_CONNECT_S),
        }


def _socket_that_notices_death(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(address[0], address[1], address[2])
    keep_alive(made)
    return made


def _unanswered(error: Exception, request: str) -> Unanswered:
    """The Unanswered for an error of aiohttp."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return untrusted(error.certificate_error, request)
    if isinstance(error, aiohttp.ClientSSLError):
        cause = error.os_error
        reason = cause.reason if isinstance(cause, ssl.SSLError) else None
        return NotTrusted(f"{request}: TLS failed: {reason or type(cause).__name__}")
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error.os_error, ssl.SSLError):
        return unconnected(error.os_error, request, error.host, error.port)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return ConnectionLost(f"{request}: the connection was lost: {told(error)}")
    return unanswered(error, request)
