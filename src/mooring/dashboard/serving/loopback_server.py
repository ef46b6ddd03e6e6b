"""A listener for the dashboard alone: plain HTTP on loopback, with a token. For programs that serve nothing else to browsers.

Web pages from elsewhere run on the same machine, in the same browser. So a request needs the token, which only the printed
link has, and must name this listener as its host: a name that someone points at 127.0.0.1 is refused (DNS rebinding).
"""

import hmac

from aiohttp import web

from mooring.dashboard.interfaces import Refused
from mooring.dashboard.serving.api_paths import refusal_reply
from mooring.dashboard.serving.dashboard_handler import PREFIX, DashboardHandler, redirect, response
from mooring.kit.listener import LOOPBACK, ConnectionLimits, Listener, connection_log
from mooring.kit.same_origin import is_own_host
from mooring.scheduler.core import Report

CONNECTIONS = 64
"""Streams and the requests of a few pages: a browser opens at most six to a host."""
_IDLE_S = 75.0
_STOP_S = 1.0
"""How long connections have to close after their streams ended."""


class LoopbackServer:
    """`start`, then `stop` once."""

    def __init__(self, handler: DashboardHandler, token: str, report: Report) -> None:
        """`token` must not be empty."""
        assert token
        self._handler = handler
        self._token = token
        self._port = 0
        self._report = report
        self._connections: web.Server | None = None
        self._listener: Listener | None = None

    async def start(self, port: int) -> str:
        """Listen, on a free port for 0. Returns the link with the token. Raises OSError."""
        self._connections = web.Server(
            self._handle,
            access_log=None,
            keepalive_timeout=_IDLE_S,
            handler_cancellation=True,  # a question whose asker has left need not be answered
            logger=connection_log(lambda text: self._report(text, None)),
        )
        self._listener = Listener(self._connections, ConnectionLimits(CONNECTIONS, CONNECTIONS))
        bound = await self._listener.start(LOOPBACK, port)
        self._port = bound
        self._handler.start()
        # A fragment is not sent to any server, so that the token is in no log.
        return f"http://{LOOPBACK}:{bound}{PREFIX}#token={self._token}"

    async def stop(self) -> None:
        if self._listener is None or self._connections is None:
            return
        await self._listener.close()
        await self._handler.close()
        self._connections.pre_shutdown()
        await self._connections.shutdown(_STOP_S)
        self._listener = self._connections = None

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        assert self._listener is not None
        listener = self._listener
        listener.busy(incoming.protocol)
        try:
            self._check(incoming)
            if incoming.path == "/":
                return response(redirect(PREFIX))
            return await self._handler.handle(incoming)
        except Refused as refused:
            return response(refusal_reply(refused))
        finally:
            listener.idle(incoming.protocol)

    def _check(self, incoming: web.BaseRequest) -> None:
        """Raises Refused: 403 for another host, 401 without the token. Comparing takes the same time for every token."""
        if not is_own_host(incoming.headers, self._port):
            raise Refused(403, f"open the dashboard under {LOOPBACK}:{self._port} or localhost:{self._port}")
        if self._handler.is_open(incoming.rel_url.raw_path):
            return
        scheme, _, given = incoming.headers.get("Authorization", "").partition(" ")
        is_known = hmac.compare_digest(given.strip().encode(errors="replace"), self._token.encode())
        if scheme.lower() != "bearer" or not is_known:
            raise Refused(401, "a token is needed: open the link that the program printed")
