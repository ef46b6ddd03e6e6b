"""The answer of `mooring replay --pod`: follows one pod through a replay, and explains its decisions as they are made."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mooring.answers.explain.explain import explain_pod
from mooring.answers.explain.explanation import PodExplanation
from mooring.answers.explain.explanation_form import PodExplanationForm
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable, Time, data_table
from mooring.answers.form.published import Count, Form
from mooring.answers.recorded.decision_difference import (
    DifferenceForm,
    StepDifference,
    difference_table,
    step_difference,
)
from mooring.answers.recorded.replaying import SegmentProgress
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.api.kinds import pod_name
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.framework.attempts.runner import Runner
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import NoSuchPod
from mooring.kit.callbacks import Progress
from mooring.kit.clock import NS_PER_S, in_micros, in_seconds
from mooring.kit.words import alike
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import Decision, Placement
from mooring.scheduler.inputs import BindAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.sim.results import Moment, Stories, show_seconds
from mooring.state.made_decision import MadeDecision
from mooring.state.recording.run_reading import RecordedRun, RecordedStep
from mooring.state.replay.differences import BIND, EVICT
from mooring.state.replay.replayer import RecordedClock, ReplayedStep, Replayer, ReplayHooks
from mooring.state.replay.run_reader import RecordedSpan

# ---- `mooring replay --pod` answers with the story of one pod: the events of the recording, and why it got its node.


@dataclass(frozen=True, slots=True)
class PodFacts:
    """When a pod came, got its node and left, in nanoseconds; None: it did not, or not while it was recorded."""

    arrived_ns: int | None = None
    bound_ns: int | None = None
    node: str = ""
    left_ns: int | None = None
    evicted_for: str = ""


class MomentForm(Form, frozen=True):
    """A moment of the story of a pod."""

    at: str
    attempt: Count
    """0 between attempts."""
    text: str


class PodStoryForm(Form, frozen=True):
    """The story of one pod. Times are RFC 3339 in UTC."""

    pod: str
    """namespace/name"""
    equal: bool
    """Whether every decision about the pod came out as it was recorded."""
    arrived: str
    """Empty: before the recording."""
    bound: str
    """Empty: it was not bound while it was recorded."""
    node: str
    """Empty: it got none."""
    left: str
    """Empty: it was there in the end."""
    evicted_for: str
    """The pod that preempted it, or empty."""
    story: Sequence[MomentForm]
    decided: str
    """When the decision was made that `explanation` is about; empty if none was."""
    nominated: bool
    """Whether that node was promised to the pod, after others were evicted for it: then no other node is looked at."""
    explanation: PodExplanationForm | None
    """The decision that gave the pod its node, or the last one that did not, explained as in explain.v1.json."""
    differences: Sequence[DifferenceForm]
    """Decisions about the pod that came out otherwise than they were recorded."""
    problems: Sequence[str]


@dataclass(frozen=True, repr=False)
class PodStory(ClusterAnswer):
    """The story of a pod."""

    kind: ClassVar[str] = "ReplayedPod"
    form: ClassVar = PodStoryForm
    yes_if: ClassVar = "is_equal"
    pod: str
    facts: PodFacts
    moments: Sequence[Moment]
    left_out: int = 0
    """How many earlier moments were dropped."""
    decided_ns: int | None = None
    explanation: PodExplanation | None = None
    was_nominated: bool = False
    differences: Sequence[StepDifference] = ()
    problems: Sequence[str] = ()

    @property
    def is_equal(self) -> bool:
        return not self.differences

    # ---- as text

    def summary(self) -> list[str]:
        lines = [f"{self.pod} {'; '.join(self._facts())}"]
        for difference in self.differences:
            lines += [f"At {in_micros(difference.at_ns)} the replay differs: {difference.kind}"]
            lines += [
                *(f"  then: {text}" for text in difference.recorded),
                *(f"  now:  {text}" for text in difference.ours),
            ]
        return lines + self._why()

    def _facts(self) -> Iterator[str]:
        facts = self.facts
        if facts.arrived_ns is None:
            yield "was there before the recording"
        else:
            yield f"arrived at {in_seconds(facts.arrived_ns)}"
        if facts.bound_ns is not None:
            waited = (
                ""
                if facts.arrived_ns is None
                else f" after {show_seconds((facts.bound_ns - facts.arrived_ns) / NS_PER_S)}"
            )
            yield f"went to {facts.node} at {in_seconds(facts.bound_ns)}{waited}"
        elif facts.node:
            yield f"was on {facts.node}"
        else:
            yield "got no node"
        if facts.evicted_for:
            yield f"was evicted for {facts.evicted_for}"
        if facts.left_ns is not None:
            yield f"left at {in_seconds(facts.left_ns)}"

    def _why(self) -> list[str]:
        if self.explanation is None or self.decided_ns is None:
            return []
        head, *rest = self.explanation.summary()
        if self.explanation.node:
            reason = "it was nominated to this node" if self.was_nominated else self.explanation.among()
            head = f"It went to {self.explanation.node}: {reason}"
            rest = [line for line in rest if not line.startswith("It waits for ")]
        return ["", f"The decision at {in_micros(self.decided_ns)}:", head, *rest]

    def tables(self) -> list[AnswerTable]:
        rows = [(in_micros(m.at_ns), m.attempt or "-", m.text) for m in self.moments]
        left_out = f" (without {self.left_out:,} earlier moments)" if self.left_out else ""
        explained = [] if self.explanation is None else [each for each in self.explanation.tables() if each.rows]
        return [
            *(each for each in explained if each.title != "History"),
            AnswerTable(f"Story{left_out}", ("at", "attempt", "what"), rows),
        ]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        moments = ((each.at_ns, each.attempt or None, each.text) for each in self.moments)
        return {
            "story": data_table({"at": Time, "attempt": int, "text": str}, moments),
            "differences": difference_table(self.differences),
            **({} if self.explanation is None else self.explanation.data_tables()),
        }

    def published(self) -> PodStoryForm:
        facts = self.facts
        return PodStoryForm(
            self.pod,
            self.is_equal,
            _time(facts.arrived_ns),
            _time(facts.bound_ns),
            facts.node,
            _time(facts.left_ns),
            facts.evicted_for,
            [MomentForm(in_micros(each.at_ns), each.attempt, each.text) for each in self.moments],
            _time(self.decided_ns),
            self.was_nominated,
            None if self.explanation is None else self.explanation.published(),
            [each.published() for each in self.differences],
            self.problems,
        )


def _time(moment_ns: int | None) -> str:
    return "" if moment_ns is None else in_micros(moment_ns)


# ---- The cluster of a scheduler at a moment of its replay, for questions that `explain` answers.


class MomentView(Counterfactual):
    """Decides as the scheduler would now, with its options and a given seed. Extenders are not called.

    Nothing that is asked here changes the scheduler: between steps the view is a fork of its cluster.
    """

    def __init__(self, cluster: Cluster, runners: Mapping[str, Runner], options: DecideOptions, seed: int) -> None:
        """Not that of Counterfactual, which builds a cluster from objects."""
        self.cluster = cluster
        self._runners = dict(runners)
        self.decisions = 0
        self.priority_classes = []
        self.events = ()
        self.queue = None
        self.options = replace(options, extenders=())
        self._seed = seed

    def decide(
        self, pod: Pod, *, explain: bool = False, cluster: Cluster | None = None, within: Mask | None = None
    ) -> Decision:
        runner = self.runner(pod)
        start = runner.cursor.start if runner is not None else 0
        try:
            return super().decide(pod, explain=explain, cluster=cluster, within=within)
        finally:
            if runner is not None:
                runner.cursor.start = start  # the next attempt of the scheduler begins its search where it would have

    def seed(self) -> int:
        return self._seed


def view_between_steps(scheduler: Scheduler) -> MomentView:
    """The cluster as the next attempt will see it."""
    core = scheduler.core
    return MomentView(core.cluster.fork(), core.runners, core.options, core.queue.attempts + 1)


def view_at_decision(made: MadeDecision) -> MomentView:
    """The cluster as the decision saw it. Good until anything follows from the decision."""
    return MomentView(made.cluster, {made.pod.spec.scheduler_name: made.runner}, made.options, made.seed)


NAMES = 20_000
"""How many pods an unknown name is compared with."""
DIFFERENCES = 20
"""How many differences about the pod are shown."""


def follow_pod(
    runs: Sequence[RecordedRun],
    name: str,
    registry: Registry | None = None,
    span: RecordedSpan | None = None,
    on_progress: Progress | None = None,
) -> PodStory:
    """The story of the pod `[pod/]namespace/name`, or `name` in the namespace `default`. Raises NoSuchPod."""
    name, span = pod_name(name), span or RecordedSpan()
    key = name if "/" in name else f"default/{name}"
    progress, follower = SegmentProgress(runs, on_progress), PodFollower(key)
    problems: list[str] = []
    for run in runs:
        replayer = Replayer(run, registry, follower.hooks(), follower.clock)
        for replayed in replayer.steps(span.from_ns, span.until_ns):
            follower.look_at(run.name, replayer, replayed)
            progress.present(replayer)
        progress.ended(run)
        problems += replayer.problems
    return follower.story(span.from_ns or 0, problems)


class PodFollower:
    """Collects what happens to one pod; `key` is its `namespace/name`."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.clock = RecordedClock()
        self._stories = Stories(self.clock, only=key)
        self._facts = PodFacts()
        self._explanation: PodExplanation | None = None
        self._decided_ns: int | None = None
        self._was_nominated = False
        self._differences: list[StepDifference] = []
        self._seen: dict[str, Pod] = {}
        """Other pods, for names that are misspelt."""
        self._pod: Pod | None = None
        """As it was seen last, in this run or an earlier one."""
        self._is_new = True

    def hooks(self) -> ReplayHooks:
        return ReplayHooks(self._stories.tell, self._began, self._decided)

    def _began(self, scheduler: Scheduler) -> None:
        self._stories.follow(scheduler)
        self._is_new = True

    def _decided(self, step: RecordedStep, made: MadeDecision) -> None:
        """Explain the decision while the cluster is as it was. The last one is shown."""
        if made.pod.key != self.key:
            return
        found = explain_pod(view_at_decision(made), made.pod, cures=False)
        if isinstance(made.decision, Placement):  # a second look must not say otherwise: extenders are not asked again
            found = replace(found, node=made.decision.node)
        self._explanation, self._decided_ns = replace(found, history=()), step.now_ns
        self._was_nominated = bool(found.node) and made.pod.status.nominated_node_name == found.node

    # ---- steps

    def look_at(self, run: str, replayer: Replayer, replayed: ReplayedStep) -> None:
        """Note what the step says about the pod."""
        if self._is_new:
            self._note_known(replayer, replayed)
        self._note_input(replayed.step)
        for outcome in replayed.step.outcomes:
            if self.key in outcome:
                self._note_outcome(outcome, replayed.step.now_ns)
        if not replayed.is_equal and self._concerns(replayed) and len(self._differences) < DIFFERENCES:
            self._differences.append(step_difference(run, replayed))

    def _concerns(self, replayed: ReplayedStep) -> bool:
        return any(self.key in outcome for outcome in (*replayed.step.outcomes, *replayed.outcomes))

    def _note_known(self, replayer: Replayer, replayed: ReplayedStep) -> None:
        """The pod may be in the state that the replay began with."""
        self._is_new = False
        known, change = replayer.reader.objects.get(("Pod", self.key)), replayed.step.input
        if not isinstance(known, Pod) or (isinstance(change, ObjectAdded) and change.item is known):
            return
        self._pod = known
        if known.spec.node_name and not self._facts.node:
            self._facts = replace(self._facts, node=known.spec.node_name)

    def _note_input(self, step: RecordedStep) -> None:
        change = step.input
        if isinstance(change, ObjectAdded) and isinstance(change.item, Pod):
            if change.item.key == self.key:
                self._arrives(change.item, step.now_ns)
            elif len(self._seen) < NAMES:
                self._seen[change.item.key] = change.item
        elif isinstance(change, ObjectUpdated) and change.new.key == self.key and isinstance(change.new, Pod):
            self._changes(change.old, change.new)
        elif isinstance(change, ObjectRemoved) and change.item.key == self.key and isinstance(change.item, Pod):
            self._facts = replace(self._facts, left_ns=step.now_ns)
            self._stories.tell(change.item, "is gone from the cluster")
        elif isinstance(change, BindAnswered) and change.fault is not None:
            self._bind_fails(change.pod.id, change.fault)

    def _bind_fails(self, pod_id: str, fault: str) -> None:
        if self._pod is not None and pod_id == self._pod.id:
            self._stories.tell(self._pod, f"could not be bound: {fault}")

    def _arrives(self, pod: Pod, now_ns: int) -> None:
        is_restart = self._pod is not None and self._pod.uid == pod.uid and self._facts.left_ns is None
        self._pod = pod
        if is_restart:  # another run of the scheduler lists what is there
            self._stories.tell(pod, "is seen again by a scheduler that started")
            return
        self._facts = PodFacts(now_ns, None, pod.spec.node_name)
        if pod.spec.node_name:  # the queue tells of the others
            self._stories.tell(pod, f"arrives on {pod.spec.node_name}")

    def _changes(self, old: object, new: Pod) -> None:
        self._pod = new
        if not isinstance(old, Pod):
            return
        if new.spec.node_name and not old.spec.node_name:
            self._facts = replace(self._facts, node=new.spec.node_name)
        if new.is_terminating and not old.is_terminating:
            self._stories.tell(new, "is being deleted")

    def _note_outcome(self, outcome: tuple[str, ...], now_ns: int) -> None:
        if outcome[0] == BIND:
            self._facts = replace(self._facts, bound_ns=now_ns, node=outcome[2])
        elif outcome[0] == EVICT and outcome[1] == self.key:
            self._facts = replace(self._facts, evicted_for=outcome[2])

    # ---- the answer

    def story(self, from_ns: int, problems: Sequence[str]) -> PodStory:
        """Raises NoSuchPod."""
        if self._pod is None:
            raise NoSuchPod(
                f"no pod {self.key!r} in this part of the recording{alike(self.key, list(self._seen.values()))}"
            )
        told = self._stories.of(self.key)
        moments = [moment for moment in told.moments if moment.at_ns >= from_ns]
        return PodStory(
            self.key,
            self._facts,
            moments,
            told.left_out,
            self._decided_ns,
            self._explanation,
            self._was_nominated,
            self._differences,
            problems,
        )
