"""The best row that blocks find is the one that a plain loop over all rows finds, after any changes of totals."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from how_many import examples
from mooring.cluster.nodes.table import NodeTable
from mooring.framework import config
from mooring.framework.kept import best_rows, feasible, memo
from mooring.framework.kept.best_rows import BestRows, MaskedTotals, PassedCount
from mooring.framework.kept.feasible import DEAD, PASSED, first_of
from mooring.kit.choice import choose
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.scheduler.ties import KeptTies, TieBreak, by_seed, lowest_name
from mooring.state.scheduler_assembly import build_runners

ROWS = 23
CHANGE = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, 3)), max_size=6)


def a_table(step: int) -> NodeTable:
    """Nodes in the order of their names with step 1, otherwise in another order."""
    return a_cluster(*(a_node(f"n{number * step % ROWS:02}") for number in range(ROWS))).nodes


@pytest.mark.parametrize("step", [1, 7])
@given(
    st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS),
    st.lists(CHANGE, max_size=5),
    st.integers(1, 9),
    st.data(),
)
@settings(max_examples=examples(60))
def test_blocks_find_the_best_row_of_a_plain_loop(
    step: int, begin: list[int], changes: list[list[tuple[int, int]]], block: int, data: Any
) -> None:
    nodes, totals, best = a_table(step), np.array(begin, np.int16), BestRows()
    with mock.patch.object(best_rows, "BLOCK", block):
        for change in [[], *changes]:
            for row, total in change:
                totals[row] = total
                nodes.touches.note(row)
            if data.draw(st.booleans()):
                totals = totals.copy()  # all answers were asked for again
            best.refresh(nodes, totals)
            card, seed = MaskedTotals(totals, 0, ROWS, best), data.draw(st.integers(0, 99))
            tied = [row for row in range(ROWS) if totals[row] == max(totals.tolist())]
            assert lowest_name.pick_kept(nodes, card, seed) == min(tied, key=lambda row: nodes.names[row])
            assert by_seed.pick_kept(nodes, card, seed) == tied[choose(seed, len(tied))]
            ties = KeptTies(by_seed)
            assert ties.pick_kept(nodes, card, seed) == tied[choose(seed, len(tied))]
            assert ties.take().tolist() == tied


VERDICTS = st.sampled_from((PASSED, PASSED, DEAD, 3))
VERDICT_CHANGE = st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, 3), VERDICTS), max_size=6)


@given(
    st.lists(st.tuples(st.integers(0, 3), VERDICTS), min_size=ROWS, max_size=ROWS),
    st.lists(VERDICT_CHANGE, max_size=5),
    st.integers(1, 9),
    st.data(),
)
@settings(max_examples=examples(60))
def test_blocks_leave_out_rows_that_did_not_pass(
    begin: list[tuple[int, int]], changes: list[list[tuple[int, int, int]]], block: int, data: Any
) -> None:
    nodes, best, passed = a_table(7), BestRows(), PassedCount()
    totals, first = np.array([a for a, _ in begin], np.int16), np.array([b for _, b in begin], np.int8)
    with mock.patch.object(best_rows, "BLOCK", block):
        for change in [[], *changes]:
            for row, total, verdict in change:
                totals[row], first[row] = total, verdict
                nodes.touches.note(row)
            if data.draw(st.booleans()):
                first = first.copy()
            passed.refresh(nodes, first, by_row=False)
            feasible_rows = [row for row in range(ROWS) if first[row] == PASSED]
            assert passed.count == len(feasible_rows)
            best.refresh(nodes, totals, first)
            if not feasible_rows:
                continue
            card, seed = MaskedTotals(best.totals, 0, passed.count, best), data.draw(st.integers(0, 99))
            highest = max(int(totals[row]) for row in feasible_rows)
            tied = [row for row in feasible_rows if totals[row] == highest]
            assert lowest_name.pick_kept(nodes, card, seed) == min(tied, key=lambda row: nodes.names[row])
            assert by_seed.pick_kept(nodes, card, seed) == tied[choose(seed, len(tied))]
            ties = KeptTies(by_seed)
            assert ties.pick_kept(nodes, card, seed) == tied[choose(seed, len(tied))]
            assert ties.take().tolist() == tied


def test_only_blocks_of_touched_rows_are_read_again() -> None:
    nodes, totals, best = a_table(1), np.zeros(ROWS, np.int16), BestRows()
    with mock.patch.object(best_rows, "BLOCK", 2):
        best.refresh(nodes, totals)
        totals[[4, 20]] = 5
        nodes.touches.note(20)
        best.refresh(nodes, totals)
        assert best.first() == 20, "row 4 was not noted"


@given(st.lists(st.booleans(), min_size=1, max_size=40).filter(any), st.randoms(), st.integers(1, 5))
def test_the_first_row_of_an_order_is_that_of_a_plain_loop(meant: list[bool], random: Any, chunk: int) -> None:
    order = random.sample(range(len(meant)), len(meant))
    with mock.patch.object(feasible, "_CHUNK", chunk):
        assert first_of(np.array(meant), np.array(order, np.intp)) == next(row for row in order if meant[row])


HOST = "kubernetes.io/hostname"


def near_itself(weight: int) -> dict[str, Any]:
    """A pod that prefers nodes with pods of its application, or without them."""
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}
    kind = "podAffinity" if weight > 0 else "podAntiAffinity"
    weighted = {"weight": abs(weight) or 1, "podAffinityTerm": term}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


@pytest.mark.parametrize("tie_break", [lowest_name, by_seed])
@pytest.mark.parametrize("step", [1, 7])
def test_decisions_are_those_of_a_pass_over_all_rows(step: int, tie_break: TieBreak) -> None:
    """Pods come to a cluster whose nodes change and go meanwhile; some nodes reject all pods."""

    def place_all(least_rows: int) -> list[str]:
        cluster, runner = a_cluster(), build_runners(config.default())["default-scheduler"]
        for number in range(ROWS):
            name = f"n{number * step % ROWS:02}"
            labels = {"half": "ab"[number % 2], HOST: name}
            cluster.nodes.put_node(a_node(name, cpu=str(4 + number % 3), labels=labels))
        chosen = []
        blocks = mock.patch.multiple(best_rows, BLOCK=4)
        with blocks, mock.patch.multiple(memo, LEAST_ROWS=least_rows, LEAST_ROWS_BY_NAME=least_rows):
            for turn in range(40):
                if turn == 20:
                    cluster.nodes.remove_node("n05")
                if turn == 30:
                    cluster.nodes.put_node(a_node("n06", cpu="64"))
                if turn == 35:
                    cluster.nodes.put_node(a_node("n08", taints=["k:NoSchedule"]))
                selector = {"half": "b"} if turn % 4 == 3 else {}
                labels, preferred = ({"app": "web"}, near_itself(turn % 8 - 2)) if turn % 2 else ({}, {})
                cpu = ("100m", "1", "250m")[turn % 3]
                pod = a_pod(f"p{turn}", cpu=cpu, labels=labels, nodeSelector=selector, affinity=preferred)
                decision = decide(runner, pod, cluster, DecideOptions(tie_break=tie_break), turn)
                assert isinstance(decision, Placement)
                cluster.nodes.place(pod, decision.node)
                chosen.append(decision.node)
        return chosen

    assert place_all(0) == place_all(ROWS)
