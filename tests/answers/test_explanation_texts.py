"""Lines and tables of explanations, word for word, and the numbers from which they are made."""

from typing import Any

import pytest
from written import Written, a_node, a_pod

from mooring.answers.explain.cure import Cure
from mooring.answers.explain.explain import explain_named, explain_pod
from mooring.answers.explain.explanation import (
    SCORED,
    PodExplanation,
    WorkloadExplanation,
    evicts,
)
from mooring.answers.explain.explanation_form import PodPlace, ScoredNode
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.inputs.loaded_cluster import load

HEADLINES = {
    "a pod that has room": (
        PodExplanation("d/p", "n1", is_reserved=True, is_placed=True),
        "d/p is pending: it has room on n1",
    ),
    "a pod that would get no node now": (
        PodExplanation("d/p", "n1", is_placed=True, message="0/1 nodes are available"),
        "d/p is on n1, and would get no node now: 0/1 nodes are available",
    ),
    "a pod that would go there again": (
        PodExplanation("d/p", "n1", is_placed=True, would_go_to="n1", feasible_count=1),
        "d/p is on n1, and would go there again: the only node that takes it",
    ),
    "a pod that would go elsewhere": (
        PodExplanation("d/p", "n1", is_placed=True, would_go_to="n2", feasible_count=1100, node_count=1200),
        "d/p is on n1, and would now go to n2: the best of 1,100 nodes that take it, of 1,200",
    ),
    "a pending pod that would get a node": (
        PodExplanation("d/p", "n2", feasible_count=1),
        "d/p is pending, but would go to n2 now: the only node that takes it",
    ),
    "pending pods": (
        PodExplanation("d/p", message="no room", others=["d/q", "d/r"]),
        "d/p is pending, as are 2 others for the same reason: no room",
    ),
}


@pytest.mark.parametrize(("answer", "line"), HEADLINES.values(), ids=HEADLINES.keys())
def test_the_first_line_says_where_the_pod_is(answer: PodExplanation, line: str) -> None:
    assert answer.summary()[0] == line


VICTIMS = ("d/a", "d/b", "d/c", "d/e", "d/f")
EVICTED = {
    "nobody": ((), 0, "-"),
    "pods that move against a budget": ((), 2, "moves (2 against a disruption budget)"),
    "one": (VICTIMS[:1], 0, "d/a"),
    "three": (VICTIMS[:3], 1, "d/a, d/b, d/c (1 against a disruption budget)"),
    "more than three": (VICTIMS, 0, "d/a, d/b, d/c and 2 more"),
}


@pytest.mark.parametrize(("victims", "broken", "text"), EVICTED.values(), ids=EVICTED.keys())
def test_a_cure_names_three_of_the_pods_that_it_evicts(victims: tuple[str, ...], broken: int, text: str) -> None:
    assert evicts(Cure("tolerate", "tolerate it", "n1", 3, (), victims, broken)) == text


def test_the_tables_have_these_heads() -> None:
    scores = [ScoredNode("n1", 30, {"A": 20, "B": 10}), ScoredNode("n2", 25, {"A": 25})]
    answer = PodExplanation("d/p", "n1", scores=scores, weights={"A": 2})
    assert [(table.title, table.columns) for table in answer.tables()] == [
        ("Why not", ("nodes", "plugin", "reason", "details")),
        ("What would place it", ("cost", "change", "then it goes to", "evicts")),
        ("Scores (after weights)", ("node", "total", "A*2", "B*1")),
        ("History", ("at", "what")),
    ]
    assert list(answer.tables()[2].rows) == [("n1", 30, 20, 10), ("n2", 25, 25, 0)]


def test_a_workload_lists_its_placed_pods_last() -> None:
    answer = WorkloadExplanation("deployment web", [PodPlace("d/a", "n1")], [PodExplanation("d/b", message="no room")])
    assert answer.summary() == ["deployment web: 1 pod on nodes, 1 pending", "d/b is pending: no room"]
    table = answer.tables()[-1]
    assert (table.title, table.columns, table.is_detail) == ("Placed", ("pod", "node"), True)
    assert list(table.rows) == [("d/a", "n1")] and not answer.is_settled


def test_the_chosen_node_is_shown_with_the_best_others_and_the_weights_of_plugins() -> None:
    nodes = [a_node(f"n{i}", str(4 + i)) for i in range(SCORED + 2)]
    loaded = load([*nodes, a_pod("wanted", "1")])
    answer = explain_pod(Counterfactual(loaded), loaded.pod("wanted"))
    assert len(answer.scores) == SCORED and answer.scores[0].name == answer.node
    totals = [scored.total for scored in answer.scores]
    assert totals == sorted(totals, reverse=True)
    assert answer.weights["TaintToleration"] == 3 and answer.weights["NodeResourcesFit"] == 1


def test_a_workload_is_named_with_or_without_its_namespace() -> None:
    loaded = load([a_node("n"), a_pod("db-0", "1", node="n", owner="StatefulSet/db")])
    for name in ("statefulset/db", "statefulset/default/db"):
        answer = explain_named(loaded, name, "default")
        assert isinstance(answer, WorkloadExplanation)
        assert [*map(tuple, answer.placed)] == [("default/db-0", "n")] and answer.workload.endswith(
            name.partition("/")[2]
        )


# ---- reasons


def reasons(*objects: Written, **pod: Any) -> list[tuple[str, str, int, tuple[str, ...]]]:
    loaded = load([*objects, a_pod("wanted", **pod)])
    answer = explain_pod(Counterfactual(loaded), loaded.pod("wanted"), cures=False)
    return [(each.plugin, each.message, each.count, tuple(each.details)) for each in answer.reasons]


def test_a_claim_that_is_missing_is_a_reason_of_all_nodes() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]
    assert reasons(a_node("a"), a_node("b"), cpu="1", volumes=volumes) == [
        ("VolumeRestrictions", 'persistentvolumeclaim "none" not found', 2, ())
    ]


def test_nodes_that_a_pod_does_not_name_have_a_reason_of_their_own() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = reasons(a_node("a"), a_node("b"), a_node("c"), cpu="100", affinity=affinity)
    assert [(plugin, count) for plugin, _, count, _ in found] == [("PreFilter", 2), ("NodeResourcesFit", 1)]


def test_nodes_with_too_many_pods_say_how_many_they_may_run() -> None:
    nodes = [a_node("full", "8", pods="1"), a_node("small", "2")]
    found = reasons(*nodes, a_pod("other", "1", node="full"), cpu="3")
    told = {message: details for _, message, _, details in found}
    assert told["Too many pods"] == ("these nodes run as many pods as they may: 1 to 1",)
    assert told["Insufficient cpu"] == ()


def test_nodes_that_are_left_out_because_the_pod_names_others_have_the_line_that_does() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    loaded = load([a_node("a"), a_pod("wanted", affinity={"nodeAffinity": terms})])
    (reason,) = explain_pod(Counterfactual(loaded), loaded.pod("wanted"), cures=False).reasons
    assert reason.details == ("required node affinity metadata.name In [gone]: matches 0 nodes",)
