"""Fragmentation: the share of what is free that the pods of a cluster cannot use, against plain loops."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.framework import config as configuration
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import DecisionDetails, NoFit, Placement
from mooring.sim.fragmentation import (
    TypicalRequests,
    WeighedShape,
    cut_shapes,
    fragmentation_by_use,
    fragmentation_of,
    fragmented_share,
    weighed_shapes,
)
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.state.scheduler_assembly import all_plugins
from random_clusters import clusters

WHO: dict[str, Any] = {"schedulerName": "default-scheduler"}


# ---- the kernel

TABLE = {
    "all of it is usable": ([6, 2], [[1, 1]], [1], 0.0),
    "a quarter of the pods cannot use the first node": ([6, 2], [[1, 1], [0, 1]], [3, 1], 0.1875),
    "nothing fits anywhere": ([6, 2], [[0, 0]], [1], 1.0),
    "nothing is free": ([0, 0], [[1, 1]], [1], None),
    "no pod says what people run": ([6, 2], [], [], None),
}


@pytest.mark.parametrize(("free", "fits", "counts", "expected"), TABLE.values(), ids=TABLE.keys())
def test_the_share(free: list[int], fits: list[list[int]], counts: list[int], expected: float | None) -> None:
    matrix = np.array(fits, np.bool_).reshape(len(counts), len(free))
    assert fragmented_share(np.array(free, float), matrix, np.array(counts, float)) == expected


BY_USE = {
    "all that is idle is given": ([6, 2], [[1, 1]], [1], [9, 9], 0.0),
    "half of the idle part of the first node is requested": ([6, 2], [[1, 1]], [1], [3, 9], 0.375),
    "all is requested": ([6, 2], [[1, 1]], [1], [0, 0], 1.0),
    "3 of 8 are given to three pods of four, and 2 to the fourth": ([6, 2], [[1, 0], [0, 1]], [3, 1], [3, 9], 0.65625),
    "nothing is idle": ([0, 0], [[1, 1]], [1], [9, 9], None),
    "no pod says what people run": ([6, 2], [], [], [9, 9], None),
}


@pytest.mark.parametrize(("idle", "fits", "counts", "given", "expected"), BY_USE.values(), ids=BY_USE.keys())
def test_the_share_of_what_is_idle(
    idle: list[int], fits: list[list[int]], counts: list[int], given: list[int], expected: float | None
) -> None:
    """The fourth: (3 * (8 - 3) + 1 * (8 - 2)) / 4 of 8."""
    matrix = np.array(fits, np.bool_).reshape(len(counts), len(idle))
    found = fragmented_share(np.array(idle, float), matrix, np.array(counts, float), np.array(given, float))
    assert found == expected


@given(st.data())
def test_the_kernel_and_its_twin(data: st.DataObject) -> None:
    free = data.draw(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=6))
    counts = data.draw(st.lists(st.integers(1, 1000), max_size=4))
    row = st.lists(st.booleans(), min_size=len(free), max_size=len(free))
    fits = data.draw(st.lists(row, min_size=len(counts), max_size=len(counts)))
    found = fragmented_share(
        np.array(free, float), np.array(fits, np.bool_).reshape(len(counts), len(free)), np.array(counts, float)
    )
    assert found == pytest.approx(_plain_share(free, fits, counts))


def _plain_share(free: list[int], fits: list[list[bool]], counts: list[int]) -> float | None:
    if not sum(free) or not counts:
        return None
    unusable = 0.0
    for shape, count in enumerate(counts):
        for node, amount in enumerate(free):
            if not fits[shape][node]:
                unusable += amount * count
    return unusable / sum(free) / sum(counts)


# ---- on clusters


def test_idle_cpu_that_is_requested_or_behind_a_taint_is_out_of_reach() -> None:
    """By hand: a has 4 cpu, 3 requested and 1 in use; b has 4 cpu, nothing requested and 1 in use, and a taint; nothing is
    known of c. 3 + 3 cpu are idle, and a pod of 1 cpu can get 1 of them: 5/6 are out of reach. By requests 1 + 4 + 4 cpu
    are free, and 5 usable."""
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="4", taints=["k=v:NoSchedule"]), a_node("c", cpu="4")]
    pods = [a_pod(f"p{i}", cpu="1", nodeName="a", **WHO) for i in range(3)]
    simulated = SimulatedCluster([*nodes, *pods], configuration.default())
    shapes = weighed_shapes((pod, 1) for pod in pods)
    rows = simulated.cluster.nodes.row_book
    used = np.full(simulated.cluster.nodes.height, np.nan)
    used[rows["a"]] = used[rows["b"]] = 1000
    assert fragmentation_by_use(simulated, shapes, {"cpu": used}) == {"cpu": pytest.approx(5 / 6)}
    assert fragmentation_of(simulated, shapes)["cpu"] == pytest.approx(4 / 9)
    typical = TypicalRequests(shapes, ("cpu",), 8)
    assert typical.fragmentation_by_use(simulated.cluster.nodes, {"cpu": used}) == {"cpu": pytest.approx(2 / 6)}


def fragmentation(*items: KubeObject) -> dict[str, float | None]:
    simulated = SimulatedCluster(items, configuration.default())
    return fragmentation_of(simulated, weighed_shapes((pod, 1) for pod in items if isinstance(pod, Pod)))


@settings(max_examples=examples(60), deadline=None)
@given(clusters())
def test_it_is_what_decisions_say_about_each_pod_and_node(cluster: LoadedCluster) -> None:
    simulated = SimulatedCluster(cluster.objects, cluster.config)
    found = fragmentation_of(simulated, weighed_shapes((pod, 1) for pod in cluster.pods()))
    for place, resource in enumerate(("cpu", "memory")):
        expected = _plain_fragmentation(simulated, cluster.pods(), place)
        assert found[resource] == (None if expected is None else pytest.approx(expected))


def _plain_fragmentation(simulated: SimulatedCluster, pods: list[Pod], place: int) -> float | None:
    """One decision for each pod, with all its details; one node after the other."""
    nodes = simulated.cluster.nodes
    names = list(nodes.row_book)
    amounts = nodes.amounts
    free = {
        name: amounts.allocatable[place, row] - amounts.requested[place, row] for name, row in nodes.row_book.items()
    }
    total = sum(max(int(amount), 0) for amount in free.values())
    if not total or not pods:
        return None
    unusable = 0.0
    for pod in pods:
        feasible = _feasible(simulated, pod.with_name("another", "another").with_node(""))
        unusable += sum(max(int(free[name]), 0) for name in names if name not in feasible) / total
    return unusable / len(pods)


def _feasible(simulated: SimulatedCluster, pod: Pod) -> set[str]:
    runner = simulated.runner(pod)
    assert runner is not None
    decision = decide(runner, pod, simulated.cluster, DecideOptions(explain=True))
    if isinstance(decision, NoFit):
        return set()
    assert isinstance(decision, Placement)
    details = decision.details
    assert isinstance(details, DecisionDetails)
    return set(details.feasible)


def test_memory_on_a_node_without_cpu_is_fragmented() -> None:
    full = a_pod("full", cpu="4", memory="1Gi", nodeName="n-0", **WHO)
    nodes = [a_node("n-0", cpu="4", memory="8Gi"), a_node("n-1", cpu="4", memory="8Gi")]
    small = [a_pod(f"small-{i}", cpu="1", memory="1Gi", **WHO) for i in range(3)]
    found = fragmentation(*nodes, full, *small)
    assert found["cpu"] == 0, "all free cpu is on n-1, where both fit"
    assert found["memory"] == pytest.approx(7 / 15), "of 15 Gi, 7 are on n-0"


def test_what_is_behind_a_taint_is_fragmented_for_those_who_do_not_tolerate_it() -> None:
    nodes = [a_node("n-0", cpu="4"), a_node("db", cpu="4", taints=["dedicated=db:NoSchedule"])]
    tolerant = a_pod("t", cpu="1", tolerations=[{"key": "dedicated", "operator": "Exists"}], **WHO)
    assert fragmentation(*nodes, tolerant)["cpu"] == 0
    assert fragmentation(*nodes, tolerant, a_pod("p", cpu="1", **WHO))["cpu"] == pytest.approx(0.25)


def test_pods_of_daemon_sets_and_pods_with_claims_say_nothing_about_others() -> None:
    owner = [{"kind": "DaemonSet", "name": "d", "apiVersion": "apps/v1", "controller": True, "uid": "1"}]
    agent = a_pod("agent", cpu="8", metadata={"ownerReferences": owner}, **WHO)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    device = {"name": "gpu", "resourceClaimTemplateName": "t"}
    others = [agent, a_pod("db", volumes=[claim], **WHO), a_pod("gpu", resourceClaims=[device], **WHO)]
    assert weighed_shapes((pod, 1) for pod in others) == []
    assert fragmentation(a_node(), *others) == {"cpu": None, "memory": None}


def test_pods_of_another_scheduler_can_use_nothing_here() -> None:
    pods = [a_pod("a", cpu="1", schedulerName="other")]
    assert fragmentation(a_node(), *pods)["cpu"] == 1


def test_only_the_most_frequent_shapes_count_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.sim.fragmentation.SHAPES", 2)
    pods = [(a_pod(f"p-{i}", cpu=f"{i + 1}", **WHO), 10 - i) for i in range(3)]
    kept, notes = cut_shapes(weighed_shapes(pods))
    assert [(shape.pod.name, shape.count) for shape in kept] == [("p-0-another", 10), ("p-1-another", 9)]
    assert notes == ["fragmentation goes by the 2 most frequent of 3 shapes, 70% of the pods"]
    assert cut_shapes(kept) == (kept, [])


def test_a_shape_is_that_of_a_pod_and_of_its_scheduler() -> None:
    pods = [(a_pod(f"p-{i}", cpu="1", schedulerName=who), 1) for i, who in enumerate(["x", "y", "x"])]
    shapes = weighed_shapes([*pods, (a_pod("none", cpu="7", nodeName="n", **WHO), 0)])
    assert [(shape.pod.name, shape.count) for shape in shapes] == [("p-0-another", 2), ("p-1-another", 1)]


def test_the_pod_that_stands_for_others_is_a_new_one_without_a_node() -> None:
    owner = {"kind": "ReplicaSet", "name": "d", "apiVersion": "apps/v1", "controller": True, "uid": "1"}
    pod = a_pod("p", cpu="1", nodeName="n", metadata={"uid": "u", "ownerReferences": [owner]}, **WHO)
    (shape,) = weighed_shapes([(pod, 3)])
    assert (shape.pod.name, shape.pod.id, shape.pod.spec.node_name, shape.count) == ("p-another", "u-another", "", 3)


def test_two_hundred_shapes_are_asked_about() -> None:
    shapes = [WeighedShape(a_pod(), 1) for _ in range(201)]
    assert cut_shapes(shapes[:200]) == (shapes[:200], [])
    kept, notes = cut_shapes(shapes)
    assert kept == shapes[:200]
    assert notes == ["fragmentation goes by the 200 most frequent of 201 shapes, 100% of the pods"]


def test_nodes_that_are_not_there_and_nodes_with_too_much_on_them_have_nothing_free() -> None:
    small = a_pod("small", cpu="1m", memory="1", **WHO)
    lost = a_pod("lost", cpu="1", nodeName="gone", **WHO)
    full = a_pod("full", cpu="9", nodeName="full", **WHO)
    simulated = SimulatedCluster(
        [a_node("full", cpu="4"), a_node("free", cpu="4"), lost, full], configuration.default()
    )
    assert fragmentation_of(simulated, weighed_shapes([(small, 1)]))["cpu"] == 0


def test_a_pod_that_is_rejected_at_once_can_use_nothing() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("a", "b")]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    assert fragmentation(a_node("a"), a_node("b"), a_pod("p", cpu="1", affinity=affinity, **WHO))["cpu"] == 1


class Failing(PlainPlugin):
    name = "Failing"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        raise ValueError("broken")


def test_a_pod_whose_attempts_fail_can_use_nothing() -> None:
    registry = all_plugins()
    registry.register(Failing)
    config = configuration.from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Failing"}]}}}],
        }
    )
    simulated = SimulatedCluster([a_node("n"), a_node("m")], config, registry)
    assert fragmentation_of(simulated, weighed_shapes([(a_pod("p", cpu="1", **WHO), 1)]))["cpu"] == 1
