"""What is said about a pod group, word for word; which groups are found; and who leaves a node for one more member."""

from typing import Any

import numpy as np
import pytest
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.explain.cure import Cure
from mooring.answers.explain.explain import explain_named
from mooring.answers.explain.explanation import GroupExplanation, MemberReason
from mooring.answers.explain.explanation_form import PodPlace
from mooring.answers.explain.group_cures import _smallest, leavers_by_node
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.answers.trial.group_trials import asked_group, group_named, group_of, spread_of
from mooring.answers.trial.reasons import Reason
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster, load

REASON = Reason("Fit", "Insufficient cpu", np.arange(2), ("n1", "n2"))
MISSING = MemberReason(["default/g2", "default/g3"], "0/2 nodes are available: 2 Insufficient cpu.", [REASON])
CURE = Cure("remove", "remove default/x", "n1 (2)", 12.4, (), ("default/x",), 1)


def an_answer(**changed: Any) -> GroupExplanation:
    given: dict[str, Any] = {
        "group": "default/gang",
        "is_gang": True,
        "min_count": 4,
        "member_count": 5,
        "placed": [PodPlace("default/g0", "n1")],
        "nodes": [PodPlace("default/g1", "n2")],
        "message": "the scheduler's words",
        "rejected": [MISSING],
        "cures": [CURE],
    }
    return GroupExplanation(**{**given, **changed})


# ---- sentences


def test_all_sentences_of_a_group_that_is_pending() -> None:
    victims = [f"default/v{i}" for i in range(7)]
    answer = an_answer(asked="default/g1", placements=1200, waits_for=["a claim"], victims=victims, gave_up=True)
    assert answer.summary() == [
        "default/g1 is scheduled with its group default/gang",
        "default/gang (gang of at least 4) is pending: 2 of 4 pods fit; 0/2 nodes are available: 2 Insufficient cpu.",
        "The scheduler tried 1,200 placements; this is the best of them",
        "It waits for a claim",
        "Preemption would evict default/v0, default/v1, default/v2, default/v3, default/v4 and 2 more for it",
        "The search for cures gave up after a fixed number of decisions; there may be others",
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "(gang of at least 4) is pending: 2 of 4 pods fit; 0/2 nodes are available: 2 Insufficient cpu."),
        ({"is_gang": False}, "(group) is pending: 2 of 5 pods fit; 0/2 nodes are available: 2 Insufficient cpu."),
        ({"member_count": 3}, "(gang of at least 4) is pending: 3 of 4 pods exist"),
        ({"member_count": 4, "rejected": []}, "(gang of at least 4) is pending: the scheduler's words"),
        (
            {"rejected": [], "message": ""},
            "(gang of at least 4) is pending: the scheduler has not attempted it",
        ),
        ({"is_settled": True}, "(gang of at least 4) is pending, but would go to n2 (1) now"),
        ({"is_settled": True, "nodes": []}, "(gang of at least 4) is placed: 1 pod on nodes"),
    ],
    ids=["a gang", "no gang", "too few pods", "no reason but words", "no words", "it would go", "it runs"],
)
def test_the_headline(changed: dict[str, Any], told: str) -> None:
    assert an_answer(**changed).summary() == [f"default/gang {told}"]


def test_two_placements_are_told_and_one_is_not() -> None:
    assert an_answer(placements=2).summary()[1] == "The scheduler tried 2 placements; this is the best of them"


# ---- tables and data


def test_the_tables() -> None:
    why, cures, room, placed = an_answer().tables()
    assert (why.title, why.columns) == ("Why not", ("pods", "nodes", "plugin", "reason", "details"))
    assert why.rows == [(2, "2", "Fit", "Insufficient cpu", "such as n1, n2")]
    assert (cures.title, cures.columns) == (
        "What would place the group",
        ("cost", "change", "then its pods go to", "evicts"),
    )
    assert cures.rows == [("12", "remove default/x", "n1 (2)", "default/x (1 against a disruption budget)")]
    assert (room.title, room.columns, room.rows, room.is_detail) == (
        "Room now",
        ("pod", "node"),
        [("default/g1", "n2")],
        True,
    )
    assert (placed.title, placed.columns, placed.rows, placed.is_detail) == (
        "Placed",
        ("pod", "node"),
        [("default/g0", "n1")],
        True,
    )
    assert not an_answer(is_settled=True).tables()[2].is_detail


