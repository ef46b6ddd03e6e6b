"""Which way preemption takes to its answer, and sums at the limits of what cells hold."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from test_least_harm import HOST, Form, World, a_plugin, a_random_pod
from test_preemption import a_budget, a_preemptor, a_victim, failing, labelled, names, with_pods

from build import a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Nomination
from mooring.framework.contract.status import final
from mooring.plugins.preemption import kept_harm
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.preemption.kept_dry_run import KeptDryRun
from mooring.plugins.preemption.kept_harm import KeptHarm
from mooring.plugins.preemption.least_harm import is_small
from mooring.plugins.preemption.victim_search import NO_VICTIMS_FOUND, NodeDryRun, PreemptionDryRun
from mooring.scheduler.decision import NoFit

APART = Form(2, 0, "web", f"anti {HOST}", "web")
WAYS: dict[str, tuple[Form, list[Any], str]] = {
    "sums alone": (Form(2, 0, "web", "", "web"), [], "n2"),
    "a budget": (Form(2, 0, "web", "", "web"), [a_budget("x", labelled("db"), 0)], "n1"),
    "a budget that all break": (
        Form(2, 0, "web", "", "web"),
        [a_budget("x", labelled("db"), 0), a_budget("y", labelled("log"), 0)],
        "n2",
    ),
    "a rule about other pods": (APART, [], "n2"),
}


@pytest.mark.parametrize(("form", "budgets", "node"), WAYS.values(), ids=WAYS.keys())
def test_the_least_harmful_node_is_found_without_a_search_on_all_nodes(
    form: Form, budgets: list[Any], node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods on n2 have the lowest priority; on n0 there are two of them."""
    world = World()
    for name, app, priority in (("n0", "log", 4), ("n1", "log", 4), ("n2", "db", 0)):
        world.change(("node", (name, 2, 0, 5, False)))
        for cpus in (1, 1) if name == "n0" else (2,):
            world.change(("place", (name, priority, Form(cpus, 0, app, "", "web"), 1, False)))
    for budget in budgets:
        world.cluster.put(budget)

    def never(*args: Any) -> Any:
        raise AssertionError("the long way")

    monkeypatch.setattr(PreemptionDryRun, "search", never)
    plugin = a_plugin()
    for number in range(3):
        decision = world.decide(a_random_pod(f"pre{number}", form, 11))
        assert isinstance(decision, NoFit) and decision.failure is not None
        found = plugin.post_filter(decision.failure)
        assert isinstance(found, Nomination) and found.node_name == node


def test_a_node_on_which_nobody_may_leave_has_no_victims() -> None:
    cluster = with_pods({"n1": [a_victim("a"), a_victim("b")]}, "2")
    failure = failing(a_preemptor(), cluster)
    ranks = PodRanks(cluster.nodes)
    ranks.refresh()

    def search(*leaving: str) -> Any:
        return NodeDryRun(failure, ranks, [], lambda pods: [pod for pod in pods if pod.name in leaving]).search(0)

    assert search() == NO_VICTIMS_FOUND
    victims, violations = search("b")
    assert (names(victims), violations) == (["b"], 0)


def test_what_all_pods_of_a_node_request_stops_where_the_sums_of_the_table_do() -> None:
    """An amount is 2^53 at most, and a cell shows 2^61 at most: 256 such amounts."""
    cluster = with_pods({"n1": [], "n2": []}, "1")
    for number in range(258):
        cluster.nodes.place(a_pod(f"p{number}", requests={"memory": str(1 << 53)}), "n1" if number else "n2")
    ranks = PodRanks(cluster.nodes)
    ranks.refresh()
    index = cluster.nodes.amounts.resource_book["memory"]
    lower = np.ones((len(ranks.priority), 2), np.bool_)
    found = KeptDryRun(ranks).requests_of(np.arange(2), lower)[index].tolist()
    assert found == [1 << 61, 1 << 53] == cluster.nodes.amounts.requested[index, :2].tolist()


def test_a_row_that_is_as_harmful_as_before_is_not_entered_again() -> None:
    cluster = with_pods({"n1": [a_victim("a", 1)], "n2": [a_victim("b", 2)]}, "1")
    plugin = a_plugin()
    with mock.patch.object(kept_harm, "heappush") as push:
        for number in range(5):
            found = plugin.post_filter(failing(a_preemptor(name=f"pre{number}"), cluster))
            assert isinstance(found, Nomination) and names(found.victims) == ["a"]
            cluster.nodes.touches.note(cluster.nodes.row_book["n2"])
    assert push.call_count == 0
    (kept,) = plugin.harms.values()
    assert kept.is_kept


# ---- nodes that need no look


