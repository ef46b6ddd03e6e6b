"""Text of tenants and of callers on the pages of `mooring run`: every page is plain text or data, no browser takes it for
HTML, and no text of a caller stops the server."""

import asyncio
import json
import logging
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from build import a_node, a_pod
from fake_client import FakeClient
from hostile_text import HOSTILE, MARK
from mooring.framework.config import default
from mooring.kit.clock import WallClock
from mooring.kit.logs import Log
from mooring.scheduler.inputs import ObjectAdded
from mooring.serve.cache_debugger import snapshot
from mooring.serve.pages.access import AccessSettings, request_authorizer
from mooring.serve.pages.pages import Health, Pages, Sources, health_pages, json_document
from mooring.serve.pages.server import WebServer
from mooring.state.scheduler_assembly import build_scheduler

HALF = "\ud800"
"""Half of a character, which UTF-8 cannot have."""
TEXTS = (HOSTILE, HOSTILE + HALF)
SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))
KINDS = ("text/plain", "application/json", "application/yaml")
FIXED = ("/debug/flags",)
"""Pages in HTML, as upstream has them. They show nothing of anyone."""


class Reviewer(FakeClient):
    """An API server that refuses everyone, in hostile words."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def post(self, path: str, body: Any, params: Any = None) -> Any:
        self.asked.append(json.loads(json.dumps(body).encode()))
        status = {
            "allowed": False,
            "reason": HOSTILE,
            "authenticated": "good" in str(body),
            "user": {"username": HOSTILE},
        }
        return {"status": status}


def hostile_pages(text: str) -> Pages:
    """All texts that pages get from others are hostile."""
    scheduler = build_scheduler(default(), WallClock())
    scheduler.handle(ObjectAdded(a_node("n", labels={"zone": text})))
    scheduler.handle(ObjectAdded(a_pod("p", labels={"app": text}, schedulerName="default-scheduler")))
    sources = Sources(
        metrics=lambda: f'pods{{profile="{MARK}"}} 1\n'.encode(),
        resource_metrics=lambda: b"",
        sli_metrics=lambda: b"",
        reset_metrics=lambda: None,
        configuration=lambda: {"profiles": [{"schedulerName": text}]},
        flags=lambda: {"config": text},
        set_verbosity=lambda verbosity: None,
    )
    health = Health(True, lambda: False, lambda: True)
    more = {"/debug/mooring/snapshot": lambda question: json_document(snapshot(scheduler, default()))}
    return Pages(sources, health_pages(health, SILENT), WallClock(), time.time_ns(), more=more)


@dataclass(frozen=True)
class Received:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers["content-type"].partition(";")[0]


async def send(port: int, head: bytes, body: bytes = b"") -> Received:
    """A request byte for byte: clients refuse to send what is hostile."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    length = f"Content-Length: {len(body)}\r\n".encode() if body else b""
    writer.write(head + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + length + b"\r\n" + body)
    answer = await reader.read()
    writer.close()
    top, _, rest = answer.partition(b"\r\n\r\n")
    first, *lines = top.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Received(int(first.split()[1]), headers, rest)


def ask_all(pages: Pages, requests: Sequence[tuple[bytes, bytes]], reviewer: Reviewer | None = None) -> list[Received]:
    """Send the requests one after another to a server with these pages."""

    async def main() -> list[Received]:
        settings = AccessSettings(always_allowed=() if reviewer else ("/*",))
        server = WebServer(pages, request_authorizer(settings, reviewer, reviewer, time.monotonic, SILENT), SILENT)
        port = await server.start("127.0.0.1", 0, None)
        try:
            return [await send(port, head, body) for head, body in requests]
        finally:
            await server.stop()

    return asyncio.run(main())


def check_plain(received: Received) -> None:
    """No browser makes a document of it, and it controls no terminal."""
    assert received.headers["x-content-type-options"] == "nosniff"
    assert received.kind in KINDS, received
    text = received.body.decode()
    for line in text.split("\n"):
        if received.kind == "text/plain":
            hidden = [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
            assert not hidden, f"{hidden}: {line!r}"
            assert not line.startswith("FORGED"), line


def test_every_page_is_text_or_data() -> None:
    for text in TEXTS:
        pages = hostile_pages(text)
        paths = [path for path in pages._handlers if path not in FIXED]
        seen = b""
        for received in ask_all(pages, [(f"GET {path} HTTP/1.1".encode(), b"") for path in paths]):
            assert received.status in (200, 406), received
            check_plain(received)
            seen += received.body
            if received.kind == "application/json":
                json.loads(received.body)
        assert seen.count(MARK.encode()) >= 5  # metrics, configuration, flags, node and pod


def test_pages_for_programs_keep_the_text() -> None:
    for text in TEXTS:
        for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
            accept = f"Accept: application/{form};v=v1beta1;g=config.k8s.io;as=Flagz"
            (received,) = ask_all(hostile_pages(text), [(f"GET /flagz HTTP/1.1\r\n{accept}".encode(), b"")])
            check_plain(received)
            assert read(received.body)["flags"] == {"config": text}


MARKUP = b"<img%20src=x%20onerror=alert(1)>%0aFORGED%1b[31m%e2%80%ae"
"""In a URL, whose parser refuses other bytes."""
RAW = b"<svg/onload=alert(1)>\xff\xfe\xe2\x80\xae"
REQUESTS: list[tuple[bytes, bytes]] = [
    (b"GET /" + MARKUP + b" HTTP/1.1", b""),
    (b"GET /%ff%fe HTTP/1.1", b""),
    (b"GET /readyz?verbose&exclude=" + MARKUP + b" HTTP/1.1", b""),
    (b"GET /readyz?verbose&exclude=%ff&%fe=<svg> HTTP/1.1", b""),
    (b"GET /flagz HTTP/1.1\r\nAccept: " + RAW, b""),
    (b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer " + RAW, b""),
    (b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer good" + RAW, b""),
    (b"GET /metrics HTTP/1.1\r\nOrigin: " + RAW, b""),
    (b"PUT /debug/flags/v HTTP/1.1", RAW + b"\nFORGED"),
    (b"PUT /debug/flags/v HTTP/1.1", b"9" * 4000),
]


def test_text_of_callers_comes_back_as_text() -> None:
    for received in ask_all(hostile_pages("plain"), REQUESTS):
        check_plain(received)
        assert received.status in (200, 400, 403, 404, 406), received


def test_text_of_callers_reaches_reviews_as_text() -> None:
    reviewer = Reviewer()
    for received in ask_all(hostile_pages("plain"), REQUESTS, reviewer):
        check_plain(received)
        assert received.status in (400, 401, 403), received
    assert len(reviewer.asked) > 3
