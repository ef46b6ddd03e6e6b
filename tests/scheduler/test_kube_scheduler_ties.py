"""Ties as kube-scheduler breaks them: examples worked by hand, and plain loops over the walk and the heap."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import KeptTies, as_kube_scheduler, by_seed, first_on_heap, lowest_name, tie_break_of
from mooring.state.scheduler_assembly import build_scheduler

ZONE = "topology.kubernetes.io/zone"

# ---- the heap


def top_of_heap(totals: Sequence[int]) -> int:
    """Go's container/heap, for a heap with the highest first: which place comes to the top."""
    heap = [*enumerate(totals)]
    for start in range(len(heap) // 2 - 1, -1, -1):
        parent = start
        while (child := 2 * parent + 1) < len(heap):
            if child + 1 < len(heap) and heap[child + 1][1] > heap[child][1]:
                child += 1
            if not heap[child][1] > heap[parent][1]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0][0]


HEAPS = {
    "one total": ([5], 0),
    "the first of equal ones": ([5, 5, 5], 0),
    "the left child before the right one": ([1, 5, 5], 1),
    "a grandchild on the left before the right child": ([1, 1, 5, 5], 3),
    "the right child before its own children": ([1, 1, 5, 1, 1, 5, 5], 2),
    "nothing moves up past an equal total": ([1, 5, 5, 5, 5], 1),
}


@pytest.mark.parametrize(("totals", "top"), HEAPS.values(), ids=HEAPS.keys())
def test_the_top_of_a_heap(totals: list[int], top: int) -> None:
    assert top_of_heap(totals) == top
    places = np.flatnonzero(np.array(totals) == max(totals))
    assert places[first_on_heap(places)] == top


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=70))
def test_the_first_place_in_preorder_is_the_top_of_the_heap(totals: list[int]) -> None:
    places = np.flatnonzero(np.array(totals) == max(totals))
    assert places[first_on_heap(places)] == top_of_heap(totals)


# ---- the walk


def a_scheduler(zones: Mapping[str, str], **nodes: Any) -> Scheduler:
    """Nodes of 4 CPUs in zones, in this order."""
    scheduler = build_scheduler(config.default(), VirtualClock(0))
    for name, zone in zones.items():
        scheduler.cluster.nodes.put_node(a_node(name, labels={ZONE: zone} if zone else {}, **nodes.get(name, {})))
    return scheduler


def chosen(scheduler: Scheduler, pod: Pod) -> Placement:
    runner = scheduler.runner("default-scheduler")
    assert runner is not None
    options = DecideOptions(tie_break=as_kube_scheduler, explain=True)
    decision = decide(runner, pod, scheduler.cluster, options)
    assert isinstance(decision, Placement)
    return decision


ZONES = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
"""The walk goes through the zones in turn: n1, n3, n2, n4."""


def test_the_first_node_of_the_walk_is_taken_if_all_are_equal() -> None:
    assert chosen(a_scheduler(ZONES), a_pod("p", cpu="1")).node == "n1"


def test_a_better_node_comes_up_the_heap_by_its_place_in_the_walk() -> None:
    # A pod takes 1 CPU of n1, so that n3, n2 and n4 are tied: the left child of n1 is n3. The lowest name would be n2.
    scheduler = a_scheduler(ZONES)
    scheduler.cluster.nodes.place(a_pod("q", cpu="1"), "n1")
    assert chosen(scheduler, a_pod("p", cpu="1")).node == "n3"
    # With pods on n1 and n3, the best are n2 (the right child of n1) and n4 (the left child of n3, which is on the left).
    scheduler.cluster.nodes.place(a_pod("r", cpu="1"), "n3")
    assert chosen(scheduler, a_pod("p", cpu="1")).node == "n4"


