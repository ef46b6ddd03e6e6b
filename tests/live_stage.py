"""The driver of a live scheduler on a server that fails as it is told, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from build import a_node, a_pod
from jumping_clock import JumpingClock
from mooring.api.api_errors import conflict, not_found
from mooring.apiclient.http_requests import ConnectionLost
from mooring.apiclient.throttle import Timing
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.status_writer import StatusWriter
from mooring.framework import config
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.kit.clock import NS_PER_S, SteadyClock, VirtualClock
from mooring.kit.tasks import NO_FENCE, Fence
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler
from recording_server import Time
from silent_writer import SilentWriter

DONE_ALL_THE_SAME = "done, but the answer is lost"
Fault = Exception | str


@dataclass
class Server(SilentWriter):
    """A server that has pods, carries out what it is asked to, and fails as it is told."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Uid -> node, empty for none."""
    uids: dict[str, str] = field(default_factory=dict)
    """Name -> uid of the pod that has it now."""
    calls: list[str] = field(default_factory=list)
    faults: dict[str, list[Fault | None]] = field(default_factory=dict)
    """By call (`bind p`): what goes wrong, one time after the other."""
    bodies: list[Any] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    meanwhile: dict[str, Callable[[], None]] = field(default_factory=dict)
    """By call: what happens before it is answered."""

    def has(self, *pods: Pod) -> None:
        for pod in pods:
            self.uids[pod.name], self.nodes[pod.uid] = pod.uid, pod.spec.node_name

    async def bind(self, pod: Pod, node_name: str) -> None:
        def act() -> None:
            if self.uids.get(pod.name) != pod.uid:
                raise not_found("pods", pod.name) if pod.name not in self.uids else conflict("pods", pod.name, "uid")
            if self.nodes[pod.uid]:
                raise conflict("pods/binding", pod.name, f'already assigned to node "{self.nodes[pod.uid]}"')
            self.nodes[pod.uid] = node_name

        await self._call(f"bind {pod.name}", act)

    async def read_pod(self, pod: Pod) -> dict[str, Any] | None:
        await self._call(f"read {pod.name}", lambda: None)
        uid = self.uids.get(pod.name)
        return None if uid is None else {"metadata": {"uid": uid}, "spec": {"nodeName": self.nodes[uid]}}

    async def patch_status(self, pod: Pod, patch: dict[str, Any], cause_id: str = "") -> None:
        self.bodies.append(patch)
        await self._call(f"patch {pod.name}", lambda: self._find(pod))

    async def delete(self, pod: Pod, cause_id: str) -> None:
        await self._call(f"delete {pod.name}", lambda: self.uids.pop(self._find(pod)))

    async def create_event(self, event: dict[str, Any]) -> None:
        self.events.append(f"{event['reason']} {event['regarding']['name']}")

    def _find(self, pod: Pod) -> str:
        if pod.name not in self.uids:
            raise not_found("pods", pod.name)
        return pod.name

    async def _call(self, name: str, act: Callable[[], object]) -> None:
        self.calls.append(name)
        await asyncio.sleep(0)
        faults = self.faults.get(name)
        fault = faults.pop(0) if faults else None
        if isinstance(fault, Exception):
            self._meanwhile(name)
            raise fault
        act()
        self._meanwhile(name)
        if fault is not None:
            raise ConnectionLost(fault)

    def _meanwhile(self, name: str) -> None:
        if happens := self.meanwhile.pop(name, None):
            happens()


class Stage:
    """A scheduler with its driver on a server, in virtual time."""

    def __init__(
        self,
        configured: KubeSchedulerConfiguration | None = None,
        observer: Observer | None = None,
        timing: Timing | None = None,
        fence: Fence = NO_FENCE,
        **more: Any,
    ) -> None:
        """`more` is for `build_scheduler`."""
        self.clock = VirtualClock(1_800_000_000 * NS_PER_S)
        self.wall = JumpingClock(self.clock)
        self.time = Time()
        self.reports: list[str] = []
        steady = SteadyClock(self.wall, self.clock.now_ns)
        self.scheduler: Scheduler = build_scheduler(
            configured or config.default(),
            steady,
            listeners=SchedulerListeners(
                report=lambda text, fault: self.reports.append(text), observer=observer or Observer()
            ),
            **more,
        )
        self.server = Server()
        timing = timing or self.time.timing()
        self.statuses = StatusWriter(self.server, self.wall)
        events = EventWriter(self.server, steady, self.wall, "host", timing)
        self.driver = LiveDriver(self.scheduler, steady, self.server, events, self.statuses, timing, fence)

    def shows(self, *pods: Pod) -> None:
        """The watch shows pods that are new."""
        for pod in pods:
            self.server.has(pod)
            self.scheduler.handle(ObjectAdded(pod))
        self.driver.wake()

    def shows_change(self, old: Pod, new: Pod) -> None:
        self.scheduler.handle(ObjectUpdated(old, new))
        self.driver.wake()

    def shows_end(self, pod: Pod) -> None:
        self.scheduler.handle(ObjectRemoved(pod))
        self.driver.wake()

    async def rest(self) -> None:
        """Until all that can be done at this moment is done."""
        for _ in range(300):
            await asyncio.sleep(0)
        assert self.scheduler.check() == []

    async def later(self, seconds: int = 11) -> None:
        for _ in range(seconds):
            self.clock.advance_ns(NS_PER_S)
            self.driver.wake()
            await self.rest()

    @property
    def counted(self) -> dict[str, str]:
        """Uid -> node, as the scheduler counts them; a pod that is counted twice is not to be overlooked."""
        pods = self.scheduler.core.cluster.nodes.pods()
        assert len({pod.uid for pod in pods}) == len(pods)
        return {pod.uid: pod.spec.node_name for pod in pods}

    def where(self, pod: Pod) -> str | None:
        return self.scheduler.core.queue.where(pod.key)

    def binds(self) -> int:
        return sum(call.startswith("bind") for call in self.server.calls)


@asynccontextmanager
async def a_stage(*nodes: str, cpu: str = "4", stage: Stage | None = None) -> AsyncIterator[Stage]:
    stage = stage or Stage()
    for name in nodes or ("n1",):
        stage.scheduler.handle(ObjectAdded(a_node(name, cpu=cpu)))
    running = asyncio.create_task(stage.driver.run())
    try:
        yield stage
        assert not running.done()
    finally:
        running.cancel()
        await stage.driver.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(within_time())


def pod(name: str = "p", uid: str = "", version: int = 1, cpu: str = "3", node: str = "", priority: int = 0) -> Pod:
    metadata = {"uid": uid or f"uid-{name}", "resourceVersion": str(version), "generation": 4}
    return a_pod(name, cpu=cpu, metadata=metadata, schedulerName="default-scheduler", nodeName=node, priority=priority)


P = pod()


def on(pod: Pod, node_name: str) -> Pod:
    return msgspec.convert(
        msgspec.to_builtins(pod)
        | {
            "spec": msgspec.to_builtins(pod.spec) | {"nodeName": node_name},
            "metadata": msgspec.to_builtins(pod.metadata) | {"resourceVersion": "9"},
        },
        Pod,
    )


# ---- preemption

HIGH = pod("high", cpu="4", priority=9)
V1, V2 = (pod(name, cpu="2", node="n1") for name in ("v1", "v2"))
"""`high` fits on n1 only without both of the others."""


async def preempted(stage: Stage) -> None:
    stage.shows(V1, V2)
    stage.shows(HIGH)
    await stage.rest()


def deletions(stage: Stage) -> list[str]:
    return [call for call in stage.server.calls if call.startswith("delete")]
