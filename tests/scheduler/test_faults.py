"""Plugins that fail, answer nonsense or name nodes that are not there: one attempt fails, and nothing else does."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from build import a_node, a_pod
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework import config
from mooring.framework.contract.context import FitError, SchedulingContext
from mooring.framework.contract.events import NODE, Action, ClusterEvent, Registration
from mooring.framework.contract.intents import Bind, Evict, Intent, PatchStatus
from mooring.framework.contract.points import (
    BindPlugin,
    Codes,
    FilterPlugin,
    Nomination,
    NoRoom,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Wait,
)
from mooring.framework.contract.status import SKIP, Code, PluginError, Rejection, curable, final
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.scheduler.inputs import (
    BindAnswered,
    EvictionAnswered,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
)
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

BOOM = PluginError("boom")
POINTS = (
    "preEnqueue",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "postBind",
)
NEUTRAL: dict[str, Any] = {"bind": SKIP, "post_filter": NoRoom(Rejection((), Code.Unschedulable))}


class Bad(
    PreEnqueuePlugin,
    PreFilterExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Is at every point, and does harm at the one that the test names, to pods whose name begins with `bad`."""

    name = "Bad"

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}

    def answer(self, point: str, pod: Pod, *args: Any) -> Any:
        if not pod.name.startswith("bad"):
            return NEUTRAL.get(point)
        answer = self.says.get(point, NEUTRAL.get(point))
        if isinstance(answer, Exception):
            raise answer
        return answer(*args) if callable(answer) else answer

    def events(self) -> Sequence[Registration]:
        return [Registration(ClusterEvent(NODE, Action.ADD), lambda pod, change: bool(self.answer("hint", pod)))]

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        found: Rejection | None = self.answer("pre_enqueue", pod)
        return found

    def pre_filter(self, context: SchedulingContext) -> Any:
        return self.answer("pre_filter", context.pod)

    def add_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        self.answer("add_pod", context.pod)

    def remove_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        self.answer("remove_pod", context.pod)

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        found: Codes | None = self.answer("filter", context.pod, len(context.nodes.alive[rows]))
        return found

    def demand(self, context: SchedulingContext) -> Any:
        return self.answer("demand", context.pod)

    def counted_rows(self, context: SchedulingContext, tallies: PodTallies) -> Any:
        return self.answer("counted_rows", context.pod)

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        found: Rejection = self.answer("rejection", context.pod)
        return found

    def post_filter(self, failure: FitError) -> Any:
        return self.answer("post_filter", failure.context.pod)

    def eviction_began(self, pod: Pod) -> None:
        self.answer("eviction_began", pod)

    def eviction_ended(self, pod: Pod) -> None:
        self.answer("eviction_ended", pod)

    def pre_score(self, context: SchedulingContext, rows: Rows) -> Any:
        return self.answer("pre_score", context.pod)

    def score(self, context: SchedulingContext, rows: Rows) -> Any:
        return self.answer("score", context.pod, len(context.nodes.alive[rows]))

    def normalize(self, context: SchedulingContext, scores: Any, rows: Rows) -> Any:
        found = self.answer("normalize", context.pod, scores)
        return scores if found is None else found

    def reserve(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("reserve", context.pod)

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self.answer("unreserve", context.pod)

    def permit(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("permit", context.pod)

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("pre_bind", context.pod)

    def bind(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("bind", context.pod)

    def post_bind(self, context: SchedulingContext, node_name: str) -> None:
        self.answer("post_bind", context.pod)


_ENABLED = {"enabled": [{"name": "Bad"}]}
_BINDERS = {"disabled": [{"name": "*"}], "enabled": [{"name": "Bad"}, {"name": "DefaultBinder"}]}
CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "default-scheduler", "plugins": {**dict.fromkeys(POINTS, _ENABLED), "bind": _BINDERS}}
        ],
    }
)


