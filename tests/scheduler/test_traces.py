"""The trace of an attempt: which spans it has, below which, from when to when, and what they say."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import StatusCode

from build import a_node, a_pod
from gangs import GROUP_GATES, a_group, a_member
from how_many import examples
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, Evict, Write
from mooring.framework.contract.points import (
    FilterPlugin,
    PermitPlugin,
    PreBindPlugin,
    Reads,
    ReservePlugin,
    Rows,
    Wait,
    reads,
)
from mooring.framework.contract.status import Rejection, curable
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolumeClaim
from mooring.plugins import in_tree
from mooring.scheduler import traces
from mooring.scheduler.inputs import BindAnswered, ObjectAdded, TimePassed, WriteAnswered
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler
from span_reading import MS, RecordedSpans, about, took_s

PROFILE = "default-scheduler"
CYCLE = ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"]
"""The extension points of a pod that is bound to one of several nodes."""


class Slow(FilterPlugin, ReservePlugin, PermitPlugin, PreBindPlugin):
    """Takes as many milliseconds at a point as it is told to, and answers what it is told to, or raises it."""

    name = "Slow"
    clock: VirtualClock
    answers: dict[str, Any]
    takes_ms: dict[str, int]

    def _answer(self, point: str) -> Any:
        self.clock.advance_ns(self.takes_ms.get(point, 0) * MS)
        answer = self.answers.get(point)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @reads(Reads.CLUSTER)
    def filter(self, context: SchedulingContext, rows: Rows) -> Any:
        return self._answer("Filter")

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable("slow")

    def reserve(self, context: SchedulingContext, node_name: str) -> Any:
        return self._answer("Reserve")

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self._answer("Unreserve")

    def permit(self, context: SchedulingContext, node_name: str) -> Any:
        return self._answer("Permit")

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Any:
        answer = self._answer("PreBind")
        return self._work() if answer == "work" else answer

    def _work(self) -> Any:
        yield Write("PATCH", PersistentVolumeClaim, "c", "default", {})
        self._answer("after the write")
        return None


class World:
    """A scheduler whose attempts are traced, on a virtual clock. `plug` adds the plugin Slow."""

    def __init__(
        self,
        plug: bool = False,
        answers: dict[str, Any] | None = None,
        takes_ms: dict[str, int] | None = None,
        ratio: float = 1.0,
        gates: dict[str, bool] | None = None,
        is_traced: bool = True,
    ) -> None:
        self.clock = VirtualClock(1_800_000_000 * NS_PER_S)
        self.spans = RecordedSpans(ratio)
        registry = in_tree()
        registry.register(Slow)
        Slow.clock, Slow.answers, Slow.takes_ms = self.clock, answers or {}, takes_ms or {}
        enabled = [{"name": "Slow"}] if plug else []
        profile = {"schedulerName": PROFILE, "plugins": {"multiPoint": {"enabled": enabled}}}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        self.metrics = SchedulerMetrics(self.clock)
        self.traces = self.spans.around(self.metrics, self.clock)
        self.scheduler = build_scheduler(
            config.from_object({**head, "profiles": [profile]}, feature_gates=gates),
            self.clock,
            registry,
            listeners=SchedulerListeners(observer=self.traces if is_traced else self.metrics),
            gates=gates,
        )
        self.shows(a_node("n1"), a_node("n2"))

    def shows(self, *items: KubeObject) -> None:
        for item in items:
            self.scheduler.handle(ObjectAdded(item))

    def attempt(self) -> list[Any]:
        self.scheduler.attempt()
        return self.scheduler.take_intents()

    def bind(self, intents: Iterable[Any], fault: str | None = None) -> None:
        for intent in intents:
            if isinstance(intent, Bind):
                self.scheduler.handle(BindAnswered(intent.pod, fault))

    def later(self, milliseconds: int) -> None:
        self.clock.advance_ns(milliseconds * MS)

    def tree(self) -> list[str]:
        """All spans, which have to be complete."""
        assert self.spans.orphans() == []
        return self.spans.trees()


def our_pod(name: str = "pod", **more: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName=PROFILE, **more)


def under(root: str, *names: str) -> list[str]:
    return [root, *(f"  {name}" for name in names)]


# ---- what a trace consists of


def test_a_pod_that_is_bound() -> None:
    world = World()
    world.shows(our_pod(priority=7))
    world.later(2500)
    intents = world.attempt()
    world.later(40)
    assert world.spans.roots() == [], "the binding cycle is part of the attempt"
    world.bind(intents)
    assert world.tree() == under("Scheduling", *CYCLE)
    root = world.spans.root_of("pod")
    assert dict(root.attributes or {}) == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "pod",
        "k8s.pod.uid": "uid-pod",
        "k8s.node.name": "n1",
        "scheduler.profile": PROFILE,
        "scheduler.attempt": 1,
        "scheduler.priority": 7,
        "scheduler.result": "scheduled",
    }
    (dequeued,) = root.events
    assert (dequeued.name, dict(dequeued.attributes or {})) == ("Dequeued", {"scheduler.queue_wait_s": 2.5})
    assert dequeued.timestamp == root.start_time
    assert root.status.status_code is StatusCode.UNSET
    assert [took_s(span) for span in (root, world.spans.named("Bind"), world.spans.named("Filter"))] == [0.04, 0.04, 0]
    assert {about(span, "scheduler.status") for span in world.spans.below(root)} == {("Success",)}


def test_a_pod_that_does_not_wait() -> None:
    world = World()
    world.shows(our_pod())
    world.bind(world.attempt())
    assert dict(world.spans.root_of("pod").events[0].attributes or {}) == {"scheduler.queue_wait_s": 0.0}


def test_a_pod_that_fits_nowhere_and_is_tried_again() -> None:
    world = World()
    world.shows(our_pod(cpu="100"))
    world.attempt()
    root = world.spans.root_of("pod")
    assert world.tree() == under("Scheduling", "PreFilter", "Filter", "PostFilter")
    assert about(root, "scheduler.result", "k8s.node.name") == ("unschedulable", None)
    (message,) = about(root, "scheduler.message")
    assert str(message).startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert root.status.status_code is StatusCode.UNSET, "that a pod has to wait is no error of the scheduler"
    assert about(world.spans.named("PostFilter"), "scheduler.status") == ("Unschedulable",)
    world.spans.clear()
    world.shows(a_node("n3", cpu="200"))
    world.later(5000)
    world.scheduler.handle(TimePassed())
    world.bind(world.attempt())
    again = world.spans.root_of("pod")
    assert about(again, "scheduler.result", "scheduler.attempt", "k8s.node.name") == ("scheduled", 2, "n3")
    assert dict(again.events[0].attributes or {}) == {"scheduler.queue_wait_s": 5.0}
    assert again.context is not None and root.context is not None
    assert again.context.trace_id != root.context.trace_id


FAILURES: dict[str, tuple[dict[str, Any], str, list[str], str, str]] = {
    "Filter fails": (
        {"Filter": RuntimeError("ouch")},
        "Filter",
        ["PreFilter", "Filter"],
        "error",
        'running "Slow" filter plugin: RuntimeError: ouch',
    ),
    "Reserve rejects": (
        {"Reserve": curable("full")},
        "Reserve",
        ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Unreserve"],
        "unschedulable",
        "0/1 nodes are available: 1 full.",
    ),
    "Permit fails": (
        {"Permit": RuntimeError("ouch")},
        "Permit",
        ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "Unreserve"],
        "error",
        'running Permit plugin "Slow": RuntimeError: ouch',
    ),
    "PreBind fails": (
        {"PreBind": RuntimeError("ouch")},
        "PreBind",
        ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Unreserve"],
        "error",
        'running PreBind plugin "Slow": RuntimeError: ouch',
    ),
}


@pytest.mark.parametrize(("answers", "point", "names", "result", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_an_attempt_that_fails(
    answers: dict[str, Any], point: str, names: list[str], result: str, message: str
) -> None:
    world = World(plug=True, answers=answers)
    world.shows(our_pod())
    world.attempt()
    root = world.spans.root_of("pod")
    assert world.tree() == under("Scheduling", *names)
    (said,) = about(root, "scheduler.message")
    assert about(root, "scheduler.result") == (result,) and str(said).startswith(message)
    code = StatusCode.ERROR if result == "error" else StatusCode.UNSET
    assert (root.status.status_code, world.spans.named(point).status.status_code) == (code, code)
    assert root.status.description == (said if result == "error" else None)


def test_a_bind_that_fails() -> None:
    world = World()
    world.shows(our_pod())
    world.bind(world.attempt(), "the server is on fire")
    root = world.spans.root_of("pod")
    assert world.tree() == under("Scheduling", *CYCLE[:-1], "Unreserve")
    assert about(root, "scheduler.result", "k8s.node.name") == ("error", "n1")
    assert root.status.description == 'running Bind plugin "DefaultBinder": the server is on fire'
    assert world.spans.named("Bind").status.status_code is StatusCode.ERROR


def test_a_message_is_cut_as_in_events() -> None:
    world = World(plug=True, answers={"Filter": RuntimeError("x" * 100_000)})
    world.shows(our_pod())
    world.attempt()
    (message,) = about(world.spans.root_of("pod"), "scheduler.message")
    assert len(str(message)) == 1024


# ---- the binding cycle


def test_bindings_that_interleave_stay_apart() -> None:
    world = World()
    intents = {}
    for name in ("a", "b", "c"):
        world.shows(our_pod(name))
        intents[name] = world.attempt()
        world.later(10)
    for name in ("b", "c", "a"):
        world.bind(intents[name])
        world.later(100)
    assert world.tree() == under("Scheduling", *CYCLE) * 3
    assert [about(root, "k8s.pod.name") for root in world.spans.roots()] == [("b",), ("c",), ("a",)]
    assert len({root.context.trace_id for root in world.spans.roots() if root.context is not None}) == 3
    binds = {name: next(s for s in world.spans.below(world.spans.root_of(name)) if s.name == "Bind") for name in "abc"}
    assert {name: took_s(span) for name, span in binds.items()} == {"a": 0.23, "b": 0.02, "c": 0.11}


def test_a_wait_on_permit() -> None:
    world = World(plug=True, answers={"Permit": Wait(60)})
    world.shows(our_pod())
    world.attempt()
    world.later(700)
    (waiting,) = world.scheduler.waiting
    waiting.allow("Slow")
    world.scheduler.release_waiting()
    world.later(5)
    world.bind(world.scheduler.take_intents())
    assert world.tree() == under("Scheduling", *CYCLE[:6], "WaitOnPermit", *CYCLE[6:])
    assert took_s(world.spans.named("WaitOnPermit")) == 0.7
    assert about(world.spans.named("Permit"), "scheduler.status") == ("Wait",)


def test_a_wait_on_permit_that_takes_too_long() -> None:
    world = World(plug=True, answers={"Permit": Wait(60)})
    world.shows(our_pod())
    world.attempt()
    world.later(60_000)
    world.scheduler.handle(TimePassed())
    world.scheduler.release_waiting()
    assert world.tree() == under("Scheduling", *CYCLE[:6], "WaitOnPermit", "Unreserve")
    assert about(world.spans.named("WaitOnPermit"), "scheduler.status") == ("Unschedulable",)
    assert about(world.spans.root_of("pod"), "scheduler.result") == ("unschedulable",)


def test_work_of_pre_bind() -> None:
    """The plugin's span lasts from its call to the end of its work; the request is for the driver to show."""
    world = World(plug=True, answers={"PreBind": "work"}, takes_ms={"after the write": 3})
    world.shows(our_pod())
    (write,) = (intent for intent in world.attempt() if isinstance(intent, Write))
    assert write.pod_id == "uid-pod"
    world.later(20)
    world.scheduler.handle(WriteAnswered(write.token, None))
    world.bind(world.scheduler.take_intents())
    assert world.tree() == [*under("Scheduling", *CYCLE[:7]), "    Slow", "  Bind", "  PostBind"]
    assert [took_s(world.spans.named(name)) for name in ("PreBind", "Slow")] == [0.023, 0.023]


