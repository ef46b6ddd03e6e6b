"""The socket below a LeanConnection, with TLS or without.

Hot: a write over TLS takes 21 µs of CPU on it, and 37 µs on the transport of uvloop. That decrypts until TLS reports that
there is nothing left, which is an exception for each answer, and allocates 256 KiB for each read.
"""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any, Protocol, Self

_READ_BYTES = 64 << 10
"""More than an answer to a write; a larger one takes several reads."""
_RECORD_BYTES = 16 << 10
"""The most that one record of TLS contains, so that one read empties it."""


_CONNECT_S = 30.0
"""How long a connection may take to open: the limit of client-go's dialer."""


class Receiver(Protocol):
    """The receiver of a LeanSocket, which calls it as asyncio calls a Protocol."""

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...


async def _addresses(host: str, port: int) -> list[Any]:
    """The addresses of a host. Hot: a host that is an address needs no thread that resolves it."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def keep_alive(connection: socket.socket) -> None:
    """Find a dead peer after 30 + 3 * 10 s: a watch may be silent for minutes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class LeanSocket:
    """Open it with `open`, then `start` it.

    `write` sends at once what the socket accepts; the rest counts as `get_write_buffer_size` and follows when there is
    room. The receiver hears of the end once, in a later turn of the loop.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._receiver: Receiver | None = None
        self._tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._unsent = b""
        self._is_closing = False

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None, server_name: str) -> Self:
        """A connection, after the handshake if there is TLS. Raises OSError, which TimeoutError is as well."""
        opened = None
        try:
            async with asyncio.timeout(_CONNECT_S):
                opened = await cls.connect(host, port)
                if tls is not None:
                    await opened.secure(tls, server_name)
                return opened
        except BaseException:
            if opened is not None:
                opened.abort()
            raise

    @classmethod
    async def connect(cls, host: str, port: int) -> Self:
        """Try the addresses of the host one after another. Raises OSError."""
        loop = asyncio.get_running_loop()
        faults: list[OSError] = []
        for family, kind, protocol, _, address in await _addresses(host, port):
            made = socket.socket(family, kind, protocol)
            try:
                made.setblocking(False)
                await loop.sock_connect(made, address)
                return cls(made)
            except OSError as fault:
                made.close()
                faults.append(fault)
            except BaseException:
                made.close()
                raise
        if len(faults) == 1:
            raise faults[0]
        raise OSError(f"Multiple exceptions: {', '.join(map(str, faults))}")

    def notice_death(self) -> None:
        keep_alive(self._socket)

    async def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """Do the TLS handshake. Raises OSError."""
        tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._send_handshake()
                data = await self._loop.sock_recv(self._socket, _READ_BYTES)
                if not data:
                    raise ConnectionResetError("the server closed the connection") from None
                self._incoming.write(data)
        await self._send_handshake()
        self._tls = tls

    async def _send_handshake(self) -> None:
        if data := self._outgoing.read():
            await self._loop.sock_sendall(self._socket, data)

    def start(self, receiver: Receiver) -> None:
        """Hand what arrives to the receiver from now on."""
        self._receiver = receiver
        self._loop.add_reader(self._socket, self._read)

    # ---- out

    def write(self, data: bytes) -> None:
        """Send bytes, encrypted if the connection has TLS. Bytes that the kernel does not accept at once wait until the
        socket is writable again. On a closed socket this does nothing."""
        if self._is_closing:
            return
        tls = self._tls
        if tls is not None:
            try:
                written = tls.write(data)
                while written < len(data):
                    written += tls.write(data[written:])
            except ssl.SSLError as error:
                self._end(error)
                return
            data = self._outgoing.read()
        if self._unsent:
            self._unsent += data
        else:
            self._send(data)

    def _send(self, data: bytes) -> None:
        """Send what the socket accepts, and keep the rest until there is room."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._end(error)
            return
        if sent == len(data):
            return
        self._unsent = data[sent:]
        self._loop.add_writer(self._socket, self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._socket)
        rest, self._unsent = self._unsent, b""
        self._send(rest)

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    # ---- in

    def pause(self) -> None:
        """Read nothing until `resume`, so that the other side has to wait. What has been read is still handed on."""
        if not self._is_closing:
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        if not self._is_closing:
            self._loop.add_reader(self._socket, self._read)

    def _read(self) -> None:
        """Read from the socket when the event loop reports data, and pass the bytes on, decrypted if the connection has TLS.
        An empty read means that the server closed the connection."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        assert self._receiver is not None
        if self._tls is not None:
            self._decrypt(self._tls, data)
        elif data:
            self._receiver.data_received(data)
        else:
            self._end(None)

    def _decrypt(self, tls: ssl.SSLObject, data: bytes) -> None:
        """Hand on all records that are complete, as one piece. No data is the end of the connection.

        Hot: a server of Go divides answers above 1.2 KB, such as those to events, into records. The receiver knows the head
        of an answer that comes in one piece.
        """
        assert self._receiver is not None
        records: list[bytes] = []
        is_over, fault = False, None
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        try:
            while not is_over:
                records.append(tls.read(_RECORD_BYTES))
                is_over = not records[-1]  # the server has said that it closes the connection
                if data and not self._incoming.pending:  # Hot: one more read would raise SSLWantReadError
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            fault = error
        if plain := records[0] if len(records) == 1 else b"".join(records):
            self._receiver.data_received(plain)
        if is_over or fault is not None:
            self._end(fault)
        if self._outgoing.pending and not self._is_closing:  # TLS itself has something to say, such as new keys
            self._unsent += self._outgoing.read()
            self._send_rest()

    # ---- the end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Tell the server, and close. Bytes that are not sent are dropped."""
        if self._is_closing:
            return
        if self._tls is not None and not self._unsent:
            with suppress(OSError):  # SSLWantReadError as well: the server's own farewell is not awaited
                self._tls.unwrap()
            with suppress(OSError):
                self._socket.send(self._outgoing.read())
        self._end(None)

    def abort(self) -> None:
        """Close at once."""
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        """Close the socket and tell the receiver once. Bytes that were not sent yet are dropped."""
        if self._is_closing:
            return
        self._is_closing = True
        self._unsent = b""
        if self._receiver is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop.call_soon(self._receiver.connection_lost, error)
        self._socket.close()
