"""Compares what both schedulers answer about every pod that waits: which nodes reject it and why, and their scores.

The running scheduler answers from copies of what it keeps, so that asking changes nothing that the next attempt reads: not
which answers are kept, not which count of images a node sees, no number of an attempt, no metric, no effort of a search.
"""

from collections.abc import Iterator
from copy import copy

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.attempt import Attempt, PodRejected, Verdicts
from mooring.framework.attempts.leave_room import leave_room
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import KEPT_ONLY, ResizeContext, SchedulingContext
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import PreEnqueuePlugin
from mooring.framework.contract.status import OutOfEffort
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import PASSED
from mooring.framework.kept.memo import ShapeMemo
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.found_difference import Findings, RowPairing, RowPairs, StateDifference


class NodeAnswers(msgspec.Struct):
    """The answers of the plugins about one pod, for every row of a table."""

    refusal: str
    """Why the pod goes nowhere, whatever the node; empty if nodes were looked at."""
    first: NDArray[np.int8]
    """By row: the index of the first filter that rejects it, or PASSED."""
    totals: NDArray[np.int64]
    """By row: the total of the scores where the node is feasible and not the only one, else 0."""
    timed_out: bool = False
    """A plugin gave up: the answer says nothing about the pod."""

    @property
    def feasible(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.first == PASSED)

    def is_same(self, other: "NodeAnswers", pairs: RowPairs) -> bool:
        """Whether another table's rows get the same answers, node by node."""
        return self.refusal == other.refusal and not (
            any(pairs.unequal(self.first, other.first)) or any(pairs.unequal(self.totals, other.totals))
        )


class DecisionComparison:
    """Asks both schedulers about pods. It calls no extender: what an extender says is not kept."""

    def __init__(self, running: Scheduler, fresh: Scheduler) -> None:
        self._running, self._fresh = running, fresh
        self._pairing = RowPairing(running.cluster.nodes, fresh.cluster.nodes)
        self._quiet = {name: _quiet(runner) for name, runner in running.core.runners.items()}

    def findings(self) -> Findings:
        """All pods in the queue, one a step."""
        for key in [entry.key for entry in self._running.queued_pods()]:
            entry = self._running.queued(key)
            if entry is not None and not entry.pod.is_terminating and entry.profile in self._quiet:
                yield from self._compare(entry)
            yield None

    def _compare(self, entry: QueuedPod) -> Iterator[StateDifference]:
        """Compare the answers about one pod. If those from kept values differ, the pod is asked about anew: that tells a kept
        answer that is old from a decision that differs."""
        pod, runner = entry.pod, self._quiet[entry.profile]
        if not self._running.cluster.nodes.alive_count or not self._fresh.cluster.nodes.alive_count:
            return
        kept = runner.kept.look(runner, pod.shape, self._running.cluster.nodes)
        ours = _ask(runner, pod, self._running.cluster, kept or runner.forgetful_memo(), kept_only=True)
        theirs = self._fresh_answers(pod)
        if theirs.timed_out:
            return
        if not ours.timed_out and not ours.is_same(theirs, self._pairing.now()):
            anew = _ask(runner, pod, self._running.cluster, runner.forgetful_memo(), kept_only=True)
            what = "kept answers" if anew.is_same(theirs, self._pairing.now()) else "decision"
            yield StateDifference("answer", Pod, pod.key, what, *self._told(entry, ours, theirs))
        if len(theirs.feasible) and self._is_judged(entry) and self._is_parked(entry):
            since = f"waits since attempt {entry.attempts}"  # a pod that was tried meanwhile waits anew
            parked = (
                f"gated by {entry.gating_plugin}" if entry.is_gated else f"rejected by {', '.join(entry.rejectors)}"
            )
            yield StateDifference("stranded", Pod, pod.key, since, parked, self._feasible(theirs))

    def _fresh_answers(self, pod: Pod) -> NodeAnswers:
        runner = self._fresh.core.runners[pod.spec.scheduler_name]
        memo = runner.kept.memo(runner, pod.shape, self._fresh.cluster.nodes)
        return _ask(runner, pod, self._fresh.cluster, memo)

    # ---- pods that wait although they fit

    def _is_parked(self, entry: QueuedPod) -> bool:
        """Whether only an event, or the flush of pods that waited too long, gives the pod another attempt. A gate that
        would open if it were asked counts: the event that opens it was lost."""
        place = self._running.place_in_queue(entry.key)
        return place == "unschedulable" or (place == "gated" and self._is_open(entry))

    def _is_open(self, entry: QueuedPod) -> bool:
        """Whether all PreEnqueue plugins would let the pod in now."""
        gates: tuple[PreEnqueuePlugin, ...] = tuple(self._quiet[entry.profile].profile.pre_enqueues)
        try:
            return all(plugin.pre_enqueue(entry.pod) is None for plugin in gates)
        except Exception:  # a plugin may raise anything, and one that fails holds the pod back
            return False

    def _is_judged(self, entry: QueuedPod) -> bool:
        """Whether filters alone decide about the pod. What Permit, an extender, or the rest of a pod group says about it,
        nobody knows without an attempt."""
        if self._running.schedules_groups and entry.pod.group_key is not None:
            return False
        if self._running.cluster.is_resize(entry.pod):  # one that fits waits for the kubelet
            return False
        profile = self._quiet[entry.profile].profile
        deciding = {p.name for p in (*profile.pre_enqueues, *profile.pre_filters, *profile.filters)}
        return deciding.issuperset(entry.rejectors)

    # ---- both stories

    def _told(self, entry: QueuedPod, ours: NodeAnswers, theirs: NodeAnswers) -> tuple[str, str]:
        """The words of both schedulers about the first node that they differ on."""
        if ours.refusal or theirs.refusal:
            return ours.refusal or self._feasible(ours, self._running), theirs.refusal or self._feasible(theirs)
        pairs, runner = self._pairing.now(), self._quiet[entry.profile]
        for name, believed, fresh in pairs.unequal(ours.first, theirs.first):
            return f"{name} {_verdict(runner, believed)}", f"{name} {_verdict(runner, fresh)}"
        for name, believed, fresh in pairs.unequal(ours.totals, theirs.totals):
            return f"{name} has score {believed}", f"{name} has score {fresh}"
        return "the same", "the same"

    def _feasible(self, answers: NodeAnswers, scheduler: Scheduler | None = None) -> str:
        rows, names = answers.feasible, (scheduler or self._fresh).cluster.nodes.names
        others = f" and {len(rows) - 1} other nodes" if len(rows) > 1 else ""
        return f"fits {names[rows[0]]}{others}" if len(rows) else "fits no node"


