"""Amounts beyond what a column of the node table holds (2^53): decisions are those of plain integers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.answers.trial.reasons import Reason, missing_amounts
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import Change
from mooring.model.quantity import MAX_AMOUNT
from mooring.plugins.resources.node_resources_fit import EVENTS
from small_scenarios import Json, requesting, step
from small_scenarios import a_node as a_json_node
from small_scenarios import a_pod as a_json_pod

P = 10**15
AMOUNTS = st.sampled_from(
    [1, MAX_AMOUNT - 1, MAX_AMOUNT, MAX_AMOUNT + 1, 10 * P, 50 * P, 100 * P, 1 << 60, 7 * 10**18, (1 << 63) - 1, 10**25]
)
RESOURCES = st.sampled_from(["memory", "example.com/thing", "cpu"])


def written(resource: str, amount: int) -> str:
    """An amount in units of the node table: cpu is in milli."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def a_world(resource: str, there: list[int], running: list[tuple[int, int, int]]) -> list[Json]:
    """Nodes with these amounts; running pods are (node, amount, priority)."""
    plenty = {"cpu": "1e30", "memory": "1e30"}
    nodes = [a_json_node(f"n{i}", **plenty | {resource: written(resource, have)}) for i, have in enumerate(there)]
    pods = [
        a_json_pod(
            f"r{i}", f"n{place}", priority=priority, containers=requesting(**{resource: written(resource, amount)})
        )
        for i, (place, amount, priority) in enumerate(running)
    ]
    return [*nodes, *pods]


@given(
    RESOURCES,
    st.lists(AMOUNTS, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), AMOUNTS), max_size=4),
    AMOUNTS,
)
@settings(max_examples=examples(60))
def test_a_pod_fits_where_plain_integers_say_so(
    resource: str, there: list[int], running: list[tuple[int, int]], amount: int
) -> None:
    pods = [(place, held, 100) for place, held in running if place < len(there)]
    left = [have - sum(held for place, held, _ in pods if place == i) for i, have in enumerate(there)]
    pod = a_json_pod("p", containers=requesting(**{resource: written(resource, amount)}))
    found = step(*a_world(resource, there, pods), pod)
    fits = [f"n{i}" for i, free in enumerate(left) if amount <= free]
    assert found["feasible"] == fits
    for name, rejection in found["rejected"].items():
        is_final = amount > there[int(name[1:])]
        assert rejection["reasons"] == [f"Insufficient {resource}"]
        assert rejection["code"] == ("UnschedulableAndUnresolvable" if is_final else "Unschedulable")


@given(RESOURCES, AMOUNTS, st.lists(st.tuples(AMOUNTS, st.integers(0, 3)), min_size=1, max_size=5), AMOUNTS)
@settings(max_examples=examples(60))
def test_victims_are_those_that_plain_integers_say(
    resource: str, there: int, running: list[tuple[int, int]], amount: int
) -> None:
    """Upstream's way: all lower pods leave; the most important come back first, where the pod still fits."""
    lower = [(f"default/r{i}", held, priority) for i, (held, priority) in enumerate(running) if priority < 2]
    free = there - sum(held for held, priority in running if priority >= 2) - amount
    victims = []
    # Parity: of pods without a start time the last one counts as the most important.
    lower.reverse()
    for key, held, _ in sorted(lower, key=lambda pod: -pod[2]):
        if held <= free:
            free -= held
        else:
            victims.append(key)
    is_candidate = there - sum(held for held, priority in running if priority >= 2) >= amount
    pods = [(0, held, priority) for held, priority in running]
    pod = a_json_pod("p", priority=2, containers=requesting(**{resource: written(resource, amount)}))
    found = step(*a_world(resource, [there], pods), pod)
    if amount <= there - sum(held for held, _ in running):
        assert found["node"] == "n0"
    elif amount <= there and is_candidate:
        assert sorted(found["preemption"]["candidates"]["n0"]["victims"]) == sorted(victims)
    else:
        assert "candidates" not in found["preemption"]


def test_pods_that_differ_only_beyond_the_bound_do_not_share_answers() -> None:
    shapes = [a_pod(memory=amount).shape for amount in ("100P", "200P")]
    assert shapes[0].request == shapes[1].request
    assert shapes[0].exact_request != shapes[1].exact_request
    objects = a_world("memory", [150 * P], [])
    for amount, feasible in (("100P", ["n0"]), ("200P", []), ("100P", ["n0"])):
        assert step(*objects, a_json_pod("p", containers=requesting(memory=amount)))["feasible"] == feasible


def test_a_request_that_is_no_quantity_fits_on_no_node_however_large() -> None:
    objects = a_world("memory", [10**30], [])
    assert step(*objects, a_json_pod("p", containers=requesting(memory="lots")))["feasible"] == []


def test_the_table_knows_which_nodes_have_more_than_columns_hold() -> None:
    cluster = Cluster()
    for memory in ("100P", "1Gi"):
        cluster.put(a_node("n", memory=memory))
        assert cluster.nodes.amounts.huge_rows == ({0} if memory == "100P" else set())
        assert check_table(cluster.nodes) == []
    cluster.put(a_node("n", memory="100P"))
    cluster.nodes.remove_node("n")
    assert cluster.nodes.amounts.huge_rows == set()


def test_an_explanation_has_the_numbers_without_the_bound() -> None:
    cluster = Cluster()
    cluster.put(a_node("n", memory="100P"))
    cluster.nodes.place(a_pod("r", memory="60P"), "n")
    rows: Any = cluster.nodes.alive[: cluster.nodes.height].nonzero()[0]
    reason = Reason("NodeResourcesFit", "Insufficient memory", rows)
    (amount,) = missing_amounts(reason, a_pod(memory="50P"), cluster)
    assert (amount.wants, amount.largest_free, amount.node) == (50 * P, 40 * P, "n")


@pytest.mark.parametrize(("left", "is_wanted"), [("60P", False), ("40P", True)])
def test_hints_compare_amounts_without_the_bound(left: str, is_wanted: bool) -> None:
    """A pod that shrinks in place, and a node that is still too small."""
    _, after_node, after_pod, *_ = (registration.hint for registration in EVENTS)
    waiting = a_pod("w", memory="50P")
    before, now = (a_pod("r", memory=memory, nodeName="n", metadata={"uid": "r"}) for memory in ("60P", left))
    assert after_pod is not None and after_node is not None
    assert after_pod(waiting, Change(before, now, Cluster())) is is_wanted
    node = a_node("n", memory="100P" if is_wanted else "30P")
    assert after_node(waiting, Change(None, node, Cluster())) is is_wanted
