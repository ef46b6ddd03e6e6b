"""VolumeBinding: pods go where their volumes can be used, and claims that wait for their pod get volumes there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooring.cluster.nodes.table import ClusterError
from mooring.framework.config.args import VolumeBindingArgs
from mooring.framework.context import SchedulingContext
from mooring.framework.events import Registration
from mooring.framework.points import (
    Codes,
    FilterPlugin,
    Handle,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    Work,
    reads,
)
from mooring.framework.status import SKIP, PluginError, Rejection, Skip, final
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.model.volumes import kept_for, made_for
from mooring.plugins.volumes.bound import NO_SUCH_VOLUME, OUT_OF_REACH, bound_codes
from mooring.plugins.volumes.claim_kinds import ClaimsByKind, sort_claims
from mooring.plugins.volumes.plan import NO_ROOM, NO_VOLUME, Planner, VolumePlan
from mooring.plugins.volumes.scores import score_plan
from mooring.plugins.volumes.volume_binding_hints import BINDING_EVENTS
from mooring.plugins.volumes.work import Reservation, bind_volumes

SCORING_GATE = "StorageCapacityScoring"
DEFAULT_SHAPE = [(0, 100), (100, 0)]
"""The fuller, the worse."""

_REASONS = {
    OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    NO_SUCH_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
"""By bit of the code, in the order in which they are told."""


@dataclass(slots=True)
class BindingState:
    """What one attempt knows of the pod's claims, and what was reserved for them in the end."""

    claims: ClaimsByKind
    plan: VolumePlan | None = None
    """For all rows that were asked about, where that is no what-if."""
    everywhere: Codes | None = None
    """The codes of all rows, for what-ifs: which pods are on a node makes no difference to it."""
    reservation: Reservation = field(default_factory=Reservation)


class VolumeBinding(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin):
    name = "VolumeBinding"

    def __init__(self, args: Any, handle: Handle) -> None:
        chosen = args if isinstance(args, VolumeBindingArgs) else VolumeBindingArgs()
        self._timeout_ns = chosen.bind_timeout_seconds * NS_PER_S
        self._services = handle.services
        self._shape = [(point.utilization, point.score * 10) for point in chosen.shape or ()] or DEFAULT_SHAPE
        self._scores = handle.feature_gates.get(SCORING_GATE, False)
        self._planner = Planner()

    def events(self) -> Sequence[Registration]:
        return BINDING_EVENTS

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return bool(pod.spec.volumes)

    # ---- which nodes will do

    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        if not context.pod.spec.volumes:
            return SKIP
        claims = sort_claims(context.cluster.storage, context.pod)
        if isinstance(claims, Rejection):
            return claims
        if claims is None:
            return SKIP
        if claims.immediate:
            return final("pod has unbound immediate PersistentVolumeClaims")
        context.state.write(self.name, BindingState(claims))
        return None

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        state: BindingState = context.state.read(self.name)
        if context.nodes is context.cluster.nodes:
            codes, state.plan = self._codes(context, state.claims, rows)
        else:
            # Hot: preemption asks about one node after another, and this takes as long for one as for all.
            if state.everywhere is None:
                state.everywhere, _ = self._codes(context, state.claims, slice(0, context.nodes.height))
            codes = state.everywhere[rows]
        return codes if codes.any() else None

    def _codes(self, context: SchedulingContext, claims: ClaimsByKind, rows: Rows) -> tuple[Codes, VolumePlan | None]:
        codes = bound_codes(context, claims.bound, rows, self._planner.reaches)
        if not claims.delayed:
            return codes, None
        plan = self._planner.plan(context, claims.delayed, rows)
        return codes | plan.codes, plan

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final(*(reason for bit, reason in _REASONS.items() if code & bit))

    # ---- which of them is best

    @reads(Reads.SHAPE)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        return None if self._scores else SKIP

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        state = self._state(context)
        if state is None or not state.claims.delayed:
            return None
        plan = self._planner.plan(context, state.claims.delayed, rows)
        return score_plan(context, plan, rows, self._shape)

    # ---- the node that was chosen

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        """Assume that the chosen volumes are the claims', and that claims without any are to get one on this node."""
        state = self._state(context)
        if state is None or not state.claims.delayed:
            return None
        row = context.nodes.row_book[node_name]
        plan, index = state.plan, state.plan.index_of(row) if state.plan is not None else None
        if plan is None or index is None or plan.version != context.cluster.storage.version:
            plan, index = self._planner.plan(context, state.claims.delayed, np.array([row], np.intp)), 0
        if plan.codes[index]:
            return self.rejection(context, int(plan.codes[index]))  # volumes changed since the node was looked at
        try:
            for volume, claim in plan.bindings(index):
                self._keep(context, state.reservation, volume, claim)
            for claim in plan.provisions(index):
                copy = made_for(claim, node_name)
                context.cluster.storage.assume_claim(copy)
                state.reservation.claims.append(copy)
        except ClusterError as fault:
            self.unreserve(context, node_name)
            raise PluginError(str(fault)) from fault
        return None

    def _keep(
        self,
        context: SchedulingContext,
        reservation: Reservation,
        volume: PersistentVolume,
        claim: PersistentVolumeClaim,
    ) -> None:
        copy = kept_for(volume, claim)
        if copy is not volume:
            context.cluster.storage.assume_volume(copy)
        reservation.volumes.append((copy, claim))

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        state = self._state(context)
        if state is not None:
            for volume, _ in state.reservation.volumes:
                context.cluster.storage.restore_volume(volume.name)
            for claim in state.reservation.claims:
                context.cluster.storage.restore_claim(claim.key)
            state.reservation = Reservation()

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Work | Rejection | None:
        state = self._state(context)
        if state is None or not state.reservation:
            return None
        deadline_ns = self._services.now_ns() + self._timeout_ns
        return bind_volumes(context, node_name, state.reservation, self._services.now_ns, deadline_ns)

    def _state(self, context: SchedulingContext) -> BindingState | None:
        """None: the pod has no claims."""
        if not context.pod.spec.volumes:
            return None
        found: BindingState | None = context.state.find(self.name)
        return found
