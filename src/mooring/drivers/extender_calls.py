"""Calls to scheduler extenders over HTTP: `ExtenderCaller` for a driver, `ExtenderClient` for one POST, and TLS.

An attempt that needs an extender is suspended until the reply is reported, so every call must end: with a reply, or with a
CallFault in the words of upstream's HTTP client.
"""

import asyncio
import errno
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mooring.apiclient.connection_settings import ConnectionSettings, client_context, proxy_of
from mooring.apiclient.credentials import CredentialsError, KeyPair
from mooring.apiclient.proxy_transport import FencedBody
from mooring.apiclient.reflectors.reflector import WatchSource
from mooring.drivers.traced_requests import METHOD, NO_TRACES, PATH, SERVER, RequestTraces
from mooring.framework.config.problems import ConfigError
from mooring.framework.config.types import Extender, ExtenderTLSConfig
from mooring.framework.contract.intents import Call, CallFault, CallReply
from mooring.kit.bounded_reading import TOO_MANY_VALUES, has_too_many_values, read_body, read_file
from mooring.kit.late_authorities import aiohttp
from mooring.kit.tasks import NO_FENCE, Fence, TaskSet
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.release import KUBERNETES_VERSION
from mooring.scheduler.inputs import CallAnswered
from mooring.scheduler.scheduler import Scheduler

# ---- The bodies of calls to extenders: the core's plain data, with whole objects instead of the parts that the core
# keeps.
#
# The core decodes only the fields that a scheduler reads, but extenders get pods and nodes whole. An embedded cluster
# has whole objects in its store (`drivers/embedded_driver.py`); for a live one, `Originals` keeps them as the
# reflectors receive them, and only if there are extenders.


Whole = Callable[[KubeObject], Any]
"""Returns the object as the API server has it, ready for JSON; the given object if there is no other."""

_encode = msgspec.json.Encoder().encode


def encoded(call: Call, whole: Whole) -> bytes:
    """The JSON body of a call."""
    return _encode(_filled(call.body, whole))


def _filled(value: Any, whole: Whole) -> Any:
    """The value with each typed object replaced by the whole one."""
    if isinstance(value, KubeObject):
        return whole(value)
    if isinstance(value, dict):
        return {key: _filled(member, whole) for key, member in value.items()}
    if isinstance(value, list):
        return [_filled(item, whole) for item in value]
    return value


