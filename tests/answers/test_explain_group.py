"""A pod group is explained and cured as one: how many of its pods fit, what stops the rest, and changes that place all."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validate
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

import mooring
from how_many import examples
from mooring.answers.explain.cure import Cure
from mooring.answers.explain.cure_search import DECISIONS
from mooring.answers.explain.explain import explain_named, explain_pod
from mooring.answers.explain.explanation import GroupExplanation, PodExplanation
from mooring.answers.trial.counterfactual import Counterfactual, edited
from mooring.answers.trial.group_trials import GroupTrials, asked_group
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.kit.clock import NS_PER_S
from mooring.sim.simulation import Simulation

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/explain.v1.json").read_text())
UNTIL_NS = 30 * NS_PER_S
"""Gangs that do not fit are attempted again and again."""
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


def loaded(*objects: Written) -> LoadedCluster:
    return load(list(objects), feature_gates=GROUP_GATES)


def explained(*objects: Written, name: str = "podgroup/gang", cures: bool = True) -> GroupExplanation:
    found = explain_named(loaded(*objects), name, cures=cures)
    assert isinstance(found, GroupExplanation)
    validate(found.to_dict(), SCHEMA)
    return found


def one(found: GroupExplanation, kind: str) -> Cure:
    return next(cure for cure in found.cures if cure.kind == kind)


def placed_after(cluster: LoadedCluster, cure: Cure, key: str = "default/gang") -> bool:
    """Whether a simulation from the edited objects places the group."""
    objects = edited(cluster.objects, cure.edits)
    simulation = Simulation(objects, cluster.config, cluster.registry, cluster.gates)
    simulation.run(until_ns=UNTIL_NS)
    group = asked_group(replace(cluster, objects=simulation.objects()), key)
    return group.is_placed


# ---- what is said


def test_a_gang_says_how_many_fit_and_what_stops_the_rest_with_amounts() -> None:
    found = explained(a_node("n1", "4"), a_node("n2", "3"), a_pod_group(min_count=4), *members(4, "2"))
    assert not found.is_settled
    assert found.summary() == [
        "default/gang (gang of at least 4) is pending: 3 of 4 pods fit; 0/2 nodes are available: 2 Insufficient cpu."
    ]
    assert found.fit_count == 3 and [each.pods for each in found.rejected] == [["default/gang-3"]]
    (reason,) = found.rejected[0].reasons
    (amount,) = reason.amounts
    assert (amount.resource, amount.wants, amount.largest_free, amount.node) == ("cpu", 2000, 1000, "n2")


def test_a_member_is_explained_with_its_group() -> None:
    objects = (a_node("n1", "3"), a_pod_group(min_count=4), *members(4, "1"))
    found = explained(*objects, name="gang-0", cures=False)
    assert found.summary()[0] == "default/gang-0 is scheduled with its group default/gang"
    assert found.fit_count == 3


def test_a_gang_without_enough_members_says_how_many_came() -> None:
    found = explained(a_node("n1", "8"), a_pod_group(min_count=8), *members(5, "1"))
    assert found.summary() == [
        "default/gang (gang of at least 8) is pending: 5 of 8 pods exist",
        "It waits for 3 more pods: 5 of 8 came",
    ]
    assert [(cure.kind, cure.node) for cure in found.cures] == [("lower-min-count", "n1 (5)")]


def test_a_group_that_does_not_exist_is_waited_for() -> None:
    found = explained(a_node("n1", "8"), *members(2))
    assert found.waits_for == ["PodGroup default/gang, which does not exist"]
    assert found.cures == ()


def test_a_gang_that_fits_says_where_its_pods_go() -> None:
    found = explained(a_node("n1", "2"), a_node("n2", "2"), a_pod_group(min_count=4), *members(4))
    assert found.is_settled and found.cures == ()
    assert found.summary()[0].endswith("is pending, but would go to n1 (2), n2 (2) now")


def test_a_gang_that_runs_is_settled() -> None:
    running = [a_pod(f"g{i}", node="n1", schedulingGroup={"podGroupName": "gang"}) for i in range(2)]
    found = explained(a_node("n1", "8"), a_pod_group(min_count=2), *running)
    assert found.is_settled
    assert found.summary() == ["default/gang (gang of at least 2) is placed: 2 pods on nodes"]


def test_a_running_gang_counts_the_members_that_run() -> None:
    running = [a_pod(f"g{i}", node="n1", schedulingGroup={"podGroupName": "gang"}) for i in range(2)]
    found = explained(a_node("n1", "3"), a_pod_group(min_count=4), *running, *members(2), cures=False)
    assert (found.fit_count, found.member_count, found.is_settled) == (3, 4, False)


def test_pods_of_several_kinds_are_told_apart() -> None:
    small, large = members(2, "1"), [{**pod} for pod in members(2, "9", group="gang")]
    for i, pod in enumerate(large):
        pod["metadata"] = {**pod["metadata"], "name": f"big-{i}", "uid": f"uid-big-{i}"}
    found = explained(a_node("n1", "8"), a_pod_group(min_count=4), *small, *large, cures=False)
    assert [each.pods for each in found.rejected] == [["default/big-0", "default/big-1"]]
    assert found.fit_count == 2


def test_preemption_that_would_help_is_told() -> None:
    low = a_pod("low", "2", node="n1", priority=0)
    found = explained(
        a_node("n1", "2"), low, a_pod_group(min_count=2, priority=5), *members(2, "1", priority=5), cures=False
    )
    assert found.victims == ["default/low"]
    assert "Preemption would evict default/low for it" in found.summary()


def test_a_basic_group_is_pending_while_one_of_its_pods_is() -> None:
    found = explained(a_node("n1", "3"), a_pod_group(), *members(4), cures=False)
    assert not found.is_settled and not found.is_gang


def test_groups_that_are_not_there_come_with_the_nearest_names() -> None:
    with pytest.raises(NoSuchPod, match="no PodGroup 'gagn' among 1 groups; did you mean default/gang"):
        explained(a_node("n1"), a_pod_group(min_count=1), name="podgroup/gagn")


def test_without_the_gate_the_answer_names_it_and_pods_are_explained_alone() -> None:
    cluster = load([a_node("n1", "3"), a_pod_group(min_count=4), *members(4)])
    with pytest.raises(NoSuchPod, match="GenericWorkload is off"):
        explain_named(cluster, "podgroup/gang")
    found = explain_named(cluster, "gang-0")
    assert isinstance(found, PodExplanation) and found.node == "n1"


def test_the_python_call_takes_gates_and_refuses_unknown_ones() -> None:
    objects = [a_node("n1", "3"), a_pod_group(min_count=4), *members(4)]
    answer = mooring.load(objects, feature_gates=GROUP_GATES).explain("podgroup/gang", cures=False)
    assert isinstance(answer, GroupExplanation)
    assert "3 of 4 pods fit" in answer.to_html()
    with pytest.raises(mooring.InputError, match="unrecognized feature gate: Gangs"):
        mooring.load(objects, feature_gates={"Gangs": True})


def test_one_pod_alone_knows_how_many_members_came() -> None:
    cluster = loaded(a_node("n1", "8"), a_pod_group(min_count=2), *members(2))
    found = explain_pod(Counterfactual(cluster), cluster.pod("gang-0"))
    assert found.node == "n1"


# ---- cures


def test_cures_are_sized_for_the_whole_gang() -> None:
    objects = (a_node("n1", "4"), a_node("n2", "4", cordoned=True), a_pod_group(min_count=4), *members(4, "2"))
    found = explained(*objects)
    assert [(cure.kind, cure.change, cure.node) for cure in found.cures] == [
        ("uncordon", "uncordon node n2", "n1 (2), n2 (2)"),
        ("lower-request", "lower the cpu request of container main from 2 to 1", "n1 (4)"),
        ("lower-min-count", "create the PodGroup again with minCount 2 instead of 4", "n1 (2)"),
        ("add-node", "add 1 node like n1 (2 like it)", "n1 (2), n1-copy-1 (2)"),
    ]


def test_as_many_nodes_are_added_as_the_gang_needs() -> None:
    found = explained(a_node("n1", "4"), a_pod_group(min_count=9), *members(9, "3", memory="1Gi"))
    assert one(found, "add-node").change == "add 8 nodes like n1 (the only one of its kind)"


def test_a_higher_priority_names_the_pods_that_it_evicts() -> None:
    low = [a_pod(f"low{i}", "2", node=f"n{i}", priority=7) for i in range(3)]
    nodes = [a_node(f"n{i}", "2") for i in range(3)]
    found = explained(*nodes, *low, a_pod_group(min_count=2), *members(2, "2"))
    cure = one(found, "raise-priority")
    assert cure.change == "raise the priority of its pods from 0 to 8"
    assert len(cure.victims) == 2


def test_no_more_pods_are_removed_than_the_gang_needs() -> None:
    low = [a_pod(f"low{i}", "2", node=f"n{i}") for i in range(5)]
    nodes = [a_node(f"n{i}", "2") for i in range(5)]
    found = explained(*nodes, *low, a_pod_group(min_count=3), *members(3, "2"))
    assert one(found, "remove").change == "remove default/low0, default/low1, default/low2"


def test_all_members_get_the_toleration() -> None:
    nodes = [a_node(f"n{i}", "2", taints=[TAINT]) for i in range(2)]
    found = explained(*nodes, a_pod_group(min_count=2), *members(2, "2"))
    cure = one(found, "tolerate")
    assert (cure.change, len(cure.edits)) == ("tolerate the taint team=ml:NoSchedule", 2)


def test_a_gang_that_fits_into_no_domain_may_be_spread() -> None:
    gates = {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True}
    group = a_pod_group(min_count=4)
    group["spec"]["schedulingConstraints"] = {"topology": [{"key": "topology.kubernetes.io/zone"}]}
    nodes = [a_node("n1", "4", zone="a"), a_node("n2", "6", zone="b")]
    found = explain_named(load([*nodes, group, *members(4, "2")], feature_gates=gates), "podgroup/gang")
    assert isinstance(found, GroupExplanation)
    assert (found.fit_count, {node for _, node in found.nodes}) == (3, {"n2"})
    assert "3 of 4 pods fit" in found.summary()[0]
    cure = one(found, "drop-topology")
    change = "create the PodGroup again without the topology topology.kubernetes.io/zone"
    assert (cure.change, cure.node) == (change, "n1 (2), n2 (2)")
    assert one(found, "lower-min-count").node == "n2 (3)"


def test_a_search_says_that_it_gave_up() -> None:
    cluster = loaded(*(a_node(f"n{i}", "1") for i in range(4)), a_pod_group(min_count=8), *members(8, "3"))
    found = explain_named(cluster, "podgroup/gang", decisions=10)
    assert isinstance(found, GroupExplanation) and found.gave_up


def test_trials_leave_the_cluster_as_it_was() -> None:
    low = [a_pod(f"low{i}", "2", node=f"n{i}", priority=1) for i in range(2)]
    cluster = loaded(*(a_node(f"n{i}", "2") for i in range(2)), *low, a_pod_group(min_count=2), *members(2, "2"))
    trials = GroupTrials(cluster, asked_group(cluster, "default/gang"))
    before = trials.attempt()
    answer = explain_named(cluster, "podgroup/gang")
    assert isinstance(answer, GroupExplanation) and answer.cures
    for cure in answer.cures:
        others = [edit for edit in cure.edits if type(edit).__name__ != "ChangePod"]
        trials.attempt(others)
    assert trials.attempt() == before
    assert {pod.key: pod.spec.node_name for pod in trials.cluster.nodes.pods()} == {
        "default/low0": "n0",
        "default/low1": "n1",
    }


# ---- properties


_CPUS = st.sampled_from(["500m", "1", "2", "3"])


@st.composite
def gangs(draw: st.DrawFn) -> list[Written]:
    """Nodes with pods on them, and a gang whose pods may be of two kinds."""
    count = draw(st.integers(1, 4))
    objects = [
        a_node(
            f"n{i}",
            draw(st.sampled_from(["1", "2", "4"])),
            taints=draw(st.sampled_from([None, None, [TAINT]])),
            cordoned=draw(st.integers(0, 4)) == 0,
            pods=draw(st.sampled_from(["2", "110"])),
        )
        for i in range(count)
    ]
    for i in range(draw(st.integers(0, 5))):
        node, priority = f"n{draw(st.integers(0, count - 1))}", draw(st.integers(0, 3))
        objects.append(a_pod(f"p{i}", draw(_CPUS), "64Mi", node=node, priority=priority, labels={"app": "p"}))
    size = draw(st.integers(1, 5))
    rules: dict[str, Any] = {}
    if draw(st.booleans()):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "gang"}}}
        rules["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cpus = [draw(_CPUS), draw(_CPUS)]
    pods = members(size, labels={"app": "gang"}, priority=draw(st.integers(0, 2)), memory="64Mi", **rules)
    for i, pod in enumerate(pods):
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpus[i % 2], "memory": "64Mi"}}
    return [*objects, a_pod_group(min_count=draw(st.integers(1, size))), *pods]


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(gangs())
def test_every_cure_places_the_gang_when_its_edits_are_made(objects: list[Written]) -> None:
    cluster = loaded(*objects)
    found = explain_named(cluster, "podgroup/gang", decisions=DECISIONS)
    assert isinstance(found, GroupExplanation)
    for cure in found.cures:
        assert placed_after(cluster, cure), cure


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(gangs())
def test_what_is_said_about_the_gang_is_what_a_simulation_does(objects: list[Written]) -> None:
    cluster = loaded(*objects)
    found = explain_named(cluster, "podgroup/gang", cures=False)
    assert isinstance(found, GroupExplanation)
    simulation = Simulation(cluster.objects, cluster.config, cluster.registry, cluster.gates)
    report = simulation.run(until_ns=UNTIL_NS)
    assert (found.is_settled or bool(found.victims)) == bool(report.placed)