class World:
    """Two nodes of four cores, a scheduler with a bad plugin, and a driver that binds at once."""

    def __init__(self, says: dict[str, Any] | None = None) -> None:
        self.bad = Bad()
        self.bad.says = says or {}
        self.reports: list[str] = []
        self.intents: list[Intent] = []
        registry = in_tree()
        registry.register_factory("Bad", lambda args, handle: self.bad)
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.scheduler = build_scheduler(
            CONFIG,
            self.clock,
            registry,
            listeners=SchedulerListeners(report=lambda text, error: self.reports.append(f"{text}: {error}")),
        )
        self.core, self.queue = self.scheduler.core, self.scheduler.core.queue
        for name in ("n1", "n2"):
            self.scheduler.handle(ObjectAdded(a_node(name, cpu="4")))

    def add(self, pod: Pod) -> Pod:
        self.scheduler.handle(ObjectAdded(pod))
        return pod

    def work(self, binds: bool = True) -> None:
        """All attempts that can be made now, and what they lead to."""
        for _ in range(20):
            self.scheduler.release_waiting()
            intents = self.scheduler.take_intents()
            self.intents += intents
            for intent in intents:
                if isinstance(intent, Bind) and binds:
                    self.scheduler.handle(BindAnswered(intent.pod))
            if not intents and self.scheduler.attempt() is None:
                assert self.scheduler.check() == []
                return
        raise AssertionError("attempts without end")

    def told(self, pod: Pod) -> list[tuple[str | None, str | None]]:
        """Reason and message of the conditions that were written."""
        patches = [i for i in self.intents if isinstance(i, PatchStatus) and i.pod.id == pod.id and i.condition]
        return [(i.condition.reason, i.condition.message) for i in patches if i.condition]

    def node_of(self, pod: Pod) -> str | None:
        held = self.core.cache.get(pod.id)
        return None if held is None else held.spec.node_name


def a_pending(name: str, cpu: str = "1", **more: Any) -> Pod:
    metadata = {"uid": f"uid-{name}", "resourceVersion": "1"}
    return a_pod(name, cpu=cpu, metadata=metadata, schedulerName="default-scheduler", **more)


def bad_array(*values: int) -> Any:
    return np.array(values, np.int64)


# ---- one failed attempt, with the plugin named

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "PreFilter raises": ({"pre_filter": BOOM}, 'running PreFilter plugin "Bad": boom'),
    "PreFilter answers nonsense": ({"pre_filter": 7}, 'running PreFilter plugin "Bad": unexpected answer 7'),
    "Filter raises": ({"filter": BOOM}, 'running "Bad" filter plugin: boom'),
    "Filter answers for too few nodes": (
        {"filter": lambda count: bad_array(1)},
        'running "Bad" filter plugin: 1 codes for 2 nodes',
    ),
    "a code means nothing": (
        {"filter": lambda count: np.ones(count, np.int64), "rejection": BOOM},
        'running "Bad" filter plugin: boom',
    ),
    "PreScore raises": ({"pre_score": BOOM}, 'running PreScore plugin "Bad": boom'),
    "Score raises": ({"score": BOOM}, 'running Score plugins: plugin "Bad" failed with: boom'),
    "Score answers for too many nodes": (
        {"score": lambda count: bad_array(1, 2, 3)},
        'running Score plugins: plugin "Bad" failed with: 3 scores for 2 nodes',
    ),
    "Normalize raises": (
        {"normalize": BOOM},
        'running Normalize on Score plugins: plugin "Bad" failed with: boom',
    ),
    "a score is out of range": (
        {"score": lambda count: bad_array(0, 101)},
        'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score 101, '
        "it should in the range of [0, 100] after normalizing",
    ),
    "Reserve raises": ({"reserve": BOOM}, 'running Reserve plugin "Bad": boom'),
    "Reserve answers nonsense": ({"reserve": 7}, 'running Reserve plugin "Bad": unexpected answer 7'),
    "Permit raises": ({"permit": BOOM}, 'running Permit plugin "Bad": boom'),
    "Permit answers nonsense": ({"permit": "soon"}, "running Permit plugin \"Bad\": unexpected answer 'soon'"),
    "Permit asks for a nonsensical wait": (
        {"permit": Wait("soon")},  # type: ignore[arg-type]
        "running Permit plugin \"Bad\": unexpected answer Wait(timeout_s='soon', reason='')",
    ),
    "PreBind raises": ({"pre_bind": BOOM}, 'running PreBind plugin "Bad": boom'),
    "PreBind answers nonsense": ({"pre_bind": 7}, 'running PreBind plugin "Bad": unexpected answer 7'),
    "Bind raises": ({"bind": BOOM}, 'running Bind plugin "Bad": boom'),
    "Bind answers nonsense": ({"bind": True}, 'running Bind plugin "Bad": unexpected answer True'),
}


