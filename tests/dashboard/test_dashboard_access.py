"""Who gets what from the listener on loopback: tokens, hosts, origins, bodies, and names that are made to do harm."""

import asyncio
import io
import json
from typing import Any
from urllib.parse import quote

import pytest

from build import a_node, a_pod
from dashboard_stage import TOKEN, StagedClient, StagedSource, with_dashboard
from mooring.dashboard.interfaces import AskedChanges, DoneChanges, Question, Refused
from mooring.dashboard.serving.api_paths import MAX_BODY_BYTES, DashboardParts

BEARER = {"Authorization": f"Bearer {TOKEN}"}
API = "/dashboard/api/"
HOSTILE = '</script><img src=x onerror="alert(1)">\u202e\x1b[31m'


class StagedQuestions:
    """Answers with the question."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.closed = False

    async def ask(self, question: Question) -> bytes:
        self.asked.append(question)
        if isinstance(question, AskedChanges) and not question.changes:
            raise Refused(422, "no change")
        return b'{"asked":1}'

    async def close(self) -> None:
        self.closed = True


class StagedDoings:
    def __init__(self) -> None:
        self.done: list[AskedChanges] = []

    async def do(self, changes: AskedChanges) -> DoneChanges:
        self.done.append(changes)
        return DoneChanges([each.change for each in changes.changes], [])


def all_parts(*items: Any) -> DashboardParts:
    return DashboardParts(StagedSource(*items), "1", StagedQuestions(), StagedDoings())


def asked(method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> tuple[int, Any, Any]:
    async def test(client: StagedClient) -> tuple[int, Any, Any]:
        return await client.ask(method, path, headers, **more)

    return with_dashboard(all_parts(a_node("n"), a_pod("p", cpu="9")), test)


async def raw(client: StagedClient, request: bytes) -> bytes:
    """What the server sends for these bytes, up to the end of the connection or two seconds of silence."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
    writer.write(request)
    received = b""
    try:
        while part := await asyncio.wait_for(reader.read(65536), 2):
            received += part
            if b"\r\n\r\n" in received:
                break
    finally:
        writer.close()
    return received


PATHS = [
    "session",
    "stream",
    "history",
    "nodes/n",
    "pods",
    "pods/default/p",
    "pods/default/p/explanation",
    "nodes/n/rejections",
    "what-if",
    "do",
    "nothing",
]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_is_told_without_the_token(method: str) -> None:
    async def test(client: StagedClient) -> None:
        for path in PATHS:
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": TOKEN},
                {"Authorization": f"Basic {TOKEN}"},
            ):
                status, body, _ = await client.ask(method, API + path, headers)
                assert (status, body) == (401, {"message": "a token is needed: open the link that the program printed"})

    with_dashboard(all_parts(a_node("n")), test)


@pytest.mark.parametrize("token", ["", "a", TOKEN[:-1], TOKEN + "x", "ü", "\x80" * 100, "x" * 5000])
def test_only_the_whole_token_counts(token: str) -> None:
    async def test(client: StagedClient) -> bytes:
        head = f"GET {API}session HTTP/1.1\r\nHost: {client.url.removeprefix('http://')}\r\n".encode()
        return await raw(client, head + b"Authorization: Bearer " + token.encode("utf-8") + b"\r\n\r\n")

    assert with_dashboard(all_parts(), test).split(b" ")[1] in (b"401", b"400")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", ""]
)
def test_a_name_that_someone_points_at_this_machine_is_refused(host: str) -> None:
    """Also for the files: a page of ours under a foreign name would have the rights of that name."""

    async def test(client: StagedClient) -> None:
        name = host.format(port=client.url.rpartition(":")[2])
        for path in ("/", "/dashboard/", f"{API}session"):
            status, _, _ = await client.ask("GET", path, {**BEARER, "Host": name})
            assert status == 403

    with_dashboard(all_parts(), test)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_the_names_of_this_machine_are_answered(host: str) -> None:
    async def test(client: StagedClient) -> int:
        name = f"{host}:{client.url.rpartition(':')[2]}"
        return (await client.ask("GET", f"{API}session", {**BEARER, "Host": name}))[0]

    assert with_dashboard(all_parts(), test) == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1",
        "https://127.0.0.1:1",
        "file://",
        "",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_from_elsewhere_are_refused_even_with_the_token(origin: str, method: str) -> None:
    parts = all_parts()

    async def test(client: StagedClient) -> None:
        written = origin.format(port=client.url.rpartition(":")[2])
        body = {"json": {"changes": [{"change": "drain", "value": "n"}]}} if method == "POST" else {}
        path = "do" if method == "POST" else "session"
        status, _, headers = await client.ask(method, API + path, {**BEARER, "Origin": written}, **body)
        assert status == 403
        assert not any(name.lower().startswith("access-control") for name in headers)

    with_dashboard(parts, test)
    assert isinstance(parts.doings, StagedDoings)
    assert parts.doings.done == []


