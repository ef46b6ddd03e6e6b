"""The lean client against a server in this process: connections, turns, retries, credentials, and answers that are lost."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mooring.api.api_errors import ApiError, conflict, internal_error, too_many_requests
from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.client import ClientOptions
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError, Grant, Identity, RereadFile
from mooring.apiclient.http_requests import (
    ConnectionLost,
    ConnectionRefused,
    NotTrusted,
    TimedOut,
    Unanswered,
    Unreadable,
)
from mooring.apiclient.lean_client import LeanClient
from mooring.apiclient.lean_socket import LeanSocket, Receiver
from recording_server import Recorded, Recorder, Time, a_recorder, always, nowhere, refused, said, script

BINDING = "/api/v1/namespaces/default/pods/p/binding"


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(within_time())


def a_client(
    server: str, connections: int = 4, time: Time | None = None, limit_s: float = 5, **more: Any
) -> LeanClient:
    timing = (time or Time()).timing()
    return LeanClient(
        ConnectionSettings(server, **more), "test/1", connections, time_limit_s=limit_s, options=ClientOptions(timing)
    )


class Gate:
    """Requests wait until they are let through."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()

    async def answer(self, request: Recorded) -> bytes:
        await self.is_open.wait()
        return said(200)


async def until_asked(recorder: Recorder, count: int) -> None:
    while len(recorder.requests) < count:
        await asyncio.sleep(0.001)


# ---- what is sent


def test_a_request_says_who_asks_for_what() -> None:
    async def main() -> None:
        async with a_recorder(always(said(201, {"a": 1}))) as recorder:
            access: Any = {"credentials": Identity(token=b"s3cret"), "impersonation": (("Impersonate-User", "u"),)}
            async with a_client(f"{recorder.url}/prefix", **access) as client:
                assert await client.send("POST", BINDING, b"{}") == b'{"a":1}'
                await client.send("PATCH", "/x", b"[]", "application/strategic-merge-patch+json")
            first, second = recorder.requests
            assert (first.line, first.body) == (f"POST /prefix{BINDING}", b"{}")
            assert first.headers == {
                "host": recorder.url.removeprefix("http://"),
                "user-agent": "test/1",
                "accept": "application/json",
                "content-type": "application/json",
                "content-length": "2",
                "authorization": "Bearer s3cret",
                "impersonate-user": "u",
            }
            assert second.headers["content-type"] == "application/strategic-merge-patch+json"

    run(main())


def test_over_tls_the_server_must_be_the_right_one(tmp_path: Path) -> None:
    async def main() -> None:
        files = CertificateFiles(tmp_path)
        pair = files.server()
        (tmp_path / "both").write_bytes(pair.certificate_pem + pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "both")
        recorder = Recorder(always(said(200)))
        server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with a_client(url, authority_pem=files.authority_pem) as client:
            assert await client.send("POST", "/x", b"{}") == b"{}"
        async with a_client(url) as client:
            with pytest.raises(NotTrusted) as told:
                await client.send("POST", "/x", b"{}")
        assert str(told.value).startswith(f"POST /x: cannot connect to {url.removeprefix('https://')}: TLS failed")
        assert recorder.lines == ["POST /x"]
        server.close()

    run(main())


# ---- connections and turns


def test_a_connection_is_used_again() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder, a_client(recorder.url) as client:
            for _ in range(10):
                await client.send("POST", "/x", b"{}")
            assert [request.connection for request in recorder.requests] == [1] * 10

    run(main())


def test_there_are_no_more_connections_than_allowed_and_turns_come_in_order() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder, a_client(recorder.url, connections=3) as client:
            await asyncio.gather(*(client.send("POST", f"/{number:02d}", b"") for number in range(50)))
            assert (recorder.connections, recorder.most_open) == (3, 3)
        async with a_recorder(always(said(200))) as recorder, a_client(recorder.url, connections=1) as client:
            await asyncio.gather(*(client.send("POST", f"/{number:02d}", b"") for number in range(50)))
            assert recorder.lines == [f"POST /{number:02d}" for number in range(50)]

    run(main())


def test_whoever_gives_up_waiting_leaves_the_turn_to_others() -> None:
    async def main() -> None:
        gate = Gate()
        async with a_recorder(gate.answer) as recorder, a_client(recorder.url, connections=1) as client:
            first, second, third = (asyncio.create_task(client.send("POST", f"/{n}", b"")) for n in range(3))
            await until_asked(recorder, 1)
            second.cancel()
            gate.is_open.set()
            await asyncio.gather(first, third)
            assert recorder.lines == ["POST /0", "POST /2"]
            await client.send("POST", "/3", b"")
            assert recorder.lines[-1] == "POST /3", "the place of the one that gave up is not lost"

    run(main())


