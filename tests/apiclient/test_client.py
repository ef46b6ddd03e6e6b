"""The client against a server in this process: what it sends, what it makes of answers, and when it asks again."""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from client_certificates import sign_client
from mooring.api.api_errors import ApiError, Cause, conflict, not_found, too_many_requests
from mooring.apiclient.certificates import CertificateFiles
from mooring.apiclient.client import ApiClient, ClientOptions, Limits
from mooring.apiclient.connection_settings import ConnectionSettings, proxy_of
from mooring.apiclient.credentials import Grant, Identity, KeyPair, RereadFile
from mooring.apiclient.http_requests import (
    ConnectionLost,
    ConnectionRefused,
    LineSplitter,
    NotTrusted,
    TimedOut,
    TooLarge,
    Unanswered,
    Unreadable,
)
from mooring.apiclient.kubeconfig.editing import Login, write_kubeconfig
from mooring.apiclient.throttle import Throttle, Timing
from mooring.kit.clock import VirtualClock
from programs import KUBECTL, needs
from recording_server import Time

PODS = "/api/v1/namespaces/default/pods"
SECRET = "s3cr3t-t0ken"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """What the server was asked."""

    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def header(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


@asynccontextmanager
async def a_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, Seen]]:
    """Its URL, and what it will have seen."""
    seen = Seen()

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.requests.append(request)
        seen.bodies.append(await request.read())
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()


def answering(*answers: web.Response | ApiError | None) -> Handler:
    """One after the other; None breaks the connection, and an error is told as a server tells it."""
    left = [*answers]

    async def handle(request: web.Request) -> web.StreamResponse:
        answer = left.pop(0)
        if answer is None:
            assert request.transport
            request.transport.abort()
            return web.Response()
        return told(answer) if isinstance(answer, ApiError) else answer

    return handle


def told(error: ApiError, **headers: str) -> web.Response:
    return web.json_response(error.status(), status=error.code, headers=headers)


def ok(body: Any = None) -> web.Response:
    return web.json_response(body or {"kind": "Pod"})


def a_client(server: str, time: Time | None = None, qps: float = -1, **more: Any) -> ApiClient:
    limits = more.pop("limits", Limits(request_s=5))
    return ApiClient(
        *(ConnectionSettings(server, **more), "test/1", qps, 10),
        limits=limits,
        options=ClientOptions((time or Time()).timing()),
    )


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


# What is sent


def test_requests_carry_what_servers_look_at() -> None:
    async def main() -> None:
        async with a_server(answering(ok({"a": 1}), ok(), ok())) as (url, seen):
            credentials = Identity(token=SECRET.encode())
            impersonation = (("Impersonate-Group", "g"), ("Impersonate-Group", "h"))
            async with a_client(f"{url}/prefix", credentials=credentials, impersonation=impersonation) as client:
                assert await client.get(PODS, {"fieldSelector": "status.phase!=Failed,metadata.name=x y"}) == {"a": 1}
                await client.post(f"{PODS}/p/binding", {"kind": "Binding"}, {"dryRun": "All"})
                await client.patch(f"{PODS}/p/status", b'{"status":{}}')
        first, second, third = seen.requests
        assert first.path == f"/prefix{PODS}"
        assert dict(first.query) == {"fieldSelector": "status.phase!=Failed,metadata.name=x y"}
        assert {name: first.headers[name] for name in ("User-Agent", "Accept", "Accept-Encoding", "Authorization")} == {
            "User-Agent": "test/1",
            "Accept": "application/json, */*",
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {SECRET}",
        }
        assert first.headers.getall("Impersonate-Group") == ["g", "h"]
        assert "Content-Type" not in first.headers
        assert (second.method, second.content_type, second.query_string) == ("POST", "application/json", "dryRun=All")
        assert (third.method, third.content_type) == ("PATCH", "application/strategic-merge-patch+json")
        assert seen.bodies == [b"", b'{"kind":"Binding"}', b'{"status":{}}']

    run(main())


