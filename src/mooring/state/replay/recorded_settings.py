"""A scheduler as the header of a recording describes it, with a clock that shows the recorded times."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mooring.cluster.cluster import Cluster
from mooring.framework import config as configuration
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.feature_gates import GateError, parse_gates
from mooring.framework.config.settings import read_settings
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.profile.registry import Registry
from mooring.model.pod import Pod
from mooring.scheduler.core import Deciding, Tell
from mooring.scheduler.decide import DecideOptions, by_seed, decide, deciding, lowest_name
from mooring.scheduler.decision import Decision
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.scheduler import Scheduler
from mooring.state.assembly import all_plugins, build_scheduler
from mooring.state.recording.concealed import READ_ANNOTATIONS
from mooring.state.recording.reading import RecordedRun
from mooring.state.recording.segment_file import RecordingError, SegmentHeader


class RecordedClock:
    """Shows the time of the step that is being replayed."""

    def __init__(self, now_ns: int) -> None:
        self.now = now_ns

    def now_ns(self) -> int:
        return self.now


@dataclass(frozen=True, slots=True)
class MadeDecision:
    """A decision, with all that it takes to make it again. Good until anything follows from it."""

    runner: Runner
    pod: Pod
    cluster: Cluster
    options: DecideOptions
    seed: int
    decision: Decision
    search_start: int
    """Where a partial search over the nodes began."""
    was_extended: bool
    """Whether extenders took part. They are not asked again."""

    def explained(self) -> Decision:
        """The same decision with every verdict and every score; without extenders."""
        cursor, options = self.runner.cursor, replace(self.options, explain=True, record=True, extenders=())
        after, cursor.start = cursor.start, self.search_start
        try:
            return decide(self.runner, self.pod, self.cluster, options, self.seed)
        finally:
            cursor.start = after


def scheduler_of(
    header: SegmentHeader,
    clock: RecordedClock,
    registry: Registry | None = None,
    tell: Tell | None = None,
    decided: Callable[[MadeDecision], None] | None = None,
) -> Scheduler:
    """A scheduler as the header of a recording describes it. `decided` is called with each decision.

    Raises RecordingError, and ConfigError for a configuration that cannot be built here.
    """
    config, gates = settings_of(header)
    tie_break = by_seed if header.tie_break == "seed" else lowest_name
    options = DecideOptions(tie_break=tie_break)
    scheduler = build_scheduler(
        config, clock, registry, options, tell, gates=gates, max_unschedulable_s=header.max_unschedulable_s
    )
    if header.seed or decided is not None:
        scheduler.decide_with(_deciding(header.seed, decided))
    return scheduler


def _deciding(seed: int, decided: Callable[[MadeDecision], None] | None) -> Deciding:
    """Decides as ever, with seeds that `seed` changes, and shows each decision."""

    def decide_and_show(
        runner: Runner,
        pod: Pod,
        cluster: Cluster,
        options: DecideOptions,
        attempt: int,
        interested: InterestedExtenders | None,
    ) -> Steps[Decision]:
        start = runner.cursor.start
        decision = yield from deciding(runner, pod, cluster, options, seed + attempt, interested)
        if decided is not None:
            was_extended = interested is not None
            decided(MadeDecision(runner, pod, cluster, options, seed + attempt, decision, start, was_extended))
        return decision

    return decide_and_show


def settings_of(header: SegmentHeader) -> tuple[KubeSchedulerConfiguration, Mapping[str, bool]]:
    """The configuration and the feature gates of the scheduler that was recorded. Raises RecordingError, ConfigError."""
    settings = read_settings(header.settings, "the recording")
    if settings is None:
        raise RecordingError("the header of the recording has no configuration")
    try:
        gates = parse_gates(settings.gates_text)
    except GateError as fault:
        raise RecordingError(f"the feature gates of the recording cannot be used: {fault}") from fault
    return configuration.from_object(settings.configuration, feature_gates=gates), gates


def missing_plugins(run: RecordedRun, registry: Registry | None) -> list[str]:
    """A sentence for each plugin of the run that is not here."""
    names = run.header.plugins if run.segments else []
    known = all_plugins() if registry is None and names else registry
    return [
        f"{run.name}: its plugin {name} is not installed; name its file with --plugin FILE"
        for name in names
        if known is not None and name not in known
    ]


def concealed_annotations(runs: Iterable[RecordedRun], registry: Registry) -> list[str]:
    """A note for each plugin of the recording that reads annotations of which the recording has digests only."""
    notes: dict[str, None] = {}
    undeclared = {*registry.undeclared_readers()}
    for header in (run.header for run in runs if run.segments):
        kept = AnnotationKeys.of(header.annotations)
        for name in header.plugins:
            missing = registry.annotation_keys(name).missing_in(READ_ANNOTATIONS | kept) if name in registry else []
            if missing or (name in undeclared and not kept):
                notes[_concealed(name, missing)] = None
    return [*notes]


def _concealed(name: str, missing: Sequence[str]) -> str:
    which = ", ".join(missing) or "it declares none"
    keys = ",".join(missing) or "KEY,..."
    return (
        f"plugin {name} reads annotations of which the recording has digests only ({which}), so its decisions may come out "
        f"otherwise; record with --keep-annotations {keys}"
    )
