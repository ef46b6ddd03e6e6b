"""The files of runs: segments follow each other, old ones go, a disk that fails or is slow loses steps and says so."""

import os
import threading
import time
from pathlib import Path

import pytest

from build import a_node, a_pod
from jumping_clock import JumpingClock
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.kit.clock import NS_PER_S, VirtualClock, WallClock
from mooring.state.recording import recorder, run_files
from mooring.state.recording.recorder import RunRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingFigures, RecordingLimits, RunFiles, segments_in
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import MAGIC, RecordingError, SegmentHeader, SegmentWriter
from mooring.state.replay.replayer import Replayer
from mooring.state.scheduler_assembly import build_scheduler


class Recorded:
    """A simulated cluster that is recorded; every second a pod comes."""

    def __init__(self, directory: Path, limits: RecordingLimits) -> None:
        configuration = config.default()
        clock = VirtualClock(START_NS)
        header = scheduler_header(configuration, {}, START_NS)
        header.tie_break = "name"
        self.recorder: RunRecorder = RunRecorder(directory, header, limits)
        scheduler = build_scheduler(configuration, clock, recorder=self.recorder)
        self.driver = Driver(clock, scheduler, with_versions=True)
        self.made = 0
        for number in range(3):
            self.driver.create(a_node(f"n{number}", cpu="4"))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.made += 1
            self.driver.create(a_pod(f"p{self.made}", cpu="100m", schedulerName="default-scheduler"))
            if self.made > 20:
                self.driver.delete("Pod", f"default/p{self.made - 20}")
            self.driver.settle()
            self.driver.advance_second()

    def wait_until_written(self) -> None:
        while self.recorder.files.waiting:
            os.sched_yield()


def replayed(run: RecordedRun, from_ns: int | None = None) -> tuple[int, list[str]]:
    replayer = Replayer(run)
    steps = list(replayer.steps(from_ns))
    assert all(step.is_equal for step in steps)
    return len(steps), replayer.problems


def test_a_run_has_segments_and_can_be_replayed_from_each(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=10, drops=False))
    recorded.run(60)
    recorded.recorder.close()
    (run,) = runs_in(tmp_path)
    assert [segment.header.begins for segment in run.segments] == ["empty", *["state"] * (len(run.segments) - 1)]
    assert len(run.segments) >= 5
    counts = [replayed(run, segment.header.started_ns) for segment in run.segments]
    assert all(problems == [] for _, problems in counts)
    assert counts[0][0] == recorded.recorder.figures.steps
    assert sorted(counts, reverse=True) == counts


def test_old_segments_go_and_the_rest_can_be_replayed(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not ours")
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=5, total_bytes=20_000, drops=False))
    for _ in range(8):
        recorded.run(10)
        recorded.wait_until_written()
    recorded.recorder.close()
    assert sum(path.stat().st_size for path in segments_in(tmp_path)) < 40_000
    (run,) = runs_in(tmp_path)
    assert run.header.begins == "state"
    assert replayed(run)[1] == []
    assert other.exists()


def test_segments_that_are_too_old_go_and_folders_with_them(tmp_path: Path) -> None:
    first = Recorded(tmp_path, RecordingLimits(drops=False))
    first.run(3)
    first.recorder.close()
    for path in segments_in(tmp_path):
        os.utime(path, (0, 0))
    second = Recorded(tmp_path, RecordingLimits(age_s=3600, drops=False))
    second.run(1)
    second.recorder.close()
    (run,) = runs_in(tmp_path)
    assert run.name == second.recorder.files.run
    assert [folder.name for folder in tmp_path.iterdir()] == [run.name]


def test_no_segment_becomes_too_old_when_the_clock_of_the_machine_is_set_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = JumpingClock(WallClock())
    monkeypatch.setattr(WallClock, "now_ns", staticmethod(lambda: time.time_ns() + wall.ahead_ns))
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=20, age_s=3600, drops=False))
    recorded.run(3)
    recorded.wait_until_written()
    wall.jump(86_400)
    recorded.run(60)
    recorded.recorder.close()
    (run,) = runs_in(tmp_path)
    assert next(path.stem for path in segments_in(tmp_path)) == "000001"
    assert replayed(run)[1] == []


