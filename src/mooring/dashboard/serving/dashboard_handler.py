"""One handler of HTTP requests for every program that serves a dashboard. Its callers have authenticated what needs it.

`mooring run` calls it from the server of /metrics, the other programs from a `LoopbackServer`.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web

from mooring.dashboard.interfaces import Refused
from mooring.dashboard.serving.api_paths import (
    JSON,
    MAX_BODY_BYTES,
    NOT_FOUND,
    ApiPaths,
    ApiReply,
    ApiRequest,
    DashboardParts,
    query_of,
    refusal_reply,
)
from mooring.dashboard.serving.sampler import Sampler, StreamClient, Streams
from mooring.kit.bounded_reading import read_body
from mooring.kit.http_shell import HttpShell, bears_token, is_own_host, is_own_origin
from mooring.kit.listener import LOOPBACK, ConnectionLimits
from mooring.kit.tasks import settle
from mooring.queue.entry import ReportFault

# ---- The built front end: files of the package that are the same for everyone and hold no data.
#
# All files are read once, and a request is looked up among their names, so that no path can lead anywhere else.


TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}
"""Files with other endings are not served."""
INDEX = "index.html"
HASHED = "assets/"
"""Names in this folder have a hash of their content, so that a browser may keep the files for ever."""
KEEP = ("Cache-Control", "public, max-age=31536000, immutable")
REVALIDATE = ("Cache-Control", "no-cache")

NOT_BUILT = (
    b"The pages of the dashboard are not built. Run `make web` in the repository, then start the program again.\n"
)


@cache
def built_files() -> Mapping[str, bytes]:
    """The files of the package, by path below `web`; empty if the front end is not built."""
    found: dict[str, bytes] = {}
    root = resources.files("mooring.dashboard") / "web"
    if root.is_dir():
        _collect(root, "", found)
    return found if INDEX in found else {}


def _collect(folder: Traversable, prefix: str, found: dict[str, bytes]) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            _collect(entry, f"{prefix}{entry.name}/", found)
        elif entry.name.rpartition(".")[2] in TYPES:
            found[prefix + entry.name] = entry.read_bytes()


def static_reply(path: str, files: Mapping[str, bytes]) -> ApiReply | None:
    """The file at a path below /dashboard/; None if there is none. The empty path is the index."""
    name = path or INDEX
    body = files.get(name)
    if body is None:
        return ApiReply(NOT_BUILT, 503, TYPES["txt"], (REVALIDATE,)) if name == INDEX else None
    kept = KEEP if name.startswith(HASHED) else REVALIDATE
    return ApiReply(body, 200, TYPES[name.rpartition(".")[2]], (kept,))


PREFIX = "/dashboard/"
API = f"{PREFIX}api/"
STREAM = f"{API}stream"
STREAM_S = 600.0
"""How long a stream lasts: credentials are checked when it begins, and may be withdrawn. Pages open it again."""
QUIET_S = 15.0
"""After so long without events a comment is sent, so that a client that has left is noticed."""
SLOW_S = 20.0
"""How long a client may take to read what was sent before it is cut off."""
_BODY_S = 30.0
"""How long a body may take to arrive."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "mooring",
}
"""Of every reply. The policy allows nothing but the files of the dashboard itself: names and labels of the cluster may be
made to look like script."""
NO_STORE = ("Cache-Control", "no-store")


class DashboardHandler:
    """Answers everything below /dashboard/."""

    prefix = PREFIX

    def __init__(self, parts: DashboardParts, report: ReportFault, files: Mapping[str, bytes] | None = None) -> None:
        """`report` takes what should not have happened; `files` replace the built front end, in tests."""
        self.streams = Streams()
        self.sampler = Sampler(parts.source, self.streams, report, parts.timeline, parts.in_use, parts.prices)
        self._paths = ApiPaths(parts, self.sampler)
        self._questions = parts.questions
        self._report = report
        self._files = files
        self._sampling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sample, on the loop that runs."""
        self._sampling = asyncio.create_task(self.sampler.run())

    async def close(self) -> None:
        """End streams and questions. Call it before the server stops, which waits for open requests."""
        self.streams.close()
        if self._sampling is not None:
            self._sampling.cancel()
            await settle((self._sampling,))
        if self._questions is not None:
            await self._questions.close()

    @staticmethod
    def is_open(path: str) -> bool:
        """Whether a path is the same for everyone, and needs no credentials."""
        return not path.startswith(API)

    async def handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        """One request. A fault in it must not end the server."""
        try:
            _check_origin(incoming)
            if incoming.rel_url.raw_path == STREAM and incoming.method == "GET":
                return await self._stream(incoming)
            return response(await self._answer(incoming))
        except Refused as refused:
            return response(refusal_reply(refused))
        except Exception as fault:
            self._report(f"the dashboard failed to answer {incoming.method} {incoming.path!r}", fault)
            return response(refusal_reply(Refused(500, "the dashboard failed to answer; the log says why")))

    async def _answer(self, incoming: web.BaseRequest) -> ApiReply:
        """Route a request: paths below API go to the handlers of data, other paths to the static files of the page. Raises
        Refused (404, 405)."""
        path = incoming.rel_url.raw_path
        if path == PREFIX.rstrip("/"):
            return redirect(PREFIX)
        if not path.startswith(PREFIX):
            raise Refused(404, NOT_FOUND)
        if path.startswith(API):
            return await self._paths.answer(await _read(incoming, path.removeprefix(PREFIX)))
        if incoming.method not in ("GET", "HEAD"):
            raise Refused(405, f"{incoming.method} is not possible here")
        found = static_reply(path.removeprefix(PREFIX), built_files() if self._files is None else self._files)
        if found is None:
            raise Refused(404, NOT_FOUND)
        return found

    # ---- the stream

    async def _stream(self, incoming: web.BaseRequest) -> web.StreamResponse:
        """Send events until the client leaves, reads too slowly, or its time is up. Raises Refused (503)."""
        client = self.streams.join()
        if len(self.streams) == 1:
            self.sampler.wake()
        stream = web.StreamResponse(
            headers={
                **HEADERS,
                "Content-Type": "text/event-stream",
                NO_STORE[0]: NO_STORE[1],
                "X-Accel-Buffering": "no",
            }
        )
        try:
            await stream.prepare(incoming)
            await self._send(stream, client)
            await stream.write_eof()
        except (ConnectionError, TimeoutError):
            if incoming.transport is not None:
                incoming.transport.abort()  # it does not read, so it would not see a proper end either
        finally:
            self.streams.leave(client)
        return stream

    async def _send(self, stream: web.StreamResponse, client: StreamClient) -> None:
        """Raises TimeoutError for a client that does not read."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + STREAM_S
        while not self.streams.is_closed and loop.time() < ends_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_S):
                    await client.news.wait()
            async with asyncio.timeout(SLOW_S):
                await stream.write(client.take() or b":\n\n")


