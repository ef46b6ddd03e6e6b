"""A cluster in which everything takes time: an API server whose watch, answers and clients are late.

What the scheduler wants is only a request until `execute` carries it out, what became of it only an answer until
`answer` hands it over, and a change of an object is known to the scheduler only once `deliver` shows it. Between
objects any order can come up; for one object the order is kept.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, Evict, Intent, PatchStatus, Record
from mooring.framework.contract.points import PermitPlugin, Wait
from mooring.framework.contract.status import Rejection, curable
from mooring.framework.kept.feasible import PASSED
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import Condition, KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.shape import HostPort
from mooring.plugins import in_tree
from mooring.queue.entry import QueuedPod
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S
from mooring.rules.conditions import with_typed_condition
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, NoFit, Placement
from mooring.scheduler.inputs import (
    BindAnswered,
    EvictionAnswered,
    HalfMinutePassed,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
)
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import Recorder, build_runners, build_scheduler

DEFAULT, CAREFUL = "default-scheduler", "careful-scheduler"
CALL_NS = 1_000_000
"""Each call of the scheduler takes a millisecond, so no two things happen at the same time."""

MANY_ATTEMPTS = 400
"""More attempts than this without a change from outside are a loop."""

Mood = Literal["go", "wait", "refuse"]
BindOutcome = Literal["bound", "failed", "bound but the answer was lost"]


class Gatekeeper(PermitPlugin):
    """Lets pods go, makes them wait, or refuses them, as its mood is."""

    name = "Gatekeeper"
    mood: Mood = "wait"

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        if self.mood == "wait":
            return Wait(10)
        return None if self.mood == "go" else curable("not today")


CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": DEFAULT},
            {"schedulerName": CAREFUL, "plugins": {"permit": {"enabled": [{"name": "Gatekeeper"}]}}},
        ],
    }
)


def registry() -> Registry:
    plugins = in_tree()
    plugins.register(Gatekeeper)
    return plugins


@dataclass(frozen=True, slots=True)
class Cause:
    """What the scheduler was told, or did: an object before and after, or words about something else."""

    what: str
    old: KubeObject | None = None
    new: KubeObject | None = None
    left: tuple[Pod, ...] = ()
    """Pods that hold no room on a node any more, and are promised none; or are not the same any more."""
    came: tuple[Pod, ...] = ()
    """Pods that hold room on a node, or are promised one, only since then."""

    def __str__(self) -> str:
        item = self.new or self.old
        if item is None:
            return self.what
        return f"{type(item).__name__} {item.key} {self.what}{_difference(self.old, self.new)}"


def _difference(old: KubeObject | None, new: KubeObject | None) -> str:
    if old is None or new is None:
        return f": {msgspec.json.encode(new or old).decode()}"
    before, now = msgspec.to_builtins(old), msgspec.to_builtins(new)
    parts = [(part, field) for part in ("metadata", "spec", "status") for field in {**before[part], **now[part]}]
    changed = [
        f"{field}: {before[part].get(field)} -> {now[part].get(field)}"
        for part, field in parts
        if before[part].get(field) != now[part].get(field) and field != "resourceVersion"
    ]
    return f" ({'; '.join(changed)})"


@dataclass(slots=True)
class UnschedulableSince:
    """What happened to the verdicts about a pod since it was unschedulable."""

    timestamp_ns: int
    verdicts: dict[str, int] | None = None
    """Node -> the filter that rejects it, by its place in the profile."""
    turns: list[Cause] = field(default_factory=list)
    """The call that unschedulable it (the pod's own victims may leave in it), and all that changed a verdict since."""

    def note(self, decision: Decision, names: list[str], cause: Cause) -> None:
        verdicts = _verdicts(decision, names)
        if self.verdicts != verdicts:
            self.turns.append(cause)
        self.verdicts = verdicts


def _verdicts(decision: Decision, names: list[str]) -> dict[str, int]:
    if isinstance(decision, Placement):
        return {decision.node: PASSED}
    failure = decision.failure if isinstance(decision, NoFit) else None
    if failure is None or failure.verdicts is None:
        return {}
    return {name: int(first) for name, first in zip(names, failure.verdicts.first, strict=False)}


Ref = tuple[type[KubeObject], str]


class DelayedCluster:
    """The API server's objects, what is on its way to and from the scheduler, and the clock."""

    def __init__(
        self, recorder: Callable[[int], Recorder] | None = None, plugins: Callable[[], Registry] = registry
    ) -> None:
        """`recorder` is made for the time of the beginning."""
        self.clock = VirtualClock(1_769_904_000 * NS_PER_S)
        self.stories: dict[str, list[str]] = defaultdict(list)
        self.reports: list[str] = []
        self.scheduler = build_scheduler(
            CONFIG,
            self.clock,
            plugins(),
            recorder=None if recorder is None else recorder(self.clock.now_ns()),
            listeners=SchedulerListeners(
                tell=lambda pod, text: self.stories[pod.key].append(f"{self.elapsed_s:7.3f} {text}"),
                report=lambda text, error: self.reports.append(f"{self.elapsed_s:7.3f} {text}: {error}"),
            ),
        )
        keeper = self.scheduler.core.runners[CAREFUL].profile.plugins["Gatekeeper"]
        assert isinstance(keeper, Gatekeeper)
        self.gatekeeper = keeper
        self.began_ns = self.clock.now_ns()
        self.store: dict[Ref, KubeObject] = {}
        self.watch: dict[Ref, deque[tuple[str, KubeObject]]] = defaultdict(deque)
        """Changes that the scheduler has yet to see."""
        self.seen: dict[Ref, KubeObject] = {}
        self.requests: dict[str, deque[Intent]] = defaultdict(deque)
        """By pod: what the scheduler wants and nobody has done yet."""
        self.answers: dict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self.unschedulable_since: dict[str, UnschedulableSince] = {}
        """By uid."""
        self.shared_ports: set[HostPort] = set()
        """Ports that two pods of a node have held at the same time, which only others than the scheduler can bring
        about. Parity: the first of them that leaves frees the port (cache.md §1); who was not there knows better."""
        self._judges = build_runners(CONFIG, registry())
        self._version = 0
        self._seconds = 0

    @property
    def elapsed_s(self) -> float:
        return (self.clock.now_ns() - self.began_ns) / NS_PER_S

    # ---- Objects, as the API server has them

    def pods(self) -> list[Pod]:
        return [item for item in self.store.values() if isinstance(item, Pod)]

    def nodes(self) -> list[Node]:
        return [item for item in self.store.values() if isinstance(item, Node)]

    def create(self, item: KubeObject) -> None:
        self._put("added", item)

    def change(self, item: KubeObject) -> None:
        self._put("updated", item)

    def delete(self, item: KubeObject) -> None:
        """The object is gone at once."""
        ref = _ref(item)
        if ref in self.store and self.store[ref].uid == item.uid:
            self.watch[ref].append(("removed", self.store.pop(ref)))

    def terminate(self, pod: Pod) -> None:
        """The pod is on its way out; `delete` ends that."""
        if not pod.is_terminating:
            metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-02-01T00:00:00Z")
            self.change(Pod(metadata=metadata, spec=pod.spec, status=pod.status))

    def finish(self, pod: Pod) -> None:
        """The pod has run to its end: the watch, which leaves such pods out, shows it no more."""
        self.change(Pod(metadata=pod.metadata, spec=pod.spec, status=_replaced(pod.status, phase="Succeeded")))
        del self.store[_ref(pod)]

    def bind(self, pod: Pod, node_name: str) -> None:
        conditions = with_typed_condition(pod.status.conditions, Condition(type="PodScheduled", status="True"))
        status = _replaced(pod.status, conditions=conditions, nominated_node_name="")
        self.change(Pod(metadata=pod.metadata, spec=pod.spec, status=status).with_node(node_name))

    def _put(self, what: str, item: KubeObject) -> None:
        self._version += 1
        metadata = msgspec.structs.replace(item.metadata, resource_version=str(self._version))
        if isinstance(item, Pod):
            item = Pod(metadata=metadata, spec=item.spec, status=item.status)
        else:
            item = msgspec.structs.replace(item, metadata=metadata)
        self.store[_ref(item)] = item
        self.watch[_ref(item)].append((what, item))

    def in_the_middle(self) -> list[Pod]:
        """Pods with which the scheduler is not through."""
        core = self.scheduler.core
        ids = {*core.bindings, *core.evictions.by_preemptor, *(pod.id for pod in self._promised())}
        ids.update(victim for eviction in core.evictions.by_preemptor.values() for victim in eviction.victims)
        return [pod for pod in self.pods() if pod.id in ids]

    # ---- What is on its way

    def unseen(self) -> list[Ref]:
        return [ref for ref, changes in self.watch.items() if changes]

    def requested(self) -> list[str]:
        return [key for key, intents in self.requests.items() if intents]

    def unanswered(self) -> list[str]:
        return [key for key, answers in self.answers.items() if answers]

    def deliver(self, ref: Ref, miss_deletion: bool = False) -> None:
        """The watch shows the next change of an object; of a deletion and what came after it perhaps only the latter."""
        changes = self.watch[ref]
        what, item = changes.popleft()
        old = self.seen.get(ref)
        if what == "removed" and miss_deletion and changes:
            what, item = changes.popleft()
        if what == "removed":
            assert old is not None
            del self.seen[ref]
            self._call(Cause("was removed", item), lambda: self.scheduler.handle(ObjectRemoved(item)))
        elif old is None:
            self.seen[ref] = item
            self._call(Cause("was added", None, item), lambda: self.scheduler.handle(ObjectAdded(item)))
        else:
            self.seen[ref] = item
            if isinstance(item, Pod) and item.is_finished:
                del self.seen[ref]
            self._call(Cause("was updated", old, item), lambda: self.scheduler.handle(ObjectUpdated(old, item)))

    def execute(self, key: str, bind: BindOutcome = "bound", evicts: bool = True, gracefully: bool = False) -> None:
        """Do the next thing that is wanted of a pod."""
        match self.requests[key].popleft():
            case Bind() as intent:
                self._bind(intent, bind)
            case PatchStatus() as intent:
                self._patch(intent.pod, intent.condition, intent.nominated_node_name)
            case Evict() as intent:
                self._evict(intent, evicts, gracefully)

    def answer(self, key: str) -> None:
        """The scheduler learns what became of something that it wanted."""
        self.answers[key].popleft()()

    def _bind(self, intent: Bind, outcome: BindOutcome) -> None:
        pod = self._current(intent.pod)
        fault = _fault_of_bind(intent, pod) or (None if outcome == "bound" else "the server is on fire")
        if pod is not None and _fault_of_bind(intent, pod) is None and outcome != "failed":
            self.bind(pod, intent.node_name)
        words = Cause(f"the binding of {intent.pod.key} to {intent.node_name} ended: {fault or 'bound'}")
        self._expect(intent.pod.key, words, lambda: self.scheduler.handle(BindAnswered(intent.pod, fault)))

    def _patch(self, pod: Pod, condition: Condition | None, nominated: str | None) -> None:
        old = self._current(pod)
        if old is not None:
            status = old.status
            if condition is not None:
                status = _replaced(status, conditions=with_typed_condition(status.conditions, condition))
            if nominated is not None:
                status = _replaced(status, nominated_node_name=nominated)
            self.change(Pod(metadata=old.metadata, spec=old.spec, status=status))

    def _evict(self, intent: Evict, succeeds: bool, gracefully: bool) -> None:
        fault = None if succeeds else "the server is on fire"
        pod = self._current(intent.victim)
        if pod is not None and succeeds:
            self._patch(pod, intent.condition, None)
            pod = self._current(pod)
            assert pod is not None
            if gracefully:
                self.terminate(pod)
            else:
                self.delete(pod)
        words = Cause(f"the eviction of {intent.victim.key} ended: {fault or 'done'}")
        self._expect(
            intent.victim.key,
            words,
            lambda: self.scheduler.handle(EvictionAnswered(intent.victim, intent.preemptor, fault)),
        )

    def _current(self, pod: Pod) -> Pod | None:
        item = self.store.get(_ref(pod))
        return item if isinstance(item, Pod) and item.uid == pod.uid else None

    def _expect(self, key: str, cause: Cause, act: Callable[[], None]) -> None:
        self.answers[key].append(lambda: self._call(cause, act))

    # ---- The scheduler at work

    def attempt(self) -> None:
        def act() -> None:
            self.scheduler.attempt()

        self._call(Cause("an attempt was made"), act)

    def release(self) -> None:
        self._call(Cause("pods that waited on Permit were released"), self.scheduler.release_waiting)

    def pass_second(self) -> None:
        """To the next whole second, where flushes are due."""
        self.clock.advance_ns(NS_PER_S - self.clock.now_ns() % NS_PER_S)
        self._seconds += 1
        self._call(Cause("a second passed"), lambda: self.scheduler.handle(TimePassed()))
        if self._seconds % UNSCHEDULABLE_FLUSH_PERIOD_S == 0:
            self._call(Cause("half a minute passed"), lambda: self.scheduler.handle(HalfMinutePassed()))

    def _holders(self) -> list[Pod]:
        """The pods on nodes, and those that are promised one."""
        return self.scheduler.core.cluster.nodes.pods() + self._promised()

    def _promised(self) -> list[Pod]:
        core = self.scheduler.core
        return [
            pod
            for name in dict.fromkeys(core.queue.nominations.node_of_pod.values())
            for pod in core.cluster.nominated.on(name)
        ]

    def _call(self, cause: Cause, act: Callable[[], None]) -> None:
        self.clock.advance_ns(CALL_NS)
        before = self._holders()
        act()
        after = self._holders()
        cause = replace(cause, left=_without(before, after), came=_without(after, before))
        for intent in self.scheduler.take_intents():
            match intent:
                case Record():
                    assert len(intent.note.encode()) <= 1024
                case Evict():
                    self.requests[intent.victim.key].append(intent)
                case Bind() | PatchStatus():
                    self.requests[intent.pod.key].append(intent)
                case _:
                    raise AssertionError(f"nobody here asks for {intent}")
        self._note_verdicts(cause)
        for pods in self.scheduler.core.cluster.nodes.pods_on:
            held = Counter(port for pod in pods for port in pod.shape.host_ports)
            self.shared_ports.update(port for port, count in held.items() if count > 1)

    # ---- Rest

    def is_moving(self) -> bool:
        return bool(self.unseen() or self.requested() or self.unanswered() or self.scheduler.has_work())

    def come_to_rest(self) -> None:
        """Do and deliver everything, and let errors back off, until nothing happens any more."""
        self.gatekeeper.mood = "go"
        is_nudged = False
        for _ in range(MANY_ATTEMPTS):
            self._let_all_go()
            self._do_all()
            if self.is_moving() or len(self.scheduler.core.services.waiting):
                continue
            if self.nodes() and self.scheduler.core.queue.next_release_ns() is not None:
                self.pass_second()
            elif not is_nudged and self.nodes() and self._refused_by_gatekeeper():
                # Whom Permit refused waits for an event. A plugin that registers none hears of all, an annotation too,
                # which no other plugin wants to hear of (events.md §1).
                is_nudged = True
                self._annotate(self.nodes()[0])
            else:
                return
        raise AssertionError("the scheduler does not come to rest\n" + "\n".join(map(str, self.stories.items())))

    def _let_all_go(self) -> None:
        for waiting in self.scheduler.core.services.waiting:
            waiting.allow("Gatekeeper")
        self.release()

    def _do_all(self) -> None:
        for pod in self.pods():
            if pod.is_terminating:
                self.delete(pod)
        for key in self.requested():
            while self.requests[key]:
                self.execute(key)
        for ref in self.unseen():
            while self.watch[ref]:
                self.deliver(ref)
        for key in self.unanswered():
            while self.answers[key]:
                self.answer(key)
        for _ in range(MANY_ATTEMPTS):
            if not self.scheduler.has_work():
                return
            self.attempt()
        raise AssertionError("attempts without end\n" + "\n".join(map(str, self.stories.items())))

    def _refused_by_gatekeeper(self) -> bool:
        return any("Gatekeeper" in entry.rejectors for entry in self.scheduler.core.queue.entries())

    def _annotate(self, node: Node) -> None:
        metadata = msgspec.structs.replace(node.metadata, annotations={"seen": str(self._version)})
        self.change(msgspec.structs.replace(node, metadata=metadata))

    # ---- What another scheduler would do

    def fresh(self) -> Scheduler:
        """A scheduler that starts now, with all that the API server has."""
        scheduler = build_scheduler(CONFIG, self.clock, registry())
        for item in sorted(self.store.values(), key=lambda item: isinstance(item, Pod)):
            scheduler.handle(ObjectAdded(item))
        assert scheduler.check() == []
        return scheduler

    def unschedulable(self) -> list[QueuedPod]:
        """The pods that wait for an event."""
        queue = self.scheduler.core.queue
        return [entry for entry in queue.entries() if queue.where(entry.key) == "unschedulable"]

    def _note_verdicts(self, cause: Cause) -> None:
        """See what each unschedulable pod would be told now."""
        core, since = self.scheduler.core, {}
        for entry in self.unschedulable():
            decision = decide(self._judges[entry.profile], entry.pod, core.cluster, DecideOptions())
            told = since[entry.uid] = self.unschedulable_since.get(entry.uid) or UnschedulableSince(entry.timestamp_ns)
            if told.timestamp_ns != entry.timestamp_ns:
                told = since[entry.uid] = UnschedulableSince(entry.timestamp_ns)
            told.note(decision, core.cluster.nodes.names, cause)
        self.unschedulable_since = since


def verdict(scheduler: Scheduler, pod: Pod) -> Decision:
    """What a scheduler would decide about a pod now, without doing it."""
    core = scheduler.core
    return decide(core.runners[pod.spec.scheduler_name], pod, core.cluster, DecideOptions())


def _fault_of_bind(intent: Bind, pod: Pod | None) -> str | None:
    """What an API server objects to."""
    if pod is None:
        return f'pods "{intent.pod.name}" not found'
    if pod.is_terminating:
        return f"pod {pod.name} is being deleted, cannot be assigned to a host"
    if pod.spec.node_name:
        return f"pod {pod.name} is already assigned to node {pod.spec.node_name!r}"
    return None


def _without(pods: list[Pod], others: list[Pod]) -> tuple[Pod, ...]:
    known = {id(pod) for pod in others}
    return tuple(pod for pod in pods if id(pod) not in known)


def _ref(item: KubeObject) -> Ref:
    return type(item), item.key


def _replaced(status: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(status, **changes)
