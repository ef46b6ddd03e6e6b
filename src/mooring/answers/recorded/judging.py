"""A scheduler that follows a recorded cluster without attempts of its own, and says what it thinks of each binding."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.answers.form.data_table import Columns, DataTable, Time, attribute_table
from mooring.answers.form.published import Count, Form, Positive, Published, TupleForm
from mooring.cluster.nodes.table import ClusterError, NodeTable
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import in_micros
from mooring.model.node import Node
from mooring.model.pod import Pod, without_nomination
from mooring.model.shape import PodShape
from mooring.scheduler.decide import MIN_FEASIBLE, DecideOptions, decide, nodes_to_find
from mooring.scheduler.decision import DecisionDetails, DecisionError, NoFit, Placement
from mooring.scheduler.inputs import Input, ObjectAdded
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import KUBE_SCHEDULER, KeptTies, Places, TieBreak, TieRule, tie_break_of
from mooring.state.replay.replayer import RecordedClock
from mooring.state.replay.run_reader import ClusterStep
from mooring.state.scheduler_assembly import build_scheduler

# ---- A binding of the recording beside what Mooring decides for the same pod at the same moment.


class BindingVerdict(StrEnum):
    """How the recorded node compares with Mooring's choice."""

    SAME = "same"
    """It is the only node with the highest score, or the one of several that kube-scheduler's rule for ties says."""
    TIED = "tied"
    """It is one of several nodes with the highest score."""
    LOWER = "lower"
    """It passes all filters, but another node has a higher score."""
    REJECTED = "rejected"
    """A filter rejects it."""
    UNDECIDED = "undecided"
    """Mooring cannot say: a plugin failed, or the node is not in the recording."""


AGREES = frozenset((BindingVerdict.SAME, BindingVerdict.TIED))


class PluginScores(TupleForm, frozen=True):
    """The scores that a plugin gives to the recorded node and to the best one."""

    plugin: str
    score: int
    best_score: int


class BindingForm(Form, frozen=True):
    """One binding. Scores are totals after weights; they are 0 where nodes were not scored."""

    pod: str
    """namespace/name"""
    node: str
    """Where the recording has the pod bound."""
    profile: str
    """The scheduler name of the pod."""
    at: str
    """When the decision is taken to have been made, in RFC 3339."""
    verdict: BindingVerdict
    tied_count: Positive = msgspec.field(name="tiedNodes")
    """How many nodes have the highest score."""
    node_count: Count = msgspec.field(name="nodes")
    feasible_count: Count = msgspec.field(name="feasibleNodes")
    score: int
    """The score of the recorded node."""
    best: str = msgspec.field(name="bestNode")
    """The node that Mooring chooses; empty: none."""
    best_score: int
    better_count: Count = msgspec.field(name="betterNodes")
    """How many nodes have a higher score than the recorded one."""
    may_be_sampled: bool
    """Whether the other scheduler may not have looked at the better nodes at all (percentageOfNodesToScore)."""
    plugin: str
    """The plugin that explains most of the difference, or rejects the node."""
    message: str
    """Why the node is rejected, or why there is no verdict."""
    differences: Sequence[PluginScores] = msgspec.field(name="plugins")
    """The scores that each plugin gives to the recorded node and to the best one; the largest advantage of the best one comes
    first."""
    expected: str = msgspec.field(name="expectedNode", default="")
    """With --tie-break kube-scheduler: the tied node that its rule says, where the rule determines it; otherwise empty."""


@dataclass(frozen=True, slots=True)
class JudgedBinding(Published):
    """One binding of a recording."""

    form: ClassVar = BindingForm
    pod: str
    node: str
    profile: str
    at_ns: int
    verdict: BindingVerdict
    tied_count: int = 1
    node_count: int = 0
    feasible_count: int = 0
    score: int = 0
    best: str = ""
    best_score: int = 0
    better_count: int = 0
    may_be_sampled: bool = False
    plugin: str = ""
    message: str = ""
    differences: tuple[PluginScores, ...] = ()
    expected: str = ""

    @property
    def behind(self) -> int:
        """By how much the recorded node is behind the best one."""
        return self.best_score - self.score

    @property
    def agrees(self) -> bool:
        return self.verdict in AGREES and not self.is_other_tie

    @property
    def is_other_tie(self) -> bool:
        """Whether kube-scheduler's rule says another one of the tied nodes."""
        return self.verdict is BindingVerdict.TIED and bool(self.expected)

    @property
    def plugin_behind(self) -> int:
        """How much of the difference comes from `plugin`."""
        return next((best - own for name, own, best in self.differences if name == self.plugin), 0)

    @property
    def at(self) -> str:
        return in_micros(self.at_ns)


def binding_table(bindings: Iterable[JudgedBinding]) -> DataTable:
    """A row for each binding."""
    columns: Columns = {
        "pod": str,
        "node": str,
        "profile": str,
        "at_ns:at": Time,
        "verdict": str,
        "tied_count:tied_nodes": int,
        "node_count:nodes": int,
        "feasible_count:feasible_nodes": int,
        "score": int,
        "best:best_node": str,
        "best_score": int,
        "behind": int,
        "better_count:better_nodes": int,
        "may_be_sampled": bool,
        "plugin": str,
        "message": str,
        "expected:expected_node": str,
    }
    return attribute_table(bindings, columns)


