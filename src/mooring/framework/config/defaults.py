"""Defaults that depend on more than the field itself: plugin sets, arguments, names, and zero values that mean unset.

Numbers and names are upstream's (pkg/scheduler/apis/config/v1/defaults.go and default_plugins.go).
"""

from collections.abc import Mapping

from mooring.framework.config.args import (
    SYSTEM_DEFAULTING,
    Args,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
    args_kind,
    cpu_and_memory,
)
from mooring.framework.config.durations import Duration
from mooring.framework.config.types import (
    DEFAULT_SCHEDULER_NAME,
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
)

_DEFAULT_PLUGINS = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeName": 0,
    "NodeUnschedulable": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}
"""Upstream's default plugins with their weights, in its order, which is the order of execution. A plugin that scores
with weight 0 counts with 1."""
_GATED_PLUGINS = (
    ("GenericWorkload", (("GangScheduling", 0),)),
    ("TopologyAwareWorkloadScheduling", (("TopologyPlacementGenerator", 0), ("PodGroupPodsCount", 1))),
)
"""Gate -> plugins that it adds at the end."""


def apply_defaults(config: KubeSchedulerConfiguration, gates: Mapping[str, bool]) -> None:
    """Complete a decoded configuration in place."""
    if config.enable_contention_profiling is None:
        config.enable_contention_profiling = config.enable_profiling
    _complete_leader_election(config.leader_election)
    _complete_client_connection(config.client_connection)
    if not config.profiles:
        config.profiles = [KubeSchedulerProfile()]
    if len(config.profiles) == 1 and config.profiles[0].scheduler_name is None:
        config.profiles[0].scheduler_name = DEFAULT_SCHEDULER_NAME
    for profile in config.profiles:
        _complete_profile(profile, gates)


def _complete_leader_election(election: LeaderElectionConfiguration) -> None:
    """Zero durations and empty names mean unset. The lease lasts 15 s, is renewed within 10 s, tried every 2 s."""
    unset = Duration()
    if election.lease_duration == unset:
        election.lease_duration = Duration.of_seconds(15)
    if election.renew_deadline == unset:
        election.renew_deadline = Duration.of_seconds(10)
    if election.retry_period == unset:
        election.retry_period = Duration.of_seconds(2)
    election.resource_lock = election.resource_lock or "leases"
    election.resource_name = election.resource_name or "kube-scheduler"
    election.resource_namespace = election.resource_namespace or "kube-system"


def _complete_client_connection(connection: ClientConnectionConfiguration) -> None:
    """Upstream's limits for requests to the API server: 50 a second, 100 at once."""
    connection.content_type = connection.content_type or "application/vnd.kubernetes.protobuf"
    connection.qps = connection.qps or 50.0
    connection.burst = connection.burst or 100


def _complete_profile(profile: KubeSchedulerProfile, gates: Mapping[str, bool]) -> None:
    """Merge the plugin sets, complete written arguments, and add default arguments for plugins without any.

    Parity: these are appended in the order of their names.
    """
    profile.scheduler_name = profile.scheduler_name or ""
    profile.plugins = merge_plugins(Plugins(multi_point=default_plugins(gates)), profile.plugins)
    for written in profile.plugin_config:
        if isinstance(written.args, Args):
            _complete_args(written.args, gates)
    configured = {written.name for written in profile.plugin_config}
    for name in sorted(profile.plugins.enabled_names() - configured):
        kind = args_kind(name)
        if kind is not None:
            args = kind()
            _complete_args(args, gates)
            profile.plugin_config.append(PluginConfig(name=name, args=args))


def default_plugins(gates: Mapping[str, bool]) -> PluginSet:
    """The multiPoint set of a profile that says nothing. Its order is the order of execution at every point."""
    listed = list(_DEFAULT_PLUGINS.items())
    if gates["InPlacePodVerticalScalingSchedulerPreemption"]:
        place = next(place for place, (name, _) in enumerate(listed) if name == "NodeResourcesFit")
        listed.insert(place, ("DeferredPodScheduling", 0))
    for gate, plugins in _GATED_PLUGINS:
        if gates[gate]:
            listed += plugins
    return PluginSet(enabled=[PluginEntry(name=name, weight=weight) for name, weight in listed])


def merge_plugins(defaults: Plugins, written: Plugins) -> Plugins:
    """The defaults as the user changed them, set by set."""
    merged = Plugins()
    for attribute in Plugins.__struct_fields__:
        setattr(merged, attribute, merge_set(getattr(defaults, attribute), getattr(written, attribute)))
    return merged


def merge_set(defaults: PluginSet, written: PluginSet) -> PluginSet:
    """Defaults that are not disabled keep their place, re-listed ones with the user's entry; the user's others follow.

    | defaults | enabled | disabled | result      |
    | A B      | B*5 C   |          | A B*5 C     |
    | A B      | B*5     | B        | A B*5 (new) |
    | A B      | C       | *        | C           |

    Of entries with one name the last replaces the default, the others are appended: building the profile rejects them.
    """
    disabled = [PluginEntry(name=entry.name) for entry in (*written.disabled, *defaults.disabled)]
    off = {entry.name for entry in disabled}
    last_index = {entry.name: i for i, entry in enumerate(written.enabled)}
    enabled: list[PluginEntry] = []
    replacing: set[int] = set()
    for entry in defaults.enabled if "*" not in off else ():
        if entry.name in off:
            continue
        index = last_index.get(entry.name)
        if index is not None:
            replacing.add(index)
        enabled.append(entry if index is None else written.enabled[index])
    enabled += (entry for i, entry in enumerate(written.enabled) if i not in replacing)
    return PluginSet(enabled=enabled, disabled=disabled)


def _complete_args(args: Args, gates: Mapping[str, bool]) -> None:
    """Set the defaults of arguments that depend on a feature gate, and the defaults of fields whose zero value means
    unset."""
    match args:
        case NodeResourcesBalancedAllocationArgs():
            args.resources = _weighted(args.resources)
        case NodeResourcesFitArgs():
            args.scoring_strategy.resources = _weighted(args.scoring_strategy.resources)
        case PodTopologySpreadArgs():
            args.defaulting_type = args.defaulting_type or SYSTEM_DEFAULTING
        case VolumeBindingArgs() if gates["StorageCapacityScoring"] and not args.shape:
            args.shape = [UtilizationShapePoint(score=10), UtilizationShapePoint(utilization=100)]
        case DynamicResourcesArgs():
            _complete_timeouts(args, gates)


def _weighted(resources: list[ResourceSpec]) -> list[ResourceSpec]:
    """An empty list means the default one, and weight 0 means 1."""
    return [ResourceSpec(name=resource.name, weight=resource.weight or 1) for resource in resources or cpu_and_memory()]


def _complete_timeouts(args: DynamicResourcesArgs, gates: Mapping[str, bool]) -> None:
    """10 s for Filter and 10 minutes for binding, each only if its gate is on: without the gate the field must stay
    empty."""
    if args.filter_timeout is None and gates["DRASchedulerFilterTimeout"]:
        args.filter_timeout = Duration.of_seconds(10)
    if args.binding_timeout is None and gates["DRADeviceBindingConditions"]:
        args.binding_timeout = Duration.of_seconds(600)
