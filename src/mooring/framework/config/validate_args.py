"""Validation of plugin arguments. `check_fit_args` stands apart: those are checked only when the plugin is built."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mooring.framework.config.args import (
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    Args,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from mooring.framework.config.durations import Duration
from mooring.framework.config.problems import duplicate, forbidden, invalid, required, unsupported
from mooring.model.names import qualified_name_faults
from mooring.model.pod_spec import NodeAffinitySpec, TopologySpreadConstraint
from mooring.model.selectors import aggregated, term_faults

Gates = Mapping[str, bool]
Check = Callable[[str, Any, Gates], Iterator[str]]
"""Path of the arguments, the arguments, the feature gates -> what is wrong."""


def _preemption(path: str, args: DefaultPreemptionArgs, gates: Gates) -> Iterator[str]:
    """Yield the errors of DefaultPreemptionArgs. If both limits are 0, no candidate would be left."""
    share, number = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    share_path, number_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= share <= 100:
        yield invalid(share_path, share, "not in valid range [0, 100]")
    if number < 0:
        yield invalid(number_path, number, "not in valid range [0, inf)")
    if share == number == 0:
        yield invalid(share_path, share, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(number_path, number, "cannot be zero at the same time as minCandidateNodesPercentage")


def _pod_affinity(path: str, args: InterPodAffinityArgs, gates: Gates) -> Iterator[str]:
    if not 0 <= args.hard_pod_affinity_weight <= 100:
        yield invalid(f"{path}.hardPodAffinityWeight", args.hard_pod_affinity_weight, "not in valid range [0, 100]")


def _node_affinity(path: str, args: NodeAffinityArgs, gates: Gates) -> Iterator[str]:
    if args.added_affinity is not None:
        yield from affinity_problems(f"{path}.addedAffinity", args.added_affinity)


def _balanced(path: str, args: NodeResourcesBalancedAllocationArgs, gates: Gates) -> Iterator[str]:
    """Balance has no use for weights: upstream allows only 1."""
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        if resource.name in seen:
            yield duplicate(f"{path}.resources[{i}].name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{path}.resources[{i}].weight", resource.weight, "must be 1")


def _spread(path: str, args: PodTopologySpreadArgs, gates: Gates) -> Iterator[str]:
    """Listed constraints need the type List. Pairs of key and action must be unique, as in a pod."""
    kind, constraints = args.defaulting_type, args.default_constraints
    if kind not in (SYSTEM_DEFAULTING, LIST_DEFAULTING):
        yield unsupported(f"{path}.defaultingType", kind, (SYSTEM_DEFAULTING, LIST_DEFAULTING))
    elif kind == SYSTEM_DEFAULTING and constraints:
        yield invalid(f"{path}.defaultingType", kind, "when .defaultConstraints are not empty")
    seen: set[str] = set()
    for i, constraint in enumerate(constraints):
        there = f"{path}.defaultConstraints[{i}]"
        yield from _constraint_problems(there, constraint)
        pair = f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"
        if pair in seen:
            yield duplicate(there, pair)
        seen.add(pair)


def _constraint_problems(path: str, constraint: TopologySpreadConstraint) -> Iterator[str]:
    """A default constraint has no selector: it is that of the services and workloads of each pod."""
    key, action = constraint.topology_key, constraint.when_unsatisfiable
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, fault) for fault in qualified_name_faults(key))
    if not action:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield unsupported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
    if constraint.label_selector is not None:
        why = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", why)


def _volume_binding(path: str, args: VolumeBindingArgs, gates: Gates) -> Iterator[str]:
    """`shape` belongs to the gate StorageCapacityScoring."""
    if args.bind_timeout_seconds < 0:
        why = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, why)
    if gates["StorageCapacityScoring"]:
        yield from _shape_problems(f"{path}.shape", args.shape or [])
    elif args.shape is not None:
        why = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(f"{path}.shape", args.shape, why)


def _dynamic_resources(path: str, args: DynamicResourcesArgs, gates: Gates) -> Iterator[str]:
    """Parity: a timeout whose gate is off must not be written at all."""
    timeout = args.filter_timeout
    if timeout is not None and not gates["DRASchedulerFilterTimeout"]:
        yield forbidden(f"{path}.filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
    elif timeout is not None and timeout < Duration():
        yield invalid(f"{path}.filterTimeout", timeout, "must be zero or positive")
    timeout = args.binding_timeout
    if timeout is not None and not gates["DRADeviceBindingConditions"]:
        why = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
        yield forbidden(f"{path}.bindingTimeout", why)
    elif timeout is not None and timeout < Duration.of_seconds(1):
        yield invalid(f"{path}.bindingTimeout", timeout, "must be at least 1 second")


def check_fit_args(args: NodeResourcesFitArgs) -> None:
    """For NodeResourcesFit's constructor: raises ValueError with all that is wrong."""
    problems = list(_fit(args))
    if problems:
        raise ValueError(aggregated(problems))


