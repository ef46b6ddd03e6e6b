"""Writes over real sockets, plain and TLS, on both event loops: they are on the wire when the call returns, or never."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.client import ApiClient, ClientOptions
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import OutgoingRequest
from mooring.apiclient.lean_client import LeanClient
from mooring.apiclient.lean_connection import LeanConnection
from mooring.apiclient.lean_socket import LeanSocket
from mooring.drivers.extender_calls import ExtenderClient
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Call, CallFault
from mooring.kit.tasks import Fence, FencedOff
from recording_server import Recorder, always, said

BINDING = "/api/v1/namespaces/default/pods/p/binding"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def run(make_loop: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(within_time())


@dataclass
class Served:
    recorder: Recorder
    url: str
    port: int
    authority_pem: bytes

    @property
    def access(self) -> ConnectionSettings:
        return ConnectionSettings(self.url, self.authority_pem)


def _trusted(tmp_path: Path) -> tuple[ssl.SSLContext, bytes]:
    """What a server needs, and what its clients have to trust."""
    files = CertificateFiles(tmp_path)
    pair = files.server()
    (tmp_path / "both").write_bytes(pair.certificate_pem + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both")
    return context, files.authority_pem


@asynccontextmanager
async def a_server(tmp_path: Path, is_tls: bool) -> AsyncIterator[Served]:
    context, authority_pem = _trusted(tmp_path)
    recorder = Recorder(always(said(201)))
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, ssl=context if is_tls else None)
    port = server.sockets[0].getsockname()[1]
    yield Served(recorder, f"{'https' if is_tls else 'http'}://127.0.0.1:{port}", port, authority_pem)
    server.close()


both_loops = pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS.keys())
both_wires = pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])


class Moment:
    """A clock that a test stops a process at: it jumps ahead when it is asked for the n-th time."""

    def __init__(self, passes: int) -> None:
        self.left = passes

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left >= 0 else 100.0


@both_loops
@both_wires
def test_a_write_after_the_deadline_does_not_reach_the_server(tmp_path: Path, make_loop: Any, is_tls: bool) -> None:
    async def main() -> None:
        fence = Fence(inf)
        async with a_server(tmp_path, is_tls) as served:
            async with LeanClient(served.access, "test/1", 2, options=ClientOptions(fence=fence)) as client:
                await client.send("POST", BINDING, b"{}")
                fence.shut()
                with pytest.raises(FencedOff):
                    await client.send("POST", BINDING, b"{}")
                await client.send("GET", "/api/v1/pods", b"")
            assert served.recorder.lines == [f"POST {BINDING}", "GET /api/v1/pods"]

    run(make_loop, main())


@both_loops
@both_wires
def test_writes_that_wait_for_a_connection_are_fenced_off_too(tmp_path: Path, make_loop: Any, is_tls: bool) -> None:
    """As after SIGSTOP: requests have waited for their turn, and the deadline passes before they get it."""

    async def main() -> None:
        fence = Fence(1.0, Moment(passes=3))
        async with a_server(tmp_path, is_tls) as served:
            async with LeanClient(served.access, "test/1", 1, options=ClientOptions(fence=fence)) as client:
                sends = (client.send("POST", f"{BINDING}{number}", b"{}") for number in range(50))
                outcomes = await asyncio.gather(*sends, return_exceptions=True)
            assert len(served.recorder.requests) == 3
            assert [type(outcome) for outcome in outcomes] == [bytes] * 3 + [asyncio.CancelledError] * 47

    run(make_loop, main())


@both_loops
@both_wires
def test_a_request_is_on_the_socket_when_the_call_that_sends_it_returns(
    tmp_path: Path, make_loop: Any, is_tls: bool
) -> None:
    """The loop gets no turn between: bytes that it would send later would leave without a check."""

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            loop = asyncio.get_running_loop()
            accepting = asyncio.create_task(loop.sock_accept(listener))
            opened = await LeanSocket.connect("127.0.0.1", listener.getsockname()[1])
            peer, _ = await accepting
            if is_tls:
                await _handshake(opened, peer, tmp_path)
            connection = LeanConnection(opened)
            opened.start(connection)
            peer.setblocking(False)
            asking = connection.ask(b"x" * 1000)
            asking.send(None)  # one step, without the loop
            assert len(peer.recv(65536)) >= 1000
            asking.close()
            peer.close()

    run(make_loop, main())


async def _handshake(opened: LeanSocket, peer: socket.socket, tmp_path: Path) -> None:
    context, authority_pem = _trusted(tmp_path)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    loop = asyncio.get_running_loop()
    trust = ssl.create_default_context(cadata=authority_pem.decode())
    securing = asyncio.create_task(opened.secure(trust, "localhost"))
    while True:
        try:
            server.do_handshake()
            break
        except ssl.SSLWantReadError:
            if sent := outgoing.read():
                await loop.sock_sendall(peer, sent)
            incoming.write(await loop.sock_recv(peer, 65536))
    await loop.sock_sendall(peer, outgoing.read())
    await securing


@both_loops
@both_wires
def test_the_general_client_is_fenced_at_the_moment_of_sending(tmp_path: Path, make_loop: Any, is_tls: bool) -> None:
    """The clock passes the deadline after the request was begun and before its body leaves."""

    async def main() -> None:
        fence = Fence(1.0, Moment(passes=1))
        async with a_server(tmp_path, is_tls) as served:
            async with ApiClient(served.access, "test/1", options=ClientOptions(fence=fence)) as client:
                await client.post(BINDING, {})
                for _ in range(2):
                    with pytest.raises(FencedOff):
                        await client.send(OutgoingRequest("POST", BINDING, body=b"{}", content_type="application/json"))
                await client.get("/api/v1/pods")
            assert served.recorder.lines == [f"POST {BINDING}", "GET /api/v1/pods"]

    run(make_loop, main())


def test_a_proxy_does_not_lead_around_the_fence(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_server(tmp_path, False) as served:
            access = ConnectionSettings("http://api.example", proxy_url=served.url)
            fence = Fence(inf)
            async with LeanClient(access, "test/1", 2, options=ClientOptions(fence=fence)) as client:
                await client.send("POST", BINDING, b"{}")
                fence.shut()
                with pytest.raises(FencedOff):
                    await client.send("POST", BINDING, b"{}")
            assert served.recorder.lines == [f"POST http://api.example{BINDING}"]

    run(asyncio.new_event_loop, main())


def test_an_extender_may_be_asked_without_the_lease_but_not_told_to_bind(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_server(tmp_path, False) as served:
            extender = Extender(url_prefix=served.url)
            client = ExtenderClient([extender], fence=Fence())
            assert isinstance(await client.ask(Call(extender, "filter", {}), b"{}"), CallFault), "201 is no answer"
            with pytest.raises(FencedOff):
                await client.ask(Call(extender, "bind", {}, binds=True), b"{}")
            await client.close()
            assert served.recorder.lines == ["POST /filter"]

    run(asyncio.new_event_loop, main())


def test_a_bind_that_fails_after_the_deadline_is_fenced_off() -> None:
    """A filter call that fails then is a fault as always: it would have changed nothing."""

    async def main() -> None:
        extender = Extender(url_prefix="http://127.0.0.1:1")
        client = ExtenderClient([extender], fence=Fence())
        with pytest.raises(FencedOff):
            await client.ask(Call(extender, "bind", {}, binds=True), b"{}")
        assert isinstance(await client.ask(Call(extender, "filter", {}), b"{}"), CallFault)
        await client.close()

    run(asyncio.new_event_loop, main())
