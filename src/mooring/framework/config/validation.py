"""Validation of a completed configuration: every problem it has, in upstream's order and words."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from mooring.framework.config.problems import duplicate, invalid, quote, required, show
from mooring.framework.config.types import (
    API_VERSION,
    Extender,
    ExtenderManagedResource,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    Plugins,
    TracingConfiguration,
)
from mooring.framework.config.validate_args import CHECKS
from mooring.model.names import is_extended_resource, qualified_name_faults

_REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins that upstream removed from v1, which it still names in an error of its own."""
_REMOVED_TEXT = f"was invalid in version {quote('v1')} (KubeSchedulerConfiguration is version {quote(API_VERSION)})"
_UNCHECKED_SETS = ("multiPoint", "placementGenerate", "placementScore")
"""Parity: a removed plugin in one of these is found only when the profile is built."""


def validate(config: KubeSchedulerConfiguration, gates: Mapping[str, bool]) -> list[str]:
    """The problems of a configuration after defaulting; none for a good one."""
    return [*_problems(config, gates)]


def _problems(config: KubeSchedulerConfiguration, gates: Mapping[str, bool]) -> Iterator[str]:
    """In upstream's order: operators compare the texts."""
    if config.client_connection.burst < 0:  # Parity: negative qps are allowed; client-go takes them for unlimited
        yield invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative")
    yield from _election_problems(config.leader_election)
    if config.parallelism <= 0:
        yield invalid("parallelism", config.parallelism, "should be an integer value greater than zero")
    if config.profiles:
        yield from _all_profile_problems(config.profiles, gates)
    else:
        yield required("profiles")
    yield from _percentage_problems("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    yield from _backoff_problems(config)
    yield from _all_extender_problems(config.extenders)
    if config.tracing is not None:
        yield from _tracing_problems(config.tracing)


def _election_problems(election: LeaderElectionConfiguration) -> Iterator[str]:
    """Parity: where the lease is not longer than the deadline, the error shows the deadline under the lease's name."""
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, duration in durations.items():
        if duration.nanoseconds <= 0:
            yield invalid(f"leaderElection.{name}", duration, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        yield invalid("leaderElection.leaseDuration", election.renew_deadline, "must be greater than `RenewDeadline`")
    names = {
        "resourceLock": election.resource_lock,
        "resourceNamespace": election.resource_namespace,
        "resourceName": election.resource_name,
    }
    yield from (required(f"leaderElection.{name}") for name, value in names.items() if not value)
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')


def _percentage_problems(path: str, percentage: int | None) -> Iterator[str]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _backoff_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Longer backoff than the maximum makes no sense; equal ones mean a constant backoff."""
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        yield invalid("podMaxBackoffSeconds", longest, "must be greater than or equal to PodInitialBackoffSeconds")


def _all_profile_problems(profiles: list[KubeSchedulerProfile], gates: Mapping[str, bool]) -> Iterator[str]:
    """Each profile by itself, then what all have to agree on."""
    names: set[str | None] = set()
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        yield from _profile_problems(path, profile, gates)
        if profile.scheduler_name in names:
            # Parity: upstream means to show the path of the first one, and what it prints is {}.
            yield duplicate(f"{path}.schedulerName", {})
        names.add(profile.scheduler_name)
    yield from _queue_sort_problems(profiles)


def _profile_problems(path: str, profile: KubeSchedulerProfile, gates: Mapping[str, bool]) -> Iterator[str]:
    """Yield the errors of one profile: its name, percentageOfNodesToScore, plugins that upstream has removed, and the
    arguments of plugins."""
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName")
    yield from _percentage_problems(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    yield from _removed_plugin_problems(f"{path}.plugins", profile.plugins)
    seen: set[str] = set()
    for i, config in enumerate(profile.plugin_config):
        there = f"{path}.pluginConfig[{i}]"
        if config.name in seen:
            yield duplicate(there, config.name)
        seen.add(config.name)
        yield from _plugin_config_problems(there, config, gates)


def _removed_plugin_problems(path: str, plugins: Plugins) -> Iterator[str]:
    """Removed plugins in the sets of single extension points."""
    for point, plugin_set in plugins.by_point().items():
        for i, entry in enumerate(plugin_set.enabled):
            if entry.name in _REMOVED_PLUGINS and point not in _UNCHECKED_SETS:
                yield invalid(f"{path}.{point}.enabled[{i}]", entry.name, _REMOVED_TEXT)


def _plugin_config_problems(path: str, config: PluginConfig, gates: Mapping[str, bool]) -> Iterator[str]:
    """Arguments of in-tree plugins have to be of their kind; those of other plugins are not checked."""
    if config.name in _REMOVED_PLUGINS:
        yield invalid(path, config.name, _REMOVED_TEXT)
    elif config.name in CHECKS:
        kind, check = CHECKS[config.name]
        if type(config.args) is kind:
            yield from check(f"{path}.args", config.args, gates)
        else:
            yield invalid(f"{path}.args", config.args, "has to match plugin args")


def _queue_sort_problems(profiles: list[KubeSchedulerProfile]) -> Iterator[str]:
    """All profiles share one queue, so they must order it alike."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else ""
    args = profiles[0].args_of(name) if name else None
    for i, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            path = f"profiles[{i}].plugins.queueSort"
            yield invalid(path, profile.plugins.queue_sort, "must be the same for all profiles")
        for config in profile.plugin_config:
            if config.name == name and show(config.args) != show(args):
                path = f"profiles[{i}].pluginConfig.args"
                yield invalid(path, config.args, "queueSort must be the same for all profiles")


def _all_extender_problems(extenders: list[Extender]) -> Iterator[str]:
    """Weights, managed resources, and that at most one extender binds: two would bind a pod twice."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"extenders[{i}].weight", extender.weight, "must have a positive weight applied to it")
        for j, resource in enumerate(extender.managed_resources):
            path = f"extenders[{i}].managedResources[{j}].name"
            yield from _managed_resource_problems(path, resource)
            if resource.name in managed:
                yield invalid(path, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(extender.bind_verb != "" for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _managed_resource_problems(path: str, resource: ExtenderManagedResource) -> Iterator[str]:
    """Only extended resources can be managed by an extender: the scheduler counts all others itself."""
    faults = qualified_name_faults(resource.name)
    if not faults and not is_extended_resource(resource.name):
        faults = ["is an invalid extended resource name"]
    yield from (invalid(path, resource.name, fault) for fault in faults)


_MAX_RATE = 1_000_000
_SCHEMES = ("dns", "unix", "unix-abstract")
_NAMING = "https://github.com/grpc/grpc/blob/master/doc/naming.md"


def _tracing_problems(tracing: TracingConfiguration) -> Iterator[str]:
    """component-base's ValidateTracingConfiguration. An endpoint without `//` is taken for the name of a host."""
    rate, path = tracing.sampling_rate_per_million, "tracing.samplingRatePerMillion"
    if rate is not None and rate < 0:
        yield invalid(path, rate, "sampling rate must be positive")
    if rate is not None and rate > _MAX_RATE:
        yield invalid(path, rate, "sampling rate per million must be less than or equal to one million")
    if tracing.endpoint is None:
        return
    endpoint = tracing.endpoint if "//" in tracing.endpoint else f"dns://{tracing.endpoint}"
    if (why := _endpoint_fault(endpoint)) is not None:
        yield invalid("tracing.endpoint", endpoint, why)


def _endpoint_fault(endpoint: str) -> str | None:
    """The words of Go's url.Parse for a port that is no number, or upstream's for a scheme that it does not support."""
    try:
        url = urlsplit(endpoint)
    except ValueError as fault:  # brackets that belong to no IPv6 address
        return f"parse {quote(endpoint)}: {fault}"
    _, colon, port = url.netloc.rpartition("]")[2].rpartition(":")
    if port and colon and not port.isdecimal():
        return f"parse {quote(endpoint)}: invalid port {quote(':' + port)} after host"
    if url.scheme not in _SCHEMES:
        return f"unsupported scheme: {url.scheme}.  Options are none, dns, unix, or unix-abstract.  See {_NAMING}"
    return None
