"""Records simulated days, as `--record` does, so that tests can replay them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.inputs.arrivals import Arrival, ArrivalStream
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.sim.day import Day, DayReport
from mooring.sim.simulated_cluster import SimulationRecording
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import RecordedRun, runs_in


def day_recording(
    directory: Path, limits: RecordingLimits, gates: Mapping[str, bool] | None = None
) -> SimulationRecording:
    """Hands a recorder to a day. To be closed when the day is over."""
    return SimulationRecording(RecordingSettings(directory, limits, "test"), gates)


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
    gates: Mapping[str, bool] | None = None,
) -> DayReport:
    """Run a day and record it into a folder of its own in the directory."""
    recording = day_recording(directory, limits or RecordingLimits(drops=False), gates)
    chosen = config or configuration.default(feature_gates=gates)
    day = Day(objects, arrivals, chosen, registry, gates=gates, ties=seed, record_to=recording)
    try:
        return day.run(None if until_s is None else round(until_s * NS_PER_S))
    finally:
        recording.close()


def only_run(directory: Path) -> RecordedRun:
    (run,) = runs_in(directory)
    return run
