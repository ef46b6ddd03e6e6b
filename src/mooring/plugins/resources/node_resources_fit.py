"""NodeResourcesFit: what the pod requests must be free on the node; scores by how much of it is, or is not.

Filter compares for each resource: request > allocatable - requested rejects. A code is a set of bits, so that the
reasons for a node ("Insufficient cpu", "Too many pods") can be told later without asking again. Score compares
utilisation with the pod on the node by one of three strategies: least allocated, most allocated, or a shape of
utilisation.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from mooring.api.kinds.devices import DEVICE_CLASS
from mooring.cluster.claims.device_objects import IMPLICIT_PREFIX
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.facts import FIRST_CLASS
from mooring.cluster.columns.kernels import (
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
from mooring.cluster.columns.resource_amounts import cells
from mooring.cluster.nodes.float_columns import FIRST_RESOURCE, take
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.config.args import LEAST_ALLOCATED, NodeResourcesFitArgs, ScoringStrategy
from mooring.framework.config.validate_args import check_fit_args
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD,
    ASSIGNED_POD_DELETE,
    NODE,
    TARGET_POD,
    Action,
    Change,
    ClusterEvent,
    Hint,
    Registration,
    has_place,
    new_node_of,
    nodes_of,
    pods_of,
)
from mooring.framework.contract.group_points import PlacementScorePlugin, PodGroupAssignments, PodGroupContext
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Handle,
    Need,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ResourceDemand,
    Rows,
    ScorePlugin,
    Scores,
    reads,
)
from mooring.framework.contract.status import Code, Rejection, Skip
from mooring.model.devices import DeviceClass
from mooring.model.names import is_extended_resource, is_scalar_resource
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.quantity import parse_or, to_int, to_milli
from mooring.model.shape import PodPart
from mooring.plugins.resources.placement_score import score_by_use, use_grows
from mooring.plugins.resources.pod_amounts import (
    FIRST_SHORT,
    HOPELESS,
    TOO_MANY_PODS,
    PodAmounts,
    ShortageBook,
    as_bits,
    count_devices_in,
    served,
)

MOST_BITS = 60
"""So many resources have a bit each: an int64 has 61 beside its sign and the two bits above. A pod that requests more
has its codes in a ShortageBook."""


_CHECKED, _SCORED = "NodeResourcesFit/checked", "NodeResourcesFit/scored"
"""Keys under which the amounts of a pod are kept with its shape: those that Filter checks, and those that Score counts."""

_books: WeakKeyDictionary[object, dict[object, ShortageBook]] = WeakKeyDictionary()
"""For pods with more than MOST_BITS resources, by the part of their shape that says so, and by what the plugin ignores.
Profiles share kept codes, so they have to share their meaning. Entries go with the part."""


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, PlacementScorePlugin):
    """Requests are those of the shape; sums over the pods of a node are columns of the table."""

    name = "NodeResourcesFit"
    needs = (Need("filter", "preFilter", 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'),)
    is_same_in_all_profiles = True
    reads_other_nodes = False
    is_in_range = True

    def __init__(self, args: Any, handle: Handle) -> None:
        self._queues_resizes = handle.feature_gates.get("InPlacePodVerticalScalingSchedulerPreemption", False)
        args = args if isinstance(args, NodeResourcesFitArgs) else NodeResourcesFitArgs()
        check_fit_args(args)
        self._ignored = frozenset(args.ignored_resources or ())
        self._ignored_groups = frozenset(args.ignored_resource_groups or ())
        strategy = args.scoring_strategy
        assert strategy is not None  # checked above
        self._weights = {r.name: r.weight or 1 for r in strategy.resources or ()} or {"cpu": 1, "memory": 1}
        self._has_scalars = any(map(is_scalar_resource, self._weights))
        self._score = _strategy(strategy)
        self._is_least_allocated = strategy.type == LEAST_ALLOCATED

    def events(self) -> Sequence[Registration]:
        return EVENTS_WITH_RESIZES if self._queues_resizes else EVENTS

    @reads(Reads.SHAPE, PodPart.REQUESTS)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        """Upstream sums the requests here; the shape has them. Reads.SHAPE is right: it always says the same."""
        return None

    @reads(Reads.TOTALS, PodPart.REQUESTS)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Codes as bits; None if all rows fit.

        Reads.TOTALS is right: it reads allocatable, requested, pod_count and allowed_pods of the row. Device classes
        matter as well (`_by_devices`): the cluster touches all rows when a class comes to serve a resource or ceases
        to. Preemption relies on TOTALS: it changes sums for many nodes at once and asks again. For a resize the pod itself
        is looked up on its node, and nothing is kept then.
        """
        nodes, checked = context.nodes, self._checked(context)
        if len(checked.names) > MOST_BITS:
            wanted = np.arange(nodes.height)[rows]
            return self._book(context).codes(
                lambda part: self._judge(context, checked, part), len(checked.names), wanted
            )
        if not context.is_resize and _all_fit(context, checked):
            return None
        full, hopeless, short = self._judge(context, checked, rows)
        if not np.count_nonzero(short) and not np.count_nonzero(full):
            return None
        return as_bits(full, hopeless, short)

    def filter_row(self, context: SchedulingContext, row: int) -> int:
        checked = self._checked(context)
        is_huge = row in context.nodes.amounts.huge_rows
        if len(checked.names) > MOST_BITS or is_huge or context.is_resize or self._by_devices(context) is not None:
            return super().filter_row(context, row)
        return _code_of_one(context.nodes, checked, row)

    def demand(self, context: SchedulingContext) -> ResourceDemand | None:
        """Describe the comparison of `_judge` as a ResourceDemand, without the reasons for rejection. None if a node has
        amounts that columns cannot hold, and for a resize, which its node counts already."""
        if context.nodes.amounts.huge_rows or context.is_resize:
            return None
        checked = self._checked(context)
        return ResourceDemand(checked.resources, checked.column, self._by_devices(context))

    def _judge(self, context: SchedulingContext, checked: PodAmounts, rows: Rows) -> tuple[Mask, Mask, Mask]:
        """Rows with too many pods; rows that lack what no eviction could give; and what is short: resources x rows.

        A request above allocatable is hopeless (upstream: UnschedulableAndUnresolvable), so preemption leaves the node
        out.
        """
        full, hopeless, short = self._judge_others(context, checked, rows)
        own = context.nodes.row_book.get(context.pod.spec.node_name) if context.is_resize else None
        if own is not None:
            for place in np.flatnonzero(np.arange(context.nodes.height)[rows] == own).tolist():
                hopeless[place], short[:, place] = self._judge_resize(context, checked, own)
        return full, hopeless, short

    def _judge_resize(self, context: SchedulingContext, checked: PodAmounts, row: int) -> tuple[bool, list[bool]]:
        """Judge the row of a pod that is to be resized: whether it is hopeless, and for each resource whether it is short.

        The sums of the node count the pod already, as a rule with all that it requests. So only what it requests beyond that
        must be free: as a rule 0, which is more than is free on a node with less than nothing. Parity: an extended resource
        of which nothing more is requested is not looked at; the number of pods counts one more; what is hopeless goes by the
        whole request, but for an extended resource by what is requested beyond.
        """
        amounts, pods = context.nodes.amounts, context.nodes.pods_on[row]
        counted = next((pod.shape.exact_held for pod in pods if pod.id == context.pod.id), {})
        by_devices = self._by_devices(context)
        short, is_hopeless = [], False
        for place, (name, wanted) in enumerate(_exactly(context, checked).items()):
            there, taken = amounts.exact(name, row)
            more = max(wanted - counted.get(name, 0), 0)
            is_first_class = name in FIRST_CLASS
            is_judged = is_first_class or (more and not (by_devices is not None and by_devices[place, 0] and not there))
            is_short = bool(is_judged) and more > there - taken
            short.append(is_short)
            is_hopeless = is_hopeless or (is_short and (wanted if is_first_class else more) > there)
        return is_hopeless, short

    def _judge_others(self, context: SchedulingContext, checked: PodAmounts, rows: Rows) -> tuple[Mask, Mask, Mask]:
        """Judge rows that do not count the pod."""
        nodes = context.nodes
        allocatable = cells(nodes.amounts.allocatable, checked.resources, rows)
        lacking = _lacking(context, checked, rows)
        if lacking is not None:
            full, short = lacking[0], lacking[FIRST_RESOURCE:]
        else:
            full = nodes.pod_count[rows] >= nodes.allowed_pods[rows]
            short = checked.column > allocatable - cells(nodes.amounts.requested, checked.resources, rows)
        too_much = None
        if nodes.amounts.huge_rows:
            too_much = checked.column > allocatable
            nodes.amounts.settle_huge(_exactly(context, checked), rows, short, too_much)
        if not np.count_nonzero(short):
            return full, np.zeros(len(full), np.bool_), short
        if too_much is None:
            too_much = checked.column > allocatable
        by_devices = self._by_devices(context)
        if by_devices is not None:
            # A resource that the node has none of, and that a device class serves, is for DynamicResources to judge.
            served = by_devices & (allocatable == 0)
            short, too_much = short & ~served, too_much & ~served
        hopeless: Mask = np.logical_or.reduce(too_much, axis=0)
        return full, hopeless, short

    def _book(self, context: SchedulingContext) -> ShortageBook:
        """The book of the requests: codes in it mean something only for the answers that are kept for them."""
        books = _books.setdefault(context.shape.part(PodPart.REQUESTS), {})
        return books.setdefault((self._ignored, self._ignored_groups), ShortageBook())

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        """One reason for each resource that is short, in upstream's order and words."""
        names = self._checked(context).names
        if len(names) > MOST_BITS:
            is_full, is_hopeless, places = self._book(context).read(code)
        else:
            is_full, is_hopeless = bool(code & TOO_MANY_PODS), bool(code & HOPELESS)
            places = [place for place in range(len(names)) if code & (FIRST_SHORT << place)]
        reasons = ["Too many pods"] if is_full else []
        reasons += [f"Insufficient {names[place]}" for place in places]
        return Rejection(tuple(reasons), Code.UnschedulableAndUnresolvable if is_hopeless else Code.Unschedulable)

    @reads(Reads.SHAPE, PodPart.REQUESTS)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """Nothing to prepare. Reads.SHAPE is right: it always says the same."""
        return None

    @reads(Reads.TOTALS, PodPart.REQUESTS)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """Reads.TOTALS is right: it reads allocatable and `scored`, the sum of requests with upstream's minimum for
        pods that request no cpu or memory."""
        nodes, scored = context.nodes, context.of_requests(_SCORED, self._find_scored)
        if not scored.names:
            return None
        floats = context.floats_of(scored.resources) if self._is_least_allocated else None
        if floats is not None and isinstance(scored.resources, slice):
            free = floats.sums(floats.free_percent[scored.resources], rows, scored.minus_percent)
            fits = floats.have_scored_room(scored.resources, scored.plain)
            shares = least_allocated_of_floats(free, floats.divisor_of(scored.resources, rows), fits=fits)
            return even_mean(shares, scored.weights)
        allocatable = cells(nodes.amounts.allocatable, scored.resources, rows)
        held = cells(nodes.amounts.scored, scored.resources, rows)
        if scored.has_scalars:
            allocatable, held = count_devices_in(context, scored.names, rows, allocatable, held)
        wanted = held + scored.column
        return self._score(allocatable, wanted, allocatable != 0, np.array(scored.weights, np.int64))

    def score_row(self, context: SchedulingContext, row: int) -> int:
        """Score one row with plain numbers for the strategy LeastAllocated; other strategies use the columns. The score is
        the weighted mean of the free shares in percent."""
        nodes, scored = context.nodes, context.of_requests(_SCORED, self._find_scored)
        is_served = scored.has_scalars and served(context, scored.names)
        if not self._is_least_allocated or is_served:
            return super().score_row(context, row)
        allocatable = nodes.amounts.allocatable[scored.resources, row].tolist()
        held = nodes.amounts.scored[scored.resources, row].tolist()
        total = weights = 0
        for there, taken, amount, weight in zip(allocatable, held, scored.plain, scored.weights, strict=True):
            if there:
                total += max(there - taken - amount, 0) * MAX_SCORE // there * weight
                weights += weight
        return total // weights if weights else 0

    def grows_with_pods(self, pods: Sequence[Pod]) -> bool:
        return use_grows(self._weights, pods)

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        return score_by_use(group, self._weights, candidates)

    def _checked(self, context: SchedulingContext) -> PodAmounts:
        """The requests that are compared with what is free, in upstream's order."""
        return context.of_requests(_CHECKED, self._find_checked)

    def _find_checked(self, context: SchedulingContext) -> PodAmounts:
        """Requests of the pod that Filter compares: cpu, memory and ephemeral storage, and the extended resources that the
        plugin does not ignore."""
        request = context.shape.request
        asked = {name: request[name] for name in FIRST_CLASS if request.get(name)}
        if len(asked) < len(request):
            scalars = sorted(name for name in request if name not in FIRST_CLASS and not self._ignores(name))
            asked |= {name: request[name] for name in scalars if request[name]}
        return PodAmounts(context.nodes.amounts, asked)

    def _find_scored(self, context: SchedulingContext) -> PodAmounts:
        """Requests of the pod that Score counts, with their weights: the resources that the strategy looks at. Extended
        resources that the pod does not request are left out."""
        request, weights = context.shape.score_request, self._weights
        asked = {name: request.get(name, 0) for name in weights}
        if self._has_scalars:
            asked = {name: amount for name, amount in asked.items() if amount or not is_scalar_resource(name)}
            weights = {name: weights[name] for name in asked}
        return PodAmounts(context.nodes.amounts, asked, tuple(weights.values()))

    def _by_devices(self, context: SchedulingContext) -> Mask | None:
        """For each request that is compared whether devices can serve it; None: for none of them."""
        if context.cluster.serving_classes.is_empty:
            return None
        names = self._checked(context).names
        served = [name not in FIRST_CLASS and has_device_class(context.cluster, name) for name in names]
        return np.array(served)[:, None] if any(served) else None

    def _ignores(self, name: str) -> bool:
        return is_extended_resource(name) and (name in self._ignored or name.split("/")[0] in self._ignored_groups)


