"""Counts of a replay (steps, decisions, and those that came out otherwise, by kind), and its steps in words."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.framework.contract.intents import CallFault
from mooring.scheduler import inputs
from mooring.state.recording.recorded_steps import ATTEMPT, Outcome, kind_of
from mooring.state.recording.run_reading import RecordedStep
from mooring.state.replay.replayer import ReplayedStep

# ---- Steps of a recording in words: what happened, and what it led to.


_OUTCOMES = {
    "bind": "{0} is bound to {1}",
    "fail": "{0} gets no node: {1}",
    "nominate": "{0} is nominated to {1}",
    "evict": "{0} is evicted for {1}",
    "write": "{0} of {1} {2}",
    "call": "an extender is asked to {0}",
}
NO_OUTCOME = "nothing"


def outcomes_in_words(outcomes: Iterable[Outcome]) -> list[str]:
    """The outcomes of a step, one sentence each."""
    return [_sentence(outcome) for outcome in outcomes] or [NO_OUTCOME]


def _sentence(outcome: Outcome) -> str:
    kind, *values = outcome
    try:
        return _OUTCOMES[kind].format(*values)
    except (KeyError, IndexError):  # of a later version
        return " ".join(outcome)


def step_in_words(step: RecordedStep) -> str:
    """The event of a step in words, without its outcomes."""
    if step.input is None:
        return "attempt" if step.code == ATTEMPT else "waits on Permit end"
    return _INPUTS[type(step.input)](step.input)


def _bound(change: inputs.BindAnswered) -> str:
    return "a bind is carried out" if change.fault is None else f"a bind fails: {change.fault}"


def _evicted(change: inputs.EvictionAnswered) -> str:
    key = change.victim.key
    return f"{key} is evicted" if change.fault is None else f"{key} could not be evicted: {change.fault}"


def _written(change: inputs.WriteAnswered) -> str:
    return "a write is carried out" if change.fault is None else f"a write fails: {change.fault.message}"


def _called(change: inputs.CallAnswered) -> str:
    reply = change.reply
    return f"an extender fails: {reply.message}" if isinstance(reply, CallFault) else "an extender answers"


_INPUTS: Mapping[type[inputs.Input], Callable[[Any], str]] = {
    inputs.ObjectAdded: lambda change: f"{kind_of(change.item)} {change.item.key} is added",
    inputs.ObjectUpdated: lambda change: f"{kind_of(change.new)} {change.new.key} is updated",
    inputs.ObjectRemoved: lambda change: f"{kind_of(change.item)} {change.item.key} is removed",
    inputs.BindAnswered: _bound,
    inputs.EvictionAnswered: _evicted,
    inputs.WriteAnswered: _written,
    inputs.CallAnswered: _called,
    inputs.TimePassed: lambda change: "time passes",
    inputs.HalfMinutePassed: lambda change: "half a minute has passed",
    inputs.ConfigurationChanged: lambda change: "the configuration changes",
}


ANOTHER_NODE = "another node"
NO_NODE = "no node instead of one"
A_NODE = "a node instead of none"
ANOTHER_MESSAGE = "no node, for another reason"
OTHER_VICTIMS = "other victims"
ANOTHER_NOMINATION = "another nomination"
ANOTHER_POD = "another pod"
NOTHING = "nothing instead of a decision"
SOMETHING = "a decision instead of nothing"
OTHER_REQUESTS = "other writes or calls"

BIND, FAIL, NOMINATE, EVICT = "bind", "fail", "nominate", "evict"
DECISIONS = (BIND, FAIL, NOMINATE, EVICT)
"""The outcomes that are decisions; writes and calls prepare them."""


def kind_of_difference(recorded: Iterable[Outcome], ours: Iterable[Outcome]) -> str:
    """In what way the outcomes of a step differ: the kind that says most."""
    before, after = _Outcomes(recorded), _Outcomes(ours)
    if before.decided and not after.decided:
        return NOTHING
    if after.decided and not before.decided:
        return SOMETHING
    if not before.decided:
        return OTHER_REQUESTS
    shared = before.pods & after.pods
    if before.pods != after.pods and not shared:
        return ANOTHER_POD
    checks = (
        (
            ANOTHER_NODE,
            any(before.nodes.get(p) != after.nodes.get(p) for p in before.nodes.keys() & after.nodes.keys()),
        ),
        (NO_NODE, any(pod in after.messages for pod in before.nodes)),
        (A_NODE, any(pod in after.nodes for pod in before.messages)),
        (OTHER_VICTIMS, before.evictions != after.evictions),
        (ANOTHER_NOMINATION, before.nominations != after.nominations),
        (ANOTHER_MESSAGE, any(before.messages[p] != after.messages[p] for p in before.messages if p in after.messages)),
        (ANOTHER_POD, before.pods != after.pods),
    )
    return next((kind for kind, is_so in checks if is_so), OTHER_REQUESTS)


class _Outcomes:
    """The outcomes of a step by pod."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        by_kind: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            by_kind.setdefault(outcome[0], []).append(outcome)
        self.nodes = {pod: node for _, pod, node in by_kind.get(BIND, ())}
        self.messages = {pod: message for _, pod, message in by_kind.get(FAIL, ())}
        self.nominations = {pod: node for _, pod, node in by_kind.get(NOMINATE, ())}
        self.evictions = {(victim, preemptor) for _, victim, preemptor in by_kind.get(EVICT, ())}
        self.pods = {*self.nodes, *self.messages}
        self.decided = any(kind in by_kind for kind in DECISIONS)