def test_the_request_of_a_step_is_below_it_and_a_status_is_not() -> None:
    world = World(plug=True, answers={"PreBind": "work", "Permit": Wait(60)})
    world.shows(our_pod())
    world.attempt()
    trace = world.traces.of("uid-pod")
    assert trace is not None
    status = trace.request("PATCH pods/status", world.clock.now_ns(), {}, is_awaited=False)
    (waiting,) = world.scheduler.waiting
    waiting.allow("Slow")
    world.scheduler.release_waiting()
    (write,) = (intent for intent in world.scheduler.take_intents() if isinstance(intent, Write))
    written = trace.request("PATCH persistentvolumeclaims", world.clock.now_ns(), {}, is_awaited=True)
    world.later(2)
    written.end(world.clock.now_ns())
    world.scheduler.handle(WriteAnswered(write.token, None))
    bound = trace.request("POST pods/binding", world.clock.now_ns(), {}, is_awaited=True)
    bound.end(world.clock.now_ns())
    world.bind(world.scheduler.take_intents())
    status.end(world.clock.now_ns())
    late = trace.request("PATCH pods/status", world.clock.now_ns(), {}, is_awaited=False)
    late.end(world.clock.now_ns())
    root = world.spans.root_of("pod")
    assert world.spans.orphans() == []
    assert sorted(world.spans.names_below(root)) == sorted([*CYCLE, "WaitOnPermit", *["PATCH pods/status"] * 2])
    assert world.spans.names_below(world.spans.named("Bind")) == ["POST pods/binding"]
    assert set(world.spans.names_below(world.spans.named("PreBind"))) == {"Slow", "PATCH persistentvolumeclaims"}


