"""Attempts of a whole pod group by a scheduler of its own, while edits are in force; afterwards all of it is taken back.

The scheduler is the one of simulations: what it does for a group (minimum, placements, preemption, claims) is done here as
well. The pods that are pending beside the group take no part, except that those with a nominated node keep their room.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from mooring.answers.trial.counterfactual import Edit, MovePod, PlacePod, PutObject, RemovePod
from mooring.answers.trial.reasons import Reason, reasons_of, with_obstacles
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import gang_minimum
from mooring.framework.config.feature_gates import with_defaults
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.clock import NS_PER_S
from mooring.kit.words import alike_names, some
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import GangPolicy, PodGroup
from mooring.rules.conditions import typed_condition
from mooring.scheduler.decision import Decision, NoFit, Placement
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.state.made_decision import MadeDecision, showing

# ---- A pod group that a question is about: its PodGroup, and its pods with and without nodes.


_OFF = (
    "the feature gate GenericWorkload is off, so that pods are scheduled one by one; "
    "add --feature-gates GenericWorkload=true"
)


def has_groups(gates: Mapping[str, bool] | None) -> bool:
    """Whether the scheduler attempts the pods of a group together."""
    return with_defaults(gates)["GenericWorkload"]


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """One group, as the cluster has it."""

    key: str
    declared: PodGroup | None
    """None: pods name the group, but there is no such object."""
    pending: Sequence[Pod] = field(default=(), repr=False)
    placed: Sequence[Pod] = field(default=(), repr=False)
    gates: Mapping[str, bool] = field(default_factory=dict, repr=False)

    @property
    def is_all_or_nothing(self) -> bool:
        """Whether it is a gang, and the scheduler heeds that."""
        return gang_minimum(self.declared, self.gates) is not None

    @property
    def min_count(self) -> int:
        """How many pods must fit before any of them goes: 1 if the group is no gang."""
        return gang_minimum(self.declared, self.gates) or 1

    @property
    def needed(self) -> int:
        """How many pods have to be on nodes for the group to count as placed: the minimum of a gang, else all."""
        return self.min_count if self.is_all_or_nothing else self.member_count

    @property
    def member_count(self) -> int:
        return len(self.pending) + len(self.placed)

    @property
    def is_placed(self) -> bool:
        """Whether enough pods run already."""
        return self.declared is not None and len(self.placed) >= max(self.needed, 1)

    def with_min_count(self, number: int) -> PodGroup:
        """The PodGroup with another minimum."""
        assert self.declared is not None
        policy = msgspec.structs.replace(self.declared.spec.scheduling_policy, gang=GangPolicy(number))
        spec = msgspec.structs.replace(self.declared.spec, scheduling_policy=policy)
        return msgspec.structs.replace(self.declared, spec=spec)

    def with_pods(self, forms: Mapping[str, Pod]) -> "AskedGroup":
        """The group with other forms of some of its pods, by key."""
        return replace(self, pending=[forms.get(pod.key, pod) for pod in self.pending])


def asked_group(loaded: LoadedCluster, key: str) -> AskedGroup:
    """The group with this `namespace/name`."""
    declared = next((item for item in loaded.objects if isinstance(item, PodGroup) and item.key == key), None)
    pods = [pod for pod in loaded.pods() if pod.group_key == key]
    return AskedGroup(
        key,
        declared,
        [pod for pod in pods if not pod.spec.node_name],
        [pod for pod in pods if pod.spec.node_name],
        with_defaults(loaded.gates),
    )


def group_of(loaded: LoadedCluster, pod: Pod) -> AskedGroup | None:
    """The group that the scheduler attempts a pending pod with; None if it attempts the pod alone."""
    if pod.group_key is None or pod.spec.node_name or not has_groups(loaded.gates):
        return None
    return asked_group(loaded, pod.group_key)


def group_named(loaded: LoadedCluster, name: str, namespace: str = "") -> AskedGroup:
    """The group with this name. Raises NoSuchPod if it is not there, with similar names, or if groups are off."""
    if not has_groups(loaded.gates):
        raise NoSuchPod(f"PodGroup {name!r} cannot be explained: {_OFF}")
    keys = {item.key for item in loaded.objects if isinstance(item, PodGroup)}
    keys |= {pod.group_key for pod in loaded.pods() if pod.group_key is not None}
    wanted = f"{namespace}/{name}" if namespace and "/" not in name else name
    found = sorted(key for key in keys if wanted in (key, key.rpartition("/")[2]))
    if len(found) > 1:
        raise NoSuchPod(f"PodGroup {name!r} could be any of {some(found, 5)}: add its namespace")
    if not found:
        raise NoSuchPod(f"no PodGroup {wanted!r} among {len(keys)} groups{alike_names(wanted, sorted(keys))}")
    return asked_group(loaded, found[0])


def kind_of(pod: Pod) -> tuple[object, ...]:
    """A key that pods of a group share if they are rejected for the same reason."""
    return pod.shape, pod.label_set, pod.priority


PATIENCE_NS = 60 * NS_PER_S
"""How long on the virtual clock a group is waited for: victims leave at once, and the longest backoff is ten seconds."""


@dataclass(frozen=True, slots=True)
class RejectedMember:
    """A pod of the group that fitted nowhere beside the others."""

    key: str
    message: str
    reasons: Sequence[Reason] = ()


@dataclass(slots=True)
class AttemptRecord:
    """The decisions about the pods of the group, one after another, within one choice of nodes."""

    nodes: dict[str, str] = field(default_factory=dict)
    """By key of the pod: the node that was free for it."""
    rejected: dict[str, RejectedMember] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key in self.nodes or key in self.rejected


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """The outcome of an attempt of the group."""

    nodes: dict[str, str]
    """By key of the pod: the node that it is bound to."""
    is_placed: bool
    """Whether enough pods are on nodes."""
    record: AttemptRecord
    """The first attempt: of several choices of nodes the one in which most pods fitted."""
    choices: int
    """How many choices of nodes the first attempt went through."""
    messages: dict[str, str]
    """By key of the pod: why it has no node, in the scheduler's words."""
    victims: Sequence[str] = ()
    """Pods that were evicted for the group."""

    def where(self) -> str:
        """`node-1 (4), node-2 (4)`."""
        return spread_of(self.nodes.values())


