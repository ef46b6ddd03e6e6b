"""The live scheduler beside a server that ends watches again and again: pods are bound all the same, and without pauses.

MOORING_TESTS=soak runs it with 10,000 pods, in turn with a server that ends no watches, and compares the throughput.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from fault_proxy import CALM, FaultProxy, Faults
from how_many import IS_SOAK
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import Reflector, ReflectorOptions
from mooring.apiclient.reflectors.watch_streams import WatchEnd
from mooring.apiclient.throttle import Timing
from mooring.drivers.live_service import LiveOptions, LiveScheduler
from mooring.framework import config
from mooring.kit import process
from mooring.kit.clock import SteadyClock
from mooring.state.scheduler_assembly import build_scheduler
from running_cluster import a_process

pytestmark = pytest.mark.slow

PODS = 10_000 if IS_SOAK else 900
PATIENCE_S = 280.0 if IS_SOAK else 120.0
BRIEF = Faults(watch_s=0.2)
LEAST_SHARE = 0.8
"""Of the throughput without ends."""
LOOK_EVERY_S = 0.25
WRITERS = 16
POD_PATH = "/api/v1/namespaces/default/pods"


@dataclass
class Sleeps:
    """What reflectors ask for: every pause. Those who guard against silence sleep in tasks of their own."""

    asked_s: list[float] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    async def sleep(self, for_s: float) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name().startswith("reflector of "):
            self.asked_s.append(for_s)
        await asyncio.sleep(for_s)

    def live_options(self) -> LiveOptions:
        return LiveOptions(
            reflectors=ReflectorOptions(
                Timing(sleep=self.sleep), report=lambda text, fault: self.reports.append(f"{text} {fault!r}")
            )
        )


@dataclass(frozen=True)
class Outcome:
    pods: Reflector
    sleeps: Sleeps
    ended: int
    """Watches that the proxy ended."""
    faults: list[str]
    took_s: float


@asynccontextmanager
async def scheduling(live: LiveScheduler) -> AsyncIterator[None]:
    await live.settle()
    task = asyncio.create_task(live.schedule())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def create(client: ApiClient) -> None:
    numbers = iter(range(PODS))
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "10m"}}}

    async def send() -> None:
        for number in numbers:
            await client.post(
                POD_PATH, {"metadata": {"name": f"pod-{number:05d}"}, "spec": {"containers": [container]}}
            )

    await asyncio.gather(*(send() for _ in range(WRITERS)))


async def all_bound(reflector: Reflector) -> None:
    """Until the scheduler's own watch shows that: a pod that the watch missed would never be seen here."""
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        left = PODS - sum(bool(pod.spec.node_name) for pod in reflector.objects.values())  # type: ignore[attr-defined]
        if not left:
            return
        assert time.monotonic() < ends_s, f"{left} pods are not bound"
        await asyncio.sleep(LOOK_EVERY_S)


async def bind_them_all(server: str, faults: Faults) -> Outcome:
    sleeps = Sleeps()
    scheduler = build_scheduler(config.default(), SteadyClock())
    async with (
        ApiClient(ConnectionSettings(server), "test/1", -1) as client,
        FaultProxy(server, faults, seed=1) as proxy,
        LiveScheduler(scheduler, ConnectionSettings(proxy.url), options=sleeps.live_options()) as live,
        scheduling(live),
    ):
        (pods,) = (member for member in live.reflectors.members if member.spec.resource == "pods")
        began_s = time.monotonic()
        await asyncio.gather(create(client), all_bound(pods))
        return Outcome(pods, sleeps, proxy.injected["watch_s"], scheduler.check(), time.monotonic() - began_s)


def pods_per_s(outcome: Outcome) -> float:
    return PODS / outcome.took_s


def on_a_new_cluster(faults: Faults) -> Outcome:
    with a_process("--plain-http", "--no-scheduler", "--nodes", str(max(30, PODS // 50))) as cluster:
        outcome = process.run_event_loop(bind_them_all(cluster.server, faults))
    ends, gap_s = dict(outcome.pods.record.ends), outcome.pods.record.gap_s()
    print(f"{pods_per_s(outcome):.0f} pods/s, {ends}, {gap_s:.2f} s without, {outcome.pods.statistics}")
    return outcome


def test_watches_that_end_again_and_again_cost_no_pause() -> None:
    outcome = on_a_new_cluster(BRIEF)
    ends = outcome.pods.record.ends
    assert outcome.ended >= 3 and ends[WatchEnd.AFTER_EVENTS] >= 3, "the server did end watches"
    assert set(ends) == {WatchEnd.AFTER_EVENTS} and outcome.pods.statistics.lists == 1
    assert outcome.sleeps.asked_s == [], "a watch that told something is resumed at once"
    assert outcome.sleeps.reports == [] and outcome.faults == []


@pytest.mark.skipif(
    not IS_SOAK, reason="a comparison of throughput, which a busy machine spoils: MOORING_TESTS=soak runs it"
)
def test_watches_that_end_again_and_again_cost_little_throughput() -> None:
    rounds = [[pods_per_s(on_a_new_cluster(faults)) for faults in (CALM, BRIEF)] for _ in range(3)]
    calm, brief = (statistics.median(column) for column in zip(*rounds, strict=True))
    assert brief >= LEAST_SHARE * calm, f"{brief:.0f} pods/s, {calm:.0f} without ends"
