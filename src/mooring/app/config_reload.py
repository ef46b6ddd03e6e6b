"""Takes another configuration into a scheduler at work, when its file has changed or a signal asks for it.

The file is read again every two seconds. A new content counts when two readings in a row agree, so that a file that is being
written is not taken half. Readings follow symbolic links, so that a ConfigMap whose links are switched over is a change like
another one. A file that cannot be used changes nothing.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from mooring.framework.config.problems import ConfigError
from mooring.framework.config.types import Extender, KubeSchedulerConfiguration
from mooring.framework.profile.profiles import Profile
from mooring.inputs.configuration_files import configuration_text
from mooring.inputs.input_errors import InputError, problem_line, problems_of
from mooring.kit.logs import Log
from mooring.kit.metrics import Description, MetricRegistry
from mooring.scheduler.scheduler import Scheduler

POLL_S = 2.0
"""How often the file is read: it has some kilobytes, and the kubelet takes a minute to bring a ConfigMap into a pod."""

RELOADS = Description(
    "mooring_config_reloads_total",
    "counter",
    "ALPHA",
    "Configurations that were read again, by result: changed, same, failed. Only with --config.",
    ("result",),
    shows_zero=True,
)
RESULTS = CHANGED, SAME, FAILED = "changed", "same", "failed"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The file of a configuration, and how it is read. Flags may override what it says."""

    file: str
    load: Callable[[], KubeSchedulerConfiguration]
    """Raises ConfigError and InputError."""


@dataclass(frozen=True, slots=True)
class ConfigReload:
    """The outcome of one reading."""

    result: str
    changes: tuple[str, ...] = ()
    """A sentence for each change, or for each problem if the file cannot be used."""
    ignored: tuple[str, ...] = ()
    """Sections that differ, and that only a restart changes."""


Swap = Callable[[KubeSchedulerConfiguration], None]
"""Builds the profiles and puts them into the scheduler. Raises ConfigError or ValueError before anything has changed."""


