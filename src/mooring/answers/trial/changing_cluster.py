"""A simulated cluster that goes on while it is changed, with what controllers do about pods that are gone.

A pod with a controller that is evicted, preempted or lost with its node is created again; one without is gone. The scheduler
settles what is pending in between, by the same code as in `simulate`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Self

import numpy as np

from mooring.answers.form.published import Form
from mooring.answers.form.utilisation import Utilisation, utilisation_of
from mooring.answers.trial.budget_counts import BudgetCounts
from mooring.answers.trial.node_prices import NO_PRICES, ClusterCost, cost_of_nodes, known_prices
from mooring.answers.trial.workload_book import WorkloadBook
from mooring.cluster.nodes.table import NodeTable
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.inputs.admission import Admission, ClaimSources
from mooring.inputs.field_checks import Validation
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.clock import in_seconds
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.rules.conditions import typed_condition
from mooring.rules.evictions import is_drained
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.sim.controllers import claims_with, replacement, volume_claims_of
from mooring.sim.results import GroupState, group_reason, group_states
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.sim.simulation import ATTEMPTS_A_POD, UNTIL_NS, Simulation

# ---- A cluster after its scheduler has placed what it can: for manifests, whose pods no scheduler has seen yet.


def settled(loaded: LoadedCluster) -> LoadedCluster:
    """The cluster with its pending pods placed by a simulation, as far as they fit; victims of preemption are gone.

    Raises ConfigError, and InputError for objects that contradict each other.
    """
    simulation = Simulation(loaded.objects, loaded.config, loaded.registry, loaded.gates)
    simulation.run()
    return replace(loaded, objects=simulation.objects(), queue=None)


class NamedPod(Form, frozen=True):
    """A pod."""

    namespace: str
    """The namespace of the pod."""
    name: str
    """The name of the pod."""

    @classmethod
    def of(cls, key: str, *about: Any) -> Self:
        """The pod with this key, and what else is known about it, in the order of the fields."""
        namespace, _, name = key.rpartition("/")
        return cls(namespace, name, *about)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PreemptedPod(NamedPod, frozen=True):
    """A pod that was preempted on `node` for the pod with the key `preemptor`."""

    node: str
    preemptor: str


class GonePod(NamedPod, frozen=True):
    """A pod that is deleted and not replaced."""

    node: str
    """Where it was; empty if it was pending."""
    reason: str
    """Why it is gone."""
    is_wanted: bool
    """Whether a change asks for it: a smaller scale, a deletion, the daemon of a node that is removed."""


class BlockedPod(NamedPod, frozen=True):
    """A pod that a drain could not evict."""

    node: str
    """The node that is drained."""
    budget: str
    """The PodDisruptionBudget that protects it, in its namespace; empty if the drain gave up."""
    message: str
    """The number of healthy pods that the budget needs and has."""


class ChangingCluster:
    """The cluster of a question, in one simulation. It never changes the loaded cluster.

    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self,
        loaded: LoadedCluster,
        validation: Validation = Validation.STRICT,
        reads_files: bool = True,
        prices: PriceList = NO_PRICES,
    ) -> None:
        self.loaded = loaded
        self.prices = prices
        """The prices of nodes beside those that nodes tell themselves."""
        self.reads_files = reads_files
        """Whether changes may name files: not if they come from another machine."""
        self.validation = validation
        """How manifests that changes name are checked."""
        self.config = loaded.config
        self.created = max((item.metadata.creation_timestamp or "" for item in loaded.objects), default="")
        """When new pods are created: later than all others, in the form of a creationTimestamp."""
        self.created = max(self.created, in_seconds(START_NS))
        self.book = WorkloadBook(loaded.workloads, self.find)
        self.preempted: list[PreemptedPod] = []
        self.gone: dict[str, GonePod] = {}
        """By key, the last one of each name."""
        self.blocked: dict[str, BlockedPod] = {}
        self.notes: dict[str, None] = {}
        self.evicted = 0
        """How many pods drains have evicted."""
        self._created_pods = 0
        self._admission: Admission | None = None
        self._claim_sources: ClaimSources | None = None
        self._lost: list[Pod] = []
        """Pods that are gone and that their controllers will replace."""
        self._begin(loaded.objects)

    def _begin(self, objects: Sequence[KubeObject]) -> None:
        """Start the simulation with these objects. Pods without a node arrive in the order of their creation."""
        loaded = self.loaded
        self.simulated = SimulatedCluster(
            objects, self.config, loaded.registry, records=False, gates=loaded.gates, ties=loaded.ties
        )
        self.simulated.on_evicted = self._preempted
        self.driver.on_bound = self._bound
        self.simulated.create_pending()
        self.recount(are_changed=False)

    def use(self, config: KubeSchedulerConfiguration) -> None:
        """Go on with another configuration: a new scheduler that finds the objects as they are now."""
        self.note_faults()
        self.config = config
        self._begin([*self.driver.objects.values()])

    # ---- what is there

    @property
    def driver(self) -> Driver:
        return self.simulated.driver

    def find(self, kind: str, key: str) -> KubeObject | None:
        return self.driver.objects.get((kind, key))

    def nodes(self) -> dict[str, Node]:
        """By name."""
        return {item.name: item for item in self.driver.nodes()}

    def pods(self) -> list[Pod]:
        """All pods that have not finished."""
        return [pod for pod in self.driver.pods() if not pod.is_finished]

    def pods_on(self, name: str) -> list[Pod]:
        """The pods on a node, sorted by key."""
        table = self.simulated.cluster.nodes
        row = table.row_book.get(name)
        return sorted(table.pods_on[row], key=lambda pod: pod.key) if row is not None else []

    @property
    def admission(self) -> Admission:
        """The admission of an API server with these objects, which completes new ones; `recount` forgets it."""
        if self._admission is None:
            self._admission = Admission.of([*self.driver.objects.values()], self.loaded.gates)
        return self._admission

    @property
    def claim_sources(self) -> ClaimSources:
        """The objects that claims of new pods are created from; `recount` forgets it."""
        if self._claim_sources is None:
            self._claim_sources = ClaimSources.of(self.driver.objects.values(), self.loaded.gates)
        return self._claim_sources

    def note(self, text: str) -> None:
        """A sentence that the reader of the answer should know. Each is told once."""
        self.notes.setdefault(text)

    def note_faults(self) -> None:
        """Keep the faults that the scheduler has reported so far."""
        for text in self.simulated.notes():
            self.note(text)

    # ---- time

    def settle(self) -> None:
        """Attempt pods and let time pass until nothing moves, as `simulate` does."""
        scheduler = self.simulated.scheduler
        waiting = sum(scheduler.pending_counts().values())
        last = scheduler.attempts + ATTEMPTS_A_POD * max(waiting, 1)
        end_ns = self.simulated.clock.now_ns() + UNTIL_NS
        if not self.simulated.settle(end_ns, partial(self._attempted, last), self._prepare):
            self.note("stopped: the scheduler would attempt some pods again and again")

    def attempt_all(self) -> None:
        """Attempt pods until the active queue is empty; no time passes."""
        self.simulated.attempt_all(partial(self._attempted, inf), self._prepare)

    def _attempted(self, last: float, pod: Pod) -> bool:
        """Replace victims. Returns False after the last attempt that there may be."""
        self._replace_lost()
        return self.simulated.scheduler.attempts <= last

    def _prepare(self) -> None:
        """Create the pods that controllers create, and write the counts of budgets into their objects, where preemption
        reads them."""
        self._replace_lost()
        for budget in self.budgets.take_changed():
            self.driver.update(budget)

    # ---- pods come and go

    def evict(self, pod: Pod, reason: str) -> bool:
        """Evict a pod as the eviction API does: a disruption budget may refuse it. Returns whether it was evicted."""
        if not pod.is_terminating and self.budgets.blocking(pod) is not None:
            return False
        self.evicted += 1
        self.lose(pod, reason)
        return True

    def lose(self, pod: Pod, reason: str) -> None:
        """Delete a pod against the will of its controller, which creates it again. Without a controller it is gone."""
        self._delete(pod)
        if pod.is_terminating:
            self._note_gone(pod, "it was being deleted before", True)  # its controller has created another one already
        elif pod.controller() is None:
            self._note_gone(pod, reason, False)
        elif not is_drained(pod):
            self._note_gone(pod, reason, True)
        else:
            self._lost.append(pod)

    def remove(self, pod: Pod, reason: str) -> None:
        """Delete a pod that is not wanted any more."""
        self._delete(pod)
        self._note_gone(pod, reason, True)

    def create_like(self, pod: Pod, name: str = "") -> None:
        """Create a pod from the template of another one; `name` is for one more pod."""
        self._created_pods += 1  # makes the uid unique
        self.create_pod(replacement(pod, self._created_pods, self.created, name))

    def create_pod(self, pod: Pod) -> None:
        """Create a pod with the claims that controllers create for it."""
        for claim in claims_with(pod, self.claim_sources):
            self.admission.admit(claim)
            self.driver.create(claim)
        self.driver.create(pod)

    def recount(self, are_changed: bool = True) -> None:
        """Count budgets and read classes anew: after changes of budgets, workloads and other objects."""
        self._admission = self._claim_sources = None
        self._replace_lost()
        pods = self.driver.pods()
        budgets = (item for item in self.driver.objects.values() if isinstance(item, PodDisruptionBudget))
        self.budgets = BudgetCounts(budgets, pods, self.book.scales(pods), are_changed)

    def _delete(self, pod: Pod) -> None:
        self.budgets.left(pod)
        self.driver.delete("Pod", pod.key)
        self._delete_claims(pod)

    def _delete_claims(self, pod: Pod) -> None:
        """Delete the claims of ephemeral volumes. The driver's own controller deletes ResourceClaims."""
        for key in volume_claims_of(pod):
            self.driver.delete("PersistentVolumeClaim", key)

    def _note_gone(self, pod: Pod, reason: str, is_wanted: bool) -> None:
        self.gone[pod.key] = GonePod.of(pod.key, pod.spec.node_name, reason, is_wanted)

    # ---- what the scheduler did

    def _bound(self, pod: Pod) -> None:
        self.budgets.came(pod)

    def _preempted(self, victim: Pod) -> None:
        """The driver has deleted the victim. Its replacement comes after the attempt is over."""
        eviction = self.simulated.evictions[-1]
        self.preempted.append(PreemptedPod.of(victim.key, eviction.node, eviction.preemptor))
        self.budgets.left(victim)
        if victim.controller() is None:
            self._note_gone(victim, "preempted", False)
        else:
            self._lost.append(victim)

    def _replace_lost(self) -> None:
        """Create the pods that controllers create instead of those that are gone, one controller after another.

        Hot: so pods of one template follow each other, as they do when a controller makes up for many at once. A drained
        zone of 5,000 nodes takes half of the time that it takes pod by pod.
        """
        if not self._lost:
            return
        lost, self._lost = self._lost, []
        for pod in with_siblings(lost):
            self._delete_claims(pod)
            self.create_like(pod)


