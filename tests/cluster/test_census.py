"""Counts of the pods on nodes that are made and not kept: they meet the loop that asks every pod."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.nodes.table import NodeTable
from mooring.model.affinity import PodPredicate
from mooring.model.meta import LabelSelector, Requirement
from mooring.model.selectors import NOTHING, Selector, compile_selector

NAMESPACES, KEYS, VALUES = ("default", "other"), ("app", "tier"), ("a", "b")
NODES = ("n0", "n1", "n2")

LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
PODS = st.lists(st.tuples(st.sampled_from(NAMESPACES), LABELS, st.sampled_from(NODES), st.booleans()), max_size=12)


def a_rule(key: str, operator: str, values: list[str]) -> Requirement:
    return Requirement(key=key, operator=operator, values=values if operator in ("In", "NotIn") else None)


RULES = st.builds(
    a_rule,
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), min_size=1),
)
SELECTORS: st.SearchStrategy[Selector] = st.one_of(
    st.just(NOTHING),
    st.lists(RULES, max_size=3).map(lambda rules: compile_selector(LabelSelector(match_expressions=rules))),
)
PREDICATES = st.builds(
    PodPredicate, SELECTORS, st.frozensets(st.sampled_from((*NAMESPACES, "x", "y", "z"))), st.booleans()
)


def a_table(pods: Any) -> NodeTable:
    table = NodeTable()
    for name in NODES:
        table.put_node(a_node(name))
    for i, (namespace, labels, node, is_leaving) in enumerate(pods):
        metadata = {"deletionTimestamp": "2026-02-01T00:00:00Z"} if is_leaving else None
        table.place(a_pod(f"p{i}", namespace=namespace, labels=labels, metadata=metadata), node)
    return table


def recount(table: NodeTable, weight: Any) -> list[int]:
    """For each row the sum over its pods."""
    return [sum(int(weight(pod)) for pod in pods) for pods in table.pods_on]


@given(PODS, PREDICATES, st.booleans())
def test_a_count_takes_in_the_pods_that_meet_the_predicate(
    pods: Any, predicate: PodPredicate, with_terminating: bool
) -> None:
    table = a_table(pods)
    census = table.tallies.census()
    counts = census.by_row(census.holding(predicate).astype(np.int64), with_terminating)
    expected = recount(
        table,
        lambda pod: predicate.holds(pod.namespace, pod.labels) and (with_terminating or not pod.is_terminating),
    )
    assert counts[: table.height].tolist() == expected
    assert not counts[table.height :].any()


@given(PODS, st.lists(PREDICATES, max_size=4))
def test_many_predicates_at_once(pods: Any, predicates: list[PodPredicate]) -> None:
    table = a_table(pods)
    census = table.tallies.census()
    weights = [10**i for i in range(len(predicates))]
    met_all = recount(table, lambda pod: all(p.holds(pod.namespace, pod.labels) for p in predicates))
    assert census.count_all(predicates)[: table.height].tolist() == met_all
    plain, weighted = census.count_weighted(list(zip(predicates, weights, strict=True)))
    met = recount(table, lambda pod: sum(p.holds(pod.namespace, pod.labels) for p in predicates))
    assert plain[: table.height].tolist() == met
    assert weighted[: table.height].tolist() == recount(
        table,
        lambda pod: sum(w * p.holds(pod.namespace, pod.labels) for p, w in zip(predicates, weights, strict=True)),
    )


def test_a_census_is_taken_anew_when_a_pod_came_or_went() -> None:
    table = a_table([("default", {"app": "a"}, "n0", False)])
    before = table.tallies.census()
    assert table.tallies.census() is before
    table.place(a_pod("more"), "n1")
    assert table.tallies.census() is not before
