"""Ties are nodes with the total of the chosen node; a plain loop over all totals says the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.cluster.nodes.table import NodeTable
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.scheduler.ties import KeptTies, by_seed, is_tied, lowest_name, tied_with
from mooring.state.scheduler_assembly import build_scheduler


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 99), st.booleans())
@settings(max_examples=examples(50))
def test_kept_ties_are_the_rows_with_the_highest_total(totals: list[int], seed: int, is_seeded: bool) -> None:
    nodes = NodeTable()
    for i in range(len(totals)):
        nodes.put_node(a_node(f"n-{i}"))
    inner = by_seed if is_seeded else lowest_name
    ties, column = KeptTies(inner), np.array(totals)
    row = ties.pick_best(nodes, slice(0, None), column, seed)
    assert row == inner.pick_best(nodes, slice(0, None), column, seed)
    assert ties.take().tolist() == [i for i, total in enumerate(totals) if total == max(totals)]
    assert ties.take().tolist() == []


def test_names_are_tied_by_their_totals() -> None:
    totals = {"a": 5, "b": 7, "c": 7, "d": 7}
    assert tied_with(totals, "c") == ["b", "d"] and tied_with(totals, "a") == [] and tied_with({}, "a") == []
    assert is_tied(totals, "c", "b") and not is_tied(totals, "c", "c") and not is_tied(totals, "c", "a")
    assert not is_tied({}, "c", "b") and not is_tied(totals, "c", "unknown")


def test_a_decision_without_scores_has_no_ties() -> None:
    scheduler = build_scheduler(config.default(), VirtualClock(0))
    ties = KeptTies(lowest_name)
    for name, cpu in (("n-1", "4"), ("n-2", "4"), ("tiny", "1")):
        scheduler.cluster.nodes.put_node(a_node(name, cpu=cpu))
    runner = scheduler.runner("default-scheduler")
    assert runner is not None
    for cpu, tied in (("2", [0, 1]), ("1", [0, 1])):
        decision = decide(runner, a_pod("p", cpu=cpu), scheduler.cluster, DecideOptions(tie_break=ties))
        assert isinstance(decision, Placement) and decision.node == "n-1"
        assert ties.take().tolist() == tied
    scheduler.cluster.nodes.remove_node("n-2")
    decide(runner, a_pod("p", cpu="2"), scheduler.cluster, DecideOptions(tie_break=ties))
    assert ties.take().tolist() == []
