"""An embedded cluster on a machine whose clock is set: pods start, end and terminate when they would anyway."""

import pytest

from asking import PODS
from cluster_api import START_NS
from jumping_clock import JUMPS_S, JumpingClock
from mooring.embedded.embedded_cluster import EmbeddedCluster
from mooring.kit.clock import VirtualClock, WallClock
from virtual_cluster import VirtualCluster

LASTS_S = 420
"""Long enough for the eviction of pods from a node that is not ready, which no node here may become."""


class ClusterOnMachine(VirtualCluster):
    """The cluster makes its own clock, out of the clocks of this machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = VirtualClock(START_NS)
        self.wall = JumpingClock(self.clock)
        monkeypatch.setattr(WallClock, "now_ns", staticmethod(self.wall.now_ns))
        monkeypatch.setattr("mooring.embedded.embedded_cluster.elapsed_ns", self.clock.now_ns)
        self.reports: list[str] = []
        self.cluster = EmbeddedCluster(report=lambda text, fault: self.reports.append(f"{text}: {fault}"))
        self.api = self.cluster.api
        self.settle()

    def ready(self) -> str:
        """What the node says of itself."""
        conditions = self.api.store.get("/nodes", ("", "node"))["status"]["conditions"]
        ready: str = next(condition["status"] for condition in conditions if condition["type"] == "Ready")
        return ready


def lived(monkeypatch: pytest.MonkeyPatch, *jumps_s: int) -> list[tuple[str, ...]]:
    """What kubectl would show each second: a pod that ends by itself, one that is deleted, one that comes later, and the
    node."""
    cluster = ClusterOnMachine(monkeypatch)
    cluster.node()
    for name in ("ends", "deleted"):
        seconds = {"annotations": {"mooring.dev/run-seconds": "60"}} if name == "ends" else {}
        cluster.pod(name, metadata=seconds, restartPolicy="Never", terminationGracePeriodSeconds=5)
    cluster.wait(10)
    cluster.ask("DELETE", f"{PODS}/deleted")
    jumps = dict(zip((0, 20, 90), jumps_s, strict=False))
    seen = []
    for second in range(LASTS_S):
        if second in jumps:
            cluster.wall.jump(jumps[second])
        if second == 30:
            cluster.pod("later")
        cluster.wait(1)
        seen.append((*map(cluster.phase, ("ends", "deleted", "later")), cluster.ready()))
    assert cluster.reports == []
    return seen


@pytest.mark.parametrize("jumps_s", [*((jump_s,) for jump_s in JUMPS_S), JUMPS_S])
def test_a_cluster_goes_on_as_if_its_machine_had_kept_its_clock(
    monkeypatch: pytest.MonkeyPatch, jumps_s: tuple[int, ...]
) -> None:
    undisturbed = lived(monkeypatch)
    assert undisturbed[9][1] == "gone", "the deleted pod has terminated"
    assert undisturbed[80][0] == "Succeeded"
    assert undisturbed[40][2] == "Running"
    assert {row[3] for row in undisturbed} == {"True"}
    assert lived(monkeypatch, *jumps_s) == undisturbed
