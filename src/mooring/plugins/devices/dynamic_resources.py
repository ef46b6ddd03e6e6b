"""DynamicResources: pods go where the devices are that their claims ask for, and claims get them there.

PreFilter finds the claims of the pod, Filter asks for offers (offers.py) and checks claims that have their devices
already, Score prefers early alternatives, Reserve counts the devices as taken, PreBind (work.py) writes it into claims.

Nothing here declares `@reads`: the answers depend on claims, classes, slices and on what other claims hold, and claims
are not part of a shape. The offers are kept instead, by what the claims ask for.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import claim_id
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import scale_to_max
from mooring.cluster.nodes.match import match_nodes
from mooring.framework.config.args import DynamicResourcesArgs
from mooring.framework.contract.context import DEVICE_RESOURCES, DEVICE_TOTALS, KEPT_ONLY, SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    FitError,
    Handle,
    Need,
    NoRoom,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    Work,
    reads,
)
from mooring.framework.contract.status import SKIP, PluginError, Rejection, Skip, final
from mooring.kit.clock import NS_PER_S
from mooring.model.devices import DeviceClass, ResourceClaim
from mooring.model.pod import Pod
from mooring.model.selectors import NodeMatcher, compile_node_selector
from mooring.model.shape import PodPart
from mooring.plugins.devices.allocation import (
    BindingFailed,
    ClaimMetrics,
    DeviceChoice,
    allocated,
    allocation_of,
    is_overdue,
    is_prepared,
)
from mooring.plugins.devices.claim_work import ClaimWork
from mooring.plugins.devices.device_claims import (
    DEVICE_EVENTS,
    ClaimState,
    Served,
    Unresolved,
    claim_for,
    claims_of,
    needs_devices,
    rows_lacking,
    served_by_devices,
)
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.device_offers import INVALID_POOLS, NO_CHOICE, DeviceOfferCache
from mooring.plugins.devices.giving_back import free_devices, give_back
from mooring.plugins.devices.group_claims import count_on, group_consumers, offer_to_group, pending_in_group
from mooring.plugins.devices.node_groups import DeviceTotals
from mooring.plugins.devices.node_resources import REFUSED, Taken, judge, reject_sharing, taken_by, taken_in_group

# ---- Claims by themselves, before their devices are sought: what no node can cure, where the devices of an allocated
# claim can be used, and what its alternatives are worth.


def examine(cluster: Cluster, claim: ResourceClaim, is_extended: bool, features: DeviceFeatures) -> Rejection | None:
    """Why a claim cannot be allocated anywhere, if that is so. An allocated claim, and the extended one, need no
    check."""
    if claim.status.allocation is not None:
        return None
    if cluster.claims.pending(claim) is not None:
        return final(f"resource claim {claim.key} is in the process of being allocated")
    for request in claim.spec.devices.requests or () if not is_extended else ():
        where = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            asked = [(request.name, request.exactly.device_class_name)]
        elif not request.first_available:
            return final(f"{where}: unknown request type")
        elif not features.prioritized_list:
            return final(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
        else:
            subs = request.first_available
            asked = [(f"{request.name}/{sub.name}", sub.device_class_name) for sub in subs]
        for name, class_name in asked:
            if not class_name:
                raise PluginError(f"request {name}: unsupported request type")
            if class_name not in cluster.objects[DeviceClass]:
                return final(f"request {name}: device class {class_name} does not exist")
    return None


def reach_of(claim: ResourceClaim) -> NodeMatcher | None:
    """The nodes on which the devices of an allocated claim can be used; None: on all."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    matcher = compile_node_selector(allocation.node_selector)
    faults = matcher.faults()
    if faults:
        raise PluginError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return matcher


def settled_score(state: ClaimState) -> int:
    """The score of claims that have their devices already, or share those of their group, by the alternatives in their
    results."""
    total = 0
    for index, claim in enumerate(state.claims):
        allocation = state.shared.get(index, claim).status.allocation
        given = {each.request for each in allocation.devices.results or ()} if allocation is not None else set()
        for request in claim.spec.devices.requests or () if given else ():
            for i, sub in enumerate(request.first_available or () if request.exactly is None else ()):
                total += (8 - i) * (f"{request.name}/{sub.name}" in given)
    return total


