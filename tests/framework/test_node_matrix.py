"""The numbers that a plugin keeps by node are always those that it would work out now, also in what-ifs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from how_many import examples
from mooring.cluster.cluster import Cluster
from mooring.plugin import NodeMatrix, NodeTable

NODES = ("a", "b", "c")


class Counting:
    """Works out the lengths of the names of pods on a node, and notes for which rows it was asked."""

    def __init__(self) -> None:
        self.matrix = NodeMatrix(self._work_out)
        self.asked: list[int] = []

    def _work_out(self, nodes: NodeTable, row: int) -> Sequence[int]:
        self.asked.append(row)
        return lengths(nodes, row)


def lengths(nodes: NodeTable, row: int) -> list[int]:
    return [len(pod.name) for pod in nodes.pods_on[row]]


def check(counting: Counting, nodes: NodeTable) -> None:
    expected = [lengths(nodes, row) for row in range(nodes.height)]
    found = counting.matrix.rows(nodes, slice(0, nodes.height))
    width = found.shape[1]
    assert found.tolist() == [[*row, *[0] * (width - len(row))] for row in expected]
    picked = np.array([nodes.height - 1, 0], np.intp)
    assert counting.matrix.rows(nodes, picked).tolist() == found[picked].tolist()
    assert [list(counting.matrix.row(nodes, row)) for row in range(nodes.height)] == expected


def a_world() -> tuple[Counting, Cluster]:
    return Counting(), a_cluster(*(a_node(name) for name in NODES))


def test_only_touched_rows_are_worked_out_again() -> None:
    counting, cluster = a_world()
    check(counting, cluster.nodes)
    counting.asked.clear()
    cluster.nodes.place(a_pod("one"), "b")
    check(counting, cluster.nodes)
    assert counting.asked == [1]
    counting.matrix.void(2)
    check(counting, cluster.nodes)
    assert counting.asked == [1, 2]


def test_a_what_if_works_out_the_rows_that_differ_and_keeps_nothing() -> None:
    counting, cluster = a_world()
    cluster.nodes.place(a_pod("one"), "b")
    check(counting, cluster.nodes)
    counting.asked.clear()
    sketch, fork = cluster.nodes.sketch(), cluster.nodes.fork()
    sketch.hold(a_pod("three"), 2)
    fork.place(a_pod("four"), "a")
    for supposed in (sketch, fork):
        check(counting, supposed)
    assert set(counting.asked) == {0, 2}
    check(counting, cluster.nodes)


def test_another_cluster_takes_the_place_of_the_first() -> None:
    counting, first = a_world()
    _, second = a_world()
    first.nodes.place(a_pod("one"), "b")
    for cluster in (first, second, first):
        check(counting, cluster.nodes)


steps = st.lists(
    st.tuples(st.sampled_from(["place", "displace", "node", "remove"]), st.integers(0, 5), st.sampled_from(NODES)),
    max_size=30,
)


@settings(max_examples=examples(60))
@given(steps=steps)
def test_the_matrix_is_right_after_any_changes(steps: list[tuple[str, int, Any]]) -> None:
    counting, cluster = a_world()
    nodes = cluster.nodes
    for what, number, name in steps:
        pod = a_pod("p" * (number + 1))
        if what == "place" and nodes.row_of_pod(pod.id) is None:
            nodes.place(pod, name)
        elif what == "displace" and nodes.row_of_pod(pod.id) is not None:
            nodes.displace(pod.id)
        elif what == "node":
            nodes.put_node(a_node(name, cpu=str(number)))
        elif what == "remove" and name in nodes.row_book and nodes.nodes[nodes.row_book[name]] is not None:
            nodes.remove_node(name)
        check(counting, nodes)