def _exactly(context: SchedulingContext, checked: PodAmounts) -> dict[str, int]:
    """The requests that are compared, without the bound of columns."""
    return {name: context.shape.exact_request[name] for name in checked.names}


def _all_fit(context: SchedulingContext, checked: PodAmounts) -> bool:
    """Whether the pod fits on all rows; False: perhaps not. Hot: as a rule it does, and a few numbers tell."""
    resources, floats = checked.resources, context.float_columns(checked.resources)
    if floats is None or not isinstance(resources, slice):
        return False
    return floats.take_a_pod() and floats.have_room(resources, checked.plain)


def _lacking(context: SchedulingContext, checked: PodAmounts, rows: Rows) -> Mask | None:
    """The comparison of `_judge` in floats: rows with too many pods, then what is short. None: floats cannot tell.

    Hot: one comparison instead of three takes a third of the time: 6 µs for 400 rows.
    """
    resources, floats = checked.resources, context.float_columns(checked.resources)
    if floats is None or not isinstance(resources, slice) or resources.start:
        return None
    return take(floats.free[: FIRST_RESOURCE + resources.stop], rows) < checked.room


def _code_of_one(nodes: NodeTable, checked: PodAmounts, row: int) -> int:
    """The code of one node, in plain numbers; `_judge` and the bits give the same where devices serve nothing.

    Hot: with preemption each attempt asks about single rows that are full: 4 µs instead of 25.
    """
    code = TOO_MANY_PODS if nodes.pod_count.item(row) >= nodes.allowed_pods.item(row) else 0
    allocatable = nodes.amounts.allocatable[checked.resources, row].tolist()
    held = nodes.amounts.requested[checked.resources, row].tolist()
    bit = FIRST_SHORT
    for amount, there, taken in zip(checked.plain, allocatable, held, strict=True):
        if amount > there - taken:
            code |= bit | HOPELESS if amount > there else bit
        bit <<= 1
    return code


