"""All cures by other pods and new nodes, with their costs and in order, and the end of a search."""

from typing import Any

import pytest
from cure_lists import cures_of, rows_of
from written import a_node, a_pod

import build
from device_building import a_device, a_slice
from mooring.answers.explain.cure_search import find_cures
from mooring.answers.explain.cures_by_others import kinds_of_nodes
from mooring.answers.trial.counterfactual import Counterfactual, PlacePod
from mooring.inputs.loaded_cluster import load

ZONE = "topology.kubernetes.io/zone"
ADD_A = "add a node like a (the only one of its kind)"

# ---- other pods


@pytest.mark.parametrize("enough", range(1, 7))
def test_the_smallest_of_many_priorities_is_found(enough: int) -> None:
    """The pods on nodes before the n-th one leave too little room, whatever their priority."""
    nodes = [a_node(f"n{i}") for i in range(1, 7)]
    pods = [a_pod(f"p{i}", "2" if i < enough else "4", node=f"n{i}", priority=10 * i) for i in range(1, 7)]
    others = [a_pod(f"other{i}", "2", node=f"n{i}", priority=1000) for i in range(1, enough)]
    rows = rows_of(*nodes, *pods, *others, a_pod("wanted", "4", priority=0))
    assert [row for row in rows if row[0] == "raise-priority"] == [
        ("raise-priority", f"raise the priority from 0 to {10 * enough + 1}", f"n{enough}", 65),
    ]


def test_two_pods_that_leave_cost_ten_more() -> None:
    others = [a_pod(name, "2", node="a", priority=5) for name in ("one", "two")]
    assert rows_of(a_node("a"), *others, a_pod("wanted", "4", priority=0)) == [
        ("raise-priority", "raise the priority from 0 to 6", "a", 70),
        ("remove", "remove default/one and default/two from a", "a", 80),
        ("add-node", ADD_A, "a-copy-1", 90),
    ]


def test_two_pods_that_move_cost_ten_more() -> None:
    others = [a_pod(name, "2", node="a", priority=5) for name in ("one", "two")]
    wanted = a_pod("wanted", "4", priority=9, preemptionPolicy="Never", nodeSelector={"disk": "ssd"})
    rows = rows_of(a_node("a", labels={"disk": "ssd"}), a_node("b"), *others, wanted)
    assert [row for row in rows if row[0] in ("move", "remove")] == [
        ("move", "move default/one from a to b and move default/two from a to b", "a", 60),
    ]


