"""One member of a PodGroup is asked about for all: by the gates, and by queueing hints. The twin asks about each of them."""

import sys
from collections.abc import Sequence
from random import Random
from types import FrameType

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gangs import GangWorld, a_group, a_member
from mooring.framework.attempts.observing_callers import is_sampled
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import PreEnqueuePlugin
from mooring.framework.contract.status import Rejection, final
from mooring.framework.profile.registry import Registry
from mooring.model.pod import Pod
from mooring.plugins import in_tree_plugins
from mooring.plugins.group_plugins import GangScheduling
from mooring.scheduler.inputs import HalfMinutePassed


class OneByOne(GangScheduling):
    """The same plugin without the promise that pods of a group get one answer."""

    is_asked_by_group = False

    def events(self) -> Sequence[Registration]:
        keys = {
            id(each.keys): msgspec.structs.replace(each.keys, by_group=False)
            for each in super().events()
            if each.keys is not None
        }
        return [msgspec.structs.replace(each, keys=keys.get(id(each.keys))) for each in super().events()]


def a_world(is_twin: bool) -> GangWorld:
    classes = [OneByOne if is_twin and each is GangScheduling else each for each in in_tree_plugins()]
    return GangWorld(registry=Registry(classes))


def seen(world: GangWorld) -> tuple[object, ...]:
    """All that can be known of the queue: places in order, what entries remember, counters, and the text of all metrics but
    those of single calls of plugins, of which a tenth is measured."""
    queue = world.core.queue
    pods = [
        (e.key, queue.where(e.key), e.rejectors, e.gating_plugin, e.gating_message, queue.gate_of(e), e.timestamp_ns)
        for e in queue.entries()
    ]
    counters = queue.counters
    counts = (dict(counters.incoming_entities), dict(+counters.unschedulable), dict(counters.hints))
    lines = world.metrics.registry.text().splitlines()
    metrics = [line for line in lines if "scheduler_plugin_execution_duration_seconds" not in line]
    return pods, counts, world.where(), metrics


def do(world: GangWorld, step: tuple[int, int, int]) -> None:
    action, group, number = step
    name, pod = f"g{group}", f"p{group}-{number}"
    if action < 4:
        gates = [{"name": "wait"}] if action == 1 else []
        if f"default/{pod}" not in world.scheduler.pods:
            world.driver.create(a_member(pod, name, priority=number if action == 2 else 0, schedulingGates=gates))
    elif action == 4:
        world.driver.delete("Pod", f"default/{pod}")
    elif action == 5:
        world.driver.update(a_member(pod, name))
    elif action == 6:
        change = world.driver.update if ("PodGroup", f"default/{name}") in world.driver.objects else world.driver.create
        change(a_group(name, number or None))
    elif action == 7:
        world.driver.delete("PodGroup", f"default/{name}")
    elif action == 8:
        world.driver.advance_second()
    elif action == 9:
        world.scheduler.handle(HalfMinutePassed())
    else:
        world.driver.settle()


@given(st.integers(0, 1 << 32))
def test_members_are_where_they_would_be_if_each_were_asked_about(seed: int) -> None:
    """Steps by seed: Hypothesis repeats members and groups so often that few groups have three members."""
    random = Random(seed)
    world, twin = a_world(False), a_world(True)
    for each in (world, twin):
        each.node("n", "3")
        each.group("g0", 3)
    for _ in range(30):
        step = random.randint(0, 10), random.randint(0, 1), random.randint(0, 4)
        do(world, step)
        do(twin, step)
        assert seen(world) == seen(twin)
        assert world.scheduler.check() == []


def test_one_member_is_asked_about_by_the_gates_and_by_hints() -> None:
    asked: list[str] = []

    class Counting(GangScheduling):
        def pre_enqueue(self, pod):  # type: ignore[no-untyped-def]
            asked.append(pod.name)
            return super().pre_enqueue(pod)

    world = GangWorld(registry=Registry([Counting if each is GangScheduling else each for each in in_tree_plugins()]))
    world.group("gang", 9)
    world.members(*(f"m{number}" for number in range(8)))
    # The first member is asked about its own coming; each that follows has those before it asked.
    assert world.core.queue.counters.hints["GangScheduling", "UnscheduledPodAdd", "Queue"] == 1 + sum(range(8))
    # The gates are asked about the whole group when a member comes: 1 + 2 + ... + 8 times, and once more about the first.
    assert world.core.queue.counters.incoming["unschedulable", "UnscheduledPodAdd"] == 1 + 1 + 2 * sum(range(2, 9))
    admissions = 1 + sum(range(1, 9))
    sampled = sum(is_sampled(number) for number in range(1, admissions + 1))
    assert len(asked) <= 9 + sampled < admissions


class OddsWait(PreEnqueuePlugin):
    """Holds back every other pod by its name, and fails to say which it may hold back."""

    name = "OddsWait"

    @classmethod
    def may_gate(cls, pod: Pod) -> bool:
        raise KeyError(pod.name)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        return final(f"{pod.name} is odd") if int(pod.name[-1]) % 2 else None


def test_members_are_asked_about_one_by_one_where_a_gate_cannot_say_which_it_may_hold_back() -> None:
    registry = Registry(in_tree_plugins())
    registry.register_factory("OddsWait", OddsWait)
    world = GangWorld(registry=registry, enabled=["OddsWait"])
    world.group("gang", 1)
    world.members("m0", "m1", "m2", "m3")
    queue = world.core.queue
    assert {entry.key: (entry.gating_message, queue.gate_of(entry)) for entry in queue.entries()} == {
        "default/m0": ("", "m3 is odd"),
        "default/m1": ("m1 is odd", "m1 is odd"),
        "default/m2": ("", "m3 is odd"),
        "default/m3": ("m3 is odd", "m3 is odd"),
    }


def test_what_a_member_costs_that_comes_does_not_grow_with_its_group() -> None:
    """Function calls of the queue while the last of 20 and of 200 members comes."""

    def calls(size: int) -> int:
        world = GangWorld()
        world.group("gang", size + 9)
        world.members(*(f"m{number}" for number in range(size - 1)))
        count = 0

        def trace(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call" and "/mooring/queue/" in frame.f_code.co_filename

        sys.setprofile(trace)
        try:
            world.driver.create(a_member("last"))
        finally:
            sys.setprofile(None)
        return count

    assert calls(200) <= calls(20) + 5  # the place among the members is found by bisection
