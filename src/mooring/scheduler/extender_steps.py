"""Work that waits for extenders: a generator that yields calls and is sent the replies to all of them, in order."""

from collections.abc import Generator
from typing import TypeVar

import msgspec

from mooring.framework.contract.intents import Call, CallReply
from mooring.scheduler.inputs import Input

T = TypeVar("T")

Steps = Generator[tuple[Call, ...], list[CallReply], T]
"""Yields the calls of one step (all to be made at once), is sent their replies in the same order, returns a T."""


class Suspension(msgspec.Struct):
    """An attempt that waits for replies. Until it is over it must see the cluster as it was when it began."""

    steps: Steps[None]
    calls: tuple[Call, ...] = ()
    replies: dict[int, CallReply] = msgspec.field(default_factory=dict)
    """By token of the call."""
    held: list[Input] = msgspec.field(default_factory=list)
    """Inputs that arrived while the attempt waits, in order. The scheduler handles them when the attempt is over."""


def at_once(steps: Steps[T]) -> T:
    """Run steps that make no calls, and return their result."""
    try:
        next(steps)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("steps that were to need no reply asked for one")