class ConfigReloads:
    """The readings of one file. `config` is the configuration that the scheduler has now."""

    def __init__(
        self,
        source: ConfigSource,
        config: KubeSchedulerConfiguration,
        scheduler: Scheduler,
        swap: Swap,
        told: Callable[[ConfigReload], None],
        metrics: MetricRegistry | None = None,
    ) -> None:
        """`told` gets every outcome, and `metrics` counts them."""
        registry = metrics or MetricRegistry()
        registry.declare(RELOADS)
        self._counts = {result: registry.counter(RELOADS.name).series(result) for result in RESULTS}
        self.config = config
        self._source, self._scheduler, self._swap, self._told = source, scheduler, swap, told
        self._can_extend = bool(config.extenders)
        self._taken = self._seen = self._content()

    async def follow(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Read the file again and again, until cancelled."""
        while True:
            await sleep(POLL_S)
            self.look()

    def look(self) -> None:
        """Read the file once. A content that is new and that the reading before had as well is taken."""
        before, self._seen = self._seen, self._content()
        if self._seen == before and self._seen != self._taken:
            self.reload()

    def reload(self) -> None:
        """Take the file as it is now."""
        self._taken = self._seen = self._content()
        outcome = self._reloaded()
        self._counts[outcome.result].add()
        self._told(outcome)

    def _content(self) -> bytes | str:
        """The content of the file, or why it cannot be read."""
        try:
            return configuration_text(self._source.file)
        except InputError as fault:
            return str(fault)

    def _reloaded(self) -> ConfigReload:
        running = self.config
        try:
            config, ignored = with_fixed_sections(running, self._source.load(), can_extend=self._can_extend)
            if config == running:
                return ConfigReload(SAME, (), tuple(ignored))
            before = self._profiles()
            self._swap(config)
        except (ConfigError, InputError, ValueError) as fault:
            problems = problems_of(fault, self._source.file) or [problem_line(f"{self._source.file}: {fault}")]
            return ConfigReload(FAILED, tuple(problems))
        self.config = config
        changes = (*profile_changes(before, self._profiles()), *setting_changes(running, config))
        return ConfigReload(CHANGED, changes, tuple(ignored))

    def _profiles(self) -> dict[str, Profile]:
        return {name: runner.profile for name, runner in self._scheduler.core.runners.items()}


@dataclass(frozen=True, slots=True)
class LoggedReloads:
    """Logs each outcome."""

    file: str
    log: Log

    def __call__(self, reload: ConfigReload) -> None:
        for section in reload.ignored:
            self.log.warning("Configuration section needs a restart, ignored", file=self.file, section=section)
        if reload.result == FAILED:
            for problem in reload.changes:
                self.log.error("Configuration cannot be used, nothing changed", file=self.file, problem=problem)
        elif reload.result == SAME:
            self.log.info("Configuration is the same", file=self.file)
        else:
            self.log.info("Configuration changed", file=self.file, changes=len(reload.changes))
            for change in reload.changes:
                self.log.info("Configuration change", change=change)


# ---- differences between two configurations, in sentences for people who read logs

_FIXED = (
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "delay_cache_until_active",
    "tracing",
)
"""Sections that a process reads once, when it starts."""
_NUMBERS = ("percentage_of_nodes_to_score", "pod_initial_backoff_seconds", "pod_max_backoff_seconds")

_WRITTEN = {field.name: field.encode_name for field in msgspec.structs.fields(KubeSchedulerConfiguration)}
"""Field -> its name in a file."""


def with_fixed_sections(
    running: KubeSchedulerConfiguration, other: KubeSchedulerConfiguration, *, can_extend: bool
) -> tuple[KubeSchedulerConfiguration, list[str]]:
    """The other configuration with those sections of the running one that only a restart changes, and the names of the
    sections in which they differ. `can_extend`: the process can call extenders; one that has begun without any cannot."""
    fixed = _FIXED if can_extend else (*_FIXED, "extenders")
    differing = [name for name in fixed if getattr(running, name) != getattr(other, name)]
    kept = {name: getattr(running, name) for name in differing}
    return msgspec.structs.replace(other, **kept), [_WRITTEN[name] for name in differing]


def setting_changes(running: KubeSchedulerConfiguration, other: KubeSchedulerConfiguration) -> Iterator[str]:
    """A sentence for each setting outside of profiles that is another one."""
    for name in _NUMBERS:
        before, after = getattr(running, name), getattr(other, name)
        if before != after:
            yield f"{_WRITTEN[name]} is {after} instead of {before}"
    if running.extenders != other.extenders:
        yield f"extenders are {_hosts(other.extenders)} instead of {_hosts(running.extenders)}"


def _hosts(extenders: Sequence[Extender]) -> str:
    """How many extenders there are: their URLs may have credentials."""
    return str(len(extenders) or "none")


def profile_changes(running: Mapping[str, Profile], other: Mapping[str, Profile]) -> Iterator[str]:
    """A sentence for each profile that comes or goes, and for each difference of one that stays."""
    yield from (f"profile {name} is removed" for name in running if name not in other)
    for name, profile in other.items():
        if name not in running:
            yield f"profile {name} is added"
        else:
            yield from (f"profile {name} {change}" for change in _changes_of(running[name], profile))


def _changes_of(before: Profile, after: Profile) -> Iterator[str]:
    points = before.describe(), after.describe()
    for point in dict.fromkeys((*points[0], *points[1])):
        yield from _changes_at(point, points[0].get(point, []), points[1].get(point, []))
    for plugin in sorted(before.args.keys() | after.args.keys()):
        if before.args.get(plugin) != after.args.get(plugin) and plugin in after.plugins:
            yield f"has other arguments of {plugin}"
    if before.percentage_of_nodes_to_score != after.percentage_of_nodes_to_score:
        yield f"has percentageOfNodesToScore {after.percentage_of_nodes_to_score or 0}"


def _changes_at(point: str, before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The changes at one extension point. Names have the form `Name` or `Name*weight`."""
    weights = [dict(_name_and_weight(each) for each in listed) for listed in (before, after)]
    yield from (f"disables {name} at {point}" for name in weights[0] if name not in weights[1])
    for name, weight in weights[1].items():
        if name not in weights[0]:
            yield f"enables {name} at {point}" + (f" with weight {weight}" if weight else "")
        elif weights[0][name] != weight:
            yield f"has weight {weight} instead of {weights[0][name]} of {name} at {point}"
    if weights[0].keys() == weights[1].keys() and [*weights[0]] != [*weights[1]]:
        yield f"has another order at {point}: {', '.join(weights[1])}"


def _name_and_weight(text: str) -> tuple[str, str]:
    name, _, weight = text.partition("*")
    return name, weight