def pods_of(outcomes: Iterable[Outcome]) -> list[str]:
    """The pods that were decided on, in order."""
    return list(dict.fromkeys(outcome[1] for outcome in outcomes if outcome[0] in (BIND, FAIL, NOMINATE)))


def is_decision(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome[0] in DECISIONS for outcome in outcomes)


def decided_for(outcomes: Iterable[Outcome], pod: str) -> Outcome | None:
    """The decision for a pod: its bind or its failure, or its nomination where other work comes before the bind."""
    about = {each[0]: each for each in outcomes if each[0] in (BIND, FAIL, NOMINATE) and each[1] == pod}
    return about.get(BIND) or about.get(FAIL) or about.get(NOMINATE)


@dataclass(slots=True)
class ReplayTally:
    """Counts of replayed steps. A decision is a step that bound pods, failed, or evicted pods."""

    steps: int = 0
    decisions: int = 0
    binds: int = 0
    failures: int = 0
    evictions: int = 0
    differing_steps: int = 0
    differing_decisions: int = 0
    """Decisions that were recorded and did not come out equal."""
    by_kind: Counter[str] = field(default_factory=Counter)
    first_ns: int | None = None
    last_ns: int = 0
    """The times of the first and the last step."""

    @property
    def equal_decisions(self) -> int:
        return self.decisions - self.differing_decisions

    def add(self, replayed: ReplayedStep) -> None:
        """Count a step, and in what way it came out otherwise."""
        recorded = replayed.step.outcomes
        self.steps += 1
        self.last_ns = replayed.step.now_ns
        if self.first_ns is None:
            self.first_ns = self.last_ns
        is_decided = bool(recorded) and self._count(recorded)
        if recorded != replayed.outcomes:
            self.differing_steps += 1
            self.differing_decisions += is_decided
            self.by_kind[kind_of_difference(recorded, replayed.outcomes)] += 1

    def _count(self, recorded: Iterable[Outcome]) -> bool:
        kinds = [outcome[0] for outcome in recorded]
        self.binds += kinds.count(BIND)
        self.failures += kinds.count(FAIL)
        self.evictions += kinds.count(EVICT)
        is_decided = any(kind in DECISIONS for kind in kinds)
        self.decisions += is_decided
        return is_decided

    def include(self, other: "ReplayTally") -> None:
        """Add the counts of another run."""
        for name in ("steps", "decisions", "binds", "failures", "evictions", "differing_steps", "differing_decisions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.by_kind.update(other.by_kind)
