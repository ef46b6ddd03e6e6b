"""Tries nodes: adds some of each offer to the cluster, places pods in the order of the queue, and takes all of it back.

The decisions are the core's own, without time and without preemption: a trial takes a fraction of the time of a simulation.
What comes out of a search is judged by a simulation afterwards (`judge.py`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mooring.answers.capacity.filling import CopyPlacer
from mooring.answers.plan.offers import NodeOffer
from mooring.answers.trial.changing_nodes import free_names
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.pods.pod_groups import GroupName, gang_minimum
from mooring.framework.attempts.group_asking import generate_placements
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.group_points import PodGroupContext, PodGroupPlacement
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.kit.choice import mix
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import Placement
from mooring.scheduler.ties import by_seed

# ---- Gangs in trials of nodes: their pods are placed together or not at all, so that no node is added for half a
# gang.


@dataclass(frozen=True, slots=True)
class PlacedTogether:
    """Pods that are placed one after another; fewer than `least` of them are taken back."""

    pods: Sequence[Pod]
    least: int = 0
    gang: str = ""
    """The key of the PodGroup; empty for a pod that goes alone."""

    def form(self, placements: Sequence[PodGroupPlacement | None]) -> tuple[object, ...]:
        """A key that gangs share if each fits where the other does, among these placements."""
        kinds = Counter((id(pod.shape), id(pod.label_set), pod.namespace) for pod in self.pods)
        where = tuple(placement.rows.tobytes() for placement in placements if placement is not None)
        return self.least, frozenset(kinds.items()), where


def _order(pod: Pod) -> tuple[int, str, str]:
    """How the scheduler orders the pods of a group that came at once."""
    return -pod.priority, pod.metadata.creation_timestamp or "", pod.key


@dataclass(slots=True)
class GangUnits:
    """The gangs of a cluster, and how many of their pods a trial has placed so far."""

    cluster: Cluster
    placed: Counter[str] = field(default_factory=Counter)
    """By key of the group, beside those that ran before."""

    def units(self, pods: Sequence[Pod]) -> list[PlacedTogether]:
        """The pods in the order of the queue; a gang is tried when the first of its pods is."""
        gangs: dict[str, list[Pod]] = {}
        order: list[Pod | str] = []
        for pod in pods:
            key = self.gang_of(pod)
            if key is None:
                order.append(pod)
            elif key in gangs:
                gangs[key].append(pod)
            else:
                gangs[key] = [pod]
                order.append(key)
        return [
            PlacedTogether(sorted(gangs[each], key=_order), self._missing(each, gangs[each][0]), each)
            if isinstance(each, str)
            else PlacedTogether((each,))
            for each in order
        ]

    def gang_of(self, pod: Pod) -> str | None:
        """The key of the pod's gang; None if it goes alone."""
        return None if self._minimum(pod) is None else pod.group_key

    def unfit(self, pods: Sequence[Pod], hopeless: Mapping[str, str]) -> dict[str, str]:
        """Pods of gangs that cannot be complete, because of pods that fit nowhere: by key, and why."""
        found: dict[str, str] = {}
        for unit in self.units(pods):
            lost = [pod for pod in unit.pods if pod.key in hopeless]
            if unit.gang and lost and len(unit.pods) - len(lost) < unit.least:
                reason = f"its group {unit.gang} stays pending: {hopeless[lost[0].key]}"
                found |= {pod.key: hopeless.get(pod.key, reason) for pod in unit.pods}
        return found

    def least_and_there(self, pod: Pod) -> tuple[int, int]:
        """The minimum of a pod's gang, and how many of its pods have nodes without this trial."""
        group = self.cluster.groups.of(pod) if self.cluster.groups is not None else None
        return self._minimum(pod) or 0, group.scheduled_count if group is not None else 0

    def _missing(self, key: str, pod: Pod) -> int:
        """How many pods of the gang must fit yet."""
        least, there = self.least_and_there(pod)
        return max(least - there - self.placed[key], 0)

    def _minimum(self, pod: Pod) -> int | None:
        if self.cluster.groups is None or pod.group_key is None:
            return None
        declared = self.cluster.pod_group(pod.group_key)
        return gang_minimum(declared, self.cluster.gates)