# Codes beside those of offers.py. All rejections are final: preempting pods frees no devices by itself, because claims
# outlive pods.
UNAVAILABLE, STALE, LACKING = 3, 4, 5
_REASONS = {
    NO_CHOICE: "cannot allocate all claims",
    INVALID_POOLS: "invalid resource pools were encountered",
    UNAVAILABLE: "resourceclaim not available on the node",
    STALE: "cannot schedule extended resource claim",
    LACKING: "cannot fit resource",
}

STEPS_A_SECOND = 40_000
"""Steps of the search for devices, for each second of filterTimeout. Parity: upstream limits the time; steps stand for
it, because with time no decision could be repeated. A step takes 2 us, so the ten seconds of the default are used up
after less than one second: no other pod is scheduled meanwhile."""

_NO_CLAIMS = ClaimState()
"""The state of pods without claims: later extension points read a state in any case."""

RowArray = NDArray[np.intp]


class DynamicResources(
    PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, ReservePlugin, PreBindPlugin
):
    """The features decide which parts are on; offers are kept between attempts, all else is in the attempt's state."""

    name = "DynamicResources"
    is_same_in_all_profiles = True

    def __init__(self, args: Any, handle: Handle) -> None:
        chosen = args if isinstance(args, DynamicResourcesArgs) else DynamicResourcesArgs()
        self._features = features = DeviceFeatures.of(handle.feature_gates)
        scoring = ("score",) if features.prioritized_list else ()
        points = ("filter", *scoring, "reserve", "preBind")
        self.needs = tuple(Need(point, "preFilter", "not found") for point in points)
        self._services = handle.services
        timeout = chosen.filter_timeout
        max_steps = int(timeout.seconds * STEPS_A_SECOND) if timeout is not None and timeout.nanoseconds else None
        self._offers = DeviceOfferCache(features, max_steps, lambda: self._services.now_ns())
        self._totals = DeviceTotals(self._offers.node_groups)
        self._metrics = ClaimMetrics(handle)
        # Upstream's default for bindingTimeout: ten minutes.
        patience = chosen.binding_timeout
        self._binding_timeout_ns = 600 * NS_PER_S if patience is None else patience.nanoseconds

    def events(self) -> Sequence[Registration]:
        return DEVICE_EVENTS

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims) or pod.shape.has_extended_requests

    # ---- are the claims there?

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Hold the pod back until its claims exist: the controller has to make them from templates first."""
        if not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self._services.cluster.claims)
        except Unresolved as why:
            return final(str(why))
        return None

    @reads(Reads.CLUSTER, PodPart.REQUESTS)
    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """Find the claims and check what no node can cure. SKIP for pods without claims and without resources that
        devices serve."""
        context.state.write(self.name, _NO_CLAIMS)
        try:
            claims = claims_of(context.pod, context.cluster.claims) if context.pod.spec.resource_claims else []
            for_group = group_consumers(context.pod, context.cluster) if claims else {}
        except Unresolved as why:
            return final(str(why))
        has_extended = self._features.extended_resources and needs_devices(
            context.shape.request, context.cluster.serving_classes
        )
        if not claims and not has_extended:
            return SKIP
        state = ClaimState(claims, group_consumers=for_group)
        if has_extended:
            context.state.write(DEVICE_TOTALS, partial(self._totals.of, context.cluster))
            state.extended = claim_for(context.pod, context.cluster.claims)
            state.requested = context.shape.request
            claims.append(state.extended)
        for index, claim in enumerate(claims):
            shared = pending_in_group(context, claim) if claim.status.allocation is None else None
            if shared is not None:
                state.shared[index] = shared
            else:
                why_not = examine(context.cluster, claim, claim is state.extended, self._features)
                if why_not is not None:
                    return why_not
            state.reach.append(reach_of(shared or claim))
        context.state.write(self.name, state)
        if self._features.node_resources:
            state.shared_resources = taken_in_group(context, state.shared.values())
            context.state.write(DEVICE_RESOURCES, partial(self._taken_on, context, state))
        return None

    # ---- which nodes will do

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Rows without devices for the claims, or on which allocated claims cannot be used."""
        state: ClaimState = context.state.read(self.name)
        nodes, classes = context.cluster.nodes, context.cluster.serving_classes
        asked: RowArray = np.arange(nodes.height)[rows]
        codes = np.zeros(len(asked), np.int64)
        if not state:
            return None
        state.is_filtered = True
        if state.extended is not None:
            # A claim that an earlier attempt created asks for what another node needed. PostFilter deletes it.
            if state.extended.spec.devices.requests is not None:
                return codes + STALE
            codes[rows_lacking(state.requested, nodes, classes, asked)] = LACKING
        for served, here in self._kinds_of_nodes(context, state, asked):
            some = here & (codes == 0)
            wanted = [claim for _, claim in state.wanted(served)]
            if wanted and some.any():
                codes[some] = self._offers_for(context).codes(context.cluster, wanted, asked[some])
            if self._features.node_resources and (wanted or state.shared_resources) and some.any():
                self._check_taken(context, wanted, asked, codes, np.flatnonzero(some & (codes == 0)))
        if state.has_user_claims:
            self._check_allocated(context, state, asked, codes)
        return codes if codes.any() else None

    def _offers_for(self, context: SchedulingContext) -> DeviceOfferCache:
        return self._offers if context.state.find(KEPT_ONLY) is None else self._offers.kept_only()

    def _kinds_of_nodes(
        self, context: SchedulingContext, state: ClaimState, rows: RowArray
    ) -> list[tuple[Served, NDArray[np.bool_]]]:
        """The rows sorted by which extended resources devices have to serve there. Rows of one kind have one demand."""
        classes = context.cluster.serving_classes
        by_name = (
            served_by_devices(state.requested, context.cluster.nodes, classes, rows)
            if state.extended is not None
            else {}
        )
        if not by_name:
            return [(Served(), np.ones(len(rows), np.bool_))]
        names, table = list(by_name), np.array(list(by_name.values()))
        kinds, kind_of = np.unique(table, axis=1, return_inverse=True)
        return [
            (
                state.served(
                    context.pod, [name for name, is_served in zip(names, kind, strict=True) if is_served], classes
                ),
                kind_of.reshape(-1) == i,
            )
            for i, kind in enumerate(kinds.T)
        ]

    def _check_allocated(self, context: SchedulingContext, state: ClaimState, rows: RowArray, codes: Codes) -> None:
        """Claims that have their devices, or are about to get those that the pod's group shares, must be usable on the
        node; PostFilter may free those that are not."""
        for index, claim in enumerate(state.claims):
            is_shared = index in state.shared
            if claim.status.allocation is None and not is_shared:
                continue
            matcher = state.reach[index]
            out = np.zeros(len(rows), np.bool_)
            if matcher is not None:
                out = ~match_nodes(context.cluster.nodes, matcher, rows)
            if self._features.node_resources and not is_shared:
                # Parity: a claim that another pod uses on the node rejects it before anything else is looked at, but not
                # while its allocation is on its way.
                reject_sharing(context, claim, rows, codes, ~out & (codes != LACKING), state.refusals)
            if self._features.binding_conditions and self._is_given_up(claim):
                out[:] = True
            out &= (codes == 0) | (codes == UNAVAILABLE)
            if out.any():
                codes[out] = UNAVAILABLE
                if not is_shared:
                    state.unavailable.add(index)

    def _check_taken(
        self,
        context: SchedulingContext,
        claims: Sequence[ResourceClaim],
        rows: RowArray,
        codes: Codes,
        places: RowArray,
    ) -> None:
        """Nodes must have room for what the devices that they offer take from them."""
        state: ClaimState = context.state.read(self.name)
        offered: Sequence[tuple[DeviceChoice | None, RowArray]] = [(None, np.arange(len(places)))]
        if claims:
            offered = self._offers_for(context).choices(context.cluster, claims, rows[places])
        for choice, here in offered:
            taken = taken_by(context.pod, claims, choice, context.cluster.claims, state.shared_resources)
            if taken:
                codes[places[here]] = judge(context, taken, rows[places[here]], state.refusals)

    def _is_given_up(self, claim: ResourceClaim) -> bool:
        """Whether its devices will not be prepared any more: the driver reports a failure, or the time is up."""
        try:
            return not is_prepared(claim) and is_overdue(claim, self._binding_timeout_ns, self._services.now_ns())
        except BindingFailed:
            return True

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code >= REFUSED:
            state: ClaimState = context.state.read(self.name)
            return state.refusals[code - REFUSED]
        return final(_REASONS[code])

    def may_help(self, pod: Pod, cluster: Cluster) -> bool:
        return self.concerns(pod)

    def post_filter(self, failure: FitError) -> NoRoom:
        """Parity: when a PreFilter plugin before this one ended the attempt there is no state, and that is an error."""
        state: ClaimState = failure.context.state.read(self.name)
        return free_devices(failure.context, state, self._services)

    # ---- which of them is best

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """8 for the first alternative of a request, 1 less for each further one; claims that have their devices count
        the same."""
        state: ClaimState = context.state.read(self.name)
        if not state or not state.is_filtered or not self._features.prioritized_list:
            return None
        asked: RowArray = np.arange(context.cluster.nodes.height)[rows]
        scores = np.zeros(len(asked), np.int64)
        for served, here in self._kinds_of_nodes(context, state, asked):
            wanted = [claim for _, claim in state.wanted(served)]
            if wanted:
                scores[here] = self._offers_for(context).scores(context.cluster, wanted, asked[here]) + settled_score(
                    state
                )
        return scores if scores.any() else None

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        state: ClaimState | None = context.state.find(self.name)
        return scale_to_max(scores) if state else scores

    # ---- the node that was chosen

    def _taken_on(self, context: SchedulingContext, state: ClaimState, node_name: str) -> list[Taken] | None:
        """Compute the resources of the node that the devices for the claims of the pod take; None if they take none."""
        claims, choice, _ = self._chosen(context, state, node_name)
        return taken_by(context.pod, claims, choice, context.cluster.claims, state.shared_resources) or None

    def has_binding_work(self, context: SchedulingContext) -> bool:
        return context.state.find(self.name) is not _NO_CLAIMS

    def _chosen(
        self, context: SchedulingContext, state: ClaimState, node_name: str
    ) -> tuple[list[ResourceClaim], DeviceChoice | None, Served]:
        """The claims that have to be allocated on a node, the devices that it offers for them, and what devices serve."""
        row = context.nodes.row_book[node_name]
        ((served, _),) = self._kinds_of_nodes(context, state, np.array([row], np.intp))
        claims = [claim for _, claim in state.wanted(served)]
        is_known = claims and state.is_filtered
        return claims, self._offers_for(context).choice(context.cluster, claims, row) if is_known else None, served

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        """Count the devices as taken from now on, though no claim says so yet.

        The choice is the one that Filter found, unless claims changed since: then it is searched again for this node.
        """
        state: ClaimState = context.state.read(self.name)
        if not state:
            return None
        for index in state.shared:
            state.allocations[index] = count_on(context, state.claims[index])
        claims, choice, served = self._chosen(context, state, node_name)
        if self._features.node_resources:
            ledger = context.cluster.claims
            state.node_resources = taken_by(context.pod, claims, choice, ledger, state.shared_resources)
        if not claims or (choice is None and not state.is_filtered and not state.missing()):
            return None  # Parity: without Filter nothing serves extended resources, and that is no error
        if choice is None:
            raise PluginError("claim allocation not found for node")
        taken = {each.resource_claim_name: each.resources or {} for each in state.node_resources}
        classes: Any = context.cluster.objects[DeviceClass]
        for place, (index, claim) in enumerate(state.wanted(served)):
            share_id = str(uuid5(NAMESPACE_OID, f"{claim_id(claim)}/{context.seed}"))[:24]
            allocation = allocation_of(claim, choice, place, node_name, classes, share_id)
            state.allocations[index] = allocation
            context.cluster.claims.begin(allocated(claim, allocation))
            if state.extended is not None and index == len(state.claims) - 1:
                state.node_claim, state.mappings = claim, served.mappings
            elif offer_to_group(context, claim, taken.get(claim.name, {})):
                state.offered.add(index)
        return None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        state: ClaimState | None = context.state.find(self.name)
        if state:
            give_back(context, state, self._services)

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Work | Rejection | None:
        """The writes and the waiting, as work that the driver does."""
        state: ClaimState = context.state.read(self.name)
        if not state:
            return None
        timeout_ns = self._binding_timeout_ns if self._features.binding_conditions else None
        return ClaimWork(context, state, self._services, timeout_ns, self._metrics).run(node_name)


PLUGINS = (DynamicResources,)
