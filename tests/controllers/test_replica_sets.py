"""ReplicaSets and ReplicationControllers: as many pods as are wanted, whatever becomes of them."""

from typing import Any

import pytest

from mooring.apiserver.store import Store
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from workload_stage import Json, Stage, a_template, a_workload, resource


def a_stage(replicas: int = 3, **spec: Any) -> Stage:
    stage = Stage()
    stage.create("replicasets", a_workload("web", replicas, **spec))
    stage.run()
    return stage


def test_missing_pods_are_made_from_the_template() -> None:
    stage = a_stage(2)
    owner = stage.get("replicasets", "web")["metadata"]
    assert stage.names() == ["web-00001", "web-00002"]
    pod = stage.pods()[0]
    assert pod["metadata"]["generateName"] == "web-"
    assert pod["metadata"]["labels"] == {"app": "web"}
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": owner["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert pod["spec"]["containers"][0]["image"] == "shop:1"
    assert stage.events() == [
        ("SuccessfulCreate", "Created pod: web-00001"),
        ("SuccessfulCreate", "Created pod: web-00002"),
    ]


def test_status_counts_pods_by_what_they_are() -> None:
    stage = a_stage(3)
    assert stage.status("replicasets", "web") == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }
    first, second, third = stage.pods()
    stage.start(first)
    stage.start(second, ready=False)
    stage.start(third)
    stage.delete("pods", third["metadata"]["name"])
    stage.run()
    assert stage.status("replicasets", "web") == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 1,
    }


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_is_replaced_and_left_where_it_is(phase: str) -> None:
    stage = a_stage(2)
    stage.end(stage.pods()[0], phase)
    stage.run()
    assert stage.names() == ["web-00001", "web-00002", "web-00003"]
    assert stage.status("replicasets", "web")["replicas"] == 2


def test_a_deleted_pod_is_replaced_before_it_is_gone() -> None:
    stage = a_stage(1)
    stage.start_all()
    stage.delete("pods", "web-00001")
    stage.run()
    assert stage.names() == ["web-00001", "web-00002"]


def test_a_pod_counts_as_available_when_it_was_ready_for_long_enough() -> None:
    stage = a_stage(1, minReadySeconds=10)
    stage.start_all()
    stage.run(9)
    assert "availableReplicas" not in stage.status("replicasets", "web")
    stage.run(2)
    assert stage.status("replicasets", "web")["availableReplicas"] == 1


