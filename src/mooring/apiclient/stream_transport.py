"""One HTTP attempt to an API server without a proxy: connections, TLS, the headers with the credentials, and answers
that are read as they arrive, for lists and watches (httptools, ADR 11).

Hot: a watch takes half of the CPU time that it takes with aiohttp, whose import alone takes 70 ms.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httptools

from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts
from mooring.apiclient.credentials import Grant, KeyPair
from mooring.apiclient.http_requests import (
    HttpAnswer,
    OutgoingRequest,
    TooLarge,
    Unanswered,
    unanswered,
    unconnected,
    untrusted,
)
from mooring.apiclient.lean_socket import LeanSocket
from mooring.kit.tasks import NO_FENCE, Fence

READ_AHEAD_BYTES = 8 << 20
"""How much of a body is read before the caller takes it; then the server has to wait. 8 MiB hold about 5,000 events of pods,
which is what a busy server sends in seconds."""
_PIECE_BYTES = 64
"""Memory that a piece of a body takes beside its content, so that pieces of one byte use up the limit too."""
_MAX_HEAD_BYTES = 64 << 10
"""The limit for bytes that bring no content: status line, headers, trailers. API servers send a few hundred bytes."""
_DRAIN_POLL_S = 0.005
"""How often to look whether the socket has sent a large request; asyncio has no call that waits for an empty buffer."""


class NotHttp(Exception):
    """The server sends something else than HTTP/1.1."""


class StreamConnection:
    """A connection with one request at a time. It is the answer to that request as well: see `transport.HttpAnswer`.

    A fault is raised where the caller waits, after the pieces of the body that came before it.
    """

    def __init__(self, transport: LeanSocket) -> None:
        self._transport = transport
        self._is_open = True
        self._changed: asyncio.Future[None] | None = None
        """The caller waits for the next bytes."""
        self._begin()

    def _begin(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._held_bytes = self._barren_bytes = 0
        self._is_paused = self._is_busy = self._has_head = self._is_complete = False
        self._fault: Exception | None = None
        self.status = 0
        self.headers: dict[str, str] = {}

    @property
    def is_usable(self) -> bool:
        """Whether another request may follow: the last answer was read to its end, and the connection stays open."""
        return self._is_open and not self._is_busy and not self._transport.is_closing()

    @property
    def content(self) -> "StreamConnection":
        return self

    @property
    def content_length(self) -> int | None:
        told = self.headers.get("content-length", "")
        return int(told) if told.isdecimal() else None

    async def ask(self, request: bytes, fence: Fence) -> None:
        """Send a request, and return when the head of the answer is there. Raises FencedOff if the lease runs out first.

        A server does not act on an incomplete request, so the last byte is kept until all others have been sent.
        """
        self._begin()
        self._is_busy = True
        self._transport.write(request[:-1])
        while self._transport.get_write_buffer_size() and self._fault is None and not self._has_head:
            await asyncio.sleep(_DRAIN_POLL_S)
        fence.check()
        self._transport.write(request[-1:])
        while not self._has_head:
            await self._more()

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Pieces of the body, as large as they have arrived."""
        while True:
            while self._pieces:
                pieces, self._pieces, self._held_bytes = self._pieces, [], 0
                if self._is_paused:
                    self._is_paused = False
                    self._transport.resume()
                yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if self._is_complete:
                return
            await self._more()

    async def _more(self) -> None:
        """Wait until something has arrived. Raises the fault that ended the connection."""
        if self._fault is not None:
            raise self._fault
        self._changed = asyncio.get_running_loop().create_future()
        try:
            await self._changed
        finally:
            self._changed = None

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # ---- the socket calls these

    def data_received(self, data: bytes) -> None:
        """Take bytes from the server. Those that belong to no request, or are no HTTP, end the connection."""
        if not self._is_busy or self._fault is not None:
            self._transport.abort()
            return
        self._barren_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fault = self._fault or NotHttp()
        if self._barren_bytes > _MAX_HEAD_BYTES:
            self._fault = self._fault or TooLarge("the head of the answer is too large")
        if self._fault is not None:
            self._transport.abort()
        elif self._held_bytes > READ_AHEAD_BYTES and not self._is_paused and not self._is_complete:
            self._is_paused = True
            self._transport.pause()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """The end of the connection is the end of an answer without a length, and a fault in all other cases."""
        self._is_open = False
        if self._is_complete or not self._is_busy:
            return
        if error is None and self._has_head and self._fault is None and not self._has_length():
            self._is_complete = True
        elif isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            self._fault = self._fault or error
        else:
            self._fault = self._fault or ConnectionResetError(*(error.args if error is not None else ()))
        self._wake()

    def _has_length(self) -> bool:
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    # ---- httptools calls these. It replaces exceptions of callbacks by its own, so they store a fault instead.

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._fault = NotHttp()  # an answer that belongs to no request

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:
            self.status, self._has_head = status, True
            self._barren_bytes = 0
        elif status < 100:
            self._fault = NotHttp()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._held_bytes += len(body) + _PIECE_BYTES
        self._barren_bytes = 0

    def on_message_complete(self) -> None:
        if not self._has_head:  # such as 100 Continue: the answer follows
            self.headers = {}
            return
        self._is_complete, self._is_busy = True, False
        self._is_open = self._is_open and self._parser.should_keep_alive()


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
