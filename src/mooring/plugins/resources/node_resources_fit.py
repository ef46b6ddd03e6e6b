"""NodeResourcesFit: what the pod requests must be free on the node; scores by how much of it is, or is not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mooring.cluster.nodes.kernels import (
    MAX_SCORE,
    Ints,
    Mask,
    along_shape,
    even_mean,
    least_allocated,
    least_allocated_of_floats,
    most_allocated,
    rounded_mean,
    weighted_mean,
)
from mooring.cluster.nodes.table import NodeTable, Resources, cells, few_rows
from mooring.framework.config.args import LEAST_ALLOCATED, NodeResourcesFitArgs, ScoringStrategy
from mooring.framework.config.validate_args import check_fit_args
from mooring.framework.context import SchedulingContext
from mooring.framework.events import Registration
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
from mooring.model.shape import PodPart
from mooring.plugins.resources.node_resources_fit_hints import fit_events, has_device_class
from mooring.plugins.resources.shortage_book import ShortageBook

_TOO_MANY_PODS = 1
_HOPELESS = 2
_FIRST_RESOURCE = 4
"""Bits of a code: the resources that are short follow from here on, in the order in which they are checked."""

_BITS = 60
"""So many resources have a bit each; a pod that requests more has its codes in a book."""

_FIRST_CLASS = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Amounts:
    """Several resources of a pod, as a column that goes with `cells`."""

    names: tuple[str, ...]
    resources: Resources
    amounts: Ints
    weights: Ints


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "NodeResourcesFit"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._devices_serve_requests = handle.feature_gates.get("DRAExtendedResource", True)
        args = args if isinstance(args, NodeResourcesFitArgs) else NodeResourcesFitArgs()
        check_fit_args(args)
        self._ignored = frozenset(args.ignored_resources or ())
        self._ignored_groups = frozenset(args.ignored_resource_groups or ())
        strategy = args.scoring_strategy
        assert strategy is not None  # checked above
        self._weights = {r.name: r.weight or 1 for r in strategy.resources or ()} or {"cpu": 1, "memory": 1}
        self._score = _strategy(strategy)
        self._score_one = _least_allocated_of_one if strategy.type == LEAST_ALLOCATED else None
        self._books: WeakKeyDictionary[object, ShortageBook] = WeakKeyDictionary()

    def events(self) -> Sequence[Registration]:
        return fit_events(self._devices_serve_requests)

    @reads(Reads.SHAPE, PodPart.REQUESTS)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        return None

    @reads(Reads.TOTALS, PodPart.REQUESTS)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        nodes, checked = context.nodes, self._checked(context)
        few = few_rows(rows)
        if few is not None and all(_fits(nodes, checked, row) for row in few):
            return None
        if len(checked.names) > _BITS:
            wanted = np.arange(nodes.height)[rows]
            return self._book(context).codes(
                lambda part: self._judge(context, checked, part), len(checked.names), wanted
            )
        full, hopeless, short = self._judge(context, checked, rows)
        if not short.any() and not full.any():
            return None
        bits = _FIRST_RESOURCE << np.arange(len(checked.names))[:, None]
        codes: Codes = full * _TOO_MANY_PODS | hopeless * _HOPELESS | (short * bits).sum(0)
        return codes

    def _judge(self, context: SchedulingContext, checked: Amounts, rows: Rows) -> tuple[Mask, Mask, Mask]:
        """Rows with too many pods; rows that lack what no pod could give back; and what is short: resources x rows."""
        nodes = context.nodes
        full = nodes.pod_count[rows] >= nodes.allowed_pods[rows]
        allocatable = cells(nodes.allocatable, checked.resources, rows)
        short = checked.amounts > allocatable - cells(nodes.requested, checked.resources, rows)
        if not short.any():
            return full, np.zeros(len(full), np.bool_), short
        too_much = checked.amounts > allocatable
        by_devices = self._by_devices(context)
        if by_devices is not None:  # what a node has nothing of is not for this plugin to judge
            served = by_devices & (allocatable == 0)
            short, too_much = short & ~served, too_much & ~served
        hopeless: Mask = np.logical_or.reduce(too_much, axis=0)
        return full, hopeless, short

    def _book(self, context: SchedulingContext) -> ShortageBook:
        """Belongs to the requests, as do the answers that are kept."""
        requests = context.shape.part(PodPart.REQUESTS)
        book = self._books.get(requests)
        if book is None:
            book = self._books[requests] = ShortageBook()
        return book

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        names = self._checked(context).names
        if len(names) > _BITS:
            is_full, is_hopeless, places = self._book(context).read(code)
        else:
            is_full, is_hopeless = bool(code & _TOO_MANY_PODS), bool(code & _HOPELESS)
            places = [place for place in range(len(names)) if code & (_FIRST_RESOURCE << place)]
        reasons = ["Too many pods"] if is_full else []
        reasons += [f"Insufficient {names[place]}" for place in places]
        return Rejection(tuple(reasons), Code.UnschedulableAndUnresolvable if is_hopeless else Code.Unschedulable)

    @reads(Reads.SHAPE, PodPart.REQUESTS)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        return None

    @reads(Reads.TOTALS, PodPart.REQUESTS)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        nodes, scored = context.nodes, self._scored(context)
        if not scored.names:
            return None
        few = few_rows(rows)
        if few is not None and self._score_one is not None:
            return np.array([self._score_one(nodes, scored, row) for row in few], np.int64)
        floats = context.float_columns(rows, scored.resources) if self._score_one is not None else None
        if floats is not None:
            free = floats.free_for_scores[scored.resources] - scored.amounts.astype(np.float64)
            return even_mean(least_allocated_of_floats(free, floats.divisor[scored.resources]), scored.weights)
        allocatable = cells(nodes.allocatable, scored.resources, rows)
        wanted = cells(nodes.scored, scored.resources, rows) + scored.amounts
        return self._score(allocatable, wanted, allocatable != 0, scored.weights)

    def _checked(self, context: SchedulingContext) -> Amounts:
        """The requests that are compared with what is free, in upstream's order."""

        def find() -> Amounts:
            request = context.shape.request
            scalars = sorted(name for name in request if name not in _FIRST_CLASS and not self._ignores(name))
            names = [name for name in (*_FIRST_CLASS, *scalars) if request.get(name, 0)]
            return _amounts(context.nodes, {name: request[name] for name in names})

        return context.of_shape((self.name, "checked", context.nodes.resources_version), find)

    def _scored(self, context: SchedulingContext) -> Amounts:
        """The resources that the strategy looks at; scalars only if the pod asks for them."""

        def find() -> Amounts:
            asked = {name: context.shape.score_request.get(name, 0) for name in self._weights}
            counted = {name: amount for name, amount in asked.items() if amount or not is_scalar_resource(name)}
            return _amounts(context.nodes, counted, [self._weights[name] for name in counted])

        return context.of_shape((self.name, "scored", context.nodes.resources_version), find)

    def _by_devices(self, context: SchedulingContext) -> Mask | None:
        """For each request that is compared whether devices can serve it; None: for none of them."""
        if not self._devices_serve_requests or context.cluster.serving_classes.is_empty:
            return None
        names = self._checked(context).names
        served = [name not in _FIRST_CLASS and has_device_class(context.cluster, name) for name in names]
        return np.array(served)[:, None] if any(served) else None

    def _ignores(self, name: str) -> bool:
        return is_extended_resource(name) and (name in self._ignored or name.split("/")[0] in self._ignored_groups)


