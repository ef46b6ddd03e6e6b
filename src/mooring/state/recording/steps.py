"""The steps of a scheduler as a recording has them: one JSON line each.

A line says what happened, the time since the step before, and what the scheduler asked for in answer. An update holds
only the fields that changed. Codes and fields may be added, never reused: recordings outlive versions of Mooring.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mooring.api.kinds import BY_STRUCT
from mooring.framework.contract.intents import Bind, Call, CallFault, Evict, Intent, PatchStatus, Record, Write
from mooring.model.meta import KubeObject
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
from mooring.state.recording.concealed import Concealer
from mooring.state.recording.object_changes import changes_between

ADDED, UPDATED, REMOVED, BOUND, EVICTED, WRITTEN, CALLED, TIME, HALF_MINUTE, ATTEMPT, RELEASE = range(1, 12)
"""What happened: the first item of a line."""

Line = tuple[Any, ...]
"""(code, nanoseconds since the step before, outcomes, what the code says)"""

Outcome = tuple[str, ...]
"""What the scheduler asked for, in words: ("bind", pod, node), ("fail", pod, message), ("nominate", pod, node),
("evict", victim, preemptor), ("write", method, kind, key), ("call", verb)."""
Outcomes = Sequence[Outcome]


def block_of(lines: Iterable[Line]) -> bytes:
    """The lines as a segment has them: no end after the last."""
    return b"\n".join(map(_ENCODER.encode, lines))


_ENCODER = msgspec.json.Encoder()
append_line = _ENCODER.encode_into
"""(line, lines, -1): appends a line, without its end. If it raises, part of the line may be there."""


_KINDS = {struct: spec.kind for struct, spec in BY_STRUCT.items()}


def kind_of(item: KubeObject) -> str:
    """The name of the kind: `Pod`."""
    return _KINDS[type(item)]


# ---- inputs


def _added(passed_ns: int, outcomes: Outcomes, input: ObjectAdded, conceal: Concealer) -> Line:
    item = input.item
    return ADDED, passed_ns, outcomes, _KINDS[type(item)], conceal(item)


def _updated(passed_ns: int, outcomes: Outcomes, input: ObjectUpdated, conceal: Concealer) -> Line:
    """The key as well: the object that changed is found by it."""
    old, new = input.old, input.new
    if old.metadata.annotations != new.metadata.annotations:
        changes = changes_between(conceal(old), conceal(new))
    else:  # Hot: equal ones have equal digests, which take 2 µs each
        changes = changes_between(old, new)
    return UPDATED, passed_ns, outcomes, _KINDS[type(new)], old.key, changes


def _removed(passed_ns: int, outcomes: Outcomes, input: ObjectRemoved, conceal: Concealer) -> Line:
    item = input.item
    return REMOVED, passed_ns, outcomes, _KINDS[type(item)], conceal(item)


def _bound(passed_ns: int, outcomes: Outcomes, input: BindAnswered, conceal: Concealer) -> Line:
    return BOUND, passed_ns, outcomes, input.pod.id, input.fault, input.elsewhere


def _evicted(passed_ns: int, outcomes: Outcomes, input: EvictionAnswered, conceal: Concealer) -> Line:
    victim, preemptor = conceal(input.victim), conceal(input.preemptor)
    return EVICTED, passed_ns, outcomes, victim, preemptor, input.fault, input.was_there


def _written(passed_ns: int, outcomes: Outcomes, input: WriteAnswered, conceal: Concealer) -> Line:
    fault = None if input.fault is None else (input.fault.message, input.fault.code)
    if input.item is None:
        return WRITTEN, passed_ns, outcomes, input.token, "", None, fault
    return WRITTEN, passed_ns, outcomes, input.token, _KINDS[type(input.item)], conceal(input.item), fault


def _called(passed_ns: int, outcomes: Outcomes, input: CallAnswered, conceal: Concealer) -> Line:
    """The reply in base64: an extender may send any bytes."""
    reply = input.reply
    if isinstance(reply, CallFault):
        return CALLED, passed_ns, outcomes, input.token, None, reply.message
    return CALLED, passed_ns, outcomes, input.token, reply, None


def _time(passed_ns: int, outcomes: Outcomes, input: TimePassed, conceal: Concealer) -> Line:
    return TIME, passed_ns, outcomes


def _half_minute(passed_ns: int, outcomes: Outcomes, input: HalfMinutePassed, conceal: Concealer) -> Line:
    return HALF_MINUTE, passed_ns, outcomes


MakeLine = Callable[[int, Outcomes, Any, Concealer], Line]

LINES: dict[type[Input], MakeLine] = {
    ObjectAdded: _added,
    ObjectUpdated: _updated,
    ObjectRemoved: _removed,
    BindAnswered: _bound,
    EvictionAnswered: _evicted,
    WriteAnswered: _written,
    CallAnswered: _called,
    TimePassed: _time,
    HalfMinutePassed: _half_minute,
}
"""By type of input: (nanoseconds since the step before, outcomes, input, what hides secrets) -> its line."""


# ---- outcomes


_DECISIONS = ("bind", "fail", "nominate", "evict")


def is_whole(outcome: Outcome) -> bool:
    """Whether a recorded outcome has what its kind has."""
    return bool(outcome) and (outcome[0] not in _DECISIONS or len(outcome) == 3)


def outcomes_of(intents: Iterable[Intent]) -> list[Outcome]:
    """What a step led to. Events of bound pods say nothing that the bind has not said."""
    found: list[Outcome] = []
    for intent in intents:
        match intent:
            case Bind():
                found.append(("bind", intent.pod.key, intent.node_name))
            case Record():
                if intent.reason == "FailedScheduling":
                    found.append(("fail", intent.pod.key, intent.note))
            case PatchStatus():
                if intent.nominated_node_name is not None:
                    found.append(("nominate", intent.pod.key, intent.nominated_node_name))
            case Evict():
                found.append(("evict", intent.victim.key, intent.preemptor.key))
            case Write():
                key = f"{intent.namespace}/{intent.name}" if intent.namespace else intent.name
                found.append(("write", intent.method, intent.kind.__name__, key))
            case Call():
                found.append(("call", intent.verb))
    return found
