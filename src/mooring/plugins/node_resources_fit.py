"""NodeResourcesFit: what the pod requests must be free on the node; scores by how much of it is, or is not."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mooring.cluster.kernels import (
    Ints,
    Mask,
    along_shape,
    least_allocated,
    most_allocated,
    rounded_mean,
    utilization,
    weighted_mean,
)
from mooring.cluster.table import CPU, MEMORY, NodeTable
from mooring.framework.config.args import NodeResourcesFitArgs
from mooring.framework.config.validate_args import check_fit_args
from mooring.framework.cycle import Cycle
from mooring.framework.points import (
    Codes,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    reads,
)
from mooring.framework.status import Code, Rejection, Skip
from mooring.model.names import is_extended_resource, is_scalar_resource

_TOO_MANY_PODS = 1
_HOPELESS = 2
_FIRST_RESOURCE = 4
"""Bits of a code: the resources that are short follow from here on, in the order in which they are checked."""

_FIRST_CLASS = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "NodeResourcesFit"

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, NodeResourcesFitArgs) else NodeResourcesFitArgs()
        check_fit_args(args)
        self._ignored = frozenset(args.ignored_resources or ())
        self._ignored_groups = frozenset(args.ignored_resource_groups or ())
        strategy = args.scoring_strategy
        self._resources = [(r.name, r.weight or 1) for r in strategy.resources or ()] or [("cpu", 1), ("memory", 1)]
        self._score = _strategy(strategy)

    @reads(Reads.SHAPE)
    def pre_filter(self, cycle: Cycle) -> Skip | None:
        return None

    @reads(Reads.ROW)
    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        nodes = cycle.nodes
        codes = (nodes.pod_count[rows] >= nodes.allowed_pods[rows]).astype(np.int64)
        for position, (name, amount) in enumerate(self._checked(cycle)):
            index = nodes.resource(name)
            allocatable = nodes.allocatable[index, rows]
            short = amount > allocatable - nodes.requested[index, rows]
            if short.any():
                codes |= short * (_FIRST_RESOURCE << position)
                codes |= (amount > allocatable) * _HOPELESS
        return codes if codes.any() else None

    def rejection(self, cycle: Cycle, code: int) -> Rejection:
        reasons = ["Too many pods"] if code & _TOO_MANY_PODS else []
        for position, (name, _) in enumerate(self._checked(cycle)):
            if code & (_FIRST_RESOURCE << position):
                reasons.append(f"Insufficient {name}")
        return Rejection(
            tuple(reasons), Code.UnschedulableAndUnresolvable if code & _HOPELESS else Code.Unschedulable
        )

    @reads(Reads.SHAPE)
    def pre_score(self, cycle: Cycle, rows: Rows) -> Skip | None:
        return None

    @reads(Reads.ROW)
    def score(self, cycle: Cycle, rows: Rows) -> Scores | None:
        allocatable, wanted, counted, weights = [], [], [], []
        for name, weight in self._resources:
            amount = cycle.shape.score_request.get(name, 0)
            if amount == 0 and is_scalar_resource(name):
                continue
            room, used = used_of(cycle.nodes, name, rows)
            allocatable.append(room)
            wanted.append(used + amount)
            counted.append(room != 0)
            weights.append(weight)
        return self._score(allocatable, wanted, counted, weights) if weights else None

    def _checked(self, cycle: Cycle) -> list[tuple[str, int]]:
        """The requests that are compared with what is free, in upstream's order."""
        return cycle.of_shape((self.name, "checked"), lambda: self._requests_to_check(cycle.shape.request))

    def _requests_to_check(self, request: dict[str, int]) -> list[tuple[str, int]]:
        checked = [(name, request[name]) for name in _FIRST_CLASS if request.get(name, 0) > 0]
        for name in sorted(request.keys() - set(_FIRST_CLASS)):
            if request[name] and not self._ignores(name):
                checked.append((name, request[name]))
        return checked

    def _ignores(self, name: str) -> bool:
        return is_extended_resource(name) and (name in self._ignored or name.split("/")[0] in self._ignored_groups)


def used_of(nodes: NodeTable, name: str, rows: Rows) -> tuple[Ints, Ints]:
    """(allocatable, in use) as scoring sees it: for cpu and memory, pods that request none count with a default."""
    index = nodes.resource(name)
    used = nodes.non_zero_requested if index in (CPU, MEMORY) else nodes.requested
    return nodes.allocatable[index, rows], used[index, rows]


Strategy = Callable[[Sequence[Ints], Sequence[Ints], Sequence[Mask], Sequence[int]], Ints]


def _strategy(strategy: Any) -> Strategy:
    if strategy.type == "RequestedToCapacityRatio":
        points = [(point.utilization, point.score * 10) for point in strategy.requested_to_capacity_ratio.shape]

        def by_shape(
            allocatable: Sequence[Ints], wanted: Sequence[Ints], counted: Sequence[Mask], weights: Sequence[int]
        ) -> Ints:
            usage = [utilization(room, want) for room, want in zip(allocatable, wanted, strict=True)]
            return rounded_mean([along_shape(share, points) for share in usage], counted, weights)

        return by_shape
    kernel = most_allocated if strategy.type == "MostAllocated" else least_allocated

    def by_share(
        allocatable: Sequence[Ints], wanted: Sequence[Ints], counted: Sequence[Mask], weights: Sequence[int]
    ) -> Ints:
        shares = [kernel(room, want) for room, want in zip(allocatable, wanted, strict=True)]
        return weighted_mean(shares, counted, weights)

    return by_share
