"""What the scheduler wants done in the world. It does none of it itself: a driver does, and reports what came of it."""

from dataclasses import dataclass
from typing import Literal

from mooring.model.meta import Condition
from mooring.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod to the node, then report to `Scheduler.bound`."""

    pod: Pod
    node_name: str


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a condition into the pod's status (none: leave them), and its nominated node (None: leave it)."""

    pod: Pod
    condition: Condition | None = None
    nominated_node_name: str | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a victim of preemption after marking why, then report to `Scheduler.evicted`."""

    victim: Pod
    preemptor: Pod
    condition: Condition


@dataclass(frozen=True, slots=True)
class Record:
    """Record a Kubernetes event about the pod."""

    pod: Pod
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


Intent = Bind | PatchStatus | Evict | Record
