"""Records a simulation: its scheduler is recorded like any other, on its virtual clock."""

from collections.abc import Mapping

from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.state.assembly import Recorder
from mooring.state.recording.recorder import RecordingSettings, RunRecorder, record_run, scheduler_header


class SimulationRecording:
    """Makes the recorder of one simulation (`record_to`). To be closed when the simulation is over."""

    def __init__(self, settings: RecordingSettings, gates: Mapping[str, bool] | None) -> None:
        self._settings, self._gates = settings, gates
        self._recorder: RunRecorder | None = None

    def __call__(self, config: KubeSchedulerConfiguration, started_ns: int, seed: int | None) -> Recorder:
        settings = self._settings
        header = scheduler_header(config, self._gates, started_ns, settings.version, settings.annotations)
        header.tie_break, header.seed = ("name", 0) if seed is None else ("seed", seed)
        self._recorder = record_run(settings.directory, header, settings.limits)
        return self._recorder

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