def test_a_write_that_is_sent_after_its_attempt_has_failed_opens_no_step() -> None:
    world = World(plug=True, answers={"PreBind": curable("no")})
    world.shows(our_pod())
    world.attempt()
    trace = world.traces.of("uid-pod")
    assert trace is not None
    trace.request("DELETE resourceclaims", world.clock.now_ns(), {}, is_awaited=True).end(world.clock.now_ns())
    assert world.spans.orphans() == []
    assert "DELETE resourceclaims" in world.spans.names_below(world.spans.root_of("pod"))


# ---- plugins


SPANS = {"below the threshold": (0, []), "at the threshold": (1, ["Slow"]), "above it": (25, ["Slow"])}


@pytest.mark.parametrize(("takes_ms", "expected"), SPANS.values(), ids=SPANS.keys())
def test_plugins_that_take_long_have_spans(takes_ms: int, expected: list[str]) -> None:
    world = World(plug=True, takes_ms={"Filter": takes_ms})
    world.shows(our_pod())
    world.bind(world.attempt())
    assert world.spans.names_below(world.spans.named("Filter")) == expected
    if expected:
        slow = world.spans.named("Slow")
        assert (took_s(slow), *about(slow, "scheduler.plugin.calls", "scheduler.plugin.busy_s")) == (
            takes_ms / 1000,
            1,
            takes_ms / 1000,
        )


