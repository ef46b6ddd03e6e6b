"""The steps of a scheduler as a recording has them: one JSON line each.

A line says what happened, the time since the step before, and what the scheduler asked for in answer. An update holds
only the fields that changed. Codes and fields may be added, never reused: recordings outlive versions of Mooring.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mooring.framework.intents import Bind, Call, CallFault, Evict, Intent, PatchStatus, Record, Write
from mooring.model.kinds import BY_STRUCT
from mooring.model.meta import KubeObject
from mooring.recording.concealed import Concealer
from mooring.recording.object_changes import changes_between
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

ADDED, UPDATED, REMOVED, BOUND, EVICTED, WRITTEN, CALLED, TIME, HALF_MINUTE, ATTEMPT, RELEASE = range(1, 12)
"""What happened: the first item of a line."""

Line = tuple[Any, ...]
"""(code, nanoseconds since the step before, outcomes, what the code says)"""

_ENCODER = msgspec.json.Encoder()

Outcome = tuple[str, ...]
"""What the scheduler asked for, in words: ("bind", pod, node), ("fail", pod, message), ("nominate", pod, node),
("evict", victim, preemptor), ("write", method, kind, key), ("call", verb)."""


def line_of(code: int, passed_ns: int, input: Input | None, outcomes: Sequence[Outcome], conceal: Concealer) -> Line:
    """The line of a step."""
    about = () if input is None else _ABOUT[type(input)](input, conceal)
    return (code, passed_ns, outcomes, *about)


def block_of(lines: Iterable[Line]) -> bytes:
    """The lines as a segment has them."""
    return b"\n".join(map(_ENCODER.encode, lines))


def code_of(input: Input) -> int:
    return _CODES[type(input)]


def kind_of(item: KubeObject) -> str:
    """The name of the kind: `Pod`."""
    return BY_STRUCT[type(item)].kind


# ---- inputs


def _added(input: ObjectAdded, conceal: Concealer) -> Line:
    return kind_of(input.item), conceal(input.item)


def _updated(input: ObjectUpdated, conceal: Concealer) -> Line:
    """The key as well: the object that changed is found by it."""
    old, new = input.old, input.new
    return kind_of(new), old.key, changes_between(conceal(old), conceal(new))


def _removed(input: ObjectRemoved, conceal: Concealer) -> Line:
    return kind_of(input.item), conceal(input.item)


def _bound(input: BindAnswered, conceal: Concealer) -> Line:
    return input.pod.id, input.fault, input.elsewhere


def _evicted(input: EvictionAnswered, conceal: Concealer) -> Line:
    return conceal(input.victim), conceal(input.preemptor), input.fault, input.was_there


def _written(input: WriteAnswered, conceal: Concealer) -> Line:
    fault = None if input.fault is None else (input.fault.message, input.fault.code)
    if input.item is None:
        return input.token, "", None, fault
    return input.token, kind_of(input.item), conceal(input.item), fault


def _called(input: CallAnswered, conceal: Concealer) -> Line:
    """The reply in base64: an extender may send any bytes."""
    reply = input.reply
    return (input.token, None, reply.message) if isinstance(reply, CallFault) else (input.token, reply, None)


def _nothing(input: Input, conceal: Concealer) -> Line:
    return ()


_ABOUT: dict[type[Input], Callable[[Any, Concealer], Line]] = {
    ObjectAdded: _added,
    ObjectUpdated: _updated,
    ObjectRemoved: _removed,
    BindAnswered: _bound,
    EvictionAnswered: _evicted,
    WriteAnswered: _written,
    CallAnswered: _called,
    TimePassed: _nothing,
    HalfMinutePassed: _nothing,
}

_CODES: dict[type[Input], int] = {
    ObjectAdded: ADDED,
    ObjectUpdated: UPDATED,
    ObjectRemoved: REMOVED,
    BindAnswered: BOUND,
    EvictionAnswered: EVICTED,
    WriteAnswered: WRITTEN,
    CallAnswered: CALLED,
    TimePassed: TIME,
    HalfMinutePassed: HALF_MINUTE,
}


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
