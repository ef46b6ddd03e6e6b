"""What changes do to a cluster, one kind of change after another."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from build import a_node
from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change, what_if
from mooring.inputs.input_errors import InputError
from what_if_building import (
    ZONE,
    a_budget,
    a_cluster,
    a_daemon_pods,
    a_daemon_set,
    a_deployment,
    a_running_pod,
    a_stateful_set,
    a_zone_node,
    owned_by,
)

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/what-if.v1.json").read_text())
VALIDATOR: Any = import_module("jsonschema").Draft202012Validator  # it comes without types
NODES = [a_zone_node("a-1", "a"), a_zone_node("a-2", "a"), a_zone_node("b-1", "b"), a_zone_node("b-2", "b")]
ZONE_A = ("drain", f"{ZONE}=a")


def ask(cluster: Any, *changes: Change) -> WhatIf:
    """The answer, which must have the form that the schema describes."""
    answer = what_if(cluster, changes)
    VALIDATOR(SCHEMA).validate(answer.to_dict())
    json.dumps(answer.to_dict())
    return answer


def moves(answer: WhatIf) -> dict[str, tuple[str, str]]:
    return {each.key.removeprefix("default/"): (each.node, each.new_node) for each in answer.moved}


def names(entries: Any) -> list[str]:
    return [each.key.removeprefix("default/") for each in entries]


def rejected(*changes: Change) -> str:
    with pytest.raises(InputError) as caught:
        ask(a_cluster(NODES, a_deployment("web", ["a-1"])), *changes)
    return str(caught.value)


# ---- drain


def test_the_pods_of_a_drained_node_move_and_others_stay() -> None:
    answer = ask(a_cluster(NODES[1:], a_deployment("web", ["a-2", "b-1", "b-2"], cpu="2")), ("drain", "a-2"))
    assert moves(answer).keys() == {"web-0"} and moves(answer)["web-0"][1] in ("b-1", "b-2")
    assert answer.fits and not (answer.pending or answer.placed or answer.preempted or answer.gone or answer.blocked)
    assert answer.summary()[:2] == ["Everything fits.", "Pods: 1 moved."]
    assert answer.changes == ["drain a-2"]


def test_pods_that_fit_nowhere_else_are_pending_with_the_reason() -> None:
    answer = ask(a_cluster(NODES, a_deployment("web", ["a-1", "b-1", "b-2"], cpu="3")), ZONE_A)
    (pending,) = answer.pending
    assert (pending.key, pending.node, pending.was_pending, pending.is_new) == ("default/web-0", "a-1", False, False)
    assert pending.message.startswith("0/4 nodes are available: 2 Insufficient cpu, 2 node(s) were unschedulable.")
    assert not answer.fits
    assert answer.summary()[0] == "Not everything fits: 1 pod becomes pending."


def test_daemon_pods_and_mirror_pods_stay_on_a_drained_node() -> None:
    static = a_running_pod("etcd", "a-1", annotations={"kubernetes.io/config.mirror": "x"})
    owned = a_running_pod("proxy", "a-1", owner=owned_by("Node", "a-1"))
    answer = ask(a_cluster(NODES, a_daemon_set("agent", ["a-1", "a-2", "b-1", "b-2"]), static, owned), ("drain", "a-1"))
    assert answer.fits and not answer.moved and not answer.gone


def test_a_pod_without_a_controller_is_lost_and_the_answer_says_what_kubectl_needs() -> None:
    answer = ask(a_cluster(NODES, a_running_pod("bare", "a-1")), ("drain", "a-1"))
    (lost,) = answer.gone
    assert (lost.key, lost.node, lost.is_wanted) == ("default/bare", "a-1", False)
    assert lost.reason == "no controller replaces it; `kubectl drain` deletes it only with --force"
    assert not answer.fits
    assert answer.summary()[0] == "Not everything fits: 1 pod without a controller is lost."


def test_a_pod_that_is_being_deleted_is_not_replaced() -> None:
    ending = a_running_pod("web-x", "a-1", owner=owned_by("ReplicaSet", "web-rs"))
    ending["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    answer = ask(a_cluster(NODES, ending), ("drain", "a-1"))
    assert names(answer.gone) == ["web-x"] and answer.gone[0].is_wanted and answer.fits


def test_a_drain_waits_for_replacements_where_the_budget_allows_one_at_a_time() -> None:
    web = a_deployment("web", ["a-1", "a-1", "a-2", "b-1"])
    answer = ask(a_cluster(NODES, web, a_budget("one", "web", maxUnavailable=1)), ZONE_A)
    assert len(answer.moved) == 3 and answer.fits


def test_a_budget_that_allows_nothing_blocks_the_drain() -> None:
    web = a_deployment("web", ["a-1", "b-1"])
    answer = ask(a_cluster(NODES, web, a_budget("strict", "web", minAvailable=2)), ZONE_A)
    (blocked,) = answer.blocked
    assert (blocked.key, blocked.node, blocked.budget) == ("default/web-0", "a-1", "strict")
    assert blocked.message == "needs 2 healthy pods and has 2"
    assert not answer.fits and not answer.moved
    assert answer.summary()[0] == "Not everything fits: the eviction of 1 pod is blocked by strict."


def test_a_drain_stops_when_replacements_find_no_room() -> None:
    """Two of four may be unavailable; with two pending ones the budget lets no other go."""
    full = a_deployment("full", ["b-1", "b-2"], cpu="4")
    web = a_deployment("web", ["a-1", "a-1", "a-2", "a-2"], cpu="1")
    answer = ask(a_cluster(NODES, full, web, a_budget("half", "web", maxUnavailable="50%")), ZONE_A)
    assert len(answer.pending) == 2 and len(answer.blocked) == 2
    assert {each.message for each in answer.blocked} == {"needs 2 healthy pods and has 2"}
    counts = {"moved": 0, "pending": 2, "placed": 0, "preempted": 0, "blocked": 2}
    (workload,) = answer.to_dict()["workloads"]
    assert workload == {"kind": "Deployment", "namespace": "default", "name": "web", **counts}


def test_two_budgets_for_a_pod_block_its_eviction() -> None:
    budgets = [a_budget("one", "web", maxUnavailable=1), a_budget("two", "web", maxUnavailable=1)]
    answer = ask(a_cluster(NODES, a_deployment("web", ["a-1", "b-1"]), budgets), ZONE_A)
    (blocked,) = answer.blocked
    assert blocked.budget == "one, two" and "more than one PodDisruptionBudget" in blocked.message


def test_a_pod_that_is_not_ready_goes_where_the_budget_is_met_without_it() -> None:
    web = a_deployment("web", ["b-1", "b-2"])
    broken = a_running_pod(
        "broken", "a-1", owner=owned_by("ReplicaSet", "web-rs"), is_ready=False, labels={"app": "web"}
    )
    answer = ask(a_cluster(NODES, web, broken, a_budget("two", "web", minAvailable=2)), ZONE_A)
    assert names(answer.moved) == ["broken"] and not answer.blocked


def test_pods_that_are_not_ready_go_first_so_that_their_replacements_free_the_others() -> None:
    broken = a_running_pod(
        "web-z", "a-1", owner=owned_by("ReplicaSet", "web-rs"), is_ready=False, labels={"app": "web"}
    )
    web = a_deployment("web", ["a-1", "b-1"])
    answer = ask(a_cluster(NODES, web, broken, a_budget("two", "web", minAvailable=2)), ("drain", "a-1"))
    assert names(answer.moved) == ["web-0", "web-z"] and answer.fits


def test_a_pod_that_is_not_ready_stays_where_the_budget_is_broken_unless_the_policy_frees_it() -> None:
    web = a_deployment("web", ["b-1"])
    broken = a_running_pod(
        "broken", "a-1", owner=owned_by("ReplicaSet", "web-rs"), is_ready=False, labels={"app": "web"}
    )
    strict = {"minAvailable": 2}
    assert names(ask(a_cluster(NODES, web, broken, a_budget("two", "web", **strict)), ZONE_A).blocked) == ["broken"]
    free = a_budget("two", "web", **strict, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert not ask(a_cluster(NODES, web, broken, free), ZONE_A).blocked


def test_a_pod_that_tolerates_everything_may_come_back_and_is_drained_once() -> None:
    web = a_deployment("web", ["a-1"], tolerations=[{"operator": "Exists"}], nodeSelector={ZONE: "a"})
    assert ask(a_cluster(NODES, web), ZONE_A).fits


def test_a_local_volume_keeps_its_pod_from_other_nodes() -> None:
    line = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a-1"]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/disk"},
            "claimRef": {"namespace": "default", "name": "data", "uid": "default/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk"},
        "status": {"phase": "Bound"},
    }
    mounts = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = a_running_pod("db-0", "a-1", owner=owned_by("StatefulSet", "db"), volumes=mounts)
    answer = ask(a_cluster(NODES, volume, claim, pod), ("drain", "a-1"))
    assert names(answer.pending) == ["db-0"]
    assert "3 node(s) didn't match PersistentVolume's node affinity" in answer.pending[0].message


# ---- nodes


def test_removed_nodes_lose_their_pods_at_once_whatever_budgets_say() -> None:
    web = a_deployment("web", ["a-1", "b-1"])
    agents = a_daemon_set("agent", ["a-1", "a-2", "b-1", "b-2"])
    answer = ask(a_cluster(NODES, web, agents, a_budget("all", "web", minAvailable=2)), ("remove-nodes", f"{ZONE}=a"))
    assert names(answer.moved) == ["web-0"] and not answer.blocked and answer.fits
    assert names(answer.gone) == ["agent-0", "agent-1"] and all(each.is_wanted for each in answer.gone)
    assert (answer.before.total.nodes, answer.after.total.nodes) == (4, 2)


def test_a_cordoned_node_keeps_its_pods_and_takes_no_others() -> None:
    cluster = a_cluster([NODES[0], NODES[2]], a_deployment("web", ["a-1"], cpu="4"))
    cordoned = ask(cluster, ("cordon", "b-1"), ("scale", "Deployment/web=2"))
    assert names(cordoned.pending) == ["web-1"] and not cordoned.moved
    again = ask(cluster, ("cordon", "b-1"), ("scale", "Deployment/web=2"), ("uncordon", "b-1"))
    assert again.fits and [(each.key, each.node) for each in again.placed] == [("default/web-1", "b-1")]


def test_new_nodes_like_one_of_the_cluster_have_its_labels_taints_and_daemons() -> None:
    tainted = a_zone_node("a-1", "a", pool="gpu")
    tainted["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "gpu", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ],
    }
    agents = a_daemon_set("agent", ["a-1"], tolerations=[{"operator": "Exists"}])
    strangers = a_daemon_pods("stranger", ["a-1"], tolerations=[{"operator": "Exists"}])
    toleration = [{"key": "gpu", "operator": "Exists"}]
    waiting = a_running_pod("job", cpu="3", tolerations=toleration, nodeSelector={"pool": "gpu"})
    plain = a_running_pod("plain", cpu="3")
    answer = ask(a_cluster(tainted, agents, strangers, waiting, plain), ("add-nodes", "2=a-1"))
    placed = {each.key.removeprefix("default/"): (each.node, each.is_new) for each in answer.placed}
    assert placed["agent-a-1-new-1"] == ("a-1-new-1", True) and placed["agent-a-1-new-2"] == ("a-1-new-2", True)
    assert placed["stranger-a-1-new-1"] == ("a-1-new-1", True) and placed["stranger-a-1-new-2"] == ("a-1-new-2", True)
    assert placed["job"] in (("a-1-new-1", False), ("a-1-new-2", False)) and len(placed) == 5
    assert names(answer.pending) == ["plain"]
    assert answer.before.zones["a"].cordoned == 1 and answer.after.zones["a"].nodes == 2


def test_new_nodes_like_a_manifest(tmp_path: Path) -> None:
    file = tmp_path / "big.json"
    file.write_text(
        msgspec.json.encode({"apiVersion": "v1", "kind": "Node", **_plain(a_node("big", cpu="64"))}).decode()
    )
    waiting = a_running_pod("wide", cpu="32")
    for template in (f"1={file}", (1, {"apiVersion": "v1", "kind": "Node", **_plain(a_node("big", cpu="64"))})):
        answer = ask(a_cluster(NODES, waiting), ("add-nodes", template))
        assert [(each.key, each.node, each.is_new) for each in answer.placed] == [("default/wide", "big-1", False)]
        assert answer.fits


def _plain(item: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(item)
    return plain


def test_a_taint_keeps_new_pods_away_and_no_execute_drives_pods_out() -> None:
    cluster = a_cluster([NODES[0], NODES[2]], a_deployment("web", ["a-1"], cpu="3"))
    kept = ask(cluster, ("taint", "a-1=dedicated=db:NoSchedule"), ("scale", "Deployment/web=2"))
    assert kept.fits and not kept.moved and [each.node for each in kept.placed] == ["b-1"]
    driven = ask(cluster, ("taint", f"{ZONE}=a=dedicated=db:NoExecute"))
    assert moves(driven) == {"web-0": ("a-1", "b-1")}


def test_a_taint_without_a_value_on_selected_nodes_and_its_removal() -> None:
    cluster = a_cluster(NODES[:2], a_deployment("web", ["a-1"]))
    answer = ask(cluster, ("taint", f"{ZONE}=a=down:NoSchedule"), ("scale", "Deployment/web=2"))
    assert "2 node(s) had untolerated taint" in answer.pending[0].message
    tainted = a_zone_node("a-1", "a")
    tainted["spec"] = {"taints": [{"key": "down", "value": "yes", "effect": "NoSchedule"}]}
    for removal in ("a-1=down:NoSchedule-", f"{ZONE}=a=down:NoSchedule-", "a-1=down-"):
        answer = ask(a_cluster(tainted, a_running_pod("waiting")), ("taint", removal))
        assert [each.node for each in answer.placed] == ["a-1"], removal


def test_a_label_lets_pods_in_and_brings_the_daemons_that_select_it() -> None:
    waiting = a_running_pod("fast", nodeSelector={"disk": "ssd"})
    agents = a_daemon_set("ssd-agent", [], nodeSelector={"disk": "ssd"})
    answer = ask(a_cluster(NODES[:2], waiting, agents), ("label", "a-2=disk=ssd"))
    assert {each.key: each.node for each in answer.placed} == {
        "default/fast": "a-2",
        "default/ssd-agent-a-2": "a-2",
    }
    undone = ask(a_cluster(NODES[:2], waiting, agents), ("label", f"{ZONE}=a=disk=ssd"), ("label", f"{ZONE}=a=disk-"))
    assert names(undone.gone) == ["ssd-agent-a-1", "ssd-agent-a-2"]


# ---- workloads and objects


def test_a_larger_scale_brings_new_pods_and_a_smaller_one_deletes_some() -> None:
    cluster = a_cluster(NODES, a_deployment("web", ["a-1", "a-1", "b-1"]))
    more = ask(cluster, ("scale", "Deployment/default/web=5"))
    assert names(more.placed) == ["web-3", "web-4"] and all(each.is_new for each in more.placed) and more.fits
    fewer = ask(cluster, ("scale", "deploy/web=1"))
    assert names(fewer.gone) == ["web-0", "web-1"], "crowded nodes first"
    assert all(each.is_wanted for each in fewer.gone) and fewer.fits


def test_a_stateful_set_grows_and_shrinks_at_its_highest_number() -> None:
    cluster = a_cluster(NODES, a_stateful_set("db", ["a-1", "b-1"]))
    assert names(ask(cluster, ("scale", "StatefulSet/db=4")).placed) == ["db-2", "db-3"]
    assert names(ask(cluster, ("scale", "sts/db=1")).gone) == ["db-1"]


def test_a_workload_without_pods_is_scaled_by_its_template() -> None:
    cluster = a_cluster(NODES, a_deployment("web", [], cpu="2"))
    answer = ask(cluster, ("scale", "Deployment/web=2"))
    assert names(answer.placed) == ["web-0", "web-1"]
    assert answer.after.total.amounts["cpu"][0] == 4000


def test_scales_that_make_no_sense_are_rejected() -> None:
    assert "must be a whole number" in rejected(("scale", "Deployment/web=-1"))
    assert "must be a whole number" in rejected(("scale", "Deployment/web=1000001"))
    assert "KIND/[NAMESPACE/]NAME=N" in rejected(("scale", "Deployment/web"))
    assert 'no Deployment "wep" in the cluster; did you mean default/web?' in rejected(("scale", "Deployment/wep=1"))
    assert "ReplicaSet default/web-rs belongs to Deployment web" in rejected(("scale", "rs/web-rs=1"))
    assert 'no kind "Thing"' in rejected(("scale", "Thing/web=1"))


def test_applied_objects_join_the_cluster() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    cluster = a_cluster([NODES[0]], a_deployment("low", ["a-1"], cpu="4"), high)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vip"},
        "spec": {
            "priorityClassName": "high",
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}}],
        },
    }
    answer = ask(cluster, ("apply", pod))
    (preempted,) = answer.preempted
    assert (preempted.key, preempted.node, preempted.preemptor) == ("default/low-0", "a-1", "default/vip")
    assert [(each.key, each.is_new) for each in answer.placed] == [("default/vip", True)]
    assert names(answer.pending) == ["low-0"], "its controller creates it again"
    assert not answer.fits
    assert answer.to_dict()["preempted"][0]["preemptor"] == {"namespace": "default", "name": "vip"}


def test_an_applied_workload_is_scaled_or_rolled_out() -> None:
    web = a_deployment("web", ["a-1", "b-1"])
    bare = {**web[0], "metadata": {"name": "web", "namespace": "default"}}
    cluster = a_cluster(NODES, web)
    same = ask(cluster, ("apply", bare))
    assert same.fits and not (same.moved or same.placed or same.gone)
    scaled = {**bare, "spec": {**bare["spec"], "replicas": 3}}
    assert names(ask(cluster, ("apply", scaled)).placed) == ["web-2"]
    larger = a_deployment("web", ["", ""], cpu="2")[0]
    rolled = ask(cluster, ("apply", {**bare, "spec": larger["spec"]}))
    assert rolled.after.total.amounts["cpu"][0] == 4000 and "replaced at once" in rolled.notes[0]
    assert rolled.fits


def test_applied_budgets_and_nodes_count_for_the_next_change() -> None:
    web = a_deployment("web", ["a-1", "b-1"])
    strict = ask(a_cluster(NODES, web), ("apply", a_budget("strict", "web", minAvailable=2)), ZONE_A)
    assert names(strict.blocked) == ["web-0"]
    node = a_zone_node("c-1", "c")
    answer = ask(a_cluster([NODES[0]], web[:3]), ("apply", node), ("drain", "a-1"))
    assert moves(answer) == {"web-0": ("a-1", "c-1")}


def test_a_deleted_workload_takes_its_pods_along_and_a_deleted_pod_comes_again() -> None:
    cluster = a_cluster(NODES, a_deployment("web", ["a-1", "b-1"]), a_running_pod("bare", "a-1"))
    gone = ask(cluster, ("delete", "Deployment/web"))
    assert names(gone.gone) == ["web-0", "web-1"] and gone.fits
    assert ask(cluster, ("delete", "Pod/web-0")).fits
    assert names(ask(cluster, ("delete", "pod/bare")).gone) == ["bare"]
    assert names(ask(cluster, ("delete", "node/a-1")).moved) == ["web-0"]


def test_a_deleted_budget_blocks_nothing() -> None:
    cluster = a_cluster(NODES, a_deployment("web", ["a-1", "b-1"]), a_budget("strict", "web", minAvailable=2))
    assert ask(cluster, ("delete", "pdb/strict"), ZONE_A).fits


# ---- configuration, order, baseline


PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
                }
            ],
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
        }
    ],
}


def test_from_a_configuration_on_the_scheduler_decides_by_it() -> None:
    cluster = a_cluster(NODES, a_deployment("web", ["b-2"], cpu="1"))
    spread = ask(cluster, ("scale", "Deployment/web=2"))
    packed = ask(cluster, ("config", PACKED), ("scale", "Deployment/web=2"))
    assert spread.placed[0].node != "b-2" and packed.placed[0].node == "b-2"
    later = ask(cluster, ("scale", "Deployment/web=2"), ("config", PACKED))
    assert later.placed[0].node == spread.placed[0].node


def test_changes_are_made_in_their_order() -> None:
    cluster = a_cluster([NODES[0]], a_deployment("web", ["a-1"], cpu="3"))
    assert moves(ask(cluster, ("add-nodes", "1=a-1"), ("drain", "a-1"))) == {"web-0": ("a-1", "a-1-new-1")}
    late = ask(cluster, ("drain", "a-1"), ("add-nodes", "1=a-1"))
    assert moves(late) == {"web-0": ("a-1", "a-1-new-1")}, "a pod that waits goes to the node that comes later"
    assert rejected(("drain", "a-1-new-1"), ("add-nodes", "1=a-1")).startswith("drain a-1-new-1: no node")


def test_what_is_pending_before_is_tried_first_and_is_no_difference() -> None:
    fitting, giant = a_running_pod("fitting"), a_running_pod("giant", cpu="40")
    answer = ask(a_cluster(NODES, fitting, giant), ("label", "a-1=x=y"))
    assert not answer.placed and not answer.moved
    assert names(answer.pending) == ["giant"] and answer.pending[0].was_pending
    assert answer.summary()[0] == "Not everything fits: 1 pod was pending before and still is."
    assert answer.summary()[1] == "No pod moves."


def test_the_loaded_cluster_stays_as_it_was() -> None:
    cluster = a_cluster(NODES, a_deployment("web", ["a-1", "b-1"]), a_budget("one", "web", maxUnavailable=1))
    before = [msgspec.json.encode(item) for item in cluster.objects]
    first = ask(cluster, ZONE_A, ("scale", "Deployment/web=4"), ("taint", "b-1=x:NoExecute")).to_dict()
    assert [msgspec.json.encode(item) for item in cluster.objects] == before
    assert ask(cluster, ZONE_A, ("scale", "Deployment/web=4"), ("taint", "b-1=x:NoExecute")).to_dict() == first


def test_utilisation_by_zone_and_pool_leaves_cordoned_nodes_out() -> None:
    nodes = [a_zone_node("a-1", "a", agentpool="old"), a_zone_node("b-1", "b", agentpool="new")]
    answer = ask(a_cluster(nodes, a_deployment("web", ["a-1"], cpu="2")), ZONE_A)
    zones = {each["name"]: each for each in answer.to_dict()["utilisation"]["zones"]}
    assert zones["a"]["before"]["resources"]["cpu"] == {"requested": 2000, "allocatable": 4000}
    assert (zones["a"]["after"]["nodes"], zones["a"]["after"]["cordonedNodes"]) == (0, 1)
    assert zones["b"]["after"]["resources"]["cpu"] == {"requested": 2000, "allocatable": 4000}
    assert [each["name"] for each in answer.to_dict()["utilisation"]["pools"]] == ["new", "old"]
    assert answer.summary()[2] == "Schedulable nodes: 2 -> 1. Requested: cpu 25.0% -> 50.0%, memory 0.0% -> 0.0%."


def test_what_cannot_be_used_is_rejected_with_similar_names() -> None:
    assert rejected(("drain", "a-11")) == 'drain a-11: no node "a-11" among 4 nodes; did you mean a-1?'
    assert rejected(("drain", "zone=x")).startswith('drain zone=x: no node has the labels "zone=x"')
    assert "is no label selector" in rejected(("drain", "a in b"))
    assert "must be N=TEMPLATE" in rejected(("add-nodes", "a-1"))
    assert "neither a node of the cluster nor a file; did you mean a-1" in rejected(("add-nodes", "3=a-11"))
    assert "must be a whole number from 0 to 100000" in rejected(("add-nodes", "200000=a-1"))
    assert "the effects are NoSchedule, PreferNoSchedule, NoExecute" in rejected(("taint", "a-1=x=y:Never"))
    assert "must be NODE|SELECTOR=key=value" in rejected(("label", "a-1=disk"))
    assert "no change 'explode'" in rejected(("explode", "a-1"))
    assert "there are no objects" in rejected(("apply", []))
    assert "cannot be read" in rejected(("config", "/nonexistent.yaml"))
    assert rejected(("config", {"kind": "X"})).startswith("configuration: Object 'apiVersion' is missing")
