"""HTTP and TLS around the answers of `dispatch`: tokens, limits, bodies, and watches as streams.

The store makes every write durable before it has it, so that nothing that a client or a watcher is told can be lost.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml
from aiohttp import web

from mooring.api import api_errors as errors
from mooring.api.json_objects import YAML
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.dispatch import OPEN_TO_ALL, answer
from mooring.apiserver.server.request import MAX_BODY_BYTES, Answer, Request, refusal
from mooring.apiserver.server.watching import BOOKMARK_S, WatchResponse
from mooring.apiserver.service_tokens import ISSUER, ServiceTokens
from mooring.kit.bounded_reading import read_body
from mooring.kit.callbacks import ReportFault
from mooring.kit.http_shell import HttpShell, bearer_token, is_own_host, is_own_origin
from mooring.kit.listener import ConnectionLimits
from mooring.kit.metrics import METRICS_TYPE
from mooring.kit.shown_text import whole_characters

ALWAYS_SENT = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
"""Objects have text of tenants: no browser may guess that it is HTML."""
_STOP_S = 1.0
"""How long connections have to close after their watches ended."""
_BUSY_S = 5
"""When a client may ask again that found too many watches open."""
_WATCH_END_MARGIN_S = 2
"""How long before a watch times out the server sends the last bookmark: clients go on from it."""

_encode = msgspec.json.Encoder().encode


class _YamlDumper(yaml.SafeDumper):
    """Writes a shared value in full at each place: few readers of YAML expect anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Generous: more than a large cluster of controllers and people needs. At the limit the server answers that it is
    too busy."""

    connections: int = 4000
    watches: int = 2000
    first_request_s: float = 32.0
    """From the connection to its first whole request, as upstream gives for headers."""
    idle_s: float = 75.0

    @classmethod
    def within(cls, descriptors: int) -> "HttpLimits":
        """Half of all descriptors: the journal, the scheduler and its extenders need theirs."""
        connections = min(cls().connections, max(descriptors // 2, 16))
        return cls(connections, min(cls().watches, connections * 3 // 4))


@dataclass(slots=True)
class HttpServer:
    """Serves a ResourceApi."""

    api: ResourceApi
    token: str = ""
    """Bearer token that clients must send; empty: clients need none."""
    report: ReportFault = lambda text, error: None
    address: str = ""
    limits: HttpLimits = field(default_factory=HttpLimits)
    metrics: Callable[[], bytes] | None = None
    """Content of /metrics in the text format of Prometheus; None: there is no such page."""
    _shell: HttpShell | None = None
    _watches: set[asyncio.Event] = field(default_factory=set)
    """One event for each open watch. Setting it wakes the watch."""
    _is_stopping: bool = False

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen, and return the port: the one that was asked for, or any free one for 0. Raises OSError."""
        most = self.limits.connections
        room = ConnectionLimits(most, most, first_request_s=self.limits.first_request_s)
        shell = HttpShell(self._handle, room, lambda text: self.report(text, None), idle_s=self.limits.idle_s)
        bound = await shell.start(host, port, tls)
        self._shell, self.address = shell, f"{host}:{bound}"
        return bound

    async def stop(self) -> None:
        """Ends watches cleanly, then the connections."""
        self._is_stopping = True
        for wake in list(self._watches):
            wake.set()
        if self._shell is not None:
            await self._shell.stop_listening()
            await self._shell.close(_STOP_S)
            self._shell = None

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        """One request. A fault in it is logged and answered with 500: it must not end the server."""
        try:
            answered = await self._answer(incoming)
            if isinstance(answered, WatchResponse):
                return await self._stream(incoming, answered)
            return _response(answered)
        except Exception as fault:  # one request must not end the server
            self.report(f"{incoming.method} {incoming.path} failed", fault)
            return _response(
                refusal(errors.internal_error("the request could not be handled; the server's log says why"))
            )

    async def _answer(self, incoming: web.BaseRequest) -> Answer | WatchResponse:
        """The response to send."""
        try:
            self._check_source(incoming)
            self._authenticate(incoming)
            if incoming.path == "/metrics" and incoming.method == "GET" and self.metrics is not None:
                return Answer(200, self.metrics(), METRICS_TYPE)
            request = await _read(incoming)
            answered = answer(self.api, request, self.address, self.token)
        except errors.ApiError as error:
            answered = refusal(error)
        if isinstance(answered, WatchResponse) and len(self._watches) >= self.limits.watches:
            answered.close()
            return refusal(errors.too_many_requests("too many watches are open, please try again later", _BUSY_S))
        return answered

    def _check_source(self, incoming: web.BaseRequest) -> None:
        """Raises 403 for a request of a web page from elsewhere, where no token keeps it out."""
        if self.token:
            return
        if not is_own_host(incoming.headers):
            raise errors.forbidden(
                "", "", "the Host header must be localhost or an IP address: another name may be a web page's"
            )
        if not is_own_origin(incoming.headers):
            raise errors.forbidden("", "", "the request comes from a web page of another origin")

    def _authenticate(self, incoming: web.BaseRequest) -> None:
        """Raises 401 without the token, or one of a service account."""
        if not self.token or incoming.path.startswith(OPEN_TO_ALL):
            return
        user = ServiceTokens(self.api, self.token).user_of(bearer_token(incoming.headers))
        if user is None or ISSUER not in user.audiences:
            raise errors.unauthorized()

    async def _stream(self, incoming: web.BaseRequest, watch: WatchResponse) -> web.StreamResponse:
        """Sends lines as they come, several at once when they come quickly."""
        response = web.StreamResponse(headers={"Content-Type": "application/json", **ALWAYS_SENT})
        response.enable_chunked_encoding()
        news = asyncio.Event()

        def wake() -> None:
            news.set()
            if watch.is_behind and incoming.transport is not None:
                incoming.transport.abort()  # it does not read, so it would not see a proper end either

        watch.wake = wake
        news.set()
        self._watches.add(news)
        try:
            await response.prepare(incoming)
            await self._send(incoming, response, watch, news)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has left, as watchers do
        except Exception as fault:
            self.report(f"the watch of {incoming.path} ended", fault)
            if incoming.transport is not None:
                incoming.transport.abort()
        finally:
            self._watches.discard(news)
            watch.close()
        return response

    async def _send(
        self, incoming: web.BaseRequest, response: web.StreamResponse, watch: WatchResponse, news: asyncio.Event
    ) -> None:
        """Until the watch is over, its time is up, or the client is gone."""
        loop = asyncio.get_running_loop()
        pauses = watch_pauses(loop.time(), loop.time() + watch.timeout_s)
        pause = next(pauses)
        while not self._is_stopping:
            try:
                async with asyncio.timeout_at(pause):
                    await news.wait()
            except TimeoutError:
                pause = next(pauses, 0.0)
                if not pause or incoming.transport is None or incoming.transport.is_closing():
                    return
                if watch.has_bookmarks:
                    watch.bookmark()
            news.clear()
            while lines := watch.take():
                await response.write(lines)
                await asyncio.sleep(0)  # a client that reads quickly would keep all others waiting
            if watch.is_over:
                return


