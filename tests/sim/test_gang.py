"""The gang of examples/gang.py on the virtual clock: its pods start together or not at all."""

from pathlib import Path

import pytest

from build import a_node, a_pod
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.profile.registry import load_file
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

PLUGIN = Path(__file__).parents[2] / "examples" / "gang.py"
CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Gang"}]}},
                "pluginConfig": [{"name": "Gang", "args": {"timeoutSeconds": 20}}],
            }
        ],
    }
)
TIMEOUT = "0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Gang."


class World:
    """A cluster with the plugin, and what tests ask about it."""

    def __init__(self, *nodes: Node) -> None:
        registry = all_plugins()
        load_file(registry, str(PLUGIN))
        self.clock = VirtualClock(START_NS)
        self.scheduler = build_scheduler(CONFIG, self.clock, registry)
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)
        for node in nodes:
            self.driver.create(node)

    def arrive(self, *pods: Pod) -> None:
        for pod in pods:
            self.driver.create(pod)
        self.driver.settle()
        assert self.scheduler.check() == []

    def leave(self, name: str) -> None:
        self.driver.delete("Pod", f"default/{name}")
        self.driver.settle()
        assert self.scheduler.check() == []

    def wait_until(self, seconds: float) -> None:
        """All that happens by itself until then."""
        end_ns = START_NS + round(seconds * NS_PER_S)
        while (next_ns := self.driver.next_ns(end_ns)) is not None and next_ns < end_ns:
            self.driver.jump(next_ns)
            self.driver.settle()
        self.driver.jump(end_ns)
        self.driver.settle()
        assert self.scheduler.check() == []

    def bound(self) -> list[str]:
        return sorted(pod.name for pod in self.driver.pods() if pod.spec.node_name)

    def waiting(self) -> list[str]:
        return sorted(waiting.pod.name for waiting in self.scheduler.core.services.waiting)

    def holding(self) -> list[str]:
        """Who takes room on a node, bound or not."""
        return sorted(pod.name for pod in self.scheduler.core.cluster.nodes.pods())

    def message(self, name: str) -> str:
        pod = self.driver.objects["Pod", f"default/{name}"]
        assert isinstance(pod, Pod)
        return next(c.message or "" for c in pod.status.conditions or () if c.type == "PodScheduled")

    def when_quiet(self) -> float:
        """The time at which nothing is left to happen, in seconds."""
        while (next_ns := self.driver.next_ns()) is not None:
            assert next_ns < START_NS + 3600 * NS_PER_S, "it never ends"
            self.driver.jump(next_ns)
            self.driver.settle()
        return (self.clock.now_ns() - START_NS) / NS_PER_S


def member(gang: str, number: int, size: int = 3, cpu: str = "2") -> Pod:
    labels = {"gang": gang, "gang-size": str(size)}
    return a_pod(f"{gang}-{number}", cpu=cpu, labels=labels, schedulerName="default-scheduler")


def members(gang: str, size: int = 3, cpu: str = "2") -> list[Pod]:
    return [member(gang, i, size, cpu) for i in range(size)]


def test_a_gang_that_fits_starts_with_its_last_member() -> None:
    world = World(a_node("n", cpu="8"))
    first, second, last = members("g")
    world.arrive(first, second)
    assert (world.bound(), world.waiting()) == ([], ["g-0", "g-1"])
    world.arrive(last)
    assert (world.bound(), world.waiting()) == (["g-0", "g-1", "g-2"], [])


def test_a_gang_that_does_not_fit_starts_nobody_and_keeps_no_room() -> None:
    world = World(a_node("n", cpu="4"))
    world.arrive(*members("g"))
    assert (world.bound(), world.waiting()) == ([], ["g-0", "g-1"])
    assert world.when_quiet() == pytest.approx(60, abs=0.1), "each has had its chance"
    assert (world.bound(), world.waiting(), world.holding()) == ([], [], [])


def test_room_that_a_gang_gave_up_goes_to_others() -> None:
    world = World(a_node("n", cpu="4"))
    world.arrive(*members("g"))
    world.arrive(a_pod("single", cpu="4", schedulerName="default-scheduler"))
    assert world.bound() == []
    world.when_quiet()
    assert world.bound() == ["single"]


def test_the_first_to_lose_patience_says_so_and_the_others_whom_they_waited_for() -> None:
    world = World(a_node("n", cpu="4"))
    world.arrive(member("g", 0), member("g", 1))
    world.wait_until(19)
    assert world.waiting() == ["g-0", "g-1"]
    world.wait_until(21)
    assert (world.waiting(), world.holding()) == ([], [])
    assert world.message("g-0") == TIMEOUT
    assert world.message("g-1") == "0/1 nodes are available: 1 gang g is not complete: g-0 went back."


def test_a_member_that_is_deleted_while_waiting_sends_the_others_back() -> None:
    world = World(a_node("n", cpu="8"))
    world.arrive(member("g", 0), member("g", 1))
    world.leave("g-1")
    assert (world.waiting(), world.holding()) == ([], [])
    assert world.message("g-0") == "0/1 nodes are available: 1 gang g is not complete: g-1 went back."


def test_a_gang_that_lost_a_member_starts_when_it_is_replaced() -> None:
    world = World(a_node("n", cpu="8"))
    world.arrive(member("g", 0), member("g", 1))
    world.leave("g-1")
    world.arrive(member("g", 7), member("g", 8))
    assert world.bound() == ["g-0", "g-7", "g-8"]


def test_a_member_that_arrives_late_but_in_time_completes_the_gang() -> None:
    world = World(a_node("n", cpu="8"))
    world.arrive(member("g", 0), member("g", 1))
    world.wait_until(15)
    world.arrive(member("g", 2))
    assert world.bound() == ["g-0", "g-1", "g-2"]


def test_a_member_that_arrives_too_late_brings_the_others_back() -> None:
    world = World(a_node("n", cpu="8"))
    world.arrive(member("g", 0), member("g", 1))
    world.wait_until(100)
    assert (world.bound(), world.waiting()) == ([], [])
    world.arrive(member("g", 2))
    assert world.bound() == ["g-0", "g-1", "g-2"]


def test_a_gang_starts_when_others_leave() -> None:
    world = World(a_node("n", cpu="8"))
    world.arrive(a_pod("old", cpu="4", schedulerName="default-scheduler"))
    world.arrive(*members("g"))
    world.when_quiet()
    assert world.bound() == ["old"]
    world.leave("old")
    world.when_quiet()
    assert world.bound() == ["g-0", "g-1", "g-2"]


def test_a_gang_starts_when_a_node_is_added() -> None:
    world = World(a_node("n", cpu="4"))
    world.arrive(*members("g"))
    world.when_quiet()
    world.driver.create(a_node("m", cpu="4"))
    world.driver.settle()
    world.when_quiet()
    assert world.bound() == ["g-0", "g-1", "g-2"]


def test_gangs_of_one_name_in_two_namespaces_are_two_gangs() -> None:
    world = World(a_node("n", cpu="16"))
    labels = {"gang": "g", "gang-size": "2"}
    pods = [a_pod("p", namespace=ns, cpu="1", labels=labels, schedulerName="default-scheduler") for ns in ("a", "b")]
    world.arrive(*pods)
    assert world.bound() == []


def test_pods_of_no_gang_do_not_wait() -> None:
    world = World(a_node("n"))
    world.arrive(a_pod("p", schedulerName="default-scheduler"))
    assert world.bound() == ["p"]
