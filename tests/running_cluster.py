"""A cluster that listens: `mooring up` in a process of its own, or the same in this one, and a client for either.

with a_process("--nodes", "3") as cluster:
    cluster.ask("GET", "/api/v1/nodes").body["items"]
    subprocess.run([kubectl, "get", "nodes"], env=cluster.environment)
"""

import asyncio
import base64
import http.client
import json
import os
import shlex
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

import yaml

from forked_commands import Started, start_mooring
from mooring.app.up import EmbeddedService, ServiceSettings, serving
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from mooring.embedded.seeding import seed

PATIENCE_S = 120.0
"""How long anything may take before a test gives up: far longer than it ever does."""

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the server. `body` is data where it is JSON, else text."""

    code: int
    body: Any
    headers: dict[str, str]


class Stream:
    """A watch that is being read."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self.response = response

    def next(self) -> JsonObject | None:
        """The next event; None: the server has ended the watch, and in the proper way."""
        line = self.response.readline()
        return json.loads(line) if line else None

    def until(self, picks: Callable[[JsonObject], bool]) -> list[JsonObject]:
        """Events up to the one that is picked."""
        events: list[JsonObject] = []
        for _ in range(100_000):
            event = self.next()
            assert event is not None, f"the watch ended after {events}"
            events.append(event)
            if picks(event):
                return events
        raise AssertionError("that never comes")

    def rest(self) -> list[JsonObject]:
        """All events until the server ends the watch."""
        return list(iter(self.next, None))

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class Client:
    """Speaks to a cluster as its kubeconfig says."""

    kubeconfig: Path
    server: str = ""
    token: str = ""
    authority: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        written = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = written["clusters"][0]["cluster"], written["users"][0]["user"]
        self.server, self.token = cluster["server"], user.get("token", "")
        self.authority = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()

    @property
    def environment(self) -> dict[str, str]:
        """For commands that are to find this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def ask(self, method: str, path: str, body: Any = None, headers: Any = None, **query: Any) -> Reply:
        """A request and its answer. A body is sent as JSON unless it is bytes; headers are added to the usual ones."""
        connection = self.connect()
        try:
            response = self._send(connection, method, path, body, headers or {}, query)
            content = response.read()
            is_json = (response.getheader("Content-Type") or "").startswith("application/json")
            read = json.loads(content) if is_json and content else content.decode()
            return Reply(response.status, read, dict(response.getheaders()))
        finally:
            connection.close()

    @contextmanager
    def watch(self, path: str, headers: Any = None, **query: Any) -> Iterator[Stream]:
        connection = self.connect()
        try:
            response = self._send(connection, "GET", path, None, headers or {}, {"watch": "true", **query})
            assert response.status == 200, response.read()
            yield Stream(connection, response)
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        url = urlsplit(self.server)
        assert url.hostname and url.port
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE_S)
        trust = (
            ssl.create_default_context(cadata=self.authority) if self.authority else ssl._create_unverified_context()
        )
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=PATIENCE_S, context=trust)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Any,
        headers: dict[str, str],
        query: dict[str, Any],
    ) -> http.client.HTTPResponse:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        usual = {"Accept": "application/json", "User-Agent": "tests/1.0"}
        usual |= {"Content-Type": "application/json"} if data is not None else {}
        usual |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        target = f"{path}?{urlencode(query)}" if query else path
        connection.request(method, target, data, {k: v for k, v in (usual | headers).items() if v})
        return connection.getresponse()

    # ---- waiting

    def wait(self, path: str, holds: Callable[[JsonObject], bool]) -> JsonObject:
        """The object at a path as soon as it is as wanted."""
        seen: Any = None
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            reply = self.ask("GET", path)
            seen = reply.body
            if reply.code == 200 and holds(reply.body):
                return reply.body  # type: ignore[no-any-return]
            time.sleep(0.02)
        raise AssertionError(f"{path} never became what it should: {json.dumps(seen, indent=1)}")

    def wait_gone(self, path: str) -> None:
        ends = time.monotonic() + PATIENCE_S
        while self.ask("GET", path).code != 404:
            assert time.monotonic() < ends, f"{path} is still there"
            time.sleep(0.02)


# ---- in a process of its own


@dataclass(slots=True)
class Process(Client):
    """A cluster in another process."""

    popen: Started | None = None
    log: Path = Path()

    def kill(self) -> None:
        """As the system does when memory runs out: nothing can be finished."""
        assert self.popen is not None
        self.popen.kill()
        self.popen.wait(PATIENCE_S)

    def stop(self) -> int:
        """As Ctrl-C does. Returns the exit status."""
        assert self.popen is not None
        self.popen.send_signal(signal.SIGINT)
        return self.popen.wait(PATIENCE_S)


def command(*arguments: str) -> list[str]:
    """`mooring` with these arguments, as it is in the tree. `start_mooring()` does the same with less work."""
    return [sys.executable, "-m", "mooring.cli.main", *arguments]


@contextmanager
def a_process(*arguments: str) -> Iterator[Process]:
    """`mooring up -q --port 0` with these arguments, ready. What it logged is printed when a test fails inside."""
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as scratch:
        log = Path(scratch) / "log"
        home = [] if "--kubeconfig" in arguments else ["--kubeconfig", str(Path(scratch) / "kubeconfig")]
        port = [] if "--port" in arguments else ["--port", "0"]
        reading, writing = os.pipe()
        with os.fdopen(reading) as told, log.open("w") as stderr:
            with os.fdopen(writing, "w") as stdout:
                popen = start_mooring("up", "-q", *port, *home, *arguments, stdout=stdout, stderr=stderr)
            try:
                yield Process(_announced(popen, told), popen=popen, log=log)
            except BaseException:
                print(f"--- what the cluster logged\n{log.read_text()}---", file=sys.stderr)
                raise
            finally:
                popen.kill()
                popen.wait()


def _announced(popen: Started, told: IO[str]) -> Path:
    """Where the kubeconfig is: the cluster says so once it can be reached."""
    timer = threading.Timer(PATIENCE_S, popen.kill)
    timer.start()
    try:
        line = told.readline()
    finally:
        timer.cancel()
    assert line.startswith("export KUBECONFIG="), f"the cluster did not start: {line!r}"
    return Path(shlex.split(line)[1].removeprefix("KUBECONFIG="))


# ---- in this process


@dataclass(slots=True)
class Neighbour(Client):
    """A cluster on another thread of this process."""

    cluster: EmbeddedCluster | None = None
    loop: asyncio.AbstractEventLoop | None = None
    reports: list[str] = field(default_factory=list)
    """What the cluster reported: faults. Empty, if all is well."""

    def within(self, act: Callable[[EmbeddedCluster], Any]) -> Any:
        """Do something on the thread of the cluster, where its objects may be touched."""
        assert self.cluster is not None and self.loop is not None

        async def run() -> Any:
            assert self.cluster is not None
            return act(self.cluster)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S)


@contextmanager
def a_neighbour(
    nodes: int = 3, items: tuple[JsonObject, ...] = (), settings: ServiceSettings | None = None
) -> Iterator[Neighbour]:
    """A cluster on a thread with its own event loop. A fault that it reports fails the test that caused it."""
    started: list[EmbeddedService | BaseException] = []
    is_started, is_done = threading.Event(), threading.Event()
    reports: list[str] = []
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as scratch:
        chosen = settings or ServiceSettings(kubeconfig=Path(scratch) / "kubeconfig")

        def report(text: str, fault: Exception | None) -> None:
            if not text.startswith("rejected a request"):  # a fault of the client's
                reports.append(f"{text}: {fault!r}")

        async def live() -> None:
            cluster = EmbeddedCluster(EmbeddedSettings(data_dir=chosen.data_dir), report=report)
            assert not seed(cluster.api, [*missing_nodes(nodes, ()), *items])
            async with serving(cluster, chosen, report) as service:
                started.append(service)
                is_started.set()
                await asyncio.to_thread(is_done.wait)

        def work() -> None:
            try:
                loop.run_until_complete(live())
            except BaseException as fault:
                started.append(fault)
            finally:
                is_started.set()
                loop.close()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert is_started.wait(PATIENCE_S)
        service = started[0]
        if isinstance(service, BaseException):
            raise service
        try:
            yield Neighbour(service.kubeconfig, cluster=service.cluster, loop=loop, reports=reports)
        finally:
            is_done.set()
            thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the cluster does not stop"
        assert not reports
