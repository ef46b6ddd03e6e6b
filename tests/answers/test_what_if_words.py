"""What a what-if question says about changes: errors, reasons and notes, word for word, and what each change leaves alone."""

from typing import Any

import pytest

from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change, described, what_if
from mooring.inputs.input_errors import InputError
from mooring.inputs.offers.price_list import PriceList
from what_if_building import (
    ZONE,
    a_budget,
    a_cluster,
    a_daemon_set,
    a_deployment,
    a_running_pod,
    a_stateful_set,
    a_zone_node,
    owned_by,
)

NODES = [a_zone_node("a-1", "a"), a_zone_node("a-2", "a"), a_zone_node("b-1", "b")]
TAINT = "NODE|SELECTOR=key[=value]:Effect, with a - at the end to remove it"
EFFECTS = "the effects are NoSchedule, PreferNoSchedule, NoExecute"
LABEL = "NODE|SELECTOR=key=value, or NODE|SELECTOR=key- to remove it"


def ask(*parts: Any, changes: list[Change]) -> WhatIf:
    return what_if(a_cluster(*parts), changes)


ERRORS: dict[str, tuple[Change, str]] = {
    "a node that is not there": (("drain", "zzz"), 'drain zzz: no node "zzz" among 3 nodes'),
    "labels that no node has": (
        ("cordon", "zone=x"),
        'cordon zone=x: no node has the labels "zone=x"; `kubectl get nodes --show-labels` lists what they have',
    ),
    "a name without a kind": (
        ("delete", "web"),
        'delete web: "web" must be KIND/NAME or KIND/NAMESPACE/NAME, such as Deployment/shop/web',
    ),
    "a kind without a name": (
        ("delete", "pod/"),
        'delete pod/: "pod/" must be KIND/NAME or KIND/NAMESPACE/NAME, such as Deployment/shop/web',
    ),
    "an object that is not there": (("delete", "pod/zzz"), 'delete pod/zzz: no Pod "zzz" in the cluster'),
    "a namespace": (
        ("delete", "ns/shop"),
        "delete ns/shop: Namespace shop: delete its workloads and pods instead",
    ),
    "a number that is missing": (
        ("scale", "Deployment/web"),
        'scale Deployment/web: "Deployment/web" must be KIND/[NAMESPACE/]NAME=N, such as Deployment/shop/web=5',
    ),
    "a number that is too long": (
        ("scale", "Deployment/web=0000000000001"),
        'scale Deployment/web=0000000000001: "0000000000001" must be a whole number from 0 to 1000000',
    ),
    "the scale of a DaemonSet": (
        ("scale", "ds/agent=2"),
        "scale ds/agent=2: DaemonSet default/agent has as many pods as there are nodes for it; it cannot be scaled",
    ),
    "the scale of a pod": (
        ("scale", "pod/bare=2"),
        "scale pod/bare=2: Pod default/bare is not a workload with a number of pods, "
        "or its pod template is not in the input",
    ),
    "the scale of a ReplicaSet of a Deployment": (
        ("scale", "rs/web-rs=1"),
        "scale rs/web-rs=1: ReplicaSet default/web-rs belongs to Deployment web, which would undo the change; scale that",
    ),
    "new nodes without a template": (
        ("add-nodes", "3="),
        'add-nodes 3=: "3=" must be N=TEMPLATE, such as 3=node-1 or 3=node.yaml',
    ),
    "new nodes like nothing": (
        ("add-nodes", "1=zzz"),
        'add-nodes 1=zzz: "zzz" is neither a node of the cluster nor a file',
    ),
    "new nodes like three things": (
        ("add-nodes", (1, "a-1", 2)),
        "add-nodes: a list must be N=TEMPLATE, or a pair of a number and a node or a dictionary",
    ),
    "a taint without an effect": (("taint", "a-1=x=y"), f'taint a-1=x=y: "a-1=x=y" must be {TAINT}; {EFFECTS}'),
    "a taint without a node": (
        ("taint", "x:NoSchedule"),
        f'taint x:NoSchedule: "x:NoSchedule" must be {TAINT}; {EFFECTS}',
    ),
    "a label without a value": (("label", "a-1=disk"), f'label a-1=disk: "a-1=disk" must be {LABEL}'),
    "a change that takes a text": (
        ("drain", 3),
        "drain: 3 must be a text, as the option of `mooring what-if` takes it",
    ),
    "no objects": (("apply", []), "apply: there are no objects that decisions read"),
    "a change that does not exist": (
        ("explode", "a-1"),
        "no change 'explode'; the changes are drain, cordon, uncordon, remove-nodes, add-nodes, scale, apply, delete, "
        "config, taint, label",
    ),
}


