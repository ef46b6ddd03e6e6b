"""Backoff: how long a pod that failed must wait while others are served, and the two heaps in which it waits.

Pods that plugins rejected and pods that failed with an error wait apart: an idle scheduler may take the former before
their time, never the latter. Pod groups wait with the latter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import msgspec

from mooring.kit.clock import NS_PER_S
from mooring.kit.heap import KeyedHeap
from mooring.queue.entry import QueuedEntity


def duration_ns(count: int, initial_ns: int, max_ns: int) -> int:
    """The backoff after `count` failures in a row: doubled each time, up to the maximum.

    | count (1 s, 10 s) | 1 | 2 | 3 | 4 | 5  | 6  |
    | seconds           | 1 | 2 | 4 | 8 | 10 | 10 |
    """
    if count < 1:
        return 0
    doublings = count - 1
    return max_ns if initial_ns > max_ns >> doublings else initial_ns << doublings


def floor_ns(time_ns: int, window_ns: int) -> int:
    """The beginning of the window that a time is in."""
    return time_ns - time_ns % window_ns


class BackoffRule(msgspec.Struct, frozen=True):
    """How long pods back off.

    Ends of backoffs are rounded down to windows, and all that end in one window leave in the order of the queue.
    A pod backs off through the whole window in which its backoff ends.
    """

    initial_ns: int
    max_ns: int
    window_ns: int = NS_PER_S
    """1 rounds nothing."""

    def until_ns(self, entry: QueuedEntity) -> int:
        """The window in which the pod's backoff ends; worked out once after each return."""
        until = entry.backoff_until_ns
        if until is None:
            count, size = entry.consecutive_errors or entry.unschedulable_count, entry.size
            # The root of the number of pods keeps the longest backoff of a large group reasonable.
            most_ns = self.max_ns if size < 2 else int(self.max_ns * sqrt(size))
            wait_ns = duration_ns(count, self.initial_ns, most_ns)
            until = entry.backoff_until_ns = floor_ns(entry.timestamp_ns + wait_ns, self.window_ns)
        return until

    def holds(self, entry: QueuedEntity, now_ns: int) -> bool:
        """Whether the pod is still backing off."""
        if self.max_ns == 0 or not (entry.consecutive_errors or entry.unschedulable_count):
            return False
        return self.until_ns(entry) >= floor_ns(now_ns, self.window_ns)

    def release_ns(self, entry: QueuedEntity) -> int:
        """The first time at which the pod no longer backs off."""
        return self.until_ns(entry) + self.window_ns


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How long pods wait. Defaults are upstream's."""

    initial_backoff_s: float = 1
    max_backoff_s: float = 10
    max_unschedulable_s: float = 300
    """After so long an unschedulable pod is tried again, whatever it waits for."""
    pop_from_backoff: bool = True
    """An idle scheduler takes pods out of backoff early."""
    pre_queueing_hints: bool = False
    """Gate SchedulerPreQueueingHints: plugins say first which pods an event is about."""

    def backoff_rule(self) -> BackoffRule:
        window_ns = NS_PER_S if self.pop_from_backoff else 1
        return BackoffRule(round(self.initial_backoff_s * NS_PER_S), round(self.max_backoff_s * NS_PER_S), window_ns)


class BackoffQueue:
    """The pods that back off, those with an error apart from the others.

    `order` is the order of the active queue: it decides between rejected pods whose backoff ends in one window. Without
    it, and among errors, the first to come is the first to leave.
    """

    def __init__(self, rule: BackoffRule, order: Callable[[QueuedEntity], Any] | None) -> None:
        until = rule.until_ns
        self.rule = rule
        self.rejected: KeyedHeap[QueuedEntity] = KeyedHeap(
            until if order is None else lambda entry: (until(entry), order(entry))
        )
        self.errors: KeyedHeap[QueuedEntity] = KeyedHeap(until)

    def __len__(self) -> int:
        return len(self.rejected) + len(self.errors)

    def __contains__(self, key: str) -> bool:
        return key in self.rejected or key in self.errors

    def __iter__(self) -> Iterator[QueuedEntity]:
        """All pods: first those rejected, then those with an error, each in the order in which they will leave."""
        yield from self.rejected.sorted()
        yield from self.errors.sorted()

    def get(self, key: str) -> QueuedEntity | None:
        return self.rejected.get(key) or self.errors.get(key)

    def push(self, entry: QueuedEntity) -> bool:
        """Add a pod. False: it was in the other heap as well, which must not be, and was removed there."""
        own, other = (self.rejected, self.errors) if entry.rejectors else (self.errors, self.rejected)
        own.push(entry)
        return other.remove(entry.key) is None

    def update(self, entry: QueuedEntity) -> None:
        """The pod's content changed: bring it to its new position. Its backoff stays what it was."""
        (self.rejected if entry.key in self.rejected else self.errors).push(entry)

    def remove(self, key: str) -> QueuedEntity | None:
        return self.rejected.remove(key) or self.errors.remove(key)

    def pop_early(self) -> QueuedEntity | None:
        """Take the rejected pod whose turn comes first, though its backoff is not over."""
        return self.rejected.pop()

    def pop_complete(self, now_ns: int) -> Iterator[QueuedEntity]:
        """Take every pod whose backoff is over."""
        for heap in (self.rejected, self.errors):
            while (entry := heap.peek()) is not None and not self.rule.holds(entry, now_ns):
                heap.pop()
                yield entry

    def next_release_ns(self) -> int | None:
        """When the next pod will have completed its backoff."""
        heads = [head for heap in (self.rejected, self.errors) if (head := heap.peek()) is not None]
        return min((self.rule.release_ns(head) for head in heads), default=None)

    def check(self) -> list[str]:
        """Consistency check: returns a message for each pod that is in the wrong heap for its last failure, is in both heaps,
        or has no end of its backoff."""
        problems = [f"backoff {problem}" for problem in (*self.rejected.check(), *self.errors.check())]
        problems += [
            f"{e.key}: among the rejected, but no plugin rejected it" for e in self.rejected if not e.rejectors
        ]
        # A gate may object to a pod that is in backoff (activate): it is noted on the entry, which stays where it is.
        rejected = [e for e in self.errors if e.rejectors and not e.is_gated]
        problems += [f"{entry.key}: among the errors, but rejected by plugins" for entry in rejected]
        problems += [f"{e.key}: in both backoff heaps" for e in self.rejected if e.key in self.errors]
        problems += [f"{e.key}: in backoff without an end" for e in self if e.backoff_until_ns is None]
        return problems