def watch_pauses(now: float, ends: float) -> Iterator[float]:
    """When to send a bookmark and to see whether the client is still there: each minute, shortly before the end, and at
    the end."""
    last = ends - _WATCH_END_MARGIN_S
    moment = now + BOOKMARK_S
    while moment < last:
        yield moment
        moment += BOOKMARK_S
    if last > now:
        yield last
    yield ends


async def _read(incoming: web.BaseRequest) -> Request:
    """The request as `dispatch` sees it."""
    headers = incoming.headers
    query: dict[str, str] = {}
    for name, value in incoming.query.items():
        query.setdefault(whole_characters(name), whole_characters(value))
    if "exclude" in query:  # the one parameter that is meant to be given several times
        query["exclude"] = ",".join(map(whole_characters, incoming.query.getall("exclude")))
    return Request(
        incoming.method,
        whole_characters(incoming.path),
        query,
        await _read_body(incoming),
        whole_characters(headers.get("Content-Type", "")),
        whole_characters(",".join(headers.getall("Accept", ()))),
        whole_characters(headers.get("User-Agent", "")),
        whole_characters(bearer_token(headers)),
    )


async def _read_body(incoming: web.BaseRequest) -> bytes:
    """The whole body. Raises 413 as soon as it is known to be too large."""
    if not incoming.body_exists:
        return b""
    if (incoming.content_length or 0) > MAX_BODY_BYTES:
        raise _too_large()
    if incoming.headers.get("Expect", "").lower() == "100-continue":
        await incoming.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    try:
        body = await read_body(incoming, MAX_BODY_BYTES)
    except web.RequestPayloadError as fault:
        raise errors.bad_request(f"the body could not be read: {fault}") from None
    if body is None:
        raise _too_large()
    return body


def _too_large() -> errors.ApiError:
    return errors.request_entity_too_large(f"limit is {MAX_BODY_BYTES}")


def _response(answered: Answer) -> web.Response:
    """The answer as aiohttp sends it."""
    response = web.Response(
        body=_bytes(answered.body, answered.content_type),
        status=answered.code,
        headers={"Content-Type": answered.content_type, **ALWAYS_SENT},
    )
    for name, value in answered.headers:
        response.headers.add(name, value)
    return response


def _bytes(body: Any, content_type: str) -> bytes:
    """The body of an answer: bytes and text as they are, all else as JSON or YAML."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if content_type == YAML:
        text: str = yaml.dump(body, Dumper=_YamlDumper, sort_keys=False)
        return text.encode()
    return _encode(body)
