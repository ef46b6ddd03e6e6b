"""What the parts of the scheduler share: its state, and the box into which intents go."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.cache import Cache
from mooring.framework.points import SchedulerServices
from mooring.framework.runner import Runner
from mooring.kit.clock import Clock
from mooring.model.pod import Pod
from mooring.queue.queue import SchedulingQueue
from mooring.scheduler.binding import Binding
from mooring.scheduler.decide import DecideOptions, deciding
from mooring.scheduler.decision import Decision
from mooring.scheduler.evictions import Evictions
from mooring.scheduler.extenders.calls import ExtenderCalls
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.observer import Observer
from mooring.scheduler.outbox import Outbox
from mooring.scheduler.pre_bind_runs import PreBindRuns

Tell = Callable[[Pod, str], None]
Report = Callable[[str, Exception | None], None]
Deciding = Callable[[Runner, Pod, Cluster, DecideOptions, int, InterestedExtenders | None], Steps[Decision]]


@dataclass(slots=True)
class Core:
    """The state of a scheduler. One thread owns it: nothing here locks, waits or reads a clock of its own."""

    clock: Clock
    cluster: Cluster
    cache: Cache
    queue: SchedulingQueue
    runners: dict[str, Runner]
    services: SchedulerServices
    options: DecideOptions
    outbox: Outbox
    pre_bind: PreBindRuns
    """The bindings whose PreBind is at work."""
    tell: Tell | None = None
    """Told the story of each pod."""
    report: Report = lambda text, error: None
    """Told what should not have happened."""
    observer: Observer = field(default_factory=Observer)
    pods: dict[str, Pod] = field(default_factory=dict)
    """Every pod as the watch last showed it, by key."""
    bindings: dict[str, Binding] = field(default_factory=dict)
    """By pod id: pods that wait on Permit, whose PreBind is at work, or whose Bind has not been answered."""
    extender_calls: ExtenderCalls = field(default_factory=ExtenderCalls)
    evictions: Evictions = field(default_factory=Evictions)
    deciding: Deciding = deciding
    """Makes the decisions. A driver that wants to see each of them puts a generator around it."""

    def story(self, pod: Pod, text: str) -> None:
        if self.tell is not None:
            self.tell(pod, text)
