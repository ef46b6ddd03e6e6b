"""Decisions from end to end with the default profile: messages word for word, ties, and what is recorded."""

from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from build import a_cluster, a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.framework import config
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.status import Rejection, curable, final
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionDetails, Diagnosis, NoFit, Placement
from mooring.scheduler.ties import by_seed
from mooring.state.scheduler_assembly import build_runners

V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
WHEN = "DuringSchedulingIgnoredDuringExecution"
TAINT = "k:NoSchedule"


def a_runner(percentage: int = 0) -> Runner:
    written = {**V1, "percentageOfNodesToScore": percentage}
    return build_runners(config.from_object(written))["default-scheduler"]


def named(*names: str) -> dict[str, Any]:
    """Affinity to nodes by name: PreFilter leaves no others."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    return {"nodeAffinity": {f"required{WHEN}": {"nodeSelectorTerms": terms}}}


def run(pod: Pod, cluster: Cluster, options: DecideOptions | None = None, seed: int = 0) -> Decision:
    return decide(a_runner(), pod, cluster, options or DecideOptions(), seed)


def placed(decision: Decision) -> Placement:
    assert isinstance(decision, Placement)
    return decision


def details(decision: Decision) -> DecisionDetails:
    assert isinstance(decision, Placement | NoFit)
    assert decision.details is not None
    return decision.details


@pytest.mark.parametrize("cpu", ["1", "9"], ids=["placed", "fits nowhere"])
def test_decisions_that_say_the_same_are_equal_whatever_attempt_made_them(cpu: str) -> None:
    """The self-check and replays compare decisions of two schedulers."""
    cluster = a_cluster(a_node("n1", cpu="4"), a_node("n2", cpu="4"))
    once, again = (run(a_pod(cpu=cpu), cluster) for _ in range(2))
    assert once is not again and once == again and not once != again  # noqa: SIM202
    other = run(a_pod(cpu=cpu), a_cluster(a_node("n2", cpu="4")))
    assert once != other and not once == other  # noqa: SIM201
    assert placed(run(a_pod(), cluster)) != run(a_pod(cpu="9"), cluster)
    assert (once == "n1", once == ()) == (False, False)


# ---- messages


def nodes(count: int, **more: Any) -> list[Any]:
    return [a_node(f"n{i}", **more) for i in range(1, count + 1)]


MESSAGES: dict[str, tuple[Pod, list[Any], str, set[str]]] = {
    "no nodes": (a_pod(), [], "no nodes available to schedule pods", set()),
    "every reason of every node is counted": (
        a_pod(cpu="8", memory="16Gi"),
        [a_node("n1", taints=[TAINT]), a_node("n2"), a_node("n3")],
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu, 2 Insufficient memory.",
        {"TaintToleration", "NodeResourcesFit"},
    ),
    "reasons are sorted as text": (
        a_pod(cpu="8"),
        [*(a_node(f"n{i}", taints=[TAINT]) for i in range(10)), a_node("x"), a_node("y")],
        "0/12 nodes are available: 10 node(s) had untolerated taint(s), 2 Insufficient cpu.",
        {"TaintToleration", "NodeResourcesFit"},
    ),
    "nodes that were ruled out": (
        a_pod(cpu="8", affinity=named("n1")),
        nodes(4),
        "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
        {"NodeAffinity", "NodeResourcesFit"},
    ),
    "a node that does not exist": (
        a_pod(affinity=named("ghost")),
        nodes(4),
        "0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [NodeAffinity].",
        {"NodeAffinity"},
    ),
    "a pod that no node could take": (
        a_pod(
            affinity={
                "nodeAffinity": {
                    f"required{WHEN}": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": [name]}
                                    for name in ("n1", "n2")
                                ]
                            }
                        ]
                    }
                }
            }
        ),
        nodes(4),
        "0/4 nodes are available: pod affinity terms conflict.",
        {"NodeAffinity"},
    ),
}


@pytest.mark.parametrize(("pod", "objects", "text", "plugins"), MESSAGES.values(), ids=MESSAGES.keys())
def test_why_a_pod_fits_nowhere(pod: Pod, objects: list[Any], text: str, plugins: set[str]) -> None:
    decision = run(pod, a_cluster(*objects))
    assert isinstance(decision, NoFit)
    assert decision.message == text
    assert decision.diagnosis.plugins == plugins


def test_without_why_a_pod_that_fits_nowhere_has_no_reasons_and_one_that_fits_gets_the_same_node() -> None:
    cluster, briefly = a_cluster(*nodes(4)), DecideOptions(tells_why=False)
    told, untold = run(a_pod(cpu="8"), cluster), run(a_pod(cpu="8"), cluster, briefly)
    assert isinstance(told, NoFit) and isinstance(untold, NoFit)
    assert (len(told.diagnosis.verdicts), untold.diagnosis, untold.failure) == (1, Diagnosis(4), None)
    assert placed(run(a_pod(cpu="1"), cluster, briefly)).node == placed(run(a_pod(cpu="1"), cluster)).node


def test_a_node_that_is_gone_does_not_count() -> None:
    cluster = a_cluster(*nodes(3), a_pod("left", nodeName="n2"))
    cluster.nodes.remove_node("n2")
    decision = run(a_pod(cpu="8"), cluster)
    assert isinstance(decision, NoFit)
    assert decision.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_cluster_that_lost_its_last_node_has_none() -> None:
    cluster = a_cluster(a_node("n"), a_pod("left", nodeName="n"))
    cluster.nodes.remove_node("n")
    decision = run(a_pod(), cluster)
    assert isinstance(decision, NoFit)
    assert decision.message == "no nodes available to schedule pods"


HISTOGRAMS: dict[str, tuple[Diagnosis, str]] = {
    "nothing is known": (Diagnosis(3), "0/3 nodes are available:"),
    "the same reason from two plugins is one line": (
        Diagnosis(3, [(curable("full"), 1), (final("full"), 2)]),
        "0/3 nodes are available: 3 full.",
    ),
    "a verdict with two reasons counts for both": (
        Diagnosis(2, [(curable("b", "a"), 2)]),
        "0/2 nodes are available: 2 a, 2 b.",
    ),
    "nodes that were not looked at count when there are any": (
        Diagnosis(5, [(curable("full"), 2)], absent=final("out")),
        "0/5 nodes are available: 2 full, 3 out.",
    ),
    "... and not when all were looked at": (
        Diagnosis(2, [(curable("full"), 2)], absent=final("out")),
        "0/2 nodes are available: 2 full.",
    ),
    "a refused pod has one reason": (
        Diagnosis(5, absent=Rejection(("this", "that")), pod_rejected=True),
        "0/5 nodes are available: this, that.",
    ),
}


@pytest.mark.parametrize(("diagnosis", "text"), HISTOGRAMS.values(), ids=HISTOGRAMS.keys())
def test_the_text_of_a_diagnosis(diagnosis: Diagnosis, text: str) -> None:
    assert diagnosis.message() == text


# ---- scores


def test_the_total_of_the_worked_example() -> None:
    """Taints 300, fit 62, balance 75, images 0, devices 0."""
    used = [a_pod(f"used-{name}", cpu="1", memory="2Gi", nodeName=name) for name in ("a", "b")]
    decision = run(
        a_pod(cpu="500m", memory="1Gi"), a_cluster(a_node("a"), a_node("b"), *used), DecideOptions(explain=True)
    )
    assert details(decision).totals == {"a": 437, "b": 437}
    assert details(decision).scores["a"] == {
        "TaintToleration": 300,
        "NodeResourcesFit": 62,
        "VolumeBinding": 0,
        "DynamicResources": 0,
        "NodeResourcesBalancedAllocation": 75,
        "ImageLocality": 0,
    }


def test_a_single_feasible_node_is_taken_without_scores() -> None:
    decision = placed(
        run(a_pod(cpu="3"), a_cluster(a_node("small", cpu="2"), a_node("large")), DecideOptions(explain=True))
    )
    assert (decision.node, decision.score, decision.feasible_count, decision.best) == ("large", 0, 1, [])
    assert details(decision).feasible == ["large"]
    assert (details(decision).scores, details(decision).totals) == ({}, {})
    assert list(details(decision).rejected) == ["small"]


def test_the_three_best_are_recorded_best_first_and_equals_by_name() -> None:
    used = [a_pod(f"p{i}", cpu="1", memory="1Gi", nodeName=name) for i, name in enumerate(("a", "a", "b", "e"))]
    cluster = a_cluster(*(a_node(name) for name in "edcba"), *used)
    decision = placed(run(a_pod(cpu="100m", memory="200Mi"), cluster, DecideOptions(record=True)))
    assert [name for name, _ in decision.best] == ["c", "d", "b"]
    totals = [total for _, total in decision.best]
    assert totals == sorted(totals, reverse=True)
    assert (decision.node, decision.score) == decision.best[0]


def test_nothing_is_recorded_unless_asked_for() -> None:
    cluster = a_cluster(a_node("a"), a_node("b"), a_node("c", taints=[TAINT]))
    plain, recorded = placed(run(a_pod(), cluster)), placed(run(a_pod(), cluster, DecideOptions(record=True)))
    assert (plain.best, plain.diagnosis, plain.details) == ([], None, None)
    assert (len(recorded.best), recorded.details) == (2, None)
    assert recorded.diagnosis is not None
    assert recorded.diagnosis.verdicts == [(final("node(s) had untolerated taint(s)").by("TaintToleration"), 1)]
    assert (plain.node, plain.score, plain.feasible_count) == (recorded.node, recorded.score, recorded.feasible_count)


def test_a_decision_changes_nothing() -> None:
    cluster = a_cluster(*nodes(3), a_pod("other", cpu="1", nodeName="n1"))
    before = cluster.nodes.amounts.requested.tolist(), cluster.nodes.touches.end
    decisions = [placed(run(a_pod(cpu="1"), cluster)) for _ in range(2)]
    assert decisions[0].node == decisions[1].node
    assert (cluster.nodes.amounts.requested.tolist(), cluster.nodes.touches.end) == before
    assert check_table(cluster.nodes) == []


# ---- ties


def test_of_equals_the_lowest_name_is_taken_whatever_the_order_of_arrival() -> None:
    for order in ("cab", "bca", "abc"):
        assert placed(run(a_pod(), a_cluster(*(a_node(name) for name in order)))).node == "a"


def test_names_are_compared_as_text() -> None:
    assert placed(run(a_pod(), a_cluster(a_node("n9"), a_node("n10")))).node == "n10"


def test_a_tie_among_some_of_the_nodes_leaves_out_the_others() -> None:
    cluster = a_cluster(a_node("a"), a_node("b"), a_node("c"), a_pod("p", cpu="1", nodeName="a"))
    assert placed(run(a_pod(cpu="1"), cluster)).node == "b"


def test_seeds_spread_ties_evenly_and_repeatably() -> None:
    cluster, runner, options = a_cluster(*nodes(6)), a_runner(), DecideOptions(tie_break=by_seed)
    chosen = [placed(decide(runner, a_pod(), cluster, options, seed)).node for seed in range(3000)]
    again = [placed(decide(runner, a_pod(), cluster, options, seed)).node for seed in range(200)]
    assert chosen[:200] == again
    counts = Counter(chosen)
    assert set(counts) == {f"n{i}" for i in range(1, 7)}
    assert all(400 < count < 600 for count in counts.values())
    followers = Counter(pairwise(chosen))
    assert len(followers) == 36
    assert all(40 < count < 130 for count in followers.values())


def test_a_seed_never_chooses_a_node_that_scores_less() -> None:
    cluster = a_cluster(*nodes(3), a_pod("p", cpu="1", nodeName="n2"))
    options = DecideOptions(tie_break=by_seed)
    assert {placed(run(a_pod(cpu="1"), cluster, options, seed)).node for seed in range(60)} == {"n1", "n3"}


# ---- a node that was promised


def nominated(name: str, **more: Any) -> Pod:
    return a_pod(status={"nominatedNodeName": name}, **more)


def test_a_promised_node_that_fits_is_taken_and_nobody_asks_about_the_others() -> None:
    used = a_pod("used", cpu="3", nodeName="n3")
    cluster = a_cluster(*nodes(4), a_node("tainted", taints=[TAINT]), used)
    decision = placed(run(nominated("n3", cpu="1"), cluster, DecideOptions(explain=True)))
    assert decision.node == "n3"
    assert (details(decision).feasible, details(decision).rejected) == (["n3"], {})


@pytest.mark.parametrize("name", ["n3", "ghost"])
def test_a_promised_node_that_does_not_fit_or_is_gone_leaves_all_the_others(name: str) -> None:
    used = a_pod("used", cpu="4", nodeName="n3")
    decision = placed(run(nominated(name, cpu="1"), a_cluster(*nodes(5), used), DecideOptions(explain=True)))
    assert details(decision).feasible == ["n1", "n2", "n4", "n5"]
    assert list(details(decision).rejected) == ["n3"]


# ---- partial searches


def a_large_cluster(count: int) -> Cluster:
    return a_cluster(*(a_node(f"n{i:03}") for i in range(count)))


def test_a_share_of_the_nodes_is_scored_and_the_next_pod_sees_the_others() -> None:
    runner, cluster, options = a_runner(50), a_large_cluster(300), DecideOptions(explain=True)
    first = decide(runner, a_pod("a"), cluster, options)
    second = decide(runner, a_pod("b"), cluster, options)
    assert details(first).feasible == [f"n{i:03}" for i in range(150)]
    assert details(second).feasible == [f"n{i:03}" for i in range(150, 300)]
    assert runner.cursor.start == 0


def test_a_share_goes_by_the_nodes_that_pre_filters_left() -> None:
    """Half of 150 named nodes is raised to a hundred; half of all 400 would be more than there are."""
    runner, cluster, options = a_runner(50), a_large_cluster(400), DecideOptions(explain=True)
    pod = a_pod(affinity=named(*(f"n{i:03}" for i in range(150))))
    decision = placed(decide(runner, pod, cluster, options))
    assert decision.feasible_count == 100
    assert runner.cursor.start == 100


def test_two_named_nodes_are_both_looked_at() -> None:
    runner, cluster, options = a_runner(50), a_large_cluster(200), DecideOptions(explain=True)
    decision = decide(runner, a_pod(affinity=named("n007", "n009")), cluster, options)
    assert sorted(details(decision).feasible) == ["n007", "n009"]
    assert runner.cursor.start == 2


def test_0_percent_means_every_node() -> None:
    decision = placed(decide(a_runner(0), a_pod(), a_large_cluster(300), DecideOptions()))
    assert decision.feasible_count == 300


def test_a_search_for_a_pod_that_fits_nowhere_reaches_every_node() -> None:
    decision = decide(a_runner(50), a_pod(cpu="9"), a_large_cluster(300), DecideOptions())
    assert isinstance(decision, NoFit)
    assert decision.message == "0/300 nodes are available: 300 Insufficient cpu."


def test_decisions_are_equal_if_they_say_the_same_whatever_the_attempts_behind_them() -> None:
    cluster = a_cluster(a_node("n1"), a_node("n2"))
    fits, again = placed(run(a_pod(cpu="1"), cluster)), placed(run(a_pod(cpu="1"), cluster))
    assert fits.context is not again.context
    assert fits == again
    assert not fits != again  # noqa: SIM202  # both operators have a method
    too_large, once_more = run(a_pod(cpu="800"), cluster), run(a_pod(cpu="800"), cluster)
    assert too_large == once_more
    assert not too_large != once_more  # noqa: SIM202
    assert fits != too_large
    assert not fits == too_large  # noqa: SIM201
    assert fits != msgspec.structs.replace(fits, score=fits.score + 1)
