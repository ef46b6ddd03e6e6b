"""Builds a scheduler from a configuration: plugins, one runner for each profile, and the scheduler around them.

This is the only module that knows both the in-tree plugins and the scheduler: everything else is handed a registry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.settings import settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.intents import Intent
from mooring.framework.contract.points import SchedulerServices
from mooring.framework.kept.kept_answers import KeptAnswers
from mooring.framework.kept.prepared import SearchCursor
from mooring.framework.profile.profiles import build_profiles
from mooring.framework.profile.registry import Registry, load_entry_points
from mooring.kit.clock import Clock
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.queue.backoff import QueueSettings
from mooring.queue.entry import ReportFault
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.extender_asking import in_asking_order
from mooring.scheduler.inputs import ConfigurationChanged, Input, NewProfiles
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.under_way import Outbox
from mooring.state.recording.recorded_steps import ATTEMPT, RELEASE

# ---- A scheduler that shows each step to a recorder: what it was told, when, and what it asked for in answer.
#
# A scheduler is a function of its inputs, their order and the time that its clock shows at each of them. The clock of
# a recorded scheduler stands still during a step, so that one time a step is enough to repeat it.


class StepClock:
    """Shows the time at which the present step began. Between steps it stands still."""

    def __init__(self, source: Clock) -> None:
        self.read_source = source.now_ns
        self.step_ns = self.read_source()

    def now_ns(self) -> int:
        return self.step_ns


class Recorder(Protocol):
    """Takes the steps of a scheduler, in order, when each is over: its state may be read then. It must be quick and must
    not raise: it is called between decisions."""

    def took_in(self, scheduler: Scheduler, now_ns: int, change: Input, intents: Sequence[Intent]) -> None:
        """The scheduler was told of `change`, and asked for `intents` in answer."""

    def stepped(self, scheduler: Scheduler, now_ns: int, code: int, intents: Sequence[Intent]) -> None:
        """An attempt was made for the next pod (ATTEMPT), or bindings went on whose wait on Permit was over (RELEASE)."""

    def interrupted(self) -> None:
        """Something else than a step changed the scheduler: it cannot be repeated."""


class RecordedScheduler(Scheduler):
    """A scheduler that shows each step to a recorder. Everything that changes its state is one of three steps."""

    def __init__(self, *args: Any, recorder: Recorder, step_clock: StepClock, **kwargs: Any) -> None:
        """`step_clock` is the scheduler's clock; the other arguments are those of Scheduler."""
        super().__init__(*args, **kwargs)
        self._clock = step_clock
        self._recorder = recorder

    def handle(self, change: Input) -> None:
        """Hot: as `_step`, without a call for it. Most steps are inputs."""
        clock, intents = self._clock, self.core.outbox.intents
        clock.step_ns = now_ns = clock.read_source()
        before = len(intents)
        try:
            self._take_in(change)
        finally:  # an input that could not be taken in has changed something all the same, and will again
            self._recorder.took_in(self, now_ns, change, intents[before:] if len(intents) > before else ())

    @property
    def can_fill(self) -> bool:
        """Pods come one by one, because each is a step."""
        return False

    def attempt(self) -> Pod | None:
        pod: Pod | None = self._step(ATTEMPT, super().attempt)
        return pod

    def release_waiting(self) -> None:
        if self.core.services.waiting.by_id:
            self._step(RELEASE, super().release_waiting)

    def interrupted(self) -> None:
        self._recorder.interrupted()

    def _step(self, code: int, act: Callable[[], Any]) -> Any:
        """Begin a step: the clock shows its time from now on, and what it asks for is what is new in the outbox."""
        clock, intents = self._clock, self.core.outbox.intents
        clock.step_ns = now_ns = clock.read_source()
        before = len(intents)
        try:
            return act()
        finally:
            self._recorder.stepped(self, now_ns, code, intents[before:] if len(intents) > before else ())


_NO_GANGS = (
    "GenericWorkload is enabled, but GangScheduling plugin is not set. "
    "Gang scheduling using PodGroups may not work as expected."
)
"""Upstream's words."""


def all_plugins() -> Registry:
    """The plugins that come with Mooring and those that installed packages register."""
    registry = in_tree()
    load_entry_points(registry)
    return registry