@pytest.mark.parametrize(("change", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_a_change_that_cannot_be_made_is_an_error_that_says_so(change: Change, text: str) -> None:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    parts = [NODES, a_deployment("web", ["a-1"]), a_daemon_set("agent", []), a_running_pod("bare", "a-1"), shop]
    with pytest.raises(InputError) as caught:
        ask(*parts, changes=[change])
    assert str(caught.value) == text


def test_two_objects_of_one_name_need_their_namespace() -> None:
    pods = [a_running_pod("web", "a-1"), a_running_pod("web", "a-1")]
    pods[1]["metadata"] |= {"namespace": "other", "uid": "uid-other"}
    with pytest.raises(InputError) as caught:
        ask(NODES, pods, changes=[("delete", "pod/web")])
    assert str(caught.value) == 'delete pod/web: "web" could be any of default/web, other/web: add the namespace'
    answer = ask(NODES, pods, changes=[("delete", "pod/other/web")])
    assert [each.key for each in answer.gone] == ["other/web"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("drain", "n1"), "drain n1"),
        (("add-nodes", (3, "n1")), "add-nodes 3=n1"),
        (("add-nodes", (3, {"kind": "Node"})), "add-nodes 3=a Node"),
        (("apply", {"kind": "Pod"}), "apply"),
    ],
)
def test_a_change_is_described_in_a_line(change: Change, text: str) -> None:
    assert described(*change) == text


# ---- reasons

DEPLOYED = a_deployment("web", ["a-1", "b-1"])
REASONS: dict[str, tuple[Change, str, str]] = {
    "drain": (("drain", "a-1"), "bare", "no controller replaces it; `kubectl drain` deletes it only with --force"),
    "remove": (("remove-nodes", "a-1"), "bare", "its node is removed"),
    "taint": (("taint", "a-1=x:NoExecute"), "bare", "a NoExecute taint that it does not tolerate"),
    "scale": (("scale", "Deployment/web=1"), "web-0", "its workload is scaled down"),
}


@pytest.mark.parametrize(("change", "name", "reason"), REASONS.values(), ids=REASONS.keys())
def test_a_pod_that_is_gone_has_a_reason(change: Change, name: str, reason: str) -> None:
    answer = ask(NODES, DEPLOYED, a_running_pod("bare", "a-1"), changes=[change])
    assert [each.reason for each in answer.gone if each.key == f"default/{name}"] == [reason]


def test_a_daemon_pod_goes_where_its_node_is_no_longer_selected() -> None:
    node = a_zone_node("a-1", "a", disk="ssd")
    agents = a_daemon_set("agent", ["a-1"], nodeSelector={"disk": "ssd"})
    answer = ask(node, agents, changes=[("label", "a-1=disk-")])
    assert [(each.key, each.reason, each.is_wanted) for each in answer.gone] == [
        ("default/agent-0", "its DaemonSet does not run on the node any more", True),
    ]


def test_deleted_objects_say_so_and_a_pod_with_a_controller_comes_again() -> None:
    answer = ask(NODES, DEPLOYED, changes=[("delete", "Deployment/web")])
    assert {each.reason for each in answer.gone} == {"a change deletes it"}
    again = ask(NODES, DEPLOYED, changes=[("delete", "pod/web-0")])
    assert again.notes == ["Pod default/web-0 has a controller, which creates it again"] and not again.gone


def test_a_new_template_is_noted() -> None:
    larger = a_deployment("web", ["", ""], cpu="2")[0]
    answer = ask(NODES, DEPLOYED, changes=[("apply", larger)])
    assert answer.notes == [
        "Deployment default/web has a new pod template: all its pods are replaced at once, not step by step",
    ]