def test_the_content() -> None:
    assert an_answer(waits_for=["a claim"], victims=["default/v"], placements=3, gave_up=True).content() == {
        "podGroup": "default/gang",
        "gang": True,
        "minCount": 4,
        "members": 5,
        "settled": False,
        "fits": 2,
        "placements": 3,
        "message": "the scheduler's words",
        "waitsFor": ["a claim"],
        "placed": [{"pod": "default/g0", "node": "n1"}],
        "room": [{"pod": "default/g1", "node": "n2"}],
        "rejected": [
            {
                "pods": ["default/g2", "default/g3"],
                "message": "0/2 nodes are available: 2 Insufficient cpu.",
                "reasons": [REASON.content()],
            }
        ],
        "victims": ["default/v"],
        "cures": [CURE.content()],
        "curesGaveUp": True,
    }
    bare = GroupExplanation("default/gang", False, 1, 0)
    assert (bare.content()["message"], bare.asked, bare.content()["placements"]) == ("", "", 1)
    assert (bare.is_settled, bare.gave_up) == (False, False)


def test_the_data_tables() -> None:
    tables = an_answer(rejected=[MISSING, MemberReason([], "nobody")]).data_tables()
    assert [*tables] == ["pods", "reasons", "cures"]
    assert [*tables["pods"].columns] == ["pod", "state", "node", "message"]
    assert tables["pods"].rows == [
        ("default/g2", "rejected", None, MISSING.message),
        ("default/g3", "rejected", None, MISSING.message),
        ("default/g1", "room", "n2", None),
        ("default/g0", "placed", "n1", None),
    ]
    assert [*tables["reasons"].columns][:4] == ["pod", "pods", "plugin", "message"]
    assert [row[:5] for row in tables["reasons"].rows] == [("default/g2", 2, "Fit", "Insufficient cpu", 2)]
    assert len(tables["cures"].rows) == 1


def test_nodes_are_told_with_how_many_pods_each_gets() -> None:
    assert spread_of(["n2", "n1", "n2"]) == "n1 (1), n2 (2)"
    assert spread_of([]) == ""


# ---- which group


def cluster(*objects: Written) -> LoadedCluster:
    return load(list(objects), feature_gates=GROUP_GATES)


def in_namespace(item: Written, namespace: str) -> Written:
    return {**item, "metadata": {**item["metadata"], "namespace": namespace, "uid": f"{namespace}-gang"}}


def test_a_group_is_found_by_its_name_alone_if_only_one_has_it() -> None:
    loaded = cluster(a_pod_group(min_count=2), in_namespace(a_pod_group("other", 2), "ml"))
    assert group_named(loaded, "gang").key == "default/gang"
    assert group_named(loaded, "ml/other").key == "ml/other"
    assert group_named(loaded, "other", "ml").key == "ml/other"
    with pytest.raises(NoSuchPod, match=r"^no PodGroup 'ml/gang' among 2 groups"):
        group_named(loaded, "gang", "ml")


def test_a_name_of_two_groups_needs_a_namespace() -> None:
    loaded = cluster(a_pod_group(min_count=2), in_namespace(a_pod_group(min_count=2), "ml"))
    with pytest.raises(NoSuchPod) as caught:
        group_named(loaded, "gang")
    assert str(caught.value) == "PodGroup 'gang' could be any of default/gang, ml/gang: add its namespace"
    assert group_named(loaded, "gang", "ml").key == "ml/gang"
    assert group_named(loaded, "default/gang", "ml").key == "default/gang"


def test_without_the_gate_no_group_is_explained() -> None:
    with pytest.raises(NoSuchPod) as caught:
        group_named(load([a_pod_group(min_count=2)]), "gang")
    assert str(caught.value) == (
        "PodGroup 'gang' cannot be explained: the feature gate GenericWorkload is off, so that pods are scheduled one by "
        "one; add --feature-gates GenericWorkload=true"
    )


def test_the_pods_of_a_group_with_and_without_nodes() -> None:
    running = a_pod("r", node="n", schedulingGroup={"podGroupName": "gang"})
    loaded = cluster(a_node("n"), a_pod_group(min_count=2), running, *members(2), a_pod("alone"))
    group = asked_group(loaded, "default/gang")
    assert ([pod.name for pod in group.placed], [pod.name for pod in group.pending]) == (["r"], ["gang-0", "gang-1"])
    assert (group.is_all_or_nothing, group.min_count, group.needed, group.member_count) == (True, 2, 2, 3)
    assert not group.is_placed
    assert group.with_min_count(7).spec.scheduling_policy.gang is not None
    assert "pending" not in repr(group) and "gates" not in repr(group) and "placed=" not in repr(group)
    member, alone = group.pending[0], loaded.pod("alone")
    assert group_of(loaded, member) == group
    assert group_of(loaded, alone) is None and group_of(loaded, group.placed[0]) is None
    other = member.with_name("gang-0", "another")
    assert group.with_pods({member.key: other}).pending[0] is other