def build_runners(
    config: KubeSchedulerConfiguration,
    registry: Registry | None = None,
    services: SchedulerServices | None = None,
    gates: Mapping[str, bool] | None = None,
    observer: Observer | None = None,
    kept: KeptAnswers | None = None,
    cursor: SearchCursor | None = None,
) -> dict[str, Runner]:
    """A runner for each scheduler name; raises ConfigError where the configuration asks for what cannot be had."""
    observer = observer or Observer()
    plugins = registry if registry is not None else all_plugins()
    profiles = build_profiles(config, plugins, gates, services, observer.registry)
    # Parity: upstream has one nextStartNodeIndex for all profiles, so the runners share the cursor. They share the kept
    # answers as well, whose limit in bytes holds for the whole scheduler.
    cursor, kept = cursor or SearchCursor(), kept or KeptAnswers()
    observer.watch_kept_answers(kept)
    return {name: Runner(profile, observer.caller_for(profile), cursor, kept) for name, profile in profiles.items()}


@dataclass(frozen=True)
class SchedulerLimits:
    """Limits of a scheduler that no configuration has: flags of `mooring run`."""

    max_unschedulable_s: float = 300
    """Upstream's --pod-max-in-unschedulable-pods-duration."""
    kept_answers_bytes: int | None = None
    """None: the limit grows with the number of nodes."""


def build_scheduler(
    config: KubeSchedulerConfiguration,
    clock: Clock,
    registry: Registry | None = None,
    options: DecideOptions | None = None,
    listeners: SchedulerListeners | None = None,
    gates: Mapping[str, bool] | None = None,
    limits: SchedulerLimits | None = None,
    recorder: Recorder | None = None,
) -> Scheduler:
    """A scheduler without I/O as the configuration describes it. `recorder` is shown every step.

    The outbox exists before the plugins, because plugins get services that write to it.
    """
    listeners, limits = listeners or SchedulerListeners(), limits or SchedulerLimits()
    build: Callable[..., Scheduler] = Scheduler
    if recorder is not None:
        clock = step_clock = StepClock(clock)
        build = partial(RecordedScheduler, recorder=recorder, step_clock=step_clock)
    all_gates = with_defaults(gates)
    outbox, cluster = Outbox(), Cluster(all_gates)
    services = SchedulerServices(cluster, now_ns=clock.now_ns, activate=outbox.activate, want=outbox.want)
    kept = KeptAnswers(limits.kept_answers_bytes)
    runners = build_runners(config, registry, services, gates, listeners.observer, kept)
    _tell_missing_gangs(runners, all_gates, listeners.report)
    # The options of a driver say nothing about extenders: these come from the configuration alone.
    options = replace(
        options or DecideOptions(),
        extenders=in_asking_order(config.extenders),
        names_expected_node=all_gates["NominatedNodeNameForExpectation"],
    )
    return build(clock, runners, services, outbox, options, _queue_settings(config, all_gates, limits), listeners)


def configuration_change(
    scheduler: Scheduler,
    config: KubeSchedulerConfiguration,
    registry: Registry | None = None,
    gates: Mapping[str, bool] | None = None,
    limits: SchedulerLimits | None = None,
) -> ConfigurationChanged:
    """Build the profiles of another configuration for a scheduler, which changes only when it handles the input. The gates
    and limits must be those that it was built with.

    Raises ConfigError, and ValueError for plugins that cannot work together.
    """
    core, all_gates = scheduler.core, with_defaults(gates)
    listeners, before = core.services.pod_listeners, len(core.services.pod_listeners)
    former = next(iter(core.runners.values()))
    try:
        runners = build_runners(config, registry, core.services, gates, core.observer, former.kept, former.cursor)
    finally:  # plugins register listeners while they are built, and are not at work yet
        added, listeners[before:] = listeners[before:], []
    _tell_missing_gangs(runners, all_gates, core.report)
    profiles = NewProfiles(
        runners,
        in_asking_order(config.extenders),
        _queue_settings(config, all_gates, limits or SchedulerLimits()),
        added,
    )
    return ConfigurationChanged(settings_object(config, gates), profiles)


def _tell_missing_gangs(runners: Mapping[str, Runner], gates: Mapping[str, bool], report: ReportFault) -> None:
    """Report each profile that cannot schedule the pod groups that the gates allow."""
    if gates["GenericWorkload"]:
        for runner in runners.values():
            if runner.profile.plugin("GangScheduling") is None:
                report(_NO_GANGS, None)


def _queue_settings(
    config: KubeSchedulerConfiguration, gates: Mapping[str, bool], limits: SchedulerLimits
) -> QueueSettings:
    return QueueSettings(
        config.pod_initial_backoff_seconds,
        config.pod_max_backoff_seconds,
        limits.max_unschedulable_s,
        gates["SchedulerPopFromBackoffQ"],
        # Parity: composite groups are not found by the names of their pods.
        gates.get("SchedulerPreQueueingHints", False) and not gates.get("CompositePodGroup", False),
    )
