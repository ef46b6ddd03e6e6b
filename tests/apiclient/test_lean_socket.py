"""Bytes over real sockets, plain and TLS, on both event loops: what arrives, what is kept back, and how a connection ends."""

import asyncio
import fcntl
import os
import socket
import ssl
import termios
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.lean_socket import LeanSocket

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
both_loops = pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS.keys())
both_wires = pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Heard:
    """Keeps what a socket says."""

    def __init__(self) -> None:
        self.data = b""
        self.pieces = 0
        self.ends: list[Exception | None] = []
        self.end = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1

    def connection_lost(self, error: Exception | None) -> None:
        self.ends.append(error)
        self.end.set()


async def opened_to(serve: Serve, tmp_path: Path, is_tls: bool) -> tuple[LeanSocket, Heard]:
    files = CertificateFiles(tmp_path)
    pair = files.server()
    (tmp_path / "both").write_bytes(pair.certificate_pem + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both")
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context if is_tls else None)
    opened = await LeanSocket.connect("127.0.0.1", server.sockets[0].getsockname()[1])
    if is_tls:
        await opened.secure(ssl.create_default_context(cadata=files.authority_pem.decode()), "localhost")
    heard = Heard()
    opened.start(heard)
    return opened, heard


def run(make_loop: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(within_time())


@both_loops
def test_records_that_have_arrived_are_handed_on_as_one_piece(tmp_path: Path, make_loop: Any) -> None:
    """A record of TLS holds at most 16 KiB, so that these are three."""
    sent = b"x" * 40_000

    async def main() -> None:
        arrived = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(1)
            writer.write(sent)
            await writer.drain()
            for _ in range(3):  # uvloop writes at the end of a turn
                await asyncio.sleep(0)
            while any(fcntl.ioctl(writer.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))):
                await asyncio.sleep(0)
            arrived.set()
            await reader.read()

        opened, heard = await opened_to(serve, tmp_path, is_tls=True)
        opened.pause()
        opened.write(b"?")
        await arrived.wait()
        opened.resume()
        while not heard.data:
            await asyncio.sleep(0)
        assert (heard.data, heard.pieces) == (sent, 1)
        opened.abort()
        await heard.end.wait()

    run(make_loop, main())


@both_loops
@both_wires
def test_many_bytes_go_out_and_come_back_whole(tmp_path: Path, make_loop: Any, is_tls: bool) -> None:
    """More than a socket accepts at once, and more than a record of TLS holds."""
    sent = bytes(range(256)) * 40_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(sent) + 4))
        await writer.drain()
        writer.close()

    async def main() -> None:
        opened, heard = await opened_to(echo, tmp_path, is_tls)
        opened.write(sent)
        assert opened.get_write_buffer_size() > 0
        opened.write(b"last")
        await heard.end.wait()
        assert heard.data == sent + b"last" and heard.ends == [None]
        assert opened.get_write_buffer_size() == 0 and opened.is_closing()

    run(make_loop, main())


@both_loops
@both_wires
@pytest.mark.parametrize("end", [LeanSocket.close, LeanSocket.abort], ids=["close", "abort"])
def test_the_server_sees_the_end_and_the_receiver_hears_it_once(
    tmp_path: Path, make_loop: Any, is_tls: bool, end: Callable[[LeanSocket], None]
) -> None:
    rests: list[bytes] = []
    is_over = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rests.append(await reader.read())
        is_over.append(True)
        writer.close()

    async def main() -> None:
        opened, heard = await opened_to(serve, tmp_path, is_tls)
        opened.write(b"bye")
        end(opened)
        assert opened.is_closing() and not heard.ends
        opened.write(b"too late")
        end(opened)
        while not is_over:
            await asyncio.sleep(0.001)
        assert rests == [b"bye"] and heard.ends == [None]

    run(make_loop, main())


@both_loops
def test_an_end_without_a_farewell_of_tls_is_a_fault(tmp_path: Path, make_loop: Any) -> None:
    async def cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await writer.drain()
        await reader.readexactly(2)
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)

    async def main() -> None:
        opened, heard = await opened_to(cut_off, tmp_path, is_tls=True)
        opened.write(b"go")
        await heard.end.wait()
        assert heard.data == b"half" and isinstance(heard.ends[0], ssl.SSLError)

    run(make_loop, main())


@both_loops
def test_a_reset_is_a_fault(tmp_path: Path, make_loop: Any) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(asyncio.get_running_loop().sock_accept(listener))
            opened = await LeanSocket.connect("127.0.0.1", listener.getsockname()[1])
            peer, _ = await accepting
            heard = Heard()
            opened.start(heard)
            opened.write(b"unread")
            peer.close()  # bytes that nobody read: the system resets the connection
            await heard.end.wait()
            assert isinstance(heard.ends[0], ConnectionError)

    run(make_loop, main())


@both_loops
def test_a_server_that_hangs_up_ends_the_handshake(tmp_path: Path, make_loop: Any) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            accepting = asyncio.create_task(asyncio.get_running_loop().sock_accept(listener))
            opened = await LeanSocket.connect("127.0.0.1", listener.getsockname()[1])
            peer, _ = await accepting
            peer.shutdown(socket.SHUT_WR)
            with pytest.raises(ConnectionResetError):
                await opened.secure(ssl.create_default_context(), "localhost")
            opened.abort()
            peer.close()

    run(make_loop, main())
