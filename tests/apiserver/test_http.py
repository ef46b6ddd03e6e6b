"""The server on the wire: who gets in, what is too much, and that every answer can be read."""

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from asking import CONFIG_MAPS, NODES, PODS, TABLE, a_manifest, ask
from cluster_api import an_api
from how_many import examples
from mooring.api.api_errors import internal_error
from mooring.apiserver.server.http import HttpLimits, HttpServer, watch_pauses
from mooring.apiserver.server.request import MAX_BODY_BYTES
from mooring.apiserver.server.watching import MAX_WAITING_BYTES
from mooring.apiserver.store import StoreWrite
from mooring.app.up import ServiceSettings
from mooring.cli.up_session import report
from running_cluster import PATIENCE_S, Neighbour, Reply, a_neighbour

STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Neighbour]:
    with a_neighbour(nodes=2) as running:
        yield running


def refused(reply: Reply, code: int, reason: str) -> str:
    """The message of a Status that says this."""
    assert (reply.code, reply.body["kind"], reply.body["code"], reply.body["reason"]) == (code, "Status", code, reason)
    message: str = reply.body["message"]
    return message


# ---- getting in


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer wrong", "Bearer ", "Basic dTpw", "Bearer \N{LATIN SMALL LETTER Y WITH DIAERESIS}", "token"],
)
def test_without_the_token_nobody_gets_in(cluster: Neighbour, header: str) -> None:
    reply = cluster.ask("GET", NODES, headers={"Authorization": header})
    assert refused(reply, 401, "Unauthorized") == "Unauthorized"


def test_the_scheme_of_a_token_is_written_in_any_case(cluster: Neighbour) -> None:
    assert cluster.ask("GET", NODES, headers={"Authorization": f"bearer {cluster.token}"}).code == 200


def test_the_token_alone_does_not_do(cluster: Neighbour) -> None:
    assert cluster.ask("GET", NODES, headers={"Authorization": cluster.token}).code == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/etcd", "/version"])
def test_health_and_version_are_open_to_all(cluster: Neighbour, path: str) -> None:
    reply = cluster.ask("GET", path, headers={"Authorization": ""})
    assert reply.code == 200
    assert reply.body == "ok" if path != "/version" else reply.body["major"] == "1"


@pytest.mark.parametrize(
    "path", ["/", "/api", "/openapi/v3", "//api/v1/nodes", "/version/../api/v1/nodes", "/healthz/../api/v1/nodes"]
)
def test_nothing_else_is_open(cluster: Neighbour, path: str) -> None:
    reply = cluster.ask("GET", path, headers={"Authorization": ""})
    assert "items" not in reply.body
    assert reply.code == 401 or reply.body in ("ok", "404 page not found\n")


class Told:
    """A server of its own with what it reports, and one exchange of bytes with it."""

    def __init__(self, token: str = "") -> None:
        self.reports: list[str] = []
        self.api = an_api()
        self.server = HttpServer(self.api, token, lambda text, fault: self.reports.append(f"{text}: {fault}"))

    def exchange(self, *requests: bytes) -> list[bytes]:
        async def each() -> list[bytes]:
            port = await self.server.start("127.0.0.1", 0)
            received = []
            for request in requests:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                received.append(await asyncio.wait_for(reader.read(), PATIENCE_S))
                writer.close()
            await self.server.stop()
            return received

        return asyncio.run(each())


def a_get(path: str, **headers: str) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    return f"GET {path} HTTP/1.0\r\n{''.join(lines)}\r\n".encode()


@pytest.mark.parametrize(
    "header",
    ["Bearer {}", "bearer {}", "BEARER  {} "],
)
def test_the_scheme_and_the_token_let_somebody_in(header: str) -> None:
    (reply,) = Told("t0ken").exchange(a_get(NODES, Authorization=header.format("t0ken")))
    assert b" 200 " in reply.splitlines()[0]


