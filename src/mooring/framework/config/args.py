"""The typed arguments of the in-tree plugins, under upstream's names: what a plugin is constructed with.

Fields have upstream's defaults (pkg/scheduler/apis/config/v1/defaults.go), as far as no feature gate decides about
them.
"""

from typing import Annotated

from msgspec import field

from mooring.framework.config.durations import Duration
from mooring.framework.config.types import API_VERSION, GoType, Int32, Int64, Section
from mooring.model.pod_spec import NodeAffinitySpec, TopologySpreadConstraint

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"


class Args(Section):
    """Base of all arguments. A file may leave out version and kind: they follow from the plugin's name."""

    api_version: str = API_VERSION
    kind: str = ""


class ResourceSpec(Section):
    """A resource that a strategy scores, and how much it counts against the others."""

    name: str = ""
    weight: Int64 = 1
    """0 means 1."""


def cpu_and_memory() -> list[ResourceSpec]:
    """The resources that are scored if none are listed: upstream's defaultResourceSpec."""
    return [ResourceSpec(name="cpu"), ResourceSpec(name="memory")]


class UtilizationShapePoint(Section):
    """A corner of a piecewise linear function from utilization to score."""

    utilization: Int32 = 0
    """In percent."""
    score: Int32 = 0
    """0 to 10."""


class RequestedToCapacityRatioParam(Section):
    """The function for the strategy RequestedToCapacityRatio."""

    shape: list[UtilizationShapePoint] = field(default_factory=list)
    """By rising utilization."""


class ScoringStrategy(Section):
    """How NodeResourcesFit scores."""

    # Parity: a strategy that is written without a type is not given one, so that building the plugin rejects it.
    type: Annotated[str, GoType("v1.ScoringStrategyType")] = ""
    """`LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`."""
    resources: list[ResourceSpec] = field(default_factory=cpu_and_memory)
    """The resources that count; cpu and memory if the list is empty."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None
    """The function of the strategy of that name."""


class DefaultPreemptionArgs(Args):
    """How many candidate nodes preemption looks at: the greater of a share of the nodes and a number of them."""

    kind: str = "DefaultPreemptionArgs"
    min_candidate_nodes_percentage: Int32 = 10
    """The share of the nodes, 0 to 100."""
    min_candidate_nodes_absolute: Int32 = 100
    """The number of nodes."""


class InterPodAffinityArgs(Args):
    """How affinity terms of pods that are on nodes count in the scores for other pods."""

    kind: str = "InterPodAffinityArgs"
    hard_pod_affinity_weight: Int32 = 1
    """Weight of a required affinity term of a pod on a node: the term adds it to the score of the nodes in its domain for
    pods that it matches; 0 to 100."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether preferred terms of pods on nodes do not count for pods that have no terms themselves."""


class NodeAffinityArgs(Args):
    """Node affinity for all pods of a profile."""

    kind: str = "NodeAffinityArgs"
    added_affinity: NodeAffinitySpec | None = None
    """Counts for every pod of the profile, beside the pod's own; in the form of a pod's `nodeAffinity`."""


class NodeResourcesBalancedAllocationArgs(Args):
    """Arguments of NodeResourcesBalancedAllocation: the resources whose utilization the plugin balances."""

    kind: str = "NodeResourcesBalancedAllocationArgs"
    resources: list[ResourceSpec] = field(default_factory=cpu_and_memory)
    """Resources whose use is to be balanced; weights must be 1."""


class NodeResourcesFitArgs(Args):
    """Which resources NodeResourcesFit leaves out, and how it scores."""

    # Parity: upstream's validation misses these arguments (see CHECKS in validate_args.py), so the plugin's constructor
    # calls `check_fit_args`.
    kind: str = "NodeResourcesFitArgs"
    ignored_resources: list[str] = field(default_factory=list)
    """Extended resources that it does not check."""
    ignored_resource_groups: list[str] = field(default_factory=list)
    """Groups of them: `example.com` stands for all resources `example.com/...`."""
    scoring_strategy: ScoringStrategy = field(default_factory=lambda: ScoringStrategy(type=LEAST_ALLOCATED))


class PodTopologySpreadArgs(Args):
    """Constraints for pods that have none of their own."""

    kind: str = "PodTopologySpreadArgs"
    default_constraints: list[TopologySpreadConstraint] = field(default_factory=list)
    """The constraints, if `defaultingType` is `List`; in the form of a pod's, without a selector."""
    defaulting_type: Annotated[str, GoType("v1.PodTopologySpreadConstraintsDefaulting")] = SYSTEM_DEFAULTING
    """`List`, or `System`: soft constraints with `maxSkew` 3 for host names and 5 for zones."""


class VolumeBindingArgs(Args):
    """How VolumeBinding waits and scores."""

    kind: str = "VolumeBindingArgs"
    bind_timeout_seconds: Int64 = 600
    """How long PreBind waits for volumes to be bound."""
    shape: list[UtilizationShapePoint] | None = None
    """Scores by utilization of storage; only with the gate StorageCapacityScoring."""
    # None unless the gate is on.


class DynamicResourcesArgs(Args):
    """Limits of time of DynamicResources."""

    # A timeout is None where the gate that brings it is off.
    kind: str = "DynamicResourcesArgs"
    filter_timeout: Duration | None = None
    """How long the search for devices may take; only with the gate DRASchedulerFilterTimeout."""
    binding_timeout: Duration | None = None
    """How long a pod waits for devices to be ready; only with the gate DRADeviceBindingConditions."""


ARGS_KINDS: dict[str, type[Args]] = {
    kind.__name__: kind
    for kind in (
        DefaultPreemptionArgs,
        DynamicResourcesArgs,
        InterPodAffinityArgs,
        NodeAffinityArgs,
        NodeResourcesBalancedAllocationArgs,
        NodeResourcesFitArgs,
        PodTopologySpreadArgs,
        VolumeBindingArgs,
    )
}
"""Kind -> type, of all arguments that are decoded strictly. Arguments of other plugins stay as they are written."""


def args_kind(plugin_name: str) -> type[Args] | None:
    """The kind of a plugin's arguments; None for plugins that take none, and for those from outside."""
    return ARGS_KINDS.get(f"{plugin_name}Args")