@pytest.mark.parametrize(("least", "is_placed"), [(1, True), (2, True), (3, False), (None, True)])
def test_a_group_runs_when_enough_of_its_pods_do(least: int | None, is_placed: bool) -> None:
    running = [a_pod(f"r{i}", node="n", schedulingGroup={"podGroupName": "gang"}) for i in range(2)]
    assert (
        asked_group(cluster(a_node("n"), a_pod_group(min_count=least), *running), "default/gang").is_placed is is_placed
    )
    unknown = asked_group(cluster(a_node("n"), *running), "default/gang")
    assert (unknown.declared, unknown.is_placed, unknown.min_count, unknown.needed) == (None, False, 1, 2)
    assert not asked_group(cluster(a_pod_group()), "default/gang").is_placed


# ---- who leaves


def leaving(*objects: Written, cpu: str = "2", memory: str = "1Gi") -> list[list[str]]:
    view = Counterfactual(load(list(objects)))
    member = load([a_pod("member", cpu, memory)]).pending()[0]
    return [[pod.name for pod in pods] for pods in leavers_by_node(view.cluster, member)]


def on(node: str, name: str, cpu: str, priority: int = 0, **more: Any) -> Written:
    return a_pod(name, cpu, "1Gi", node=node, priority=priority, **more)


@pytest.mark.parametrize(
    ("objects", "leavers"),
    [
        ([a_node("n", "4"), on("n", "a", "2"), on("n", "b", "1")], [["a"]]),
        ([a_node("n", "4"), on("n", "a", "2", 1), on("n", "b", "2", 0)], [["b"]]),
        ([a_node("n", "4"), on("n", "a", "3"), on("n", "b", "1")], [["a"]]),
        ([a_node("n", "3"), on("n", "a", "1"), on("n", "b", "1"), on("n", "c", "1")], [["a", "b"]]),
        ([a_node("n", "1"), on("n", "a", "1")], []),
        ([a_node("n", "4"), on("n", "a", "4", owner="DaemonSet/agent")], []),
        ([a_node("n", "6"), on("n", "a", "2")], [["a"]]),
        (
            [a_node("n1", "2"), a_node("n2", "2"), on("n1", "a", "2", 5), on("n2", "b", "1"), on("n2", "c", "1")],
            [["b", "c"], ["a"]],
        ),
        (
            [a_node("n1", "2"), a_node("n2", "2"), on("n1", "a", "1"), on("n1", "b", "1"), on("n2", "c", "2")],
            [["c"], ["a", "b"]],
        ),
    ],
    ids=[
        "of two that are enough the first by name",
        "the lowest priority",
        "one alone rather than two",
        "two where none is enough",
        "a node that is too small",
        "daemons stay",
        "for one more than fits now",
        "nodes of low priorities first",
        "then those from which few leave",
    ],
)
def test_who_leaves_for_one_more_member(objects: list[Written], leavers: list[list[str]]) -> None:
    assert leaving(*objects) == leavers


def test_a_pod_that_ends_already_is_not_asked_to_leave() -> None:
    ending = on("n", "a", "2")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert leaving(a_node("n", "2"), ending) == []
    assert leaving(a_node("n", "2"), on("n", "a", "1"), cpu="0", memory="0") == []


# ---- how many


@pytest.mark.parametrize("most", range(9))
def test_the_smallest_number_that_suffices_is_found_by_halving(most: int) -> None:
    for least in range(1, 11):
        tried: list[int] = []

        def suffices(number: int, least: int = least, tried: list[int] = tried) -> bool:
            tried.append(number)
            return number >= least

        assert _smallest(suffices, most) == (least if least <= most else None)
        assert all(1 <= number <= most for number in tried)


def test_the_best_domain_is_that_of_the_largest_gang_that_fits() -> None:
    """Three zones have room for 1, 3 and 2 of 5 pods; nobody is evicted for the smaller gangs that are tried."""
    gates = {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True}
    group = a_pod_group(min_count=5)
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": "topology.kubernetes.io/zone"}]}
    nodes = [a_node("n1", "2", zone="a"), a_node("n2", "6", zone="b"), a_node("n3", "4", zone="c")]
    found = explain_named(load([*nodes, group, *members(5, "2")], feature_gates=gates), "podgroup/gang", cures=False)
    assert isinstance(found, GroupExplanation)
    assert [node for _, node in found.nodes] == ["n2", "n2", "n2"]
    assert [pod for each in found.rejected for pod in each.pods] == ["default/gang-3", "default/gang-4"]
    few = explain_named(load([*nodes, group, *members(4, "2")], feature_gates=gates), "podgroup/gang", cures=False)
    assert isinstance(few, GroupExplanation)
    assert few.summary()[0] == "default/gang (gang of at least 5) is pending: 4 of 5 pods exist"
