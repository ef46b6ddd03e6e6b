"""A pod in the queue, with what the queue remembers of it from one attempt to the next."""

from collections.abc import Iterable
from typing import Literal

from mooring.framework.events import ClusterEvent
from mooring.model.pod import Pod

Place = Literal["active", "backoff", "unschedulable", "gated"]
"""Where a queued pod is; the words are labels of metrics."""


class QueuedPod:
    """A pod on its way to a node. It is made once and handed out by `pop`; whoever fails to place it parks it again.

    Times are nanoseconds of the scheduler's clock.
    """

    __slots__ = (
        "attempts",
        "backoff_until_ns",
        "began_ns",
        "consecutive_errors",
        "flushed_ns",
        "gating_events",
        "gating_message",
        "gating_plugin",
        "initial_attempt_ns",
        "key",
        "pending_plugins",
        "pod",
        "serves_backoff",
        "timestamp_ns",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod: Pod, now_ns: int) -> None:
        self.pod = pod
        self.key = pod.key
        self.uid = pod.id
        self.timestamp_ns = now_ns
        """When it was made, or came back from its last attempt. Moving between queues does not change it."""
        self.initial_attempt_ns: int | None = None
        """When it first became ready to be tried: gated pods have not."""
        self.attempts = 0
        self.began_ns = 0
        """When its present attempt began, where that is measured."""
        self.unschedulable_count = 0
        """How often it came back rejected by plugins; never reset."""
        self.consecutive_errors = 0
        """How often in a row it came back without a plugin to blame."""
        self.backoff_until_ns: int | None = None
        """The end of its backoff once somebody asked (backoff.py); void after each return."""
        self.serves_backoff = False
        """It stays in backoff to the end, also when nothing else waits."""
        self.unschedulable_plugins: tuple[str, ...] = ()
        self.pending_plugins: tuple[str, ...] = ()
        """Plugins that wait for an event: when it comes the pod is tried at once, without backoff."""
        self.gating_plugin = ""
        """The PreEnqueue plugin that holds it back; empty: none does."""
        self.gating_message = ""
        self.gating_events: tuple[ClusterEvent, ...] = ()
        self.was_flushed = False
        """It owes its present chance to the flush of pods that waited too long."""
        self.flushed_ns = 0

    @property
    def profile(self) -> str:
        """The name of the profile that is to schedule it."""
        return self.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> tuple[str, ...]:
        """All plugins that rejected it in its last attempt, or gated it since, each once."""
        pending = self.pending_plugins
        if not pending:
            return self.unschedulable_plugins
        return pending + tuple(name for name in self.unschedulable_plugins if name not in pending)

    def reject_by(self, plugins: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Note who rejected it in the attempt that just failed; none: the attempt ended in an error."""
        self.unschedulable_plugins = tuple(sorted(set(plugins)))
        self.pending_plugins = tuple(sorted(set(pending)))
        self.gating_plugin = self.gating_message = ""
        self.gating_events = ()

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, attempts={self.attempts}, rejectors={list(self.rejectors)})"