def test_a_disk_that_fails_loses_steps_until_the_next_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=20, drops=False))
    recorded.run(5)
    recorded.wait_until_written()
    write = SegmentWriter.write

    def full(self: SegmentWriter, block: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SegmentWriter, "write", full)
    recorded.run(3)
    recorded.wait_until_written()
    monkeypatch.setattr(SegmentWriter, "write", write)
    recorded.run(30)
    recorded.recorder.close()
    figures = recorded.recorder.figures
    assert figures.faults >= 1
    assert figures.lost_steps > 0
    assert [record.message.split(recorded.recorder.files.run)[1] for record in caplog.records] == [
        " stops until it can be written again: [Errno 28] No space left on device",
        " goes on; the steps before are missing",
    ]
    (run,) = runs_in(tmp_path)
    assert {segment.header.begins for segment in run.segments[1:]} == {"state"}
    assert sum(segment.header.lost for segment in run.segments) == figures.lost_steps
    problems = replayed(run)[1]
    assert problems
    expected = ("its end is missing", "its state was not written", "steps before it were not recorded")
    assert all(any(text in problem for text in expected) for problem in problems)


def test_a_disk_that_is_too_slow_loses_steps_and_memory_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "MAX_WAITING", 0)
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=20))
    recorded.run(5)
    monkeypatch.setattr(run_files, "MAX_WAITING", 1024)
    for _ in range(20):
        recorded.wait_until_written()
        recorded.run(1)
    recorded.recorder.close()
    assert recorded.recorder.figures.lost_steps > 0
    (run,) = runs_in(tmp_path)
    assert sum(segment.header.lost for segment in run.segments) == recorded.recorder.figures.lost_steps
    count, problems = replayed(run)
    assert count == recorded.recorder.figures.steps > 0
    assert all("steps before it were not recorded; the replay goes on at" in problem for problem in problems)


@pytest.mark.parametrize("drops", [True, False])
def test_at_the_end_a_simulation_waits_for_a_slow_disk_and_a_live_scheduler_logs_that_it_is_missing(
    tmp_path: Path, drops: bool, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on = threading.Event()

    def slow_block() -> bytes:
        goes_on.wait(20)
        return b"{}"

    others = {*threading.enumerate()}
    files = RunFiles(tmp_path, RecordingLimits(drops=drops), START_NS, RecordingFigures())
    (writing,) = {*threading.enumerate()} - others
    files.begin(SegmentHeader(run=files.run, number=1))
    files.write(slow_block)
    if not drops:
        threading.Timer(0.1, goes_on.set).start()
    files.close(patience_s=0.01)
    assert writing.is_alive() == drops
    assert [record.getMessage() for record in caplog.records] == [
        f"the recording in {files.path} lacks its end: the disk took longer than 0.01 s"
    ] * drops
    goes_on.set()
    writing.join(20)


def test_a_segment_without_state_after_a_gap_is_said_and_left_out(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=10, drops=False))
    recorded.run(40)
    recorded.recorder.close()
    first, second, *_ = segments_in(tmp_path)
    first.write_bytes(first.read_bytes()[:-200])
    (run,) = runs_in(tmp_path)
    count, problems = replayed(run)
    assert 0 < count < recorded.recorder.figures.steps
    assert len(problems) == 1
    assert str(first) in problems[0]
    second.write_bytes(b"")
    (run,) = runs_in(tmp_path)
    assert any("not a recording" in problem for problem in run.problems)
    assert replayed(run)[0] > 0


