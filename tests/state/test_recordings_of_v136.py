"""A recording that was made while Mooring followed v1.36 is read and replayed by the rules of v1.37.

States and steps hold objects and names of plugins, neither numbers of actions nor names of events, so that both may
change from release to release. In the recording five pods wait that five changes help: a gate is removed, a toleration
added, the labels of a neighbour change, a node grows, a node is uncordoned.
"""

from pathlib import Path

import pytest

from mooring.state.replay.replayer import Replayer
from recorded_days import only_run

DATA = Path(__file__).parent / "before_v1_37"
SEGMENTS = len(only_run(DATA).segments)


def replayed(segment: int | None) -> tuple[list[str], list[str]]:
    """The pods that the recording binds, and those that the replay binds."""
    run = only_run(DATA)
    start = None if segment is None else run.segments[segment].header.started_ns
    replayer, recorded, bound = Replayer(run), [], []
    for step in replayer.steps(start):
        recorded += [f"{outcome[1]} {outcome[2]}" for outcome in step.step.outcomes if outcome[0] == "bind"]
        bound += [f"{outcome[1]} {outcome[2]}" for outcome in step.outcomes if outcome[0] == "bind"]
    assert (replayer.problems, replayer.fault_count) == ([], 0)
    return recorded, bound


def test_all_its_pods_are_bound_as_they_were() -> None:
    recorded, bound = replayed(None)
    assert bound == recorded
    assert len(bound) == 4


@pytest.mark.parametrize("segment", range(SEGMENTS))
def test_its_states_are_read(segment: int) -> None:
    recorded, bound = replayed(segment)
    assert bound == recorded
