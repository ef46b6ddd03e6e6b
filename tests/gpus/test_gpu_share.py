"""GpuShare in a scheduler: which GPU a pod gets, what is given back, models, preemption, and kept answers."""

from typing import Any

import pytest
from gpu_sharing import FGD, BestFit, DotProd, GpuClustering, GpuPacking, GpuShare, Random
from gpu_sharing.devices import FIRST, GpuDevices
from gpu_sharing.requests import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import VirtualClock
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.scheduler.decide import DecideOptions
from mooring.sim.scenario import Outcome, Placer
from mooring.state.scheduler_assembly import build_scheduler

POLICIES = (Random, DotProd, GpuClustering, GpuPacking, BestFit, FGD)
BY_NAME: dict[str, Any] = {"schedulerName": "default-scheduler"}
TYPICAL = [
    {"cpuMilli": 4000, "gpuMilli": 500, "weight": 3},
    {"cpuMilli": 8000, "gpuCount": 1, "weight": 2},
    {"cpuMilli": 8000, "gpuCount": 2, "models": ["V100"], "weight": 2},
    {"cpuMilli": 1000, "gpuCount": 0, "weight": 1},
]


def registry() -> Registry:
    found = in_tree()
    for plugin in (GpuShare, *POLICIES):
        found.register(plugin)
    return found


def configured(policy: str, choice: str = "best", typical: Any = TYPICAL) -> Any:
    sets: dict[str, Any] = {
        "multiPoint": {"enabled": [{"name": "GpuShare"}]},
        "preScore": {"disabled": [{"name": "*"}], "enabled": [{"name": policy}] if policy == "Random" else []},
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": policy}]},
    }
    arguments = [
        {"name": "GpuShare", "args": {"deviceChoice": choice}},
        {"name": "FGD", "args": {"typicalPods": typical}},
    ]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return config.from_object({**head, "profiles": [{"plugins": sets, "pluginConfig": arguments}]})


def a_gpu_node(name: str, gpus: int, model: str = "T4", cpu: str = "32") -> Node:
    return a_node(name, cpu=cpu, memory="64Gi", labels={GPU_MODEL: model}, allocatable={GPU_COUNT: str(gpus)})


def a_gpu_pod(name: str, milli: int, count: int = 1, models: str = "", cpu: str = "1", **more: Any) -> Pod:
    annotations = {GPU_MILLI: str(milli), GPU_COUNT: str(count), **({GPU_MODEL: models} if models else {})}
    annotations.update(more.pop("annotations", {}))
    return a_pod(name, cpu=cpu, metadata={"uid": name, "annotations": annotations}, **{**BY_NAME, **more})


class Stage:
    """A scheduler on a virtual clock. It carries out every write at once."""

    def __init__(self, *nodes: Node, policy: str = "BestFit", choice: str = "best", typical: Any = TYPICAL) -> None:
        self.clock = VirtualClock(START_NS)
        self.scheduler = build_scheduler(configured(policy, choice, typical), self.clock, registry())
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)
        for node in nodes:
            self.driver.create(node)

    def come(self, *pods: Pod) -> list[tuple[str, str]]:
        """Node and GPUs of each of the pods, after they were tried."""
        for pod in pods:
            self.driver.create(pod)
        while self.driver.attempt_once() is not None:
            self.driver.settle()
        assert self.scheduler.check() == []
        there = {pod.name: pod for pod in self.driver.pods()}
        return [
            (there[pod.name].spec.node_name, (there[pod.name].metadata.annotations or {}).get(GPU_INDEX, ""))
            for pod in pods
        ]

    def free(self, name: str) -> list[int]:
        """The free room of the GPUs of a node."""
        nodes = self.scheduler.core.cluster.nodes
        plugin = next(iter(self.scheduler.core.runners.values())).profile.plugins["GpuShare"]
        assert isinstance(plugin, GpuShare)
        return list(plugin.devices.matrix.row(nodes, nodes.row_book[name])[FIRST:])


