"""What a live scheduler writes to a server in the course of its life: each request as kube-scheduler would send it."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fault_proxy import CALM, FaultProxy
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.drivers.live_service import LiveScheduler
from mooring.framework import config
from mooring.kit import process
from mooring.kit.clock import SteadyClock
from mooring.state.scheduler_assembly import build_scheduler
from running_cluster import PATIENCE_S, a_process

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
SECOND, MICROSECOND = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
NO_HELP = "Preemption is not helpful for scheduling."
FIRST = f"0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 {NO_HELP}"
SECOND_TRY = (
    "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
    f"preemption: 0/3 nodes are available: 3 {NO_HELP}"
)


@dataclass(frozen=True)
class Written:
    line: str
    headers: str
    body: JsonObject


@dataclass
class Day:
    """What was written, and the pods as the server had them."""

    writes: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    pods: dict[str, JsonObject] = field(default_factory=dict)

    def to(self, line: str) -> list[Written]:
        """The writes to a path, in order."""
        return [
            Written(written, head.decode(), json.loads(body)) for written, head, body in self.writes if written == line
        ]

    def events(self, name: str, reason: str) -> list[JsonObject]:
        bodies = [written.body for written in self.to(f"POST {EVENTS}")]
        return [body for body in bodies if (body["regarding"]["name"], body["reason"]) == (name, reason)]


def a_pod(name: str, cpu: str, **spec: Any) -> JsonObject:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


@dataclass
class Life:
    client: ApiClient
    day: Day

    async def create(self, name: str, cpu: str, **spec: Any) -> None:
        self.day.pods[name] = await self.client.post(PODS, a_pod(name, cpu, **spec))

    async def until(self, holds: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < ends, f"that never comes: {[line for line, _, _ in self.day.writes]}"
            await asyncio.sleep(0.02)

    async def bound(self, name: str) -> None:
        await self.until(lambda: len(self.day.events(name, "Scheduled")) == 1)

    async def bind(self) -> None:
        await self.create("p", "100m")
        await self.bound("p")

    async def fail(self) -> None:
        """Two failures with different words, then two more with the same."""
        await self.create("big", "12")
        await self.until(lambda: len(self.day.events("big", "FailedScheduling")) == 1)
        taint = {"key": "apart", "value": "yes", "effect": "NoSchedule"}
        capacity = {"cpu": "20", "memory": "32Gi", "pods": "110"}
        node = {"metadata": {"name": "node-x"}, "spec": {"taints": [taint]}, "status": {"capacity": capacity}}
        await self.client.post("/api/v1/nodes", {**node, "status": {"capacity": capacity, "allocatable": capacity}})
        await self.until(lambda: len(self.day.to(f"PATCH {PODS}/big/status")) == 2)
        for cpu, writes in (("21", 3), ("22", 4)):
            await self.client.patch("/api/v1/nodes/node-x/status", {"status": {"allocatable": {"cpu": cpu}}})
            await self.until(lambda writes=writes: self._told() == writes)  # type: ignore[misc]

    def _told(self) -> int:
        posts = self.day.events("big", "FailedScheduling")
        return len(posts) + sum(line.startswith(f"PATCH {EVENTS}/big.") for line, _, _ in self.day.writes)

    async def preempt(self) -> None:
        here = {"kubernetes.io/hostname": "node-0001"}
        value = {"metadata": {"name": "high"}, "value": 1000}
        await self.client.post("/apis/scheduling.k8s.io/v1/priorityclasses", value)
        for name in ("v1", "v2"):
            await self.create(name, "3", nodeSelector=here)
            await self.bound(name)
        for name in ("v1", "v2"):
            self.day.pods[name] = await self.client.get(f"{PODS}/{name}")
        await self.create("high", "7", nodeSelector=here, priorityClassName="high")
        await self.bound("high")


async def live_through(server: str) -> Day:
    day = Day()
    async with (
        ApiClient(ConnectionSettings(server), "test/1", -1) as client,
        FaultProxy(server, CALM, seed=1) as proxy,
        LiveScheduler(build_scheduler(config.default(), SteadyClock()), ConnectionSettings(proxy.url)) as live,
    ):
        proxy.writes = day.writes
        await live.settle()
        scheduling = asyncio.create_task(live.schedule())
        life = Life(client, day)
        await life.bind()
        await life.fail()
        await life.preempt()
        scheduling.cancel()
    return day


@pytest.fixture(scope="module")
def day() -> Day:
    with a_process("--plain-http", "--no-scheduler", "--nodes", "2") as cluster:
        return process.run_event_loop(live_through(cluster.server))


def uid(day: Day, name: str) -> str:
    found: str = day.pods[name]["metadata"]["uid"]
    return found


def regarding(day: Day, name: str, version: str) -> JsonObject:
    return {
        "kind": "Pod",
        "namespace": "default",
        "name": name,
        "uid": uid(day, name),
        "apiVersion": "v1",
        "resourceVersion": version,
    }


def check_event(day: Day, event: JsonObject, **expected: str) -> None:
    """The whole of an event but for its moment."""
    name = event["regarding"]["name"]
    assert re.fullmatch(rf"{name}\.[0-9a-f]{{16}}", event["metadata"]["name"])
    assert re.fullmatch(MICROSECOND, event["eventTime"])
    assert event == {
        "metadata": {"name": event["metadata"]["name"], "namespace": "default"},
        "eventTime": event["eventTime"],
        "reportingController": "default-scheduler",
        "reportingInstance": f"default-scheduler-{socket.gethostname()}",
        "regarding": regarding(day, name, event["regarding"]["resourceVersion"]),
        **expected,
    }


def test_a_bind(day: Day) -> None:
    (bind,) = day.to(f"POST {PODS}/p/binding")
    assert bind.body == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default", "uid": uid(day, "p")},
        "target": {"kind": "Node", "name": bind.body["target"]["name"]},
    }
    assert "\r\nContent-Type: application/json\r\n" in bind.headers
    assert re.search(r"\r\nUser-Agent: kube-scheduler/v1\.37\.\d+ \(.*\)/scheduler\r\n", bind.headers)
    (event,) = day.events("p", "Scheduled")
    node = bind.body["target"]["name"]
    note = f"Successfully assigned default/p to {node}"
    check_event(day, event, action="Binding", reason="Scheduled", note=note, type="Normal")
    assert event["regarding"]["resourceVersion"] == day.pods["p"]["metadata"]["resourceVersion"]
    assert day.to(f"PATCH {PODS}/p/status") == []


def test_the_first_failure_and_another_message(day: Day) -> None:
    first, second = day.to(f"PATCH {PODS}/big/status")
    (condition,) = first.body["status"]["conditions"]
    assert re.fullmatch(SECOND, condition["lastTransitionTime"])
    assert first.body == {
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": condition["lastTransitionTime"],
                    "message": FIRST,
                    "observedGeneration": 1,
                    "reason": "Unschedulable",
                    "status": "False",
                    "type": "PodScheduled",
                }
            ]
        }
    }
    assert second.body == {
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"message": SECOND_TRY, "type": "PodScheduled"}],
        }
    }
    for patch in (first, second):
        assert "\r\nContent-Type: application/strategic-merge-patch+json\r\n" in patch.headers


def test_a_failure_is_told_as_an_event_and_then_as_a_series(day: Day) -> None:
    """The pod's version changes with each patch, so that the third failure is the first of its kind as well."""
    events = day.events("big", "FailedScheduling")
    assert [event["note"] for event in events] == [FIRST, SECOND_TRY, SECOND_TRY]
    for event in events:
        check_event(day, event, action="Scheduling", reason="FailedScheduling", note=event["note"], type="Warning")
    assert len({event["regarding"]["resourceVersion"] for event in events}) == 3
    (series,) = day.to(f"PATCH {EVENTS}/{events[2]['metadata']['name']}")
    assert re.fullmatch(MICROSECOND, series.body["series"]["lastObservedTime"])
    assert series.body == {"series": {"count": 2, "lastObservedTime": series.body["series"]["lastObservedTime"]}}
    assert "\r\nContent-Type: application/strategic-merge-patch+json\r\n" in series.headers


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_a_victim(day: Day, name: str) -> None:
    (patch,) = day.to(f"PATCH {PODS}/{name}/status")
    held = [{"type": condition["type"]} for condition in day.pods[name]["status"]["conditions"]]
    (condition,) = patch.body["status"]["conditions"]
    assert patch.body == {
        "status": {
            "$setElementOrder/conditions": [*held, {"type": "DisruptionTarget"}],
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": condition["lastTransitionTime"],
                    "message": "default-scheduler: preempting to accommodate a higher priority pod",
                    "observedGeneration": 1,
                    "reason": "PreemptionByScheduler",
                    "status": "True",
                    "type": "DisruptionTarget",
                }
            ],
        }
    }
    (deletion,) = day.to(f"DELETE {PODS}/{name}")
    assert deletion.body == {"kind": "DeleteOptions", "apiVersion": "v1"}
    (event,) = day.events(name, "Preempted")
    note = f"Preempted by pod {uid(day, 'high')} on node node-0001"
    check_event(day, event, action="Preempting", reason="Preempted", note=note, type="Normal")


def test_the_preemptor_is_nominated(day: Day) -> None:
    first = day.to(f"PATCH {PODS}/high/status")[0]
    (condition,) = first.body["status"]["conditions"]
    assert first.body["status"]["nominatedNodeName"] == "node-0001"
    assert condition["message"] == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s). preemption: found a potential placement for pod on node node-0001, "
        "preempting 2 victims"
    )


def test_the_last_victim_is_deleted_after_the_other(day: Day) -> None:
    lines = [line for line, _, _ in day.writes]
    first, last = sorted((f"{PODS}/v1", f"{PODS}/v2"), key=lambda path: lines.index(f"DELETE {path}"))
    order = [f"PATCH {first}/status", f"DELETE {first}", f"PATCH {last}/status", f"DELETE {last}"]
    assert sorted(order, key=lines.index) == order


def test_nothing_else_is_written(day: Day) -> None:
    paths = r"/p/binding|/high/binding|/v[12]/binding|/big/status|/high/status|/v[12]/status|/v[12]"
    known = re.compile(rf"(POST|PATCH|DELETE) ({PODS}({paths})|{EVENTS}(/.*)?)")
    assert [line for line, _, _ in day.writes if not known.fullmatch(line)] == []