def a_turn_taking_client(server: str, when_over: Callable[[], None]) -> LeanClient:
    """A client with one connection. `when_over` is called after each attempt, when its place is given to the next request
    and that one has not run yet."""
    options = ClientOptions(Time().timing(), observe=lambda *_: when_over())
    return LeanClient(ConnectionSettings(server), "test/1", 1, options=options)


@pytest.mark.parametrize("is_served", [True, False], ids=["with a connection", "without one"])
def test_a_turn_that_was_given_to_one_who_gives_up_goes_on(is_served: bool) -> None:
    async def main() -> None:
        gate = Gate()
        async with a_recorder(gate.answer) as recorder:
            server = recorder.url if is_served else nowhere()

            def give_up() -> None:
                second.cancel()

            async with a_turn_taking_client(server, when_over=give_up) as client:
                first, second, third = (asyncio.create_task(client.send("POST", f"/{n}", b"")) for n in range(3))
                gate.is_open.set()
                outcomes = await asyncio.gather(first, third, return_exceptions=True)
                assert second.cancelled()
                assert [type(outcome) for outcome in outcomes] == [bytes if is_served else ConnectionRefused] * 2
                assert recorder.lines == (["POST /0", "POST /2"] if is_served else [])

    run(main())


def test_a_connection_that_ends_before_its_turn_is_used_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[LeanSocket] = []
    start = LeanSocket.start

    def noted(self: LeanSocket, receiver: Receiver) -> None:
        begun.append(self)
        start(self, receiver)

    monkeypatch.setattr(LeanSocket, "start", noted)

    def end() -> None:
        if len(begun) == 1:
            begun[0].abort()

    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder, a_turn_taking_client(recorder.url, end) as client:
            sent = (client.send("POST", f"/{number}", b"") for number in range(2))
            assert await asyncio.gather(*sent) == [b"{}", b"{}"]
            assert [request.connection for request in recorder.requests] == [1, 2]

    run(main())


def test_a_request_that_fails_before_it_has_a_connection_leaves_its_place_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError

    async def main() -> None:
        gate = Gate()
        async with a_recorder(gate.answer) as recorder, a_client(recorder.url, connections=8) as client:
            with monkeypatch.context() as patch:
                patch.setattr(LeanSocket, "open", refuse)
                sent = (client.send("POST", f"/{number}", b"") for number in range(20))
                faults = await asyncio.gather(*sent, return_exceptions=True)
            assert {type(fault) for fault in faults} == {ConnectionRefused}
            later = [asyncio.create_task(client.send("POST", f"/{number}", b"")) for number in range(20)]
            await until_asked(recorder, 8)
            gate.is_open.set()
            await asyncio.gather(*later)
            assert recorder.most_open == 8

    run(main())


def test_a_connection_is_closed_where_the_server_wants_it_and_after_use() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200, Connection="close"))) as recorder:
            async with a_client(recorder.url) as client:
                for _ in range(3):
                    await client.send("POST", "/x", b"{}")
                    while recorder.open:  # the server does not close it: we do
                        await asyncio.sleep(0.001)
            assert recorder.connections == 3
        async with a_recorder(always(said(200))) as recorder:
            async with a_client(recorder.url) as client:
                await client.send("POST", "/x", b"{}")
            while recorder.open:
                await asyncio.sleep(0.001)

    run(main())


# ---- answers that do not come


def test_a_connection_that_was_closed_while_idle_is_not_used() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder, a_client(recorder.url) as client:
            await client.send("POST", "/x", b"{}")
            recorder.hang_up()
            while recorder.open:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)  # the end is on its way to us
            await client.send("POST", "/x", b"{}")
            assert [request.connection for request in recorder.requests] == [1, 2]

    run(main())


def test_a_write_on_a_connection_that_ends_is_unanswered_and_never_repeated() -> None:
    async def main() -> None:
        async with a_recorder(script(said(200), None, then=said(200))) as recorder, a_client(recorder.url) as client:
            await client.send("POST", "/x", b"{}")
            with pytest.raises(ConnectionLost) as told:
                await client.send("POST", BINDING, b"{}")
            assert str(told.value) == f"POST {BINDING}: the connection was lost"
            assert len(recorder.requests) == 2
            await client.send("POST", "/x", b"{}")

    run(main())


