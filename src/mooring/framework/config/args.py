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


def cpu_and_memory() -> list[ResourceSpec]:
    """The resources that are scored if none are listed: upstream's defaultResourceSpec."""
    return [ResourceSpec(name="cpu"), ResourceSpec(name="memory")]


class UtilizationShapePoint(Section):
    """A corner of a piecewise linear function: utilization in percent -> score in 0..10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Section):
    """The function for the strategy RequestedToCapacityRatio."""

    shape: list[UtilizationShapePoint] = field(default_factory=list)


class ScoringStrategy(Section):
    """Parity: a strategy that is written without a type is not given one, so that building the plugin rejects it."""

    type: Annotated[str, GoType("v1.ScoringStrategyType")] = ""
    resources: list[ResourceSpec] = field(default_factory=cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


def _least_allocated() -> ScoringStrategy:
    return ScoringStrategy(type=LEAST_ALLOCATED)


class DefaultPreemptionArgs(Args):
    """How many candidate nodes preemption looks at: the greater of a share of the nodes and a number of them."""

    kind: str = "DefaultPreemptionArgs"
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(Args):
    """`hard_pod_affinity_weight` is what a required affinity term of a pod on a node adds to the score of nodes for
    pods that it matches; 0 to 100."""

    kind: str = "InterPodAffinityArgs"
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Args):
    """`added_affinity` counts for every pod of the profile, beside the pod's own."""

    kind: str = "NodeAffinityArgs"
    added_affinity: NodeAffinitySpec | None = None


class NodeResourcesBalancedAllocationArgs(Args):
    """Resources whose use is to be balanced; weights must be 1."""

    kind: str = "NodeResourcesBalancedAllocationArgs"
    resources: list[ResourceSpec] = field(default_factory=cpu_and_memory)


class NodeResourcesFitArgs(Args):
    """The plugin's constructor calls `check_fit_args`. Parity: upstream's validation misses these arguments (see
    CHECKS in validate_args.py)."""

    kind: str = "NodeResourcesFitArgs"
    ignored_resources: list[str] = field(default_factory=list)
    ignored_resource_groups: list[str] = field(default_factory=list)
    scoring_strategy: ScoringStrategy = field(default_factory=_least_allocated)


class PodTopologySpreadArgs(Args):
    """Constraints for pods that have none of their own: a list, or upstream's system defaults (3 for host names, 5
    for zones)."""

    kind: str = "PodTopologySpreadArgs"
    default_constraints: list[TopologySpreadConstraint] = field(default_factory=list)
    defaulting_type: Annotated[str, GoType("v1.PodTopologySpreadConstraintsDefaulting")] = SYSTEM_DEFAULTING


class VolumeBindingArgs(Args):
    """`shape` is None unless StorageCapacityScoring is on."""

    kind: str = "VolumeBindingArgs"
    bind_timeout_seconds: Int64 = 600
    """Upstream's 10 minutes: how long PreBind waits for volumes to be bound."""
    shape: list[UtilizationShapePoint] | None = None


class DynamicResourcesArgs(Args):
    """A timeout is None where the gate that brings it is off."""

    kind: str = "DynamicResourcesArgs"
    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


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
