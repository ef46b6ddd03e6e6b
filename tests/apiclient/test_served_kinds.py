"""Discovery: what its documents say, what odd ones cannot do, how often a server is asked, and which version is chosen."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api.api_errors import ApiError, forbidden
from mooring.api.kind_spec import KindSpec, Watch
from mooring.apiclient.client import ApiClient, TaggedDocument
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import ConnectionLost, Unreadable
from mooring.apiclient.reflectors.watch_streams import advice, unwatched_text
from mooring.apiclient.served_kinds import ACCEPT, PERIOD_S, SHORTEST_PAUSE_S, Discovery, NotServed, ServedKinds
from mooring.apiclient.throttle import Timing
from recording_server import Recorded, a_recorder, said

GROUP = KindSpec(
    *("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"),
    other_versions=("scheduling.k8s.io/v1alpha3",),
    watch=Watch(needs_gate="GenericWorkload"),
)
PODS = KindSpec("", "v1", "pods", "Pod")
KINDS = (PODS, GROUP)
LISTED = ["get", "list", "watch"]


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(within_time())


def aggregated(*versions: str, group: str = "scheduling.k8s.io", resource: str = "podgroups") -> dict[str, Any]:
    lines = [{"version": each, "resources": [{"resource": resource, "verbs": LISTED}]} for each in versions]
    return {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": group}, "versions": lines}]}


CORE = aggregated("v1", group="", resource="pods")


@dataclass
class Server:
    """Answers by path: a document, an exception, or nothing: then 404."""

    documents: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def get_document(self, path: str, accept: str, etag: str = "") -> TaggedDocument | None:
        self.asked.append(path)
        await asyncio.sleep(0)
        answer = self.documents.get(path, ApiError(404, "NotFound", "no"))
        if isinstance(answer, Exception):
            raise answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        tag = str(hash(body))
        return None if etag == tag else TaggedDocument(body, tag)


def asked_once(server: Server) -> Discovery:
    return Discovery(server, KINDS)


# ---- documents

OLD = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {"name": "example.com", "versions": [{"groupVersion": "example.com/v1"}]},
            {
                "name": "scheduling.k8s.io",
                "versions": [{"groupVersion": f"scheduling.k8s.io/{each}"} for each in ("v1", "v1beta1", "v1alpha2")],
            },
        ],
    },
    "/api/v1": {"kind": "APIResourceList", "resources": [{"name": "pods", "verbs": LISTED}]},
    "/apis/scheduling.k8s.io/v1beta1": {
        "kind": "APIResourceList",
        "resources": [{"name": "podgroups", "verbs": LISTED}, {"name": "podgroups/status", "verbs": ["get", "patch"]}],
    },
}


def test_the_aggregated_form_takes_two_requests() -> None:
    async def main() -> None:
        server = Server({"/api": CORE, "/apis": aggregated("v1alpha3", "v1beta1")})
        served = await asked_once(server).ask()
        assert server.asked == ["/api", "/apis"]
        best = served.best(GROUP)
        assert best is not None and best.url("ns", "g") == "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g"
        assert served.best(PODS) is PODS

    run(main())


def test_the_old_form_is_asked_for_the_groups_that_matter_only() -> None:
    async def main() -> None:
        server = Server(OLD)
        served = await asked_once(server).ask()
        assert server.asked == [
            *("/api", "/api/v1", "/apis"),
            *(f"/apis/scheduling.k8s.io/{each}" for each in ("v1", "v1beta1", "v1alpha2")),
        ]
        assert served.of(GROUP) == ["v1beta1"] and served.of(PODS) == ["v1"]

    run(main())


def test_what_cannot_be_listed_is_not_served() -> None:
    async def main() -> None:
        document = aggregated("v1beta1")
        document["items"][0]["versions"][0]["resources"][0]["verbs"] = ["create"]
        served = await asked_once(Server({"/api": CORE, "/apis": document})).ask()
        assert served.best(GROUP) is None

    run(main())


HOSTILE = [
    pytest.param(b"<html>", Unreadable, id="a page of a proxy"),
    pytest.param(b'{"kind":"APIGroupDiscoveryList","items":{"a":1}}', Unreadable, id="another type"),
    pytest.param(b"[" * 100_000, Unreadable, id="deep nesting"),
    pytest.param({"kind": "PodList", "items": []}, Unreadable, id="another document"),
    pytest.param({}, Unreadable, id="an empty object, which would end all watches"),
    pytest.param({"kind": "Status", "status": "Failure", "code": 500, "message": "x"}, ApiError, id="a status"),
    pytest.param({"kind": "APIGroupDiscoveryList", "items": None}, None, id="null for an empty list"),
    pytest.param({"kind": "APIGroupDiscoveryList", "items": [{"versions": None}]}, None, id="a group without anything"),
    pytest.param(
        {"kind": "APIGroupList", "groups": [{"name": "x", "versions": None}]}, None, id="null in the old form"
    ),
]


@pytest.mark.parametrize(("document", "fault"), HOSTILE)
def test_odd_documents(document: Any, fault: type[Exception] | None) -> None:
    async def main() -> None:
        discovery = asked_once(Server({"/api": CORE, "/apis": document}))
        if fault is None:
            assert (await discovery.ask()).of(GROUP) == []
        else:
            with pytest.raises(fault):
                await discovery.ask()

    run(main())


def test_a_document_that_is_unchanged_is_not_sent_again() -> None:
    bodies = {"/api": CORE, "/apis": aggregated("v1beta1")}

    async def answer(request: Recorded) -> bytes:
        if request.headers.get("if-none-match") == '"7"':
            return b"HTTP/1.1 304 Not Modified\r\n\r\n"
        return said(200, bodies[request.path], ETag='"7"')

    async def main() -> None:
        async with a_recorder(answer) as recorder, ApiClient(ConnectionSettings(recorder.url), "test/1") as client:
            discovery = Discovery(client, KINDS)
            first = await discovery.ask()
            assert await discovery.ask() == first and first.of(GROUP) == ["v1beta1"]
            assert recorder.requests[0].headers["accept"] == ACCEPT
            assert [request.headers.get("if-none-match") for request in recorder.requests] == [None, None, '"7"', '"7"']

    run(main())


# ---- what is said


def test_a_server_that_has_only_a_version_that_is_gone_is_said_so() -> None:
    async def main() -> None:
        kinds = ServedKinds(Server({"/api": CORE, "/apis": aggregated("v1alpha2")}), KINDS)
        asking = asyncio.create_task(kinds.run())
        with pytest.raises(NotServed) as raised:
            await kinds.find(GROUP)
        asking.cancel()
        has = "the server has v1alpha2, Mooring reads v1beta1, v1alpha3"
        text = f"the server does not serve podgroups.scheduling.k8s.io: {has}"
        assert str(raised.value) == text == unwatched_text(GROUP, raised.value)
        assert advice(GROUP, raised.value) == (
            f"Failed to watch podgroups.scheduling.k8s.io: {text} (404). Until that changes, the scheduler continues as if "
            "there were none, and asks again from time to time. The server does not serve scheduling.k8s.io/v1beta1 or "
            "scheduling.k8s.io/v1alpha3: kubectl api-resources --api-group=scheduling.k8s.io shows what it does serve."
        )

    run(main())


def test_pages_that_anyone_may_read_name_no_user() -> None:
    refusal = forbidden("podgroups", "", 'User "system:eve" cannot list', "scheduling.k8s.io")
    text = unwatched_text(GROUP, refusal)
    assert text == "podgroups.scheduling.k8s.io: the server does not allow get, list and watch"


# ---- when the server is asked


@dataclass
class Clock:
    """Sleepers wait until the test lets time pass."""

    now_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)
    _sleepers: list[tuple[float, "asyncio.Future[None]"]] = field(default_factory=list)

    async def sleep(self, for_s: float) -> None:
        self.slept_s.append(for_s)
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now_s + for_s, future))
        await future

    async def let_pass(self, for_s: float) -> None:
        ends_s = self.now_s + for_s
        while due := sorted(each for each, future in self._sleepers if each <= ends_s and not future.done()):
            self.now_s = due[0]
            for until_s, future in self._sleepers:
                if until_s <= self.now_s and not future.done():
                    future.set_result(None)
            await rest()
        self.now_s = ends_s


async def rest() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def scene(act: Callable[[ServedKinds, Server, Clock], Coroutine[Any, Any, None]], draw: float = 0.0) -> None:
    async def main() -> None:
        server, clock = Server({"/api": CORE, "/apis": aggregated("v1beta1")}), Clock()
        kinds = ServedKinds(server, KINDS, Timing(lambda: clock.now_s, clock.sleep), lambda: draw)
        running = asyncio.create_task(kinds.run())
        await rest()
        try:
            await act(kinds, server, clock)
            assert not running.done()
        finally:
            running.cancel()

    run(main())


@pytest.mark.parametrize(("draw", "period_s"), [(0.0, PERIOD_S), (1.0, 1.5 * PERIOD_S)])
def test_a_server_is_asked_about_once_a_minute(draw: float, period_s: float) -> None:
    async def act(kinds: ServedKinds, server: Server, clock: Clock) -> None:
        assert server.asked.count("/apis") == 1
        await clock.let_pass(period_s - 1)
        assert server.asked.count("/apis") == 1
        await clock.let_pass(1)
        assert server.asked.count("/apis") == 2
        await clock.let_pass(10 * period_s)
        assert server.asked.count("/apis") == 12

    scene(act, draw)


def test_many_that_ask_are_answered_by_one_request() -> None:
    async def act(kinds: ServedKinds, server: Server, clock: Clock) -> None:
        rechecks = [asyncio.create_task(kinds.recheck(GROUP)) for _ in range(20)]
        for _ in range(20):
            kinds.ask_soon()
        await rest()
        assert server.asked.count("/apis") == 1 and not any(each.done() for each in rechecks)
        await clock.let_pass(SHORTEST_PAUSE_S)
        assert server.asked.count("/apis") == 2 and all(each.done() for each in rechecks)

    scene(act)


def test_a_failure_changes_nothing_that_is_known_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def act(kinds: ServedKinds, server: Server, clock: Clock) -> None:
        server.documents["/apis"] = ConnectionLost("the connection was lost")
        await clock.let_pass(5 * PERIOD_S)
        assert 10 <= server.asked.count("/apis") <= 20, "every 2 s at first, every 30 s at last"
        assert kinds.found(GROUP).api_version == "scheduling.k8s.io/v1beta1"
        assert [record.getMessage() for record in caplog.records] == [
            "Failed to discover what the server serves: the connection was lost"
        ]

    scene(act)


def test_a_server_that_starts_and_refuses_is_asked_again_soon() -> None:
    """An API server that has not read its roles yet answers 403: what it serves is known seconds later."""

    async def act(kinds: ServedKinds, server: Server, clock: Clock) -> None:
        server.documents["/api"] = ApiError(403, "Forbidden", 'User "x" cannot get path "/api"')
        kinds.ask_soon()
        await clock.let_pass(SHORTEST_PAUSE_S)
        asked = server.asked.count("/apis")
        server.documents["/api"] = CORE
        await clock.let_pass(5)
        assert server.asked.count("/apis") > asked

    scene(act)


def test_a_server_that_does_not_answer_is_asked_less_and_less_often() -> None:
    async def act(kinds: ServedKinds, server: Server, clock: Clock) -> None:
        server.documents["/api"] = ConnectionLost("the connection was lost")
        for _ in range(600):
            kinds.ask_soon()
            await clock.let_pass(1)
        assert 20 <= server.asked.count("/api") <= 30, "every 2 s at first, every 30 s at last"
        server.documents["/api"] = CORE
        await clock.let_pass(30)
        asked = server.asked.count("/api")
        kinds.ask_soon()
        await rest()
        assert server.asked.count("/api") == asked + 1, "after an answer the pause is short again"

    scene(act)


def test_one_waits_for_a_change_and_not_for_an_answer() -> None:
    async def act(kinds: ServedKinds, server: Server, clock: Clock) -> None:
        waiting = asyncio.create_task(kinds.wait_for_change(GROUP, 1e6))
        await clock.let_pass(3 * PERIOD_S)
        assert not waiting.done()
        server.documents["/apis"] = aggregated("v1alpha3")
        await clock.let_pass(PERIOD_S)
        assert waiting.done() and kinds.found(GROUP).api_version == "scheduling.k8s.io/v1alpha3"

    scene(act)


def test_while_discovery_does_not_work_versions_that_were_not_there_are_left_out() -> None:
    async def main() -> None:
        clock = Clock()
        server = Server({"/api": forbidden("", "", "no")})
        kinds = ServedKinds(server, KINDS, Timing(lambda: clock.now_s, clock.sleep))
        running = asyncio.create_task(kinds.run())
        first = await kinds.find(GROUP)
        for expected in ("scheduling.k8s.io/v1alpha3", ""):
            checking = asyncio.create_task(kinds.recheck(first))
            await clock.let_pass(SHORTEST_PAUSE_S)
            await checking
            if expected:
                first = kinds.found(GROUP)
                assert first.api_version == expected
        with pytest.raises(NotServed):
            kinds.found(GROUP)
        waiting = asyncio.create_task(kinds.wait_for_change(GROUP, PERIOD_S))
        await rest()
        await clock.let_pass(PERIOD_S)
        await waiting
        assert kinds.found(GROUP) is GROUP, "after a while all are worth another try"
        running.cancel()

    run(main())
