"""Short writes to an API server, many at a time: binds, events, status patches. Each kind of write has a client of its own,
so that a flood of events does not delay binds.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from mooring.apiclient.client import NO_ANSWER, ApiClient, ClientOptions, Limits
from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts, proxy_of
from mooring.apiclient.credentials import Grant, Identity
from mooring.apiclient.http_requests import (
    ConnectionRefused,
    OutgoingRequest,
    TimedOut,
    Unanswered,
    check_success,
    is_refused,
    refusal,
    unanswered,
)
from mooring.apiclient.lean_connection import AT_ONCE_BYTES, KnownHeads, LeanConnection, Reply
from mooring.apiclient.lean_socket import LeanSocket
from mooring.apiclient.throttle import RequestRetries, Throttle
from mooring.kit.tasks import NO_FENCE, Fence


class LeanClient:
    """Use it with `async with`. Calls raise ApiError (the server answers with an error), Unanswered (no usable answer),
    CredentialsError, and FencedOff for a write after the lease has run out.

    Behind a proxy it sends everything through the general client, which supports proxies.
    """

    def __init__(
        self,
        access: ConnectionSettings,
        user_agent: str,
        connections: int = 32,
        qps: float = -1,
        burst: int = 100,
        time_limit_s: float = 30.0,
        options: ClientOptions | None = None,
    ) -> None:
        self._options = options = options or ClientOptions()
        self._fence = options.fence
        self._access = access
        self._timing = options.timing
        self._throttle = Throttle(qps, burst, options.timing)
        self._is_limited = self._throttle.is_limited
        self._time_limit_s = time_limit_s
        self._free = connections
        self._idle: list[LeanConnection] = []
        self._heads = KnownHeads()
        self._deadlines: dict[LeanConnection, float] = {}
        """Until when each request that is under way must be answered, on the clock of the event loop."""
        self._timer: asyncio.TimerHandle | None = None
        self._queue: deque[asyncio.Future[LeanConnection | None]] = deque()
        """Requests that wait for a place."""
        self._identity = access.credentials if isinstance(access.credentials, Identity) else None
        self._fixed_grant = self._identity.now() if self._identity is not None and self._identity.is_fixed else None
        self._grant: Grant | None = None
        self._tls = options.tls or TlsContexts(access)
        self._head = b""
        self._last_answer: bytes | None = None
        """The last answer that was checked."""
        url = urlsplit(access.server)
        self._host, self._prefix = url.hostname or "", url.path.rstrip("/")
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._is_tls, self._netloc = url.scheme == "https", url.netloc
        self._user_agent = user_agent
        self._general: ApiClient | None = None
        if access.proxy_url or proxy_of(access.server):
            limits = Limits(request_s=time_limit_s, connections=connections)
            self._general = ApiClient(access, user_agent, qps, burst, limits=limits, options=options)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        if self._general is not None:
            await self._general.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._idle:
            connection.close()
        if self._general is not None:
            await self._general.__aexit__(kind, error, trace)

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes:
        """Send one write. It is repeated after the delay of a Retry-After header, and once with new credentials.

        An answer of success that is not an object of the API raises Unreadable: something else than an API server may have
        written it, so that the outcome is unknown. `traceparent` is the header of W3C Trace Context; empty: none is sent.
        """
        if self._general is not None:
            request = OutgoingRequest(
                method,
                path,
                body=body,
                content_type=content_type,
                time_limit_s=self._time_limit_s,
                traceparent=traceparent,
            )
            answer = await self._general.send(request)
            check_success(answer, str(request))
            return answer
        retries: RequestRetries | None = None
        while True:
            if self._is_limited:
                await self._throttle.take()
            # Hot: most requests have a grant without a coroutine, a place without waiting, and an idle connection.
            grant = self._fixed_grant or (
                self._identity.now() if self._identity is not None else await self._access.credentials.grant()
            )
            began_s = self._timing.monotonic_s()
            code = NO_ANSWER
            try:
                outgoing = self._request(method, path, body, content_type, grant, traceparent)
                fence = NO_FENCE if method == "GET" else self._fence
                connection = self._take_place() if self._free else await self._wait_for_place(grant)
                if connection is None or len(outgoing) > AT_ONCE_BYTES:
                    reply = await self._ask(connection, outgoing, grant, fence)
                else:
                    # Hot: as `_ask`, without two coroutines.
                    self._limit(connection)
                    try:
                        reply = await connection.begin(outgoing, fence)
                    finally:
                        connection.end()
                        self._give_back(connection, grant)
                code = str(reply.status)
            except Unanswered as fault:
                raise type(fault)(f"{method} {path}: {fault}") from None
            finally:
                self._options.count(code, method, self._netloc, began_s)
            if reply.status < 300:
                return reply.body if reply.body == self._last_answer else self._checked(reply.body, method, path)
            retries = retries or RequestRetries(self._access.credentials)
            wait_s = retries.wait_after(reply.status, grant, reply.retry_after_s)
            if wait_s is None:
                raise refusal(reply.status, reply.body, f"{method} {path}", reply.retry_after_s or 0)
            await self._timing.sleep(wait_s)

    def _checked(self, answer: bytes, method: str, path: str) -> bytes:
        """The answer, if it is an object of the API. Hot: all answers to binds are the same, so that the last one that was
        checked is remembered."""
        check_success(answer, f"{method} {path}")
        self._last_answer = answer
        return answer

    async def _ask(self, connection: LeanConnection | None, request: bytes, grant: Grant, fence: Fence) -> Reply:
        """Ask on this connection, or on a new one."""
        try:
            if connection is not None:
                self._limit(connection)
                return await connection.ask(request, fence)
            async with asyncio.timeout(self._time_limit_s):
                connection = await self._connection(grant)
                return await connection.ask(request, fence)
        except TimeoutError:
            raise TimedOut(f"no answer within {self._time_limit_s:g} s") from None
        finally:
            self._give_back(connection, grant)

    def _request(self, method: str, path: str, body: bytes, content_type: str, grant: Grant, traceparent: str) -> bytes:
        line = (
            f"{method} {self._prefix}{path} HTTP/1.1\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        )
        if traceparent:
            line += f"traceparent: {traceparent}\r\n"
        if grant is not self._grant:
            self._renew_head(grant)
        return b"%b%b%b" % (line.encode(), self._head, body)

    # ---- time limits

    def _limit(self, connection: LeanConnection) -> None:
        """The request that is about to be sent fails after the time limit.

        Hot: one timer for all connections, at the earliest deadline; asyncio.timeout takes 6 µs a request. All requests
        have the same limit, so the earliest deadline is the first in the dictionary.
        """
        self._deadlines[connection] = self._loop.time() + self._time_limit_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._time_limit_s, self._expire)

    def _expire(self) -> None:
        """Give up the requests whose time is over, and wait for the next deadline."""
        self._timer = None
        for connection, deadline_s in list(self._deadlines.items()):
            if deadline_s > self._loop.time():
                self._timer = self._loop.call_at(deadline_s, self._expire)
                return
            del self._deadlines[connection]
            connection.give_up(TimedOut(f"no answer within {self._time_limit_s:g} s"))

    # ---- connections

    def _renew_head(self, grant: Grant) -> None:
        """Build the headers that all requests share, if the credentials have changed.

        A new client certificate makes idle connections useless: TLS has authenticated them as the old one.
        """
        if grant == self._grant:
            return
        lines = [f"Host: {self._netloc}", f"User-Agent: {self._user_agent}", "Accept: application/json"]
        if grant.authorization:
            lines.append(f"Authorization: {grant.authorization}")
        lines += [f"{name}: {value}" for name, value in self._access.impersonation]
        if self._grant is not None and self._grant.pair != grant.pair:
            while self._idle:
                self._idle.pop().close()
        self._grant, self._head = grant, ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def _connection(self, grant: Grant) -> LeanConnection:
        """A new connection."""
        tls = self._tls.of(grant.pair) if self._is_tls else None
        try:
            opened = await LeanSocket.open(self._host, self._port, tls, self._access.server_name or self._host)
        except OSError as error:
            if is_refused(error):
                raise ConnectionRefused(f"cannot connect to {self._netloc}: connection refused") from None
            raise unanswered(error, f"cannot connect to {self._netloc}") from None
        connection = LeanConnection(opened, self._heads)
        opened.start(connection)
        return connection

    # ---- places: as many requests are under way as there may be connections; first come, first served

    def _take_place(self) -> LeanConnection | None:
        """The idle connection to use. None: the caller opens one."""
        self._free -= 1
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        return None

    async def _wait_for_place(self, grant: Grant) -> LeanConnection | None:
        """The connection of a request that is over. None: the caller opens one."""
        turn: asyncio.Future[LeanConnection | None] = self._loop.create_future()
        self._queue.append(turn)
        try:
            connection = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(turn.result(), grant)
            raise
        return connection if connection is not None and connection.is_usable else None  # it may have ended since then

    def _give_back(self, connection: LeanConnection | None, grant: Grant) -> None:
        """A request is over. Its connection is for the next one, unless it was authenticated with another certificate."""
        if connection is not None:
            self._deadlines.pop(connection, None)
            is_current = grant is self._grant or (self._grant is not None and self._grant.pair == grant.pair)
            if is_current and connection.is_usable:
                self._idle.append(connection)
            else:
                connection.close()
        self._free += 1
        while self._queue and self._free:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(self._take_place())