Strategy = Callable[[Ints, Ints, Mask, Ints], Ints]
"""(allocatable, wanted, counted: resources x rows; weights) -> a score for each row."""


def _strategy(written: ScoringStrategy) -> Strategy:
    """The kernels of a scoring strategy. Scores in a shape are 0 to 10 in the configuration and 0 to 100 here."""
    ratio = written.requested_to_capacity_ratio
    if written.type == "RequestedToCapacityRatio" and ratio is not None:
        points = [(point.utilization, point.score * 10) for point in ratio.shape or ()]
        return lambda allocatable, wanted, counted, weights: rounded_mean(
            along_shape(most_allocated(allocatable, wanted), points), counted, weights
        )
    kernel = most_allocated if written.type == "MostAllocated" else least_allocated
    return lambda allocatable, wanted, counted, weights: weighted_mean(kernel(allocatable, wanted), counted, weights)


# ---- Queueing hints: what a pod that NodeResourcesFit rejected requests may have become free.


_SHRANK = ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
_SHRANK_ITSELF = ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)
_GREW = ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_UP)
_GREW_ITSELF = ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_UP)
_NODES = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
_DEVICE_CLASSES = ClusterEvent(DEVICE_CLASS.event, Action.ADD | Action.UPDATE)


def _of_its_node(event: ClusterEvent, hint: Hint) -> Registration:
    """A registration whose hint for a resize is only asked about changes on the node of the pod."""
    return Registration(event, lambda pod, change: _concerns_node_of(pod, change) and hint(pod, change))