@pytest.mark.parametrize("header", ["Basic {}", "Token {}", "{} {}", " {}", "Bearer{}", "Bearerx {}", "x Bearer {}"])
def test_the_token_with_another_scheme_lets_nobody_in(header: str) -> None:
    (reply,) = Told("t0ken").exchange(a_get(NODES, Authorization=header.format("t0ken", "t0ken")))
    assert b" 401 " in reply.splitlines()[0]


def test_what_is_no_http_is_told_in_one_line_and_without_the_token(capfd: pytest.CaptureFixture[str]) -> None:
    told = Told("secret-token-1234567890")
    malformed = b"GET / HTTP/1.1\r\nAuthorization: Bearer secret-token-1234567890\x01\r\n\r\n"
    replies = told.exchange(*[malformed] * 20)
    assert all(b" 400 " in reply.splitlines()[0] for reply in replies)
    assert told.reports == ["rejected a request from 127.0.0.1 that is not valid HTTP (BadHttpMessage): None"]
    assert capfd.readouterr() == ("", "")


def test_a_path_forges_no_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a bug\nforged: too")

    told = Told()
    told.server.report = report
    monkeypatch.setattr("mooring.apiserver.server.http.answer", fail)
    told.exchange(a_get("/api/v1/nodes/%0aforged:%20line%1b"))
    said = capsys.readouterr().err
    assert said == "GET /api/v1/nodes/\\nforged: line\\x1b failed: RuntimeError: a bug\\nforged: too\n"


# ---- bodies


def post(cluster: Neighbour, body: bytes, content_type: str = "application/json") -> Reply:
    return cluster.ask("POST", CONFIG_MAPS, body, {"Content-Type": content_type})


def test_a_body_that_is_too_large_is_refused(cluster: Neighbour) -> None:
    body = json.dumps({"metadata": {"name": "large"}, "data": {"a": "x" * MAX_BODY_BYTES}}).encode()
    message = refused(post(cluster, body), 413, "RequestEntityTooLarge")
    assert message == f"Request entity too large: limit is {MAX_BODY_BYTES}"
    assert cluster.ask("GET", f"{CONFIG_MAPS}/large").code == 404


def test_a_body_that_is_too_large_is_refused_though_it_does_not_say_so(cluster: Neighbour) -> None:
    connection = cluster.connect()
    chunks = (b" " * 65536 for _ in range(2 * MAX_BODY_BYTES // 65536))
    headers = {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"}
    connection.request("POST", CONFIG_MAPS, chunks, headers, encode_chunked=True)
    response = connection.getresponse()
    assert json.loads(response.read())["reason"] == "RequestEntityTooLarge"
    connection.close()


def test_a_body_just_below_the_limit_is_taken(cluster: Neighbour) -> None:
    body = json.dumps({"metadata": {"name": "full"}}).encode()
    assert post(cluster, body + b" " * (MAX_BODY_BYTES - len(body))).code == 201


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b"1", b'{"metadata":{"name":"\xff"}}', b'{"metadata":{"name":"\\ud800"}}'],
    ids=["empty", "open", "a list", "null", "a string", "a number", "no UTF-8", "half a character"],
)
@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
def test_a_body_that_holds_no_object_is_refused(cluster: Neighbour, body: bytes, content_type: str) -> None:
    refused(post(cluster, body, content_type), 400, "BadRequest")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "application/json"),
        (b'{"metadata":' * 100_000 + b"1" + b"}" * 100_000, "application/json"),
        (b"[" * 100_000 + b"]" * 100_000, "application/yaml"),
    ],
    ids=["lists", "objects", "YAML"],
)
def test_a_body_that_is_nested_too_deeply_is_refused(cluster: Neighbour, body: bytes, content_type: str) -> None:
    refused(post(cluster, body, content_type), 400, "BadRequest")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/xml", "image/png", "junk", "application/json-patch"]
)
def test_a_body_of_an_unknown_type_is_refused(cluster: Neighbour, content_type: str) -> None:
    message = refused(post(cluster, b"{}", content_type), 415, "UnsupportedMediaType")
    assert message.startswith(
        "the body of the request was in an unknown format - accepted media types include: application/json, "
    )


