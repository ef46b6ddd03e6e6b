"""A client of the Kubernetes API: JSON in and out, errors of the server as ApiError, retries and limits as in client-go."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import STRATEGIC_MERGE_PATCH, JsonObject
from mooring.apiclient.connection_settings import ConnectionSettings, TlsContexts, proxy_of
from mooring.apiclient.credentials import CredentialsError, Grant
from mooring.apiclient.http_requests import (
    ConnectionLost,
    HttpAnswer,
    LineSplitter,
    ListMeta,
    OutgoingRequest,
    Params,
    TooLarge,
    Unanswered,
    Unreadable,
    failed_status,
    refusal,
)
from mooring.apiclient.stream_transport import StreamTransport
from mooring.apiclient.throttle import RequestRetries, Throttle, Timing, retry_after_s
from mooring.kit.bounded_reading import read_body
from mooring.kit.clock import NS_PER_S
from mooring.kit.tasks import NO_FENCE, Fence

if TYPE_CHECKING:
    from mooring.apiclient.proxy_transport import ProxyTransport

log = logging.getLogger(__name__)

JSON = "application/json"

LOST_CONNECTION_WAIT_S = 1.0
PAGE_SIZE = 500
"""client-go's numbers: the pause after a lost connection, and objects in a page of a list."""

_TOLD_WAIT_S, _LOUD_WAIT_S = 0.05, 1.0
"""Longer waits for the rate limit are logged at DEBUG, and at INFO, as in client-go."""
_WATCH_GRACE_S = 30.0
"""How much longer than requested a watch may last before the client ends it."""

NO_ANSWER = "<error>"
"""The status code of an attempt without an answer, in metrics: client-go's word."""

Observe = Callable[[str, str, str, int], None]
"""Called after every attempt, with its status, method, host and duration in nanoseconds."""

Lines = list[bytes]
Pages = list[bytes]
T = TypeVar("T")


class Limits(msgspec.Struct, frozen=True):
    """How much one client reads of an answer, and how long it waits. A server must not be able to exhaust its memory."""

    request_s: float = 60.0
    """For one attempt with its body. A watch lasts as long as it was requested for."""
    answer_bytes: int = 64 << 20
    """A page of 500 objects at etcd's limit of 1.5 MiB would be larger, but pages in practice have a few MiB."""
    error_bytes: int = 1 << 20
    line_bytes: int = 16 << 20
    """An event of a watch is one object, at most 1.5 MiB."""
    connections: int = 100
    pages: int = 20_000
    """Ten million objects. A server whose list never ends must not exhaust the memory of a client."""


class ClientOptions(msgspec.Struct, frozen=True):
    """Settings that the clients of one program share. Clients with the same settings of the connection may share `tls`."""

    timing: Timing = msgspec.field(default_factory=Timing)
    observe: Observe | None = None
    fence: Fence = NO_FENCE
    """Clients check it directly before they send a write."""
    tls: TlsContexts | None = None

    def count(self, code: str, method: str, host: str, began_s: float) -> None:
        """Report an attempt that is over to `observe`."""
        if self.observe is not None:
            self.observe(code, method, host, int((self.timing.monotonic_s() - began_s) * NS_PER_S))


class _Refused(Exception):
    """An error of the server, with what decides whether to try again."""

    def __init__(self, error: ApiError, grant: Grant, wait_s: int | None) -> None:
        super().__init__()
        self.error = error
        self.grant = grant
        self.wait_s = wait_s
        """How long the server asks the client to wait (Retry-After); None if a retry is not allowed."""


class _ListPage(msgspec.Struct):
    metadata: ListMeta | None = None


class TaggedDocument(msgspec.Struct, frozen=True):
    """A document with the tag by which a server recognizes that the client has it; empty if the server sends no tags."""

    body: bytes
    etag: str = ""


