"""What the parts of the scheduler share: its state, and the box into which intents go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.cache import Cache
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.config.types import Extender
from mooring.framework.cycle import Cycle
from mooring.framework.intents import Intent, WriteFault
from mooring.framework.points import Desk, Pause, PostFilterPlugin, PreBindPlugin, Work
from mooring.framework.runner import Runner
from mooring.kit.clock import Clock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.queue.queue import SchedulingQueue
from mooring.scheduler.decide import Manner, deciding
from mooring.scheduler.decision import Decision
from mooring.scheduler.extenders.interest import Panel
from mooring.scheduler.extenders.steps import Steps, Suspension
from mooring.scheduler.observer import Observer

Tell = Callable[[Pod, str], None]
Report = Callable[[str, Exception | None], None]
Deciding = Callable[[Runner, Pod, Cluster, Manner, int, Panel | None], Steps[Decision]]


@dataclass(slots=True)
class Binding:
    """A pod on its way from a decision to its node."""

    entry: QueuedPod
    pod: Pod
    """As it is assumed: with its node."""
    runner: Runner
    cycle: Cycle
    has_waited: bool = False
    """On Permit, or for the work of PreBind: then the pod's status was asked to name the node."""
    step_began_ns: int = 0
    """When its present step (the wait on Permit, PreBind, Bind) began, as the caller of its plugins says."""

    @property
    def node_name(self) -> str:
        return self.pod.spec.node_name


@dataclass(slots=True)
class Preparation:
    """A binding whose PreBind is at work: it waits for a write of its own, or for news."""

    binding: Binding
    plugin: PreBindPlugin
    work: Work
    others: Iterator[PreBindPlugin]
    """The plugins that are to follow."""
    then: Callable[["Core", Binding, Any], None]
    """Told in the end why the pod cannot be bound, if so."""
    token: int = 0
    """The write that it waits for; 0: none."""
    late: Callable[[KubeObject | WriteFault | None], None] | None = None
    """Who is to be told the answer to that write if the work is stopped before."""
    pause: Pause | None = None


@dataclass(slots=True)
class Eviction:
    """The victims that have yet to be evicted to make room for a pod."""

    preemptor: Pod
    victims: set[str]
    plugin: PostFilterPlugin
    has_failed: bool = False


@dataclass(slots=True)
class Core:
    """The state of a scheduler. One thread owns it: nothing here locks, waits or reads a clock of its own."""

    clock: Clock
    cluster: Cluster
    cache: Cache
    queue: SchedulingQueue
    runners: dict[str, Runner]
    desk: Desk
    nominated: NominatedLoad
    manner: Manner
    tell: Tell | None = None
    """Told the story of each pod."""
    report: Report = lambda text, error: None
    """Told what should not have happened."""
    observer: Observer = field(default_factory=Observer)
    pods: dict[str, Pod] = field(default_factory=dict)
    """Every pod as the watch last showed it, by key."""
    outbox: list[Intent] = field(default_factory=list)
    bindings: dict[str, Binding] = field(default_factory=dict)
    """By pod id: pods that wait on Permit, whose PreBind is at work, or whose Bind has not been answered."""
    preparations: dict[str, Preparation] = field(default_factory=dict)
    """By pod id: the bindings whose PreBind is at work."""
    looked_ns: int = 0
    """When all of them were last let go on."""
    last_token: int = 0
    writers: dict[int, tuple[str, tuple[type[KubeObject], str]]] = field(default_factory=dict)
    """Token of a write -> id of the pod whose PreBind waits for it, and kind and key of what is written."""
    late_writes: dict[int, Callable[[KubeObject | WriteFault | None], None]] = field(default_factory=dict)
    """Token of a write whose PreBind was stopped -> who wants to know the answer all the same."""
    watchers: dict[tuple[type[KubeObject], str], dict[str, None]] = field(default_factory=dict)
    """Kind and key of an object -> ids of the pods whose PreBind waits for it to change, in order of arrival."""
    suspension: Suspension | None = None
    """The attempt that waits for extenders, if one does."""
    binder_calls: dict[int, tuple[Binding, Extender]] = field(default_factory=dict)
    """Token of a call -> the binding that an extender was asked to carry out."""
    evictions: dict[str, Eviction] = field(default_factory=dict)
    """By id of the preemptor."""
    deciding: Deciding = deciding
    """Makes the decisions. A driver that wants to see each of them puts a generator around it."""

    def story(self, pod: Pod, text: str) -> None:
        if self.tell is not None:
            self.tell(pod, text)