class GroupTrials:
    """Raises ConfigError, and InputError for objects that contradict each other."""

    def __init__(self, loaded: LoadedCluster, group: AskedGroup) -> None:
        self.group = group
        self._simulated = SimulatedCluster(
            loaded.objects, loaded.config, loaded.registry, records=False, gates=loaded.gates, ties=loaded.ties
        )
        self._driver = self._simulated.driver
        core = self._simulated.scheduler.core
        core.options = replace(core.options, decides_on_all_members=True)
        self._simulated.scheduler.decide_with(showing(self._decided))
        own = {pod.key for pod in group.pending}
        for pod in self._simulated.pending:
            if pod.status.nominated_node_name and pod.key not in own:
                self._simulated.scheduler.nominated.promise(pod, pod.status.nominated_node_name)
        self.decisions = 0
        """How many decisions about single pods were made: what a search is bounded by."""
        self._records: list[AttemptRecord] | None = None
        self._explains = False
        self._before = dict(self._driver.objects)

    @property
    def cluster(self) -> Cluster:
        return self._simulated.cluster

    def attempt(
        self, edits: Sequence[Edit] = (), group: AskedGroup | None = None, *, explain: bool = False, keep: bool = False
    ) -> GroupOutcome:
        """The outcome of the group once the edits are made; `group` has its pods in another form, or is another one.

        With `keep`, a group that is placed stays, with the edits.
        """
        group = self.group if group is None else group
        for edit in edits:
            self._make(edit)
        self._records, self._explains = [], explain
        self._simulated.evictions.clear()
        for pod in group.pending:
            self._driver.create(pod)
        self._driver.attempt_once()
        records, self._records = self._records, None
        self._let_time_pass(group)
        outcome = self._outcome(group, records)
        if keep and outcome.is_placed:
            self._before = dict(self._driver.objects)
        else:
            self._take_back()
        return outcome

    def _let_time_pass(self, group: AskedGroup) -> None:
        """If pods were evicted for the group, until it is placed. Otherwise another attempt would find the same."""
        driver = self._driver
        driver.jump(driver.clock.now_ns())  # releases pods that waited for each other on Permit
        end_ns = driver.clock.now_ns() + PATIENCE_NS
        while self._simulated.evictions and len(self._nodes(group)) < len(group.pending):
            next_ns = driver.next_ns()
            if next_ns is None or next_ns > end_ns:
                return
            driver.jump(next_ns)
            driver.attempt_once()
            driver.jump(driver.clock.now_ns())

    def _nodes(self, group: AskedGroup) -> dict[str, str]:
        found = (self._driver.objects.get(("Pod", pod.key)) for pod in group.pending)
        return {pod.key: pod.spec.node_name for pod in found if isinstance(pod, Pod) and pod.spec.node_name}

    def _outcome(self, group: AskedGroup, records: Sequence[AttemptRecord]) -> GroupOutcome:
        nodes, objects = self._nodes(group), self._driver.objects
        evicted = [*dict.fromkeys(eviction.pod.key for eviction in self._simulated.evictions)]
        there = sum(("Pod", pod.key) in objects for pod in group.placed)  # a cure may remove some
        return GroupOutcome(
            nodes,
            bool(nodes) and there + len(nodes) >= group.needed,
            max(records, key=lambda record: len(record.nodes), default=AttemptRecord()),
            len(records),
            {pod.key: self._message(pod) for pod in group.pending if pod.key not in nodes},
            evicted,
        )

    def _message(self, pod: Pod) -> str:
        entry = self._simulated.scheduler.queued(pod.key)
        if entry is not None and entry.is_gated:
            return entry.gating_message
        now = self._driver.objects.get(("Pod", pod.key))
        condition = typed_condition(now.status.conditions, POD_SCHEDULED) if isinstance(now, Pod) else None
        return (condition.message or "") if condition is not None else ""

    # ---- decisions

    def _decided(self, made: MadeDecision) -> None:
        """Count and note a decision of the scheduler."""
        self.decisions += 1
        if self._records is not None:
            self._note(self._records, made.pod, made.cluster, made.decision)

    def _note(self, records: list[AttemptRecord], pod: Pod, cluster: Cluster, decision: Decision) -> None:
        """Reasons are read at once: they look at the nodes as they are in the middle of the attempt."""
        if not records or pod.key in records[-1]:
            records.append(AttemptRecord())  # each choice of nodes begins with the first pod again
        if isinstance(decision, Placement):
            records[-1].nodes[pod.key] = decision.node
        elif isinstance(decision, NoFit):
            reasons = reasons_of(decision) if self._explains else []
            told = [with_obstacles(reason, pod, cluster) for reason in reasons]
            records[-1].rejected[pod.key] = RejectedMember(pod.key, decision.message, told)
        else:
            records[-1].rejected[pod.key] = RejectedMember(pod.key, decision.error)

    # ---- edits

    def _make(self, edit: Edit) -> None:
        match edit:
            case PutObject(item):
                self._put(item)
            case RemovePod(pod):
                self._driver.delete("Pod", pod.key)
            case MovePod(pod, node):
                self._driver.delete("Pod", pod.key)
                self._driver.create(pod.with_node(node))
            case PlacePod(pod):
                self._driver.create(pod)

    def _put(self, item: KubeObject) -> None:
        if (type(item).__name__, item.key) in self._driver.objects:
            self._driver.update(item)
        else:
            self._driver.create(item)

    def _take_back(self) -> None:
        """Bring every object back to what it was, whatever changed it: edits, the attempt, or a controller."""
        objects, before = self._driver.objects, self._before
        new = [name for name in objects if name not in before]
        for kind, key in sorted(new, key=_pods_first):
            self._driver.delete(kind, key)
        changed = [item for name, item in before.items() if objects.get(name) is not item]
        for item in sorted(changed, key=lambda item: not isinstance(item, Node)):
            if isinstance(item, Pod):
                self._driver.delete("Pod", item.key)
            self._put(item)
        self._driver.settle()
        self._before = dict(objects)


def _pods_first(name: tuple[str, str]) -> bool:
    return name[0] != "Pod"


def spread_of(nodes: Iterable[str]) -> str:
    """Which nodes, and how many pods on each: `node-1 (4), node-2 (4)`."""
    return ", ".join(f"{node} ({number})" for node, number in sorted(Counter(nodes).items()))
