"""PreBind with work to do: writes and pauses, step by step, and everything that can come in between."""

from collections.abc import Callable
from typing import Any

import pytest

from build import a_node, a_pod
from build_storage import a_claim
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, Intent, PatchStatus, Record, Write, WriteFault
from mooring.framework.contract.points import Pause, PodGone, PreBindPlugin, ReservePlugin, Work
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.storage import PersistentVolumeClaim
from mooring.plugins import in_tree
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated, TimePassed, WriteAnswered
from mooring.state.scheduler_assembly import build_scheduler

CLAIM = "default/claim"
PATCH = Write("PATCH", PersistentVolumeClaim, "claim", "default", {"metadata": {"annotations": {"a": "b"}}})
ON_CLAIM = Pause(on=frozenset({(PersistentVolumeClaim, CLAIM)}))


class Worker(PreBindPlugin, ReservePlugin):
    """Does what the test tells it to."""

    name = "Worker"
    script: Callable[["Worker"], Work | Rejection | None]

    def __init__(self, args: Any, handle: Any) -> None:
        self.answers: list[object] = []
        self.has_given_back = False
        self.was_closed = False

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Work | Rejection | None:
        return type(self).script(self)

    def reserve(self, context: SchedulingContext, node_name: str) -> None:
        return None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self.has_given_back = True


class SecondWorker(Worker):
    name = "SecondWorker"


class World:
    """A scheduler with one node, whose writes nobody carries out unless the test does."""

    def __init__(self, script: Any, second: Any = lambda worker: None) -> None:
        Worker.script, SecondWorker.script = staticmethod(script), staticmethod(second)
        registry = in_tree()
        registry.register(Worker)
        registry.register(SecondWorker)
        names = [{"name": Worker.name}, {"name": SecondWorker.name}]
        plugins = {"preBind": {"enabled": names}, "reserve": {"enabled": names[:1]}}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        chosen = config.from_object({**head, "profiles": [{"plugins": plugins}]})
        self.clock = VirtualClock(1000 * NS_PER_S)
        self.scheduler = build_scheduler(chosen, self.clock, registry)
        worker = self.scheduler.core.runners["default-scheduler"].profile.plugin(Worker.name)
        assert isinstance(worker, Worker)
        self.worker = worker
        self.pod = a_pod("p", cpu="1", metadata={"uid": "u"}, schedulerName="default-scheduler")
        self.scheduler.handle(ObjectAdded(a_node("n")))
        self.scheduler.handle(ObjectAdded(self.pod))
        self.scheduler.attempt()

    def intents(self, kind: type[Intent] | None = None) -> list[Any]:
        return [intent for intent in self.scheduler.take_intents() if kind is None or isinstance(intent, kind)]

    def answer(self, item: KubeObject | None = None, fault: WriteFault | None = None) -> None:
        (write,) = self.intents(Write)
        self.scheduler.handle(WriteAnswered(write.token, item, fault))

    def pass_second(self) -> None:
        self.clock.advance_ns(NS_PER_S)
        self.scheduler.handle(TimePassed())

    @property
    def is_at_work(self) -> bool:
        return bool(self.scheduler.core.pre_bind.by_pod)

    def why(self) -> str:
        """The one failure that was told."""
        (note,) = [record.note for record in self.intents(Record) if record.reason == "FailedScheduling"]
        assert self.worker.has_given_back
        assert self.scheduler.core.cache.get("u") is None
        assert self.scheduler.core.pre_bind.is_idle
        return str(note)


def one_write(worker: Worker) -> Work:
    worker.answers.append((yield PATCH))
    return None


def pauses(worker: Worker, times: int = 100) -> Work:
    try:
        for _ in range(times):
            worker.answers.append((yield ON_CLAIM))
    finally:
        worker.was_closed = True
    return None


def test_without_work_the_pod_is_bound_at_once() -> None:
    world = World(lambda worker: None)
    assert [type(intent) for intent in world.intents()] == [Bind]


def test_before_the_first_work_the_status_names_the_node() -> None:
    world = World(one_write)
    first, write = world.intents()
    assert (first.nominated_node_name, first.condition) == ("n", None)
    assert isinstance(first, PatchStatus) and isinstance(write, Write)


