"""The room that nominated pods will take, against a plain recount after random changes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import CPU, a_node, a_pod
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import Load, NominatedLoad
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector
from mooring.model.pod import Pod
from mooring.model.selectors import compile_selector

NODES = ("n0", "n1", "n2", "n3")
PODS = tuple(f"p{i}" for i in range(5))
PRIORITIES = (-5, 0, 10, 100)
GPU = "example.com/gpu"

EVERYBODY = PodPredicate(compile_selector(LabelSelector()), frozenset(("default",)))

Recount = dict[str, tuple[int, int, int]]
"""By node: milli-CPU, devices, pods."""

STEP = st.one_of(
    st.tuples(
        st.just("promise"),
        st.sampled_from(PODS),
        st.sampled_from(NODES),
        st.sampled_from(PRIORITIES),
        st.integers(0, 3),
        st.integers(0, 2),
    ),
    st.tuples(st.just("withdraw"), st.sampled_from(PODS)),
    st.tuples(st.just("put node"), st.sampled_from(NODES)),
    st.tuples(st.just("remove node"), st.sampled_from(NODES)),
    st.tuples(st.just("crowd"), st.integers(1, 80)),
    st.tuples(st.just("ask")),
)


def asker(name: str, priority: int) -> Pod:
    return a_pod(name, priority=priority)


def nominee(name: str, priority: int, cpus: int, gpus: int) -> Pod:
    return a_pod(name, cpu=str(cpus), requests={GPU: gpus} if gpus else None, priority=priority)


def as_recount(load: Load, nodes: NodeTable) -> Recount:
    found = {}
    gpu = nodes.amounts.resource_book.get(GPU)
    for name, row in nodes.row_book.items():
        gpus = int(load.requested[gpu, row]) if gpu is not None else 0
        if load.pod_count[row]:
            found[name] = int(load.requested[CPU, row]), gpus, int(load.pod_count[row])
        else:
            assert not load.requested[:, row].any()
    return found


def compare_crowds(nominated: NominatedLoad, pod: Pod, load: Load, nodes: NodeTable) -> None:
    """The room on the rows where there are nominated pods is that of `load`, from all pods and row by row."""
    crowd = nominated.crowd_beside(pod)
    rows = crowd.rows.tolist()
    assert sorted(rows) == np.flatnonzero(load.pod_count).tolist()
    assert crowd.pod_count.tolist() == load.pod_count[rows].tolist()
    assert crowd.requested.tolist() == load.requested[:, rows].tolist()
    everywhere = [row for row, name in enumerate(nodes.names) if name]
    few = nominated.crowd_on(everywhere, pod.priority, pod.id)
    by_row = {} if few is None else dict(zip(few.rows.tolist(), few.requested.T.tolist(), strict=True))
    assert {row: amounts for row, amounts in by_row.items() if row in rows} == dict(
        zip(rows, crowd.requested.T.tolist(), strict=True)
    )
    if pod.name == "stranger" and pod.priority == min(PRIORITIES):
        counts = nominated.tallies().matching((EVERYBODY,), with_terminating=True).counts
        assert np.array_equal(counts[: nodes.height], load.pod_count[: nodes.height])


def recount(promised: dict[str, tuple[str, int, int, int]], known: set[str], name: str, priority: int) -> Recount:
    """What all others of at least this priority will take of the nodes that are known."""
    found: dict[str, Counter[str]] = {}
    for other, (node, its_priority, cpus, gpus) in promised.items():
        if node in known and other != name and its_priority >= priority:
            found.setdefault(node, Counter()).update(cpu=1000 * cpus, gpu=gpus, pods=1)
    return {node: (sums["cpu"], sums["gpu"], sums["pods"]) for node, sums in found.items()}


class Promises:
    """The load, and in plain dictionaries what it is measured against."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.nominated = NominatedLoad(self.nodes)
        self.promised: dict[str, tuple[str, int, int, int]] = {}
        self.known: set[str] = set()

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("promise", str(pod), str(node), int(priority), int(cpus), int(gpus)):
                self.nominated.promise(nominee(pod, priority, cpus, gpus), node)
                self.promised[pod] = (node, priority, cpus, gpus)
            case ("withdraw", str(pod)):
                self.nominated.withdraw(nominee(pod, 0, 0, 0).id)
                self.promised.pop(pod, None)
            case ("put node", str(node)):
                self.nodes.put_node(a_node(node, allocatable={GPU: 4}))
                self.known.add(node)
            case ("remove node", str(node)) if node in self.known:
                self.nodes.remove_node(node)
                self.known.remove(node)
            case ("crowd", int(count)):  # more rows than the columns had room for
                for i in range(count):
                    self.nodes.put_node(a_node(f"crowd{i}"))
            case ("ask",):  # from now on the resource is counted, as long as a node has it
                self.nodes.amounts.resource(GPU)


