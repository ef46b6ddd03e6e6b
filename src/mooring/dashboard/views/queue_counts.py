"""How many pods wait where in the queue."""

from collections import deque

import msgspec

from mooring.dashboard.views.scheduling_flow import FlowSample
from mooring.kit.shown_text import json_bytes
from mooring.scheduler.scheduler import Scheduler


class QueueSample(msgspec.Struct, frozen=True, rename="camel"):
    """The event `queue`. A pod is counted in one of these."""

    time: str
    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    """Taken for an attempt, or being bound."""
    waiting_on_permit: int


def queue_sample(scheduler: Scheduler, time: str) -> QueueSample:
    counts = scheduler.pending_counts()
    core, waiting = scheduler.core, len(scheduler.waiting)
    # A pod that waits on Permit is in flight to the queue, and among the bindings too.
    in_flight = len(core.queue.in_flight) + len(core.bindings) - 2 * waiting
    return QueueSample(
        time, counts["active"], counts["backoff"], counts["unschedulable"], counts["gated"], max(in_flight, 0), waiting
    )


def queue_activity(scheduler: Scheduler) -> tuple[int, ...]:
    """Differs from an earlier one if pods have moved in the queue since."""
    queue = scheduler.core.queue
    return queue.attempts, sum(queue.counters.incoming.values()), *queue.pending_counts().values()


# ---- The last samples of queue and flow, for the lines that a page draws when it opens.


LENGTH = 600
"""Samples, one a second: ten minutes."""


class HistoryPage(msgspec.Struct, frozen=True):
    """`GET api/history`."""

    queue: list[msgspec.Raw]
    flow: list[msgspec.Raw]


class SampleHistory:
    """Samples are kept encoded: 0.3 KB each instead of some 2 KB as objects, and a page costs no encoding."""

    def __init__(self, length: int = LENGTH) -> None:
        self._queue: deque[msgspec.Raw] = deque(maxlen=length)
        self._flow: deque[msgspec.Raw] = deque(maxlen=length)
        self._last = ""

    def add(self, queue: QueueSample, flow: FlowSample | None) -> tuple[bytes, bytes]:
        """Keep samples. Returns them encoded; without a flow, an empty one. A recording that is set back starts over."""
        if queue.time < self._last:
            self._queue.clear()
            self._flow.clear()
        self._last = queue.time
        counts = json_bytes(queue)
        passed = b"" if flow is None else json_bytes(flow)
        self._queue.append(msgspec.Raw(counts))
        if passed:
            self._flow.append(msgspec.Raw(passed))
        return counts, passed

    def page(self) -> HistoryPage:
        return HistoryPage(list(self._queue), list(self._flow))
