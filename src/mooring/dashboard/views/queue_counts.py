"""How many pods wait where in the queue."""

import msgspec

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
    in_flight = core.queue.in_flight_count + len(core.bindings) - 2 * waiting
    return QueueSample(
        time, counts["active"], counts["backoff"], counts["unschedulable"], counts["gated"], max(in_flight, 0), waiting
    )


def queue_activity(scheduler: Scheduler) -> tuple[int, ...]:
    """Differs from an earlier one if pods have moved in the queue since."""
    queue = scheduler.core.queue
    return queue.attempts, sum(queue.counters.incoming.values()), *queue.pending_counts().values()