def test_a_write_is_answered_with_the_object() -> None:
    world, claim = World(one_write), a_claim()
    world.answer(claim)
    assert world.worker.answers == [claim]
    assert len(world.intents(Bind)) == 1
    assert not world.is_at_work


def test_a_write_that_fails_is_answered_with_the_fault() -> None:
    world, fault = World(one_write), WriteFault("the object has been modified", 409)
    world.answer(None, fault)
    assert world.worker.answers == [fault]


def test_tokens_tell_writes_apart_and_count_once() -> None:
    def two_writes(worker: Worker) -> Work:
        worker.answers.append((yield PATCH))
        worker.answers.append((yield PATCH))
        return None

    world = World(two_writes)
    (write,) = world.intents(Write)
    world.scheduler.handle(WriteAnswered(write.token, a_claim("first")))
    world.scheduler.handle(WriteAnswered(write.token, a_claim("again")))
    (second,) = world.intents(Write)
    assert second.token != write.token
    world.scheduler.handle(WriteAnswered(second.token, a_claim("second")))
    assert [claim.name for claim in world.worker.answers if isinstance(claim, KubeObject)] == ["first", "second"]


def test_a_pause_ends_when_the_object_changes() -> None:
    world = World(pauses)
    world.scheduler.handle(ObjectAdded(a_claim("other")))
    assert world.worker.answers == []
    world.scheduler.handle(ObjectAdded(a_claim()))
    world.scheduler.handle(ObjectUpdated(a_claim(), a_claim(version="2")))
    world.scheduler.handle(ObjectRemoved(a_claim(version="2")))
    assert world.worker.answers == [None, None, None]


