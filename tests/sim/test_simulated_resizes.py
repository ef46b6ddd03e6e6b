"""v1.37, 16: a simulation makes room for deferred resizes, comes to an end, and its recording comes out again."""

from pathlib import Path
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.model.pod import Pod
from mooring.sim.simulated_cluster import SimulationRecording
from mooring.sim.simulation import Simulation
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.replayer import Replayer

GATES = {"InPlacePodVerticalScalingSchedulerPreemption": True}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def on_node(name: str, cpu: str, priority: int, **status: Any) -> Pod:
    spec: dict[str, Any] = {"nodeName": "n", "priority": priority, "schedulerName": "default-scheduler"}
    return a_pod(name, cpu=cpu, metadata={"uid": f"uid-{name}"}, status={"phase": "Running", **status}, **spec)


@pytest.mark.parametrize(
    ("gates", "preempted"), [pytest.param(GATES, ["low"], id="on"), pytest.param({}, [], id="off")]
)
def test_v137_16_a_simulation_makes_room_and_can_be_replayed(
    tmp_path: Path, gates: dict[str, bool], preempted: list[str]
) -> None:
    held = [{"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}]
    objects = [
        a_node("n", cpu="3"),
        on_node("low", "2", 0),
        on_node("resized", "3", 100, conditions=[DEFERRED], containerStatuses=held),
        a_pod("waits", cpu="1", priority=-1, metadata={"uid": "uid-waits"}, schedulerName="default-scheduler"),
    ]
    recording = SimulationRecording(RecordingSettings(tmp_path, RecordingLimits(drops=False)), gates)
    settings = config.default(feature_gates=gates)
    report = Simulation(objects, settings, gates=gates, record_to=recording).run()
    recording.close()
    assert [victim.pod.name for victim in report.preempted] == preempted
    assert not any("stopped after" in note for note in report.notes)
    (run,) = runs_in(tmp_path)
    steps = list(Replayer(run).steps())
    assert steps
    assert all(step.is_equal for step in steps)
