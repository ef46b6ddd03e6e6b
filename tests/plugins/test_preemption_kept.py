"""What preemption keeps between attempts, and how groups let victims come back: limits and order, by hand."""

from typing import Any

import numpy as np
import pytest
from test_preemption import a_budget, a_preemptor, a_victim, failing, labelled, with_pods

from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks
from mooring.framework.contract.points import Handle
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption.default_preemption import DRY_RUNS, DefaultPreemption
from mooring.plugins.preemption.group_preemption import pod_place
from mooring.plugins.preemption.kept_dry_run import KeptDryRun
from mooring.plugins.preemption.kept_harm import MOST_TOUCHED, KeptHarm, name_key
from mooring.plugins.preemption.victim_search import KeptBudgets, NodeDryRun, budgets_of

# ---- the heap of harm


def harm_of(number: int) -> tuple[int, int, int, int, int]:
    return number, 0, 1, 0, 0


def kept_for(rows: int) -> KeptHarm:
    """Row by row the harm grows."""
    kept = KeptHarm(PodRanks(a_cluster(*(a_node(f"n{i:03}") for i in range(rows))).nodes), 9)
    kept.touched()
    kept.keep({row: harm_of(row) for row in reversed(range(rows))}, np.ones(rows, np.bool_))
    return kept


def test_the_least_harmful_row_is_the_first_that_is_curable_and_not_the_pods_own() -> None:
    kept = kept_for(5)
    everywhere, only_last = np.ones(5, np.bool_), np.arange(5) == 4
    for _ in range(2):
        assert kept.least(everywhere, None) == (harm_of(0), 0)
        assert kept.least(everywhere, 0) == (harm_of(1), 1)
        assert kept.least(only_last, 3) == (harm_of(4), 4)
        assert kept.least(only_last, 4) is None
        assert kept.least(~everywhere, None) is None


def test_a_row_that_is_judged_again_has_its_new_harm_alone() -> None:
    kept, everywhere = kept_for(3), np.ones(3, np.bool_)
    judged = {0: harm_of(7)}
    kept.harm_on = lambda row, *_: judged.get(row)  # type: ignore[method-assign]
    nothing: Any = None
    kept.judge_again([0], nothing, nothing)
    assert kept.least(everywhere, None) == (harm_of(1), 1)
    kept.judge_again([1, 2], nothing, nothing)
    assert kept.least(everywhere, None) == (harm_of(7), 0)


def test_after_32_candidates_that_are_none_all_rows_are_judged_instead() -> None:
    kept = kept_for(40)
    for _ in range(2):
        assert kept.least(np.arange(40) >= 32, None) == (harm_of(32), 32)
        with pytest.raises(LookupError):
            kept.least(np.arange(40) >= 33, None)
        assert kept.least(np.ones(40, np.bool_), None) == (harm_of(0), 0)


@pytest.mark.parametrize("rows", [MOST_TOUCHED, MOST_TOUCHED + 1])
def test_what_is_kept_serves_until_too_many_rows_are_touched(rows: int) -> None:
    nodes = a_cluster(*(a_node(f"n{i:03}") for i in range(40))).nodes
    kept = KeptHarm(PodRanks(nodes), 9)
    assert kept.touched() is None
    kept.keep({}, np.ones(40, np.bool_))
    assert kept.touched() == [] and kept.is_kept
    for row in range(rows):
        nodes.place(a_pod(f"p{row}"), f"n{row:03}")
    expected = [*range(rows)] if rows == MOST_TOUCHED else None
    assert kept.touched() == expected
    assert kept.is_kept is (expected is not None)


def test_what_is_kept_ends_with_a_change_of_a_node() -> None:
    cluster = a_cluster(a_node("a"), a_node("b"))
    kept = KeptHarm(PodRanks(cluster.nodes), 9)
    kept.touched()
    kept.keep({}, np.ones(2, np.bool_))
    cluster.put(a_node("a", labels={"x": "y"}))
    assert kept.touched() is None and not kept.is_kept
    assert kept.touched() == [] and not kept.is_kept
    kept.keep({}, np.ones(2, np.bool_))
    kept.drop()
    assert not kept.is_kept


def test_the_last_name_wins_only_among_victims_that_have_not_started() -> None:
    assert name_key(3, NOT_STARTED_NS) < name_key(2, NOT_STARTED_NS)
    assert name_key(2, 17) < name_key(3, 17)


def test_a_kept_harm_is_dropped_for_the_least_recently_asked() -> None:
    cluster = with_pods({"n1": [a_victim("a", 0)]}, "1")
    plugin = DefaultPreemption(None, Handle())
    for priority in range(1, DRY_RUNS + 3):
        plugin.post_filter(failing(a_preemptor(priority=priority), cluster))
        plugin.post_filter(failing(a_preemptor(priority=1), cluster))
    assert [priority for _, priority in plugin.harms] == [*range(4, DRY_RUNS + 3), 1]
    other = with_pods({"n1": [a_victim("a", 0)]}, "1")
    plugin.post_filter(failing(a_preemptor(priority=7), other))
    assert [priority for _, priority in plugin.harms] == [7], "another table has other rows"


