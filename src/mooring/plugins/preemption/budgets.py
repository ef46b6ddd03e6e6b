"""Disruption budgets: which of the pods that would have to leave a node break one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from mooring.cluster.cluster import Cluster
from mooring.model.pod import Pod
from mooring.model.selectors import Selector, SelectorError, compile_selector
from mooring.model.workloads import PodDisruptionBudget


@dataclass(frozen=True, slots=True)
class Budget:
    """A disruption budget that can match pods: its selector is valid and not empty."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Names of pods that are being evicted already: they do not count again."""

    def matches(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and bool(pod.labels) and self.selector.matches(pod.labels)


def budgets_of(cluster: Cluster) -> list[Budget]:
    found = []
    for item in cluster.objects[PodDisruptionBudget].values():
        budget = cast(PodDisruptionBudget, item)
        try:
            selector = compile_selector(budget.spec.selector)
        except SelectorError:
            continue  # Parity: a budget whose selector cannot be read protects nobody
        if not selector.is_empty and not selector.is_nothing:
            disrupted = frozenset(budget.status.disrupted_pods or ())
            found.append(Budget(budget.namespace, selector, budget.status.disruptions_allowed, disrupted))
    return found


def split_by_budget(pods: Iterable[Pod], budgets: Sequence[Budget]) -> tuple[list[Pod], list[Pod]]:
    """(pods that break a budget if all of them leave in this order, the others).

    Parity: a pod takes from every budget that matches it, also after one of them was found broken.
    """
    left = [budget.allowed for budget in budgets]
    breaking: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        breaks = False
        for i, budget in enumerate(budgets):
            if budget.matches(pod) and pod.name not in budget.disrupted:
                left[i] -= 1
                breaks = breaks or left[i] < 0
        (breaking if breaks else others).append(pod)
    return breaking, others
