"""Records simulated days, as `--record` does, so that tests can replay them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.registry import Registry
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.recording.reading import RecordedRun, runs_in
from mooring.recording.recorder import RunRecorder, record_run, scheduler_header
from mooring.recording.run_files import RecordingLimits
from mooring.sim.arrival_stream import ArrivalStream
from mooring.sim.day import Day, DayReport
from mooring.sim.reading.arrivals import Arrival


class DayRecording:
    """Hands recorders to days, and closes them."""

    def __init__(
        self, directory: Path, limits: RecordingLimits | None = None, gates: Mapping[str, bool] | None = None
    ) -> None:
        self._directory, self._limits, self._gates = directory, limits, gates
        self.recorder: RunRecorder | None = None

    def __call__(self, config: KubeSchedulerConfiguration, started_ns: int, seed: int | None) -> RunRecorder:
        header = scheduler_header(config, self._gates, started_ns, "test")
        header = msgspec.structs.replace(header, tie_break="lowest name" if seed is None else "seed", seed=seed or 0)
        self.recorder = record_run(self._directory, header, self._limits)
        return self.recorder

    def close(self) -> None:
        assert self.recorder is not None
        self.recorder.close()


def record_day(
    directory: Path,
    objects: Sequence[KubeObject],
    arrivals: Sequence[Arrival] | ArrivalStream,
    config: KubeSchedulerConfiguration | None = None,
    registry: Registry | None = None,
    *,
    limits: RecordingLimits | None = None,
    seed: int | None = 1,
    until_s: float | None = None,
) -> DayReport:
    """Run a day and record it into a folder of its own in the directory."""
    recording = DayRecording(directory, limits or RecordingLimits(drops=False))
    day = Day(objects, arrivals, config or configuration.default(), registry, seed=seed, record_to=recording)
    try:
        return day.run(None if until_s is None else round(until_s * NS_PER_S))
    finally:
        recording.close()


def only_run(directory: Path) -> RecordedRun:
    (run,) = runs_in(directory)
    return run