def test_attempts_to_preempt_are_counted() -> None:
    handle = Handle()
    plugin = DefaultPreemption(None, handle)
    for policy in ("Never", "PreemptLowerPriority"):
        cluster = with_pods({"n1": [a_victim("a", 0)]}, "1")
        plugin.post_filter(failing(a_preemptor(preemptionPolicy=policy), cluster))
    assert handle.metrics.counter("scheduler_preemption_attempts_total").series().value == 2


# ---- budgets


def test_budgets_are_read_again_when_they_change_and_selectors_only_then() -> None:
    cluster, kept = Cluster(), KeptBudgets()
    web = a_budget("web", labelled("web"), 1)
    cluster.put(web)
    first = kept.of(cluster)
    assert kept.of(cluster) is first
    assert [(budget.namespace, budget.allowed) for budget in first] == [("default", 1)]
    cluster.put(a_budget("db", labelled("db"), 0, ["x"]))
    second = kept.of(cluster)
    assert [(budget.allowed, set(budget.disrupted)) for budget in second] == [(1, set()), (0, {"x"})]
    assert second[0].selector is first[0].selector
    changed = a_budget("web", labelled("shop"), 2)
    cluster.put(changed)
    by_allowed = {budget.allowed: budget for budget in kept.of(cluster)}
    assert by_allowed[2].matches(a_pod("p", labels={"app": "shop"}))
    assert not by_allowed[2].matches(a_pod("p", labels={"app": "web"}))
    cluster.remove(PodDisruptionBudget, "default/web")
    assert [budget.allowed for budget in kept.of(cluster)] == [0]
    cluster.put(changed)
    (again,) = (budget for budget in kept.of(cluster) if budget.allowed == 2)
    assert again.selector is not by_allowed[2].selector, "what was compiled for it is forgotten"


def test_pods_of_one_node_come_before_those_of_the_next() -> None:
    assert pod_place(0, 0) == 0
    assert pod_place(0, 1_000_000) < pod_place(1, 0) < pod_place(1, 1)


# ---- outcomes that are kept


def test_only_rows_that_were_touched_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[list[int]] = []
    plain = KeptDryRun.try_rows

    def noted(self: KeptDryRun, attempt: Any, rows: Any, load: Any) -> None:
        tried.append(rows.tolist())
        plain(self, attempt, rows, load)

    monkeypatch.setattr(KeptDryRun, "try_rows", noted)
    pods = {name: [a_victim(f"{name}-{i}", 0, "500m") for i in range(2)] for name in ("n0", "n1", "n2")}
    cluster = with_pods(pods, "1")
    plugin, one, other = DefaultPreemption(None, Handle()), a_preemptor(), a_preemptor(name="other")

    def look(pod: Pod = one) -> list[list[int]]:
        tried.clear()
        plugin.search(failing(pod, cluster))
        return [*tried]

    assert look() == [[0, 1, 2]]
    assert look() == look(other) == []
    cluster.nodes.place(a_victim("more", 0, "0"), "n1")
    assert look() == [[1]]
    assert look() == []
    cluster.nominated.promise(one, "n2")
    assert look(other) == [[2]]
    assert look(other) == []
    assert look() == look() == look(other) == [[2]], "for itself it takes no room there, for others it does"
    assert look(other) == []
    for number in range(3):
        cluster.nodes.place(a_victim(f"more-{number}", 0, "0"), "n1")
    assert look(other) == [[0, 1, 2]], "the fullest node has more pods than there were slots"


def test_what_is_kept_of_one_table_says_nothing_of_another() -> None:
    plugin = DefaultPreemption(None, Handle())
    for name in ("a", "b", "a"):
        cluster = with_pods({"n1": [a_victim(name, 0)]}, "1")
        found = plugin.search(failing(a_preemptor(), cluster))
        assert [pod.name for pod in found.victims(0)] == [name]


def test_without_budgets_no_rows_are_looked_up_for_them() -> None:
    cluster = with_pods({"n1": [a_victim("a", 0, labels={"app": "web"})], "n2": [a_victim("b", 0)]}, "1")
    failure = failing(a_preemptor(), cluster)
    ranks = PodRanks(cluster.nodes)
    ranks.refresh()
    assert NodeDryRun(failure, ranks, []).budgeted_rows() is None
    for allowed, rows in ((-1, [True, False]), (0, [True, False]), (1, [False, False])):
        cluster.put(a_budget("web", labelled("web"), allowed))
        found = NodeDryRun(failure, ranks, budgets_of(cluster)).budgeted_rows()
        assert found is not None and found.tolist() == rows
