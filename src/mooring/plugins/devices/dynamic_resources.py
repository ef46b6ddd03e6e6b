"""DynamicResources: pods go where the devices are that their claims ask for, and claims get them there.

PreFilter finds the claims of the pod, Filter searches devices (device_search_cache.py) and checks claims that have their
devices already, Score prefers early alternatives, Reserve counts the devices as taken, PreBind (work.py) writes it into
claims.

Nothing here declares `@reads`: the answers depend on claims, classes, slices and on what other claims hold, and claims
are not part of a shape. The results of searches are kept instead, by what the claims ask for.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import claim_id
from mooring.cluster.columns.kernels import scale_to_max
from mooring.framework.config.args import DynamicResourcesArgs
from mooring.framework.contract import points
from mooring.framework.contract.context import DEVICE_RESOURCES, DEVICE_TOTALS, KEPT_ONLY, FitError, SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.group_points import GroupFitError, GroupSearch, PodGroupPostFilterPlugin
from mooring.framework.contract.status import SKIP, PluginError, Rejection, Skip, curable, final
from mooring.kit.clock import NS_PER_S
from mooring.model.devices import Allocation, DeviceClass, ResourceClaim
from mooring.model.pod import Pod
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
from mooring.plugins.devices.claim_rules import (
    check_settled,
    count_on,
    examine,
    group_consumers,
    offer_to_group,
    pending_in_group,
    reach_of,
    settled_score,
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
from mooring.plugins.devices.device_search_cache import INVALID_POOLS, NO_CHOICE, DeviceSearchCache
from mooring.plugins.devices.giving_back import free_devices, free_for_group, give_back
from mooring.plugins.devices.node_groups import DeviceTotals
from mooring.plugins.devices.node_resources import REFUSED, Taken, judge, taken_on

# Codes beside those of device_search_cache.py. All rejections are final: preempting pods frees no devices by itself, because
# claims outlive pods.
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
    points.PreEnqueuePlugin,
    points.PreFilterPlugin,
    points.FilterPlugin,
    points.PostFilterPlugin,
    PodGroupPostFilterPlugin,
    points.ScorePlugin,
    points.ReservePlugin,
    points.PreBindPlugin,
):
    """The features decide which parts are on; results of searches are kept between attempts, all else is in the attempt's
    state."""

    name = "DynamicResources"
    needs = tuple(points.Need(point, "preFilter", "not found") for point in ("filter", "score", "reserve", "preBind"))
    skips_resizes = True
    is_same_in_all_profiles = True
    concerned_by = PodPart.REQUESTS
    is_asked_if_concerned = True

    def __init__(self, args: Any, handle: points.Handle) -> None:
        chosen = args if isinstance(args, DynamicResourcesArgs) else DynamicResourcesArgs()
        self._features = features = DeviceFeatures.of(handle.feature_gates)
        self._services = handle.services
        self._tries_placements = handle.feature_gates.get("TopologyAwareWorkloadScheduling", False)
        timeout = chosen.filter_timeout
        max_steps = int(timeout.seconds * STEPS_A_SECOND) if timeout is not None and timeout.nanoseconds else None
        self.searches = DeviceSearchCache(features, max_steps, lambda: self._services.now_ns())
        self._totals = DeviceTotals(self.searches.node_groups)
        self._metrics = ClaimMetrics(handle)
        # Upstream's default for bindingTimeout: ten minutes.
        patience = chosen.binding_timeout
        self._binding_timeout_ns = 600 * NS_PER_S if patience is None else patience.nanoseconds

    def events(self) -> Sequence[Registration]:
        return DEVICE_EVENTS

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return pod.shape.has_resource_claims or pod.shape.has_extended_requests

    def _state(self, context: SchedulingContext) -> ClaimState | None:
        """The state that PreFilter left. It is not asked about pods of shapes that it skips; None if it was left out, or did
        not come to this plugin."""
        state: ClaimState | None = context.state.find(self.name)
        if state is None and not context.is_resize and self.name not in context.unreached:
            return _NO_CLAIMS
        return state

    def _read(self, context: SchedulingContext) -> ClaimState:
        """Raises PluginError if there is none."""
        state = self._state(context)
        if state is None:
            raise PluginError("not found")
        return state

    # ---- are the claims there?

    @classmethod
    def may_gate(cls, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Hold the pod back until its claims exist: the controller has to make them from templates first."""
        if not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self._services.cluster.claims)
        except Unresolved as why:
            return final(str(why))
        return None

    @points.reads(points.Reads.CLUSTER, PodPart.REQUESTS)
    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """Find the claims and check what no node can cure. Pods whose extended resources no device serves are skipped."""
        context.state.write(self.name, _NO_CLAIMS)
        try:
            claims = claims_of(context.pod, context.cluster.claims) if context.pod.spec.resource_claims else []
            for_group = group_consumers(context.pod, context.cluster) if claims else {}
        except Unresolved as why:
            return final(str(why))
        has_extended = needs_devices(context.shape.request, context.cluster.serving_classes)
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
                why_not = examine(context.cluster, claim, claim is state.extended)
                if why_not is not None:
                    return why_not
            state.reach.append(reach_of(shared or claim))
        context.state.write(self.name, state)
        if self._features.node_resources:
            context.state.write(DEVICE_RESOURCES, partial(self._taken_on, context, state))
        return None

    # ---- which nodes will do

    def filter(self, context: SchedulingContext, rows: points.Rows) -> points.Codes | None:
        """Rows without devices for the claims, or on which allocated claims cannot be used."""
        state = self._read(context)
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
        standing = check_settled(context, state, asked, codes, self._is_given_up) if state.has_user_claims else {}
        for served, here in self._kinds_of_nodes(context, state, asked):
            some = here & (codes == 0)
            wanted = [claim for _, claim in state.wanted(served)]
            if wanted and some.any():
                codes[some] = self._searches_for(context).codes(context.cluster, wanted, asked[some])
            if self._features.node_resources and some.any():
                self._check_taken(context, wanted, asked, codes, np.flatnonzero(some & (codes == 0)))
        for index, out in standing.items():
            out &= (codes == 0) | (codes == UNAVAILABLE)
            if out.any():
                codes[out] = UNAVAILABLE
                if index not in state.shared:
                    state.unavailable.add(index)
        return codes if codes.any() else None

    def _searches_for(self, context: SchedulingContext) -> DeviceSearchCache:
        return self.searches if context.state.find(KEPT_ONLY) is None else self.searches.kept_only()

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

    def _check_taken(
        self,
        context: SchedulingContext,
        claims: Sequence[ResourceClaim],
        rows: RowArray,
        codes: points.Codes,
        places: RowArray,
    ) -> None:
        """Nodes must have room for what the devices take that were chosen there, and those that claims have already."""
        state: ClaimState = context.state.read(self.name)
        chosen: Sequence[tuple[DeviceChoice | None, RowArray]] = [(None, np.arange(len(places)))]
        if claims:
            chosen = self._searches_for(context).choices(context.cluster, claims, rows[places])
        for choice, here in chosen:
            for taken, there in taken_on(context, state, claims, choice, rows[places[here]]):
                if taken:
                    which = places[here[there]]
                    codes[which] = judge(context, taken, rows[which], state.refusals)

    def _is_given_up(self, claim: ResourceClaim) -> bool:
        """Whether its devices will not be prepared any more: the driver reports a failure, or the time is up."""
        if not self._features.binding_conditions:
            return False
        try:
            return not is_prepared(claim) and is_overdue(claim, self._binding_timeout_ns, self._services.now_ns())
        except BindingFailed:
            return True

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code >= REFUSED:
            state: ClaimState = context.state.read(self.name)
            return state.refusals[code - REFUSED]
        return final(_REASONS[code])

    def post_filter(self, failure: FitError) -> points.NoRoom:
        """Parity: when a PreFilter plugin before this one ended the attempt there is no state, and that is an error."""
        return free_devices(failure.context, self._read(failure.context), self._services)

    def pod_group_post_filter(self, failure: GroupFitError) -> GroupSearch:
        """Parity: groups of groups, and groups with topology constraints, are not helped. If no member came to PreFilter of
        this plugin there is no state, and that is an error."""
        yield from ()
        has_constraints = self._tries_placements and failure.group.spec.scheduling_constraints is not None
        if failure.name.is_composite or has_constraints:
            return curable()
        states = [None if context is None else self._state(context) for context in failure.contexts]
        if all(state is None for state in states):
            raise PluginError("not found")
        return free_for_group(failure, states, self._services)

    # ---- which of them is best

    def score(self, context: SchedulingContext, rows: points.Rows) -> points.Scores | None:
        """8 for the first alternative of a request, 1 less for each further one; claims that have their devices count
        the same."""
        state = self._read(context)
        if not state or not state.is_filtered:
            return None
        asked: RowArray = np.arange(context.cluster.nodes.height)[rows]
        scores = np.zeros(len(asked), np.int64)
        for served, here in self._kinds_of_nodes(context, state, asked):
            wanted = [claim for _, claim in state.wanted(served)]
            if wanted:
                scores[here] = self._searches_for(context).scores(context.cluster, wanted, asked[here]) + settled_score(
                    state
                )
        return scores if scores.any() else None

    def normalize(self, context: SchedulingContext, scores: points.Scores, rows: points.Rows) -> points.Scores:
        state: ClaimState | None = context.state.find(self.name)
        return scale_to_max(scores) if state else scores

    # ---- the node that was chosen

    def _taken_on(self, context: SchedulingContext, state: ClaimState, node_name: str) -> list[Taken] | None:
        """Compute the resources of the node that the devices for the claims of the pod take; None if they take none."""
        claims, choice, _ = self._chosen(context, state, node_name)
        return self._taken_with(context, state, claims, choice, node_name) or None

    def _taken_with(
        self,
        context: SchedulingContext,
        state: ClaimState,
        claims: Sequence[ResourceClaim],
        choice: DeviceChoice | None,
        node_name: str,
    ) -> list[Taken]:
        """Compute the resources of one node that devices take. Parity: without Filter they take none."""
        if not state.is_filtered:
            return []
        row = np.array([context.nodes.row_book[node_name]], np.intp)
        ((taken, _),) = taken_on(context, state, claims, choice, row)
        return taken

    def has_binding_work(self, context: SchedulingContext) -> bool:
        return self._state(context) is not _NO_CLAIMS

    def _chosen(
        self, context: SchedulingContext, state: ClaimState, node_name: str
    ) -> tuple[list[ResourceClaim], DeviceChoice | None, Served]:
        """The claims that have to be allocated on a node, the devices chosen for them there, and what devices serve."""
        row = context.nodes.row_book[node_name]
        ((served, _),) = self._kinds_of_nodes(context, state, np.array([row], np.intp))
        claims = [claim for _, claim in state.wanted(served)]
        is_known = claims and state.is_filtered
        return claims, self._searches_for(context).choice(context.cluster, claims, row) if is_known else None, served

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        """Count the devices as taken from now on, though no claim says so yet.

        The choice is the one that Filter found, unless claims changed since: then it is searched again for this node.
        """
        state = self._read(context)
        if not state:
            return None
        for index in state.shared:
            state.allocations[index] = count_on(context, state.claims[index])
        claims, choice, served = self._chosen(context, state, node_name)
        if self._features.node_resources:
            state.node_resources = self._taken_with(context, state, claims, choice, node_name)
        if not claims or (choice is None and not state.is_filtered and not state.missing()):
            return None  # Parity: without Filter nothing serves extended resources, and that is no error
        if choice is None:
            raise PluginError("claim allocation not found for node")
        classes: Any = context.cluster.objects[DeviceClass]
        begun: dict[str, Allocation] = {}
        for place, (index, claim) in enumerate(state.wanted(served)):
            if (
                claim_id(claim) in begun
            ):  # Parity: devices are found for each mention of a claim, and the first are taken
                state.allocations[index] = begun[claim_id(claim)]
                continue
            share_id = str(uuid5(NAMESPACE_OID, f"{claim_id(claim)}/{context.seed}"))[:24]
            allocation = allocation_of(claim, choice, place, node_name, classes, share_id)
            state.allocations[index] = begun[claim_id(claim)] = allocation
            context.cluster.claims.begin(allocated(claim, allocation))
            if state.extended is not None and index == len(state.claims) - 1:
                state.node_claim, state.mappings = claim, served.mappings
            elif offer_to_group(context, claim):
                state.offered.add(index)
        return None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        state: ClaimState | None = context.state.find(self.name)
        if state:
            give_back(context, state, self._services)

    def pre_bind(self, context: SchedulingContext, node_name: str) -> points.Work | Rejection | None:
        """The writes and the waiting, as work that the driver does."""
        state = self._read(context)
        if not state:
            return None
        timeout_ns = self._binding_timeout_ns if self._features.binding_conditions else None
        return ClaimWork(context, state, self._services, timeout_ns, self._metrics).run(node_name)


PLUGINS = (DynamicResources,)