def objects_of(cluster: ChangingCluster) -> LoadedCluster:
    """The cluster of a simulation as it is now."""
    workloads = [*cluster.book.workloads.values()]
    return replace(cluster.loaded, objects=[*cluster.driver.objects.values()], workloads=workloads)


# ---- A moment of a cluster: where each pod is, why the others are pending, and how full nodes are.


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """The pods of a cluster that has come to rest."""

    nodes: dict[str, str]
    """Pod -> its node; empty for a pod that is pending. Without pods that have finished or are being deleted unplaced."""
    utilisation: Utilisation
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    """Pod groups by key, if the scheduler heeds groups."""
    cost: ClusterCost | None = None
    """The price of an hour of all nodes; None if some node has none."""


def moment_of(cluster: ChangingCluster) -> ClusterMoment:
    pods = [pod for pod in cluster.pods() if pod.spec.node_name or not pod.is_terminating]
    places = {pod.key: pod.spec.node_name for pod in pods}
    scheduler = cluster.simulated.scheduler
    for pod in pods:
        counted = None if pod.spec.node_name else scheduler.placed(pod.id)
        if counted is not None and scheduler.waiting.get(pod.id) is None:
            places[pod.key] = counted.spec.node_name  # a Bind plugin bound it without the driver
    table = cluster.simulated.cluster.nodes
    return ClusterMoment(places, utilisation_of(table), _groups(cluster, pods, places), _cost(cluster, table))