def test_our_own_page_may_write() -> None:
    async def test(client: StagedClient) -> tuple[int, Any, Any]:
        changes = {"changes": [{"change": "drain", "value": "n"}]}
        return await client.ask("POST", f"{API}do", {**BEARER, "Origin": client.url}, json=changes)

    assert with_dashboard(all_parts(), test)[:2] == (200, {"done": ["drain"], "failed": []})


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
def test_a_form_cannot_write(kind: str) -> None:
    """These are the types that a browser sends to another site without asking there first."""
    status, _, _ = asked("POST", f"{API}do", {**BEARER, "Content-Type": kind}, data=b'{"changes":[]}')
    assert status == 415


def test_a_browser_that_asks_first_gets_no_permission() -> None:
    status, _, headers = asked("OPTIONS", f"{API}do", {**BEARER, "Access-Control-Request-Method": "POST"})
    assert status == 405
    assert not any(name.lower().startswith("access-control") for name in headers)


BODIES = {
    "no JSON": b"{",
    "another form": b'{"changes":{}}',
    "unknown fields": b'{"changes":[],"more":1}',
    "not text": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "nothing": b"",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("path", ["do", "what-if"])
def test_bodies_that_cannot_be_read(path: str, body: bytes) -> None:
    status, answer, _ = asked("POST", API + path, {**BEARER, "Content-Type": "application/json"}, data=body)
    assert status == 400
    assert answer["message"].startswith("the body cannot be read: ")


def test_large_bodies_are_refused_whether_or_not_their_length_is_told() -> None:
    async def pieces() -> Any:
        for _ in range(20):
            yield b"x" * (MAX_BODY_BYTES // 10)

    async def test(client: StagedClient) -> None:
        headers = {**BEARER, "Content-Type": "application/json"}
        for data in (io.BytesIO(b"x" * (MAX_BODY_BYTES + 1)), pieces()):
            status, body, _ = await client.ask("POST", f"{API}what-if", headers, data=data)
            assert (status, body["message"]) == (413, "the body is larger than 1048576 bytes")

    with_dashboard(all_parts(), test)


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.dashboard.serving.dashboard_handler._BODY_S", 0.05)

    async def test(client: StagedClient) -> bytes:
        host = client.url.removeprefix("http://")
        head = f"POST {API}do HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
        return await raw(client, f"{head}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{{".encode())

    assert with_dashboard(all_parts(), test).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/../../../../etc/passwd",
        "/dashboard/assets/../../interfaces.py",
        "/dashboard/%2e%2e/%2e%2e/etc/passwd",
        "/dashboard/..%5c..%5cetc",
        "/dashboard/assets/%00",
        "//dashboard/",
        "/dashboard//",
        "/dashboard/api",
    ],
)
def test_paths_as_they_are_sent_lead_nowhere(path: str) -> None:
    """Clients tidy paths up before they send them; this one does not."""

    async def test(client: StagedClient) -> bytes:
        return await raw(client, f"GET {path} HTTP/1.1\r\nHost: {client.url.removeprefix('http://')}\r\n\r\n".encode())

    assert with_dashboard(all_parts(), test).split(b" ")[1] in (b"404", b"400")


def test_a_path_that_climbs_into_the_data_needs_the_token() -> None:
    async def test(client: StagedClient) -> list[bytes]:
        host = client.url.removeprefix("http://")
        paths = ("/dashboard/assets/../api/session", "/dashboard/%61pi/session", "/dashboard/./api/session")
        return [await raw(client, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) for path in paths]

    for reply in with_dashboard(all_parts(), test):
        assert reply.split(b" ")[1] in (b"404", b"401")
        assert b"program" not in reply


def test_every_reply_has_the_headers() -> None:
    async def test(client: StagedClient) -> None:
        for path in ("/dashboard/", "/dashboard/assets/index-4f2a.js", f"{API}session", f"{API}nothing", "/", "/x"):
            for headers in (BEARER, {}):
                _, _, got = await client.ask("GET", path, headers)
                assert "default-src 'none'" in got["Content-Security-Policy"]
                assert "unsafe" not in got["Content-Security-Policy"]
                assert got["X-Content-Type-Options"] == "nosniff"
                assert got["Referrer-Policy"] == "no-referrer"
                assert got["Cross-Origin-Opener-Policy"] == "same-origin"
                assert "Set-Cookie" not in got
                assert "aiohttp" not in got["Server"]
                if path.startswith(API):
                    assert got["Cache-Control"] == "no-store"

    with_dashboard(all_parts(), test)


# ---- hostile input


