"""DaemonSets: one pod on each node that is fit for it."""

from typing import Any

import pytest

from mooring.controllers.workloads.daemon_sets import Eligibility
from mooring.rules.workload_pods import node_of
from workload_stage import Json, Stage, a_template, a_workload, resource

NODES = resource("nodes")


def a_node(name: str, labels: dict[str, str] | None = None, taints: list[Json] | None = None) -> Json:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints or []}}


def a_stage(*nodes: Json | str, **spec: Any) -> Stage:
    stage = Stage()
    for node in nodes:
        stage.api.create(NODES, "", node if isinstance(node, dict) else a_node(node))
    workload = a_workload("agent", **spec)
    del workload["spec"]["replicas"]
    stage.create("daemonsets", workload)
    stage.run()
    return stage


def start_all(stage: Stage) -> None:
    """Each pod on the node that it is meant for."""
    for pod in stage.pods():
        if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
            stage.start(pod, node_of(pod))


def live(stage: Stage, rounds: int = 10) -> None:
    for _ in range(rounds):
        stage.run()
        start_all(stage)
        stage.reap()
    stage.run()


def places(stage: Stage) -> list[str]:
    return sorted(node_of(pod) for pod in stage.pods() if "deletionTimestamp" not in pod["metadata"])


def change_node(stage: Stage, name: str, **parts: Any) -> None:
    stage.api.change(NODES, "", name, lambda held: {**held, **parts})


def test_every_node_has_one_pod_that_is_meant_for_it() -> None:
    stage = a_stage("n1", "n2")
    assert places(stage) == ["n1", "n2"]
    pod = next(pod for pod in stage.pods() if node_of(pod) == "n1")
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    line = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert required == {"nodeSelectorTerms": [{"matchFields": [line]}]}
    (revision,) = stage.all("controllerrevisions")
    digest = revision["metadata"]["labels"]["controller-revision-hash"]
    assert pod["metadata"]["labels"] == {"app": "agent", "controller-revision-hash": digest}
    tolerated = {(t["key"].removeprefix("node.kubernetes.io/"), t["effect"]) for t in pod["spec"]["tolerations"]}
    assert tolerated == {
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    }
    assert not any("tolerationSeconds" in toleration for toleration in pod["spec"]["tolerations"])


def test_status_of_a_set_at_rest() -> None:
    stage = a_stage("n1", "n2")
    start_all(stage)
    stage.run()
    assert stage.status("daemonsets", "agent") == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "numberReady": 2,
        "observedGeneration": 1,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }
    assert stage.look_again("agent") == 0
    assert stage.look_again("nobody") == 0


FITNESS: dict[str, tuple[Json, dict[str, Any], bool]] = {
    "a plain node": (a_node("n"), {}, True),
    "a node with the label": (a_node("n", {"disk": "ssd"}), {"nodeSelector": {"disk": "ssd"}}, True),
    "a node without the label": (a_node("n"), {"nodeSelector": {"disk": "ssd"}}, False),
    "a taint that is not tolerated": (a_node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), {}, False),
    "a taint that only warns": (a_node("n", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), {}, True),
    "a taint that is tolerated": (
        a_node("n", taints=[{"key": "k", "effect": "NoSchedule"}]),
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
        True,
    ),
    "a node that is not ready": (
        a_node("n", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
        {},
        True,
    ),
    "a node without a network": (
        a_node("n", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
        {},
        False,
    ),
    "a node without a network for a pod that needs none": (
        a_node("n", taints=[{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}]),
        {"hostNetwork": True},
        True,
    ),
    "an affinity to other nodes": (
        a_node("n", {"zone": "a"}),
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}
                        ]
                    }
                }
            }
        },
        False,
    ),
}


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(("level", "effect"), [("4", "NoSchedule"), ("4", "NoExecute"), ("5", "NoExecute")])
def test_daemons_compare_numbers_if_the_gate_is_on(is_on: bool, level: str, effect: str) -> None:
    node = a_node("n", taints=[{"key": "level", "value": level, "effect": effect}])
    template = {"spec": {"tolerations": [{"key": "level", "operator": "Lt", "value": "5"}]}}
    verdict = Eligibility(template, compares=is_on).of(node)
    fits = is_on and level == "4"
    assert verdict == (fits, fits or effect == "NoSchedule")


@pytest.mark.parametrize(("node", "pod_spec", "runs"), FITNESS.values(), ids=FITNESS.keys())
def test_fitness_of_nodes(node: Json, pod_spec: dict[str, Any], runs: bool) -> None:
    stage = a_stage(node, template=a_template({"app": "agent"}, **pod_spec))
    assert places(stage) == (["n"] if runs else [])
    assert stage.status("daemonsets", "agent")["desiredNumberScheduled"] == int(runs)