def test_a_patch_of_an_unknown_type_is_refused(cluster: Neighbour) -> None:
    reply = cluster.ask("PATCH", f"{NODES}/node-0001", {}, {"Content-Type": "application/json"})
    refused(reply, 415, "UnsupportedMediaType")


def test_yaml_is_taken_and_given(cluster: Neighbour) -> None:
    body = b"metadata: {name: written-in-yaml}\ndata: {a: b}\n"
    headers = {"Content-Type": "application/yaml", "Accept": "application/yaml"}
    reply = cluster.ask("POST", CONFIG_MAPS, body, headers)
    assert (reply.code, reply.headers["Content-Type"]) == (201, "application/yaml")
    assert yaml.safe_load(reply.body)["data"] == {"a": "b"}


def test_yaml_that_is_given_has_no_anchors(cluster: Neighbour) -> None:
    """Capacity and allocatable may be one and the same object in memory."""
    reply = cluster.ask("GET", NODES, headers={"Accept": "application/yaml"})
    assert "&id" not in reply.body
    assert len(yaml.safe_load(reply.body)["items"]) == 2


def test_who_asks_whether_to_go_on_is_told_to(cluster: Neighbour) -> None:
    body = json.dumps({"metadata": {"name": "expected"}}).encode()
    with raw(cluster) as wire:
        head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\n"
        wire.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 100 ")
        wire.sendall(body)
        assert wire.recv(100).startswith(b"HTTP/1.1 201 ")


def raw(cluster: Neighbour) -> ssl.SSLSocket:
    """A connection on which anything can be sent."""
    url = urlsplit(cluster.server)
    assert url.hostname and url.port
    trust = ssl.create_default_context(cadata=cluster.authority)
    plain = socket.create_connection((url.hostname, url.port), PATIENCE_S)
    return trust.wrap_socket(plain, server_hostname=url.hostname)


def exchange(cluster: Neighbour, request: bytes) -> bytes:
    with raw(cluster) as wire:
        wire.sendall(request)
        received = b""
        while chunk := wire.recv(65536):
            received += chunk
    return received


def test_header_bytes_that_are_no_text_do_no_harm(cluster: Neighbour) -> None:
    """The name of the client is kept in every object that it writes; one that cannot be written out would be the end."""
    body = b'{"metadata":{"name":"from-afar"}}'
    headers = (
        f"Host: x\r\nAuthorization: Bearer {cluster.token}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    ).encode()
    written = exchange(
        cluster,
        b"POST %s HTTP/1.1\r\n%sUser-Agent: \xff\xfe/1\r\nContent-Length: %d\r\n\r\n%s"
        % (CONFIG_MAPS.encode(), headers, len(body), body),
    )
    assert b" 201 " in written.splitlines()[0]
    for name, value in ((b"Accept", b"\xff"), (b"Content-Type", b"\xff"), (b"Authorization", b"Bearer \xff")):
        request = b"GET %s/from-afar HTTP/1.1\r\n%s: %s\r\n%s\r\n" % (CONFIG_MAPS.encode(), name, value, headers)
        assert b" 500 " not in exchange(cluster, request).splitlines()[0]
    assert cluster.ask("GET", f"{CONFIG_MAPS}/from-afar").code == 200


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes/%FF", "/api/v1/nodes/%00", "/api/v1/nodes/a%2Fb%2Fc", "/api/v1/nodes/%"]
)
def test_odd_names_name_nothing(cluster: Neighbour, path: str) -> None:
    assert cluster.ask("GET", path).code == 404


def test_names_may_be_quoted(cluster: Neighbour) -> None:
    assert cluster.ask("GET", "/api/v1/nodes/node%2D0001").body["metadata"]["name"] == "node-0001"


