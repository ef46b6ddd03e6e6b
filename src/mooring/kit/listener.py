"""Accepts connections within a limit, so that callers cannot take the descriptors that this process needs for its own work.

The server of asyncio accepts without limit, and a protocol is only asked after the TLS handshake: who connects and says
nothing costs a descriptor. Here a connection counts from the moment at which it is accepted. When there is no room, the
one that has been idle for longest has to leave; when all are busy, the new one is closed.
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_PAUSE_S = 0.1
"""After a failed accept, such as for want of descriptors: a connection may end meanwhile."""
BACKLOG = 512


@dataclass(frozen=True, slots=True)
class Room:
    """How many connections there may be at a time."""

    connections: int
    of_one_remote: int
    """Of one address: no single caller may take the place of all others."""
    handshake_s: float = 10.0
    first_request_s: float = 32.0
    """From the connection to its first whole request, as upstream gives for headers."""


@dataclass(eq=False)
class _Guest:
    """A connection that was accepted. It opens until its TLS handshake is done, then it has a transport."""

    remote: str
    opening: "asyncio.Task[None] | None" = None
    transport: asyncio.Transport | None = None
    is_busy: bool = False
    has_asked: bool = False
    """Whether it has made a request."""

    @property
    def is_gone(self) -> bool:
        if self.transport is not None:
            return self.transport.is_closing()
        return self.opening is not None and self.opening.done()

    def leave(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


@dataclass(eq=False)
class Listener:
    """`start` it, tell it of each request with `busy` and `idle`, and `close` it; connections that are open stay."""

    make_protocol: Callable[[], asyncio.Protocol]
    room: Room
    tls: ssl.SSLContext | None = None
    _sockets: list[socket.socket] = field(default_factory=list)
    _accepting: list["asyncio.Task[None]"] = field(default_factory=list)
    _guests: OrderedDict[_Guest, None] = field(default_factory=OrderedDict)
    """The longest idle first."""
    _of_protocol: dict[Any, _Guest] = field(default_factory=dict)
    turned_away: int = 0

    async def start(self, host: str, port: int) -> int:
        """Listen on all addresses of a host, and return the port: that which was asked for, or any free one for 0."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((item[0], item[4]) for item in found):
                self._sockets.append(_listening(family, address))
        except BaseException:
            self._close_sockets()
            raise
        self._accepting = [asyncio.create_task(self._accept(listening)) for listening in self._sockets]
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Accept no more."""
        for task in self._accepting:
            task.cancel()
        if self._accepting:
            await asyncio.wait(self._accepting)
        self._close_sockets()
        for guest in [*self._guests]:
            if guest.transport is None:
                guest.leave()

    @property
    def count(self) -> int:
        self._forget_the_gone()
        return len(self._guests)

    def busy(self, protocol: object) -> None:
        """A request has come in on this connection: it is not closed for want of room."""
        if guest := self._of_protocol.get(protocol):
            guest.is_busy = guest.has_asked = True

    def idle(self, protocol: object) -> None:
        if guest := self._of_protocol.get(protocol):
            guest.is_busy = False
            if guest in self._guests:
                self._guests.move_to_end(guest)

    # ---- accepting

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
                accepted.setblocking(False)
                self._receive(accepted, str(address[0]))
            except OSError:
                await asyncio.sleep(_PAUSE_S)

    def _receive(self, accepted: socket.socket, remote: str) -> None:
        if not self._make_room(remote):
            self.turned_away += 1
            accepted.close()
            return
        guest = _Guest(remote)
        self._guests[guest] = None
        guest.opening = asyncio.create_task(self._open(guest, accepted))

    async def _open(self, guest: _Guest, accepted: socket.socket) -> None:
        """The loop closes the socket of a connection that fails: it may be at work with it still."""
        loop = asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            protocol = self.make_protocol()
            self._of_protocol[protocol] = guest
            loop.call_later(self.room.first_request_s, self._close_silent, guest)
            return protocol

        handshake_s = self.room.handshake_s if self.tls is not None else None
        with suppress(OSError, TimeoutError):  # the other side is gone, or speaks no TLS
            guest.transport, _ = await loop.connect_accepted_socket(
                connect, accepted, ssl=self.tls, ssl_handshake_timeout=handshake_s
            )

    def _close_silent(self, guest: _Guest) -> None:
        """A caller that connects and sends nothing, or a request one letter at a time, does not keep its place."""
        if not guest.has_asked:
            guest.leave()

    def _make_room(self, remote: str) -> bool:
        """Whether there is, if need be because somebody idle has left."""
        self._forget_the_gone()
        of_remote = [guest for guest in self._guests if guest.remote == remote]
        if len(of_remote) >= self.room.of_one_remote:
            return self._dismiss_one_of(of_remote)
        return len(self._guests) < self.room.connections or self._dismiss_one_of([*self._guests])

    def _dismiss_one_of(self, guests: list[_Guest]) -> bool:
        for guest in guests:
            if not guest.is_busy:
                guest.leave()
                del self._guests[guest]
                return True
        return False

    def _forget_the_gone(self) -> None:
        for guest in [guest for guest in self._guests if guest.is_gone]:
            del self._guests[guest]
        for protocol in [protocol for protocol, guest in self._of_protocol.items() if guest not in self._guests]:
            del self._of_protocol[protocol]

    def _close_sockets(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._sockets.clear()


def _listening(family: int, address: Any) -> socket.socket:
    made = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    made.setblocking(False)
    return made