def test_a_new_node_gets_a_pod_and_a_node_that_turns_unfit_loses_it() -> None:
    template = a_template({"app": "agent"}, nodeSelector={"disk": "ssd"})
    stage = a_stage(a_node("n1", {"disk": "ssd"}), template=template)
    stage.api.create(NODES, "", a_node("n2", {"disk": "ssd"}))
    live(stage, 2)
    assert places(stage) == ["n1", "n2"]
    node = stage.api.get(NODES, "", "n1")
    change_node(stage, "n1", metadata={**node["metadata"], "labels": {}})
    stage.run()
    assert places(stage) == ["n2"]


def test_a_pod_that_is_there_stays_when_only_new_ones_are_kept_away() -> None:
    stage = a_stage("n1")
    start_all(stage)
    change_node(stage, "n1", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    stage.run()
    assert places(stage) == ["n1"]
    status = stage.status("daemonsets", "agent")
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 1)
    change_node(stage, "n1", spec={"taints": [{"key": "k", "effect": "NoExecute"}]})
    stage.run()
    assert places(stage) == []


def test_a_pod_that_waits_for_a_node_that_is_gone_is_deleted() -> None:
    stage = a_stage("n1", "n2")
    stage.api.delete(NODES, "", "n2")
    stage.run()
    assert [node_of(pod) for pod in stage.pods()] == ["n1"]


def test_a_heartbeat_of_a_node_is_no_reason_to_look() -> None:
    stage = a_stage("n1")
    node = stage.api.get(NODES, "", "n1")
    stage.api.put_status(NODES, node, {"conditions": [{"type": "Ready", "status": "True"}]})
    assert stage.loop.next_ns() is None


def test_a_rolling_update_replaces_one_after_the_other() -> None:
    stage = a_stage("n1", "n2", "n3")
    live(stage, 2)
    stage.set_image("daemonsets", "agent", "shop:2")
    stage.run(3)
    assert len(places(stage)) == 2
    stage.reap()
    stage.run(3)
    assert stage.images() == ["shop:1", "shop:1", "shop:2"]
    assert stage.status("daemonsets", "agent")["updatedNumberScheduled"] == 1
    live(stage)
    assert stage.images() == ["shop:2"] * 3
    assert sorted(item["revision"] for item in stage.all("controllerrevisions")) == [1, 2]


def test_a_share_of_the_nodes_may_be_without_a_pod_during_an_update() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    stage = a_stage("n1", "n2", "n3", "n4", updateStrategy=strategy)
    live(stage, 2)
    stage.set_image("daemonsets", "agent", "shop:2")
    stage.run(3)
    assert len(places(stage)) == 2


def test_pods_that_do_not_work_are_replaced_at_once() -> None:
    stage = a_stage("n1", "n2", "n3")
    stage.set_image("daemonsets", "agent", "shop:2")
    stage.run(3)
    assert stage.images() == ["shop:2"] * 3


def test_on_delete_only_the_user_replaces_pods() -> None:
    stage = a_stage("n1", "n2", updateStrategy={"type": "OnDelete"})
    live(stage, 2)
    stage.set_image("daemonsets", "agent", "shop:2")
    live(stage, 2)
    assert stage.images() == ["shop:1", "shop:1"]
    stage.delete("pods", stage.names()[0], grace_s=0)
    live(stage, 2)
    assert stage.images() == ["shop:1", "shop:2"]


def test_a_pod_that_fails_again_and_again_is_replaced_after_longer_and_longer_pauses() -> None:
    stage = a_stage("n1")
    waits = []
    for _ in range(4):
        pod = stage.pods()[0]
        stage.end(pod, "Failed")
        waited = 0
        while stage.present([pod]):
            stage.run(1)
            waited += 1
        waits.append(waited)
        stage.run(1)
    assert waits[0] == 1
    assert waits[1] < waits[2] < waits[3]
    assert "FailedDaemonPod" in {reason for reason, _ in stage.events()}


def test_a_second_pod_on_a_node_is_one_too_many() -> None:
    stage = a_stage("n1")
    start_all(stage)
    first = stage.pods()[0]
    stage.run(60)
    twin = {"metadata": {"name": "twin", "labels": {"app": "agent"}}, "spec": {**first["spec"]}}
    del twin["spec"]["priority"], twin["spec"]["preemptionPolicy"]
    stage.create("pods", twin)
    live(stage, 2)
    assert stage.names() == [first["metadata"]["name"]]
