"""A simulation that is recorded comes out again, with a seed for ties and without."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from build import a_node, a_pod
from mooring.cli.commands.simulate import simulate
from mooring.framework import config
from mooring.scheduler.ties import TieRule
from mooring.sim.simulated_cluster import SimulationRecording
from mooring.sim.simulation import Simulation
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.replayer import Replayer

CROWDED = Path(__file__).parents[2] / "examples" / "crowded.yaml"


@pytest.mark.parametrize("ties", [None, 0, 7, "kube-scheduler"])
def test_ties_are_broken_as_they_were(tmp_path: Path, ties: TieRule) -> None:
    nodes = [a_node(f"n{number}") for number in range(8)]
    pods = [a_pod(f"p{number}", cpu="1", schedulerName="default-scheduler") for number in range(20)]
    recording = SimulationRecording(RecordingSettings(tmp_path, RecordingLimits(drops=False)), {})
    Simulation([*nodes, *pods], config.default(), ties=ties, record_to=recording).run()
    recording.close()
    (run,) = runs_in(tmp_path)
    names: dict[TieRule, str] = {None: "name", "kube-scheduler": "kube-scheduler"}
    assert run.header.tie_break == names.get(ties, "seed")
    binds = []
    for step in Replayer(run).steps():
        assert step.is_equal
        binds += [outcome for outcome in step.outcomes if outcome[0] == "bind"]
    assert len(binds) == 20


def test_the_command_records(tmp_path: Path) -> None:
    directory = tmp_path / "recordings"
    result = CliRunner().invoke(simulate, [str(CROWDED), "--record", str(directory)])
    assert result.exit_code == 0, result.output
    (run,) = runs_in(directory)
    steps = list(Replayer(run).steps())
    assert steps
    assert all(step.is_equal for step in steps)
