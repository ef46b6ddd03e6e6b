"""Steps of a recording in words: what happened, and what it led to."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mooring.framework.contract.intents import CallFault
from mooring.scheduler.inputs import (
    BindAnswered,
    CallAnswered,
    EvictionAnswered,
    HalfMinutePassed,
    Input,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
    WriteAnswered,
)
from mooring.state.recording.reading import RecordedStep
from mooring.state.recording.steps import ATTEMPT, Outcome, kind_of

_OUTCOMES = {
    "bind": "{0} is bound to {1}",
    "fail": "{0} gets no node: {1}",
    "nominate": "{0} is nominated to {1}",
    "evict": "{0} is evicted for {1}",
    "write": "{0} of {1} {2}",
    "call": "an extender is asked to {0}",
}
NOTHING = "nothing"


def outcomes_in_words(outcomes: Iterable[Outcome]) -> list[str]:
    """What a step led to, one sentence each."""
    return [_sentence(outcome) for outcome in outcomes] or [NOTHING]


def _sentence(outcome: Outcome) -> str:
    kind, *values = outcome
    try:
        return _OUTCOMES[kind].format(*values)
    except (KeyError, IndexError):  # of a later version
        return " ".join(outcome)


def step_in_words(step: RecordedStep) -> str:
    """What happened, without what it led to."""
    if step.input is None:
        return "attempt" if step.code == ATTEMPT else "waits on Permit end"
    return _INPUTS[type(step.input)](step.input)


def _bound(input: BindAnswered) -> str:
    return "a bind is carried out" if input.fault is None else f"a bind fails: {input.fault}"


def _evicted(input: EvictionAnswered) -> str:
    key = input.victim.key
    return f"{key} is evicted" if input.fault is None else f"{key} could not be evicted: {input.fault}"


def _written(input: WriteAnswered) -> str:
    return "a write is carried out" if input.fault is None else f"a write fails: {input.fault.message}"


def _called(input: CallAnswered) -> str:
    reply = input.reply
    return f"an extender fails: {reply.message}" if isinstance(reply, CallFault) else "an extender answers"


_INPUTS: Mapping[type[Input], Callable[[Any], str]] = {
    ObjectAdded: lambda input: f"{kind_of(input.item)} {input.item.key} is added",
    ObjectUpdated: lambda input: f"{kind_of(input.new)} {input.new.key} is updated",
    ObjectRemoved: lambda input: f"{kind_of(input.item)} {input.item.key} is removed",
    BindAnswered: _bound,
    EvictionAnswered: _evicted,
    WriteAnswered: _written,
    CallAnswered: _called,
    TimePassed: lambda input: "time passes",
    HalfMinutePassed: lambda input: "half a minute has passed",
}
