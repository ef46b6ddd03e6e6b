"""Explanations: reasons with amounts and rules, what a pod waits for, scores that tipped the balance; the JSON."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from written import Written, a_node, a_pod

from mooring.answers.explain.explain import explain_named, explain_pod, explain_workload
from mooring.answers.explain.explanation import PodExplanation
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.answers.trial.workload_book import pods_of_workload
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import load

SCHEMA = json.loads((Path(__file__).parent.parent.parent / "docs/schemas/explain.v1.json").read_text())
ZONE = "topology.kubernetes.io/zone"


def explained(*objects: Written, pod: str = "wanted", **options: Any) -> PodExplanation:
    loaded = load(list(objects))
    answer = explain_pod(Counterfactual(loaded), loaded.pod(pod), **options)
    jsonschema.validate(answer.to_dict(), SCHEMA)
    return answer


def details(answer: PodExplanation, plugin: str) -> list[str]:
    return next(list(reason.details) for reason in answer.reasons if reason.plugin == plugin)


# ---- pending pods


def test_nodes_are_grouped_by_reason_with_what_is_wanted_and_what_is_free() -> None:
    nodes = [a_node("a"), a_node("b"), a_node("c", taints=[{"key": "gpu", "effect": "NoSchedule"}])]
    answer = explained(*nodes, a_pod("other", "500m", node="a"), a_pod("wanted", "8"))
    assert [(reason.plugin, reason.message, reason.count) for reason in answer.reasons] == [
        ("NodeResourcesFit", "Insufficient cpu", 2),
        ("TaintToleration", "node(s) had untolerated taint(s)", 1),
    ]
    amount = answer.reasons[0].amounts[0]
    assert (amount.resource, amount.wants, amount.largest_free, amount.node) == ("cpu", 8000, 4000, "b")
    assert details(answer, "TaintToleration") == ["taint gpu:NoSchedule: 1 node"]
    assert "cpu: wants 8, but no node is large enough (largest 4)" in str(answer.tables()[0].rows[0])
    assert answer.message == "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."


def test_a_resource_that_no_node_has() -> None:
    wanted = a_pod("wanted")
    wanted["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"
    answer = explained(a_node("a"), wanted)
    assert answer.reasons[0].amounts[0].node == ""
    assert "none of these nodes has any" in str(answer.tables()[0].rows[0])


def test_selector_lines_are_named_with_how_many_nodes_match() -> None:
    terms = [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm", "riscv"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    nodes = [a_node("a", labels={"disk": "ssd"}), a_node("b", labels={"arch": "arm"})]
    answer = explained(*nodes, a_pod("wanted", nodeSelector={"disk": "ssd"}, affinity=affinity))
    assert details(answer, "NodeAffinity") == [
        "nodeSelector disk=ssd: matches 1 node",
        "required node affinity arch In [arm, riscv]: matches 1 node",
    ]


def test_other_pods_in_the_way_are_named() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    keeps_away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = explained(a_node("a"), a_pod("db", node="a", affinity=keeps_away), a_pod("wanted", labels={"app": "web"}))
    assert details(answer, "InterPodAffinity") == ["pods whose anti-affinity keeps it away: default/db"]
    answer = explained(a_node("a"), a_pod("web", node="a", labels={"app": "web"}), a_pod("wanted", affinity=keeps_away))
    assert details(answer, "InterPodAffinity") == ["pod anti-affinity over kubernetes.io/hostname: 1 pod selected"]


def test_domains_of_a_spread_are_counted() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web = [a_pod(f"web-{i}", "100m", node="a", labels={"app": "web"}) for i in range(2)]
    wanted = a_pod("wanted", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    answer = explained(a_node("a", zone="x"), a_node("b", "500m", zone="y"), *web, wanted)
    assert details(answer, "PodTopologySpread") == [f"spread over {ZONE} (maxSkew 1): y has 0 matching pods, x has 2"]


def test_ports_cordons_and_full_nodes() -> None:
    taken, wanted = a_pod("other", node="a"), a_pod("wanted")
    for pod in (taken, wanted):
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
    nodes = [a_node("a"), a_node("b", cordoned=True), a_node("c", pods="0")]
    answer = explained(*nodes, taken, wanted)
    assert details(answer, "NodePorts") == ["hostPort 8080/TCP on 0.0.0.0: in use on 1 node"]
    assert details(answer, "NodeUnschedulable") == [
        "spec.unschedulable is set: kubectl uncordon makes a node schedulable"
    ]
    assert details(answer, "NodeResourcesFit") == ["none of these nodes may run any pod (pods: 0)"]


def test_what_a_pod_waits_for() -> None:
    gated = explained(a_node("a"), a_pod("wanted", schedulingGates=[{"name": "quota"}]))
    assert list(gated.waits_for) == ["SchedulingGates: waiting for scheduling gates: [quota]"]
    full = explained(a_node("a"), a_pod("wanted", "8"))
    assert "Node/Add" in full.waits_for[0] and "AssignedPod/Delete" in full.waits_for[0]
    free = explained(a_node("a"), a_pod("wanted"))
    assert free.node == "a" and free.waits_for == ["its next attempt: nothing keeps it from a node any more"]


def test_a_pod_of_another_scheduler_and_a_cluster_without_nodes() -> None:
    foreign = a_pod("wanted")
    foreign["spec"]["schedulerName"] = "other"
    assert explained(a_node("a"), foreign).message == 'no profile has the scheduler name "other"'
    assert explained(a_pod("wanted")).message == "no nodes available to schedule pods"


def test_preemption_names_its_victims() -> None:
    answer = explained(a_node("a"), a_pod("low", "3", node="a"), a_pod("wanted", "3", priority=5))
    assert answer.victims == ["default/low"]
    assert "Preemption would evict default/low for it" in answer.summary()


def test_history_comes_from_the_object() -> None:
    wanted = a_pod("wanted", "8")
    wanted["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    wanted["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "full",
            "lastTransitionTime": "2026-01-01T00:00:09Z",
        }
    ]
    answer = explained(a_node("a"), wanted)
    assert [(event.at, event.text) for event in answer.history] == [
        ("2026-01-01T00:00:00Z", "created"),
        ("2026-01-01T00:00:09Z", "PodScheduled is False: full"),
    ]


# ---- placed pods


def test_scores_and_what_tipped_the_balance() -> None:
    answer = explained(a_node("a"), a_node("b"), a_pod("other", "2", node="b"), a_pod("wanted", node="a"))
    assert (answer.is_placed, answer.node, answer.would_go_to, answer.feasible_count) == (True, "a", "a", 2)
    first, second = answer.scores
    assert (first.name, second.name) == ("a", "b") and first.total > second.total
    assert sum(difference for _, difference in answer.tipped) == first.total - second.total
    assert answer.summary()[1].startswith(f"It is {first.total - second.total} ahead of b")


def test_a_pod_that_would_go_elsewhere_now_or_nowhere() -> None:
    answer = explained(a_node("a"), a_node("b"), a_pod("other", "2", node="b"), a_pod("wanted", node="b"))
    assert answer.would_go_to == "a"
    assert (
        answer.summary()[0] == "default/wanted is on b, and would now go to a: the best of 2 nodes that take it, of 2"
    )
    answer = explained(a_node("a", "1"), a_pod("wanted", "2", node="a"))
    assert answer.would_go_to == "" and answer.reasons[0].message == "Insufficient cpu"


# ---- workloads


def test_the_pods_of_a_deployment_by_reason() -> None:
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
            ],
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}},
        },
    }
    pods = [a_pod(f"web-1-{i}", "3", labels={"app": "web"}, owner="ReplicaSet/web-1") for i in range(2)]
    placed = a_pod("web-1-x", "3", node="a", labels={"app": "web"}, owner="ReplicaSet/web-1")
    loaded = load([a_node("a"), replica_set, placed, *pods])
    found = pods_of_workload(loaded, "Deployment", "web")
    answer = explain_workload(loaded, found, "Deployment web")
    jsonschema.validate(answer.to_dict(), SCHEMA)
    assert [*map(tuple, answer.placed)] == [("default/web-1-x", "a")]
    assert [(each.pod, list(each.others)) for each in answer.pending] == [("default/web-1-0", ["default/web-1-1"])]
    assert answer.summary()[0] == "Deployment web: 1 pod on nodes, 2 pending"


def test_names_that_are_not_there_come_with_similar_ones() -> None:
    loaded = load([a_node("a"), a_pod("cart-0")])
    with pytest.raises(NoSuchPod, match="no pod 'cart-O' among 1 pods; did you mean default/cart-0\\?"):
        explain_named(loaded, "cart-O")
    with pytest.raises(NoSuchPod, match="no pod of Deployment 'web' among 1 pods"):
        pods_of_workload(loaded, "Deployment", "web")


def test_a_node_with_the_same_score_is_tied_and_the_pod_would_go_there_again() -> None:
    answer = explained(a_node("a"), a_node("b"), a_node("c"), a_node("tiny", "1"), a_pod("wanted", node="b"))
    assert (answer.node, answer.would_go_to, answer.tied) == ("b", "b", ["a", "c"])
    assert answer.summary() == [
        "default/wanted is on b, and would go there again: one of the 3 best of 4 nodes that take it, of 4",
        f"It is tied with a, c: the same score, {answer.scores[0].total}; ties go to the lowest name here",
    ]
    assert answer.to_dict()["tied"] == ["a", "c"]
    lower = explained(a_node("a"), a_node("b"), a_node("tiny", "1"), a_pod("wanted", node="tiny"))
    assert (lower.would_go_to, lower.tied) == ("a", ()) and "and would now go to a" in lower.summary()[0]


def details_of(answer: PodExplanation) -> list[str]:
    return [str(row[3]) for row in answer.tables()[0].rows]


def test_a_request_that_no_node_can_ever_hold_is_said_so_that_nobody_moves_pods() -> None:
    """For every kind of resource; the free amount is told only where a pod that leaves can help."""
    nodes = [a_node("a", "7910m"), a_node("b", "7910m")]
    for node in nodes:
        node["status"]["allocatable"] |= {"ephemeral-storage": "10Gi", "nvidia.com/gpu": "4"}
    busy = a_pod("busy", "6", node="a")
    for resource, wants, words in (
        ("cpu", "8", "cpu: wants 8, but no node is large enough (largest 7910m)"),
        ("memory", "9Gi", "memory: wants 9Gi, but no node is large enough (largest 8Gi)"),
        ("ephemeral-storage", "20Gi", "ephemeral-storage: wants 20Gi, but no node is large enough (largest 10Gi)"),
        ("nvidia.com/gpu", "8", "nvidia.com/gpu: wants 8, but no node is large enough (largest 4)"),
    ):
        wanted = a_pod("wanted", "0", "0")
        wanted["spec"]["containers"][0]["resources"] = {"requests": {resource: wants}, "limits": {resource: wants}}
        answer = explained(*nodes, busy, wanted)
        assert details_of(answer) == [words]
        amount = answer.to_dict()["reasons"][0]["amounts"][0]
        assert amount["fitsNoNode"] and f"{resource}: {amount['text']}" == words
        assert not {"move", "remove", "raise-priority", "add-node"} & {cure.kind for cure in answer.cures}


def test_nodes_that_are_large_enough_are_told_apart_from_small_ones() -> None:
    answer = explained(
        a_node("large", "8"), a_node("small", "2"), a_pod("busy", "6", node="large"), a_pod("wanted", "4")
    )
    assert sorted(details_of(answer)) == [
        "cpu: wants 4, but none of these nodes is large enough (largest 2)",
        "cpu: wants 4, largest free 2 on large",
    ]


def test_requests_that_no_node_can_hold_together_are_said() -> None:
    answer = explained(a_node("cpus", "8", "4Gi"), a_node("memory", "2", "64Gi"), a_pod("wanted", "4", "8Gi"))
    assert all(text.endswith("; no node is large enough for cpu and memory together") for text in details_of(answer))
    alone = explained(a_node("a", "2", "4Gi"), a_pod("wanted", "4", "2Gi"))
    assert "together" not in details_of(alone)[0]


def test_a_node_that_may_run_no_pods_is_said() -> None:
    answer = explained(a_node("a", pods="0"), a_pod("wanted"))
    assert details_of(answer) == ["no node may run any pod (pods: 0)"]