def test_an_answer_that_is_late_is_not_taken_for_that_to_the_next_request() -> None:
    async def main() -> None:
        gate = Gate()

        async def answer(request: Recorded) -> bytes:
            if request.path == "/slow":
                await gate.answer(request)
            return said(200, {"path": request.path})

        async with (
            a_recorder(answer) as recorder,
            a_client(recorder.url, connections=1, limit_s=0.2) as client,
        ):
            with pytest.raises(TimedOut) as told:
                await client.send("POST", "/slow", b"{}")
            assert str(told.value) == "POST /slow: no answer within 0.2 s"
            gate.is_open.set()
            assert await client.send("POST", "/next", b"{}") == b'{"path":"/next"}'
            assert [request.connection for request in recorder.requests] == [1, 2]

    run(main())


def test_requests_on_connections_that_were_idle_have_time_limits_too() -> None:
    async def main() -> None:
        gate = Gate()

        async def answer(request: Recorded) -> bytes:
            if request.path.startswith("/slow"):
                await gate.answer(request)
            return said(200, {"path": request.path})

        async with a_recorder(answer) as recorder, a_client(recorder.url, connections=2, limit_s=0.2) as client:
            await asyncio.gather(*(client.send("POST", path, b"{}") for path in ("/a", "/b")))
            slow = [asyncio.create_task(client.send("POST", path, b"{}")) for path in ("/slow-1", "/slow-2")]
            for task, path in zip(slow, ("/slow-1", "/slow-2"), strict=True):
                with pytest.raises(TimedOut) as told:
                    await task
                assert str(told.value) == f"POST {path}: no answer within 0.2 s"
            gate.is_open.set()
            assert await client.send("POST", "/next", b"{}") == b'{"path":"/next"}'

    run(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        url = nowhere()
        async with a_client(url) as client:
            with pytest.raises(ConnectionRefused) as told:
                await client.send("POST", "/x", b"{}")
            host = url.removeprefix("http://")
            assert str(told.value) == f"POST /x: cannot connect to {host}: connection refused"

    run(main())


def test_nobody_listens_at_any_address_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def two(*_: Any, **__: Any) -> Any:
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, 1)) for host in ("127.0.0.1", "127.0.0.2")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        async with a_client("http://localhost:1") as client:
            with pytest.raises(ConnectionRefused):
                await client.send("POST", "/x", b"{}")

    run(main())


def test_an_answer_that_is_not_http() -> None:
    async def main() -> None:
        async with a_recorder(always(b"go away\r\n\r\n")) as recorder, a_client(recorder.url) as client:
            with pytest.raises(Unreadable, match="POST /x: the answer is not HTTP"):
                await client.send("POST", "/x", b"{}")

    run(main())


def test_a_failure_leaves_no_place_taken() -> None:
    async def main() -> None:
        async with (
            a_recorder(script(*(None,) * 5, then=said(200))) as recorder,
            a_client(recorder.url, connections=1) as client,
        ):
            for _ in range(5):
                with pytest.raises(Unanswered):
                    await client.send("POST", "/x", b"{}")
            await client.send("POST", "/x", b"{}")

    run(main())


# ---- refusals


def test_a_refusal_is_told_in_the_words_of_the_server() -> None:
    async def main() -> None:
        error = conflict("pods/binding", "p", 'pod p is already assigned to node "n1"')
        async with a_recorder(always(refused(error))) as recorder, a_client(recorder.url) as client:
            with pytest.raises(ApiError) as told:
                await client.send("POST", BINDING, b"{}")
            assert (told.value.code, told.value.reason, told.value.message) == (409, "Conflict", error.message)
            assert len(recorder.requests) == 1

    run(main())


@pytest.mark.parametrize("error", [too_many_requests("slow down"), internal_error("x"), ApiError(503, "", "no")])
def test_a_server_that_says_when_is_asked_again_ten_times(error: ApiError) -> None:
    async def main() -> None:
        time = Time()
        async with (
            a_recorder(always(refused(error, **{"Retry-After": "3"}))) as recorder,
            a_client(recorder.url, time=time) as client,
        ):
            with pytest.raises(ApiError) as told:
                await client.send("POST", "/x", b"{}")
            assert told.value.code == error.code
            assert len(recorder.requests) == 11 and time.slept_s == [3] * 10

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        refused(too_many_requests("slow down")),
        refused(internal_error("x")),
        refused(conflict("pods", "p", "x"), **{"Retry-After": "3"}),
        refused(ApiError(503, "", "no"), **{"Retry-After": "Sun, 15 Nov 2026 06:39:10 GMT"}),
    ],
    ids=["429 without Retry-After", "500 without Retry-After", "409 with Retry-After", "503 with a date"],
)
def test_others_are_final(answer: bytes) -> None:
    async def main() -> None:
        time = Time()
        async with a_recorder(always(answer)) as recorder, a_client(recorder.url, time=time) as client:
            with pytest.raises(ApiError):
                await client.send("POST", "/x", b"{}")
            assert len(recorder.requests) == 1 and time.slept_s == []

    run(main())