def test_a_share_gets_the_gpu_with_the_least_room_and_whole_gpus_the_free_ones() -> None:
    stage = Stage(a_gpu_node("n", 4))
    assert stage.come(a_gpu_pod("a", 600), a_gpu_pod("b", 700), a_gpu_pod("c", 300)) == [
        ("n", "0"),
        ("n", "1"),
        ("n", "1"),
    ]
    assert stage.come(a_gpu_pod("d", 1000, 2)) == [("n", "2-3")]
    assert stage.free("n") == [400, 0, 0, 0]


@pytest.mark.parametrize(("choice", "index"), [("best", "1"), ("worst", "2")])
def test_the_argument_says_which_gpu_a_share_gets(choice: str, index: str) -> None:
    first = a_gpu_pod("a", 300, nodeName="n", annotations={GPU_INDEX: "0"})
    second = a_gpu_pod("b", 500, nodeName="n", annotations={GPU_INDEX: "1"})
    stage = Stage(a_gpu_node("n", 3), choice=choice)
    stage.come(first, second)
    assert stage.free("n") == [700, 500, 1000]
    assert stage.come(a_gpu_pod("c", 400)) == [("n", index)]


def test_a_share_gets_any_gpu_at_random() -> None:
    stage = Stage(a_gpu_node("n", 4), choice="random")
    found = stage.come(*[a_gpu_pod(f"p{number}", 10, cpu="100m") for number in range(40)])
    assert {index for _, index in found} == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("typical", "index"),
    [
        pytest.param({"gpuMilli": 500}, "0", id="two halves of a GPU stay usable, 100 would not"),
        pytest.param({"gpuCount": 1}, "1", id="the whole GPU stays usable"),
    ],
)
def test_fgd_leaves_what_typical_pods_can_use(typical: dict[str, int], index: str) -> None:
    stage = Stage(a_gpu_node("n", 2), policy="FGD", choice="FGD", typical=[typical])
    stage.come(a_gpu_pod("a", 400, nodeName="n", annotations={GPU_INDEX: "1"}))
    assert stage.free("n") == [1000, 600]
    assert stage.come(a_gpu_pod("b", 500)) == [("n", index)]


def test_pods_go_to_nodes_with_a_gpu_of_their_model() -> None:
    stage = Stage(a_gpu_node("n", 8), a_gpu_node("o", 1, "V100"), a_gpu_node("p", 1, "A100"), a_node("q"))
    assert stage.come(a_gpu_pod("a", 500, models="V100|P100"), a_gpu_pod("b", 1000, models="A100")) == [
        ("o", "0"),
        ("p", "0"),
    ]
    assert stage.come(a_gpu_pod("c", 1000, models="V100"), a_gpu_pod("d", 100, models="P4")) == [("", ""), ("", "")]


def test_what_a_pod_had_is_free_when_it_is_gone() -> None:
    stage = Stage(a_gpu_node("n", 1))
    assert stage.come(a_gpu_pod("a", 700), a_gpu_pod("b", 700)) == [("n", "0"), ("", "")]
    stage.driver.delete("Pod", "default/a")
    assert stage.free("n") == [1000]


def test_a_pod_without_its_gpus_takes_those_where_it_leaves_the_least_room() -> None:
    """Another scheduler placed it, and has not told which GPU it has."""
    stage = Stage(a_gpu_node("n", 2))
    stage.come(a_gpu_pod("a", 500, nodeName="n", annotations={GPU_INDEX: "1"}), a_gpu_pod("b", 400, nodeName="n"))
    assert stage.free("n") == [1000, 100]


def test_an_annotation_that_changes_on_a_pod_in_place_moves_it() -> None:
    stage = Stage(a_gpu_node("n", 2))
    stage.come(a_gpu_pod("a", 500, nodeName="n", annotations={GPU_INDEX: "1"}))
    assert stage.free("n") == [1000, 500]
    pod = a_gpu_pod("a", 500, nodeName="n", annotations={GPU_INDEX: "0"})
    stage.driver.update(pod)
    assert stage.free("n") == [500, 1000]