def test_pods_of_daemon_sets_and_pods_that_end_already_do_not_move() -> None:
    agent = a_pod("agent", "2", node="a", owner="DaemonSet/agent")
    ending = a_pod("ending", "2", node="a")
    ending["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    rows = rows_of(a_node("a"), agent, ending, a_pod("wanted", "2", priority=0))
    assert [row for row in rows if row[0] in ("move", "remove")] == []


def test_the_smallest_pod_that_frees_enough_is_named_first() -> None:
    pods = [a_pod("large", "3", node="a"), a_pod("middle", "2", "2Gi", node="a"), a_pod("small", "1", node="a")]
    cures = cures_of(a_node("a", "6"), *pods, a_pod("wanted", "2"))
    assert [(cure.change, cure.cost, cure.victims) for cure in cures if cure.kind == "remove"] == [
        ("remove default/large from a", 70, ("default/large",)),
        ("remove default/middle from a", 70, ("default/middle",)),
    ]


def test_of_four_pods_that_free_enough_the_three_with_the_smallest_shares_are_named() -> None:
    pods = [a_pod(f"small-{i}", "2", "1536Mi", node="a") for i in range(3)]  # 1 + 1.5 times what is wanted
    large = a_pod("large", "4", "1Gi", node="a")  # 2 + 1 times
    cures = cures_of(a_node("a", "10", "64Gi"), large, *pods, a_pod("wanted", "2", "1Gi"))
    assert [cure.victims[0] for cure in cures if cure.kind == "remove"] == [f"default/small-{i}" for i in range(3)]


# ---- pods that keep the pod away, and pods that end


def away_from(zone_or_host: str, **labels: str) -> dict[str, Any]:
    term = {"topologyKey": zone_or_host, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_whose_anti_affinity_keeps_the_pod_away_leave_on_every_node_of_the_zone() -> None:
    nodes = [a_node("a", zone="x"), a_node("b", zone="x")]
    keepers = [a_pod(name, node=name, affinity=away_from(ZONE, app="web")) for name in ("a", "b")]
    other = a_pod("other", node="a", affinity=away_from(ZONE, app="db"))
    rows = rows_of(*nodes, *keepers, other, a_pod("wanted", labels={"app": "web"}, priority=-1))
    assert [row for row in rows if row[0].startswith("remove")] == [
        ("remove-keepers", "remove default/a from a and remove default/b from b", "b", 80),
    ]


def ending(name: str, cpu: str, node: str) -> dict[str, Any]:
    pod = a_pod(name, cpu, node=node)
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return pod


def test_a_pod_that_ends_already_is_waited_for_and_not_evicted() -> None:
    cures = cures_of(a_node("a"), ending("old", "3", "a"), a_pod("wanted", "2", priority=5))
    assert next((cure.kind, cure.change, cure.cost, cure.victims) for cure in cures) == (
        "wait",
        "wait until default/old has ended",
        5,
        (),
    )
    assert not any(cure.victims for cure in cures)


def test_only_the_pods_that_end_on_the_node_are_waited_for() -> None:
    pods = [ending("one", "2", "a"), ending("two", "2", "a"), ending("far", "1", "b")]
    rows = rows_of(a_node("a"), a_node("b", "1"), *pods, a_pod("wanted", "4"))
    assert rows[0] == ("wait", "wait until default/one and default/two have ended", "a", 5)


def test_waiting_goes_with_other_changes() -> None:
    tainted = a_node("a", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    rows = rows_of(tainted, ending("old", "3", "a"), a_pod("wanted", "2"))
    assert rows[0] == (
        "tolerate+wait",
        "tolerate the taint team=ml:NoSchedule, and wait until default/old has ended",
        "a",
        35,
    )


# ---- one more node


def test_nodes_are_alike_but_for_hostname_and_the_most_frequent_kind_comes_first() -> None:
    nodes = [a_node("big", "8"), a_node("a"), a_node("b"), a_node("c", labels={"own": "c"})]
    full = [a_pod(f"on-{name}", cpu, node=name, owner="DaemonSet/x") for name, cpu in zip("abc", "111", strict=True)]
    full.append(a_pod("on-big", "6", node="big"))
    rows = rows_of(*nodes, *full, a_pod("wanted", "3500m"))
    assert [row for row in rows if row[0] == "add-node"] == [
        ("add-node", "add a node like big (the only one of its kind)", "big-copy-1", 90),
    ]
    rows = rows_of(*nodes, a_pod("fills", "8", node="big"), *full[:3], a_pod("wanted", "3500m"))
    assert [row[2] for row in rows if row[0] == "add-node"] == ["big-copy-1"]
    taken = [a_pod(f"t-{name}", "4", node=name) for name in "abc"]
    rows = rows_of(*nodes[1:], *taken, a_pod("wanted", "4"))
    assert [row for row in rows if row[0] == "add-node"] == [
        ("add-node", "add a node like a (3 like it)", "a-copy-1", 90),
    ]


def test_a_new_node_takes_the_first_free_name_and_copies_of_daemon_pods() -> None:
    nodes = [a_node("a"), a_node("a-copy-1", "1")]
    agent = a_pod("agent", "1", node="a", owner="DaemonSet/agent")
    rows = cures_of(*nodes, agent, a_pod("other", "3", node="a"), a_pod("wanted", "3"))
    (added,) = [cure for cure in rows if cure.kind == "add-node"]
    assert added.node == "a-copy-2"
    (copy,) = [edit.pod for edit in added.edits if isinstance(edit, PlacePod)]
    assert (copy.name, copy.uid, copy.spec.node_name) == ("agent-a-copy-2", "", "a-copy-2")


def test_nodes_with_other_numbers_of_devices_are_of_another_kind() -> None:
    nodes = [build.a_node(name) for name in ("a", "b", "c", "d")]
    slices = [
        a_slice("on-a", a_device("d0"), a_device("d1"), node="a"),
        a_slice("on-b", a_device("d0"), node="b"),
        a_slice("also-on-b", a_device("d1"), node="b"),
        a_slice("on-c", a_device("d0"), node="c"),
    ]
    found = kinds_of_nodes(build.a_cluster(*nodes, *slices))
    assert [(model.name, number) for model, number in found] == [("a", 2), ("c", 1), ("d", 1)]


def test_the_name_of_a_copy_is_no_longer_than_names_may_be() -> None:
    agent = a_pod("x" * 250, "1", node="a", owner="DaemonSet/agent")
    cures = cures_of(a_node("a"), agent, a_pod("other", "3", node="a"), a_pod("wanted", "3"))
    (added,) = [cure for cure in cures if cure.kind == "add-node"]
    assert [len(edit.pod.name) for edit in added.edits if isinstance(edit, PlacePod)] == [253]


# ---- the cure itself, and the end of a search


def test_a_cure_is_data_with_its_cost_rounded_to_a_tenth() -> None:
    (cure,) = cures_of(a_node("a", "3"), a_pod("wanted", "7"))
    assert cure.content() == {
        "kind": "lower-request",
        "change": "lower the cpu request of container main from 7 to 3",
        "node": "a",
        "verified": True,
        "cost": 54.3,
        "victims": [],
        "brokenBudgets": 0,
    }
    assert repr(cure) == (
        "Cure(kind='lower-request', change='lower the cpu request of container main from 7 to 3', node='a', "
        f"cost={cure.cost!r}, victims=(), broken_budgets=0)"
    )


def test_a_search_that_had_enough_decisions_did_not_give_up() -> None:
    loaded = load([a_node("a"), a_pod("wanted", "8")])
    assert not find_cures(Counterfactual(loaded), loaded.pod("wanted")).gave_up


def test_a_search_without_decisions_finds_nothing_and_gives_up() -> None:
    loaded = load([a_node("a", cordoned=True), a_pod("wanted", "8")])
    found = find_cures(Counterfactual(loaded), loaded.pod("wanted"), decisions=0)
    assert (list(found.found), found.gave_up) == ([], True)


def test_a_cure_that_there_is_no_decision_left_for_is_not_found() -> None:
    loaded = load([a_node("a", cordoned=True), a_pod("wanted")])
    trials = Counterfactual(loaded)
    assert not find_cures(trials, loaded.pod("wanted"), decisions=1).found