def placements_of(gang: PlacedTogether, cluster: Cluster, runner: Runner | None) -> Sequence[PodGroupPlacement | None]:
    """Parts of the cluster that the gang is tried in, such as racks; None: on all nodes. Where there are none, the scheduler
    would try it nowhere."""
    if runner is None or not runner.profile.tries_placements:
        return [None]
    try:
        found = generate_placements(runner.profile, PodGroupContext(GroupName(gang.gang), gang.pods, cluster))
    except AttemptError:
        return []
    return [] if isinstance(found, Rejection) else found


def broken_gang(cluster: Cluster, leaving: Sequence[Pod]) -> str:
    """Which gang has fewer pods than its minimum while these leave their node, in words; empty if none has."""
    gangs = GangUnits(cluster)
    for key, number in Counter(pod.group_key for pod in leaving if gangs.gang_of(pod) is not None).items():
        pod = next(pod for pod in leaving if pod.group_key == key)
        least, there = gangs.least_and_there(pod)
        if there - number < least <= there:
            return f"PodGroup {key} needs {least} pods, and would have {there - number} while they move"
    return ""


Additions = tuple[int, ...]
"""How many nodes of each offer."""
LOWEST_NAME, ANY_OF_THEM = DecideOptions(tells_why=False), DecideOptions(by_seed, tells_why=False)
LARGE_CLUSTER = 5000
"""With more nodes than these, a decision counts for the square of their ratio, 16 with 20,000 nodes: each takes longer, and
so does all that comes before and after a search."""


@dataclass(slots=True)
class OfferedNodes:
    """The additions of one offer: its nodes, and the DaemonSet pods that run on each."""

    offer: NodeOffer
    daemons: Sequence[Pod] = ()
    """The DaemonSet pods of one node."""
    present: list[str] = field(default_factory=list)
    """The names of its nodes that are in the cluster now."""

    def items(self, name: str) -> tuple[list[KubeObject], list[Pod]]:
        """The objects of a new node, and its DaemonSet pods as they run there."""
        pods = [pod.with_name(f"{pod.name}-{name}", f"{pod.id} on {name}").with_node(name) for pod in self.daemons]
        return self.offer.node(name), pods


