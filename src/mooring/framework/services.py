"""What plugins can ask of the running scheduler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mooring.cluster.cluster import Cluster
from mooring.framework.intents import Intent
from mooring.framework.waiting import WaitingPods
from mooring.model.pod import Pod


@dataclass(frozen=True, slots=True)
class SchedulerServices:
    """One for all profiles. It exists before the plugins are built; without a scheduler behind it, it does nothing."""

    cluster: Cluster = field(default_factory=Cluster)
    """The cluster that decisions are made on, for points that are not handed it."""
    waiting: WaitingPods = field(default_factory=WaitingPods)
    """Pods that Permit plugins hold back: look at them, allow them, reject them."""
    now_ns: Callable[[], int] = lambda: 0
    """The time on the scheduler's clock."""
    activate: Callable[[Sequence[Pod]], None] = lambda pods: None
    """Have these pods tried again without delay. That happens when the present input or attempt has been dealt with."""
    want: Callable[[Intent], None] = lambda intent: None
    """Have something done in the world. A plugin that needs the answer yields a Write in PreBind instead."""