def test_a_pod_that_is_kept_to_named_nodes_moves_the_start_of_the_walk() -> None:
    scheduler = a_scheduler(ZONES)
    field = {"key": "metadata.name", "operator": "In", "values": ["n4"]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    assert chosen(scheduler, a_pod("daemon", affinity={"nodeAffinity": rule})).node == "n4"
    assert chosen(scheduler, a_pod("p", cpu="1")).node == "n3", (
        "one node was looked at, so the walk begins at the second"
    )
    assert chosen(scheduler, a_pod("p", cpu="1")).node == "n3", "all nodes were looked at, so it begins there again"


def test_a_nominated_node_that_fits_does_not_move_the_start() -> None:
    scheduler = a_scheduler(ZONES)
    assert chosen(scheduler, a_pod("p", cpu="1", status={"nominatedNodeName": "n2"})).node == "n2"
    assert chosen(scheduler, a_pod("p", cpu="1")).node == "n1"


nodes = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 3), st.booleans()), min_size=2, max_size=9
)


@settings(max_examples=examples(60), deadline=None)
@given(nodes=nodes, narrowed=st.lists(st.integers(0, 8), max_size=3))
def test_a_plain_walk_and_a_plain_heap_find_the_same_node(
    nodes: list[tuple[str, int, bool]], narrowed: list[int]
) -> None:
    """Nodes are (zone, pods of 1 CPU on it, cordoned); pods that are kept to one node are decided before."""
    zones = {f"n{9 - i}": zone for i, (zone, _, _) in enumerate(nodes)}
    names = [*zones]
    scheduler = a_scheduler(zones, **{f"n{9 - i}": {"unschedulable": True} for i, node in enumerate(nodes) if node[2]})
    for i, (_, held, _) in enumerate(nodes):
        for j in range(held):
            scheduler.cluster.nodes.place(a_pod(f"q{i}-{j}", cpu="1"), names[i])
    runner = scheduler.runner("default-scheduler")
    assert runner is not None
    for place in narrowed:
        field = {"key": "metadata.name", "operator": "In", "values": [names[place % len(names)]]}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
        pod = a_pod("daemon", affinity={"nodeAffinity": rule})
        decide(runner, pod, scheduler.cluster, DecideOptions(tie_break=as_kube_scheduler))
    start = len(narrowed) % len(names)
    decision = decide(
        runner, a_pod("p", cpu="1"), scheduler.cluster, DecideOptions(tie_break=as_kube_scheduler, explain=True)
    )
    walk = plain_walk(zones)
    walk = walk[start:] + walk[:start]
    if not isinstance(decision, Placement):
        assert all(node[2] for node in nodes)
        return
    assert decision.details is not None
    found = [name for name in walk if name in decision.details.feasible]
    if len(found) == 1:
        assert decision.node == found[0]
        return
    assert decision.node == found[top_of_heap([decision.details.totals[name] for name in found])]


def plain_walk(zones: Mapping[str, str]) -> list[str]:
    """One node of each zone in turn; zones and their nodes in the order of arrival."""
    left = {zone: [name for name in zones if zones[name] == zone] for zone in zones.values()}
    walk = []
    while any(left.values()):
        walk += [names.pop(0) for names in left.values() if names]
    return walk


# ---- rules by name


def test_a_rule_that_keeps_ties_goes_by_the_walk_if_the_inner_one_does() -> None:
    assert KeptTies(as_kube_scheduler).goes_by_walk and not KeptTies(by_seed).goes_by_walk
    assert KeptTies(as_kube_scheduler).words == "the order of kube-scheduler's heap decides here"
    scheduler, ties = a_scheduler(ZONES), KeptTies(as_kube_scheduler)
    scheduler.cluster.nodes.place(a_pod("q", cpu="1"), "n1")
    runner = scheduler.runner("default-scheduler")
    assert runner is not None
    decision = decide(runner, a_pod("p", cpu="1"), scheduler.cluster, DecideOptions(tie_break=ties))
    assert isinstance(decision, Placement) and decision.node == "n3"
    assert sorted(ties.take().tolist()) == [1, 2, 3]


def test_users_name_rules() -> None:
    assert [tie_break_of(rule) for rule in (None, 0, 7, "kube-scheduler")] == [
        *(lowest_name, by_seed, by_seed, as_kube_scheduler)
    ]
    assert as_kube_scheduler.rank_place(3, 9) == -3
