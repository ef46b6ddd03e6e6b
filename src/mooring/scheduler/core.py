"""The state that the parts of the scheduler share, with the outbox for intents.

The functions of bind, evict, intake, loop and pre_bind take a Core as their first argument. Code outside this package
uses Scheduler instead.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.cluster.cache import Cache
from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.points import PodListener, SchedulerServices
from mooring.kit.clock import Clock
from mooring.model.pod import Pod
from mooring.queue.entry import ReportFault, TellPod
from mooring.queue.queue import SchedulingQueue
from mooring.scheduler.decide import DecideOptions, deciding
from mooring.scheduler.decision import Decision
from mooring.scheduler.extender_asking import InterestedExtenders
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.observer import Observer
from mooring.scheduler.under_way import Binding, Evictions, ExtenderCalls, Outbox, PreBindRuns
from mooring.scheduler.without_lower import WithoutLower

Deciding = Callable[[Runner, Pod, Cluster, DecideOptions, int, InterestedExtenders | None], Steps[Decision]]
"""(runner, pod, cluster, options, seed of the attempt, interested extenders) -> the decision, in steps."""


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
    tell: TellPod | None = None
    """Receives the story of each pod, line by line; None: no story is wanted."""
    report: ReportFault = lambda text, error: None
    """Receives what should not have happened: contradictions in the watch, faults of plugins after the fact."""
    observer: Observer = field(default_factory=Observer)
    pods: dict[str, Pod] = field(default_factory=dict)
    """Every pod as the watch last showed it, by key; pods that have finished are not in it."""
    bindings: dict[str, Binding] = field(default_factory=dict)
    """By pod id: pods that wait on Permit, whose PreBind is at work, or whose Bind has not been answered."""
    extender_calls: ExtenderCalls = field(default_factory=ExtenderCalls)
    evictions: Evictions = field(default_factory=Evictions)
    plugin_listeners: list[PodListener] = field(default_factory=list)
    """Those of `services.pod_listeners` that plugins of the present profiles registered."""
    deciding: Deciding = deciding
    """Makes the decisions. A driver that wants to see each of them puts a generator around it."""
    without_lower: WithoutLower = field(default_factory=WithoutLower)
    """The cluster on which preemption tries pod groups."""
    is_observed: bool = field(init=False)
    """Whether the observer does anything. Hot: a pod that is bound has five calls of it, which are left out otherwise."""

    def __post_init__(self) -> None:
        self.is_observed = type(self.observer) is not Observer

    def story(self, pod: Pod, text: str) -> None:
        """Add a line to the story of a pod: the log of `mooring run` shows it at high verbosity, simulations keep
        it."""
        if self.tell is not None:
            self.tell(pod, text)
