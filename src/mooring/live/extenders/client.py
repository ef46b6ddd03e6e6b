"""Asks extenders over HTTP: one POST a call, on connections of its own, within a time and a size."""

import asyncio
import errno
import ssl
from collections.abc import Iterable

import aiohttp

from mooring.apiclient.connection_settings import proxy_of
from mooring.apiclient.transport import FencedBody
from mooring.framework.config.types import Extender
from mooring.framework.intents import Call, CallFault, CallReply
from mooring.kit.fence import NO_FENCE, Fence
from mooring.live.extenders.tls import extender_context

MAX_REPLY_BYTES = 128 << 20
"""How much of a reply is read: room for all nodes of a large cluster, written out (5,000 of 25 KiB each)."""
CONNECTIONS = 512
USER_AGENT = "kube-scheduler/v1.36.4 (mooring)"
_QUIET = ("Accept",)
"""Headers that aiohttp would add and upstream does not send."""
_NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class ExtenderClient:
    """Whatever goes wrong is an answer: a CallFault, in upstream's words where it has some. FencedOff alone is raised."""

    def __init__(
        self,
        extenders: Iterable[Extender],
        max_reply_bytes: int = MAX_REPLY_BYTES,
        fence: Fence = NO_FENCE,
    ) -> None:
        """Raises ConfigError for certificates that cannot be used. `fence` is asked directly before a bind is sent."""
        self._fence = fence
        self._extenders = tuple(extenders)
        self._contexts: dict[int, ssl.SSLContext] = {
            id(extender): extender_context(extender) for extender in self._extenders
        }
        self._max_reply_bytes = max_reply_bytes
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, call: Call, body: bytes) -> CallReply:
        """The body of the answer. Bounded by httpTimeout: connecting, waiting and reading together."""
        limit_s = call.extender.timeout.seconds
        if limit_s <= 0:
            limit_s = Extender.DEFAULT_TIMEOUT.seconds
        progress = _Progress()
        try:
            async with asyncio.timeout(limit_s):
                return await self._ask(call, body, progress)
        except TimeoutError:
            return CallFault(_NO_BODY if progress.has_headers else f'Post "{call.url}": {_NO_HEADERS}')
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            if call.binds:
                self._fence.check()
            return CallFault(f'Post "{call.url}": {_words(fault)}')

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, call: Call, body: bytes, progress: "_Progress") -> CallReply:
        try:
            return await self._post(call, body, progress)
        except aiohttp.ServerDisconnectedError:
            # A connection that was kept may end just when it is used again. To ask twice does no harm, to bind might.
            if call.binds:
                raise
            return await self._post(call, body, progress)

    async def _post(self, call: Call, body: bytes, progress: "_Progress") -> CallReply:
        tls = call.extender.tls_config
        posting = self._open().post(
            call.url,
            data=FencedBody(body, "application/json", self._fence if call.binds else NO_FENCE),
            headers={"Content-Type": "application/json", "Accept-Encoding": "gzip", "User-Agent": USER_AGENT},
            skip_auto_headers=_QUIET,
            ssl=self._contexts[id(call.extender)],
            server_hostname=(tls.server_name or None) if tls is not None else None,
            proxy=proxy_of(call.url) or None,
        )
        async with posting as answer:
            progress.has_headers = True
            if answer.status != 200:
                return CallFault(f"failed {call.verb} with extender at URL {call.url}, code {answer.status}")
            return await self._read(call, answer)

    async def _read(self, call: Call, answer: aiohttp.ClientResponse) -> CallReply:
        limit = self._max_reply_bytes
        chunks: list[bytes] = []
        size = answer.content_length or 0
        if size <= limit:
            size = 0
            async for chunk in answer.content.iter_any():
                size += len(chunk)
                if size > limit:
                    break
                chunks.append(chunk)
        if size > limit:
            answer.close()
            return CallFault(f'Post "{call.url}": the reply is larger than {limit} bytes, which is all we read')
        return b"".join(chunks)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            no_limit = aiohttp.ClientTimeout(total=None, sock_connect=None)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=no_limit, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


class _Progress:
    """How far a call has come."""

    has_headers = False


def _words(fault: Exception) -> str:
    """What Go says of it, for the faults that people meet."""
    if isinstance(fault, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return f"tls: {_of_tls(fault)}"
    if isinstance(fault, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {fault.host}: no such host"
    if isinstance(fault, aiohttp.ClientConnectorError):
        reason = "connection refused" if fault.os_error.errno == errno.ECONNREFUSED else fault.os_error.strerror
        return f"dial tcp {fault.host}:{fault.port}: connect: {reason}"
    if isinstance(fault, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(fault, ConnectionResetError):
        return "read: connection reset by peer"
    return str(fault) or type(fault).__name__


def _of_tls(fault: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError) -> str:
    cause = getattr(fault, "certificate_error", None) or getattr(fault, "os_error", fault)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"failed to verify certificate: x509: {cause.verify_message}"
    return str(cause)