def test_nodes_that_cannot_be_better_than_the_best_are_not_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets protect a pod on each node but n1, which is the best; n0 could be better until it is tried."""
    pods = {
        "n0": [a_victim("a", 1, second=1, labels={"app": "web"})],
        "n1": [a_victim("b", 2, second=1)],
        "n2": [a_victim("c", 3, second=1, labels={"app": "web"})],
        "n3": [a_victim("d", 4, second=1, labels={"app": "web"})],
    }
    cluster = with_pods(pods, "1", a_budget("x", labelled("web"), 0))
    tried: list[int] = []
    harm_on = NodeDryRun.harm_on

    def noted(self: NodeDryRun, row: int) -> Any:
        tried.append(row)
        return harm_on(self, row)

    monkeypatch.setattr(NodeDryRun, "harm_on", noted)
    found = a_plugin().post_filter(failing(a_preemptor(), cluster))
    assert isinstance(found, Nomination) and found.node_name == "n1"
    assert tried == [0]


def test_one_sketch_serves_all_nodes_that_are_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = {f"n{i}": [a_victim(f"v{i}", labels={"app": "web"})] for i in range(3)}
    cluster = with_pods(pods, "1", a_budget("x", labelled("web"), 0))
    made: list[NodeTable] = []
    sketch = NodeTable.sketch

    def noted(self: NodeTable) -> NodeTable:
        made.append(sketch(self))
        return made[-1]

    monkeypatch.setattr(NodeTable, "sketch", noted)
    found = a_plugin().post_filter(failing(a_preemptor(), cluster))
    assert isinstance(found, Nomination) and found.node_name == "n2"
    assert len(made) == 1


@pytest.mark.parametrize("others", [0, 6], ids=["most nodes are curable", "few nodes are curable"])
def test_a_node_that_an_extender_refused_for_good_is_no_candidate_at_the_first_look(others: int) -> None:
    pods = {f"n{i}": [a_victim(f"v{i}", i, second=1)] for i in range(3)}
    cluster = with_pods(pods, "1")
    for number in range(others):
        cluster.put(a_node(f"tainted-{number}", cpu="1", taints=["x=y:NoSchedule"]))
    failure = failing(a_preemptor(), cluster)
    assert failure.verdicts is not None
    failure.verdicts.objections["n0"] = final("an extender says so")
    found = a_plugin().post_filter(failure)
    assert isinstance(found, Nomination) and found.node_name == "n1"


@pytest.mark.parametrize(("slots", "is_small_enough"), [(255, True), (256, True), (257, False)])
def test_sums_of_up_to_256_pods_are_exact(slots: int, is_small_enough: bool) -> None:
    ranks: Any = SimpleNamespace(priority=[0] * slots)
    assert is_small(ranks) is is_small_enough


# ---- what is kept, when something unusual happens


def asked(plugin: DefaultPreemption, cluster: Cluster, name: str = "preemptor") -> str:
    found = plugin.post_filter(failing(a_preemptor(name=name), cluster))
    assert isinstance(found, Nomination)
    return found.node_name


def test_a_pod_on_a_node_that_is_not_there_makes_no_candidate_of_its_row() -> None:
    cluster = with_pods({"n1": [a_victim("a", 1)], "n2": [a_victim("b", 2)]}, "1")
    plugin = a_plugin()
    assert [asked(plugin, cluster) for _ in range(2)] == ["n1", "n1"]
    cluster.nodes.place(a_victim("lost", 0), "ghost")
    assert asked(plugin, cluster) == "n1"


def test_nothing_is_kept_of_a_look_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = with_pods({"n1": [a_victim("a", 1)], "n2": [a_victim("b", 2)]}, "1")
    plugin = a_plugin()
    assert [asked(plugin, cluster) for _ in range(2)] == ["n1", "n1"]
    cluster.nodes.displace(a_victim("a", 1).id)
    cluster.nodes.place(a_victim("more", 3), "n1")

    def bad(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeptHarm, "harm_on", bad)
        with pytest.raises(KeyboardInterrupt):
            asked(plugin, cluster)
    assert asked(plugin, cluster) == "n2"


def test_most_of_what_is_kept_may_not_concern_a_pod() -> None:
    """More than 32 of the best nodes are refused: then all nodes are judged anew."""
    cluster = with_pods({f"n{i:02}": [a_victim(f"v{i}", i, second=1)] for i in range(40)}, "1")
    plugin = a_plugin()
    assert [asked(plugin, cluster) for _ in range(2)] == ["n00", "n00"]
    failure = failing(a_preemptor(), cluster)
    assert failure.verdicts is not None
    for number in range(35):
        failure.verdicts.objections[f"n{number:02}"] = final("an extender says so")
    found = plugin.post_filter(failure)
    assert isinstance(found, Nomination) and found.node_name == "n35"