def shown(item: dict[str, Any], is_pod: bool) -> dict[str, Any]:
    """An object as upstream sends it. Parity: without kind and apiVersion; pods without managedFields, nodes with them."""
    bare = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
    metadata = bare.get("metadata")
    if is_pod and isinstance(metadata, dict) and "managedFields" in metadata:
        bare["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    return bare


# ---- pods and nodes of a live cluster


_PODS, _NODES = "/api/v1/pods", "/api/v1/nodes"
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Event(msgspec.Struct):
    type: str
    object: dict[str, Any]


class _Page(msgspec.Struct):
    items: list[dict[str, Any]] | None = None


class Originals:
    """A WatchSource that passes everything on, and keeps the JSON of each pod and node.

    It costs one more decoding of each pod and node, and their memory, so a scheduler without extenders does not use it.
    """

    def __init__(self, source: WatchSource) -> None:
        self._source = source
        self._kept: dict[str, dict[str, msgspec.Raw]] = {_PODS: {}, _NODES: {}}
        """Path -> key of the object -> its JSON."""
        self._arriving: dict[str, dict[str, msgspec.Raw]] = {}
        """Lists that are being streamed (sendInitialEvents). Each replaces `_kept` with the bookmark that ends it: until then
        it misses objects."""

    def __len__(self) -> int:
        """How many objects are kept, with those of lists that are being streamed."""
        return sum(map(len, (*self._kept.values(), *self._arriving.values())))

    def whole(self, item: KubeObject) -> Any:
        """The object as it was last received; `item` itself if it was not."""
        return self._kept[_PODS if isinstance(item, Pod) else _NODES].get(_key(item.metadata), item)

    async def list_pages(self, path: str, params: Mapping[str, str] | None = None) -> list[bytes]:
        """List a kind. For kinds that extenders see, keep the original JSON of the objects; objects of the list before are
        forgotten."""
        pages = await self._source.list_pages(path, params)
        if path in self._kept:
            self._kept[path].clear()
            for page in pages:
                self._keep_page(path, page)
        return pages

    async def watch(self, path: str, params: Mapping[str, str] | None = None) -> AsyncIterator[list[bytes]]:
        """Passes the lines on unchanged, and keeps the objects in them."""
        self._arriving.pop(path, None)
        if path in self._kept and "sendInitialEvents" in (params or {}):
            self._arriving[path] = {}
        async for lines in self._source.watch(path, params):
            if path in self._kept:
                for line in lines:
                    self._keep_line(path, line)
            yield lines

    def _keep_page(self, path: str, page: bytes) -> None:
        try:
            items = msgspec.json.decode(page, type=_Page).items
        except _FAULTS:
            return  # the reflector decodes the page next and reports the fault
        for item in items or ():
            self._keep(path, item)

    def _keep_line(self, path: str, line: bytes) -> None:
        """Follow one event of a watch. A line that cannot be decoded is skipped: the reflector reports it."""
        try:
            event = msgspec.json.decode(line, type=_Event)
        except _FAULTS:
            return
        if event.type in ("ADDED", "MODIFIED"):
            self._keep(path, event.object)
        elif event.type == "DELETED":
            self._now(path).pop(_key(_metadata(event.object)), None)
        elif event.type == "BOOKMARK" and path in self._arriving:
            self._kept[path] = self._arriving.pop(path)

    def _keep(self, path: str, item: dict[str, Any]) -> None:
        written = msgspec.json.encode(shown(item, path == _PODS))
        self._now(path)[_key(_metadata(item))] = msgspec.Raw(written)

    def _now(self, path: str) -> dict[str, msgspec.Raw]:
        """The place of events: the list that is being streamed, or what is kept."""
        return self._arriving.get(path, self._kept[path])


def _key(metadata: ObjectMeta) -> str:
    """The key has the uid: a pod of the same name may be another pod."""
    return f"{metadata.namespace}/{metadata.name}/{metadata.uid}"


def _metadata(item: dict[str, Any]) -> ObjectMeta:
    written = item.get("metadata")
    names = written if isinstance(written, dict) else {}
    return ObjectMeta(
        name=str(names.get("name", "")), namespace=str(names.get("namespace", "")), uid=str(names.get("uid", ""))
    )


log = logging.getLogger(__name__)

NO_LOOP = "extenders are asked only while an event loop runs"
"""The fault of a call without an event loop: tests step an embedded cluster without one."""
_BOUND = b"{}"
"""The reply to a bind that succeeded; a dry run answers binds with it."""


class ExtenderCaller:
    """Runs each Call as a task and reports its reply to the scheduler.

    The driver calls `begin` for each Call. `then` is called after each report, because there may be new intents.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        whole: Whole,
        then: Callable[[], None],
        *,
        is_dry_run: bool = False,
        fence: Fence = NO_FENCE,
        traces: RequestTraces = NO_TRACES,
    ) -> None:
        """`whole` returns objects as the API server has them. Raises ConfigError for certificates that cannot be used."""
        self._scheduler = scheduler
        self._client = ExtenderClient(scheduler.extenders, fence=fence)
        self._traces = traces
        self._whole = whole
        self._then = then
        self._is_dry_run = is_dry_run
        self._tasks = TaskSet()

    def know(self, extenders: Iterable[Extender]) -> None:
        """Be able to call these extenders as well. Raises ConfigError for certificates that cannot be used."""
        self._client.know(extenders)

    def begin(self, call: Call) -> None:
        """Start a call. Without a running event loop, report a fault at once."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._report(call, CallFault(f'Post "{call.shown_url}": {NO_LOOP}'))
        else:
            self._tasks.start(self._ask(call))

    def stop(self) -> None:
        """Cancel all calls and report nothing more; the attempts that wait for a reply stay suspended."""
        self._tasks.cancel()

    async def close(self) -> None:
        self.stop()
        await self._tasks.settle()
        await self._client.close()

    async def _ask(self, call: Call) -> None:
        reply = await self._reply(call)
        try:
            self._report(call, reply)
        except Exception as bug:  # no code awaits the task, so its exception would be lost
            log.error("the reply to %s could not be processed", call.shown_url, exc_info=bug)

    async def _reply(self, call: Call) -> CallReply:
        """The reply or a fault, never an exception. A dry run answers binds itself."""
        if call.binds and self._is_dry_run:
            return _BOUND
        try:
            body, url = encoded(call, self._whole), urlsplit(call.url)
            about = {METHOD: "POST", PATH: url.path, SERVER: url.hostname or ""}
            with self._traces.span(call.pod_id, f"Extender {call.verb}", about, is_awaited=True) as span:
                reply = await self._client.ask(call, body, span.traceparent)
                if isinstance(reply, CallFault):
                    span.fail(reply.message)
                return reply
        except Exception as bug:  # otherwise the attempt would wait for ever
            log.error("a call to %s failed unexpectedly", call.shown_url, exc_info=bug)
            return _unanswered(call, repr(bug))

    def _report(self, call: Call, reply: CallReply) -> None:
        self._scheduler.handle(CallAnswered(call.token, reply))
        self._then()


# ---- the HTTP client


MAX_REPLY_BYTES = 128 << 20
"""The largest reply: 5,000 nodes of 25 KiB, as extenders that are not nodeCacheCapable return them."""
CONNECTIONS = 512
"""As many as binds may be under way (driver.MAX_BINDS): each may be a call."""
USER_AGENT = f"kube-scheduler/v{KUBERNETES_VERSION} (mooring)"
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "gzip", "User-Agent": USER_AGENT}
_QUIET = ("Accept",)
"""Headers that aiohttp adds and upstream does not send."""
_NO_HEADERS = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_NO_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"


