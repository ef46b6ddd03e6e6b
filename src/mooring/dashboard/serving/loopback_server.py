"""A listener for the dashboard alone: plain HTTP on loopback, with a token. For programs that serve nothing else to browsers.

Web pages from elsewhere run on the same machine, in the same browser. So a request needs the token, which only the printed
link has, and must name this listener as its host: a name that someone points at 127.0.0.1 is refused (DNS rebinding).
"""

from aiohttp import web

from mooring.dashboard.interfaces import Refused
from mooring.dashboard.serving.api_paths import refusal_reply
from mooring.dashboard.serving.dashboard_handler import PREFIX, DashboardHandler, redirect, response
from mooring.kit.http_shell import HttpShell, bears_token
from mooring.kit.listener import LOOPBACK, ConnectionLimits
from mooring.kit.same_origin import is_own_host
from mooring.queue.entry import ReportFault

CONNECTIONS = 64
"""Streams and the requests of a few pages: a browser opens at most six to a host."""
_IDLE_S = 75.0
_STOP_S = 1.0
"""How long connections have to close after their streams ended."""


class LoopbackServer:
    """`start`, then `stop` once."""

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