def test_pods_on_unknown_nodes_are_noted() -> None:
    answer = ask(NODES, a_running_pod("lost", "gone"), a_running_pod("also", "gone"), changes=[])
    assert answer.notes == ["2 pods on nodes that are not in the input"]


def test_a_pod_that_was_being_deleted_is_not_replaced() -> None:
    ending = a_running_pod("ending", "a-1", owner=owned_by("StatefulSet", "db"))
    ending["metadata"] |= {"deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30}
    answer = ask(NODES, ending, changes=[("remove-nodes", "a-1")])
    assert [(each.key, each.reason, each.is_wanted) for each in answer.gone] == [
        ("default/ending", "it was being deleted before", True),
    ]


def test_a_preempted_pod_without_a_controller_is_lost() -> None:
    vip = a_running_pod("vip", cpu="4", priority=9, nodeName="")
    answer = ask(NODES[0], a_running_pod("low", "a-1", cpu="4"), changes=[("apply", vip)])
    assert [(each.key, each.node, each.reason, each.is_wanted) for each in answer.gone] == [
        ("default/low", "a-1", "preempted", False),
    ]
    assert answer.summary()[0] == "Not everything fits: 1 pod without a controller is lost."


def test_a_pending_pod_says_why() -> None:
    pods = [
        a_running_pod("other", schedulerName="another"),
        a_running_pod("gated", schedulingGates=[{"name": "quota"}]),
        a_running_pod("large", cpu="9"),
    ]
    found = {each.key: each.message for each in ask(NODES[0], pods, changes=[]).pending}
    assert found["default/other"] == 'no profile has the scheduler name "another"'
    assert "quota" in found["default/gated"]
    assert found["default/large"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


# ---- what a change leaves alone


def test_a_taint_replaces_its_value_and_keeps_others_and_other_effects() -> None:
    node = a_zone_node("a-1", "a")
    node["spec"] = {
        "taints": [
            {"key": "x", "value": "old", "effect": "NoSchedule"},
            {"key": "x", "value": "old", "effect": "PreferNoSchedule"},
            {"key": "y", "effect": "NoSchedule"},
        ]
    }
    for tolerated, fits in ((["x=new", "y"], True), (["x=old", "y"], False), (["x=new"], False)):
        tolerations = [
            {"key": key, "operator": "Equal", "value": value} if value else {"key": key, "operator": "Exists"}
            for key, _, value in (each.partition("=") for each in tolerated)
        ]
        pod = a_running_pod("waits", tolerations=tolerations)
        answer = ask(node, changes=[("taint", "a-1=x=new:NoSchedule"), ("apply", pod)])
        assert answer.fits is fits, tolerated


def test_only_no_execute_taints_drive_pods_out_and_only_those_that_do_not_tolerate_them() -> None:
    stays = a_running_pod("stays", "a-1", tolerations=[{"key": "x", "operator": "Exists", "effect": "NoExecute"}])
    leaves = a_running_pod(
        "leaves",
        "a-1",
        tolerations=[{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
    )
    answer = ask(NODES, stays, leaves, changes=[("taint", "a-1=x:NoExecute")])
    assert [each.key for each in answer.gone] == ["default/leaves"]
    assert not ask(NODES, stays, leaves, changes=[("taint", "a-1=z:NoSchedule")]).gone


def test_a_drain_leaves_daemon_and_mirror_pods() -> None:
    agents = a_daemon_set("agent", ["a-1"])
    mirror = a_running_pod("mirror", "a-1", annotations={"kubernetes.io/config.mirror": "x"})
    static = a_running_pod("static", "a-1", owner=owned_by("Node", "a-1"))
    answer = ask(NODES, agents, mirror, static, changes=[("drain", "a-1")])
    assert answer.fits and not (answer.gone or answer.moved or answer.blocked)


def test_a_blocked_eviction_names_its_budget_and_node() -> None:
    answer = ask(NODES, DEPLOYED, a_budget("all", "web", minAvailable=2), changes=[("drain", "a-1")])
    assert [(each.key, each.node, each.budget, each.message) for each in answer.blocked] == [
        ("default/web-0", "a-1", "all", "needs 2 healthy pods and has 2"),
    ]


def test_workloads_are_counted_by_what_happens_to_their_pods() -> None:
    answer = ask(NODES, DEPLOYED, a_stateful_set("db", ["a-1"]), changes=[("drain", f"{ZONE}=a")])
    assert {str(name): dict(counts) for name, counts in answer.workloads.items()} == {
        "Deployment default/web": {"moved": 1},
        "StatefulSet default/db": {"moved": 1},
    }


def test_an_applied_node_gets_the_pods_of_daemon_sets() -> None:
    answer = ask(NODES[0], a_daemon_set("agent", ["a-1"]), changes=[("apply", NODES[2])])
    assert [(each.key, each.node) for each in answer.placed] == [("default/agent-b-1", "b-1")]


def test_a_pod_that_is_deleted_and_applied_again_is_not_gone() -> None:
    pod = a_running_pod("bare")
    answer = ask(NODES, a_running_pod("bare", "a-1"), changes=[("delete", "pod/bare"), ("apply", pod)])
    assert answer.fits and not answer.gone


def test_a_deleted_deployment_takes_its_replica_sets_along() -> None:
    with pytest.raises(InputError) as caught:
        ask(NODES, DEPLOYED, changes=[("delete", "Deployment/web"), ("delete", "rs/web-rs")])
    assert str(caught.value) == 'delete rs/web-rs: no ReplicaSet "web-rs" in the cluster'


def test_a_daemon_set_does_not_take_the_pod_of_another_for_its_own() -> None:
    agents = [*a_daemon_set("one", ["a-1"]), *a_daemon_set("two", [], nodeSelector={"disk": "ssd"})]
    answer = ask(NODES[0], agents, changes=[("label", "a-1=disk=ssd")])
    assert [(each.key, each.node) for each in answer.placed] == [("default/two-a-1", "a-1")] and not answer.gone


def test_the_price_of_nodes_is_told_with_its_unit_if_all_nodes_have_one() -> None:
    price = {"mooring.dev/price": "0.4"}
    nodes = [a_zone_node(name, "a", **price) for name in ("a-1", "a-2")]
    answer = ask(*nodes, changes=[("remove-nodes", "a-1")])
    told = "Nodes cost 0.8 an hour before and 0.4 an hour after: 0.4 less an hour, 292 less a month (730 hours)."
    assert told in answer.summary()
    assert answer.to_dict()["cost"] == {
        "before": 0.8,
        "after": 0.4,
        "difference": -0.4,
        "differenceAMonth": -292,
        "idleBefore": 0.8,
        "idleAfter": 0.4,
    }
    some = ask(*nodes, *NODES[2:], changes=[("remove-nodes", "a-1")])
    assert "cost" not in some.to_dict()
    assert some.notes == ["no costs: 1 node without a price (b-1)"]


def test_idle_capacity_costs_what_neither_cpu_nor_memory_is_requested_of() -> None:
    """The node has 4 CPUs and costs 1; a pod requests 1 CPU, then one requests 3."""
    small, large = (a_running_pod(name, "a-1", cpu=cpu) for name, cpu in (("small", "1"), ("large", "3")))
    prices = PriceList({"a-1": 1.0, "a-2": 2.0}, unit="EUR an hour")
    answer = what_if(a_cluster(*NODES[:2], small, large), [("delete", "pod/default/large")], prices=prices)
    assert "Nodes cost 3 EUR an hour, before and after." in answer.summary()
    assert "Idle capacity costs 2 EUR an hour before and 2.75 EUR an hour after." in answer.summary()
    assert answer.to_dict()["cost"]["priceUnit"] == "EUR an hour"
    cordoned = what_if(a_cluster(*NODES[:2], small), [("cordon", "a-2"), ("remove-nodes", "a-2")], prices=prices)
    told = "Nodes cost 3 EUR an hour before and 1 EUR an hour after: 2 EUR less an hour, 1,460 EUR less a month (730 hours)."
    assert told in cordoned.summary()
