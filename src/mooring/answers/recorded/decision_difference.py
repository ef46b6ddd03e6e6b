"""A decision that came out otherwise than it was recorded, and why: the recorded node against ours."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from mooring.answers.explain.explanation import best_scores, tipped, told_tipped, weighted
from mooring.answers.explain.explanation_form import ScoredNode
from mooring.answers.form.answer import AnswerTable
from mooring.answers.form.data_table import Columns, DataTable, Time, data_table
from mooring.answers.form.published import Count, Form, Positive, Published
from mooring.answers.trial.reasons import Reason, ReasonForm, reasons_of
from mooring.kit.clock import in_micros
from mooring.scheduler.decision import Decision, DecisionDetails, DecisionError, Diagnosis, NoFit, Placement
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import is_tied
from mooring.state.made_decision import MadeDecision
from mooring.state.recording.recorded_steps import Outcome
from mooring.state.replay.differences import FAIL, decided_for, kind_of_difference, outcomes_in_words, pods_of
from mooring.state.replay.replayer import ReplayedStep


class DecisionForm(Form, frozen=True):
    """Why a pod went to `node`, or nowhere, with what was found about the recorded node."""

    pod: str
    recorded_node: str
    """Empty: the pod got no node then."""
    node: str
    """Empty: the pod gets no node now."""
    message: str
    """Why it gets none."""
    node_count: Count = msgspec.field(name="nodes")
    feasible_count: Count = msgspec.field(name="feasibleNodes")
    scores: Sequence[ScoredNode]
    """The recorded node, if it takes the pod, then ours, then the best others."""
    obstacle: str = msgspec.field(name="recordedNodeRejected")
    """Why the recorded node does not take the pod now; empty if it does."""
    reasons: Sequence[ReasonForm]
    """Why all nodes reject the pod, where they do."""


@dataclass(frozen=True, slots=True)
class ExplainedDecision(Published):
    """A decision with the weights of its scores."""

    form: ClassVar = DecisionForm
    pod: str
    recorded_node: str = ""
    node: str = ""
    message: str = ""
    node_count: int = 0
    feasible_count: int = 0
    scores: Sequence[ScoredNode] = ()
    weights: Mapping[str, int] = field(default_factory=dict)
    obstacle: str = ""
    reasons: Sequence[Reason] = ()
    was_extended: bool = False

    def sentences(self) -> list[str]:
        lines = []
        if self.obstacle:
            lines.append(f"{self.recorded_node} does not take the pod now: {self.obstacle}")
        elif self.recorded_node and self.node:
            lines.append(self._compared())
        if self.node:
            lines.append(f"{self.feasible_count:,} of {self.node_count:,} nodes take the pod now")
        if self.was_extended:
            lines.append("Extenders took part; their answers are not in these scores")
        return lines

    def _compared(self) -> str:
        """The recorded node against ours, plugin by plugin."""
        by_name = {each.name: each for each in self.scores}
        then, now = by_name.get(self.recorded_node), by_name.get(self.node)
        if then is None or now is None:
            return f"{self.recorded_node} and {self.node} were not scored: a nomination or a single node decides"
        if is_tied({each.name: each.total for each in self.scores}, self.node, self.recorded_node):
            return f"{self.recorded_node} is tied with {self.node} now: the same score, {now.total}; the tie went otherwise"
        told = f"({now.total} to {then.total}): {told_tipped(tipped(now, then))}"
        return f"{self.node} is {now.total - then.total} ahead of {self.recorded_node} {told}"

    def tables(self) -> list[AnswerTable]:
        plugins = list(self.scores[0].by_plugin) if self.scores else []
        heads = ("node", "chosen", "total", *weighted(plugins, self.weights))
        rows = [
            (each.name, self._chosen(each.name), each.total, *(each.by_plugin.get(plugin, 0) for plugin in plugins))
            for each in self.scores
        ]
        why = [(f"{reason.count:,}", reason.plugin, reason.message, ", ".join(reason.nodes)) for reason in self.reasons]
        return [
            AnswerTable("Scores now (after weights)", heads, rows),
            AnswerTable("Why not now", ("nodes", "plugin", "reason", "such as"), why),
        ]

    def _chosen(self, name: str) -> str:
        return "then" if name == self.recorded_node else "now" if name == self.node else "-"


class DifferenceForm(Form, frozen=True):
    """A step whose outcomes are not those that were recorded."""

    run: str
    step: Positive
    at: str
    """When the step was, in RFC 3339."""
    kind: str
    pods: Sequence[str]
    recorded: Sequence[str]
    """The recorded outcome, in words."""
    ours: Sequence[str] = msgspec.field(name="now")
    """The outcome of the replay, in words."""
    decision: DecisionForm | None
    """Why; for the first difference, where a decision is the reason."""


@dataclass(frozen=True, slots=True)
class StepDifference(Published):
    """A step whose outcomes are not those that were recorded."""

    form: ClassVar = DifferenceForm
    run: str
    step: int
    at_ns: int
    kind: str
    pods: Sequence[str]
    recorded: Sequence[str]
    ours: Sequence[str]
    decision: ExplainedDecision | None = None

    def sentences(self) -> list[str]:
        lines = [
            f"The first difference is step {self.step:,} of {self.run}, at {self.at}: {self.kind}",
            *(f"  then: {text}" for text in self.recorded),
            *(f"  now:  {text}" for text in self.ours),
        ]
        return lines + (self.decision.sentences() if self.decision is not None else [])

    @property
    def at(self) -> str:
        return in_micros(self.at_ns)


def step_difference(run: str, replayed: ReplayedStep, decision: ExplainedDecision | None = None) -> StepDifference:
    recorded, ours = replayed.step.outcomes, replayed.outcomes
    return StepDifference(
        run,
        replayed.number,
        replayed.step.now_ns,
        kind_of_difference(recorded, ours),
        pods_of([*recorded, *ours]),
        outcomes_in_words(recorded),
        outcomes_in_words(ours),
        decision,
    )


def difference_table(differences: Iterable[StepDifference]) -> DataTable:
    """A row for each step, for `to_frame`."""
    columns: Columns = {"run": str, "step": int, "at": Time, "kind": str, "pods": str, "recorded": str, "now": str}
    rows = (
        (
            each.run,
            each.step,
            each.at_ns,
            each.kind,
            ", ".join(each.pods),
            "; ".join(each.recorded),
            "; ".join(each.ours),
        )
        for each in differences
    )
    return data_table(columns, rows)


# ---- explanations


def is_otherwise(decision: Decision, recorded: Outcome | None) -> bool:
    """Whether a decision is likely to lead to another outcome for its pod than the recorded one."""
    if recorded is None:
        return not isinstance(decision, Placement)  # a placement may have to wait
    kind, _, told = recorded
    if isinstance(decision, Placement):
        return kind == FAIL or told != decision.node
    text = decision.error if isinstance(decision, DecisionError) else decision.message
    return kind != FAIL or not told.startswith(text)


def explain_decision(made: MadeDecision, recorded: Iterable[Outcome]) -> ExplainedDecision:
    """The decision with the scores of both nodes. To be called before anything follows from it."""
    outcome = decided_for(recorded, made.pod.key)
    then = outcome[2] if outcome is not None and outcome[0] != FAIL else ""
    return explained(made.explained(), made, then)


def explain_placed(scheduler: Scheduler, key: str, then: str) -> ExplainedDecision | None:
    """The decision for a pod that has its node already, as if it had none; None for a pod that is unknown."""
    known = scheduler.pods.get(key)
    placed = None if known is None else scheduler.placed(known.id)
    pod = placed or known
    runner = None if pod is None else scheduler.runner(pod.spec.scheduler_name)
    if pod is None or runner is None:
        return None
    fork = scheduler.cluster.fork()
    if placed is not None:
        fork.nodes.displace(placed.id)
    core = scheduler.core
    seed, start = core.queue.attempts, runner.cursor.start
    made = MadeDecision(runner, pod.with_node(""), fork, core.options, seed, NoFit(Diagnosis(0)), start, False)
    return explained(made.explained(), made, then)


def explained(decision: Decision, made: MadeDecision, then: str) -> ExplainedDecision:
    nodes, key = made.cluster.nodes, made.pod.key
    count = nodes.alive_count
    if isinstance(decision, DecisionError):
        return ExplainedDecision(key, then, message=decision.error, node_count=count, was_extended=made.was_extended)
    details = decision.details or DecisionDetails()
    node = decision.node if isinstance(decision, Placement) else ""
    return ExplainedDecision(
        key,
        then,
        node,
        decision.message if isinstance(decision, NoFit) else "",
        count,
        decision.feasible_count if isinstance(decision, Placement) else 0,
        best_scores(details, then, node),
        made.runner.score_weights(),
        _obstacle(details, then, then in nodes.row_book) if then else "",
        reasons_of(decision) if isinstance(decision, NoFit) else (),
        made.was_extended,
    )


def _obstacle(details: DecisionDetails, node: str, is_known: bool) -> str:
    """Why the node does not take the pod; empty if it does."""
    if not is_known:
        return "there is no such node"
    rejection = details.rejected.get(node)
    if rejection is not None:
        return f"{rejection.plugin}: {rejection.message}" if rejection.plugin else rejection.message
    return "" if node in details.feasible else "it was not among the nodes that were looked at"