def test_put_and_delete() -> None:
    async def main() -> None:
        async with a_server(answering(ok(), ok(), ok())) as (url, seen), a_client(url) as client:
            await client.put(f"{PODS}/p", {"x": 1})
            await client.delete(f"{PODS}/p")
            await client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert [request.method for request in seen.requests] == ["PUT", "DELETE", "DELETE"]
        assert seen.bodies == [b'{"x":1}', b"", b'{"gracePeriodSeconds":0}']

    run(main())


def test_connections_are_used_again() -> None:
    ports = set()

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport
        ports.add(request.transport.get_extra_info("peername"))
        return ok()

    async def main() -> None:
        async with a_server(handle) as (url, _), a_client(url) as client:
            for _ in range(5):
                await client.get("/healthz")

    run(main())
    assert len(ports) == 1


def test_a_client_that_is_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="the client is not open: use it with `async with`"):
        run(a_client("http://127.0.0.1:1").get("/healthz"))


# Refusals


def refused_with(answer: web.Response) -> ApiError:
    async def main() -> None:
        async with a_server(answering(answer)) as (url, _), a_client(url) as client:
            await client.post(PODS, {})

    with pytest.raises(ApiError) as caught:
        run(main())
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        not_found("pods", "p"),
        conflict("leases", "l", group="coordination.k8s.io"),
        too_many_requests("busy", 7, [Cause("DisruptionBudget", "because", "spec.x")]),
        ApiError(410, "Expired", "too old", continue_token="next"),
        ApiError(500, "", "odd"),
    ],
    ids=lambda error: error.reason or "no reason",
)
def test_a_status_comes_back_as_the_error_that_it_was(error: ApiError) -> None:
    assert refused_with(told(error)).status() == error.status()


def test_the_status_counts_and_not_the_code_of_http() -> None:
    error = refused_with(web.json_response(not_found("pods", "p").status(), status=400))
    assert (error.code, error.reason) == (404, "NotFound")


def test_a_failure_under_a_code_of_success_is_one() -> None:
    error = refused_with(web.json_response(not_found("pods", "p").status(), status=200))
    assert (error.code, error.message) == (404, 'pods "p" not found')


PLAIN: dict[str, tuple[web.Response, int, str, str]] = {
    "404": (
        web.Response(status=404, text="404 page not found"),
        404,
        "NotFound",
        f"the server could not find the requested resource (POST {PODS})",
    ),
    "403": (web.Response(status=403, text="go away"), 403, "Forbidden", f"go away (POST {PODS})"),
    "502": (
        web.Response(status=502, text="<bad>"),
        502,
        "InternalError",
        f'an error on the server ("<bad>") has prevented the request from succeeding (POST {PODS})',
    ),
    "JSON of someone else": (
        web.json_response({"kind": "Pod"}, status=409),
        409,
        "Conflict",
        f"the server reported a conflict (POST {PODS})",
    ),
    "a redirect": (
        web.Response(status=302, headers={"Location": "/elsewhere"}),
        302,
        "Unknown",
        f"the server responded with the status code 302 but did not return more details (POST {PODS})",
    ),
}


@pytest.mark.parametrize(("answer", "code", "reason", "message"), PLAIN.values(), ids=PLAIN.keys())
def test_without_a_status_the_code_tells(answer: web.Response, code: int, reason: str, message: str) -> None:
    error = refused_with(answer)
    assert (error.code, error.reason, error.message) == (code, reason, message)


# Asked again


def busy(code: int = 429, after: str = "3") -> web.Response:
    return web.Response(status=code, headers={"Retry-After": after})


def test_whoever_is_told_to_wait_waits_and_asks_again_with_any_verb() -> None:
    async def main() -> None:
        time = Time()
        async with (
            a_server(answering(busy(), busy(503, "1"), ok({"a": 1}))) as (url, seen),
            a_client(url, time) as client,
        ):
            assert await client.post(PODS, {"x": 1}) == {"a": 1}
        assert time.slept_s == [3, 1]
        assert seen.bodies == [b'{"x":1}'] * 3

    run(main())


@pytest.mark.parametrize("answer", [busy(409), busy(after="Wed, 21 Oct 2026 07:28:00 GMT"), web.Response(status=503)])
def test_otherwise_a_refusal_is_final(answer: web.Response) -> None:
    assert refused_with(answer).code == answer.status