@given(st.lists(STEP, max_size=25))
def test_the_load_is_the_sum_over_the_others_of_no_lower_priority(steps: list[tuple[object, ...]]) -> None:
    world = Promises()
    nodes, nominated, promised, known = world.nodes, world.nominated, world.promised, world.known
    for step in steps:
        world.take(step)
        assert bool(nominated) is bool(promised)
        for name in (*PODS[:2], "stranger"):
            for priority in (*PRIORITIES, 1000):
                load = nominated.load_beside(asker(name, priority))
                expected = recount(promised, known, name, priority)
                if GPU not in nodes.amounts.resource_book:
                    expected = {node: (cpus, 0, pods) for node, (cpus, _, pods) in expected.items()}
                assert as_recount(load, nodes) == expected
                compare_crowds(nominated, asker(name, priority), load, nodes)
        for node in NODES:
            assert {pod.name for pod in nominated.on(node)} == {p for p, kept in promised.items() if kept[0] == node}
            for priority in PRIORITIES:
                beside = {pod.name for pod in nominated.beside(asker("p0", priority), node)}
                assert beside == {
                    p for p, kept in promised.items() if p != "p0" and kept[0] == node and kept[1] >= priority
                }


@pytest.mark.parametrize(
    ("own", "asks", "left"),
    [
        pytest.param(10, 10, {"n0": (2000, 0, 1)}, id="its own promise is left out"),
        pytest.param(10, 100, {}, id="one whose priority rose since was not counted, so is not taken off"),
        pytest.param(10, -5, {"n0": (2000, 0, 1)}, id="one whose priority fell is taken off"),
    ],
)
def test_a_pod_does_not_leave_room_for_itself(own: int, asks: int, left: Recount) -> None:
    nodes = NodeTable()
    nodes.put_node(a_node("n0"))
    nominated = NominatedLoad(nodes)
    nominated.promise(nominee("p0", own, 1, 0), "n0")
    nominated.promise(nominee("p1", 10, 2, 0), "n0")
    assert as_recount(nominated.load_beside(asker("p0", asks)), nodes) == left
    everybody = nominated.load_beside(asker("stranger", 10))
    assert as_recount(everybody, nodes) == {"n0": (3000, 0, 2)}, "leaving it out changed what is kept"


def test_a_promise_and_its_end_touch_the_row() -> None:
    nodes = NodeTable()
    nodes.put_node(a_node("n0"))
    row = nodes.put_node(a_node("n1"))
    nominated = NominatedLoad(nodes)
    pod = nominee("p0", 0, 1, 0)
    start = nodes.touches.end
    nominated.promise(pod, "n1")
    assert nodes.touches.since(start) == [row]
    middle = nodes.touches.end
    nominated.withdraw(pod.id)
    assert nodes.touches.since(middle) == [row]
    assert nominated.node_of(pod.id) is None


def test_a_newer_form_of_a_nominated_pod_touches_its_row_only_if_rules_count_it_in_another_way() -> None:
    nodes = NodeTable()
    row = nodes.put_node(a_node("n0"))
    nominated = NominatedLoad(nodes)
    nominated.promise(a_pod("p0", labels={"app": "a"}), "n0")
    forms = [
        (a_pod("p0", labels={"app": "a"}, metadata={"resourceVersion": "2"}), []),
        (a_pod("p0", labels={"app": "b"}), [row]),
        (a_pod("p0", labels={"app": "b"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), [row]),
    ]
    for newer, touched in forms:
        before = nodes.touches.end
        nominated.promise(newer, "n0")
        assert nodes.touches.since(before) == touched
        assert nominated.get(newer.id) is newer


def test_a_pod_is_nominated_to_one_node_at_a_time() -> None:
    nominated = NominatedLoad(NodeTable())
    pod = nominee("p0", 0, 1, 0)
    nominated.promise(pod, "n0")
    nominated.promise(pod, "n1")
    assert (nominated.on("n0"), nominated.on("n1"), nominated.node_of(pod.id)) == ([], [pod], "n1")