def test_a_write_may_succeed_after_all() -> None:
    async def main() -> None:
        time = Time()
        busy = refused(too_many_requests("slow down"), **{"Retry-After": "1"})
        async with (
            a_recorder(script(busy, busy, then=said(201))) as recorder,
            a_client(recorder.url, time=time) as client,
        ):
            await client.send("POST", "/x", b"{}")
            assert (len(recorder.requests), time.slept_s) == (3, [1, 1])

    run(main())


# ---- credentials


UNAUTHORIZED = refused(ApiError(401, "Unauthorized", "Unauthorized"))


def test_a_rotated_token_is_read_again_when_the_old_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        token = tmp_path / "token"
        token.write_text("old")

        async def answer(request: Recorded) -> bytes:
            return said(200) if request.headers["authorization"] == "Bearer new" else UNAUTHORIZED

        async with (
            a_recorder(answer) as recorder,
            a_client(recorder.url, credentials=Identity(token=RereadFile(token))) as client,
        ):
            with pytest.raises(ApiError):
                await client.send("POST", "/x", b"{}")
            assert len(recorder.requests) == 1, "the same token is not shown twice"
            token.write_text("new")
            await client.send("POST", "/x", b"{}")
            shown = [request.headers["authorization"] for request in recorder.requests]
            assert shown == ["Bearer old", "Bearer old", "Bearer new"]

    run(main())


@dataclass
class Fickle:
    """Has something new to show every time."""

    granted: int = 0
    grants: list[Grant] = field(default_factory=list)

    async def grant(self) -> Grant:
        return Grant(f"Bearer {self.granted}")

    def reject(self, grant: Grant) -> bool:
        self.granted += 1
        return True


def test_credentials_are_renewed_once() -> None:
    async def main() -> None:
        async with (
            a_recorder(always(UNAUTHORIZED)) as recorder,
            a_client(recorder.url, credentials=Fickle()) as client,
        ):
            with pytest.raises(ApiError) as told:
                await client.send("POST", "/x", b"{}")
            assert told.value.code == 401
            assert [request.headers["authorization"] for request in recorder.requests] == ["Bearer 0", "Bearer 1"]

    run(main())


def test_without_credentials_nothing_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        identity = Identity(token=RereadFile(tmp_path / "missing"))
        async with a_recorder(always(said(200))) as recorder, a_client(recorder.url, credentials=identity) as client:
            with pytest.raises(CredentialsError):
                await client.send("POST", "/x", b"{}")
            assert recorder.requests == []

    run(main())


# ---- proxies


def test_behind_a_proxy_the_general_client_is_used() -> None:
    async def main() -> None:
        async with a_recorder(script(said(201, {"a": 1}), None, refused(conflict("pods", "p", "x")))) as proxy:
            async with a_client("http://cluster.test:6443", proxy_url=proxy.url) as client:
                assert await client.send("POST", BINDING, b"{}") == b'{"a":1}'
                with pytest.raises(Unanswered):
                    await client.send("POST", BINDING, b"{}")
                with pytest.raises(ApiError):
                    await client.send("POST", BINDING, b"{}")
            assert proxy.lines == [f"POST http://cluster.test:6443{BINDING}"] * 3
            assert {request.headers["content-type"] for request in proxy.requests} == {"application/json"}

    run(main())


def test_the_header_of_a_trace_is_sent_with_and_without_a_proxy() -> None:
    async def main() -> None:
        async with a_recorder(always(said(201))) as server:
            for proxy in ("", server.url):
                async with a_client(server.url, proxy_url=proxy) as client:
                    await client.send("POST", BINDING, b"{}", traceparent="00-ab-cd-01")
                    await client.send("POST", BINDING, b"{}")
            sent = [request.headers.get("traceparent") for request in server.requests]
            assert sent == ["00-ab-cd-01", None] * 2
            assert [request.body for request in server.requests] == [b"{}"] * 4

    run(main())


def test_a_proxy_of_the_environment_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with a_recorder(always(said(201))) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            async with a_client("http://cluster.test:6443") as client:
                await client.send("POST", BINDING, b"{}")
            assert proxy.lines == [f"POST http://cluster.test:6443{BINDING}"]

    run(main())