def _fit(args: NodeResourcesFitArgs) -> Iterator[str]:
    """Everything that is wrong with the arguments of NodeResourcesFit, without a path: the constructor does not know
    it."""
    for i, name in enumerate(args.ignored_resources):
        yield from (invalid(f"ignoredResources[{i}]", name, fault) for fault in qualified_name_faults(name))
    for i, group in enumerate(args.ignored_resource_groups):
        path = f"ignoredResourceGroups[{i}]"
        if "/" in group:
            yield invalid(path, group, "resource group name can't contain '/'")
        yield from (invalid(path, group, fault) for fault in qualified_name_faults(group))
    yield from _strategy_problems(args.scoring_strategy)


def _strategy_problems(strategy: ScoringStrategy) -> Iterator[str]:
    """The ratio has to be there for its own strategy, and for no other."""
    supported = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
    if strategy.type not in supported:
        yield unsupported("scoringStrategy.type", strategy.type, supported)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            why = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"scoringStrategy.resources[{i}].weight", resource.weight, why)
    path, ratio = "scoringStrategy.requestedToCapacityRatio", strategy.requested_to_capacity_ratio
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            yield forbidden(path, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _shape_problems(f"{path}.shape", ratio.shape)


def _shape_problems(path: str, shape: list[UtilizationShapePoint]) -> Iterator[str]:
    """Points of a piecewise linear function: utilization in percent, increasing; scores from 0 to 10.

    Parity: only the first point that is out of order is reported.
    """
    if not shape:
        yield required(path, "at least one point must be specified")
        return
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            why = "values must be sorted in increasing order"
            yield invalid(f"{path}[{i}].utilization", shape[i].utilization, why)
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{i}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= 10:
            yield invalid(f"{path}[{i}].score", point.score, "not in valid range [0, 10]")


CHECKS: dict[str, tuple[type[Args], Check]] = {
    "DefaultPreemption": (DefaultPreemptionArgs, _preemption),
    "InterPodAffinity": (InterPodAffinityArgs, _pod_affinity),
    "NodeAffinity": (NodeAffinityArgs, _node_affinity),
    "NodeResourcesBalancedAllocation": (NodeResourcesBalancedAllocationArgs, _balanced),
    # Parity: upstream lists NodeResourcesFit under the name of its kind, so its arguments are not looked at here, and a
    # plugin of that name, which does not exist, has arguments of the wrong type.
    "NodeResourcesFitArgs": (NodeResourcesFitArgs, lambda path, args, gates: iter(())),
    "PodTopologySpread": (PodTopologySpreadArgs, _spread),
    "VolumeBinding": (VolumeBindingArgs, _volume_binding),
    "DynamicResources": (DynamicResourcesArgs, _dynamic_resources),
}
"""Plugin name -> the kind its arguments must have, and what to check in them."""


# ---- The node affinity that a profile adds to its pods: whatever would not parse, with the path to it


def affinity_problems(path: str, affinity: NodeAffinitySpec) -> Iterator[str]:
    """Yield the errors that upstream's parser reports for a node affinity. An empty term matches nothing and a preference of
    weight 0 counts for nothing, so neither is an error."""
    if affinity.required is not None:
        terms = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for i, term in enumerate(affinity.required.node_selector_terms or ()):
            yield from term_faults(f"{terms}[{i}]", term)
    for i, preferred in enumerate(affinity.preferred or ()):
        if preferred.weight != 0:
            # Parity: upstream leaves `.preference` out of this path.
            there = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            yield from term_faults(there, preferred.preference)