def redirect(path: str) -> ApiReply:
    return ApiReply(b"", 307, "text/plain", (("Location", path), NO_STORE))


def response(reply: ApiReply) -> web.Response:
    """The reply as aiohttp sends it, with the headers of every reply."""
    headers = {**HEADERS, "Content-Type": reply.content_type, NO_STORE[0]: NO_STORE[1], **dict(reply.headers)}
    return web.Response(body=reply.body, status=reply.status, headers=headers)


def _check_origin(incoming: web.BaseRequest) -> None:
    """Raises Refused (403) for a request that a page from elsewhere makes."""
    if not is_own_origin(incoming.headers):
        raise Refused(403, "the dashboard answers only its own pages")


async def _read(incoming: web.BaseRequest, path: str) -> ApiRequest:
    """The request as paths see it."""
    body = b""
    if incoming.method == "POST":
        kind = incoming.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != JSON:  # a form of another site cannot send this type without asking first
            raise Refused(415, f"the Content-Type must be {JSON}")
        body = await _body(incoming)
    try:
        query = query_of(incoming.rel_url.raw_query_string)
    except ValueError:
        raise Refused(400, "the query has too many parameters") from None
    return ApiRequest(incoming.method, path, query, body)


async def _body(incoming: web.BaseRequest) -> bytes:
    """The whole body. Raises Refused (413, 400, 408)."""
    try:
        async with asyncio.timeout(_BODY_S):
            body = await read_body(incoming, MAX_BODY_BYTES)
    except TimeoutError:
        raise Refused(408, "the body did not arrive in time") from None
    except web.RequestPayloadError as fault:
        raise Refused(400, f"the body cannot be read: {fault}") from None
    if body is None:
        raise Refused(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    return body


CONNECTIONS = 64
"""Streams and the requests of a few pages: a browser opens at most six to a host."""
_IDLE_S = 75.0
_STOP_S = 1.0
"""How long connections have to close after their streams ended."""


class LoopbackServer:
    """A listener for the dashboard alone, in programs that serve browsers nothing else: plain HTTP on loopback, with a token.

    Web pages from elsewhere run on the same machine, in the same browser. So a request needs the token, which only the
    printed link has, and must name this listener as its host: a name that someone points at 127.0.0.1 is refused (DNS
    rebinding). Call `start`, then `stop` once.
    """

    def __init__(self, handler: DashboardHandler, token: str, report: ReportFault) -> None:
        """`token` must not be empty."""
        assert token
        self._handler = handler
        self._token = token
        self._port = 0
        self._report = report
        self._shell: HttpShell | None = None

    async def start(self, port: int) -> str:
        """Listen, on a free port for 0. Returns the link with the token. Raises OSError."""
        shell = HttpShell(
            self._handle,
            ConnectionLimits(CONNECTIONS, CONNECTIONS),
            lambda text: self._report(text, None),
            idle_s=_IDLE_S,
            cancels=True,  # a question whose asker has left need not be answered
        )
        bound = self._port = await shell.start(LOOPBACK, port)
        self._shell = shell
        self._handler.start()
        # A fragment is not sent to any server, so that the token is in no log.
        return f"http://{LOOPBACK}:{bound}{PREFIX}#token={self._token}"

    async def stop(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            await shell.stop_listening()
            await self._handler.close()
            await shell.close(_STOP_S)

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check(incoming)
            if incoming.path == "/":
                return response(redirect(PREFIX))
            return await self._handler.handle(incoming)
        except Refused as refused:
            return response(refusal_reply(refused))

    def _check(self, incoming: web.BaseRequest) -> None:
        """Raises Refused: 403 for another host, 401 without the token."""
        if not is_own_host(incoming.headers, self._port):
            raise Refused(403, f"open the dashboard under {LOOPBACK}:{self._port} or localhost:{self._port}")
        if self._handler.is_open(incoming.rel_url.raw_path):
            return
        if not bears_token(incoming.headers, self._token):
            raise Refused(401, "a token is needed: open the link that the program printed")
