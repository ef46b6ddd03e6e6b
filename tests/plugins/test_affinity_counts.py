"""What affinity terms say is that of a loop over pods and terms, in small and in large integers."""

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import FreshValues, a_cluster, a_node, a_pod
from mooring.cluster.tallies import tally
from mooring.cluster.tallies.tally import Tally
from mooring.framework.contract.context import SchedulingContext
from mooring.plugins.affinity.affinity_counts import (
    ByKey,
    OwnTerms,
    add_concerns,
    add_tally,
    counted_on_rows,
    terms_about,
)
from pods_with_terms import ASKED, NODES, PREFERRED, STEPS, PodsWithTerms, a_term

ZONE = "topology.kubernetes.io/zone"


def pulls(*weights: int) -> tuple[int, dict[str, int]]:
    """How many bytes a number takes; and what each zone gets from two pods in a and one in b, with terms of these weights."""
    nodes = [a_node(f"n{i}", labels={ZONE: zone}) for i, zone in enumerate("abc")]
    cluster = a_cluster(*nodes)
    context = SchedulingContext(a_pod(), cluster, 0, FreshValues())
    pods = Tally(cluster.nodes.capacity)
    for row in (0, 0, 1):
        pods.add((row, 1))
    found = ByKey()
    for weight in weights:
        add_tally(found, context, ZONE, pods, weight)
    column, counts = found[ZONE].column, found[ZONE].counts
    return counts.itemsize, {zone: int(counts[column.value_book[zone]]) for zone in "abc"}


def test_weights_of_terms_add_up_in_small_integers() -> None:
    assert pulls(100, -30, 1) == (4, {"a": 142, "b": 71, "c": 0})


@pytest.mark.parametrize("weights", [(1 << 31,), (1 << 29, 1 << 29), (1, 1 << 30), (-(1 << 40), 5)])
def test_weights_that_do_not_fit_add_up_in_large_integers(weights: tuple[int, ...]) -> None:
    total = sum(weights)
    assert pulls(*weights) == (8, {"a": 2 * total, "b": total, "c": 0})


# ---- terms of pods on nodes


class World(PodsWithTerms):
    """Asks what existing pods say about an incoming one."""

    def context(self, namespace: str, labels: dict[str, str]) -> SchedulingContext:
        return SchedulingContext(a_pod("new", namespace=namespace, labels=labels), self.cluster, 0, FreshValues())

    def pulls(self, namespace: str, labels: dict[str, str], kind: str) -> dict[str, dict[str, int]]:
        """By topology key and value, without zeros; keys that nothing is said about are missing."""
        context, found = self.context(namespace, labels), ByKey()
        add_concerns(found, context, terms_about(context), kind, 1)
        return {
            key: {str(domains.column.values[code]): int(count) for code, count in enumerate(domains.counts) if count}
            for key, domains in found.items()
        }

    def ask(self, asked: tuple[str, dict[str, str]], _: None) -> None:
        for kind in ("anti", "affinity", "preferred"):
            expected: dict[str, dict[str, int]] = {}
            for (key, value), number in self.expected(*asked, kind).items():
                expected.setdefault(key, {}).update({value: number} if number else {})
            assert self.pulls(*asked, kind) == expected
        counted = counted_on_rows(self.context(*asked), OwnTerms((), (), ()), self.table.tallies)
        anti = {node for carried, node in self.said(*asked) if carried.kind == "anti"}
        assert counted is not None
        assert {name for name in NODES if counted[self.table.row_book[name]]} == anti


@given(STEPS, st.lists(ASKED, min_size=1, max_size=3), st.sampled_from((0, 1, 64)))
def test_what_existing_pods_say_is_that_of_a_loop(
    steps: list[tuple[str, Any, Any]], asked: list[tuple[str, dict[str, str]]], few_rows: int
) -> None:
    """Also where some tallies have few rows and others many."""
    with mock.patch.object(tally, "FEW_ROWS", few_rows):
        world = World()
        for name, *what in steps:
            getattr(world, name)(*what)
        for each in asked:
            world.ask(each, None)


@pytest.mark.parametrize(
    ("app", "expected"),
    [("t0", {}), ("other", {"zone": {}})],
    ids=["excluded from all: nothing is said", "weights that cancel out: something is said"],
)
def test_weights_that_cancel_out_are_not_silence(app: str, expected: dict[str, dict[str, int]]) -> None:
    """Upstream then scores all nodes alike, and does not skip."""
    world = World()
    for number, kind in enumerate(("podAffinity", "podAntiAffinity")):
        weighted = {"weight": 7, "podAffinityTerm": a_term("NotIn", "t0")}
        world.place(number, ("n0", "blue", {kind: {PREFERRED: [weighted]}}))
    assert world.pulls("blue", {"app": app}, "preferred") == expected