def _cost(cluster: ChangingCluster, table: NodeTable) -> ClusterCost | None:
    prices = known_prices(cluster.driver.nodes(), cluster.prices)
    rows = np.array([table.row_book[name] for name in sorted(prices)], np.intp)
    return cost_of_nodes(table, rows, np.array([prices[name] for name in sorted(prices)])) if prices else None


def with_siblings(pods: Iterable[Pod]) -> list[Pod]:
    """The pods, those of one controller one after another."""
    by_controller: dict[str, list[Pod]] = {}
    for pod in pods:
        owner = pod.controller()
        by_controller.setdefault(f"{owner.kind}/{owner.uid or owner.name}" if owner else "", []).append(pod)
    return [pod for group in by_controller.values() for pod in group]


def _groups(cluster: ChangingCluster, pods: Sequence[Pod], places: Mapping[str, str]) -> dict[str, GroupState]:
    states = group_states(cluster.simulated.cluster, ((pod, places[pod.key]) for pod in pods))
    for state in states.values():
        if not state.is_placed:
            state.message = group_reason(why_pending(cluster, key) for key, node in state.nodes.items() if not node)
    return states


def why_pending(cluster: ChangingCluster, key: str) -> str:
    """Why a pod has no node."""
    pod = cluster.find("Pod", key)
    if not isinstance(pod, Pod):
        return ""
    held_back = cluster.simulated.held_back(pod)
    if held_back is not None:
        return held_back[1]
    condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
    return (condition.message if condition is not None else None) or "it was not attempted"


def without_preemption(message: str) -> str:
    """The message of a pending pod without its sentence about preemption, which says little where nobody may be evicted."""
    return message.partition(" preemption: ")[0].strip()
