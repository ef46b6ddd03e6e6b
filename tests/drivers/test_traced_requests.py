"""Requests of attempts that are traced: spans of the same trace, and a header that names them to the server."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from build import a_node, a_pod
from build_storage import a_claim, a_class, using
from extending import a_config
from mooring.api.api_errors import ApiError, conflict
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.lean_client import LeanClient
from mooring.drivers.api_writer import ApiWriter, WriteClients
from mooring.drivers.dry_run import DrySender
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.extender_calls import ExtenderCaller
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.status_writer import StatusWriter
from mooring.drivers.traced_requests import RequestTraces, resource_of_path
from mooring.framework import config
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.kit.clock import SteadyClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler
from recording_server import Answer, Recorded, Recorder, Time, a_recorder, always, refused, said, script
from silent_writer import SilentWriter
from span_reading import NO_PLUGINS_NS, RecordedSpans, about

PODS = "/api/v1/namespaces/default/pods"


def our_pod(name: str = "p", **more: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler", **more)


class Stage:
    """A scheduler with its driver, whose requests go to a recording server."""

    def __init__(self, recorder: Recorder, client: LeanClient, time: Time, ratio: float, extenders: bool) -> None:
        self.recorder = recorder
        self.spans = RecordedSpans(ratio)
        clock = SteadyClock()
        traces = self.spans.around(Observer(), clock, NO_PLUGINS_NS)
        settings: KubeSchedulerConfiguration = config.default()
        if extenders:
            settings = a_config(
                {
                    "urlPrefix": f"{recorder.url}/ext",
                    "filterVerb": "filter",
                    "bindVerb": "bind",
                    "nodeCacheCapable": True,
                }
            )
        self.scheduler = build_scheduler(settings, clock, listeners=SchedulerListeners(observer=traces))
        requests = RequestTraces(traces, clock)
        clients = WriteClients(client, client, client, client)
        traced = ApiWriter(clients, time.timing(), traces=requests)
        events = EventWriter(SilentWriter(), clock, clock, "host", time.timing())
        statuses = StatusWriter(traced, clock)
        self.driver = LiveDriver(self.scheduler, clock, traced, events, statuses, time.timing())
        if extenders:
            self.driver.extenders = ExtenderCaller(
                self.scheduler, lambda item: item, self.driver.go_on, traces=requests
            )

    def shows(self, *items: KubeObject) -> None:
        for item in items:
            self.scheduler.handle(ObjectAdded(item))
        self.driver.wake()

    async def until(self, line: str) -> Recorded:
        """The request has come and its answer is taken in."""
        async with asyncio.timeout(10):
            while line not in self.recorder.lines:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
        return next(request for request in self.recorder.requests if request.line == line)


@asynccontextmanager
async def a_stage(answer: Answer, ratio: float = 1.0, extenders: bool = False) -> AsyncIterator[Stage]:
    time = Time()
    async with a_recorder(answer) as recorder:
        access = ConnectionSettings(recorder.url)
        async with LeanClient(access, "test") as client:
            stage = Stage(recorder, client, time, ratio, extenders)
            running = asyncio.create_task(stage.driver.run())
            stage.shows(a_node("n1"), a_node("n2"))
            yield stage
            running.cancel()
            await stage.driver.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def traceparent(span: ReadableSpan) -> str:
    context = span.context
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def test_a_bind_is_a_span_below_its_step_and_the_server_learns_of_it() -> None:
    async def main() -> None:
        async with a_stage(always(said(201))) as stage:
            stage.shows(our_pod())
            request = await stage.until(f"POST {PODS}/p/binding")
            spans = stage.spans
            posted = spans.named("POST pods/binding")
            assert spans.orphans() == []
            assert spans.names_below(spans.named("Bind")) == ["POST pods/binding"]
            assert posted.kind is SpanKind.CLIENT
            assert about(posted, "http.request.method", "url.path") == ("POST", f"{PODS}/p/binding")
            assert request.headers["traceparent"] == traceparent(posted)
            assert request.headers["content-type"] == "application/json"
            assert request.json["target"]["name"] in ("n1", "n2")

    run(main())


def test_a_bind_that_is_refused() -> None:
    async def main() -> None:
        answers = (refused(ApiError(403, "Forbidden", "not you")), said())
        async with a_stage(script(*answers, then=said())) as stage:
            stage.shows(our_pod())
            await stage.until(f"PATCH {PODS}/p/status")
            spans = stage.spans
            posted, patched, root = (
                spans.named("POST pods/binding"),
                spans.named("PATCH pods/status"),
                spans.root_of("p"),
            )
            assert about(posted, "http.response.status_code") == (403,)
            assert (posted.status.status_code, posted.status.description) == (StatusCode.ERROR, "not you")
            assert patched in spans.below(root), "the status comes after the attempt, and belongs to it"
            assert spans.orphans() == []

    run(main())


def test_the_words_of_a_server_are_cut() -> None:
    async def main() -> None:
        async with a_stage(script(refused(ApiError(403, "Forbidden", "x" * 100_000)), then=said())) as stage:
            stage.shows(our_pod())
            await stage.until(f"PATCH {PODS}/p/status")
            assert len(stage.spans.named("POST pods/binding").status.description or "") == 1024

    run(main())


def test_each_try_of_a_status_is_a_span() -> None:
    async def main() -> None:
        answers = (refused(conflict("pods", "p", "x")), said())
        async with a_stage(script(*answers, then=said())) as stage:
            stage.shows(our_pod(cpu="100"))
            await stage.until(f"PATCH {PODS}/p/status")
            root = stage.spans.root_of("p")
            tries = [span for span in stage.spans.below(root) if span.name == "PATCH pods/status"]
            assert [about(span, "http.response.status_code") for span in tries] == [(409,), (None,)]
            sent = [request.headers["traceparent"] for request in stage.recorder.requests]
            assert sent == [traceparent(span) for span in tries]

    run(main())


def test_the_eviction_of_a_victim_belongs_to_the_trace_of_the_preemptor() -> None:
    async def main() -> None:
        async with a_stage(always(said())) as stage:
            stage.shows(our_pod("low-1", cpu="4", nodeName="n1"), our_pod("low-2", cpu="4", nodeName="n2"))
            stage.shows(our_pod("high", cpu="4", priority=9))
            deleted = await stage.until(f"DELETE {PODS}/low-2")
            root = stage.spans.root_of("high")
            found = {span.name: span for span in stage.spans.below(root) if span.kind is SpanKind.CLIENT}
            assert {"PATCH pods/status", "DELETE pods"} <= found.keys()
            assert deleted.headers["traceparent"] == traceparent(found["DELETE pods"])

    run(main())


def test_a_write_of_pre_bind_is_a_span_below_it() -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"

    async def main() -> None:
        async with a_stage(always(said(200, {"metadata": {"name": "c", "namespace": "default"}}))) as stage:
            stage.shows(a_class(), a_claim("c"), our_pod(volumes=using("c")))
            request = await stage.until(f"PATCH {claims}/c")
            written = stage.spans.named("PATCH persistentvolumeclaims")
            assert request.headers["traceparent"] == traceparent(written)
            assert written in stage.spans.below(stage.spans.named("PreBind")), (
                "which failed: the claim is not as it was"
            )
            patched = [span for span in stage.spans.all if span.name == "PATCH pods/status"]
            below = stage.spans.below(stage.spans.root_of("p"))
            assert patched and all(span in below for span in patched), "the nomination is no part of PreBind"
            assert stage.spans.orphans() == []

    run(main())


def test_an_attempt_that_is_not_sampled_sends_no_header() -> None:
    async def main() -> None:
        async with a_stage(always(said()), ratio=0.0) as stage:
            stage.shows(our_pod(), our_pod("q", cpu="100"))
            await stage.until(f"POST {PODS}/p/binding")
            await stage.until(f"PATCH {PODS}/q/status")
            assert not [r for r in stage.recorder.requests if "traceparent" in r.headers]
            assert stage.spans.all == ()

    run(main())


def test_calls_to_extenders() -> None:
    async def answer(request: Recorded) -> bytes:
        return said(200, {"NodeNames": ["n2"]} if request.path.endswith("filter") else {})

    async def main() -> None:
        async with a_stage(answer, extenders=True) as stage:
            stage.shows(our_pod())
            await stage.until("POST /ext/bind")
            spans, root = stage.spans, stage.spans.root_of("p")
            filtered, bound = spans.named("Extender filter"), spans.named("Extender bind")
            assert filtered in spans.below(root) and spans.below(spans.named("Bind")) == [bound]
            assert about(filtered, "url.path", "server.address") == ("/ext/filter", "127.0.0.1")
            sent = {request.path: request.headers["traceparent"] for request in stage.recorder.requests}
            assert sent == {"/ext/filter": traceparent(filtered), "/ext/bind": traceparent(bound)}
            assert spans.orphans() == []
            assert (root.attributes or {})["scheduler.result"] == "scheduled"

    run(main())


def test_a_call_to_an_extender_that_is_not_sampled() -> None:
    async def main() -> None:
        async with a_stage(always(said(200, {"NodeNames": ["n2"]})), ratio=0.0, extenders=True) as stage:
            stage.shows(our_pod())
            await stage.until("POST /ext/bind")
            assert not [r for r in stage.recorder.requests if "traceparent" in r.headers]
            assert stage.spans.all == ()

    run(main())


def test_an_extender_that_fails() -> None:
    async def main() -> None:
        async with a_stage(script(said(500), then=said()), extenders=True) as stage:
            stage.shows(our_pod())
            await stage.until("POST /ext/filter")
            called = stage.spans.named("Extender filter")
            assert called.status.status_code is StatusCode.ERROR
            assert (called.status.description or "").startswith("failed filter with extender at URL http://127.0.0.1:")

    run(main())


def test_a_request_that_is_cancelled_is_recorded() -> None:
    async def never(request: Recorded) -> bytes:
        await asyncio.sleep(60)
        return said()

    async def main() -> None:
        async with a_stage(never) as stage:
            stage.shows(our_pod())
            await stage.until(f"POST {PODS}/p/binding")
            stage.driver.halt()
            await asyncio.sleep(0.05)
            posted = stage.spans.named("POST pods/binding")
            assert (posted.status.status_code, posted.status.description) == (StatusCode.ERROR, "CancelledError: ")

    run(main())


def test_a_dry_run_sends_nothing() -> None:
    async def main() -> bytes:
        return await DrySender().send("POST", "/api/v1/namespaces/default/pods/p/binding", b"{}")

    assert asyncio.run(main()) == b"{}"


def test_without_traces_everything_goes_the_usual_way() -> None:
    requests, sender = RequestTraces(), DrySender()
    assert requests.sender(sender, "uid", is_awaited=True) is sender
    with requests.span("uid", "POST pods/binding", is_awaited=True) as span:
        assert span.traceparent == ""


PATHS = {
    "/api/v1/namespaces/default/pods/web-0/binding": "pods/binding",
    "/api/v1/namespaces/default/pods/web-0/status": "pods/status",
    "/api/v1/namespaces/default/pods/namespaces": "pods",
    "/api/v1/persistentvolumes/pv-1": "persistentvolumes",
    "/api/v1/namespaces/default": "namespaces",
    "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status": "resourceclaims/status",
    "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims": "resourceclaims",
}


@pytest.mark.parametrize(("path", "expected"), PATHS.items())
def test_names_of_spans_have_no_names_of_objects(path: str, expected: str) -> None:
    assert resource_of_path(path) == expected
