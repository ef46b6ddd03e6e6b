"""Gangs in racks on the embedded cluster: the gate decides, members that come later join the rack, and a recording of it
replays equal."""

from pathlib import Path
from typing import Any

import pytest

from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from mooring.framework.config.feature_gates import parse_gates
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.replay.differences import ReplayTally
from mooring.state.replay.replayer import Replayer
from recorded_days import only_run
from virtual_cluster import VirtualCluster

GANGS = "GenericWorkload=true"
RACKS = f"{GANGS},TopologyAwareWorkloadScheduling=true"
POD_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
RACK = "example.com/rack"


def a_cluster(gates_text: str, recording: RecordingSettings | None = None) -> VirtualCluster:
    """Racks of one, two and three nodes with two CPUs each."""
    gates = parse_gates(gates_text)
    settings = EmbeddedSettings(config.default(feature_gates=gates), gates=gates, recording=recording)
    cluster = VirtualCluster(settings)
    for rack in (1, 2, 3):
        for number in range(rack):
            name = f"r{rack}-{number}"
            cluster.node(name, cpu="2", metadata={"name": name, "labels": {RACK: f"r{rack}"}})
    return cluster


def gang(cluster: VirtualCluster, name: str, size: int, cpu: str = "1") -> None:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}}
    spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    cluster.ask("POST", POD_GROUPS, {"metadata": {"name": name}, "spec": spec})
    for number in range(size):
        member(cluster, f"{name}-{number}", name, cpu)


def member(cluster: VirtualCluster, name: str, group: str, cpu: str = "1") -> None:
    cluster.pod(name, cpu=cpu, schedulingGroup={"podGroupName": group})


def racks_of(cluster: VirtualCluster, group: str, size: int) -> list[str]:
    return sorted({cluster.place(f"{group}-{number}").partition("-")[0] for number in range(size)})


def test_the_gate_brings_a_gang_into_one_rack() -> None:
    cluster = a_cluster(RACKS)
    gang(cluster, "a", 3)
    cluster.wait(10)
    assert racks_of(cluster, "a", 3) == ["r2"]
    group = cluster.ask("GET", f"{POD_GROUPS}/a")
    assert [(each["type"], each["status"]) for each in group["status"]["conditions"]] == [
        ("PodGroupInitiallyScheduled", "True")
    ]


def test_members_that_come_later_join_the_rack_or_wait() -> None:
    cluster = a_cluster(RACKS)
    gang(cluster, "a", 3)
    cluster.wait(10)
    member(cluster, "a-3", "a")
    member(cluster, "a-4", "a")
    cluster.wait(20)
    assert racks_of(cluster, "a", 4) == ["r2"]
    assert cluster.place("a-4") == ""


def test_a_gang_that_no_rack_can_hold_says_so_and_goes_when_a_rack_grows() -> None:
    cluster = a_cluster(RACKS)
    gang(cluster, "a", 4, cpu="2")
    cluster.wait(10)
    assert racks_of(cluster, "a", 4) == [""]
    (condition,) = cluster.ask("GET", f"{POD_GROUPS}/a")["status"]["conditions"]
    assert condition["message"] == (
        "pod group is unschedulable, 0/3 placements are available, first placement status: "
        "minCount (4) cannot be satisfied: 1 scheduled, 2 remaining, "
        "pod group preemption: No preemption victims found for incoming preemptor"
    )
    cluster.node("r3-3", cpu="2", metadata={"name": "r3-3", "labels": {RACK: "r3"}})
    cluster.wait(30)
    assert racks_of(cluster, "a", 4) == ["r3"]


def test_without_the_gate_the_constraint_has_no_effect() -> None:
    cluster = a_cluster(GANGS)
    gang(cluster, "a", 4, cpu="2")
    cluster.wait(10)
    assert "" not in racks_of(cluster, "a", 4) and len(racks_of(cluster, "a", 4)) > 1


@pytest.mark.parametrize("gates", [GANGS, RACKS])
def test_a_recording_of_gangs_that_compete_replays_equal(tmp_path: Path, gates: str) -> None:
    limits = RecordingLimits(interval_s=20, drops=False)
    cluster = a_cluster(gates, RecordingSettings(tmp_path, limits, "test"))
    for name, size, cpu in (("a", 3, "1"), ("b", 3, "2"), ("c", 4, "1"), ("d", 2, "2")):
        gang(cluster, name, size, cpu)
        cluster.wait(7)
    for number in range(3):
        cluster.ask("DELETE", f"/api/v1/namespaces/default/pods/b-{number}")
    cluster.wait(60)
    placed = sum(
        cluster.place(f"{name}-{n}") != "" for name, size in (("a", 3), ("c", 4), ("d", 2)) for n in range(size)
    )
    assert placed >= 5, "a gang stays, and one of two others takes the room of b"
    assert cluster.cluster.recorder is not None
    cluster.cluster.recorder.close()
    replayer, tally = Replayer(only_run(tmp_path)), ReplayTally()
    for step in replayer.steps():
        tally.add(step)
    assert (replayer.problems, replayer.fault_count, tally.differing_steps) == ([], 0, 0)
    assert tally.binds >= placed + 3