def test_a_request_that_is_no_http_ends_only_itself(cluster: Neighbour) -> None:
    assert b" 400 " in exchange(cluster, b"\0\1\2 nonsense\r\n\r\n").splitlines()[0]
    assert cluster.ask("GET", "/readyz").body == "ok"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PROPFIND"])
def test_methods_that_nobody_uses(cluster: Neighbour, method: str) -> None:
    assert cluster.ask(method, NODES).code == 405
    assert cluster.ask(method, "/readyz").code == (200 if method == "HEAD" else 404)


# ---- watches


def test_a_watch_over_the_wire(cluster: Neighbour) -> None:
    version = cluster.ask("GET", CONFIG_MAPS).body["metadata"]["resourceVersion"]
    with cluster.watch(CONFIG_MAPS, resourceVersion=version) as stream:
        assert stream.response.getheader("Transfer-Encoding") == "chunked"
        cluster.ask("POST", CONFIG_MAPS, {"metadata": {"name": "watched"}})
        cluster.ask("DELETE", f"{CONFIG_MAPS}/watched")
        events = stream.until(lambda event: event["type"] == "DELETED")
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "watched"),
        ("DELETED", "watched"),
    ]


def test_a_watch_with_a_timeout_ends_properly(cluster: Neighbour) -> None:
    version = cluster.ask("GET", CONFIG_MAPS).body["metadata"]["resourceVersion"]
    with cluster.watch(CONFIG_MAPS, resourceVersion=version, timeoutSeconds=1) as stream:
        assert stream.rest() == []


def test_what_a_watch_tells_is_on_disk_before_it_is_told() -> None:
    """A line that a client has read must not be undone by a crash."""
    told = Told()
    order: list[str] = []

    async def follow() -> None:
        port = await told.server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            a_get(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=20", Host="localhost").replace(b"HTTP/1.0", b"HTTP/1.1")
        )
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        for name in ("a", "b"):
            told.api.store.keep = lambda write, name=name: order.append(f"kept {name}")
            ask(told.api, "POST", CONFIG_MAPS, {"metadata": {"name": name}})
            await asyncio.wait_for(reader.readuntil(f'"name":"{name}"'.encode()), PATIENCE_S)
            order.append(f"told {name}")
        writer.close()
        await told.server.stop()

    asyncio.run(follow())
    assert order == ["kept a", "told a", "kept b", "told b"]


@pytest.mark.slow
def test_a_watch_with_a_timeout_tells_last_how_far_it_came(cluster: Neighbour) -> None:
    version = cluster.ask("GET", CONFIG_MAPS).body["metadata"]["resourceVersion"]
    query = {"resourceVersion": version, "timeoutSeconds": 3, "allowWatchBookmarks": "true"}
    with cluster.watch(CONFIG_MAPS, **query) as stream:
        events = stream.rest()
    assert [event["type"] for event in events] == ["BOOKMARK"]
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) >= int(version)


@pytest.mark.parametrize("timeout_s", [-5, 10**17])
def test_odd_timeouts_do_no_harm(cluster: Neighbour, timeout_s: int) -> None:
    with cluster.watch(NODES, timeoutSeconds=timeout_s) as stream:
        first = stream.next()
    assert first is None or first["type"] == "ADDED"


def test_bookmarks_come_each_minute_and_shortly_before_the_end() -> None:
    assert list(watch_pauses(0.0, 150.0)) == [60.0, 120.0, 148.0, 150.0]
    assert list(watch_pauses(0.0, 1.0)) == [1.0]
    assert list(watch_pauses(10.0, 5.0)) == [5.0]


def test_a_table_watch_over_the_wire(cluster: Neighbour) -> None:
    with cluster.watch(NODES, {"Accept": TABLE}) as stream:
        first, second = stream.next(), stream.next()
    assert first and second
    assert first["object"]["columnDefinitions"]
    assert [row["object"]["metadata"]["name"] for event in (first, second) for row in event["object"]["rows"]] == [
        "node-0001",
        "node-0002",
    ]


