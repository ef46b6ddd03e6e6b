"""Copies that fit by preemption: pods of lower priority leave, as DefaultPreemption chooses them, and do not come back."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.answers.capacity.filling import CopyPlacer, PodCopies, Refusal
from mooring.answers.form.published import Count, Form
from mooring.answers.trial.budget_counts import BudgetCounts
from mooring.answers.trial.workload_book import WorkloadBook
from mooring.framework.contract.points import Nomination
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import count, some
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.preemption.victim_search import KeptBudgets, split_by_budget
from mooring.scheduler.decision import NoFit, Placement
from mooring.scheduler.extender_steps import at_once
from mooring.scheduler.post_filter import run_post_filter_plugins

NODE_PREEMPTIONS = 4_000_000
"""A count without a limit ends after so many preemptions divided by the number of nodes, 800 for 5,000: each took 55 ms
there under a profiler, where disruption budgets protect pods."""
NAMED = 5
"""How many victims the summary names; the table has all."""


class CapacityVictim(Form, frozen=True):
    """A pod that leaves its node for one of the pods that are counted."""

    pod: str
    """Namespace and name."""
    node: str
    """The node that it is on now."""
    priority: int
    preemptor: str
    """The pod or workload that it leaves for."""


class PreemptionForm(Form, frozen=True):
    """The share of preemption in the count."""

    counted: bool
    """Whether pods that fit by preemption are counted. If not, the other numbers but lowerPriority are 0."""
    lower_priority: Count
    """How many pods on nodes have a lower priority than a pod that is placed and may preempt. Pods that are being deleted
    already count only where preemption is counted."""
    fits: Count
    """How many of the pods that fit need victims."""
    victims: Sequence[CapacityVictim]
    """The pods that leave, in this order."""
    broken_budgets: Count
    """How many of them a disruption budget protects."""
    ending: Sequence[str]
    """Pods that are being deleted already and must be gone before some of the pods fit: no preemption evicts them."""


@dataclass(slots=True)
class Preempted:
    """The preemptions of a count, or how many pods it could choose from if preemption is not counted."""

    counted: bool
    lower_priority: int
    fits: int = 0
    victims: list[CapacityVictim] = field(default_factory=list)
    broken_budgets: int = 0
    ending: list[str] = field(default_factory=list)
    was_cut: bool = False
    """Whether the count ended after so many preemptions as it makes without a limit."""

    def notes(self) -> list[str]:
        """A note if the count was cut."""
        told = "the count stopped after {}, and more pods may fit; --max N (in Python most=N) counts up to N pods"
        return [told.format(count(self.fits, "preemption"))] if self.was_cut else []

    def published(self) -> PreemptionForm:
        return PreemptionForm(
            self.counted, self.lower_priority, self.fits, self.victims, self.broken_budgets, self.ending
        )

    def sentences(self) -> list[str]:
        """The sentences of the summary about preemption: that it is not counted, or its gain and its victims."""
        if not self.counted:
            have = f"{count(self.lower_priority, 'pod')} on nodes {'has' if self.lower_priority == 1 else 'have'}"
            return [
                f"Preemption is not counted, and {have} a lower priority; --preempt (in Python preempt=True) counts pods "
                "that fit by evicting such pods."
            ]
        until = "Some of the pods fit only when pods that are being deleted already are gone"
        waits = [f"{until}: {some(self.ending, NAMED)}."] if self.ending else []
        if not self.victims:
            return ["No pod fits by preemption.", *waits]
        broken = f"; disruption budgets protect {self.broken_budgets} of them" if self.broken_budgets else ""
        names = some([victim.pod for victim in self.victims], NAMED)
        verb = "fits" if self.fits == 1 else "fit"
        return [
            f"{self.fits} of them {verb} by preemption, which evicts {count(len(self.victims), 'pod')}: {names}{broken}.",
            *waits,
        ]

    def note(self, victims: Sequence[Pod], preemptor: str, fits: int, budgets: "LivingBudgets") -> None:
        """Pods are gone so that so many copies fit. Parity: DefaultPreemption may choose a pod that is being deleted; it
        does not delete it again."""
        evicted = [pod for pod in victims if not pod.is_terminating]
        self.ending += [pod.key for pod in victims if pod.is_terminating]
        self.fits += fits if evicted else 0
        self.broken_budgets += budgets.left(evicted)
        self.victims += [CapacityVictim(pod.key, pod.spec.node_name, pod.priority, preemptor) for pod in evicted]


def count_lower(placer: CopyPlacer, preemptors: Sequence[Pod], with_ending: bool, are_groups: bool = False) -> int:
    """How many pods on nodes have a lower priority than one of the preemptors; 0 if none of them may preempt.

    `with_ending`: pods that are being deleted count: copies may wait for their room, though nobody evicts them.
    `are_groups`: the preemptors stand for pod groups.
    """
    priorities = [pod.priority for pod in preemptors if _may_preempt(placer, pod, are_groups)]
    if not priorities:
        return 0
    of_victim = placer.cluster.group_tree.victim_priority
    there = (pod for pod in placer.cluster.nodes.pods() if with_ending or not pod.is_terminating)
    return sum(of_victim(pod) < max(priorities) for pod in there)


def _may_preempt(placer: CopyPlacer, pod: Pod, is_group: bool) -> bool:
    """Whether the profile preempts, and the pod does not say that it never does."""
    runner = placer.runner(pod)
    if runner is None or pod.spec.preemption_policy == "Never":
        return False
    plugins = runner.profile.pod_group_post_filters if is_group else runner.profile.post_filters
    return any(isinstance(plugin, DefaultPreemption) for plugin in plugins)


class LivingBudgets:
    """The disruption budgets of a loaded cluster, whose counts fall when pods leave, as their controller counts them."""

    def __init__(self, loaded: LoadedCluster, placer: CopyPlacer) -> None:
        pods = loaded.pods()
        objects = {(type(item).__name__, item.key): item for item in loaded.objects}
        book = WorkloadBook(loaded.workloads, lambda kind, key: objects.get((kind, key)))
        budgets = (item for item in loaded.objects if isinstance(item, PodDisruptionBudget))
        self._counts = BudgetCounts(budgets, pods, book.scales(pods))
        self._placer = placer
        self._kept = KeptBudgets()
        self._changed: list[PodDisruptionBudget] = []
        self.left(())

    def left(self, pods: Sequence[Pod]) -> int:
        """Pods are gone: the cluster gets the budgets with their new counts. Returns how many of the pods they protected."""
        broken, _ = split_by_budget(pods, self._kept.of(self._placer.cluster)) if pods else ([], [])
        for pod in pods:
            self._counts.left(pod)
        changed = self._counts.take_changed()
        self._placer.add(changed)
        self._changed += changed
        return len(broken)

    def take_changed(self) -> list[PodDisruptionBudget]:
        """The budgets with another count than at the last call, once."""
        changed, self._changed = self._changed, []
        return changed


class RoomMaker:
    """Places copies that fit nowhere by preemption, and notes the victims.

    Pods that copies evict are gone: no controller creates them again. A copy that was placed is never evicted for another
    one: where DefaultPreemption chooses such a victim, the copy does not fit.
    """

    def __init__(
        self, loaded: LoadedCluster, placer: CopyPlacer, preempted: Preempted, is_bounded: bool = False
    ) -> None:
        """Victims are noted in `preempted`. `is_bounded`: the count ends after NODE_PREEMPTIONS."""
        self._preempted = preempted
        self._most = max(NODE_PREEMPTIONS // max(len(placer.cluster.nodes.row_book), 1), 1) if is_bounded else None
        self._placer = placer
        self._there = {pod.id for pod in placer.cluster.nodes.pods()}
        self._budgets = LivingBudgets(loaded, placer)

    def place(self, copies: PodCopies, pod: Pod, refusal: NoFit) -> Placement | Refusal | None:
        """The node where there is room for the pod after an eviction, or why there is none. The victims leave only if the pod
        is placed. None: there were as many preemptions as the count may make."""
        if self._preempted.fits == self._most:
            self._preempted.was_cut = True
            return None
        nomination = self._nominate(pod, refusal)
        if nomination is None or any(victim.id not in self._there for victim in nomination.victims):
            return refusal
        nodes = self._placer.cluster.nodes
        victims = [nodes.displace(victim.id) for victim in nomination.victims]
        status = msgspec.structs.replace(pod.status, nominated_node_name=nomination.node_name)
        outcome = self._placer.place(pod.with_status(status))
        if isinstance(outcome, Placement):
            self._preempted.note(victims, copies.name, 1, self._budgets)
            self._withdraw(pod, outcome.node)
        else:
            for victim in victims:
                nodes.place(victim, victim.spec.node_name)
        return outcome

    def _nominate(self, pod: Pod, refusal: NoFit) -> Nomination | None:
        runner = self._placer.runner(pod)
        if refusal.failure is None or runner is None:
            return None
        return at_once(run_post_filter_plugins(runner, refusal.failure)).nomination

    def _withdraw(self, preemptor: Pod, node: str) -> None:
        """Pods of lower priority that are nominated to the node lose that."""
        nominated = self._placer.cluster.nominated
        for other in nominated.on(node):
            if other.priority < preemptor.priority:
                nominated.withdraw(other.id)