def _amounts(nodes: NodeTable, by_name: dict[str, int], weights: Sequence[int] = ()) -> Amounts:
    return Amounts(
        tuple(by_name),
        nodes.resources(by_name) if by_name else slice(0, 0),
        np.array(list(by_name.values()), np.int64)[:, None],
        np.array(weights, np.int64),
    )


def _fits(nodes: NodeTable, checked: Amounts, row: int) -> bool:
    """Whether one node has room, in plain numbers; why it has none is for `filter` to say."""
    if nodes.pod_count[row] >= nodes.allowed_pods[row]:
        return False
    allocatable, held = nodes.allocatable[checked.resources, row], nodes.requested[checked.resources, row]
    wanted = checked.amounts[:, 0].tolist()
    return all(
        amount <= there - taken
        for amount, there, taken in zip(wanted, allocatable.tolist(), held.tolist(), strict=True)
    )


def _least_allocated_of_one(nodes: NodeTable, scored: Amounts, row: int) -> int:
    """The score of one node by the usual strategy, in plain numbers."""
    allocatable = nodes.allocatable[scored.resources, row].tolist()
    held = nodes.scored[scored.resources, row].tolist()
    total = weights = 0
    amounts = scored.amounts[:, 0].tolist()
    for there, taken, amount, weight in zip(allocatable, held, amounts, scored.weights.tolist(), strict=True):
        if there:
            total += max(there - taken - amount, 0) * MAX_SCORE // there * weight
            weights += weight
    return total // weights if weights else 0


Strategy = Callable[[Ints, Ints, Mask, Ints], Ints]
"""(allocatable, wanted, counted: resources x rows; weights) -> a score for each row."""


def _strategy(written: ScoringStrategy) -> Strategy:
    ratio = written.requested_to_capacity_ratio
    if written.type == "RequestedToCapacityRatio" and ratio is not None:
        points = [(point.utilization, point.score * 10) for point in ratio.shape or ()]
        return lambda allocatable, wanted, counted, weights: rounded_mean(
            along_shape(most_allocated(allocatable, wanted), points), counted, weights
        )
    kernel = most_allocated if written.type == "MostAllocated" else least_allocated
    return lambda allocatable, wanted, counted, weights: weighted_mean(kernel(allocatable, wanted), counted, weights)