WATCHERS, WRITES = examples(50), examples(2000)


@pytest.mark.slow
def test_many_watchers_under_many_writes_miss_nothing() -> None:
    with a_neighbour(nodes=0, settings=ServiceSettings(is_plain=True)) as cluster:
        version = cluster.ask("GET", CONFIG_MAPS).body["metadata"]["resourceVersion"]
        seen: list[list[int]] = [[] for _ in range(WATCHERS)]

        def follow(place: int) -> None:
            with cluster.watch(CONFIG_MAPS, resourceVersion=version) as stream:
                for event in stream.until(lambda event: event["object"]["metadata"]["name"] == "last"):
                    seen[place].append(int(event["object"]["metadata"]["resourceVersion"]))

        threads = [threading.Thread(target=follow, args=(place,)) for place in range(WATCHERS)]
        for thread in threads:
            thread.start()
        written = write_many(cluster)
        for thread in threads:
            thread.join(PATIENCE_S)
        assert all(versions == written for versions in seen)


def write_many(cluster: Neighbour) -> list[int]:
    """Some objects, changed again and again over one connection. Returns the versions that they got."""
    connection, versions = cluster.connect(), []
    headers = {"Content-Type": "application/json"}
    for number in range(WRITES):
        name = "last" if number == WRITES - 1 else f"object-{number % 100}"
        is_new = number < 100 or name == "last"
        body = json.dumps({"metadata": {"name": name}, "data": {"number": str(number)}})
        path = CONFIG_MAPS if is_new else f"{CONFIG_MAPS}/{name}"
        connection.request("POST" if is_new else "PUT", path, body, headers)
        response = connection.getresponse()
        answered = json.loads(response.read())
        assert response.status in (200, 201), answered
        versions.append(int(answered["metadata"]["resourceVersion"]))
    connection.close()
    return versions


@pytest.mark.slow
def test_a_slow_reader_is_let_go_and_holds_up_nobody() -> None:
    with (
        a_neighbour(nodes=0, settings=ServiceSettings(is_plain=True)) as cluster,
        cluster.watch(CONFIG_MAPS) as slow,
        cluster.watch(CONFIG_MAPS) as quick,
    ):
        payload, count = "x" * 1_000_000, MAX_WAITING_BYTES // 1_000_000 + 30
        heard: list[str] = []
        reader = threading.Thread(target=lambda: heard.extend(numbers(quick, count)))
        reader.start()
        for number in range(count):
            cluster.ask("PUT" if number else "POST", *written(number, payload))
        reader.join(PATIENCE_S)
        assert heard == [str(number) for number in range(count)]
        with pytest.raises((OSError, http.client.HTTPException, ValueError)):
            read_all(slow)


def written(number: int, payload: str) -> tuple[str, Any]:
    path = f"{CONFIG_MAPS}/big" if number else CONFIG_MAPS
    return path, {"metadata": {"name": "big"}, "data": {"number": str(number), "payload": payload}}


def numbers(stream: Any, count: int) -> list[str]:
    events = stream.until(lambda event: event["object"].get("data", {}).get("number") == str(count - 1))
    return [event["object"]["data"]["number"] for event in events if "number" in event["object"].get("data", {})]


def read_all(stream: Any) -> None:
    """Raises when the end is not a proper one: a line that breaks off, or a connection that is reset."""
    while line := stream.response.readline():
        json.loads(line)


def test_the_server_stops_though_somebody_does_not_read() -> None:
    """The context manager fails if the cluster does not stop in time."""
    with a_neighbour(nodes=1, settings=ServiceSettings(is_plain=True)) as cluster:
        connection = cluster.connect()
        connection.connect()
        with cluster.watch(NODES) as stream:
            assert stream.next()
            stopping = stream
    assert stopping.response is not None
    connection.close()


