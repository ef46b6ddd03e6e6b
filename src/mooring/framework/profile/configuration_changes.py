"""Differences between the configuration of a running scheduler and another one, in sentences for people who read logs."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mooring.framework.config.types import Extender, KubeSchedulerConfiguration
from mooring.framework.profile.profiles import Profile

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
