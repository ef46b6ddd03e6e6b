"""Lines of a story as the page of a pod shows them: the kind of what happened, and the sentence.

Queue and loop tell sentences (`queue/places.py`, `scheduler/`); their beginnings say what happened.
"""

import re
from functools import lru_cache
from typing import Literal

import msgspec

from mooring.kit.clock import in_millis

What = Literal[
    "queued",
    "popped",
    "placed",
    "unschedulable",
    "backoff",
    "moved",
    "permit",
    "preBind",
    "nominated",
    "bound",
    "evicted",
    "gated",
    "error",
    "deleted",
    "note",
]


class ShownLine(msgspec.Struct, frozen=True):
    """One line of a timeline."""

    time: str
    what: What
    detail: str


_KINDS: tuple[tuple[str, What], ...] = (
    (r"added to the active queue", "queued"),
    (r"taken (for attempt|from the queue)", "popped"),
    (r"goes to ", "placed"),
    (r"is bound to ", "bound"),
    (r"is not scheduled: ", "unschedulable"),
    (r"unschedulable, ", "unschedulable"),
    (r"failed with an error, .*to backoff", "error"),
    (r".* to backoff until [0-9:]+$", "backoff"),
    (r".* to the active queue$", "moved"),
    (r"has room on .* and waits for ", "permit"),
    (r"has room on .*, where .* has work to do first", "preBind"),
    (r"preempts ", "nominated"),
    (r"is preempted by ", "evicted"),
    (r"gated by ", "gated"),
    (r"deleted from the queue", "deleted"),
)
"""The first that matches counts; `note` is for all others, such as what extenders say."""
_PATTERNS = tuple((re.compile(pattern, re.DOTALL), what) for pattern, what in _KINDS)


def shown_line(time_ns: int, text: str) -> ShownLine:
    return ShownLine(in_millis(time_ns), what_of(text), text)


@lru_cache(maxsize=1024)
def what_of(text: str) -> What:
    return next((what for pattern, what in _PATTERNS if pattern.match(text)), "note")
