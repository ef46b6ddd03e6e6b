"""The map of nodes and how full they are, against plain loops."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.dashboard.slices import at_once
from mooring.dashboard.views.node_map import MAX_LABELS, MappedNodes, NodeMap, ShownCost, map_nodes, shares, use_of
from mooring.inputs.offers.price_list import PriceList, PriceRow
from mooring.model.meta import Condition
from mooring.model.names import HOSTNAME, ZONE
from mooring.model.node import Node

AMOUNTS = st.integers(0, 2**61)


def mapped(cluster: Cluster, version: int = 1) -> MappedNodes:
    return at_once(map_nodes(cluster.nodes, version))


def map_of(*nodes: Node) -> NodeMap:
    return mapped(a_cluster(*nodes)).map


@given(st.lists(st.tuples(AMOUNTS, st.one_of(st.just(0), AMOUNTS)), max_size=20))
def test_shares_agree_with_a_plain_loop(pairs: list[tuple[int, int]]) -> None:
    expected = [int(min(held / room, 1.0) * 200) if room else 255 for held, room in pairs]
    requested = np.array([held for held, _ in pairs], np.int64)
    allocatable = np.array([room for _, room in pairs], np.int64)
    assert shares(requested, allocatable).tolist() == expected


NODES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans(), st.integers(0, 4)), min_size=1, max_size=12
)


@given(NODES, st.sets(st.integers(0, 11)))
def test_use_agrees_with_a_plain_loop_over_the_pods(facts: list[tuple[str, int, bool, int]], removed: set[int]) -> None:
    """Also with rows in between that have no node any more."""
    items = [
        a_node(
            f"n{i}",
            cpu="4",
            pods=8,
            labels={ZONE: zone},
            allocatable={"example.com/gpu": gpus} if gpus else None,
            unschedulable=is_cordoned,
        )
        for i, (zone, gpus, is_cordoned, _) in enumerate(facts)
    ]
    gpu_pods = [
        a_pod(f"p{i}-{k}", cpu="500m", requests={"example.com/gpu": 1}, nodeName=f"n{i}")
        for i, (_, _, _, pods) in enumerate(facts)
        for k in range(pods)
    ]
    cluster = a_cluster(*items, *gpu_pods)
    for i in sorted(removed):
        if i < len(items):
            cluster.nodes.remove_node(f"n{i}")
    found = mapped(cluster)
    kept = [i for i in range(len(items)) if i not in removed]
    use = use_of(cluster.nodes, found, "now")
    assert found.map.names == [f"n{i}" for i in kept]
    assert found.map.unschedulable == [at for at, i in enumerate(kept) if facts[i][2]]
    groups = found.map.labels.get(ZONE)
    zones = [] if groups is None else [groups.values[code] for code in groups.of]
    assert zones == [facts[i][0] for i in kept]
    assert list(base64.b64decode(use.use["cpu"])) == [min(facts[i][3] * 25, 200) for i in kept]
    assert list(base64.b64decode(use.use["pods"])) == [facts[i][3] * 25 for i in kept]
    assert np.frombuffer(base64.b64decode(use.pods), "<u2").tolist() == [facts[i][3] for i in kept]
    if any(facts[i][1] for i in kept):
        expected = [min(facts[i][3] * 200 // facts[i][1], 200) if facts[i][1] else 255 for i in kept]
        assert list(base64.b64decode(use.use["example.com/gpu"])) == expected
    else:
        assert "example.com/gpu" not in use.use


def test_well_known_labels_come_first_and_the_empty_value_stands_for_no_label() -> None:
    found = map_of(
        a_node("a", labels={"app": "x", ZONE: "z1", "pool": "p", HOSTNAME: "a"}),
        a_node("b", labels={"app": "x", ZONE: "z2", HOSTNAME: "b"}),
    )
    assert list(found.labels) == [ZONE, "pool", "app"]
    assert (found.labels["pool"].values, found.labels["pool"].of) == (["p", ""], [0, 1])


def test_labels_with_many_values_and_many_labels_are_left_out() -> None:
    nodes = [
        a_node(f"n{i}", labels={"unique": str(i), **{f"label-{k:02}": "x" for k in range(30)}}) for i in range(100)
    ]
    found = map_of(*nodes)
    assert list(found.labels) == [f"label-{k:02}" for k in range(MAX_LABELS)]


def test_a_large_cluster_is_shown_by_fewer_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node(f"n{i}", labels={f"label-{k}": "x" for k in range(9)}) for i in range(10)]
    monkeypatch.setattr("mooring.dashboard.views.node_map.MAX_LABEL_CELLS", 50)
    assert len(map_of(*nodes).labels) == 5
    monkeypatch.setattr("mooring.dashboard.views.node_map.MAX_LABEL_CELLS", 5)
    assert len(map_of(*nodes).labels) == 3


def test_a_node_may_have_ten_thousand_labels() -> None:
    found = map_of(a_node("n", labels={f"{k:05}": "x" for k in range(10_000)}), a_node("m"))
    assert len(found.labels) == MAX_LABELS


def test_nodes_that_are_not_ready_or_keep_pods_away() -> None:
    unready = a_node("unready")
    unready.status.conditions = [Condition(type="Ready", status="Unknown")]
    found = map_of(
        a_node("fine"),
        unready,
        a_node("tainted", taints=["k=v:NoSchedule"]),
        a_node("soft", taints=["k:PreferNoSchedule"]),
    )
    assert (found.not_ready, found.tainted) == ([1], [2])


def test_prices_and_costs_of_nodes() -> None:
    """Four CPUs each: nothing is idle of a full node, a quarter of the second, all of the third; the last has no price."""
    nodes = [a_node(f"n{i}", cpu="4", memory="8Gi", labels={"type": "m5"} if i < 2 else {}) for i in range(4)]
    nodes[2].metadata.annotations = {"mooring.dev/price": "0.5"}
    pods = [a_pod("full", cpu="4", nodeName="n0"), a_pod("most", cpu="1", memory="6Gi", nodeName="n1")]
    cluster = a_cluster(*nodes, *pods)
    prices = PriceList({"n1": 2.0}, [PriceRow(4.0, by="metadata.labels.type", value="m5")], "EUR an hour")
    found = at_once(map_nodes(cluster.nodes, 1, prices=prices))
    assert (found.map.prices, found.map.price_unit) == ([4.0, 2.0, 0.5, None], "EUR an hour")
    assert use_of(cluster.nodes, found, "").cost == ShownCost(6.5, 1.0, 3)
    assert map_of(a_node("n")).prices == [], "no price is known"
    assert use_of(cluster.nodes, mapped(a_cluster(a_node("n"))), "").cost is None


def test_only_some_extended_resources_are_shown_those_of_most_nodes() -> None:
    nodes = [a_node(f"n{i}", allocatable={f"example.com/r{k}": 1 for k in range(10) if k >= i}) for i in range(10)]
    assert map_of(*nodes).resources == ["cpu", "memory", "pods", *(f"example.com/r{k}" for k in (9, 8, 7, 6, 5))]