def test_a_pause_ends_with_each_second() -> None:
    world = World(pauses)
    world.pass_second()
    world.clock.advance_ns(NS_PER_S // 10)
    world.scheduler.handle(TimePassed())
    assert len(world.worker.answers) == 1


def test_a_pause_ends_when_its_time_has_come() -> None:
    def short(worker: Worker) -> Work:
        yield ON_CLAIM
        yield Pause(worker_deadline[0])
        return None

    worker_deadline = [0]
    world = World(short)
    worker_deadline[0] = world.clock.now_ns() + NS_PER_S + NS_PER_S // 2
    world.pass_second()
    assert world.scheduler.next_deadline_ns() == worker_deadline[0]
    world.clock.advance_ns(NS_PER_S // 2)
    world.scheduler.handle(TimePassed())
    assert len(world.intents(Bind)) == 1


def test_while_it_works_the_pod_keeps_its_room_and_others_are_tried() -> None:
    world = World(pauses)
    world.scheduler.handle(
        ObjectAdded(a_pod("q", cpu="3500m", metadata={"uid": "v"}, schedulerName="default-scheduler"))
    )
    world.scheduler.attempt()
    assert "Insufficient cpu" in world.intents(Record)[0].note
    assert world.scheduler.check() == []


def test_the_next_plugin_waits_for_the_one_before() -> None:
    world = World(lambda worker: pauses(worker, 1), one_write)
    assert world.intents(Write) == []
    world.pass_second()
    assert len(world.intents(Write)) == 1


def raises(worker: Worker) -> Work:
    yield PATCH
    raise PluginError("no luck")


def refuses(worker: Worker) -> Work:
    yield PATCH
    return curable("not here")


def talks_nonsense(worker: Worker) -> Work:
    yield PATCH
    yield "what?"  # type: ignore[misc]
    return None


def ends_in_nonsense(worker: Worker) -> Work:
    yield PATCH
    return "done"  # type: ignore[return-value]


FAULTS = {
    "it raises": (raises, 'running PreBind plugin "Worker": no luck'),
    "it refuses the pod": (refuses, "not here"),
    "its step is none": (talks_nonsense, "running PreBind plugin \"Worker\": unexpected step 'what?'"),
    "its end is none": (ends_in_nonsense, "running PreBind plugin \"Worker\": unexpected answer 'done'"),
}


@pytest.mark.parametrize(("script", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_work_that_fails_sends_the_pod_back(script: Any, text: str) -> None:
    world = World(script)
    world.answer()
    assert world.why() == text
    assert not world.is_at_work
    assert world.scheduler.core.queue.get("default/p") is not None


def test_a_plugin_that_fails_before_any_work() -> None:
    def fails(worker: Worker) -> Work:
        raise PluginError("boom")

    assert World(fails).why() == 'running PreBind plugin "Worker": boom'


def test_the_status_no_longer_names_the_node_after_a_failure() -> None:
    world = World(raises)
    world.answer()
    assert [patch.nominated_node_name for patch in world.intents(PatchStatus)] == [""]


def test_a_pod_that_is_deleted_ends_the_work() -> None:
    world = World(pauses)
    world.scheduler.handle(ObjectRemoved(world.pod))
    assert world.worker.was_closed
    assert world.why() == 'running PreBind plugin "Worker": pod "p" not found'
    assert world.scheduler.core.queue.get("default/p") is None


def test_work_can_say_in_its_own_words_that_the_pod_is_gone() -> None:
    def tells(worker: Worker) -> Work:
        try:
            yield PATCH
        except PodGone as gone:
            raise PluginError(f"too late: {gone}") from gone
        return None

    world = World(tells)
    world.scheduler.handle(ObjectRemoved(world.pod))
    assert world.why() == 'running PreBind plugin "Worker": too late: pod "p" not found'


@pytest.mark.parametrize("ends", [True, False], ids=["it ends", "it goes on"])
def test_work_that_takes_no_notice_is_over_all_the_same(ends: bool) -> None:
    def stubborn(worker: Worker) -> Work:
        try:
            yield ON_CLAIM
        except PodGone:
            if not ends:
                yield ON_CLAIM
        return None

    world = World(stubborn)
    world.scheduler.handle(ObjectRemoved(world.pod))
    assert world.why() == 'running PreBind plugin "Worker": pod does not exist any more'


def test_an_answer_that_comes_too_late_is_no_news() -> None:
    world = World(one_write)
    (write,) = world.intents(Write)
    world.scheduler.handle(ObjectRemoved(world.pod))
    world.scheduler.handle(WriteAnswered(write.token, a_claim()))
    assert world.intents(Bind) == []


def test_a_more_important_pod_ends_the_work_without_deleting_anything() -> None:
    world = World(pauses)
    world.intents()
    urgent = a_pod("urgent", cpu="4", metadata={"uid": "v"}, priority=10, schedulerName="default-scheduler")
    world.scheduler.handle(ObjectAdded(urgent))
    world.scheduler.attempt()
    told = world.intents()
    assert world.worker.was_closed
    notes = [record.note for record in told if isinstance(record, Record)]
    assert "Preempted by pod v on node n (in kube-scheduler memory)." in notes
    assert 'running PreBind plugin "Worker": preempted by DefaultPreemption' in notes
    assert not [intent for intent in told if type(intent).__name__ == "Evict"]
    assert world.scheduler.check() == []


def test_what_cannot_be_closed_is_reported() -> None:
    reports: list[str] = []

    def stubborn(worker: Worker) -> Work:
        while True:
            try:
                yield ON_CLAIM
            except GeneratorExit:
                yield ON_CLAIM

    world = World(stubborn)
    world.scheduler.core.report = lambda text, error: reports.append(text)
    urgent = a_pod("urgent", cpu="4", metadata={"uid": "v"}, priority=10, schedulerName="default-scheduler")
    world.scheduler.handle(ObjectAdded(urgent))
    world.scheduler.attempt()
    assert reports == ["PreBind of plugin Worker could not be closed"]
    assert not world.is_at_work


def test_the_check_finds_a_pod_that_counts_as_waiting_for_an_object_and_does_not() -> None:
    world = World(pauses)
    runs, bindings = world.scheduler.core.pre_bind, world.scheduler.core.bindings
    assert runs.check(bindings) == []
    assert runs.check({}) == ["PreBind works for u, which is not being bound"]
    run, fault = runs.by_pod["u"], [f"u counts as waiting for {CLAIM}, but does not wait for it"]
    run.pause = Pause(on=frozenset({(PersistentVolumeClaim, "default/other")}))
    assert runs.check(bindings) == fault
    run.pause = None
    assert runs.check(bindings) == fault
    runs.by_pod.clear()
    assert runs.check(bindings) == fault
