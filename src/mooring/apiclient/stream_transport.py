"""One HTTP attempt to an API server without a proxy: connections, TLS, the headers with the credentials, and answers that are
read as they arrive.

Hot: a watch takes half of the CPU time that it takes with aiohttp, whose import alone takes 70 ms.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode, urlsplit

from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts
from mooring.apiclient.credentials import Grant, KeyPair
from mooring.apiclient.lean_socket import LeanSocket
from mooring.apiclient.request_errors import TooLarge, Unanswered, unanswered, unconnected, untrusted
from mooring.apiclient.stream_connection import NotHttp, StreamConnection
from mooring.apiclient.transport import HttpAnswer, OutgoingRequest
from mooring.kit.tasks import NO_FENCE, Fence

IDLE_S = 60.0
"""How long a connection may be idle before it is closed: less than the 90 s after which API servers close it. A POST on a
connection that the server closes at the same moment is lost."""
_SAFE = "/?%:@!$&'()*+,;=~"
"""Characters of a path that stay as they are, beside letters, digits and `_.-`."""

_Idle = tuple[StreamConnection, KeyPair | None, float]
"""A connection, the certificate that it has shown, and since when it is idle."""


class StreamTransport:
    """The connections of one client. They stay open between requests; each watch holds one."""

    def __init__(
        self,
        access: ConnectionSettings,
        headers: Mapping[str, str],
        max_connections: int,
        fence: Fence = NO_FENCE,
        tls: TlsContexts | None = None,
    ) -> None:
        url = urlsplit(access.server)
        self._is_tls = url.scheme == "https"
        self._host, self._port = url.hostname or "", url.port or (443 if self._is_tls else 80)
        self._server_name = access.server_name or self._host
        self._prefix, self._netloc = url.path.rstrip("/"), url.netloc
        self._headers = (*headers.items(), *access.impersonation)
        self._places = asyncio.Semaphore(max_connections)
        self._fence = fence
        self._tls = tls or TlsContexts(access)
        self._idle: list[_Idle] = []
        self._is_opened = False

    async def open(self) -> None:
        self._is_opened = True

    async def close(self) -> None:
        self._is_opened = False
        while self._idle:
            self._idle.pop()[0].abort()

    @asynccontextmanager
    async def attempt(self, request: OutgoingRequest, grant: Grant) -> AsyncIterator[HttpAnswer]:
        """The answer, with its body still to be read. Raises Unanswered for everything that fails until the block ends."""
        if not self._is_opened:
            raise RuntimeError("the client is not open: use it with `async with`")
        try:
            async with asyncio.timeout(request.time_limit_s), self._places:
                connection = self._take_idle(grant) or await self._connect(request, grant)
                try:
                    fence = NO_FENCE if request.body is None else self._fence
                    await connection.ask(self._bytes(request, grant), fence)
                    yield connection
                finally:
                    self._give_back(connection, grant)
        except NotHttp:
            raise Unanswered(f"{request}: the answer is not HTTP") from None
        except TooLarge as fault:
            raise fault if str(fault).startswith(str(request)) else TooLarge(f"{request}: {fault}") from None
        except (TimeoutError, OSError) as error:
            if request.body is not None:
                # A write that failed after the lease has run out is FencedOff: the fence may be the reason, and the write
                # must not be repeated.
                self._fence.check()
            raise unanswered(error, str(request)) from None

    def _bytes(self, request: OutgoingRequest, grant: Grant) -> bytes:
        """The request with its headers and the credentials."""
        target = self._prefix + quote(request.path, safe=_SAFE)
        if request.params:
            target += f"{'&' if '?' in target else '?'}{urlencode(request.params, quote_via=quote)}"
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {self._netloc}"]
        replaced = "accept" if request.accept else ""
        lines += [f"{name}: {value}" for name, value in self._headers if name.lower() != replaced]
        if request.accept:
            lines.append(f"Accept: {request.accept}")
        if grant.authorization:
            lines.append(f"Authorization: {grant.authorization}")
        if request.traceparent:
            lines.append(f"traceparent: {request.traceparent}")
        if request.etag:
            lines.append(f"If-None-Match: {request.etag}")
        if request.body is not None:
            lines += [f"Content-Type: {request.content_type}", f"Content-Length: {len(request.body)}"]
        elif request.method not in ("GET", "HEAD"):
            lines.append("Content-Length: 0")
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header of the request has a line end")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (request.body or b"")

    # ---- connections

    def _take_idle(self, grant: Grant) -> StreamConnection | None:
        """An idle connection that has shown the present certificate. Those that have been idle for too long are closed."""
        now_s, idle, self._idle = asyncio.get_running_loop().time(), self._idle, []
        found = None
        for connection, pair, since_s in reversed(idle):
            if not connection.is_usable or now_s - since_s > IDLE_S or pair != grant.pair:
                connection.abort()
            elif found is None:
                found = connection
            else:
                self._idle.insert(0, (connection, pair, since_s))
        return found

    def _give_back(self, connection: StreamConnection, grant: Grant) -> None:
        """A request is over. A connection whose answer was not read to its end is closed."""
        if connection.is_usable and self._is_opened:
            self._idle.append((connection, grant.pair, asyncio.get_running_loop().time()))
        else:
            connection.abort()

    async def _connect(self, request: OutgoingRequest, grant: Grant) -> StreamConnection:
        """A new connection. Raises Unanswered."""
        tls = self._tls.of(grant.pair) if self._is_tls else None
        try:
            opened = await LeanSocket.open(self._host, self._port, tls, self._server_name)
        except ssl.SSLCertVerificationError as error:
            raise untrusted(error, str(request)) from None
        except (ssl.SSLError, TimeoutError) as error:
            raise unanswered(error, str(request)) from None
        except OSError as error:
            raise unconnected(error, str(request), self._host, self._port) from None
        opened.notice_death()
        connection = StreamConnection(opened)
        opened.start(connection)
        return connection
