"""Metrics of searches for victims that come with pod groups (v1.37, 20.4). Preemptors that are pods count as well."""

from mooring.framework.contract.group_points import GroupRoom
from mooring.framework.contract.points import Handle, Nomination, NoRoom
from mooring.framework.contract.status import Code, Rejection
from mooring.framework.profile.metric_catalogue import POD_GROUPS


class PreemptionMetrics:
    """Without the feature gate GenericWorkload nothing is counted."""

    def __init__(self, handle: Handle) -> None:
        self._are_kept = handle.feature_gates.get("GenericWorkload", False)
        self._now_ns = handle.services.now_ns
        self._registry = handle.metrics
        for metric in POD_GROUPS if self._are_kept else ():
            handle.metrics.declare(metric)

    def began(self) -> int:
        """A search begins. Returns the time for the end of it."""
        return self._now_ns() if self._are_kept else 0

    def pod_searched(self, found: Nomination | NoRoom | None, began_ns: int) -> None:
        """The search for one pod is over; None: it failed.

        Parity: groups that are disrupted by a pod are not counted.
        """
        if not self._are_kept:
            return
        code = Code.Error if found is None else Code.Success
        self._evaluated("pod", found.rejection.code if isinstance(found, NoRoom) else code, began_ns)
        if isinstance(found, Nomination):
            self._violated("pod", found.violations)

    def group_searched(self, preemptor: str, found: GroupRoom | Rejection, began_ns: int) -> None:
        """The search for a group of this kind is over. Parity: its time counts for a PodGroup, whatever kind it is."""
        if not self._are_kept:
            return
        self._evaluated("podgroup", Code.Success if isinstance(found, GroupRoom) else found.code, began_ns)
        if isinstance(found, Rejection):
            return
        self._registry.histogram("scheduler_workload_preemption_victims").series().observe(len(found.victims))
        if found.disrupted_groups:
            disruptions = self._registry.histogram("scheduler_preemption_workload_disruptions")
            disruptions.series(preemptor).observe(found.disrupted_groups)
        self._violated(preemptor, found.violations)

    def group_answered(self, code: Code) -> None:
        """PodGroupPostFilter ended with this status, with a search or without."""
        if self._are_kept:
            self._registry.counter("scheduler_workload_preemption_attempts_total").series(code.name).add()

    def _evaluated(self, preemptor: str, code: Code, began_ns: int) -> None:
        durations = self._registry.histogram("scheduler_preemption_evaluation_duration_seconds")
        durations.series(preemptor, code.name).observe_ns(self._now_ns() - began_ns)

    def _violated(self, preemptor: str, violations: int) -> None:
        if violations:
            self._registry.counter("scheduler_preemption_pdb_violations_total").series(preemptor).add(violations)