class ApiClient:
    """Use it with `async with`. All requests, retries included, share one token bucket; a negative qps is no limit.

    Calls raise ApiError (the server answers with an error), Unanswered (no usable answer), CredentialsError, and
    FencedOff for a write after the lease has run out.
    """

    def __init__(
        self,
        access: ConnectionSettings,
        user_agent: str,
        qps: float = 50.0,
        burst: int = 100,
        content_type: str = JSON,
        limits: Limits | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        self._options = options = options or ClientOptions()
        self._host = urlsplit(access.server).netloc
        self._credentials = access.credentials
        self._content_type = content_type
        self._limits = limits or Limits()
        self._timing = options.timing
        self._throttle = Throttle(qps, burst, options.timing)
        accept = content_type if content_type == "*/*" else f"{content_type}, */*"
        headers = {"User-Agent": user_agent, "Accept": accept, "Accept-Encoding": "identity"}
        self._transport = _transport(access)(access, headers, self._limits.connections, options.fence, options.tls)

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    # ---- the verbs, with JSON

    async def get(self, path: str, params: Params | None = None) -> Any:
        return _parsed(await self.get_bytes(path, params), f"GET {path}")

    async def post(self, path: str, body: Any, params: Params | None = None) -> Any:
        return await self._write("POST", path, body, params)

    async def put(self, path: str, body: Any, params: Params | None = None) -> Any:
        return await self._write("PUT", path, body, params)

    async def patch(
        self, path: str, body: Any, patch_type: str = STRATEGIC_MERGE_PATCH, params: Params | None = None
    ) -> Any:
        return await self._write("PATCH", path, body, params, patch_type)

    async def delete(self, path: str, options: Any = None, params: Params | None = None) -> Any:
        """`options` is a DeleteOptions; without it the object's own grace period applies."""
        return await self._write("DELETE", path, options, params)

    async def list(self, path: str, params: Params | None = None, limit: int = PAGE_SIZE) -> JsonObject:
        """The whole list, as if it were one page."""
        pages = [_parsed(page, f"GET {path}") for page in await self.list_pages(path, params, limit)]
        whole: JsonObject = pages[0]
        whole["items"] = [item for page in pages for item in page.get("items") or ()]
        of_one_page = ("continue", "remainingItemCount")
        metadata = whole.get("metadata") or {}
        whole["metadata"] = {name: value for name, value in metadata.items() if name not in of_one_page}
        return whole

    # ---- bytes, for callers that decode into structs of their own

    async def get_bytes(self, path: str, params: Params | None = None) -> bytes:
        return await self.send(self._request("GET", path, None, params))

    async def get_document(self, path: str, accept: str, etag: str = "") -> TaggedDocument | None:
        """The document at a path in one of the accepted forms; None if it is still the one with this tag."""
        request = OutgoingRequest("GET", path, time_limit_s=self._limits.request_s, accept=accept, etag=etag)

        async def once() -> TaggedDocument | None:
            async with self._attempt(request) as answer:
                if answer.status == HTTPStatus.NOT_MODIFIED:
                    return None
                body = await _body(answer, self._limits.answer_bytes, request)
                return TaggedDocument(body, answer.headers.get("etag", ""))

        return await self._repeat(request, once)

    async def list_pages(self, path: str, params: Params | None = None, limit: int = PAGE_SIZE) -> Pages:
        """All pages of a list; a limit of 0 requests a single page. If the list expires between two pages, the client
        requests it again as one page, as client-go's pager does."""
        asked = dict(params or {})
        pages = [await self.get_bytes(path, {**asked, "limit": str(limit)} if limit else asked)]
        try:
            while token := _continue_token(pages[-1], path):
                if len(pages) == (most := self._limits.pages):
                    raise TooLarge(f"GET {path}: the list has more than {most} pages, the limit of this client")
                pages.append(await self.get_bytes(path, _next_page(asked, limit, token)))
        except ApiError as error:
            if error.reason != "Expired":
                raise
            return [await self.get_bytes(path, asked)]
        return pages

    async def send(self, request: OutgoingRequest) -> bytes:
        """Send one request, with retries. Returns the bytes of the answer."""

        async def once() -> bytes:
            async with self._attempt(request) as answer:
                return await _body(answer, self._limits.answer_bytes, request)

        return await self._repeat(request, once)

    async def watch(self, path: str, params: Params | None = None) -> AsyncIterator[Lines]:
        """The events of a watch as raw lines, as many at a time as have arrived, until the watch ends.

        The first item is empty: the server has answered. `watch=true` is added. A connection that breaks raises
        ConnectionLost, after the events before it. Events that arrive while the caller is busy are read ahead. A caller
        that stops early must close the iterator (`contextlib.aclosing`), or the connection stays open until garbage
        collection.
        """
        asked = {**(params or {}), "watch": "true"}
        request = OutgoingRequest("GET", path, asked, time_limit_s=_watch_limit_s(asked))
        splitter = LineSplitter(self._limits.line_bytes)
        async with AsyncExitStack() as stack:
            answer = await self._repeat(request, lambda: stack.enter_async_context(self._attempt(request)))
            yield []
            async for chunk in answer.content.iter_any():
                if lines := splitter.feed(chunk):
                    yield lines
            if _is_json(rest := splitter.rest()):
                yield [rest]

    # ---- how a request is sent

    def _request(
        self, method: str, path: str, body: Any, params: Params | None, content_type: str = ""
    ) -> OutgoingRequest:
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        return OutgoingRequest(
            method, path, params or {}, data, content_type or self._content_type, self._limits.request_s
        )

    async def _write(self, method: str, path: str, body: Any, params: Params | None, content_type: str = "") -> Any:
        request = self._request(method, path, body, params, content_type)
        return _parsed(await self.send(request), str(request))

    async def _repeat(self, request: OutgoingRequest, once: Callable[[], Awaitable[T]]) -> T:
        """Try until there is a final answer: once more with new credentials after a 401, otherwise as often as client-go."""
        retries = RequestRetries(self._credentials)
        while True:
            error: Exception
            wait_s: float | None
            try:
                return await once()
            except _Refused as refused:
                error, wait_s = refused.error, retries.wait_after(refused.error.code, refused.grant, refused.wait_s)
            except ConnectionLost as lost:
                # The server may have closed an idle connection just as the request used it: the first retry is at once.
                pause_s = LOST_CONNECTION_WAIT_S if retries.count else 0.0
                error, wait_s = lost, pause_s if request.method == "GET" and retries.allows(pause_s) else None
            if wait_s is None:
                raise error from None
            log.debug("%s: attempt %d failed, the next is in %g s", request, retries.count, wait_s)
            if wait_s:
                await self._timing.sleep(wait_s)

    @asynccontextmanager
    async def _attempt(self, request: OutgoingRequest) -> AsyncIterator[HttpAnswer]:
        """One attempt. The answer is a success; any other raises _Refused."""
        _tell_wait(await self._throttle.take(), request)
        grant = await self._credentials.grant()
        began_s = self._timing.monotonic_s()
        try:
            async with self._transport.attempt(request, grant) as answer:
                self._options.count(str(answer.status), request.method, self._host, began_s)
                is_kept = answer.status == HTTPStatus.NOT_MODIFIED and request.etag
                if answer.status >= 300 and not is_kept:
                    wait_s = retry_after_s(answer.status, answer.headers.get("retry-after", "").strip())
                    body = await _body(answer, self._limits.error_bytes, request)
                    raise _Refused(refusal(answer.status, body, str(request), wait_s or 0), grant, wait_s)
                yield answer
        except Unanswered:
            self._options.count(NO_ANSWER, request.method, self._host, began_s)
            raise


def _transport(access: ConnectionSettings) -> "type[StreamTransport] | type[ProxyTransport]":
    """The transport for this server. Hot: few need a proxy, and aiohttp takes 70 ms to import."""
    if not (access.proxy_url or proxy_of(access.server)):
        return StreamTransport
    from mooring.apiclient.proxy_transport import ProxyTransport

    return ProxyTransport


async def server_version(client: ApiClient) -> str:
    """The version that the server reports, such as `v1.37.0`; empty if it reports none."""
    try:
        version = await client.get("/version")
    except (ApiError, Unanswered, CredentialsError):
        return ""
    return str(version.get("gitVersion", "")) if isinstance(version, dict) else ""


async def _body(answer: HttpAnswer, max_bytes: int, request: OutgoingRequest) -> bytes:
    body = await read_body(answer, max_bytes)
    if body is None:
        raise TooLarge(f"{request}: the answer is larger than {max_bytes} bytes, the limit of this client")
    return body


def _watch_limit_s(params: Params) -> float | None:
    asked = params.get("timeoutSeconds", "")
    return int(asked) + _WATCH_GRACE_S if asked.isdigit() else None


def _tell_wait(waited_s: float, request: OutgoingRequest) -> None:
    if waited_s > _TOLD_WAIT_S:
        level = logging.INFO if waited_s > _LOUD_WAIT_S else logging.DEBUG
        log.log(level, "Waited before sending request: %s, %.3f s for the client's own rate limit", request, waited_s)


def _parsed(body: bytes, request: str) -> Any:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable(f"{request}: the answer is not JSON") from None
    if error := failed_status(value):
        raise error
    return value


def _continue_token(page: bytes, path: str) -> str:
    try:
        metadata = msgspec.json.decode(page, type=_ListPage).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreadable(f"GET {path}: the answer is not a list of the API") from None
    return (metadata.token if metadata else None) or ""


def _next_page(asked: Params, limit: int, token: str) -> Params:
    """The parameters of the next page. Servers reject a resourceVersion beside a continue token, which has its own."""
    rest = {name: value for name, value in asked.items() if not name.startswith("resourceVersion")}
    return {**rest, "limit": str(limit), "continue": token} if limit else {**rest, "continue": token}


def _is_json(line: bytes) -> bool:
    """Whether a last line without a line end is complete."""
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
