"""TaintToleration: which taints keep pods away, and which only cost points."""

from typing import Any

import pytest

from alone import build, scores, verdicts
from build import a_cluster, a_node, a_pod
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import final
from mooring.model.node import COMPARISON_GATE
from mooring.plugins.nodes.taints import TaintToleration

TAINTED = final("node(s) had untolerated taint(s)").by("TaintToleration")

FILTER: dict[str, tuple[list[str], list[dict[str, str]], bool]] = {
    "no taints": ([], [], True),
    "NoSchedule": (["k=v:NoSchedule"], [], False),
    "NoExecute": (["k=v:NoExecute"], [], False),
    "PreferNoSchedule does not keep away": (["k=v:PreferNoSchedule"], [], True),
    "an effect that nobody knows": (["k=v:Whatever"], [], True),
    "tolerated by value": (["k=v:NoSchedule"], [{"key": "k", "value": "v"}], True),
    "tolerated by value, said so": (["k=v:NoSchedule"], [{"key": "k", "operator": "Equal", "value": "v"}], True),
    "another value": (["k=v:NoSchedule"], [{"key": "k", "value": "w"}], False),
    "tolerated by key": (["k=v:NoSchedule"], [{"key": "k", "operator": "Exists"}], True),
    "another effect": (["k=v:NoSchedule"], [{"key": "k", "operator": "Exists", "effect": "NoExecute"}], False),
    "the same effect": (["k=v:NoSchedule"], [{"key": "k", "value": "v", "effect": "NoSchedule"}], True),
    "everything is tolerated": (["k=v:NoSchedule", "l:NoExecute"], [{"operator": "Exists"}], True),
    "one of two taints is not": (["k:NoSchedule", "l:NoSchedule"], [{"key": "k", "operator": "Exists"}], False),
    "comparisons are switched off": (["k=5:NoSchedule"], [{"key": "k", "operator": "Gt", "value": "3"}], False),
    "an operator that nobody knows": (["k=v:NoSchedule"], [{"key": "k", "operator": "Like", "value": "v"}], False),
}


@pytest.mark.parametrize(("taints", "tolerations", "passes"), FILTER.values(), ids=FILTER.keys())
def test_taints_that_keep_pods_away(taints: list[str], tolerations: Any, passes: bool) -> None:
    cluster = a_cluster(a_node("plain"), a_node("tainted", taints=taints))
    found = verdicts(build(TaintToleration), a_pod(tolerations=tolerations), cluster)
    assert found == ({} if passes else {"tainted": TAINTED})


def comparing() -> TaintToleration:
    return TaintToleration(None, Handle(feature_gates={COMPARISON_GATE: True}))


def test_numbers_are_compared_where_the_gate_is_on() -> None:
    cluster = a_cluster(*(a_node(f"n{level}", taints=[f"level={level}:NoSchedule"]) for level in (1, 5, 9)))
    pod = a_pod(tolerations=[{"key": "level", "operator": "Lt", "value": "5"}])
    assert verdicts(comparing(), pod, cluster) == {"n5": TAINTED, "n9": TAINTED}
    assert verdicts(build(TaintToleration), pod, cluster) == {"n1": TAINTED, "n5": TAINTED, "n9": TAINTED}


def test_soft_taints_are_compared_where_the_gate_is_on() -> None:
    cluster = a_cluster(*(a_node(f"n{level}", taints=[f"level={level}:PreferNoSchedule"]) for level in (1, 5)))
    pod = a_pod(tolerations=[{"key": "level", "operator": "Gt", "value": "4"}])
    assert scores(comparing(), pod, cluster) == {"n1": 0, "n5": 100}
    assert scores(build(TaintToleration), pod, cluster) == {"n1": 0, "n5": 0}


def soft(count: int) -> list[str]:
    return [f"soft{i}:PreferNoSchedule" for i in range(count)]


SCORE: dict[str, tuple[list[int], list[int]]] = {
    "none, one and three": ([0, 1, 3], [100, 67, 0]),
    "two each": ([2, 2], [0, 0]),
    "none at all": ([0, 0], [100, 100]),
    "none and two": ([0, 2], [100, 0]),
}


@pytest.mark.parametrize(("counts", "given"), SCORE.values(), ids=SCORE.keys())
def test_the_fewer_soft_taints_the_better(counts: list[int], given: list[int]) -> None:
    cluster = a_cluster(*(a_node(f"n{i}", taints=soft(count)) for i, count in enumerate(counts)))
    assert scores(build(TaintToleration), a_pod(), cluster) == {f"n{i}": score for i, score in enumerate(given)}


SOFT: dict[str, tuple[dict[str, str], int]] = {
    "for the effect": ({"key": "soft0", "operator": "Exists", "effect": "PreferNoSchedule"}, 50),
    "for any effect": ({"key": "soft0", "operator": "Exists"}, 50),
    "for another effect only": ({"key": "soft0", "operator": "Exists", "effect": "NoSchedule"}, 0),
}


@pytest.mark.parametrize(("toleration", "given"), SOFT.values(), ids=SOFT.keys())
def test_a_soft_taint_that_is_tolerated_costs_nothing(toleration: dict[str, str], given: int) -> None:
    """One node has two soft taints, the other another two: the best possible is one against two."""
    other = ["x:PreferNoSchedule", "y:PreferNoSchedule"]
    cluster = a_cluster(a_node("n", taints=soft(2)), a_node("other", taints=other))
    assert scores(build(TaintToleration), a_pod(tolerations=[toleration]), cluster) == {"n": given, "other": 0}


def test_hard_taints_cost_no_points() -> None:
    cluster = a_cluster(a_node("a", taints=["k:NoSchedule"]), a_node("b"))
    assert scores(build(TaintToleration), a_pod(), cluster) == {"a": 100, "b": 100}


def test_scores_go_by_the_nodes_that_passed() -> None:
    cluster = a_cluster(*(a_node(f"n{i}", taints=soft(i)) for i in range(4)))
    assert scores(build(TaintToleration), a_pod(), cluster, "n0", "n2") == {"n0": 100, "n2": 0}