def modes_below(folder: Path) -> set[str]:
    """The rights of all files and folders below one."""
    return {f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*")}


@pytest.mark.parametrize("is_there", [False, True], ids=["a new directory", "a directory that all may enter"])
def test_only_the_owner_may_read_a_recording(tmp_path: Path, is_there: bool) -> None:
    directory = tmp_path / "a" / "recordings"
    if is_there:
        directory.mkdir(parents=True)
        directory.chmod(0o755)
    mask = os.umask(0)
    try:
        recorded = Recorded(directory, RecordingLimits())
        recorded.run(3)
        recorded.recorder.close()
    finally:
        os.umask(mask)
    assert modes_below(directory) == {"700", "600"}
    assert f"{directory.stat().st_mode & 0o777:o}" == ("755" if is_there else "700")


def test_folders_of_earlier_versions_are_closed_to_others(tmp_path: Path) -> None:
    older = tmp_path / "20261116T080000Z-4f3a"
    older.mkdir()
    older.chmod(0o755)
    (older / "000001.rec").touch()
    Recorded(tmp_path, RecordingLimits()).recorder.close()
    assert older.stat().st_mode & 0o777 == 0o700


def test_a_directory_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no recording in this directory"):
        runs_in(tmp_path)
    with pytest.raises(RecordingError, match="there is no such directory"):
        runs_in(tmp_path / "nowhere")


def test_steps_are_handed_over_every_half_second(tmp_path: Path) -> None:
    assert recorder.FLUSH_NS == NS_PER_S // 2
    recorded = Recorded(tmp_path, RecordingLimits(drops=False))
    recorded.run(2)
    recorded.wait_until_written()
    (run,) = runs_in(tmp_path)
    assert replayed(run)[0] > 0, "what was handed over can be read while the run goes on"
    recorded.recorder.close()


def test_a_scheduler_that_is_never_quiet_has_segments_that_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "is_quiet", lambda scheduler: False)
    recorded = Recorded(tmp_path, RecordingLimits(segment_bytes=1500, interval_s=5, drops=False))
    for _ in range(30):
        recorded.run(2)
        recorded.wait_until_written()
    recorded.recorder.close()
    (run,) = runs_in(tmp_path)
    assert [segment.header.begins for segment in run.segments[:2]] == ["empty", "steps"]
    count, problems = replayed(run, run.segments[-1].header.started_ns)
    assert count == recorded.recorder.figures.steps, "it cannot begin later"
    assert problems == []
    segments_in(tmp_path)[0].unlink()
    (run,) = runs_in(tmp_path)
    count, problems = replayed(run)
    assert count == 0
    assert all("it has no state to go on from; not replayed" in problem for problem in problems)
    assert len(problems) == len(run.segments)


def test_what_follows_an_interruption_needs_a_state(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=1000, drops=False))
    recorded.run(15)
    recorded.recorder.interrupted()
    for _ in range(5):
        recorded.wait_until_written()
        recorded.run(1)
    recorded.recorder.close()
    (run,) = runs_in(tmp_path)
    assert [segment.header.begins for segment in run.segments] == ["empty", "state"]
    count, (problem,) = replayed(run)
    assert count == recorded.recorder.figures.steps
    assert "steps before it were not recorded; the replay goes on at 2026-02-01T00:00:1" in problem


def test_a_fault_of_the_recorder_does_not_stop_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scheduler: object) -> bool:
        raise ZeroDivisionError("a bug")

    recorded = Recorded(tmp_path, RecordingLimits(interval_s=5, drops=False))
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "is_quiet", broken)
        recorded.run(10)
    recorded.run(20)
    recorded.recorder.close()
    assert recorded.recorder.figures.faults > 0
    assert recorded.driver.scheduler.attempts == 30
    (run,) = runs_in(tmp_path)
    count, problems = replayed(run)
    assert count == recorded.recorder.figures.steps
    assert all("steps before it were not recorded" in problem for problem in problems)


def test_a_step_that_cannot_be_encoded_costs_no_step_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=1000, drops=False))
    recorded.driver.create(a_pod("unwritable", cpu="100m", labels={"app": "\ud800"}))
    noted = recorded.recorder.figures.steps
    for _ in range(12):
        recorded.run(1)
        recorded.wait_until_written()
    recorded.driver.delete("Pod", "default/unwritable")
    for _ in range(12):
        recorded.run(1)
        recorded.wait_until_written()
    recorded.recorder.close()
    assert noted == 3, "the nodes"
    assert recorded.recorder.figures.faults > 0
    (run,) = runs_in(tmp_path)
    count, problems = replayed(run)
    assert count == recorded.recorder.figures.steps > noted
    assert problems


def test_a_full_disk_is_said_once_and_leaves_no_empty_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every ten seconds a new segment fails, at its header or at its state, and the scheduler goes on."""
    recorded = Recorded(tmp_path, RecordingLimits(interval_s=20, drops=False))
    recorded.run(5)
    recorded.wait_until_written()
    put = SegmentWriter.put
    calls: list[int] = []

    def full(self: SegmentWriter, data: bytes) -> None:
        calls.append(len(data))
        if len(calls) % 2 or not data.startswith(MAGIC):  # no block is written
            raise OSError(28, "No space left on device")
        put(self, data)

    monkeypatch.setattr(SegmentWriter, "put", full)
    recorded.run(120)
    recorded.wait_until_written()
    monkeypatch.undo()
    assert len(calls) > 6
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1
    recorded.run(40)
    recorded.recorder.close()
    (run,) = runs_in(tmp_path)
    assert run.problems == [] and len(run.segments) >= 2
    assert all(next(segment.blocks(), b"") for segment in run.segments)
    assert recorded.made == 165