def test_after_ten_more_attempts_the_refusal_is_told() -> None:
    async def main() -> None:
        time = Time()
        async with (
            a_server(answering(*(busy(after="2") for _ in range(11)))) as (url, _),
            a_client(url, time) as client,
        ):
            with pytest.raises(ApiError) as caught:
                await client.get(PODS)
        assert (caught.value.code, caught.value.retry_after_s) == (429, 2)
        assert time.slept_s == [2] * 10

    run(main())


def test_a_get_survives_lost_connections() -> None:
    async def main() -> None:
        time = Time()
        async with a_server(answering(None, None, ok({"a": 1}))) as (url, _), a_client(url, time) as client:
            assert await client.get(PODS) == {"a": 1}
        assert time.slept_s == [1], "at first the server may just have closed a connection that we kept"

    run(main())


def test_a_get_gives_up_after_ten_more_attempts() -> None:
    async def main() -> None:
        async with a_server(answering(*[None] * 11)) as (url, seen), a_client(url) as client:
            with pytest.raises(ConnectionLost):
                await client.get(PODS)
        assert len(seen.requests) == 11

    run(main())


def test_a_post_on_a_lost_connection_may_have_been_carried_out() -> None:
    async def main() -> None:
        async with a_server(answering(None)) as (url, _), a_client(url) as client:
            with pytest.raises(ConnectionLost, match=f"POST {PODS}: the connection was lost"):
                await client.post(PODS, {})

    run(main())