class TowardsRow(KeptTies):
    """A tie goes to the row that is set, if it is among the best. So one plain decision tells whether a node is."""

    def __init__(self, inner: TieBreak) -> None:
        super().__init__(inner)
        self.row = self.expected = -1
        """The row that is set, and the one that the inner rule picks."""
        self.tied_count = 1

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int:
        self.tied_count = len(tied)
        self.expected = super().pick(nodes, tied, seed, places)
        return self.row if self.row in tied else self.expected


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The configuration to decide with."""

    config: KubeSchedulerConfiguration
    gates: Mapping[str, bool] = field(default_factory=dict)
    registry: Registry | None = None
    ties: TieRule = None

    def sought_nodes(self, profile: str, node_count: int) -> int:
        """After how many feasible nodes kube-scheduler stops to look for more."""
        chosen = next((p for p in self.config.profiles if p.scheduler_name == profile), None)
        percentage = self.config.percentage_of_nodes_to_score
        if chosen is not None and chosen.percentage_of_nodes_to_score is not None:
            percentage = chosen.percentage_of_nodes_to_score
        return sought_nodes(node_count, percentage)


def sought_nodes(count: int, percentage: int) -> int:
    """kube-scheduler's rule: 0 means 50 % of 100 nodes, less on larger clusters, and 5 % at least; never under 100 nodes."""
    if not percentage:
        percentage = max(50 - count // 125, 5) if count >= MIN_FEASIBLE else 100
    return nodes_to_find(count, percentage)


class BindingJudge:
    """Raises ConfigError and RegistryError where the configuration asks for what cannot be had."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._clock = RecordedClock()
        self._towards = TowardsRow(tie_break_of(settings.ties))
        self.certainty = TieCertainty(settings.config, settings.gates)
        self._plain = DecideOptions(tie_break=self._towards)
        self._explained = replace(self._plain, explain=True, record=True)
        self.contradictions = 0
        """Changes that do not fit to those before: events are missing."""
        self.scheduler = self._build()

    def _build(self) -> Scheduler:
        """All nodes are scored, so that it can be told whether a better one was there; no extender is called."""
        config = self._settings.config
        profiles = [msgspec.structs.replace(each, percentage_of_nodes_to_score=None) for each in config.profiles]
        config = msgspec.structs.replace(config, profiles=profiles, percentage_of_nodes_to_score=0, extenders=[])
        settings = self._settings
        listeners = SchedulerListeners(report=self._contradicted)
        return build_scheduler(config, self._clock, settings.registry, listeners=listeners, gates=settings.gates)

    def _contradicted(self, text: str, fault: Exception | None) -> None:
        self.contradictions += 1

    # ---- following

    def take_in(self, change: Input, now_ns: int) -> None:
        """A change. One that cannot be processed is counted, as in a live scheduler: the others still count."""
        self._clock.now = now_ns
        try:
            self.scheduler.handle(change)
        except Exception as fault:
            self._contradicted("", fault)
        self.scheduler.take_intents()

    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod on its node before the recording shows it there."""
        core = self.scheduler.core
        try:
            core.cache.assume(pod, node)
            core.queue.delete(pod)
        except ClusterError as fault:
            self._contradicted("", fault)

    def give_up(self, pod_id: str) -> None:
        """The binding of an assumed pod has failed."""
        core = self.scheduler.core
        pod = core.cache.get(pod_id)
        if pod is not None and core.cache.is_assumed(pod_id):
            core.cache.forget(pod)

    def is_assumed(self, pod: Pod) -> bool:
        return self.scheduler.core.cache.is_assumed(pod.id)

    # ---- judging

    def judge(self, pod: Pod, node: str, now_ns: int) -> JudgedBinding:
        """The verdict on binding the pod to the node now. `pod` may have its node already; it must not be counted on it."""
        self._clock.now = now_ns
        nodes, profile = self.scheduler.cluster.nodes, pod.spec.scheduler_name
        known = JudgedBinding(pod.key, node, profile, now_ns, BindingVerdict.UNDECIDED, node_count=nodes.alive_count)
        row = nodes.row_book.get(node)
        if row is None or nodes.nodes[row] is None:
            return replace(known, message=f"the recording has no node {node}")
        self._towards.row, self._towards.tied_count = row, 1
        pod = pod.with_node("")
        if pod.status.nominated_node_name not in ("", node):
            verdict = self._judged(pod, known)
            if verdict.agrees:
                return verdict
            pod = without_nomination(pod)  # it was not bound there, so that the nomination was not in force any more
        return self._judged(pod, known)

    def _judged(self, pod: Pod, known: JudgedBinding) -> JudgedBinding:
        """Hot: most bindings agree, and a decision without details takes a twentieth of the time."""
        runner, cluster = self.scheduler.runner(known.profile), self.scheduler.cluster
        assert runner is not None
        start = runner.cursor.start
        decision = decide(runner, pod, cluster, self._plain)
        expected = self._expected(pod, known, looked_at_all=runner.cursor.start == start)
        if isinstance(decision, Placement) and decision.node == known.node:
            tied, best = self._towards.tied_count, decision.node
            verdict = BindingVerdict.SAME if tied == 1 or expected == best else BindingVerdict.TIED
            known = replace(known, verdict=verdict, tied_count=tied, feasible_count=decision.feasible_count, best=best)
            return replace(known, score=decision.score, best_score=decision.score, expected=expected)
        runner.cursor.start = start
        return self._different(decide(runner, pod, cluster, self._explained), known)

    def _expected(self, pod: Pod, known: JudgedBinding, looked_at_all: bool) -> str:
        """The tied node that kube-scheduler's rule says; empty: there is no tie, or the rule does not determine it.
        `looked_at_all`: the search ended where it began, because it looked at all nodes."""
        if self._settings.ties != KUBE_SCHEDULER:
            return ""
        sees_all = self._settings.sought_nodes(known.profile, known.node_count) >= known.node_count
        is_certain = self.certainty.decided(pod, sees_all and looked_at_all)
        names = self.scheduler.cluster.nodes.names
        return names[self._towards.expected] if is_certain and self._towards.tied_count > 1 else ""

    def _different(self, decision: Placement | NoFit | DecisionError, known: JudgedBinding) -> JudgedBinding:
        if isinstance(decision, DecisionError):
            return replace(known, message=decision.error)
        details = decision.details or DecisionDetails()
        if isinstance(decision, Placement):
            known = replace(known, best=decision.node, feasible_count=decision.feasible_count)
            if known.node in details.totals:
                return self._lower(details, replace(known, verdict=BindingVerdict.LOWER))
        rejection = details.rejected.get(known.node)
        if rejection is None and decision.diagnosis is not None:
            rejection = decision.diagnosis.absent
        known = replace(known, verdict=BindingVerdict.REJECTED)
        if rejection is None:
            return replace(known, message="another node was promised to the pod")
        plugins = rejection.plugin or ", ".join(sorted(decision.diagnosis.plugins if decision.diagnosis else ()))
        return replace(known, plugin=plugins, message=rejection.message)

    def _lower(self, details: DecisionDetails, known: JudgedBinding) -> JudgedBinding:
        own, best = details.totals[known.node], details.totals[known.best]
        better = sum(total > own for total in details.totals.values())
        unseen = len(details.totals) - self._settings.sought_nodes(known.profile, known.node_count)
        differences = _differences(details.scores[known.node], details.scores[known.best])
        return replace(
            known,
            score=own,
            best_score=best,
            better_count=better,
            tied_count=self._towards.tied_count,
            may_be_sampled=better <= unseen,
            plugin=differences[0].plugin,
            differences=differences,
        )


def _differences(own: Mapping[str, int], best: Mapping[str, int]) -> tuple[PluginScores, ...]:
    """By plugin what both nodes get; what speaks most for the best comes first."""
    names: Sequence[str] = [*{**best, **own}]
    found = [PluginScores(name, own.get(name, 0), best.get(name, 0)) for name in names]
    return tuple(sorted(found, key=lambda each: (each.score - each.best_score, each.plugin)))


# ---- Whether kube-scheduler's rule for ties says which node a recorded pod had to get.
#
# kube-scheduler draws no random number for a pod without extenders. But Go's map order and races between goroutines decide in
# what order it finds nodes, unless the configuration and the recording rule them out (docs/parity.md, "Equal totals").


class TieCertainty:
    """Follows a recording. `saw` is to be called with each step, and `decided` with each decision."""

    def __init__(self, config: KubeSchedulerConfiguration, gates: Mapping[str, bool]) -> None:
        self._is_serial = config.parallelism == 1 and not config.extenders
        """One goroutine finds nodes in the order of the walk, and no extender brings random numbers."""
        self._batches = with_defaults(gates).get("OpportunisticBatching", False)
        self._knows_walk = True
        """Whether every node came while the recording ran, so that their order is known, and every search since then looked
        at all nodes, so that the walk begins at the first node."""
        self._last: tuple[str, PodShape] | None = None
        """Id and shape of the pod of the last decision."""

    def saw(self, step: ClusterStep) -> None:
        """The scheduler got the nodes that were there before in the order of a Go map."""
        change = step.step.input
        if step.is_known and isinstance(change, ObjectAdded) and isinstance(change.item, Node):
            self._knows_walk = False

    def decided(self, pod: Pod, looked_at_all: bool) -> bool:
        """Whether the rule says which of several tied nodes the pod gets. The decisions come in their order.

        A pod that PreFilter plugins keep to some nodes gets them in the order of a Go map, and moves the start of the walk;
        attempts of such pods that failed are not in a recording. Where batching is on, the second of two equal pods gets its
        node from what is left of the heap of the first, if it comes within half a second.
        """
        self._knows_walk = self._knows_walk and looked_at_all
        last, self._last = self._last, (pod.id, pod.shape)
        is_batched = self._batches and last is not None and last[0] != pod.id and last[1] == pod.shape
        return self._is_serial and self._knows_walk and not is_batched