@dataclass(frozen=True, slots=True)
class NodeTrialOutcome:
    """The pods that did not fit, and the domains of pods that are spread."""

    left: Sequence[Pod]
    domains: dict[str, str]
    """By id of the pod: the value of its label on the node."""
    placed: Sequence[tuple[Pod, Placement]] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A moment of a trial, to come back to."""

    placed: int
    left: int
    came: Counter[int]
    refused: dict[tuple[int, int, str], int]


@dataclass(slots=True)
class _Tries:
    """The findings of a trial so far."""

    plain: frozenset[int]
    left: list[Pod] = field(default_factory=list)
    placed: list[tuple[Pod, Placement]] = field(default_factory=list)
    came: Counter[int] = field(default_factory=Counter)
    """By id of the labels: how many pods were placed."""
    refused: dict[tuple[int, int, str], int] = field(default_factory=dict)
    """By shape, labels and namespace: how many pods that could help were there when such a pod did not fit."""
    refused_gangs: set[tuple[object, ...]] = field(default_factory=set)
    """Forms of gangs of plain pods that did not fit: no other one fits later."""

    def helped(self, pod: Pod) -> int:
        """How many pods have come that could help the pod; none helps a plain one."""
        if id(pod.shape) in self.plain:
            return 0
        return len(self.placed) if pod.shape.terms(pod.namespace).affinity else self.came[id(pod.label_set)]

    def is_vain(self, pod: Pod, helped: int) -> bool:
        """Whether one like it was refused, and nothing has come since that could help."""
        kind = _kind(pod)
        return kind in self.refused and (id(pod.shape) in self.plain or self.refused[kind] == helped)

    def take_helped(self, gangs: GangUnits) -> Sequence[Pod]:
        """The pods that go alone and are left, to be tried again, if one of them may have been helped since its refusal."""
        alone = [pod for pod in self.left if gangs.gang_of(pod) is None]
        if all(self.is_vain(pod, self.helped(pod)) for pod in alone):
            return ()
        self.left = [pod for pod in self.left if gangs.gang_of(pod) is not None]
        return alone

    def marked(self) -> _Mark:
        return _Mark(len(self.placed), len(self.left), Counter(self.came), dict(self.refused))

    def reset(self, mark: _Mark) -> None:
        del self.placed[mark.placed :], self.left[mark.left :]
        self.came, self.refused = Counter(mark.came), dict(mark.refused)


def _kind(pod: Pod) -> tuple[int, int, str]:
    return id(pod.shape), id(pod.label_set), pod.namespace


class TrialPlacer(CopyPlacer):
    """Places the pods of trials. Ties between nodes go to the lowest name, or to any of them if there is a seed."""

    _first = 0

    def use_seed(self, seed: int | None) -> None:
        """Break ties by this seed from now on. The decisions that follow draw the same numbers each time."""
        self.options = ANY_OF_THEM if seed is not None else LOWEST_NAME
        self._first = mix(seed or 0) - self.decisions

    def seed(self) -> int:
        return self._first + self.decisions


class NodeTrials:
    """The cluster of a plan, to which nodes are added for a moment."""

    def __init__(self, placer: TrialPlacer, offers: Sequence[OfferedNodes]) -> None:
        self._placer = placer
        self.offers = offers
        self._taken = set(placer.cluster.nodes.row_book)
        self.gangs = GangUnits(placer.cluster)
        self.weight = max(1, round((placer.cluster.nodes.alive_count / LARGE_CLUSTER) ** 2))
        """For how many decisions each one counts."""
        self.decisions = 0
        """How many decisions were made, with their weight: what a search is bounded by."""

    @property
    def cluster(self) -> Cluster:
        return self._placer.cluster

    def runner(self, pod: Pod) -> Runner | None:
        return self._placer.runner(pod)

    def use_seed(self, seed: int | None) -> None:
        """Break ties between nodes by this seed; None: by name."""
        self._placer.use_seed(seed)

    def queued(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods in the order in which the queue gives them, if all came at once in the order given."""

        def place(numbered: tuple[int, Pod]) -> Any:
            number, pod = numbered
            runner = self.runner(pod)
            assert runner is not None, "pods without a profile are not asked about"
            return runner.profile.queue_sorts[0].sort_key(pod, number)

        return [pod for _, pod in sorted(enumerate(pods), key=place)]

    def names(self, offer: NodeOffer, count: int) -> list[str]:
        """Names for new nodes of an offer, numbered from 1, without those that the cluster has."""
        return free_names(offer.name, count, self._taken)

    def add(self, counts: Additions) -> None:
        """Bring the number of nodes of each offer to these counts."""
        for offered, wanted in zip(self.offers, counts, strict=True):
            while len(offered.present) > wanted:
                self._remove_node(offered, offered.present.pop())
            for name in self.names(offered.offer, wanted)[len(offered.present) :]:
                self._add_node(offered, name)

    def _add_node(self, offered: OfferedNodes, name: str) -> None:
        items, daemons = offered.items(name)
        for item in items:
            self.cluster.put(item)
        for pod in daemons:
            self.cluster.nodes.place(pod, name)
        offered.present.append(name)

    def _remove_node(self, offered: OfferedNodes, name: str) -> None:
        items, daemons = offered.items(name)
        for pod in daemons:
            self.cluster.nodes.displace(pod.id)
        for item in items:
            if isinstance(item, Node):
                self.cluster.nodes.remove_node(name)
            else:
                self.cluster.remove(type(item), item.key)

    # ---- placing

    def place(
        self,
        counts: Additions,
        pods: Sequence[Pod],
        plain: frozenset[int] = frozenset(),
        spread: Mapping[str, str] | None = None,
    ) -> NodeTrialOutcome:
        """The outcome if so many nodes are added. `pods` are in the order of the queue.

        `plain` are the ids of shapes that only resources and facts of nodes decide about: where one of them does not fit, the
        others are not tried. `spread` has, by id of a pod, the label whose value the outcome tells.
        """
        self.add(counts)
        outcome = self.attempt(pods, plain, spread)
        self.take_back(outcome)
        return replace(outcome, placed=())  # decisions hold much memory

    def attempt(
        self, pods: Sequence[Pod], plain: frozenset[int] = frozenset(), spread: Mapping[str, str] | None = None
    ) -> NodeTrialOutcome:
        """Place what fits on the nodes that are there now. It stays there until it is taken back.

        A pod is not tried where one like it was refused and nothing has come since that could help it: anything for pods with
        affinity to others, pods with the same labels for those that are spread, nothing for plain ones. Refused pods are
        tried again after the others if something has come that could help them: in the queue, events wake them. A gang is
        placed when enough of its pods fit, or not at all.
        """
        tries = _Tries(plain)
        while pods:
            placed = len(tries.placed)
            for unit in self.gangs.units(pods):
                if unit.gang:
                    self._attempt_gang(unit, tries)
                else:
                    self._attempt_pod(unit.pods[0], tries)
            pods = tries.take_helped(self.gangs) if len(tries.placed) > placed else ()
        return NodeTrialOutcome(tries.left, self._domains(tries.placed, spread or {}), tries.placed)

    def _attempt_gang(self, unit: PlacedTogether, tries: _Tries) -> None:
        """All pods of a gang, in the placement that takes most of them; if too few of them fit, nothing is as if they had
        been tried."""
        placements = placements_of(unit, self.cluster, self.runner(unit.pods[0]))
        form = unit.form(placements)
        if form in tries.refused_gangs:
            tries.left += unit.pods
            return
        before, most = tries.marked(), 0
        best: list[PodGroupPlacement | None] = []
        for placement in placements:
            new = self._attempt_in(placement, unit, tries)
            if new == len(unit.pods) or (len(placements) == 1 and new >= unit.least):
                return
            self._give_up(before, tries)
            if new >= max(unit.least, most + 1):
                best, most = [placement], new
        if best:
            self._attempt_in(best[0], unit, tries)
            return
        tries.left += unit.pods
        if all(id(pod.shape) in tries.plain for pod in unit.pods):
            tries.refused_gangs.add(form)

    def _attempt_in(self, placement: PodGroupPlacement | None, unit: PlacedTogether, tries: _Tries) -> int:
        """Try the gang on some nodes; returns how many of its pods fit. What does not fit there may fit elsewhere."""
        placed, refused = len(tries.placed), dict(tries.refused)
        within = placement.mask(self.cluster.nodes) if placement is not None else None
        for pod in unit.pods:
            self._attempt_pod(pod, tries, within)
        if within is not None:
            tries.refused = refused
        return len(tries.placed) - placed

    def _give_up(self, before: _Mark, tries: _Tries) -> None:
        """Go back to a moment of the trial."""
        self._displace(tries.placed[before.placed :])
        tries.reset(before)

    def _attempt_pod(self, pod: Pod, tries: _Tries, within: Mask | None = None) -> None:
        helped = tries.helped(pod)
        if tries.is_vain(pod, helped):
            tries.left.append(pod)
            return
        self.decisions += self.weight
        outcome = self._placer.place(pod, within)
        if isinstance(outcome, Placement):
            tries.placed.append((pod, outcome))
            tries.came[id(pod.label_set)] += 1
            self._count(pod, 1)
        else:
            tries.left.append(pod)
            tries.refused[_kind(pod)] = helped

    def _count(self, pod: Pod, number: int) -> None:
        gang = self.gangs.gang_of(pod)
        if gang is not None:
            self.gangs.placed[gang] += number

    def _domains(self, placed: Sequence[tuple[Pod, Placement]], spread: Mapping[str, str]) -> dict[str, str]:
        nodes = self.cluster.nodes.nodes
        found = {}
        for pod, placement in placed:
            node, key = nodes[placement.row], spread.get(pod.id)
            if node is not None and key is not None:
                found[pod.id] = node.labels.get(key, "")
        return found

    def put_back(self, outcome: NodeTrialOutcome) -> None:
        """Place the pods again where an attempt placed them, without another decision."""
        for pod, placement in outcome.placed:
            self._placer.keep(pod, placement)
            self._count(pod, 1)

    def take_back(self, outcome: NodeTrialOutcome) -> None:
        """Take the pods off their nodes, the last one first."""
        self._displace(outcome.placed)

    def _displace(self, placed: Sequence[tuple[Pod, Placement]]) -> None:
        for pod, placement in reversed(placed):
            self._count(pod, -1)
            self.cluster.nodes.displace(pod.id)
            runner, context = self._placer.runner(pod), placement.context
            assert runner is not None and context is not None, "what was placed was decided by a profile"
            for plugin in reversed(runner.profile.reserves):
                plugin.unreserve(context, placement.node)