class ExtenderClient:
    """One POST for each call, with a limit for time and size. Every failure is a CallFault, in upstream's words where it has
    some; only FencedOff is raised."""

    def __init__(
        self,
        extenders: Iterable[Extender],
        max_reply_bytes: int = MAX_REPLY_BYTES,
        fence: Fence = NO_FENCE,
    ) -> None:
        """Raises ConfigError for certificates that cannot be used. It checks `fence` directly before it sends a bind."""
        self._fence = fence
        self._known: dict[int, tuple[Extender, ssl.SSLContext]] = {}
        """By id of an extender, which lives as long as its entry."""
        self.know(extenders)
        self._max_reply_bytes = max_reply_bytes
        self._session: aiohttp.ClientSession | None = None

    def know(self, extenders: Iterable[Extender]) -> None:
        """Be able to call these extenders as well: a call of a former one may be under way. Raises ConfigError."""
        self._known |= {id(extender): (extender, extender_context(extender)) for extender in extenders}

    async def ask(self, call: Call, body: bytes, traceparent: str = "") -> CallReply:
        """The body of the reply. httpTimeout limits connecting, waiting and reading together, as in Go's http.Client, whose
        messages differ before and after the headers of a reply."""
        limit_s = call.extender.timeout.seconds
        if limit_s <= 0:
            limit_s = Extender.DEFAULT_TIMEOUT.seconds
        has_headers = asyncio.Event()
        try:
            async with asyncio.timeout(limit_s):
                return await self._ask(call, body, has_headers, traceparent)
        except TimeoutError:
            return CallFault(_NO_BODY if has_headers.is_set() else f'Post "{call.shown_url}": {_NO_HEADERS}')
        except (aiohttp.ClientError, OSError, ValueError) as fault:
            if call.binds:
                self._fence.check()
            return _unanswered(call, _words(fault))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, call: Call, body: bytes, has_headers: asyncio.Event, traceparent: str) -> CallReply:
        """POST, and once more if the server closed a connection that was kept open."""
        try:
            return await self._post(call, body, has_headers, traceparent)
        except aiohttp.ServerDisconnectedError:
            # The server may close an idle connection just when it is used again. A filter call twice does no harm; a bind
            # twice might.
            if call.binds:
                raise
            return await self._post(call, body, has_headers, traceparent)

    async def _post(self, call: Call, body: bytes, has_headers: asyncio.Event, traceparent: str) -> CallReply:
        """One POST. Only a bind carries the fence: other calls change nothing."""
        tls = call.extender.tls_config
        posting = self._open().post(
            call.url,
            data=FencedBody(body, "application/json", self._fence if call.binds else NO_FENCE),
            headers=_HEADERS | ({"traceparent": traceparent} if traceparent else {}),
            skip_auto_headers=_QUIET,
            ssl=self._known[id(call.extender)][1],
            server_hostname=(tls.server_name or None) if tls is not None else None,
            proxy=proxy_of(call.url) or None,
        )
        async with posting as answer:
            has_headers.set()
            if answer.status != 200:
                return CallFault(f"failed {call.verb} with extender at URL {call.shown_url}, code {answer.status}")
            return await self._read(call, answer)

    async def _read(self, call: Call, answer: aiohttp.ClientResponse) -> CallReply:
        """The body of a reply, up to the size limit; a Content-Length beyond it is refused without reading."""
        limit = self._max_reply_bytes
        reply = await read_body(answer, limit)
        if reply is None:
            answer.close()
            return CallFault(f'Post "{call.shown_url}": the reply is larger than {limit} bytes, which is all we read')
        if has_too_many_values(reply):
            return CallFault(f'Post "{call.shown_url}": the reply cannot be used: {TOO_MANY_VALUES}')
        return reply

    def _open(self) -> aiohttp.ClientSession:
        """The session, made on the first call: it belongs to the event loop that runs then."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS)
            no_limit = aiohttp.ClientTimeout(total=None, sock_connect=None)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=no_limit, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


def _unanswered(call: Call, why: str) -> CallFault:
    """The fault of a call without a reply. Exceptions of the HTTP client may hold the whole URL."""
    return CallFault(f'Post "{call.shown_url}": {why.replace(call.url, call.shown_url)}')


def _words(fault: Exception) -> str:
    """The text of Go's HTTP client for common faults."""
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