def test_calls_of_one_plugin_share_a_span() -> None:
    """Preemption asks the filter again for what-ifs: short calls, but many, and they count at PostFilter."""
    world = World(plug=True, takes_ms={"Filter": 1})
    world.shows(*(our_pod(f"low-{i}", cpu="4", nodeName=f"n{i}") for i in (1, 2)))
    world.spans.clear()
    world.shows(our_pod("high", cpu="4", priority=5))
    world.attempt()
    assert set(world.spans.names_below(world.spans.named("PostFilter"))) == {"DefaultPreemption", "Filter Slow"}
    calls, busy_s = about(world.spans.named("Filter Slow"), "scheduler.plugin.calls", "scheduler.plugin.busy_s")
    assert isinstance(calls, int) and calls > 1 and busy_s == pytest.approx(calls / 1000)


def test_a_plugin_that_raises_was_busy_all_the_same() -> None:
    world = World(plug=True, answers={"Filter": RuntimeError("ouch")}, takes_ms={"Filter": 4})
    world.shows(our_pod())
    world.attempt()
    assert took_s(world.spans.named("Slow")) == 0.004


# ---- preemption and groups


def test_preemption() -> None:
    world = World()
    world.shows(*(our_pod(f"low-{i}", cpu="4", nodeName=f"n{i}") for i in (1, 2)), our_pod("high", cpu="4", priority=5))
    intents = world.attempt()
    assert [intent.victim.name for intent in intents if isinstance(intent, Evict)] == ["low-2"]
    root = world.spans.root_of("high")
    assert about(root, "scheduler.result") == ("unschedulable",)
    found = {event.name: dict(event.attributes or {}) for event in root.events}
    assert found["Preempting"] == {"k8s.node.name": "n2", "scheduler.victims": 1}
    assert about(world.spans.named("PostFilter"), "scheduler.status") == ("Success",)


