"""Tries nodes: adds some of each offer to the cluster, places pods in the order of the queue, and takes all of it back.

The decisions are the core's own, without time and without preemption: a trial takes a fraction of the time of a simulation.
What comes out of a search is judged by a simulation afterwards (`judge.py`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mooring.answers.capacity.one_by_one import CopyPlacer
from mooring.answers.plan.gang_units import GangUnits, PlacedTogether, placements_of
from mooring.answers.plan.offers import NodeOffer
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.group_points import PodGroupPlacement
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decision import Placement

Additions = tuple[int, ...]
"""How many nodes of each offer."""


@dataclass(slots=True)
class OfferedNodes:
    """What one offer adds: its nodes, and the DaemonSet pods that run on each."""

    offer: NodeOffer
    daemons: Sequence[Pod] = ()
    """Those of one node."""
    present: list[str] = field(default_factory=list)
    """The names of its nodes that are in the cluster now."""

    def items(self, name: str) -> tuple[list[KubeObject], list[Pod]]:
        """The objects of a new node, and its DaemonSet pods as they run there."""
        pods = [pod.with_name(f"{pod.name}-{name}", f"{pod.id} on {name}").with_node(name) for pod in self.daemons]
        return self.offer.node(name), pods


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What did not fit, and where pods went that are spread."""

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
    """What a trial has found so far."""

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
        return len(self.placed) if pod.shape.terms(pod.namespace).affinity else self.came[id(pod.label_set)]

    def is_vain(self, pod: Pod, helped: int) -> bool:
        """Whether one like it was refused, and nothing has come since that could help."""
        kind = _kind(pod)
        return kind in self.refused and (id(pod.shape) in self.plain or self.refused[kind] == helped)

    def marked(self) -> _Mark:
        return _Mark(len(self.placed), len(self.left), Counter(self.came), dict(self.refused))

    def reset(self, mark: _Mark) -> None:
        del self.placed[mark.placed :], self.left[mark.left :]
        self.came, self.refused = Counter(mark.came), dict(mark.refused)


def _kind(pod: Pod) -> tuple[int, int, str]:
    return id(pod.shape), id(pod.label_set), pod.namespace


class TrialCluster:
    """The cluster of a plan, to which nodes are added for a moment."""

    def __init__(self, placer: CopyPlacer, offers: Sequence[OfferedNodes]) -> None:
        self._placer = placer
        self.offers = offers
        self._taken = set(placer.cluster.nodes.row_book)
        self.gangs = GangUnits(placer.cluster)
        self.decisions = 0
        """How many decisions were made: what a search is bounded by."""

    @property
    def cluster(self) -> Cluster:
        return self._placer.cluster

    def runner(self, pod: Pod) -> Runner | None:
        return self._placer.runner(pod)

    def names(self, offer: NodeOffer, count: int) -> list[str]:
        """Names for new nodes of an offer, numbered from 1, without those that the cluster has."""
        names: list[str] = []
        number = 0
        while len(names) < count:
            number += 1
            if f"{offer.name}-{number}" not in self._taken:
                names.append(f"{offer.name}-{number}")
        return names

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
    ) -> TrialOutcome:
        """What fits if so many nodes are added. `pods` are in the order of the queue.

        `plain` are the ids of shapes that only resources and facts of nodes decide about: where one of them does not fit, the
        others are not tried. `spread` has, by id of a pod, the label whose value the outcome tells.
        """
        self.add(counts)
        outcome = self.attempt(pods, plain, spread)
        self.take_back(outcome)
        return replace(outcome, placed=())  # decisions hold much memory

    def attempt(
        self, pods: Sequence[Pod], plain: frozenset[int] = frozenset(), spread: Mapping[str, str] | None = None
    ) -> TrialOutcome:
        """What fits on the nodes that are there now. It stays there until it is taken back.

        A pod is not tried where one like it was refused and nothing has come since that could help it: anything for pods with
        affinity to others, pods with the same labels for those that are spread, nothing for plain ones. A gang is placed when
        enough of its pods fit, or not at all.
        """
        tries = _Tries(plain)
        for unit in self.gangs.units(pods):
            if unit.gang:
                self._attempt_gang(unit, tries)
            else:
                self._attempt_pod(unit.pods[0], tries)
        return TrialOutcome(tries.left, self._domains(tries.placed, spread or {}), tries.placed)

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
        self.decisions += 1
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

    def take_back(self, outcome: TrialOutcome) -> None:
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