# ---- faults of ours


def test_what_cannot_be_made_durable_is_not_answered_as_if_it_were(tmp_path: Path) -> None:
    reports: list[str] = []

    def full(write: StoreWrite) -> None:
        raise internal_error("disk full")

    api = an_api()
    api.store.keep = full
    version = api.store.version

    async def attempt() -> tuple[int, bytes]:
        server = HttpServer(api, report=lambda text, fault: reports.append(f"{text}: {fault}"))
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps(a_manifest()).encode()
        writer.write(b"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (PODS.encode(), len(body), body))
        received = await reader.read()
        writer.close()
        await server.stop()
        head, _, content = received.partition(b"\r\n\r\n")
        return int(head.split()[1]), content

    code, content = asyncio.run(attempt())
    status = json.loads(content)
    assert (code, status["reason"], status["message"]) == (500, "InternalError", "Internal error occurred: disk full")
    assert (reports, api.store.version, api.store.all("/pods")) == ([], version, [])


# ---- limits


def test_a_watch_too_many_is_refused_and_may_be_asked_for_later() -> None:
    async def main() -> None:
        server = HttpServer(an_api(), limits=HttpLimits(watches=2))
        port = await server.start("127.0.0.1", 0)
        url = f"http://127.0.0.1:{port}{NODES}"
        async with aiohttp.ClientSession() as session:
            first = await session.get(url, params={"watch": "true"})
            second = await session.get(url, params={"watch": "true"})
            assert (first.status, second.status) == (200, 200)
            async with session.get(url, params={"watch": "true"}) as third:
                said = await third.json()
                assert (third.status, third.headers["Retry-After"]) == (429, "5")
                assert said["message"] == "too many watches are open, please try again later"
            async with session.get(url) as plain:
                assert plain.status == 200
            first.close()
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    async with session.post(url, json={"metadata": {"generateName": "n-"}}) as created:
                        assert created.status == 201
                    async with session.get(url, params={"watch": "true"}) as fourth:
                        if fourth.status == 200:
                            break
                    await asyncio.sleep(0.01)
            second.close()
        await server.stop()

    asyncio.run(main())


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def main() -> None:
        server = HttpServer(an_api(), limits=HttpLimits(first_request_s=0.2))
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        await server.stop()

    asyncio.run(main())


def test_the_limits_leave_half_of_all_descriptors_to_the_rest() -> None:
    assert HttpLimits.within(1 << 16) == HttpLimits()
    assert HttpLimits.within(1000) == HttpLimits(500, 375)
    assert HttpLimits.within(8) == HttpLimits(16, 12)


# ---- web pages from elsewhere


FOREIGN = [{"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Origin": "http://evil.example"}, {"Origin": "null"}]


def test_without_a_token_web_pages_from_elsewhere_are_refused() -> None:
    with a_neighbour(nodes=0, settings=ServiceSettings(is_plain=True)) as cluster:
        for headers in FOREIGN:
            made = {"metadata": {"name": "foreign"}}
            assert refused(cluster.ask("POST", CONFIG_MAPS, made, headers=headers), 403, "Forbidden")
            assert refused(cluster.ask("GET", CONFIG_MAPS, headers=headers), 403, "Forbidden")
        assert "foreign" not in str(cluster.ask("GET", CONFIG_MAPS).body)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:1"])
def test_without_a_token_clients_of_this_machine_are_served(host: str) -> None:
    with a_neighbour(nodes=0, settings=ServiceSettings(is_plain=True)) as cluster:
        assert cluster.ask("GET", NODES, headers={"Host": host}).code == 200
        assert cluster.ask("GET", NODES, headers={"Host": host, "Origin": f"http://{host}"}).code == 200


def test_with_a_token_a_proxy_may_have_another_name(cluster: Neighbour) -> None:
    assert cluster.ask("GET", NODES, headers={"Host": "api.example", "Origin": "http://localhost:8001"}).code == 200