# ---- TLS: inline data before files; without an authority, enableHTTPS means no verification


def extender_context(extender: Extender) -> ssl.SSLContext:
    """The TLS context for an extender. Raises ConfigError(stage="build")."""
    written = extender.tls_config or ExtenderTLSConfig()
    has_authority = bool(written.ca_data or written.ca_file)
    # Parity: enableHTTPS does not turn TLS on (the URL does); it turns the checks off where there is no authority.
    is_insecure = written.insecure or (extender.enable_https and not has_authority)
    if is_insecure and has_authority:
        raise _error("specifying a root certificates file with the insecure flag is not allowed")
    authority = written.ca_data or _content(written.ca_file)
    access = ConnectionSettings(extender.url_prefix, authority, is_insecure, written.server_name)
    try:
        return client_context(access, _pair(written))
    except CredentialsError as fault:
        raise _error(str(fault)) from None


def _pair(written: ExtenderTLSConfig) -> KeyPair | None:
    """Parity: a certificate without its key, or a key alone, is left out."""
    if not (written.cert_data or written.cert_file) or not (written.key_data or written.key_file):
        return None
    return KeyPair(written.cert_data or _content(written.cert_file), written.key_data or _content(written.key_file))


def _content(path: str) -> bytes:
    if not path:
        return b""
    try:
        return read_file(path)
    except OSError as fault:
        raise _error(f"open {path}: {os.strerror(fault.errno or 0).lower()}") from None


def _error(text: str) -> ConfigError:
    return ConfigError("build", [f"couldn't build extenders: {text}"])