def _concerns_node_of(pod: Pod, change: Change) -> bool:
    """Whether a change of a node or of a pod is about the node of a pod whose resize was deferred. It may be about any node
    for other pods."""
    if not pod.is_resize_deferred:
        return True
    changed = change.new or change.old
    name = changed.spec.node_name if isinstance(changed, Pod) else changed.name if changed is not None else ""
    return name == pod.spec.node_name


def pod_left(pod: Pod, change: Change) -> bool:
    """Whether the pod that left had a place."""
    old, _ = pods_of(change)
    return old is not None and has_place(old)


def pod_gave_way(pod: Pod, change: Change) -> bool:
    """Whether a pod on a node shrank in a resource that the waiting pod requests."""
    old, new = pods_of(change)
    assert old is not None and new is not None
    before, now = old.shape.exact_held, new.shape.exact_held
    wanted = pod.shape.exact_held if pod.spec.node_name else pod.shape.request
    return any(amount and before.get(name, 0) > now.get(name, 0) for name, amount in wanted.items())


def node_has_more(pod: Pod, change: Change) -> bool:
    """Whether the pod would fit on the node if it were empty, and the node is new or grew in what the pod needs.

    Parity: resources that the profile ignores are not ignored here.
    """
    (old, _), new = nodes_of(change), new_node_of(change)
    request = {name: amount for name, amount in pod.shape.exact_request.items() if amount}

    def is_delegated(name: str) -> bool:
        return is_scalar_resource(name) and not _allocatable(new, name) and has_device_class(change.cluster, name)

    fits = _allocatable(new, "pods") > 0 and all(
        amount <= _allocatable(new, name) or is_delegated(name) for name, amount in request.items()
    )
    if not fits or old is None:
        return fits
    return any(_allocatable(new, name) > _allocatable(old, name) for name in ("pods", *request)) or any(
        is_delegated(name) for name in request
    )


