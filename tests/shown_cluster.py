"""A cluster for tests in a browser: a scheduler that decides all the time, behind a dashboard on a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from build import a_node, a_pod
from dashboard_stage import TOKEN, StagedSource
from mooring.dashboard.interfaces import SourceFacts
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler
from mooring.dashboard.serving.loopback_server import LoopbackServer
from mooring.kit.clock import NS_PER_S
from mooring.model.node import Node
from mooring.model.pod import Pod

ZONES = ("eu-1a", "eu-1b", "eu-1c")
TYPES = ("c5.xlarge", "m5.2xlarge", "m5.xlarge", "p3.2xlarge", "r5.xlarge")
GPUS = "p3.2xlarge"
CHANGE_S = 0.4
"""How often pods come and go: more than once between two events of the stream."""
NEW_PODS = 25
OLD_PODS = 400


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


def placed_pods(count: int, random: Random) -> Iterator[Pod]:
    """Pods that have their nodes already, so that nodes are as full as those of a cluster in use."""
    for at in range(count):
        for number in range(random.randint(0, 3)):
            cpu, memory = random.choice(("250m", "500m", "1")), random.choice(("1Gi", "2Gi", "4Gi"))
            yield a_pod(f"api-{at}-{number}", namespace="shop", cpu=cpu, memory=memory, nodeName=f"node-{at}")


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
    """Time passes as on the wall, pods come and go, and the scheduler places them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._random = Random(count)
        self.add(*nodes(count, self._random), *placed_pods(count, self._random), *pending_pods())
        self._born = 0
        self._new_pods = min(NEW_PODS, count)
        self.change()

    def facts(self) -> SourceFacts:
        return SourceFacts("up", ["default-scheduler"])

    def change(self) -> None:
        """Some pods come, as many old ones go."""
        for _ in range(self._new_pods):
            self._born += 1
            self.add(a_pod(f"web-{self._born}", namespace="shop", cpu="100m", memory="128Mi", labels={"app": "web"}))
            old = f"shop/web-{self._born - OLD_PODS}"
            if ("Pod", old) in self.driver.objects:
                self.driver.delete("Pod", old)
        self.driver.settle()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(CHANGE_S)
            self.driver.jump(self.clock.now_ns() + int(CHANGE_S * NS_PER_S))
            self.change()


@dataclass(frozen=True)
class ShownDashboard:
    """Where a dashboard is served, and what its server reported."""

    link: str
    faults: list[str]
    stop_server: Callable[[], None]
    """Ends the server while the page is open; called once more when the test is over."""


@contextmanager
def shown(parts_of: Callable[[], tuple[DashboardParts, StagedSource]], port: int = 0) -> Iterator[ShownDashboard]:
    """Serve a dashboard from a thread of its own. `parts_of` runs there, since one thread owns all state."""
    served, ended = threading.Event(), threading.Event()
    faults: list[str] = []
    found: list[str] = []

    def report(text: str, fault: Exception | None) -> None:
        faults.append(f"{text}: {fault!r}")

    async def serve() -> None:
        parts, source = parts_of()
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

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="dashboard")
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()

    try:
        assert served.wait(60), "the dashboard does not start"
        yield ShownDashboard(found[0], faults, stop)
    finally:
        stop()