def test_each_member_of_a_pod_group_has_its_own_trace() -> None:
    world = World(gates=dict(GROUP_GATES))
    world.shows(a_group(min_count=2), a_member("a"), a_member("b"))
    world.bind(world.attempt())
    assert sorted(about(root, "k8s.pod.name", "scheduler.result") for root in world.spans.roots()) == [
        ("a", "scheduled"),
        ("b", "scheduled"),
    ]
    for root in world.spans.roots():
        assert world.spans.names_below(root).count("Bind") == 1
    assert world.spans.orphans() == []


def test_a_pod_whose_group_is_not_there() -> None:
    world = World(gates=dict(GROUP_GATES))
    member = a_member("a", "nowhere")
    world.shows(member)
    world.attempt()
    assert {about(root, "scheduler.result") for root in world.spans.roots()} <= {("error",), ("unschedulable",)}
    assert world.spans.orphans() == []


# ---- sampling


def test_without_a_sample_nothing_is_built() -> None:
    world = World(ratio=0.0)
    for i in range(20):
        world.shows(our_pod(f"p{i}", cpu="10m"))
        world.bind(world.attempt(), "ouch" if i == 3 else None)
    assert (world.spans.all, world.traces._under_way, world.traces._over) == ((), {}, {})
    assert [world.traces.of(f"uid-p{i}") for i in range(20)] == [None] * 20


@settings(max_examples=examples(10))
@given(st.sampled_from((0.05, 0.3, 0.7)), st.integers(20, 60))
def test_an_attempt_is_traced_as_a_whole_or_not_at_all(ratio: float, count: int) -> None:
    world = World(ratio=ratio)
    drawn: list[int | None] = []
    sample = world.spans.tracer.sample

    def remembered() -> int | None:
        drawn.append(sample())
        return drawn[-1]

    world.spans.tracer.sample = remembered  # type: ignore[method-assign]
    intents = []
    for i in range(count):
        world.shows(our_pod(f"p{i}", cpu="10m"))
        intents.append(world.attempt())
    for answers in reversed(intents):
        world.bind(answers)
    expected = [trace_id for trace_id in drawn if trace_id is not None]
    assert len(drawn) == count
    assert world.tree() == under("Scheduling", *CYCLE) * len(expected)
    assert {root.context.trace_id for root in world.spans.roots() if root.context is not None} == set(expected)


def test_about_the_share_that_was_asked_for() -> None:
    tracer = RecordedSpans(0.2).tracer
    sampled = sum(tracer.sample() is not None for _ in range(20_000))
    assert 3_600 < sampled < 4_400, "seven standard deviations"


def test_a_pod_whose_next_attempt_is_not_traced_has_no_trace() -> None:
    world = World()
    world.shows(our_pod(cpu="100"))
    world.attempt()
    assert world.traces.of("uid-pod") is not None, "its status is yet to be written"
    world.spans.tracer.sample = lambda: None  # type: ignore[method-assign]
    world.spans.clear()
    world.shows(a_node("n3", cpu="200"))
    world.later(5000)
    world.scheduler.handle(TimePassed())
    world.bind(world.attempt())
    assert (world.traces.of("uid-pod"), world.spans.all) == (None, ())


def test_the_traces_that_are_kept_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_OVER", 3)
    world = World()
    intents = []
    for i in range(5):
        world.shows(our_pod(f"p{i}", cpu="10m"))
        intents.append(world.attempt())
    assert all(world.traces.of(f"uid-p{i}") is not None for i in range(5)), "those that are under way are all there"
    for answers in intents:
        world.bind(answers)
    assert [world.traces.of(f"uid-p{i}") is None for i in range(5)] == [True, True, False, False, False]
    assert world.tree() == under("Scheduling", *CYCLE) * 5


