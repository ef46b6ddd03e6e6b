"""A cluster for tests in a browser: a scheduler that decides all the time, behind a dashboard on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter_ns
from typing import Any

from build import a_node, a_pod
from dashboard_stage import TOKEN, StagedSource
from mooring.dashboard.recorded_decisions import read_decisions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler, LoopbackServer
from mooring.dashboard.time_line import RecordedTimeLine, RecordingSource
from mooring.drivers.simulated_driver import START_NS
from mooring.inputs.arrivals import arrivals_of
from mooring.kit.clock import VirtualClock, in_seconds
from mooring.kit.version import VERSION
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from recorded_days import only_run, record_day

ZONES = ("eu-1a", "eu-1b", "eu-1c")
TYPES = ("c5.xlarge", "m5.2xlarge", "m5.xlarge", "p3.2xlarge", "r5.xlarge")
GPUS = "p3.2xlarge"
CHANGE_S = 0.4
"""How often pods come: more than once between two events of the stream."""
NEW_PODS = 25
LEAVING = 250
"""So many pods go at once: each leave gives all pending pods another attempt, and they should have time to back off."""


class TickingClock(VirtualClock):
    """Time passes as on the wall, and may be moved on besides."""

    def __init__(self) -> None:
        super().__init__(START_NS)
        self._began_ns = perf_counter_ns()

    def now_ns(self) -> int:
        return super().now_ns() + perf_counter_ns() - self._began_ns

    def advance_ns(self, step_ns: int) -> None:
        """A moment that was ahead when it was computed may have passed meanwhile."""
        super().advance_ns(max(0, step_ns))


def nodes(count: int, random: Random) -> Iterator[Node]:
    """Three zones and five kinds of nodes; some are cordoned, some tainted, some not ready."""
    for at in range(count):
        kind = TYPES[at % len(TYPES)]
        labels = {"topology.kubernetes.io/zone": ZONES[at % 3], "node.kubernetes.io/instance-type": kind}
        node = a_node(
            f"node-{at}",
            cpu=random.choice(("4", "8", "16")),
            memory="32Gi",
            labels=labels,
            taints=["nvidia.com/gpu=present:NoSchedule"] if kind == GPUS else (),
            allocatable={"nvidia.com/gpu": 4} if kind == GPUS else None,
            unschedulable=at % 97 == 4,
        )
        yield node


def owned_by(name: str) -> dict[str, Any]:
    """Metadata of a pod that a ReplicaSet replaces when it is evicted."""
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}]}


def placed_pods(nodes: Sequence[Node], random: Random) -> Iterator[Pod]:
    """Pods that have their nodes already, so that some nodes are nearly full and others nearly empty."""
    for at, node in enumerate(nodes):
        cpu_milli = random.betavariate(2, 1.6) * 1000 * int((node.status.allocatable or {})["cpu"])
        memory_mib = random.betavariate(2, 2.5) * 32 * 1024
        count = random.randint(1, 3)
        more: dict[str, Any] = {"metadata": owned_by("api"), "status": {"phase": "Running"}}
        for number in range(count):
            asked = {"cpu": f"{int(cpu_milli / count)}m", "memory": f"{int(memory_mib / count)}Mi"}
            name = f"api-{at}-{number}"
            yield a_pod(name, namespace="shop", requests=asked, nodeName=node.metadata.name, **more)


def pending_pods() -> Iterator[Pod]:
    """Pods that no node takes, each kind for another reason."""
    for at in range(30):
        yield a_pod(f"report-{at}", namespace="shop", cpu="64", memory="4Gi", labels={"app": "report"})
    for at in range(12):
        yield a_pod(f"train-{at}", namespace="ml", cpu="1", requests={"nvidia.com/gpu": 1}, labels={"app": "train"})
    for at in range(6):
        yield a_pod(f"edge-{at}", namespace="edge", cpu="1", nodeSelector={"site": "harbour"})
    for at in range(4):
        yield a_pod(f"gated-{at}", namespace="ml", cpu="1", schedulingGates=[{"name": "example.com/quota"}])


class ShownCluster(StagedSource):
    """Pods come and go, and the scheduler places them."""

    def __init__(self, count: int) -> None:
        super().__init__(clock=TickingClock())
        random = Random(count)
        known = list(nodes(count, random))
        self.add(*known, *placed_pods(known, random), *pending_pods())
        self.add(a_pod("cart-0", namespace="shop", cpu="250m", memory="256Mi", metadata=owned_by("cart")))
        self._born = self._left = 0
        self._new_pods = min(NEW_PODS, count)
        self.change()

    def add(self, *items: KubeObject) -> None:
        """Objects know when they were created, as those of an API server do."""
        for item in items:
            item.metadata.creation_timestamp = in_seconds(self.clock.now_ns())
        super().add(*items)

    def change(self) -> None:
        """Some pods come; from time to time the older half goes."""
        for _ in range(self._new_pods):
            self._born += 1
            pod = a_pod(f"web-{self._born}", namespace="shop", cpu="10m", memory="16Mi", labels={"app": "web"})
            self.add(pod)
        if self._born - self._left >= 2 * LEAVING:
            for _ in range(LEAVING):
                self._left += 1
                self.driver.delete("Pod", f"shop/web-{self._left}")
        self.driver.settle()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(CHANGE_S)
            self.driver.jump(self.clock.now_ns())
            self.change()


def recorded_parts(directory: Path, count: int, pods: list[dict[str, Any]]) -> DashboardParts:
    """Two minutes of a cluster that takes these arrivals, recorded and opened."""
    known = list(nodes(count, Random(count)))
    record_day(directory, known, arrivals_of(pods, known), seed=None, until_s=120)
    line = RecordedTimeLine(read_decisions([only_run(directory)]))
    return DashboardParts(RecordingSource("replay", line), VERSION, timeline=line)


@dataclass(frozen=True)
class ShownDashboard:
    """Where a dashboard is served, and what its server reported."""

    link: str
    faults: list[str]
    stop_server: Callable[[], None]
    """Ends the server while the page is open; called once more when the test is over."""


@contextmanager
def shown(parts_of: Callable[[], DashboardParts], port: int = 0) -> Iterator[ShownDashboard]:
    """Serve a dashboard from a thread of its own. `parts_of` runs there, since one thread owns all state."""
    served, ended = threading.Event(), threading.Event()
    faults: list[str] = []
    found: list[str] = []

    def report(text: str, fault: Exception | None) -> None:
        faults.append(f"{text}: {fault!r}")

    async def serve() -> None:
        parts = parts_of()
        source = parts.source
        server = LoopbackServer(DashboardHandler(parts, report), TOKEN, report)
        found.append(await server.start(port))
        served.set()
        changing = asyncio.create_task(source.live()) if isinstance(source, ShownCluster) else None
        while not ended.is_set():
            await asyncio.sleep(0.05)
            if changing is not None and changing.done():
                changing.result()
        if changing is not None:
            changing.cancel()
        await server.stop()

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as fault:
            report("the dashboard ended", fault)
        served.set()

    thread = threading.Thread(target=run, name="dashboard")
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()

    try:
        served.wait()
        assert found, faults
        yield ShownDashboard(found[0], faults, stop)
    finally:
        stop()
