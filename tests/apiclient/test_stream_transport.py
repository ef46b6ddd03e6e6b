"""Requests of the general client as they are on the wire, and when it opens another connection."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mooring.apiclient import stream_transport
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import Grant
from mooring.apiclient.http_requests import ConnectionLost, OutgoingRequest, Unanswered
from mooring.apiclient.stream_transport import StreamTransport
from recording_server import Recorder, a_recorder, always, said, script

HEADERS = {"User-Agent": "test", "Accept": "application/json"}


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 20))


async def opened(recorder: Recorder, connections: int = 10, **more: Any) -> StreamTransport:
    transport = StreamTransport(ConnectionSettings(recorder.url, **more), HEADERS, connections)
    await transport.open()
    return transport


async def body(transport: StreamTransport, request: OutgoingRequest, grant: Grant | None = None) -> bytes:
    async with transport.attempt(request, grant or Grant()) as answer:
        return b"".join([piece async for piece in answer.content.iter_any()])


def test_a_request_as_it_is_on_the_wire() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder:
            transport = await opened(recorder, impersonation=(("Impersonate-User", "eve"),))
            path, params = "/apis/x/système:a b", {"fieldSelector": "spec.nodeName=", "limit": "5"}
            request = OutgoingRequest("GET", path, params, accept="text/plain", etag='"7"', traceparent="00-1-2-01")
            assert await body(transport, request, Grant("Bearer s3cret")) == b"{}"
            (seen,) = recorder.requests
            assert seen.line == "GET /apis/x/syst%C3%A8me:a%20b?fieldSelector=spec.nodeName%3D&limit=5"
            assert seen.headers == {
                "host": recorder.url.removeprefix("http://"),
                "user-agent": "test",
                "accept": "text/plain",
                "authorization": "Bearer s3cret",
                "impersonate-user": "eve",
                "if-none-match": '"7"',
                "traceparent": "00-1-2-01",
            }
            await transport.close()

    run(main())


def test_a_write_says_how_long_it_is() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder:
            transport = await opened(recorder)
            await body(transport, OutgoingRequest("PUT", "/x", body=b'{"a":1}', content_type="application/json"))
            await body(transport, OutgoingRequest("DELETE", "/x"))
            put, delete = recorder.requests
            assert (put.json, put.headers["content-type"]) == ({"a": 1}, "application/json")
            assert (delete.body, delete.headers["content-length"]) == (b"", "0")
            assert recorder.connections == 1
            await transport.close()

    run(main())


def test_a_header_with_a_line_end_is_not_sent() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder:
            transport = await opened(recorder)
            with pytest.raises(ValueError, match="a header of the request has a line end"):
                await body(transport, OutgoingRequest("GET", "/x"), Grant("Bearer a\r\nX: y"))
            assert recorder.requests == []

    run(main())


def test_a_connection_that_was_idle_for_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder:
            transport = await opened(recorder)
            for _ in range(3):
                await body(transport, OutgoingRequest("GET", "/x"))
            monkeypatch.setattr(stream_transport, "IDLE_S", -1.0)
            await body(transport, OutgoingRequest("GET", "/x"))
            assert [request.connection for request in recorder.requests] == [1, 1, 1, 2]
            await transport.close()

    run(main())


def test_an_answer_that_was_not_read_to_its_end_takes_its_connection_with_it() -> None:
    async def main() -> None:
        half = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"
        async with a_recorder(script(half, said(200), None)) as recorder:
            transport = await opened(recorder, connections=1)
            async with transport.attempt(OutgoingRequest("GET", "/x"), Grant()) as answer:
                assert answer.content_length == 5
            await body(transport, OutgoingRequest("GET", "/x"))
            assert recorder.connections == 2
            with pytest.raises(ConnectionLost, match="GET /x: the connection was lost"):
                await body(transport, OutgoingRequest("GET", "/x"))
            await transport.close()

    run(main())


def test_requests_wait_for_a_place() -> None:
    async def main() -> None:
        async with a_recorder(always(said(200))) as recorder:
            transport = await opened(recorder, connections=2)
            await asyncio.gather(*(body(transport, OutgoingRequest("GET", f"/{n}")) for n in range(9)))
            assert recorder.most_open == 2
            await transport.close()

    run(main())


def test_what_is_not_http_is_no_answer() -> None:
    async def main() -> None:
        async with a_recorder(always(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")) as recorder:
            transport = await opened(recorder)
            with pytest.raises(Unanswered, match="GET /x: the answer is not HTTP"):
                await body(transport, OutgoingRequest("GET", "/x"))

    run(main())
