"""Ties are nodes with the total of the chosen node; a plain loop over all totals says the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.cluster.nodes.table import NodeTable
from mooring.framework import config
from mooring.framework.kept.best_rows import MaskedTotals
from mooring.kit.choice import choose
from mooring.kit.clock import VirtualClock
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.scheduler.ties import (
    BY_NAME_IN_FILES,
    KeptTies,
    TieBreak,
    as_kube_scheduler,
    by_seed,
    first_row,
    is_tied,
    lowest_name,
    tie_break_of,
    tied_with,
)
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


@pytest.mark.parametrize("rule", [lowest_name, first_row, by_seed])
@given(
    st.permutations(range(7)),
    st.lists(st.integers(0, 2), min_size=7, max_size=7),
    st.sets(st.integers(0, 6)),
    st.data(),
)
@settings(max_examples=examples(60))
def test_a_rule_picks_the_row_of_a_plain_loop(
    rule: TieBreak, names: list[int], totals: list[int], some: set[int], data: st.DataObject
) -> None:
    nodes, seed = NodeTable(), data.draw(st.integers(0, 999))
    for name in names if data.draw(st.booleans()) else sorted(names):
        nodes.put_node(a_node(f"n-{name}"))
    rows = sorted(some) or [*range(7)]

    def plain(rows: list[int]) -> int:
        tied = [row for row in rows if totals[row] == max(totals[row] for row in rows)]
        drawn = tied[choose(seed, len(tied))]
        return {lowest_name: min(tied, key=lambda row: nodes.names[row]), first_row: tied[0], by_seed: drawn}[rule]

    column = np.array(totals)
    for asked in (rule, KeptTies(rule)):
        assert asked.pick_best(nodes, np.array(rows), column[rows], seed) == plain(rows)
        assert asked.pick_best(nodes, slice(0, None), column, seed) == plain([*range(7)])
        assert asked.pick_kept(nodes, MaskedTotals(column, 0, 7), seed) == plain([*range(7)])


def test_a_rule_ranks_the_placements_of_a_group() -> None:
    def taken(rule: TieBreak) -> list[int]:
        return [max(range(5), key=lambda place: rule.rank_place(place, seed)) for seed in range(100)]

    for rule in (lowest_name, first_row, as_kube_scheduler, KeptTies(lowest_name)):
        assert taken(rule) == [0] * 100
    drawn = taken(by_seed)
    assert drawn == taken(KeptTies(by_seed)) and {*drawn} == {*range(5)}
    # Each of five places comes 20 times of 100, with a standard deviation of 4.
    assert all(4 < drawn.count(place) < 36 for place in range(5))


def test_rules_say_what_they_do() -> None:
    words: dict[TieBreak, str] = {
        lowest_name: "ties go to the lowest name here",
        by_seed: "the seed of the attempt decided",
        first_row: "ties go to the node that came first",
        as_kube_scheduler: "the order of kube-scheduler's heap decides here",
    }
    for rule, text in words.items():
        assert (rule.words, KeptTies(rule).words) == (text, text)
        assert rule.goes_by_walk == KeptTies(rule).goes_by_walk == (rule is as_kube_scheduler)
    asked = [tie_break_of(rule) for rule in (None, 0, 7, "kube-scheduler")]
    assert asked == [lowest_name, by_seed, by_seed, as_kube_scheduler]


def test_recordings_name_the_rule_by_which_ties_are_broken() -> None:
    """Recordings on disk have these names, so they do not change."""
    assert dict(BY_NAME_IN_FILES) == {"name": lowest_name, "seed": by_seed, "kube-scheduler": as_kube_scheduler}
