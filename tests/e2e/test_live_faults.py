"""The live scheduler behind a network that fails in every way we know of: no pod is lost, none is bound twice.

MOORING_TESTS=soak runs it with 10,000 pods; the figures are printed.
"""

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from build import CPU
from fault_proxy import CALM, FaultProxy, Faults
from how_many import IS_SOAK
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import BOOKMARK_S, ReflectorOptions
from mooring.apiclient.throttle import Timing
from mooring.drivers.live_service import ClientLimits, LiveOptions, LiveScheduler
from mooring.framework import config
from mooring.kit import process
from mooring.kit.clock import SteadyClock
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import SchedulerLimits, build_scheduler
from running_cluster import a_process

pytestmark = pytest.mark.slow

PODS = 10_000 if IS_SOAK else 900
PATIENCE_S = 900.0
"""How long anything may take. On an idle machine the whole test takes half a minute; a busy one may be far slower."""
NEVER_S = 10 * PATIENCE_S
"""After which time pods are tried again for no reason: not in this test, because none may need that."""
SPEED = 10.0
"""How much faster than ours time passes in pauses before retries. Limits for answers are not hurried: how late a request may
arrive depends on the machine."""
SILENCE_S = 6.0
"""After which time a watch counts as silent. On a busy machine, where the server is slow, less would end every watch."""
SHORT_S = 0.5
"""What lasts no longer is not hurried: the server takes its time as well."""
TIME_LIMIT_S = 10.0
"""Longer than a server takes on a busy machine, where otherwise every request would be repeated."""
WRITERS = 16
ARENAS, VICTIMS = 5, 2
ARENA = {
    "nodeSelector": {"arena": "yes"},
    "tolerations": [{"key": "arena", "operator": "Exists"}],
}
POD_PATH = "/api/v1/namespaces/default/pods"

FAULTS = Faults(
    late=0.05,
    slow=0.05,
    lost_before=0.02,
    lost_after=0.02,
    overdue=0.005,
    overdue_s=12.0,
    busy=0.02,
    failing=0.02,
    unavailable=0.02,
    expired=0.1,
    cut=0.004,
    silent=0.0005,
    twice=0.02,
    disordered=0.02,
)

JsonObject = dict[str, Any]


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    type: str
    object: _Pod


@dataclass
class History:
    """All that the server ever said of pods, told by the server itself."""

    nodes: dict[str, set[str]] = field(default_factory=dict)
    """Uid -> the nodes that the pod was ever on."""
    present: dict[str, _Pod] = field(default_factory=dict)

    async def follow(self, client: ApiClient, version: str) -> None:
        async for lines in client.watch("/api/v1/pods", {"resourceVersion": version, "timeoutSeconds": "1200"}):
            for line in lines:
                self._take(msgspec.json.decode(line, type=_Event))

    def _take(self, event: _Event) -> None:
        pod = event.object
        seen = self.nodes.setdefault(pod.metadata.uid, set())
        if pod.spec.node_name:
            seen.add(pod.spec.node_name)
        if event.type == "DELETED":
            self.present.pop(pod.metadata.name, None)
        else:
            self.present[pod.metadata.name] = pod

    def is_bound(self, name: str) -> bool:
        return name in self.present and bool(self.present[name].spec.node_name)


@dataclass
class Load:
    """Pods that come, go and come back, written without the proxy."""

    client: ApiClient
    history: History
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WRITERS))
    expected: set[str] = field(default_factory=set)

    async def create(self, name: str, cpu: str = "50m", **spec: Any) -> None:
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        pod = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        async with self.turns:
            await self.client.post(POD_PATH, pod)
        self.expected.add(name)

    async def replace(self, name: str) -> None:
        """The same name comes back as another pod."""
        await until(lambda: self.history.is_bound(name))
        await self.client.delete(f"{POD_PATH}/{name}", {"gracePeriodSeconds": 0})
        await until(lambda: name not in self.history.present)
        await self.create(name)

    async def preempt(self) -> None:
        """Nodes are filled, and cleared for pods of a higher priority."""
        victims = [f"victim-{number}" for number in range(ARENAS * VICTIMS)]
        for name in victims:
            await self.create(name, "4", **ARENA)
        await until(lambda: all(map(self.history.is_bound, victims)))
        for number in range(ARENAS):
            await self.create(f"high-{number}", "8", priorityClassName="high", **ARENA)
        self.expected.difference_update(victims)

    async def bulk(self) -> None:
        """Every tenth pod waits for a node that is labelled only later; every twentieth is replaced."""
        names = [f"pod-{number:05d}" for number in range(PODS)]
        selectors: list[JsonObject] = [{"nodeSelector": {"late": "yes"}}, *[{}] * 9]
        async with asyncio.TaskGroup() as tasks:
            for number, name in enumerate(names):
                tasks.create_task(self.create(name, **selectors[number % 10]))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._label_late(names))
            for name in names[1::20]:
                tasks.create_task(self.replace(name))

    async def _label_late(self, names: list[str]) -> None:
        await until(lambda: sum(map(self.history.is_bound, names)) > 0.8 * PODS)
        nodes = await self.client.list("/api/v1/nodes")
        for node in nodes["items"][ARENAS::4]:
            await self.client.patch(
                f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": {"labels": {"late": "yes"}}}
            )