def test_unreserve_gives_the_gpus_back() -> None:
    placer = Placer(configured("BestFit"), DecideOptions(), registry())
    placer.put(a_gpu_node("n", 2))
    pod = a_gpu_pod("a", 600)
    placer.put(pod)
    runner = placer.runner_of(pod)
    assert runner is not None
    plugin = runner.profile.plugins["GpuShare"]
    assert isinstance(plugin, GpuShare)
    context = runner.open(pod, placer.cluster).context
    nodes = placer.cluster.nodes
    assert plugin.reserve(context, "n") is None
    nodes.place(pod, "n")
    assert plugin.devices.matrix.row(nodes, 0)[FIRST:] == (400, 1000)
    assert plugin.devices.given_to(pod) == (0,)
    plugin.unreserve(context, "n")
    nodes.displace(pod.id)
    assert plugin.devices.matrix.row(nodes, 0)[FIRST:] == (1000, 1000)
    assert plugin.devices.given_to(pod) == ()


def test_preemption_finds_the_pods_whose_gpus_are_needed() -> None:
    stage = Stage(a_gpu_node("n", 2), a_gpu_node("o", 1))
    stage.come(a_gpu_pod("a", 1000, 1, priority=5), a_gpu_pod("b", 600), a_gpu_pod("c", 600))
    evicted: list[str] = []
    stage.driver.on_evicted = lambda victim, by: evicted.append(victim.name)
    stage.come(a_gpu_pod("d", 500, 1, priority=9))
    assert len(evicted) == 1 and evicted[0] in {"b", "c"}


steps = st.lists(
    st.tuples(st.sampled_from([0, 100, 400, 500, 1000]), st.integers(1, 2), st.sampled_from(["", "T4", "V100|P4"])),
    min_size=1,
    max_size=25,
)


@pytest.mark.parametrize("policy", [policy.name for policy in POLICIES])
@settings(max_examples=examples(8), deadline=None)
@given(steps=steps)
def test_kept_answers_give_the_decisions_of_fresh_ones(policy: str, steps: list[tuple[int, int, str]]) -> None:
    """A scheduler that forgets everything before each pod decides the same; and the room of every GPU adds up."""
    choice = "FGD" if policy == "FGD" else "random" if policy == "Random" else "best"
    placers = [Placer(configured(policy, choice), DecideOptions(), registry()) for _ in range(2)]
    for placer in placers:
        for number in range(6):
            placer.put(a_gpu_node(f"n{number}", 1 + number % 4, "V100" if number % 2 else "T4", cpu=str(4 + number)))
    for number, (milli, count, models) in enumerate(steps):
        pod = a_gpu_pod(f"p{number}", milli, count, models) if milli else a_pod(f"p{number}", cpu="2", **BY_NAME)
        found = []
        for placer in placers:
            placer.put(pod)
            if placer is placers[1]:
                runner = placer.runner_of(pod)
                assert runner is not None
                runner.kept.clear()
            step = placer.place(pod.key)
            found.append((step.outcome, getattr(step.decision, "node", None)))
            if step.outcome is not Outcome.SCHEDULED:
                del placer.pending[pod.key]
        assert found[0] == found[1]
    check_rooms(placers[0])


def check_rooms(placer: Placer) -> None:
    """The free room of each GPU is what the pods that have it leave."""
    runner = placer.runner_of(a_pod("any", **BY_NAME))
    assert runner is not None
    plugin = runner.profile.plugins["GpuShare"]
    assert isinstance(plugin, GpuShare)
    devices: GpuDevices = plugin.devices
    nodes = placer.cluster.nodes
    for row in range(nodes.height):
        expected = [1000] * (1 + row % 4)
        for pod in nodes.pods_on[row]:
            annotations = pod.metadata.annotations or {}
            given = devices.given_to(pod)
            assert len(given) == (int(annotations[GPU_COUNT]) if annotations else 0)
            for index in given:
                expected[index] -= int(annotations[GPU_MILLI]) if annotations[GPU_COUNT] == "1" else 1000
        assert min(expected) >= 0
        assert list(devices.matrix.row(nodes, row)[FIRST:]) == expected
