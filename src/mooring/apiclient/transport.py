"""One HTTP attempt to an API server: connections, TLS, proxy, the headers with the credentials, and the bytes of bodies.

`client` decides what an answer means and whether to try again.
"""

import logging
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts, proxy_of
from mooring.apiclient.credentials import Grant
from mooring.apiclient.request_errors import TooLarge, Unanswered, unanswered
from mooring.kit.tasks import NO_FENCE, Fence

log = logging.getLogger(__name__)

Params = Mapping[str, str]

_IDLE_S = 60.0
"""How long a connection may be idle before it is closed: less than the 90 s after which API servers close it. A POST on a
connection that the server closes at the same moment is lost."""
_CONNECT_S = 30.0
"""How long a connection may take to open: the limit of client-go's dialer."""
_READ_BUFFER_BYTES = 4 << 20
"""aiohttp reads ahead up to twice this on each connection; then the server has to wait. 8 MiB hold about 5,000 events of
pods, which is what a busy server sends in seconds."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request without credentials, which each attempt adds. Its body does not show in its repr."""

    method: str
    path: str
    params: Params = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    content_type: str = ""
    time_limit_s: float | None = None
    """For the whole attempt with its body; None for no limit."""
    traceparent: str = ""
    """The header of W3C Trace Context; empty: none is sent."""
    accept: str = ""
    """The forms of answers that this request takes; empty: those of the client."""
    etag: str = ""
    """The answer that the client has already (If-None-Match); the server answers with 304 if it would send the same."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


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


class Transport:
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
            raise unanswered(error.why if isinstance(error, _ConnectionIsLost) else error, str(request)) from None
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
    """A socket with keep-alives: a watch may be silent for minutes, and this finds a dead peer after 30 + 3 * 10 s."""
    made = socket.socket(address[0], address[1], address[2])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


# ---- lines of a watch


class LineSplitter:
    """Splits a stream that comes in chunks into lines; a watch is one JSON document a line.

    Hot: `readlines` finds line ends with memchr. An event of 3 KB in a large chunk takes 3,600 instructions, and 16,800 with
    bytes.split, which compares byte by byte. aiohttp's own iteration by lines costs 1 µs more.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without line ends and empty lines. Raises TooLarge."""
        lines = BytesIO(chunk).readlines()
        last = lines.pop() if lines and not chunk.endswith(b"\n") else b""
        if lines and self._begun:
            lines[0] = self.rest() + lines[0]
        if last:
            self._begun.append(last)
            self._begun_bytes += len(last)
        if self._begun_bytes > self._max_line_bytes or (lines and max(map(len, lines)) > self._max_line_bytes + 1):
            raise TooLarge(f"one line of the stream is longer than {self._max_line_bytes} bytes")
        return [line[:-1] for line in lines if len(line) > 1]

    def rest(self) -> bytes:
        """Remove and return the beginning of a line that has not ended."""
        rest = b"".join(self._begun)
        self._begun.clear()
        self._begun_bytes = 0
        return rest
