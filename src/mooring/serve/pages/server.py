"""The HTTPS server of the pages: limits for connections and requests, authorization, and a graceful end.

It runs on the event loop of the scheduler, so its limits protect the scheduler: a slow or hostile client must not take file
descriptors or time from binds and watches.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from mooring.api.api_errors import ApiError, forbidden, request_entity_too_large, timeout
from mooring.kit.bounded_reading import read_body
from mooring.kit.http_shell import HttpShell, is_own_origin
from mooring.kit.listener import ConnectionLimits
from mooring.kit.logs import Log
from mooring.kit.shown_text import quoted, whole_characters
from mooring.serve.pages.access import Caller, RequestAuthorizer, ReviewFailed, certified_user, is_loopback
from mooring.serve.pages.pages import PageReply, PageRequest, Pages, failure, refusal

if TYPE_CHECKING:
    from aiohttp import web

ALWAYS_SENT = (("Cache-Control", "no-cache, private"), ("Server", "mooring"), ("X-Content-Type-Options", "nosniff"))
"""`Server` replaces the header of aiohttp, which would show its version. Pages have text of tenants and callers: no browser
may guess that it is HTML. Upstream sends this header with errors and health pages only."""


class ListenError(Exception):
    """The address cannot be listened on."""


class WebLimits(msgspec.Struct, frozen=True):
    """Bounds for clients. Times are in seconds."""

    connections: int = 100
    """Enough for probes, a few scrapers and people; all other descriptors are for binds, statuses, events and watches."""
    of_one_remote: int = 50
    handshake_s: float = 10.0
    first_request_s: float = 32.0
    """From the connection to its first complete request; upstream's ReadHeaderTimeout."""
    request_s: float = 60.0
    idle_s: float = 90.0
    body_bytes: int = 4096
    """The largest body that a page reads is a number."""
    end_s: float = 5.0
    """How long open requests may go on after `stop`."""

    @classmethod
    def within(cls, descriptors: int) -> "WebLimits":
        """The limits for a process with so many file descriptors: at most a quarter of them, at least four."""
        most = max(min(cls().connections, descriptors // 4), 4)
        return cls(most, max(most // 2, 2))


class MountedPages(Protocol):
    """Pages of another package below a prefix. They answer by themselves, and may stream."""

    prefix: str
    """It ends in a slash. The path without the slash belongs to them too."""

    def is_open(self, path: str) -> bool:
        """Whether a path is the same for everyone, and needs no credentials, as the health pages."""
        ...

    async def handle(self, incoming: "web.BaseRequest") -> "web.StreamResponse":
        """Answer a request that was admitted. It has no time limit here, and must not raise."""
        ...


class WebServer:
    """`start`, then `stop` once. Open requests may finish after `stop`, for `end_s`."""

    def __init__(
        self,
        pages: Pages,
        authorizer: RequestAuthorizer,
        log: Log,
        limits: WebLimits | None = None,
        mounted: MountedPages | None = None,
    ) -> None:
        self._pages = pages
        self._mounted = mounted
        self._authorizer = authorizer
        self._log = log
        self._limits = limits or WebLimits()
        self._shell: HttpShell | None = None

    @property
    def connections(self) -> int:
        """How many connections are open, with those that have not finished their handshake."""
        return 0 if self._shell is None else self._shell.listener.count

    async def start(self, address: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen, and return the port: the given one, or a free one for 0. Raises ListenError. Tests pass no TLS."""
        limits = self._limits
        shell = HttpShell(
            self._handle,
            ConnectionLimits(limits.connections, limits.of_one_remote, limits.handshake_s, limits.first_request_s),
            self._log.warning,
            idle_s=limits.idle_s,
            lingering_s=1.0,
            cancels=self._mounted is not None,  # a question whose asker has left need not be answered
        )
        try:
            bound = await shell.start(address, port, tls)
        except (OSError, OverflowError) as error:
            told = getattr(error, "strerror", None) or error
            raise ListenError(f"failed to create listener: failed to listen on {address}:{port}: {told}") from None
        self._shell = shell
        self._log.info("Serving securely", address=f"{address}:{bound}")
        return bound

    async def stop(self) -> None:
        """Accept no new connections; open requests have `end_s` to finish."""
        shell, self._shell = self._shell, None
        if shell is None:
            return
        await shell.stop_listening()
        self._log.info("[graceful-termination] secure server has stopped listening")
        if still_open := await shell.drain(self._limits.end_s):
            self._log.warning("Closing requests that are still open", count=still_open)
        await shell.close(0.1)
        self._log.info("[graceful-termination] secure server is exiting")

    # ---- one request

    async def _handle(self, incoming: "web.BaseRequest") -> "web.StreamResponse":
        """Admit a request by its path, and let a page or the mounted pages answer it."""
        path, mounted = incoming.rel_url.raw_path, self._mounted
        if mounted is None or not f"{path}/".startswith(mounted.prefix):
            reply = await self._within_limits(incoming, self._admit_and_answer)
            assert reply is not None, "a page answers"
            return _response(reply)
        refused = None if mounted.is_open(path) else await self._within_limits(incoming, self._admit)
        return _response(refused) if refused is not None else await mounted.handle(incoming)

    async def _within_limits(
        self, incoming: "web.BaseRequest", work: Callable[["web.BaseRequest"], Awaitable[PageReply | None]]
    ) -> PageReply | None:
        """The result of the work, or the refusal for whatever goes wrong."""
        try:
            async with asyncio.timeout(self._limits.request_s):
                return await work(incoming)
        except ApiError as error:
            return refusal(error)
        except ReviewFailed as error:
            return failure(f"Internal Server Error: {quoted(incoming.path)}: {error}", 500)
        except TimeoutError:
            return refusal(timeout("request did not complete within the allotted timeout"))
        except Exception as fault:  # a bug in one page must not end the server
            self._log.error("A page failed", fault, path=incoming.path)
            return failure("This request caused the scheduler to fail. Look in the logs for details.", 500)

    async def _admit(self, incoming: "web.BaseRequest") -> None:
        """Raises ApiError or ReviewFailed unless the caller may do this. A browser may bring a client certificate, so that
        web pages from elsewhere have to be kept out. Their names need not be: TLS tells them from this server."""
        if not is_own_origin(incoming.headers):
            raise forbidden("", "", "the request comes from a web page of another origin")
        await self._authorizer.admit(_caller(incoming), incoming.method, incoming.path)

    async def _admit_and_answer(self, incoming: "web.BaseRequest") -> PageReply:
        """Authorize first: the body of a refused request is never read."""
        await self._admit(incoming)
        question = PageRequest(
            incoming.method,
            incoming.path,
            tuple(incoming.query.items()),
            whole_characters(",".join(incoming.headers.getall("Accept", ()))),
        )
        if self._pages.reads_body(question):
            body = await read_body(incoming, self._limits.body_bytes)
            if body is None:
                raise request_entity_too_large(f"limit is {self._limits.body_bytes}")
            question = msgspec.structs.replace(question, body=body)
        return self._pages.answer(question)


def _caller(incoming: "web.BaseRequest") -> Caller:
    """The sender of a request, by TLS and the headers."""
    transport = incoming.transport
    peer = transport.get_extra_info("peername") if transport is not None else None
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    return Caller(
        whole_characters(incoming.headers.get("Authorization", "")),
        certified_user(tls.getpeercert()) if tls is not None else None,
        is_loopback(peer[0]) if isinstance(peer, tuple) else False,
    )


def _response(answer: PageReply) -> "web.Response":
    from aiohttp import web

    response = web.Response(
        body=answer.body, status=answer.status, headers=[("Content-Type", answer.content_type), *ALWAYS_SENT]
    )
    for name, value in answer.headers:
        response.headers.add(name, value)
    return response