def test_names_labels_and_messages_come_out_as_text_of_json() -> None:
    """Whatever an object contains: it is JSON with a type that no browser runs, and parses back to the same text."""
    parts = all_parts(
        a_node(HOSTILE, labels={HOSTILE: HOSTILE}, taints=[f"{HOSTILE.replace(':', '')}:NoSchedule"]),
        a_pod(HOSTILE, namespace=HOSTILE, cpu="9", labels={HOSTILE: HOSTILE}, schedulingGates=[{"name": HOSTILE}]),
    )

    async def test(client: StagedClient) -> None:
        name = quote(HOSTILE, safe="")
        node = await client.get(f"nodes/{name}")
        assert (node["name"], node["labels"]) == (HOSTILE, {HOSTILE: HOSTILE})
        pod = await client.get(f"pods/{name}/{name}")
        assert (pod["namespace"], pod["name"], pod["gates"]) == (HOSTILE, HOSTILE, [HOSTILE])
        assert (await client.get(f"pods?query={name}"))["total"] == 1
        status, body, headers = await client.ask("GET", f"{API}nodes/{name}x")
        assert (status, headers["Content-Type"]) == (404, "application/json")
        assert body["message"].endswith(f"{HOSTILE}x")
        status, raw_body, _ = await client.ask("GET", f"{API}pods")
        assert b"\n" not in json.dumps(raw_body).encode()

    with_dashboard(parts, test)


def test_texts_that_are_no_proper_unicode_do_not_stop_the_others() -> None:
    """A plugin may say anything; its words are in the status of the pod."""
    condition = {"type": "PodScheduled", "status": "False", "message": "half a character: "}
    bad = a_pod("bad", cpu="9", status={"conditions": [condition]})
    assert bad.status.conditions is not None
    bad.status.conditions[0].message = "half a character: \ud800\u2028"
    parts = all_parts(a_node("n"), bad, a_pod("good", cpu="9"))

    async def test(client: StagedClient) -> None:
        listed = await client.get("pods")
        assert [pod["message"] for pod in listed["pods"]] == ["half a character: \ud800\u2028", ""]
        async with client.session.get(f"{client.url}{API}stream", headers=BEARER) as reply:
            received = b""
            async with asyncio.timeout(5):
                while b"event: pending" not in received or not received.endswith(b"\n\n"):
                    received += await reply.content.readany()
        assert b"half a character: \\ud800" in received

    with_dashboard(parts, test)


def test_a_name_cannot_add_parts_to_a_path() -> None:
    parts = all_parts(a_node("a"))

    async def test(client: StagedClient) -> None:
        status, _, _ = await client.ask("GET", f"{API}nodes/a%2Frejections")
        assert status == 404
        status, _, _ = await client.ask("GET", f"{API}nodes/a/rejections")
        assert status == 200

    with_dashboard(parts, test)
    assert isinstance(parts.questions, StagedQuestions)
    assert len(parts.questions.asked) == 1


def test_ten_thousand_labels_and_pods_make_bounded_replies() -> None:
    labels = {f"label-{i}": HOSTILE for i in range(10_000)}
    parts = all_parts(
        a_node("n", labels=labels), *(a_pod(f"p{i}", labels=labels if i == 0 else {}) for i in range(1000))
    )

    async def test(client: StagedClient) -> None:
        assert len((await client.get("nodes/n"))["labels"]) == 500
        assert len((await client.get("pods/default/p0"))["labels"]) == 500
        listed = await client.get("pods?limit=1000000")
        assert (len(listed["pods"]), listed["total"]) == (500, 1000)

    with_dashboard(parts, test)


@pytest.mark.parametrize(
    "query", ["state=other", "limit=x", "limit=1e9", "limit=" + "9" * 30, "&".join(f"a{i}=1" for i in range(200))]
)
def test_parameters_that_cannot_be_read(query: str) -> None:
    status, body, _ = asked("GET", f"{API}pods?{query}")
    assert status == 400
    assert body["message"]


def test_a_fault_is_logged_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr("mooring.dashboard.serving.api_paths.node_page", broken)

    async def test(client: StagedClient) -> None:
        status, body, _ = await client.ask("GET", f"{API}nodes/n")
        assert (status, body) == (500, {"message": "the dashboard failed to answer; the log says why"})
        assert "the secret of the house" in client.faults.pop()

    with_dashboard(all_parts(), test)


# ---- what is not there


def test_paths_whose_parts_are_missing_do_not_exist() -> None:
    async def test(client: StagedClient) -> None:
        for method, path in (
            ("POST", "what-if"),
            ("POST", "do"),
            ("GET", "replay"),
            ("POST", "replay/seek"),
            ("GET", "pods/default/p/explanation"),
            ("GET", "nodes/n/rejections"),
        ):
            status, body, _ = await client.ask(method, API + path, {**BEARER, "Content-Type": "application/json"})
            assert (status, body) == (404, {"message": "there is no such path in the dashboard"})

    with_dashboard(DashboardParts(StagedSource(a_node("n"), a_pod("p")), "1"), test)


def test_questions_reach_whoever_answers_and_are_ended_with_the_server() -> None:
    parts = all_parts()

    async def test(client: StagedClient) -> None:
        assert await client.get("pods/a/b/explanation") == {"asked": 1}
        status, body, _ = await client.ask("POST", f"{API}what-if", json={"changes": []})
        assert (status, body) == (422, {"message": "no change"})

    with_dashboard(parts, test)
    assert isinstance(parts.questions, StagedQuestions)
    assert parts.questions.closed