@pytest.mark.parametrize("verb", ["put", "delete"])
def test_nothing_is_written_twice_behind_our_back(verb: str) -> None:
    async def main() -> None:
        async with a_server(answering(None)) as (url, seen), a_client(url) as client:
            with pytest.raises(ConnectionLost):
                await getattr(client, verb)(PODS, {})
        assert len(seen.requests) == 1

    run(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        async with a_server(answering()) as (url, _):
            pass
        async with a_client(url) as client:
            with pytest.raises(ConnectionRefused, match=f"GET {PODS}: cannot connect to 127.0.0.1:"):
                await client.get(PODS)

    run(main())


def test_a_server_that_does_not_answer_runs_into_the_time_limit() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return ok()

    async def main() -> None:
        async with a_server(handle) as (url, _), a_client(url, limits=Limits(request_s=0.05)) as client:
            with pytest.raises(TimedOut, match=f"GET {PODS}: no answer within the time limit"):
                await client.get(PODS)

    run(main())


# Credentials that have ended


UNAUTHORIZED = ApiError(401, "Unauthorized", "Unauthorized")


@dataclass
class Counting:
    """Credentials that are new each time they are asked for again."""

    given: int = 0

    async def grant(self) -> Grant:
        return Grant(f"Bearer {self.given}")

    def reject(self, grant: Grant) -> bool:
        self.given += 1
        return True


def test_refused_credentials_are_renewed_once() -> None:
    async def main() -> None:
        async with (
            a_server(answering(UNAUTHORIZED, ok(), UNAUTHORIZED, UNAUTHORIZED)) as (url, seen),
            a_client(url, credentials=Counting()) as client,
        ):
            await client.post(PODS, {})
            with pytest.raises(ApiError, match="Unauthorized"):
                await client.post(PODS, {})
        assert seen.header("Authorization") == ["Bearer 0", "Bearer 1", "Bearer 1", "Bearer 2"]

    run(main())


def test_a_rotated_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return ok()
        path.write_text("new")
        return told(UNAUTHORIZED)

    async def main() -> None:
        credentials = Identity(RereadFile(path, clock=VirtualClock()))
        async with a_server(handle) as (url, seen), a_client(url, credentials=credentials) as client:
            await client.get(PODS)
        assert seen.header("Authorization") == ["Bearer old", "Bearer new"]

    run(main())


def test_a_fixed_token_is_shown_once() -> None:
    async def main() -> None:
        async with (
            a_server(answering(UNAUTHORIZED)) as (url, seen),
            a_client(url, credentials=Identity(token=SECRET.encode())) as client,
        ):
            with pytest.raises(ApiError) as caught:
                await client.get(PODS)
        assert len(seen.requests) == 1
        assert SECRET not in repr(caught.value)

    run(main())


# Bodies


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_large_is_not_read(is_chunked: bool) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.Response(body=b"x" * 1001)
        if is_chunked:
            answer.enable_chunked_encoding()
        return answer

    async def main() -> None:
        async with a_server(handle) as (url, _), a_client(url, limits=Limits(answer_bytes=1000)) as client:
            with pytest.raises(
                TooLarge, match=f"GET {PODS}: the answer is larger than 1000 bytes, the limit of this client"
            ):
                await client.get_bytes(PODS)

    run(main())


def test_bytes_come_as_they_are_and_json_must_be_json() -> None:
    async def main() -> None:
        async with (
            a_server(answering(*(web.Response(text="ok") for _ in range(2)))) as (url, _),
            a_client(url) as client,
        ):
            assert await client.get_bytes("/healthz") == b"ok"
            with pytest.raises(Unreadable, match="GET /healthz: the answer is not JSON"):
                await client.get("/healthz")

    run(main())


# Lists


def a_page(*names: str, token: str = "") -> web.Response:
    metadata = {"resourceVersion": "7", **({"continue": token, "remainingItemCount": 1} if token else {})}
    return ok({"kind": "PodList", "metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]})


def test_a_list_is_followed_to_its_end() -> None:
    async def main() -> None:
        pages = answering(a_page("a", "b", token="t1"), a_page("c", token="t2"), a_page("d"))
        async with a_server(pages) as (url, seen), a_client(url) as client:
            whole = await client.list(PODS, {"resourceVersion": "0", "labelSelector": "x"})
        assert [item["metadata"]["name"] for item in whole["items"]] == ["a", "b", "c", "d"]
        assert whole["metadata"] == {"resourceVersion": "7"}
        assert [dict(request.query) for request in seen.requests] == [
            {"resourceVersion": "0", "labelSelector": "x", "limit": "500"},
            {"labelSelector": "x", "limit": "500", "continue": "t1"},
            {"labelSelector": "x", "limit": "500", "continue": "t2"},
        ]

    run(main())


def test_a_list_that_expires_on_the_way_is_asked_for_in_one() -> None:
    async def main() -> None:
        expired = ApiError(410, "Expired", "too old")
        async with (
            a_server(answering(a_page("a", token="t"), expired, a_page("b", "c"))) as (url, seen),
            a_client(url) as client,
        ):
            whole = await client.list(PODS, {"resourceVersion": "0"})
        assert [item["metadata"]["name"] for item in whole["items"]] == ["b", "c"]
        assert dict(seen.requests[-1].query) == {"resourceVersion": "0"}

    run(main())


def test_a_list_that_is_refused_at_once_is_not_asked_for_again() -> None:
    async def main() -> None:
        async with a_server(answering(ApiError(410, "Expired", "too old"))) as (url, _), a_client(url) as client:
            with pytest.raises(ApiError, match="too old"):
                await client.list(PODS, {"resourceVersion": "1"})

    run(main())


def test_a_list_without_items_is_empty() -> None:
    async def main() -> None:
        async with a_server(answering(ok({"kind": "PodList", "items": None}))) as (url, _), a_client(url) as client:
            assert await client.list(PODS) == {"kind": "PodList", "items": [], "metadata": {}}

    run(main())


# Watches


def streaming(*chunks: bytes, breaks: bool = False) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for chunk in chunks:
            await answer.write(chunk)
        if breaks:
            assert request.transport
            request.transport.abort()
        return answer

    return handle


async def watched(client: ApiClient, **params: str) -> list[bytes]:
    lines: list[bytes] = []
    async for some in client.watch(PODS, params):
        lines += some
    return lines


def test_a_watch_hands_out_lines_and_ends_with_the_stream() -> None:
    async def main() -> None:
        async with (
            a_server(streaming(b'{"a":1}\n{"b"', b":2}\n\n", b'{"c":3}')) as (url, seen),
            a_client(url) as client,
        ):
            assert await watched(client, timeoutSeconds="300") == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
        assert dict(seen.requests[0].query) == {"timeoutSeconds": "300", "watch": "true"}

    run(main())


def test_what_came_before_a_break_is_handed_out() -> None:
    async def main() -> None:
        async with a_server(streaming(b'{"a":1}\n{"b', breaks=True)) as (url, _), a_client(url) as client:
            lines = []
            with pytest.raises(ConnectionLost):
                async for some in client.watch(PODS):
                    lines += some
        assert lines in ([b'{"a":1}'], [])  # the break may overtake what was sent

    run(main())


def test_half_an_event_at_the_end_is_dropped() -> None:
    async def main() -> None:
        async with a_server(streaming(b'{"a":1}\n{"b')) as (url, _), a_client(url) as client:
            assert await watched(client) == [b'{"a":1}']

    run(main())


def test_a_watch_that_is_refused_or_lost_at_its_start_is_treated_like_any_get() -> None:
    async def main() -> None:
        time = Time()
        answers = answering(None, busy(), web.Response(text="{}\n"), ApiError(410, "Expired", "too old"))
        async with a_server(answers) as (url, _), a_client(url, time) as client:
            assert await watched(client) == [b"{}"]
            assert time.slept_s == [3]
            with pytest.raises(ApiError, match="too old"):
                await watched(client)

    run(main())


def test_a_watch_can_be_left() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"{}\n")
        await asyncio.Event().wait()
        return answer

    async def main() -> None:
        async with a_server(handle) as (url, _), a_client(url) as client:
            watch: Any = client.watch(PODS)
            async with aclosing(watch):
                assert await anext(watch) == [], "the server has answered"
                assert await anext(watch) == [b"{}"]

    run(main())


def test_an_event_that_is_too_long_ends_the_watch() -> None:
    async def main() -> None:
        async with a_server(streaming(b"x" * 101)) as (url, _), a_client(url, limits=Limits(line_bytes=100)) as client:
            with pytest.raises(TooLarge, match="one line of the stream is longer than 100 bytes"):
                await watched(client)

    run(main())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_where_chunks_end(size: int) -> None:
    text = b"one\n\ntwo and more\nthree\nrest"
    splitter = LineSplitter(100)
    lines = [line for start in range(0, len(text), size) for line in splitter.feed(text[start : start + size])]
    assert (lines, splitter.rest(), splitter.rest()) == ([b"one", b"two and more", b"three"], b"rest", b"")


@pytest.mark.parametrize("chunks", [[b"12345"], [b"123", b"45\n"], [b"1\n12345\n1\n"]])
def test_a_long_line_is_noticed_wherever_it_stands(chunks: list[bytes]) -> None:
    splitter = LineSplitter(4)
    with pytest.raises(TooLarge):
        for chunk in chunks:
            splitter.feed(chunk)


def test_lines_as_long_as_the_limit_are_not_too_long() -> None:
    splitter = LineSplitter(4)
    assert splitter.feed(b"1234\n12") == [b"1234"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"34\n1234") == [b"1234"]
    assert splitter.feed(b"\n") == [b"1234"]


# The rate limit


def waits(qps: float, burst: int, arrivals_s: list[float]) -> list[float]:
    """The waits of requests that come at these times, whoever else is still waiting."""
    time = Time()

    async def sleep(for_s: float) -> None:
        pass

    throttle = Throttle(qps, burst, Timing(lambda: time.now_s, sleep))

    async def main() -> list[float]:
        found = []
        for time.now_s in arrivals_s:
            found.append(await throttle.take())
        return found

    return asyncio.run(main())


THROTTLES: dict[str, tuple[float, int, list[float], list[float]]] = {
    "a burst, then one by one": (2, 3, [0, 0, 0, 0, 0], [0, 0, 0, 0.5, 1]),
    "the bucket fills up again": (2, 2, [0, 0, 0.5, 0.5], [0, 0, 0, 0.5]),
    "but no further than its size": (2, 2, [0, 100, 100, 100], [0, 0, 0, 0.5]),
    "no limit": (-1, 1, [0] * 50, [0] * 50),
    "zero stands for client-go's defaults": (0, 0, [0] * 11, [0] * 10 + [0.2]),
}


@pytest.mark.parametrize(("qps", "burst", "arrivals_s", "expected"), THROTTLES.values(), ids=THROTTLES.keys())
def test_the_token_bucket(qps: float, burst: int, arrivals_s: list[float], expected: list[float]) -> None:
    assert waits(qps, burst, arrivals_s) == expected


def test_all_requests_of_a_client_share_one_bucket() -> None:
    async def main() -> None:
        time = Time()
        async with a_server(answering(*(ok() for _ in range(12)))) as (url, _), a_client(url, time, qps=4) as client:
            for _ in range(6):
                await client.get(PODS)
                await client.post(PODS, {})
        assert time.slept_s == [0.25, 0.25]

    run(main())


def test_a_turn_that_is_not_waited_for_goes_to_the_next() -> None:
    is_cancelled = True

    async def sleep(for_s: float) -> None:
        if is_cancelled:
            raise asyncio.CancelledError

    async def main() -> None:
        nonlocal is_cancelled
        throttle = Throttle(1, 1, Timing(lambda: 0.0, sleep))
        assert await throttle.take() == 0
        for _ in range(2):
            with pytest.raises(asyncio.CancelledError):
                await throttle.take()
        is_cancelled = False
        assert await throttle.take() == 1

    run(main())


# TLS


@pytest.fixture(scope="module")
def certificates() -> CertificateFiles:
    return CertificateFiles()


def server_tls(certificates: CertificateFiles, directory: Path, asks_clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = certificates.server()
    (directory / "crt").write_bytes(pair.certificate_pem)
    (directory / "key").write_bytes(pair.key_pem)
    context.load_cert_chain(directory / "crt", directory / "key")
    if asks_clients:
        context.load_verify_locations(cadata=certificates.authority_pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def fetched(tls: ssl.SSLContext, **access: Any) -> bytes:
    found = []

    async def main() -> None:
        async with a_server(answering(web.Response(text="ok")), tls) as (url, _), a_client(url, **access) as client:
            found.append(await client.get_bytes("/healthz"))

    run(main())
    return found[0]


def test_the_server_is_trusted_by_its_authority(certificates: CertificateFiles, tmp_path: Path) -> None:
    tls = server_tls(certificates, tmp_path)
    trusted = certificates.authority_pem
    assert fetched(tls, authority_pem=trusted) == b"ok"
    assert fetched(tls, authority_pem=trusted, server_name="kubernetes.default.svc") == b"ok"
    assert fetched(tls, skips_verification=True) == b"ok"


STRANGERS: dict[str, dict[str, Any]] = {
    "this machine does not know the authority": {},
    "another authority": {"authority_pem": CertificateFiles().authority_pem},
    "another name": {"server_name": "elsewhere.example"},
}


@pytest.mark.parametrize("access", STRANGERS.values(), ids=STRANGERS.keys())
def test_a_server_is_not_trusted(access: dict[str, Any], certificates: CertificateFiles, tmp_path: Path) -> None:
    if "server_name" in access:
        access = access | {"authority_pem": certificates.authority_pem}
    with pytest.raises(NotTrusted, match="GET /healthz: the server's certificate is not trusted: "):
        fetched(server_tls(certificates, tmp_path), **access)


def test_a_client_certificate_is_shown(certificates: CertificateFiles, tmp_path: Path) -> None:
    tls = server_tls(certificates, tmp_path, asks_clients=True)
    pair = sign_client(certificates.authority, "me", ["us"])
    identity = Identity(certificate=pair.certificate_pem, key=pair.key_pem)
    assert fetched(tls, authority_pem=certificates.authority_pem, credentials=identity) == b"ok"
    with pytest.raises(Unanswered):
        fetched(tls, authority_pem=certificates.authority_pem)


def test_a_new_client_certificate_is_taken_up(certificates: CertificateFiles, tmp_path: Path) -> None:
    """A half that does not fit is not: the other one is probably just being written."""
    old, new = sign_client(certificates.authority, "old"), sign_client(certificates.authority, "new")
    shown: list[str] = []

    @dataclass
    class Rotating:
        pair: KeyPair

        async def grant(self) -> Grant:
            return Grant("", self.pair)

        def reject(self, grant: Grant) -> bool:
            return False

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport
        subject = request.transport.get_extra_info("peercert")["subject"]
        shown.append(dict(part[0] for part in subject)["commonName"])
        return ok()

    async def main() -> None:
        tls = server_tls(certificates, tmp_path, asks_clients=True)
        rotating = Rotating(old)
        async with (
            a_server(handle, tls) as (url, _),
            a_client(url, authority_pem=certificates.authority_pem, credentials=rotating) as client,
        ):
            for pair in (old, replace(old, certificate_pem=new.certificate_pem), new):
                rotating.pair = pair
                await client.get(PODS)

    run(main())
    assert shown == ["old", "old", "new"]


# kubectl


@needs(KUBECTL)
def test_kubectl_takes_our_certificates_and_kubeconfig(certificates: CertificateFiles, tmp_path: Path) -> None:
    shown: list[Any] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport
        shown.append((request.path, request.headers.get("Authorization")))
        return web.Response(text="all is well")

    async def main() -> None:
        async with a_server(handle, server_tls(certificates, tmp_path)) as (url, _):
            write_kubeconfig(tmp_path / "config", Login(url, certificates.authority_pem, SECRET))
            assert await kubectl(tmp_path, "get", "--raw", "/healthz") == (0, "all is well", "")

    run(main())
    path, authorization = shown[-1]  # Google's kubectl asks for the version first
    assert path == "/healthz"
    assert authorization == f"Bearer {SECRET}"


async def kubectl(home: Path, *arguments: str) -> tuple[int | None, str, str]:
    environment = {"HOME": str(home), "PATH": os.defpath}
    process = await asyncio.create_subprocess_exec(
        KUBECTL.required(),
        "--kubeconfig",
        str(home / "config"),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, complaint = await process.communicate()
    return process.returncode, output.decode(), complaint.decode()


# Proxies


PROXIES: dict[str, tuple[str, dict[str, str], str]] = {
    "none": ("https://api.example", {}, ""),
    "one": ("https://api.example", {"HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
    "in small letters, without a scheme": ("https://api.example", {"https_proxy": "proxy:1"}, "http://proxy:1"),
    "for the other scheme": ("https://api.example", {"HTTP_PROXY": "http://proxy:1"}, ""),
    "never to this machine": ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://proxy:1"}, ""),
    "not to an exempt host": ("https://api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "x, api.example"}, ""),
    "nor to its subdomains": ("https://a.api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "api.example"}, ""),
    "subdomains only": ("https://api.example", {"HTTPS_PROXY": "p", "NO_PROXY": ".api.example"}, "http://p"),
    "an exempt network": ("https://10.96.0.1", {"HTTPS_PROXY": "p", "NO_PROXY": "10.96.0.0/12"}, ""),
    "another network": ("https://10.0.0.1", {"HTTPS_PROXY": "p", "NO_PROXY": "10.96.0.0/12"}, "http://p"),
    "an exempt port": ("https://api.example:6443", {"HTTPS_PROXY": "p", "NO_PROXY": "api.example:6443"}, ""),
    "another port": ("https://api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "api.example:6443"}, "http://p"),
    "all exempt": ("https://api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "*"}, ""),
}


@pytest.mark.parametrize(("server", "environment", "expected"), PROXIES.values(), ids=PROXIES.keys())
def test_the_proxy_of_the_environment(server: str, environment: dict[str, str], expected: str) -> None:
    assert proxy_of(server, environment) == expected


def test_a_proxy_is_asked_for_the_server() -> None:
    async def main() -> None:
        async with (
            a_server(answering(ok({"a": 1}))) as (proxy, seen),
            a_client("http://api.example", proxy_url=proxy) as client,
        ):
            assert await client.get(PODS) == {"a": 1}
        assert seen.header("Host") == ["api.example"]

    run(main())


def test_json_of_a_list_is_what_the_server_sent() -> None:
    """Bytes of a page can be decoded into types of one's own."""

    async def main() -> None:
        async with a_server(answering(a_page("a"))) as (url, _), a_client(url) as client:
            (page,) = await client.list_pages(PODS, limit=0)
        assert json.loads(page)["items"] == [{"metadata": {"name": "a"}}]

    run(main())
