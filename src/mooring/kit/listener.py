"""Accepts connections within limits, so that clients cannot take the descriptors that this process needs for its own work.

The server of asyncio accepts without limit, and calls a protocol only after the TLS handshake, so that a client that
connects and sends nothing holds a descriptor. Here a connection counts as soon as it is accepted. At the limit, the
listener closes the connection that has been idle for longest; if all are busy, it closes the new one.

The module also has the logger for connections that do not speak HTTP: see `connection_log`.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.kit.callbacks import Tell

LOOPBACK = "127.0.0.1"
"""For listeners whose token gives full access: only programs of this machine reach them."""

BACKLOG = 512
"""Connections that the system keeps until the listener accepts them: a burst of clients must not see resets."""
_AT_ONCE = 64
"""Connections to accept in one turn of the event loop. One would be too few: on a busy server a turn takes long, and clients
that connect in a burst would wait for seconds while requests of others are answered. Without a bound they would delay the
others: at a limit of 4,000 connections an accept takes some 0.2 ms."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """How many connections there may be at a time."""

    connections: int
    of_one_remote: int
    """The limit for one address: a single client cannot displace all others."""
    handshake_s: float = 10.0
    """A TLS handshake that takes longer fails. Clients need well under a second."""
    first_request_s: float = 32.0
    """From the connection to its first whole request, as upstream gives for headers."""
    pause_s: float = 0.1
    """The pause after an accept that failed, for instance because the process has no descriptor left: without it the loop
    would spin until a connection ends."""


@dataclass(eq=False)
class _Connection:
    """A connection that was accepted. `opening` runs until the TLS handshake is done; then there is a transport."""

    remote: str
    opening: "asyncio.Task[None] | None" = None
    transport: asyncio.Transport | None = None
    is_busy: bool = False
    patience: asyncio.TimerHandle | None = None
    """Closes the connection unless it makes a request in time."""

    @property
    def is_closed(self) -> bool:
        if self.transport is not None:
            return self.transport.is_closing()
        return self.opening is not None and self.opening.done()

    def stop_waiting(self) -> None:
        """The connection has made a request. A timer that is not cancelled would keep all that the connection holds."""
        if self.patience is not None:
            self.patience.cancel()
            self.patience = None

    def close(self) -> None:
        self.stop_waiting()
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


@dataclass(eq=False)
class Listener:
    """A server socket with limits.

    Its owner calls `start`, then `busy` and `idle` around each request, and `close` at the end. `close` stops accepting
    and leaves open connections alone: the owner decides how long requests may take to finish.
    """

    make_protocol: Callable[[], asyncio.Protocol]
    limits: ConnectionLimits
    tls: ssl.SSLContext | None = None
    _sockets: list[socket.socket] = field(default_factory=list)
    _connections: OrderedDict[_Connection, None] = field(default_factory=OrderedDict)
    """In the order in which they became idle, the longest idle first."""
    _of_protocol: dict[Any, _Connection] = field(default_factory=dict)
    rejected: int = 0
    """New connections that the listener closed because all others were busy."""

    async def start(self, host: str, port: int) -> int:
        """Listen on all addresses of a host. Returns the port: the one that was asked for, or a free one for 0."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((item[0], item[4]) for item in found):
                self._sockets.append(_listening(family, address))
        except BaseException:
            self._close_sockets()
            raise
        for listening in self._sockets:
            self._watch(listening)
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Accept no more, and cancel TLS handshakes that are under way."""
        self._close_sockets()
        for connection in [*self._connections]:
            if connection.transport is None:
                connection.close()

    @property
    def count(self) -> int:
        self._forget_closed()
        return len(self._connections)

    def busy(self, protocol: object) -> None:
        """A request arrived on this connection, so the listener must not close it to make room."""
        if connection := self._of_protocol.get(protocol):
            connection.is_busy = True
            connection.stop_waiting()

    def idle(self, protocol: object) -> None:
        """The request is answered: the connection is the last in line to be closed."""
        if connection := self._of_protocol.get(protocol):
            connection.is_busy = False
            if connection in self._connections:
                self._connections.move_to_end(connection)

    # ---- accepting

    def _watch(self, listening: socket.socket) -> None:
        """Have the event loop call when connections wait, unless the socket was closed meanwhile."""
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept_some, listening)

    def _accept_some(self, listening: socket.socket) -> None:
        """Accept connections that wait. The event loop calls again while there are more."""
        self._forget_closed()
        try:
            for _ in range(_AT_ONCE):
                accepted, address = listening.accept()
                accepted.setblocking(False)
                self._receive(accepted, str(address[0]))
        except BlockingIOError:
            return
        except OSError:
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(self.limits.pause_s, self._watch, listening)

    def _receive(self, accepted: socket.socket, remote: str) -> None:
        if not self._make_room(remote):
            self.rejected += 1
            accepted.close()
            return
        connection = _Connection(remote)
        self._connections[connection] = None
        connection.opening = asyncio.create_task(self._open(connection, accepted))

    async def _open(self, connection: _Connection, accepted: socket.socket) -> None:
        """Do the TLS handshake. If it fails, the event loop closes the socket, because it may still be using it."""
        loop = asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            protocol = self.make_protocol()
            self._of_protocol[protocol] = connection
            # A client that connects and sends nothing, or a request one letter at a time, does not keep its place.
            connection.patience = loop.call_later(self.limits.first_request_s, connection.close)
            return protocol

        handshake_s = self.limits.handshake_s if self.tls is not None else None
        with suppress(OSError, TimeoutError):  # the other side is gone, or speaks no TLS
            connection.transport, _ = await loop.connect_accepted_socket(
                connect, accepted, ssl=self.tls, ssl_handshake_timeout=handshake_s
            )

    def _make_room(self, remote: str) -> bool:
        """Whether the new connection may stay. Closes an idle connection where that is necessary."""
        count = len(self._connections)
        if count < min(self.limits.of_one_remote, self.limits.connections):
            return True
        of_remote = [connection for connection in self._connections if connection.remote == remote]
        if len(of_remote) >= self.limits.of_one_remote:
            return self._close_one_idle(of_remote)
        return count < self.limits.connections or self._close_one_idle([*self._connections])

    def _close_one_idle(self, connections: list[_Connection]) -> bool:
        for connection in connections:
            if not connection.is_busy:
                connection.close()
                del self._connections[connection]
                return True
        return False

    def _forget_closed(self) -> None:
        for connection in [connection for connection in self._connections if connection.is_closed]:
            del self._connections[connection]
        for protocol in [
            protocol for protocol, connection in self._of_protocol.items() if connection not in self._connections
        ]:
            del self._of_protocol[protocol]

    def _close_sockets(self) -> None:
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self._sockets.clear()


def _listening(family: int, address: Any) -> socket.socket:
    made = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    made.setblocking(False)
    return made


# ---- connections that do not speak HTTP


QUIET_S = 10.0
"""For so long after a line, further faults are only counted, so that a client cannot fill the disk with log lines."""


class _Teller(logging.Handler):
    """Logs the kind of the fault and the remote address, and nothing that the client sent."""

    def __init__(self, tell: Tell, now_s: Callable[[], float]) -> None:
        super().__init__()
        self._tell = tell
        self._now_s = now_s
        self._quiet_until_s = float("-inf")
        self._untold = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Report a rejected request, at most once in QUIET_S seconds. The next report tells how many were left out."""
        now_s = self._now_s()
        if now_s < self._quiet_until_s:
            self._untold += 1
            return
        more = f"; {self._untold} more were rejected before" if self._untold else ""
        self._quiet_until_s, self._untold = now_s + QUIET_S, 0
        error = record.exc_info[1] if record.exc_info else None
        kind = type(error).__name__ if error is not None else "unknown fault"
        self._tell(f"rejected a request{_origin(record)} that is not valid HTTP ({kind}){more}")


def _origin(record: logging.LogRecord) -> str:
    """The remote address: where aiohttp knows one, it is the only argument of its message."""
    remote = record.args[0] if isinstance(record.args, tuple) and len(record.args) == 1 else None
    return f" from {remote}" if isinstance(remote, str) else ""


def connection_log(tell: Tell, now_s: Callable[[], float] = time.monotonic) -> logging.Logger:
    """A logger for `web.Server(logger=...)` that writes one short line for each fault, at most every QUIET_S.

    aiohttp itself logs each invalid request with a traceback and with the bytes that it could not read. Any client can
    send such bytes without a token, and a malformed header that aiohttp shows may hold a token. The logger is not
    registered under a name, so that no other handler receives these records.
    """
    logger = logging.Logger("connections", logging.WARNING)
    logger.addHandler(_Teller(tell, now_s))
    return logger