async def until(holds: Any, patience_s: float = PATIENCE_S) -> None:
    ends = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < ends, "that never comes"
        await asyncio.sleep(0.02)


def in_haste(reports: list[str]) -> ReflectorOptions:
    async def sleep(for_s: float) -> None:
        await asyncio.sleep(max(for_s / SPEED, min(for_s, SHORT_S)))

    timing = Timing(time.monotonic, sleep)
    return ReflectorOptions(
        timing, silence_s=SILENCE_S - BOOKMARK_S, report=lambda text, fault: reports.append(f"{text} {fault!r}")
    )


async def prepare(client: ApiClient) -> None:
    await client.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    nodes = await client.list("/api/v1/nodes")
    for node in nodes["items"][:ARENAS]:
        patch = {
            "metadata": {"labels": {"arena": "yes"}},
            "spec": {"taints": [{"key": "arena", "value": "yes", "effect": "NoSchedule"}]},
        }
        await client.patch(f"/api/v1/nodes/{node['metadata']['name']}", patch)


@dataclass(frozen=True)
class Outcome:
    """How things stand when all has come to rest."""

    live: LiveScheduler
    load: Load
    history: History
    proxy: FaultProxy
    pods: list[JsonObject]
    reports: list[str]
    took_s: float


async def soak(server: str, seed: int) -> Outcome:
    reports: list[str] = []
    scheduler = build_scheduler(
        config.default(),
        SteadyClock(),
        listeners=SchedulerListeners(report=lambda text, fault: reports.append(f"{text} {fault!r}")),
        limits=SchedulerLimits(NEVER_S),
    )
    async with (
        ApiClient(ConnectionSettings(server), "test/1", -1) as client,
        FaultProxy(server, FAULTS, seed) as proxy,
        LiveScheduler(
            scheduler,
            ConnectionSettings(proxy.url),
            ClientLimits(time_limit_s=TIME_LIMIT_S),
            options=LiveOptions(reflectors=in_haste([])),
        ) as live,
    ):
        await prepare(client)
        history = History()
        load = Load(client, history)
        version = (await client.list("/api/v1/pods"))["metadata"]["resourceVersion"]
        following = asyncio.create_task(history.follow(client, version))
        await live.settle()
        scheduling = asyncio.create_task(live.schedule())
        began_s = time.monotonic()
        await asyncio.gather(load.preempt(), load.bulk(), fail_for_a_while(proxy, load, client))
        await until(lambda: all(map(history.is_bound, load.expected)))
        took_s = time.monotonic() - began_s
        proxy.faults = CALM
        pods = await at_rest(client, live, load)
        assert not scheduling.done() and not following.done()
        scheduling.cancel()
        following.cancel()
        return Outcome(live, load, history, proxy, pods, reports, took_s)


async def fail_for_a_while(proxy: FaultProxy, load: Load, client: ApiClient) -> None:
    await until(lambda: len(load.history.present) > PODS / 2)
    await proxy.outage(1.0)
    proxy.faults = replace(FAULTS, silent=0.5)  # it is rare, but shall not be missing
    name = (await client.list("/api/v1/nodes"))["items"][-1]["metadata"]["name"]
    for number in range(int(PATIENCE_S)):  # a watch falls silent after an event, and all pods may be bound by now
        if proxy.injected["silent"]:
            break
        await client.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"touched": str(number)}}})
        await asyncio.sleep(0.1)
    proxy.faults = FAULTS


async def at_rest(client: ApiClient, live: LiveScheduler, load: Load) -> list[JsonObject]:
    """The pods of the server once it and the scheduler agree and nothing is under way; or as they are in the end."""
    pods: list[JsonObject] = []
    core = live.scheduler.core
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        pods = (await client.list("/api/v1/pods"))["items"]
        has_gone = {pod["metadata"]["name"] for pod in pods} == load.expected
        is_idle = not core.bindings and not core.evictions.by_preemptor and not core.cache.assumed_count
        if has_gone and is_idle and counted(live) == on_nodes(pods):
            return pods
        await asyncio.sleep(0.05)
    return pods