def class_serves(pod: Pod, change: Change) -> bool:
    """Whether a device class serves a resource that the pod requests, and did not before. A new class also serves the
    implicit resource with its name."""
    old, new = cast("DeviceClass | None", change.old), cast("DeviceClass", change.new)
    served, request = new.spec.extended_resource_name, pod.shape.request
    if old is None and IMPLICIT_PREFIX + new.name in request:
        return True
    if old is not None and old.spec.extended_resource_name == served:
        return False
    return served is not None and served in request


EVENTS = (
    Registration(ASSIGNED_POD_DELETE, pod_left),
    Registration(_NODES, node_has_more),
    Registration(_SHRANK, pod_gave_way),
    Registration(_SHRANK_ITSELF),
    Registration(_DEVICE_CLASSES, class_serves),
)
EVENTS_WITH_RESIZES = (
    _of_its_node(ASSIGNED_POD_DELETE, pod_left),
    _of_its_node(_NODES, node_has_more),
    _of_its_node(_SHRANK, pod_gave_way),
    *EVENTS[3:],
    # Room that a parked pod waits for may be taken by others, so that it has to preempt.
    Registration(_GREW, lambda pod, change: pod.is_resize_deferred and _concerns_node_of(pod, change)),
    Registration(_GREW_ITSELF, lambda pod, change: pod.is_resize_deferred),
)
"""The events with the feature gate InPlacePodVerticalScalingSchedulerPreemption."""


def has_device_class(cluster: Cluster, resource: str) -> bool:
    """Whether devices of some class serve an extended resource."""
    return cluster.serving_classes.get(resource) is not None


def _allocatable(node: Node, name: str) -> int:
    """Allocatable amount of a resource on a node, in the units of the node table: milli-CPU for cpu, whole units for other
    resources. A quantity that does not parse counts as 0."""
    text = (node.status.allocatable or {}).get(name)
    if text is None:
        return 0
    nano = parse_or(text, 0)
    return max(to_milli(nano) if name == "cpu" else to_int(nano), 0)


PLUGINS = (NodeResourcesFit,)
