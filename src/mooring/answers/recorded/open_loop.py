"""Recorded arrivals and changes once more, with the placements of another configuration.

Both the recorded and the other configuration are simulated, so that the two differ in nothing else: an attempt takes a
millisecond, and of nodes with the same score the one with the lowest name is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.answers.compare.comparing import comparison_of
from mooring.answers.compare.comparison import Comparison
from mooring.answers.experiments.compared_run import RunInputs, RunResult
from mooring.answers.experiments.placement_table import unpack
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.experiments.workers import RunProgress, run_here
from mooring.framework.config.types import DEFAULT_SCHEDULER_NAME, KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.inputs.recorded_load import RecordedLoad, recorded_load
from mooring.model.node import Node
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import missing_plugins, settings_of
from mooring.state.replay.run_reader import RecordedSpan

RECORDED = "recorded"
"""The name of the recorded configuration in the comparison."""


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """How the recorded scheduler was configured, in the first run."""

    config: KubeSchedulerConfiguration
    gates: Mapping[str, bool]


def recorded_settings(runs: Sequence[RecordedRun]) -> RecordedSettings:
    """Raises RecordingError where no run has any, ConfigError where they cannot be used."""
    header = next((run.header for run in runs if run.segments), None)
    if header is None:
        raise RecordingError(*(problem for run in runs for problem in run.problems[:1]))
    return RecordedSettings(*settings_of(header))


def would_have(
    runs: Sequence[RecordedRun],
    recorded: RecordedSettings,
    name: str,
    config: KubeSchedulerConfiguration,
    registry: Registry,
    span: RecordedSpan | None = None,
    on_progress: RunProgress | None = None,
) -> Comparison:
    """Compare the recorded configuration with another one on what was recorded. Raises RunFault, RecordingError."""
    if missing := [text for run in runs for text in missing_plugins(run, registry)]:
        raise RecordingError("\n".join(missing))
    names = frozenset(profile.scheduler_name or DEFAULT_SCHEDULER_NAME for profile in recorded.config.profiles)
    load = recorded_load(runs, names, span or RecordedSpan())
    if not load.objects and not load.arrivals:
        raise RecordingError("\n".join(load.problems) or "nothing was recorded in this time")
    inputs = RunInputs(
        load.objects,
        load.arrivals,
        gates=recorded.gates,
        until_ns=load.over_ns,
        registry=registry,
        changes=load.changes,
        replaced=frozenset(load.evicted),
    )
    plans = [RunPlan(RECORDED, RECORDED, recorded.config), RunPlan(_distinct(name), name, config)]
    found = dict(run_here(inputs, plans, on_progress or (lambda done, total: None)))
    results = [found[i] for i in range(len(plans))]
    return comparison_of(inputs, plans, results, [*load.problems, *_notes(load, results[0])])


def _distinct(name: str) -> str:
    return name if name != RECORDED else f"{name} (2)"


def _notes(load: RecordedLoad, result: RunResult) -> list[str]:
    """How far the simulation is from what was recorded, and what its figures leave out."""
    notes, placements = [], unpack(result.placements)
    if placements:
        kept = {pod: None if pod in load.evicted else node for pod, node in load.placements.items()}
        same = sum(placements.get(pod) == node for pod, node in kept.items())
        reason = ": nodes with the same score are chosen by name here, and attempts take other times"
        notes.append(
            f"simulated under the recorded configuration, {same:,} of {len(kept):,} pods end where they ended"
            f"{reason if same < len(kept) else ''}"
        )
    if any(isinstance(change.item, Node) for change in load.changes):
        notes.append("nodes changed while it was recorded; utilisation is a share of the nodes at the end")
    return notes
