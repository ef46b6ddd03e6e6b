"""One difference between what a running scheduler believes and what a scheduler that was built now says."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar, get_args

import msgspec

from mooring.model.meta import KubeObject

DifferenceKind = Literal[
    "object",
    "row",
    "port",
    "tally",
    "volume",
    "device",
    "nomination",
    "group",
    "queue",
    "assumed",
    "answer",
    "stranded",
    "watch",
]
"""What a difference is about; the words are labels of a metric, and docs/run.md explains them."""

KINDS: tuple[DifferenceKind, ...] = get_args(DifferenceKind)

T = TypeVar("T")

BATCH = 100
"""Items that are compared one by one before others may work: up to a millisecond."""
_LONGEST = 300
"""Characters of a story: a selector, or the values of an object, may be of any length."""


class StateDifference(msgspec.Struct, frozen=True):
    """What is believed, and what a fresh scheduler says. Two with the same `place` are the same fault, seen twice."""

    kind: DifferenceKind
    about: type[KubeObject] | None
    """The kind of the object that it is about; None: it is about none, as `name` says."""
    name: str
    """The key of the object, or what else it is about."""
    what: str
    """Which value of it."""
    believed: str
    fresh: str

    @property
    def place(self) -> tuple[DifferenceKind, type[KubeObject] | None, str, str]:
        return self.kind, self.about, self.name, self.what

    @property
    def subject(self) -> str:
        return self.name if self.about is None else f"{self.about.__name__} {self.name}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}: believed {cut(self.believed)}, fresh {cut(self.fresh)}"


Findings = Iterator[StateDifference | None]
"""Differences one by one; None: a moment at which others may work. Between two of them both sides may change, in step."""


def cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def in_batches(items: Iterable[T], look: Callable[[T], Iterable[StateDifference]]) -> Findings:
    """Look at each item. They are those of a moment that may be past: `look` must not rely on their being there."""
    for count, item in enumerate(items, 1):
        yield from look(item)
        if count % BATCH == 0:
            yield None
    yield None