# ---- beside metrics, and clocks


def metrics_of(is_traced: bool, ratio: float = 1.0) -> str:
    """All metrics after pods were bound, rejected, preempted, held by Permit, woken by hints, and scheduled as a group."""
    world = World(
        plug=True, takes_ms={"Filter": 2, "Permit": 1}, gates=dict(GROUP_GATES), is_traced=is_traced, ratio=ratio
    )
    for i in range(30):
        world.shows(our_pod(f"p{i}", cpu="10m" if i % 3 else "100"))
        world.bind(world.attempt(), "ouch" if i == 7 else None)
    world.shows(our_pod("low", cpu="3", nodeName="n2"), our_pod("high", cpu="4", priority=5))
    world.attempt()
    Slow.answers["Permit"] = Wait(1)
    world.shows(our_pod("held"))
    world.attempt()
    world.later(1000)
    world.scheduler.handle(TimePassed())
    world.scheduler.release_waiting()
    Slow.answers.clear()
    world.shows(a_node("n3"), a_group(min_count=2), a_member("a"), a_member("b"))
    for _ in range(5):
        world.bind(world.attempt())
    assert bool(world.spans.all) is (is_traced and ratio > 0)
    world.scheduler.handle(TimePassed())
    return world.metrics.registry.text()


def test_metrics_are_what_they_are_without_traces() -> None:
    text = metrics_of(is_traced=False)
    for shown in (
        "preemption_victims_count 1",
        'permit_wait_duration_seconds_count{result="Unschedulable"} 1',
        'podgroup_schedule_attempts_total{result="scheduled",profile="default-scheduler"} 1',
        'queueing_hint_execution_duration_seconds_count{plugin="Slow",event="NodeAdd",hint="Queue"} 1',
        'schedule_attempts_total{result="error",profile="default-scheduler"} 1',
    ):
        assert f"scheduler_{shown}\n" in text
    assert metrics_of(is_traced=True) == text
    assert metrics_of(is_traced=True, ratio=0.0) == text


STEPS = st.lists(
    st.tuples(st.sampled_from(("10m", "2", "3900m", "100")), st.integers(0, 3), st.booleans()), max_size=12
)


@settings(max_examples=examples(15))
@given(STEPS)
def test_what_the_scheduler_wants_is_the_same_with_and_without_traces(steps: list[tuple[str, int, bool]]) -> None:
    def wanted(ratio: float) -> list[Any]:
        world, found = World(ratio=ratio), []
        for number, (cpu, priority, is_bound) in enumerate(steps):
            world.shows(our_pod(f"p{number}", cpu=cpu, priority=priority))
            intents = world.attempt()
            world.later(100)
            world.bind(intents, None if is_bound else "ouch")
            found += [*intents, *world.scheduler.take_intents()]
        assert world.spans.orphans() == []
        assert len(world.spans.roots()) == (len(steps) if ratio else 0)
        return [repr(intent) for intent in found]

    assert wanted(1.0) == wanted(0.0)


def test_a_clock_that_is_set_back_makes_no_span_end_before_it_begins() -> None:
    spans = RecordedSpans()
    trace_id = spans.tracer.sample()
    assert trace_id is not None
    root = spans.tracer.begin(trace_id, "Scheduling", 1000)
    root.child("Filter", 900).end(800)
    root.end(500)
    assert [(span.start_time, span.end_time) for span in spans.all] == [(900, 900), (1000, 1000)]


def test_the_header_names_the_trace_and_the_span() -> None:
    spans = RecordedSpans()
    trace_id = spans.tracer.sample()
    assert trace_id is not None
    root = spans.tracer.begin(trace_id, "Scheduling", 1000)
    child = root.child("POST pods/binding", 1000, is_request=True)
    child.end(1001)
    version, trace, span, flags = child.traceparent.split("-")
    context = spans.named("POST pods/binding").context
    assert context is not None
    assert (version, int(trace, 16), int(span, 16)) == ("00", trace_id, context.span_id)
    assert len(trace) == 32 and len(span) == 16 and int(flags, 16) & 1, "sampled"
