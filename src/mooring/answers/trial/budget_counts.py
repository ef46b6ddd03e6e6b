"""Disruption budgets in a simulation: how many of their pods may be evicted now, as the disruption controller counts.

A simulation has no kubelets, so a pod that is on a node counts as healthy, unless the input says that it is not ready. The
scheduler reads budgets too, for preemption: `publish` writes the counts into the objects.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.model.label_set import LabelSet
from mooring.model.pod import Pod
from mooring.model.selectors import Selector, SelectorError, compile_selector
from mooring.model.workloads import PodDisruptionBudget
from mooring.rules.conditions import typed_condition
from mooring.rules.evictions import BudgetNeeds, budget_needs, lets_unready_go

SEVERAL = "the pod has more than one PodDisruptionBudget, which the eviction API does not support"

Scale = Callable[[Pod], tuple[str, int] | None]
"""The workload that a pod belongs to, and how many pods it should have; None for a pod without a controller."""


@dataclass(slots=True)
class CountedBudget:
    """One budget with its counts."""

    budget: PodDisruptionBudget
    selector: Selector
    healthy: int = 0
    pods: int = 0
    """All pods that it covers, placed or not, when they were counted. Those that are evicted are replaced."""
    scales: dict[str, int] = field(default_factory=dict)
    """By workload of its pods: how many pods it should have."""

    def needs(self) -> BudgetNeeds:
        spec = self.budget.spec
        return budget_needs(spec.max_unavailable, spec.min_available, self.pods, lambda: sum(self.scales.values()))

    @property
    def allowed(self) -> int:
        """status.disruptionsAllowed."""
        return self.needs().allowed(self.healthy)

    def lets_go(self, pod: Pod) -> bool:
        """Whether the eviction API would delete the pod now. A pod that is not ready may go without being counted, if the
        budget is met without it."""
        needs, policy = self.needs(), self.budget.spec.unhealthy_pod_eviction_policy
        if not is_healthy(pod) and lets_unready_go(policy, needs.desired, self.healthy):
            return True
        return needs.allowed(self.healthy) > 0

    def refusal(self) -> str:
        """Why it lets no pod go."""
        return f"needs {self.needs().desired} healthy pods and has {self.healthy}"

    def published(self) -> PodDisruptionBudget:
        """The object with the present count. Pods that are being evicted are gone at once in a simulation."""
        status = msgspec.structs.replace(self.budget.status, disruptions_allowed=self.allowed, disrupted_pods=None)
        return msgspec.structs.replace(self.budget, status=status)


class BudgetCounts:
    """All budgets of a cluster. It has to be told of every pod that comes to a node or is gone.

    `are_changed`: the cluster is no longer the one in which the controller counted, so that all counts are published.
    """

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget], pods: Iterable[Pod], scale: Scale, are_changed: bool = False
    ) -> None:
        self._by_namespace: dict[str, list[CountedBudget]] = {}
        self._covering: dict[LabelSet, list[CountedBudget]] = {}
        """Hot: pods of one template have the same labels, so that 30,000 pods need some 200 comparisons."""
        self._changed: dict[str, CountedBudget] = {}
        for budget in budgets:
            self._take(budget, are_changed)
        for pod in pods if self._by_namespace else ():
            if pod.metadata.namespace in self._by_namespace and (covering := self.of(pod)):  # Hot: most have no budget
                self._enter(pod, covering, scale)

    def of(self, pod: Pod) -> list[CountedBudget]:
        """The budgets that cover a pod."""
        found = self._covering.get(pod.label_set)
        if found is None:
            if pod.namespace not in self._by_namespace:
                return []
            labels = pod.labels
            found = [each for each in self._by_namespace[pod.namespace] if each.selector.matches(labels)]
            self._covering[pod.label_set] = found
        return found

    def blocking(self, pod: Pod) -> tuple[str, str] | None:
        """The budget that forbids to evict the pod now, with the reason; None if it may be evicted."""
        covering = self.of(pod)
        if len(covering) > 1:
            return ", ".join(each.budget.name for each in covering), SEVERAL
        if not covering or covering[0].lets_go(pod):
            return None
        return covering[0].budget.name, covering[0].refusal()

    def came(self, pod: Pod) -> None:
        """A pod that was counted without a node is on one now."""
        for each in self.of(pod):
            each.healthy += is_healthy(pod)
            self._changed[each.budget.key] = each

    def left(self, pod: Pod) -> None:
        """A pod is gone."""
        for each in self.of(pod):
            each.healthy -= is_healthy(pod)
            self._changed[each.budget.key] = each

    def take_changed(self) -> list[PodDisruptionBudget]:
        """The budgets that allow another number of disruptions than their objects say, with the new number."""
        changed, self._changed = self._changed, {}
        found = []
        for each in changed.values():
            if each.budget.status.disruptions_allowed != each.allowed:
                each.budget = each.published()
                found.append(each.budget)
        return found

    def _take(self, budget: PodDisruptionBudget, is_changed: bool) -> None:
        """A budget of a manifest has no status yet: the controller would write one at once."""
        try:
            counted = CountedBudget(budget, compile_selector(budget.spec.selector))
        except SelectorError:
            return  # the API server would reject it
        self._by_namespace.setdefault(budget.namespace, []).append(counted)
        if is_changed or not budget.status.conditions:
            self._changed[budget.key] = counted

    @staticmethod
    def _enter(pod: Pod, covering: Sequence[CountedBudget], scale: Scale) -> None:
        """Count a pod in the budgets that cover it."""
        healthy, owner = is_healthy(pod), scale(pod)
        for each in covering:
            each.pods += 1
            each.healthy += healthy
            if owner is not None:
                each.scales[owner[0]] = owner[1]


def is_healthy(pod: Pod) -> bool:
    """Whether the disruption controller counts the pod, as far as a simulation can tell."""
    if not pod.spec.node_name or pod.is_terminating or pod.is_finished:
        return False
    ready = typed_condition(pod.status.conditions, "Ready")
    return ready is None or ready.status == "True"