def counted(live: LiveScheduler) -> dict[str, str]:
    return {pod.uid: pod.spec.node_name for pod in live.scheduler.core.cluster.nodes.pods()}


def on_nodes(pods: list[JsonObject]) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in pods}


def milli(pod: JsonObject) -> int:
    written: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(written.removesuffix("m")) if written.endswith("m") else int(written) * 1000


def condition(pod: JsonObject) -> JsonObject:
    found: JsonObject = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    return found


def show(outcome: Outcome) -> None:
    """The figures, for whoever runs this with -s, or when it fails."""
    core = outcome.live.scheduler.core
    (pods,) = (member.statistics for member in outcome.live.reflectors.members if member.spec.resource == "pods")
    print(f"{len(outcome.pods)} pods in {outcome.took_s:.1f} s, {outcome.proxy.requests} requests, {pods}")
    print(f"{dict(outcome.proxy.injected)}, {outcome.live.driver.bound} binds answered")
    print(f"{dict(core.queue.counters.incoming)}, reports: {Counter(outcome.reports).most_common(5)}")


def no_pod_is_lost(outcome: Outcome) -> None:
    assert {pod["metadata"]["name"] for pod in outcome.pods} == outcome.load.expected
    assert [pod["metadata"]["name"] for pod in outcome.pods if not pod["spec"].get("nodeName")] == []


def no_pod_is_bound_twice(outcome: Outcome) -> None:
    assert len(outcome.history.nodes) > PODS * 1.04, "pods were replaced"
    assert {uid: nodes for uid, nodes in outcome.history.nodes.items() if len(nodes) != 1} == {}


def nothing_that_was_said_before_a_bind_comes_after_it(outcome: Outcome) -> None:
    assert [(pod["metadata"], condition(pod)) for pod in outcome.pods if condition(pod)["status"] != "True"] == []
    assert [pod["status"]["nominatedNodeName"] for pod in outcome.pods if "nominatedNodeName" in pod["status"]] == []


def the_scheduler_knows_what_the_server_knows(outcome: Outcome) -> None:
    assert counted(outcome.live) == on_nodes(outcome.pods)
    nodes = outcome.live.scheduler.core.cluster.nodes
    cpu_milli: Counter[str] = Counter()
    for pod in outcome.pods:
        cpu_milli[pod["spec"]["nodeName"]] += milli(pod)
    assert {name: int(nodes.amounts.requested[CPU, row]) for name, row in nodes.row_book.items()} == {
        name: cpu_milli[name] for name in nodes.row_book
    }
    assert all(
        nodes.amounts.requested[CPU, row] <= nodes.amounts.allocatable[CPU, row] for row in nodes.row_book.values()
    )


def the_scheduler_is_in_order(outcome: Outcome) -> None:
    scheduler = outcome.live.scheduler
    assert scheduler.check() == []
    assert scheduler.core.bindings == {} and scheduler.core.evictions.by_preemptor == {}
    assert sum(scheduler.core.queue.pending_counts().values()) == 0
    assert scheduler.core.cache.assumed_count == 0


def no_pod_waited_to_be_rescued(outcome: Outcome) -> None:
    counters = outcome.live.scheduler.core.queue.counters
    assert (counters.flushed, counters.rescued) == (0, 0)


def everything_did_go_wrong(outcome: Outcome) -> None:
    faults = {"outage", *(name for name in FAULTS.__slots__ if not name.endswith("_s"))}
    assert {fault for fault in faults if not outcome.proxy.injected[fault]} == set()


CHECKS = (
    no_pod_is_lost,
    no_pod_is_bound_twice,
    nothing_that_was_said_before_a_bind_comes_after_it,
    the_scheduler_knows_what_the_server_knows,
    the_scheduler_is_in_order,
    no_pod_waited_to_be_rescued,
    everything_did_go_wrong,
)


def test_whatever_goes_wrong_every_pod_is_bound_once() -> None:
    """One test, so that those who run tests in parallel run it once."""
    nodes = ARENAS + max(30, PODS // 80)
    with a_process("--plain-http", "--no-scheduler", "--nodes", str(nodes)) as cluster:
        outcome = process.run_event_loop(soak(cluster.server, seed=int(os.environ.get("MOORING_SEED", "1"))))
    show(outcome)
    for check in CHECKS:
        check(outcome)