@pytest.mark.parametrize(("says", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_one_failed_attempt(says: dict[str, Any], text: str) -> None:
    world = World(says)
    bad, good = world.add(a_pending("bad")), world.add(a_pending("good"))
    world.work()
    assert world.told(bad) == [("SchedulerError", text)]
    assert world.queue.where(bad.key) == "backoff"
    assert world.node_of(bad) is None
    assert world.node_of(good) is not None, "others are scheduled all the same"
    assert not world.core.bindings
    assert not world.queue.is_in_flight(bad.id)
    world.bad.says = {}
    world.clock.advance_ns(2 * NS_PER_S)
    world.scheduler.handle(TimePassed())
    world.work()
    assert world.node_of(bad) is not None, "it comes again when its backoff is over"


FULL = "0/2 nodes are available: 2 Insufficient cpu."
ROOM: dict[str, tuple[Any, str]] = {
    "PostFilter raises": (KeyError("boom"), "running PostFilter plugin \"Bad\": KeyError: 'boom'"),
    "PostFilter cannot do its work": (PluginError("not found"), "not found"),
    "PostFilter answers nonsense": (7, 'running PostFilter plugin "Bad": unexpected answer 7'),
    "PostFilter answers nothing": (lambda: None, 'running PostFilter plugin "Bad": unexpected answer None'),
    "PostFilter nominates a node that is not there": (
        Nomination("ghost"),
        'running PostFilter plugin "Bad": unexpected answer '
        "Nomination(node_name='ghost', victims=(), message='', violations=0)",
    ),
}


@pytest.mark.parametrize(("answer", "text"), ROOM.values(), ids=ROOM.keys())
def test_a_fault_in_making_room_leaves_the_pod_as_it_was_rejected(answer: Any, text: str) -> None:
    world = World({"post_filter": answer})
    bad, good = world.add(a_pending("bad", cpu="9")), world.add(a_pending("good"))
    world.work()
    ((reason, message),) = world.told(bad)
    assert (reason, (message or "").partition(f" ({__file__}, line ")[0]) == ("Unschedulable", f"{FULL} {text}")
    assert world.queue.where(bad.key) == "unschedulable"
    assert world.queue.nominations.node_of(bad.id) is None
    assert world.node_of(good) is not None


def test_a_gate_that_fails_holds_the_pod_back_until_it_works() -> None:
    world = World({"pre_enqueue": BOOM})
    bad, good = world.add(a_pending("bad")), world.add(a_pending("good"))
    world.work()
    assert world.reports == ["PreEnqueue of plugin Bad failed on pod default/bad: boom"]
    assert world.queue.where(bad.key) == "gated"
    assert world.node_of(good) is not None
    world.bad.says = {"hint": True}
    world.scheduler.handle(ObjectAdded(a_node("n3")))
    world.work()
    assert world.node_of(bad) is not None


def test_a_gate_that_answers_nonsense_holds_the_pod_back() -> None:
    world = World({"pre_enqueue": "no"})
    bad = world.add(a_pending("bad"))
    assert world.queue.where(bad.key) == "gated"
    assert world.reports == [
        "PreEnqueue of plugin Bad failed on pod default/bad: 'str' object has no attribute 'message'"
    ]


def test_a_hint_that_fails_is_a_yes() -> None:
    world = World({"filter": lambda count: np.ones(count, np.int64), "rejection": final("no"), "hint": BOOM})
    bad = world.add(a_pending("bad"))
    world.work()
    assert world.queue.where(bad.key) == "unschedulable"
    world.bad.says = {"hint": BOOM}
    world.scheduler.handle(ObjectAdded(a_node("n3")))
    assert world.reports == ["the hint of plugin Bad for NodeAdd failed on pod default/bad: boom"]
    world.work()
    assert world.node_of(bad) is not None


# ---- what-ifs


def full_world(says: dict[str, Any]) -> World:
    """Both nodes are full of pods of low priority."""
    world = World(says)
    for name in ("n1", "n2"):
        world.add(a_pending(f"low-{name}", cpu="4", priority=1, nodeName=name))
    return world


def test_a_fault_while_room_is_left_for_a_nominated_pod() -> None:
    world = World({"add_pod": BOOM})
    status = {"nominatedNodeName": "n1"}
    world.add(a_pending("promised", cpu="9", priority=9, preemptionPolicy="Never", status=status))
    bad = world.add(a_pending("bad"))
    world.work()
    assert world.told(bad) == [("SchedulerError", 'running AddPod on PreFilter plugin "Bad": boom')]
    assert world.queue.where(bad.key) == "backoff"


COUNTED_ROWS: dict[str, tuple[Any, str]] = {
    "it raises": (BOOM, "boom"),
    "numbers instead of flags": (np.zeros(2, np.int64), "counted rows must be an array of 2 bool"),
    "too few rows": (np.zeros(1, np.bool_), "counted rows must be an array of 2 bool"),
    "no array": ("all", "AttributeError: 'str' object has no attribute 'dtype'"),
}


@pytest.mark.parametrize(("answer", "text"), COUNTED_ROWS.values(), ids=COUNTED_ROWS.keys())
def test_a_fault_about_the_pods_that_count(answer: Any, text: str) -> None:
    world = World({"counted_rows": answer})
    status = {"nominatedNodeName": "n1"}
    world.add(a_pending("promised", cpu="9", priority=9, preemptionPolicy="Never", status=status))
    bad = world.add(a_pending("bad"))
    world.work()
    ((reason, said),) = world.told(bad)
    assert reason == "SchedulerError" and said is not None and said.startswith(f'running "Bad" filter plugin: {text}')
    world = full_world({"counted_rows": answer})
    bad = world.add(a_pending("bad", cpu="4", priority=9))
    world.work()
    ((reason, said),) = world.told(bad)
    assert (
        reason == "Unschedulable"
        and said is not None
        and said.startswith(f'{FULL} preemption: running "Bad" filter plugin: {text}')
    )
    assert not [intent for intent in world.intents if isinstance(intent, Evict)], "nobody leaves for nothing"


def test_a_fault_about_what_a_filter_compares() -> None:
    world = full_world({"demand": BOOM})
    runner = world.core.runners["default-scheduler"]
    runner.filter_reads[[plugin.name for plugin in runner.filters].index("Bad")] = Reads.TOTALS
    runner.filter_reads[[plugin.name for plugin in runner.filters].index("NodeResourcesFit")] = Reads.NODE
    bad = world.add(a_pending("bad", cpu="4", priority=9))
    world.work()
    assert world.told(bad) == [("Unschedulable", f'{FULL} preemption: running "Bad" filter plugin: boom')]


@pytest.mark.parametrize(("point", "what"), [("remove_pod", "RemovePod"), ("add_pod", "AddPod")])
def test_a_fault_in_the_dry_run_of_preemption(point: str, what: str) -> None:
    world = full_world({point: BOOM})
    bad = world.add(a_pending("bad", cpu="4", priority=9))
    world.work()
    text = f'{FULL} preemption: running {what} on PreFilter plugin "Bad": boom'
    assert world.told(bad) == [("Unschedulable", text)]
    assert world.queue.where(bad.key) == "unschedulable"
    assert not [intent for intent in world.intents if isinstance(intent, Evict)], "nobody leaves for nothing"


@pytest.mark.parametrize("point", ["eviction_began", "eviction_ended"])
def test_a_plugin_that_fails_when_it_is_told_of_an_eviction(point: str) -> None:
    world = full_world({point: BOOM})
    victim = world.core.pods["default/low-n1"]
    world.bad.says["post_filter"] = Nomination("n1", (victim,))
    for name in ("DynamicResources", "DefaultPreemption"):
        _forget_plugin(world, name)
    bad = world.add(a_pending("bad", cpu="4", priority=9))
    world.work()
    assert [intent.victim.name for intent in world.intents if isinstance(intent, Evict)] == ["low-n1"]
    assert world.queue.where(bad.key) == "unschedulable"
    world.scheduler.handle(EvictionAnswered(victim, bad))
    world.scheduler.handle(ObjectRemoved(victim))
    world.work()
    assert world.node_of(bad) == "n1"
    assert world.core.evictions.by_preemptor == {}
    assert len(world.reports) == 1
    assert "plugin Bad failed on pod default/bad: boom" in world.reports[0]


def _forget_plugin(world: World, name: str) -> None:
    profile = world.core.runners["default-scheduler"].profile
    profile.post_filters = tuple(p for p in profile.post_filters if p.name != name)


# ---- after the fact


@pytest.mark.parametrize(
    ("says", "report"),
    [
        pytest.param({"post_bind": BOOM}, "PostBind of plugin Bad failed on pod default/bad: boom", id="PostBind"),
        pytest.param(
            {"unreserve": BOOM, "permit": curable("no")},
            "Unreserve of plugin Bad failed on pod default/bad: boom",
            id="Unreserve",
        ),
    ],
)
def test_what_comes_too_late_to_matter_is_reported(says: dict[str, Any], report: str) -> None:
    world = World(says)
    bad = world.add(a_pending("bad"))
    world.work()
    assert world.reports == [report]
    assert (world.node_of(bad) is None) == ("unreserve" in says)


# ---- a pod that is deleted leaves nothing behind


def unschedulable(world: World) -> Pod:
    pod = world.add(a_pending("bad", cpu="9"))
    world.work()
    assert world.queue.where(pod.key) == "unschedulable"
    return pod


def gated(world: World) -> Pod:
    return world.add(a_pending("bad", schedulingGates=[{"name": "gate"}]))


def active(world: World) -> Pod:
    return world.add(a_pending("bad"))


def backing_off(world: World) -> Pod:
    world.bad.says = {"filter": BOOM}
    pod = world.add(a_pending("bad"))
    world.work()
    assert world.queue.where(pod.key) == "backoff"
    return pod


def waiting(world: World) -> Pod:
    world.bad.says = {"permit": Wait(10)}
    pod = world.add(a_pending("bad"))
    world.work()
    assert world.core.services.waiting.get(pod.id) is not None
    return pod


def allowed(world: World) -> Pod:
    pod = waiting(world)
    found = world.core.services.waiting.get(pod.id)
    assert found is not None
    found.allow("Bad")
    return pod


def being_bound(world: World) -> Pod:
    pod = world.add(a_pending("bad"))
    world.work(binds=False)
    assert pod.id in world.core.bindings
    return pod


def assumed(world: World) -> Pod:
    pod = world.add(a_pending("bad"))
    world.work()
    assert world.core.cache.is_assumed(pod.id)
    return pod


def preempting(world: World) -> Pod:
    world.add(a_pending("low", cpu="4", priority=1, nodeName="n1"))
    world.add(a_pending("other", cpu="4", priority=100, nodeName="n2"))
    pod = world.add(a_pending("bad", cpu="4", priority=9))
    world.work()
    assert pod.id in world.core.evictions.by_preemptor
    return pod


STATES: list[Callable[[World], Pod]] = [
    active,
    gated,
    unschedulable,
    backing_off,
    waiting,
    allowed,
    being_bound,
    assumed,
    preempting,
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("terminates", [False, True], ids=["at once", "gracefully"])
def test_a_pod_that_is_deleted_leaves_nothing_behind(state: Callable[[World], Pod], terminates: bool) -> None:
    world = World()
    pod = state(world)
    if terminates:
        metadata = {"uid": pod.uid, "resourceVersion": "2", "deletionTimestamp": "2026-02-01T00:00:00Z"}
        leaving = Pod(metadata=a_pod("bad", metadata=metadata).metadata, spec=pod.spec, status=pod.status)
        world.scheduler.handle(ObjectUpdated(pod, leaving))
        world.work(binds=False)
        pod = leaving
    world.scheduler.handle(ObjectRemoved(pod))
    world.work(binds=False)
    world.scheduler.handle(BindAnswered(pod, 'pods "bad" not found'))
    for intent in world.intents:
        if isinstance(intent, Evict):
            world.scheduler.handle(ObjectRemoved(intent.victim))
            world.scheduler.handle(EvictionAnswered(intent.victim, intent.preemptor))
    world.work(binds=False)
    assert pod.id not in _traces(world)
    assert world.reports == []


def _traces(world: World) -> set[str]:
    """The ids of all pods that some part of the scheduler remembers."""
    core = world.core
    preemption = core.runners["default-scheduler"].profile.plugins["DefaultPreemption"]
    assert isinstance(preemption, DefaultPreemption)
    return {
        *(pod.id for pod in core.pods.values()),
        *(entry.uid for entry in core.queue.entries()),
        *core.queue.in_flight.uids(),
        *core.bindings,
        *(waiting.pod.id for waiting in core.services.waiting),
        *(pod.id for pod in core.cluster.nodes.pods()),
        *core.queue.nominations.node_of_pod,
        *core.cluster.nominated.pod_ids(),
        *core.evictions.by_preemptor,
        *preemption._evicting,
    }


def test_every_plugin_point_is_tried_here() -> None:
    """Or else a point that is added later would go without a fault."""
    methods = {name for kind in Bad.__mro__ if kind not in (Bad, Plugin) for name in vars(kind) if name[0] != "_"}
    tried = {point for says, _ in FAULTS.values() for point in says} | {
        "post_filter",
        "hint",
        "pre_enqueue",
        "post_bind",
    }
    tried |= {"demand", "counted_rows", "unreserve", "add_pod", "remove_pod", "eviction_began", "eviction_ended"}
    tried |= {"filter_row", "score_row"}  # tests/framework/test_attempt.py does
    tried |= {"filter_before_state"}  # tests/framework/test_unprepared.py does
    tried |= {"codes_beside"}  # tests/framework/test_rows_closed_beside.py does
    tried |= {"group_sort_key"}  # tests/queue/test_queue_members.py does
    tried |= {"may_gate"}  # tests/queue/test_members_asked_at_once.py does
    assert (
        methods - tried
        == {"normalizes", "events", "concerns", "name", "is_asked_if_concerned", "is_asked_by_group"} & methods
    )
