"""Recordings of older formats are replayed by this version. The files were written by the version of their time."""

from collections import Counter
from pathlib import Path

import pytest

from mooring.state.recording.run_reading import runs_in
from mooring.state.recording.segment_file import FORMAT
from mooring.state.replay.replayer import Replayer

DATA = Path(__file__).parent / "data"


def test_there_is_a_recording_of_each_older_format() -> None:
    assert {folder.name for folder in DATA.iterdir()} == {f"format-{number}" for number in range(1, FORMAT)}


@pytest.mark.parametrize("folder", sorted(DATA.iterdir()), ids=lambda folder: folder.name)
def test_a_recording_of_an_older_format_is_replayed(folder: Path) -> None:
    (run,) = runs_in(folder)
    assert {segment.format for segment in run.segments} == {int(folder.name.removeprefix("format-"))}
    for start in [None, *(segment.header.started_ns for segment in run.segments)]:
        replayer = Replayer(run)
        found: Counter[str] = Counter()
        for step in replayer.steps(start):
            assert step.outcomes == step.step.outcomes
            found.update(outcome[0] for outcome in step.outcomes)
        assert replayer.problems == []
        assert found["bind"] > 0 or start == run.segments[-1].header.started_ns
    assert all(segment.is_ended for segment in run.segments)
