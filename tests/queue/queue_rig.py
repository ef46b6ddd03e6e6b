"""A queue to test: a virtual clock whose ticks flush it, plugins that do as they are told, and all that was said."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from build import a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import NODE, POD, Action, Change, ClusterEvent, EventKeys, Registration
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Handle,
    Plugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from mooring.framework.contract.status import Rejection, final
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.heap import KeyedHeap
from mooring.model.pod import Pod
from mooring.queue.backoff import QueueSettings
from mooring.queue.entry import QueuedEntity, QueuedPod, QueueListeners
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S, SchedulingQueue

PROFILE = "default-scheduler"

NODE_ADD = ClusterEvent(NODE, Action.ADD)
NODE_LABEL = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)
NODE_CONDITION = ClusterEvent(NODE, Action.UPDATE_NODE_CONDITION)
POD_DELETE = ClusterEvent(POD, Action.DELETE)
POD_LABEL = ClusterEvent(POD, Action.UPDATE_POD_LABEL)
POD_TOLERATION = ClusterEvent(POD, Action.UPDATE_POD_TOLERATION)
GATES_ELIMINATED = ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


class ByPriority(QueueSortPlugin):
    name = "ByPriority"

    def sort_key(self, pod: Pod, queued_at: float) -> Any:
        return -pod.priority, queued_at


class Listener(Plugin):
    """Registers the events it is given; its hints say what `answer` says and note what they were asked."""

    def __init__(self, events: Sequence[ClusterEvent] | None, hinted: bool = True) -> None:
        self.registered = events
        self.hinted = hinted
        self.answer: bool | Exception = True
        self.asked: list[str] = []
        self.changes: list[Change] = []
        self.keys: EventKeys | None = None

    def events(self) -> Sequence[Registration] | None:
        if self.registered is None:
            return None
        return [Registration(event, self.hint if self.hinted else None, self.keys) for event in self.registered]

    def hint(self, pod: Pod, change: Change) -> bool:
        self.asked.append(pod.name)
        self.changes.append(change)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class FakeFilter(Listener, FilterPlugin):
    def filter(self, context: Any, rows: Rows) -> Codes | None:
        return None

    def rejection(self, context: Any, code: int) -> NoReturn:
        raise NotImplementedError


class FakeScore(Listener, ScorePlugin):
    def score(self, context: Any, rows: Rows) -> Scores | None:
        return None


class FakeGate(Listener, PreEnqueuePlugin):
    """Holds back the pods that `objects_to` names, by default those with scheduling gates."""

    def __init__(self, events: Sequence[ClusterEvent] | None) -> None:
        super().__init__(events)
        self.objects_to: Callable[[Pod], bool] = lambda pod: bool(pod.spec.scheduling_gates)
        self.error: Exception | None = None
        self.seen: list[str] = []

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        self.seen.append(pod.name)
        if self.error is not None:
            raise self.error
        return final(f"{self.name} says no") if self.objects_to(pod) else None


def a_filter(name: str, *events: ClusterEvent, hinted: bool = True, silent: bool = False) -> FakeFilter:
    """A filter plugin that registers these events; a silent one does not say which."""
    made: FakeFilter = type(name, (FakeFilter,), {"name": name})(None if silent else events, hinted)
    return made


def a_score(name: str) -> FakeScore:
    made: FakeScore = type(name, (FakeScore,), {"name": name})(None)
    return made


def a_gate(name: str, *events: ClusterEvent) -> FakeGate:
    made: FakeGate = type(name, (FakeGate,), {"name": name})(events)
    return made


def a_profile(*plugins: Plugin, name: str = PROFILE) -> Profile:
    gates = tuple(plugin for plugin in plugins if isinstance(plugin, PreEnqueuePlugin))
    filters = tuple(plugin for plugin in plugins if isinstance(plugin, FilterPlugin))
    points: dict[str, tuple[Plugin, ...]] = {
        "queueSort": (ByPriority(None, Handle()),),
        "preEnqueue": gates,
        "filter": filters,
    }
    return Profile(name, None, points, plugins={plugin.name: plugin for plugin in plugins})


def a_pending(name: str = "pod", priority: int = 0, uid: str | None = None, **more: Any) -> Pod:
    """A pod of the test profile, with a uid."""
    return a_pod(
        name,
        metadata={"uid": f"uid-{name}" if uid is None else uid, **more.pop("metadata", {})},
        **{"schedulerName": PROFILE, "priority": priority, **more},
    )


def lose(heap: KeyedHeap[QueuedEntity], entry: QueuedEntity) -> None:
    """Make a heap lose an entry: the record that it knows of is another one than it has."""
    heap.live[entry.key] = (*heap.live[entry.key][:4], entry)


class Rig:
    """A queue with everything around it. `fit` is a filter that hears of nodes and of pods that go."""

    def __init__(
        self, *plugins: Plugin, profiles: Mapping[str, Profile] | None = None, tells: bool = True, **more: Any
    ) -> None:
        """`more` are further arguments of the queue, or fields of its settings."""
        fields = {name: more.pop(name) for name in QueueSettings.__dataclass_fields__.keys() & more.keys()}
        self.fit = a_filter("Fit", NODE_ADD, POD_DELETE)
        self.gate = a_gate("Gate", GATES_ELIMINATED)
        self.clock = VirtualClock()
        self.known: dict[str, Pod] = {}
        self.stories: list[str] = []
        self.reports: list[tuple[str, Exception | None]] = []
        self.queue = SchedulingQueue(
            self.clock,
            profiles or {PROFILE: a_profile(self.gate, self.fit, *plugins)},
            cluster=Cluster(),
            lookup=self.known.get,
            listeners=QueueListeners(
                tell=(lambda pod, what: self.stories.append(f"{pod.name}: {what}")) if tells else None,
                report=lambda text, error: self.reports.append((text, error)),
            ),
            settings=QueueSettings(**fields),
            **more,
        )

    @property
    def now_s(self) -> float:
        return self.clock.now_ns() / NS_PER_S

    def at(self, time_s: float, *, ticks: bool = True) -> None:
        """Let time pass until then: completed backoffs are flushed each second, unschedulable pods every 30."""
        until_ns = round(time_s * NS_PER_S)
        while ticks and (tick_ns := (self.clock.now_ns() // NS_PER_S + 1) * NS_PER_S) <= until_ns:
            self.clock.advance_ns(tick_ns - self.clock.now_ns())
            self.queue.flush_backoff()
            if tick_ns % (UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S) == 0:
                self.queue.flush_unschedulable()
        self.clock.advance_ns(until_ns - self.clock.now_ns())

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.known[pod.key] = pod
            self.queue.add(pod)

    def pop(self) -> QueuedPod:
        entry = self.queue.pop()
        assert isinstance(entry, QueuedPod)
        return entry

    def reject(self, entry: QueuedPod, *plugins: str, pending: Sequence[str] = ()) -> str:
        """The attempt failed: rejected by these plugins, or if there are none with an error."""
        entry.reject_by(plugins, pending)
        return self.queue.add_unschedulable(entry)

    def fail(self, entry: QueuedPod) -> str:
        return self.reject(entry)

    def unschedulable(self, pod: Pod, *plugins: str, pending: Sequence[str] = ()) -> QueuedPod:
        """Add a pod, try it, and have it rejected by these plugins; by Fit if none are named."""
        self.add(pod)
        entry = self.pop()
        assert entry.pod is pod
        self.reject(entry, *(plugins if plugins or pending else ("Fit",)), pending=pending)
        return entry

    def where(self, name: str = "pod") -> str | None:
        return self.queue.where(f"default/{name}")

    def end(self) -> None:
        """The queue is in order, and nothing happened that should not."""
        assert self.queue.check() == []
        assert self.reports == []
