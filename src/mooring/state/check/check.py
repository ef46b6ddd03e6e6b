"""One self-check: builds a fresh scheduler, compares, and compares again before it reports anything.

It does its work in slices, between which the running scheduler goes on. A difference counts if it is there every time.

Both schedulers answer about every pod that waits: which nodes reject it and why, and their scores. The running
scheduler answers from copies of what it keeps, so that asking changes nothing that the next attempt reads: not which
answers are kept, not which count of images a node sees, no number of an attempt, no metric, no effort of a search.
"""

from collections.abc import Callable, Iterator
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
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.inputs import Input
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.fresh_scheduler import FreshScheduler, KnownObjects
from mooring.state.check.mending import Outcome, mend
from mooring.state.check.object_differences import (
    Findings,
    RowPairing,
    RowPairs,
    StateDifference,
    compare_assumed,
    compare_nominations,
    compare_objects,
    compare_pods,
    compare_queue,
)
from mooring.state.check.table_differences import (
    compare_devices,
    compare_groups,
    compare_nominated,
    compare_tables,
    compare_tallies,
    compare_volumes,
)


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


# ---- All comparisons of a running scheduler with a fresh one, in the order in which one fault explains the next.


def findings(running: Scheduler, fresh: Scheduler) -> Findings:
    """Yield the differences one by one. Between two of them both schedulers may change, as long as they change in step."""
    ours, theirs = running.cluster, fresh.cluster
    yield from compare_objects(ours, theirs)
    yield from compare_pods(running, fresh)
    yield from compare_tables(ours, theirs)
    yield from compare_tallies(ours.nodes, theirs.nodes)
    yield from compare_volumes(ours, theirs)
    yield from compare_devices(ours, theirs)
    yield from compare_nominated(ours, theirs)
    yield from compare_groups(ours, theirs)
    yield from compare_nominations(running, fresh)
    yield from compare_queue(running, fresh)
    yield from compare_assumed(running, fresh)
    yield from DecisionComparison(running, fresh).findings()


RETAKES_S = (1.0, 15.0)
"""After differences were found, they are taken again after so many seconds, twice. The scheduler and its copy change in step,
so that a difference in flight should not be seen at all; the second pause is longer than any backoff (10 s), so that a
pod which is about to move has moved."""
MAX_FOUND = 1000
"""Differences that are taken at most: a table that is wrong throughout need not be listed row by row."""

IsUnseen = Callable[[type[KubeObject] | None, str], bool]
"""(Kind, key of an object) -> whether the API server has a form of the object that the watch has not shown yet."""


class SelfCheck:
    """Pass every input of the running scheduler to `follow` from the start, and call `work` until it returns None."""

    def __init__(
        self,
        running: Scheduler,
        make: Callable[[], Scheduler],
        known: KnownObjects,
        is_unseen: IsUnseen = lambda kind, key: False,
    ) -> None:
        self.running = running
        self.differences: list[StateDifference] = []
        """Differences that every comparison found. The list is complete when `work` has returned None."""
        self.candidates: list[StateDifference] = []
        """Differences that all comparisons so far found. The check compares them again after a pause."""
        self._fresh = FreshScheduler(running, make, known)
        self.follow: Callable[[Input], None] = self._fresh.follow
        self._is_unseen = is_unseen
        self._is_built = False
        self._progress = self._steps()

    @property
    def fresh(self) -> Scheduler:
        return self._fresh.scheduler

    def work(self, is_over: Callable[[], bool]) -> float | None:
        """Work until the time slice is over. Returns for how many seconds to pause, besides the pause between slices;
        None: the check is done.

        While an attempt waits for extenders, the running scheduler holds inputs back: then there is nothing to compare.
        """
        if self.running.core.extender_calls.suspension is not None:
            return 0.0
        if self._is_built:
            self._fresh.keep_up()
        for pause_s in self._progress:
            if pause_s or is_over():
                return pause_s
        return None

    def mend(self) -> list[Outcome] | None:
        """Mend what was found. None: not now, an attempt that waits for extenders must see the cluster as it was."""
        if self.running.core.extender_calls.suspension is not None:
            return None
        self._fresh.keep_up()
        return mend(self.running, self.fresh, self.differences)

    def discard(self) -> Iterator[None]:
        """Take the fresh scheduler apart, step by step, after everything else: its memory is free then."""
        yield from self._fresh.discard()

    def _steps(self) -> Iterator[float]:
        """Build, compare, and compare again after each pause. Yields how long to pause, 0 for no longer than a slice."""
        for _ in self._fresh.build():
            yield 0.0
        self._is_built = True
        found: dict[object, StateDifference] = {}
        yield from self._take(found)
        for pause_s in RETAKES_S if found else ():
            self.candidates = list(found.values())
            yield pause_s
            again: dict[object, StateDifference] = {}
            yield from self._take(again)
            found = {place: again[place] for place in found if place in again}
            if not found:
                break
        self.differences = list(found.values())

    def _take(self, found: dict[object, StateDifference]) -> Iterator[float]:
        """One comparison. What the watch has yet to show is no difference."""
        self._fresh.keep_up()
        for difference in findings(self.running, self.fresh):
            if difference is None:
                yield 0.0
            elif not self._is_unseen(difference.about, difference.name):
                found[difference.place] = difference
                if len(found) >= MAX_FOUND:
                    return