def _quiet(runner: Runner) -> Runner:
    """A copy of a runner with its plugins and kept answers, whose calls are not measured."""
    quiet = copy(runner)
    quiet.caller = PluginCaller()
    return quiet


def _ask(runner: Runner, pod: Pod, cluster: Cluster, memo: ShapeMemo, kept_only: bool = False) -> NodeAnswers:
    """Decide as decide.py does, without the beginning of an attempt (`NodeTable.settle`) and without choosing a node.

    `kept_only`: costly searches are left to attempts, and count as timed out.
    """
    height = cluster.nodes.height
    if cluster.is_resize(pod):
        memo = runner.forgetful_memo()
        attempt = Attempt(runner, ResizeContext(pod, cluster, 0, memo), memo)
    else:
        attempt = Attempt(runner, SchedulingContext(pod, cluster, 0, memo), memo)
    if kept_only:
        attempt.context.state.write(KEPT_ONLY, True)
    refused = NodeAnswers("", np.zeros(height, np.int8), np.zeros(height, np.int64))
    try:
        narrowing = attempt.pre_filter()
        if isinstance(narrowing, PodRejected):
            refused.refusal = f"{narrowing.rejection.plugin} rejects the pod: {narrowing.rejection.message}"
            return refused
        verdicts = attempt.filter(narrowing)
        if cluster.nominated:
            leave_room(attempt, verdicts, cluster.nominated)
        return NodeAnswers("", verdicts.first, _totals(attempt, verdicts, height))
    except AttemptError as fault:
        refused.refusal, refused.timed_out = str(fault), isinstance(fault.__cause__, OutOfEffort)
        return refused


def _totals(attempt: Attempt, verdicts: Verdicts, height: int) -> NDArray[np.int64]:
    """Total score of each row; 0 for rows that did not pass. As in an attempt, a single feasible node is not scored."""
    totals = np.zeros(height, np.int64)
    rows = np.flatnonzero(verdicts.first == PASSED)
    if attempt.runner.scores and len(rows) > 1:
        card = attempt.score(rows)
        totals[rows] = card.totals + card.added
    return totals


def _verdict(runner: Runner, first: int) -> str:
    if first == PASSED:
        return "is feasible"
    return f"is rejected by {runner.filters[first].name}" if first >= 0 else "is not looked at"