def test_matching_orphans_are_taken_in_instead_of_new_pods() -> None:
    stage = Stage()
    pod: Json = {"metadata": {"name": "loner", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    pod["spec"]["containers"][0]["image"] = "shop:0"
    stage.create("pods", pod)
    stage.create("pods", {**pod, "metadata": {"name": "stranger", "labels": {"app": "other"}}})
    stage.create("replicasets", a_workload("web", 2))
    stage.run()
    assert stage.names() == ["loner", "stranger", "web-00001"]
    assert stage.get("pods", "loner")["metadata"]["ownerReferences"][0]["name"] == "web"
    assert "ownerReferences" not in stage.get("pods", "stranger")["metadata"]


def test_an_orphan_that_comes_later_is_taken_in_and_one_pod_is_too_many() -> None:
    stage = a_stage(1)
    stage.start_all()
    loner = {"metadata": {"name": "loner", "labels": {"app": "web"}}, "spec": stage.pods()[0]["spec"]}
    loner["spec"] = {"containers": loner["spec"]["containers"]}
    stage.create("pods", loner)
    stage.run()
    assert stage.names() == ["web-00001"]


def test_a_pod_that_no_longer_matches_is_let_go_and_replaced() -> None:
    stage = a_stage(2)
    stage.change("pods", "web-00001", lambda pod: {**pod, "metadata": {**pod["metadata"], "labels": {"app": "x"}}})
    stage.run()
    assert stage.names() == ["web-00001", "web-00002", "web-00003"]
    assert "ownerReferences" not in stage.get("pods", "web-00001")["metadata"]


def test_scaling_down_spares_pods_that_do_their_work() -> None:
    stage = a_stage(4)
    waiting, unready, working, dear = stage.pods()
    stage.start(unready, ready=False)
    stage.start(working)
    stage.start(dear)
    cost = {"controller.kubernetes.io/pod-deletion-cost": "5"}
    stage.change(
        "pods", dear["metadata"]["name"], lambda pod: {**pod, "metadata": {**pod["metadata"], "annotations": cost}}
    )
    left = []
    for replicas in (3, 2, 1):
        stage.edit("replicasets", "web", replicas=replicas)
        stage.run()
        left.append(stage.present((waiting, unready, working, dear)))
    assert left == [
        ["web-00002", "web-00003", "web-00004"],
        ["web-00003", "web-00004"],
        ["web-00004"],
    ]
    assert ("SuccessfulDelete", "Deleted pod: web-00001") in stage.events()


def test_scaling_down_takes_the_newest_of_equal_pods() -> None:
    stage = a_stage(1)
    stage.start_all()
    stage.run(600)
    stage.edit("replicasets", "web", replicas=2)
    stage.run()
    stage.start(stage.pods()[1], node="n2")
    stage.run(10)
    stage.edit("replicasets", "web", replicas=1)
    stage.run()
    assert stage.present(stage.pods()) == ["web-00001"]


def test_a_large_set_is_made_in_bursts_with_few_events() -> None:
    stage = Stage()
    stage.create("replicasets", a_workload("web", 1200))
    stage.loop.step()
    assert len(stage.pods()) == 500
    stage.run()
    assert len(stage.pods()) == 1200
    assert len(stage.events()) == 3
    stage.edit("replicasets", "web", replicas=0)
    stage.run()
    assert stage.pods() == []


def test_what_is_refused_is_told_and_tried_again() -> None:
    stage = Stage()
    workload = a_workload("web", 1)
    workload["spec"]["template"]["spec"]["priorityClassName"] = "nope"
    stage.create("replicasets", workload)
    stage.run()
    failure = stage.condition("replicasets", "web", "ReplicaFailure")
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
    assert "no PriorityClass with name nope was found" in failure["message"]
    assert "FailedCreate" in {reason for reason, _ in stage.events()}
    made = {"metadata": {"name": "nope"}, "value": 5}
    stage.api.create(resource("priorityclasses"), "", made)
    stage.run(60)
    assert len(stage.pods()) == 1
    assert stage.condition("replicasets", "web", "ReplicaFailure") == {}


def test_a_selector_that_does_not_match_the_template_makes_no_pods() -> None:
    stage = Stage()
    stage.create("replicasets", a_workload("web", 1, selector={"matchLabels": {"app": "other"}}))
    stage.run()
    assert stage.pods() == []


def test_a_set_on_its_way_out_makes_and_takes_in_nothing() -> None:
    stage = Stage()
    workload = a_workload("web", 2)
    workload["metadata"]["finalizers"] = ["example.com/hold"]
    stage.create("replicasets", workload)
    stage.delete("replicasets", "web")
    spec = {"containers": [{"name": "main", "image": "shop:1"}]}
    stage.create("pods", {"metadata": {"name": "loner", "labels": {"app": "web"}}, "spec": spec})
    stage.run()
    assert stage.names() == ["loner"]
    assert "ownerReferences" not in stage.pods()[0]["metadata"]


def test_replication_controllers_work_the_same_way() -> None:
    stage = Stage()
    workload = a_workload("old", 2)
    workload["spec"]["selector"] = {"app": "old"}
    stage.create("replicationcontrollers", workload)
    stage.run()
    stage.start_all()
    stage.run()
    assert stage.names() == ["old-00001", "old-00002"]
    assert stage.pods()[0]["metadata"]["ownerReferences"][0]["kind"] == "ReplicationController"
    assert stage.status("replicationcontrollers", "old") == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "observedGeneration": 1,
    }


def test_a_replication_controller_with_another_selector_lets_go_of_the_pods_it_had() -> None:
    stage = Stage()
    workload = a_workload("old", 1)
    workload["spec"]["selector"] = {"app": "old"}
    stage.create("replicationcontrollers", workload)
    stage.run()
    stage.edit("replicationcontrollers", "old", selector={"app": "new"}, template=a_template({"app": "new"}))
    stage.run()
    assert stage.names() == ["old-00001", "old-00002"]
    assert "ownerReferences" not in stage.get("pods", "old-00001")["metadata"]


def test_nothing_is_written_when_nothing_changes() -> None:
    stage = a_stage(3)
    stage.start_all()
    stage.run()
    assert stage.look_again("web") == 0
    assert stage.look_again("nobody") == 0


def test_crews_count_what_pods_are_there_through_every_change() -> None:
    stage = Stage()
    owned_pods = OwnedPodIndex(stage.api.store)
    stage.create("replicasets", a_workload("web", 5))
    stage.run()
    uid = stage.get("replicasets", "web")["metadata"]["uid"]
    for step in (stage.start_all, lambda: stage.end(stage.pods()[0]), lambda: stage.delete("pods", "web-00002")):
        step()
        assert owned_pods.of(uid).check() == []
        stage.run()
        assert owned_pods.of(uid).check() == []
    assert owned_pods.of(uid).count("ready", "unready") == 5
    assert owned_pods.of(uid).count("Succeeded") == 1
    assert OwnedPodIndex(Store()).of(uid).pods == {}
