"""The writes of a scheduler as they arrive at a server, and which of them are repeated."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from build import a_pod
from mooring.api.api_errors import ApiError, conflict, internal_error, invalid, not_found, too_many_requests
from mooring.api.json_objects import PROTOBUF
from mooring.api.kind_spec import KindSpec
from mooring.api.schema.protobuf import decode
from mooring.apiclient.client import ClientOptions
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.http_requests import ConnectionLost, ConnectionRefused, TimedOut, Unreadable
from mooring.apiclient.lean_client import LeanClient
from mooring.apiclient.served_kinds import ServedKinds
from mooring.drivers.api_writer import ApiWriter, WriteClients
from mooring.framework.contract.intents import Write
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from recording_server import Answer, Recorded, Recorder, Time, a_recorder, always, nowhere, refused, said, script

POD = a_pod("p", namespace="ns", metadata={"uid": "6f1c", "resourceVersion": "7"})
PATCH: dict[str, Any] = {"status": {"nominatedNodeName": "n2"}}
PATHS = "/api/v1/namespaces/ns/pods/p"
UNAVAILABLE = ApiError(503, "ServiceUnavailable", "no")


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(within_time())


@asynccontextmanager
async def a_writer(url: str, time: Time, draw: float = 0.0) -> AsyncIterator[ApiWriter]:
    async with (
        LeanClient(ConnectionSettings(url), "binder", options=ClientOptions(time.timing())) as binder,
        LeanClient(ConnectionSettings(url), "statuses", options=ClientOptions(time.timing())) as statuses,
        LeanClient(ConnectionSettings(url), "objects", options=ClientOptions(time.timing())) as objects,
        LeanClient(ConnectionSettings(url), "events", options=ClientOptions(time.timing())) as events,
    ):
        yield ApiWriter(WriteClients(binder, statuses, objects, events), time.timing(), lambda: draw)


def recorded(answer: Answer, *act: Any, time: Time | None = None, draw: float = 0.0) -> Recorder:
    """What a server saw of one call of a writer. What the call raises is raised."""
    seen: list[Recorder] = []

    async def main() -> None:
        async with a_recorder(answer) as recorder:
            seen.append(recorder)
            async with a_writer(recorder.url, time or Time(), draw) as writer:
                name, *arguments = act
                await getattr(writer, name)(*arguments)

    run(main())
    return seen[0]


def test_claims_do_not_wait_behind_statuses() -> None:
    """They have a client of their own, and so connections of their own."""
    path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status"
    write = Write("PATCH", ResourceClaim, "c", "ns", {"status": {}}, "status")
    (request,) = recorded(always(said(200, {"metadata": {"name": "c"}})), "write", write).requests
    assert (request.line, request.headers["content-type"]) == (f"PATCH {path}", "application/merge-patch+json")
    assert request.headers["user-agent"].startswith("objects")


# ---- binds in protobuf


def bound_by(answer: Answer, *pods: Pod) -> list[Recorded]:
    """The requests of binds of these pods, one after another, by a writer that sends protobuf."""
    seen: list[Recorded] = []

    async def main() -> None:
        async with a_recorder(answer) as recorder:
            async with LeanClient(ConnectionSettings(recorder.url), "binder") as client:
                writer = ApiWriter(WriteClients(client, client, client, client), Time().timing(), content_type=PROTOBUF)
                for pod in pods:
                    await writer.bind(pod, "m")
            seen.extend(recorder.requests)

    run(main())
    return seen


def test_a_bind_in_protobuf_has_the_fields_of_core_v1_by_number() -> None:
    """Binding: metadata is 1, target 2. ObjectMeta: name 1, namespace 3, uid 5. ObjectReference: kind 1, name 3. Around it
    runtime.Unknown: typeMeta 1 (apiVersion 1, kind 2), raw 2. Counted by hand."""
    (request,) = bound_by(always(said(201, {})), a_pod("p", namespace="n", metadata={"uid": "u"}))
    assert request.headers["content-type"] == "application/vnd.kubernetes.protobuf"
    metadata, target = b"\x0a\x01p\x1a\x01n\x2a\x01u", b"\x0a\x04Node\x1a\x01m"
    raw = b"\x0a\x09" + metadata + b"\x12\x09" + target
    assert request.body == b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Binding\x12\x16" + raw


def test_a_bind_in_protobuf_says_what_one_in_json_says() -> None:
    """Also of names whose length takes two bytes. The API server of `mooring up` reads both."""
    pod = a_pod("p" * 253, namespace="n" * 63, metadata={"uid": "u" * 36})
    (request,) = bound_by(always(said(201, {})), pod)
    (written,) = recorded(always(said(201, {})), "bind", pod, "m").requests
    assert decode(request.body) == written.json


def test_names_that_no_server_accepts_are_sent_in_json() -> None:
    """They come from a faulty server, and must not stop the binds of others."""
    requests = bound_by(always(said(201, {})), a_pod("\u00e9"), a_pod("p", metadata={"uid": "u" * 1024}), POD)
    forms = [request.headers["content-type"].rpartition(".")[2] for request in requests]
    assert forms == ["application/json", "application/json", "protobuf"]


def test_a_server_without_protobuf_gets_json_from_then_on() -> None:
    requests = bound_by(script(said(415, {}), said(201, {}), said(201, {})), POD, POD)
    forms = [request.headers["content-type"] for request in requests]
    assert forms == ["application/vnd.kubernetes.protobuf", "application/json", "application/json"]


def test_another_refusal_of_protobuf_is_the_answer() -> None:
    with pytest.raises(ApiError) as refused:
        bound_by(script(said(409, {}), said(201, {})), POD)
    assert refused.value.code == 409


# ---- versions


class Versions(ServedKinds):
    """Discovery that says v1beta1 until it is asked again, and v1 from then on."""

    def __init__(self, *versions: str) -> None:
        self.versions = list(versions)

    def found(self, kind: KindSpec) -> KindSpec:
        return kind.in_version(f"resource.k8s.io/{self.versions[0]}")

    async def recheck(self, missing: KindSpec) -> None:
        self.versions.pop(0)


CLAIM: dict[str, Any] = {
    "metadata": {"generateName": "p-"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
}
NO_PATH = b"HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n404 page not found\n"


def written_with(served: ServedKinds, answer: Answer, write: Write) -> tuple[Recorder, Any]:
    """What a server saw of a write, and what came of it."""
    result: list[Any] = []

    async def main() -> None:
        time = Time()
        async with a_recorder(answer) as recorder:
            result.append(recorder)
            async with LeanClient(
                ConnectionSettings(recorder.url), "x", options=ClientOptions(time.timing())
            ) as client:
                writer = ApiWriter(WriteClients(client, client, client, client), time.timing(), served=served)
                result.append(await writer.write(write))

    run(main())
    return result[0], result[1]


def test_a_claim_is_created_in_the_version_that_is_served() -> None:
    flat = {"name": "r", "deviceClassName": "c"}
    answer = {"metadata": {"name": "p-1"}, "spec": {"devices": {"requests": [flat]}}}
    recorder, made = written_with(
        Versions("v1beta1"), always(said(201, answer)), Write("POST", ResourceClaim, "", "ns", CLAIM)
    )
    (request,) = recorder.requests
    assert request.line == "POST /apis/resource.k8s.io/v1beta1/namespaces/ns/resourceclaims"
    assert (request.json["apiVersion"], request.json["kind"]) == ("resource.k8s.io/v1beta1", "ResourceClaim")
    assert request.json["spec"]["devices"]["requests"] == [flat]
    assert made.spec.devices.requests[0].exactly.device_class_name == "c", "and the answer is read as v1"


def test_a_write_whose_version_went_away_is_sent_in_the_one_that_came() -> None:
    write = Write("PATCH", ResourceClaim, "c", "ns", {"status": {}}, "status")
    answer = script(NO_PATH, said(200, {"metadata": {"name": "c"}}))
    recorder, made = written_with(Versions("v1beta1", "v1"), answer, write)
    assert recorder.lines == [
        f"PATCH /apis/resource.k8s.io/{version}/namespaces/ns/resourceclaims/c/status" for version in ("v1beta1", "v1")
    ]
    assert made.name == "c"


@pytest.mark.parametrize(
    ("versions", "answer"),
    [
        pytest.param(
            ["v1", "v1beta2"], refused(not_found("resourceclaims", "c", "resource.k8s.io")), id="no such claim"
        ),
        pytest.param(["v1", "v1"], NO_PATH, id="no such path, and no other version"),
    ],
)
def test_other_writes_that_are_not_found_are_not_repeated(versions: list[str], answer: bytes) -> None:
    write = Write("PATCH", ResourceClaim, "c", "ns", {"status": {}}, "status")
    with pytest.raises(ApiError):
        written_with(Versions(*versions), script(answer), write)


def test_a_binding() -> None:
    (request,) = recorded(
        always(said(201, {"kind": "Status", "status": "Success", "code": 201})), "bind", POD, "n1"
    ).requests
    assert request.line == f"POST {PATHS}/binding"
    assert request.body == (
        b'{"kind":"Binding","apiVersion":"v1","metadata":{"name":"p","namespace":"ns","uid":"6f1c"},'
        b'"target":{"kind":"Node","name":"n1"}}'
    )
    assert (request.headers["content-type"], request.headers["user-agent"]) == ("application/json", "binder")


def test_a_status_patch() -> None:
    (request,) = recorded(always(said(200)), "patch_status", POD, PATCH).requests
    assert (request.line, request.body) == (f"PATCH {PATHS}/status", b'{"status":{"nominatedNodeName":"n2"}}')
    assert request.headers["content-type"] == "application/strategic-merge-patch+json"
    assert request.headers["user-agent"] == "statuses"


def test_the_deletion_of_a_victim() -> None:
    (request,) = recorded(always(said(200)), "delete", POD, "preemptor").requests
    assert (request.line, request.json) == (f"DELETE {PATHS}", {"kind": "DeleteOptions", "apiVersion": "v1"})


def test_an_event_and_its_series() -> None:
    event = {"metadata": {"name": "p.1", "namespace": "ns"}, "reason": "Scheduled"}
    (created,) = recorded(always(said(201)), "create_event", event).requests
    assert (created.line, created.json) == ("POST /apis/events.k8s.io/v1/namespaces/ns/events", event)
    assert (created.headers["content-type"], created.headers["user-agent"]) == ("application/json", "events")
    series = {"count": 2, "lastObservedTime": "2026-11-15T06:39:44.856348Z"}
    (patched,) = recorded(always(said(200)), "patch_event", "ns", "p.1", series).requests
    assert patched.line == "PATCH /apis/events.k8s.io/v1/namespaces/ns/events/p.1"
    assert patched.body == b'{"series":{"count":2,"lastObservedTime":"2026-11-15T06:39:44.856348Z"}}'
    assert patched.headers["content-type"] == "application/strategic-merge-patch+json"


@pytest.mark.parametrize(
    ("answer", "last_wait"),
    [
        (refused(conflict("pods", "p", "x")), []),
        (refused(internal_error("x")), []),
        (refused(UNAVAILABLE), []),
        (None, [1.0]),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", []),
    ],
    ids=["409", "500", "503", "the connection is lost", "a page of a proxy"],
)
def test_a_status_patch_is_tried_four_times(answer: bytes | None, last_wait: list[float]) -> None:
    """A lost patch may still arrive: the writer waits for it, whatever the other tries led to."""
    time = Time()
    recorded(script(answer, answer, answer, then=said(200)), "patch_status", POD, PATCH, time=time)
    assert time.slept_s == [0.01, 0.05, 0.25, *last_wait]
    time = Time()
    with pytest.raises((ApiError, ConnectionLost, Unreadable)):
        recorded(script(*(answer,) * 4, then=said(200)), "patch_status", POD, PATCH, time=time)
    assert time.slept_s == [0.01, 0.05, 0.25, *last_wait]


def test_a_status_patch_without_an_answer_is_given_time_to_arrive() -> None:
    """It is not tried again: it has taken the whole time limit."""

    class Silent:
        async def send(
            self, method: str, path: str, body: bytes, content_type: str = "", traceparent: str = ""
        ) -> bytes:
            raise TimedOut("no answer")

    async def main() -> None:
        time, silent = Time(), Silent()
        with pytest.raises(TimedOut):
            await ApiWriter(WriteClients(silent, silent, silent, silent), time.timing()).patch_status(POD, PATCH)
        assert time.slept_s == [1.0]

    run(main())


def test_the_waits_differ_by_up_to_a_tenth() -> None:
    time = Time()
    recorded(script(*(refused(UNAVAILABLE),) * 3, then=said(200)), "patch_status", POD, PATCH, time=time, draw=1.0)
    assert time.slept_s == pytest.approx([0.011, 0.055, 0.275])


def test_a_status_patch_waits_for_a_server_that_is_not_there() -> None:
    async def main() -> None:
        time = Time()
        async with a_writer(nowhere(), time) as writer:
            with pytest.raises(ConnectionRefused):
                await writer.patch_status(POD, PATCH)
        assert time.slept_s == [0.01, 0.05, 0.25]

    run(main())


@pytest.mark.parametrize(
    "error",
    [not_found("pods", "p"), invalid("Pod", "p", ()), too_many_requests("x"), ApiError(403, "Forbidden", "x")],
    ids=lambda error: str(error.code),
)
def test_other_refusals_of_a_status_patch_are_final(error: ApiError) -> None:
    time = Time()
    with pytest.raises(ApiError) as told:
        recorded(always(refused(error)), "patch_status", POD, PATCH, time=time)
    assert (told.value.code, time.slept_s) == (error.code, [])


@pytest.mark.parametrize(
    ("error", "codes"),
    [(conflict("pods/binding", "p", "x"), 409), (internal_error("x"), 500), (UNAVAILABLE, 503)],
    ids=["409", "500", "503"],
)
@pytest.mark.parametrize("call", [("bind", POD, "n1"), ("delete", POD, "preemptor")], ids=["bind", "delete"])
def test_binds_and_deletions_are_not_repeated(call: tuple[Any, ...], error: ApiError, codes: int) -> None:
    time = Time()
    with pytest.raises(ApiError) as told:
        recorded(script(refused(error), then=said(200)), *call, time=time)
    assert (told.value.code, time.slept_s) == (codes, [])


def test_a_pod_is_looked_up() -> None:
    async def main() -> None:
        found = {"metadata": {"uid": "6f1c"}, "spec": {"nodeName": "n1"}}
        answers = said(200, found), refused(not_found("pods", "p")), refused(UNAVAILABLE), said(200, [1])
        async with a_recorder(script(*answers)) as recorder, a_writer(recorder.url, Time()) as writer:
            assert await writer.read_pod(POD) == found
            assert await writer.read_pod(POD) is None
            with pytest.raises(ApiError):
                await writer.read_pod(POD)
            with pytest.raises(Unreadable):
                await writer.read_pod(POD)
            assert recorder.lines == [f"GET {PATHS}"] * 4

    run(main())


def test_an_event_is_written_whatever_a_plugin_says() -> None:
    event = {"metadata": {"name": "e", "namespace": "shop"}, "note": "half \ud800"}
    (created,) = recorded(always(said(201)), "create_event", event).requests
    assert b'"note":"half \\ud800"' in created.body
