"""StatefulSets: names that stay, claims that stay, and one step after the other."""

from typing import Any

from workload_stage import Json, Stage, a_workload

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def a_stage(replicas: int = 3, **spec: Any) -> Stage:
    stage = Stage()
    stage.create("statefulsets", a_workload("db", replicas, serviceName="db", **spec))
    return stage


def revision_of(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["controller-revision-hash"])


def revisions(stage: Stage) -> list[tuple[int, str]]:
    return sorted((item["revision"], item["metadata"]["name"]) for item in stage.all("controllerrevisions"))


def test_pods_come_one_after_the_other_each_when_the_one_before_is_ready() -> None:
    stage = a_stage(3)
    stage.run(5)
    assert stage.names() == ["db-0"]
    stage.start(stage.pods()[0], ready=False)
    stage.run(5)
    assert stage.names() == ["db-0"]
    stage.start(stage.pods()[0])
    stage.run(5)
    assert stage.names() == ["db-0", "db-1"]
    stage.live(5)
    assert stage.names() == ["db-0", "db-1", "db-2"]


def test_parallel_pods_come_at_once() -> None:
    stage = a_stage(3, podManagementPolicy="Parallel")
    stage.run()
    assert stage.names() == ["db-0", "db-1", "db-2"]


def test_a_pod_knows_who_it_is() -> None:
    stage = a_stage(1, ordinals={"start": 5})
    stage.run()
    (pod,) = stage.pods()
    ((_, revision),) = revisions(stage)
    assert pod["metadata"]["name"] == "db-5"
    assert "generateName" not in pod["metadata"]
    assert pod["metadata"]["labels"] == {
        "app": "db",
        "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": "db-5",
        "apps.kubernetes.io/pod-index": "5",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-5", "db")
    assert ("SuccessfulCreate", "create Pod db-5 in StatefulSet db successful") in stage.events()


def test_each_pod_has_a_claim_of_its_own_that_outlives_it() -> None:
    stage = a_stage(2, volumeClaimTemplates=[CLAIM])
    stage.live(4)
    assert [claim["metadata"]["name"] for claim in stage.all("persistentvolumeclaims")] == ["data-db-0", "data-db-1"]
    assert stage.all("persistentvolumeclaims")[0]["metadata"]["labels"] == {"app": "db"}
    assert stage.pods()[1]["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    stage.edit("statefulsets", "db", replicas=0)
    stage.live(6)
    assert stage.pods() == []
    assert len(stage.all("persistentvolumeclaims")) == 2
    message = "create Claim data-db-0 Pod db-0 in StatefulSet db success"
    assert ("SuccessfulCreate", message) in stage.events()


def test_status_and_revisions_of_a_set_at_rest() -> None:
    stage = a_stage(2)
    stage.live(5)
    ((number, revision),) = revisions(stage)
    assert number == 1
    assert stage.status("statefulsets", "db") == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": 2,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }
    assert stage.look_again("db") == 0
    assert stage.look_again("nobody") == 0


def test_scaling_down_goes_from_the_top_one_at_a_time() -> None:
    stage = a_stage(3)
    stage.live(6)
    stage.edit("statefulsets", "db", replicas=1)
    stage.run(5)
    assert stage.present(stage.pods()) == ["db-0", "db-1"]
    stage.reap()
    stage.run(5)
    assert stage.present(stage.pods()) == ["db-0"]
    assert ("SuccessfulDelete", "delete Pod db-2 in StatefulSet db successful") in stage.events()


def test_a_pod_that_is_deleted_comes_back_under_its_name() -> None:
    stage = a_stage(2)
    stage.live(5)
    before = stage.get("pods", "db-0")["metadata"]["uid"]
    stage.delete("pods", "db-0")
    stage.run()
    assert stage.get("pods", "db-0")["metadata"]["uid"] == before
    stage.reap()
    stage.run()
    assert stage.get("pods", "db-0")["metadata"]["uid"] != before


def test_a_failed_pod_is_replaced() -> None:
    stage = a_stage(1)
    stage.live(3)
    before = stage.get("pods", "db-0")["metadata"]["uid"]
    stage.end(stage.get("pods", "db-0"), "Failed")
    stage.live(3)
    assert stage.get("pods", "db-0")["metadata"]["uid"] != before
    message = "StatefulSet default/db is recreating failed Pod db-0"
    assert ("RecreatingFailedPod", message) in stage.events()


def test_an_update_goes_from_the_top_and_waits_for_each_pod() -> None:
    stage = a_stage(3)
    stage.live(6)
    ((_, old),) = revisions(stage)
    stage.set_image("statefulsets", "db", "shop:2")
    stage.run(5)
    new = revisions(stage)[1][1]
    assert stage.present(stage.pods()) == ["db-0", "db-1"]
    stage.reap()
    stage.run(5)
    assert [revision_of(pod) for pod in stage.pods()] == [old, old, new]
    assert stage.present(stage.pods()) == ["db-0", "db-1", "db-2"]
    status = stage.status("statefulsets", "db")
    assert (status["currentRevision"], status["updateRevision"]) == (old, new)
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)
    stage.live(10)
    assert stage.images() == ["shop:2"] * 3
    status = stage.status("statefulsets", "db")
    assert status["currentRevision"] == status["updateRevision"] == new
    assert (status["currentReplicas"], status["updatedReplicas"]) == (3, 3)


def test_a_parallel_set_too_is_updated_one_pod_at_a_time() -> None:
    stage = a_stage(3, podManagementPolicy="Parallel")
    stage.live(2)
    stage.set_image("statefulsets", "db", "shop:2")
    stage.run(5)
    assert stage.present(stage.pods()) == ["db-0", "db-1"]
    stage.reap()
    stage.run(5)
    assert stage.present(stage.pods()) == ["db-0", "db-1", "db-2"]
    stage.live(8)
    assert stage.images() == ["shop:2"] * 3


def test_a_sick_pod_that_is_to_go_waits_for_the_sick_one_below_it() -> None:
    stage = a_stage(3)
    stage.live(6)
    for name in ("db-1", "db-2"):
        stage.start(stage.get("pods", name), ready=False)
    stage.edit("statefulsets", "db", replicas=1)
    stage.run(5)
    assert stage.present(stage.pods()) == ["db-0", "db-1", "db-2"]
    stage.start(stage.get("pods", "db-1"))
    stage.run(5)
    assert stage.present(stage.pods()) == ["db-0", "db-1"]


def test_a_claim_that_is_gone_is_made_again() -> None:
    stage = a_stage(1, volumeClaimTemplates=[CLAIM])
    stage.live(2)
    free: Json = {"finalizers": []}
    stage.change("persistentvolumeclaims", "data-db-0", lambda held: {**held, "metadata": {**held["metadata"], **free}})
    stage.delete("persistentvolumeclaims", "data-db-0")
    assert stage.all("persistentvolumeclaims") == []
    stage.look_again("db")
    assert len(stage.all("persistentvolumeclaims")) == 1


def test_pods_below_the_partition_keep_their_revision_even_when_made_anew() -> None:
    stage = a_stage(3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    stage.live(6)
    stage.set_image("statefulsets", "db", "shop:2")
    stage.live(6)
    assert stage.images() == ["shop:1", "shop:1", "shop:2"]
    stage.delete("pods", "db-0", grace_s=0)
    stage.live(4)
    assert stage.images() == ["shop:1", "shop:1", "shop:2"]
    stage.edit("statefulsets", "db", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    stage.live(8)
    assert stage.images() == ["shop:2"] * 3


def test_on_delete_only_the_user_replaces_pods() -> None:
    stage = a_stage(2, updateStrategy={"type": "OnDelete"})
    stage.live(5)
    stage.set_image("statefulsets", "db", "shop:2")
    stage.live(4)
    assert stage.images() == ["shop:1", "shop:1"]
    stage.delete("pods", "db-1", grace_s=0)
    stage.live(4)
    assert stage.get("pods", "db-1")["spec"]["containers"][0]["image"] == "shop:2"
    assert stage.get("pods", "db-0")["spec"]["containers"][0]["image"] == "shop:1"


def test_going_back_is_the_old_revision_under_a_new_number() -> None:
    stage = a_stage(1)
    stage.live(3)
    stage.set_image("statefulsets", "db", "shop:2")
    stage.live(4)
    (_, first), (_, second) = revisions(stage)
    stage.set_image("statefulsets", "db", "shop:1")
    stage.live(4)
    assert revisions(stage) == [(2, second), (3, first)]
    assert stage.images() == ["shop:1"]


def test_a_revision_is_a_patch_that_brings_the_template_back() -> None:
    stage = a_stage(1)
    stage.run()
    (revision,) = stage.all("controllerrevisions")
    template = stage.get("statefulsets", "db")["spec"]["template"]
    assert revision["data"] == {"spec": {"template": {**template, "$patch": "replace"}}}
    assert revision["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"


def test_old_revisions_are_forgotten_beyond_the_limit() -> None:
    stage = a_stage(1, revisionHistoryLimit=1)
    for number in range(1, 6):
        stage.set_image("statefulsets", "db", f"shop:{number}")
        stage.live(4)
    assert [number for number, _ in revisions(stage)] == [4, 5]


def test_the_next_pod_waits_until_the_one_before_was_ready_for_long_enough() -> None:
    stage = a_stage(2, minReadySeconds=30)
    stage.run()
    stage.start_all()
    stage.run(28)
    assert stage.names() == ["db-0"]
    assert stage.status("statefulsets", "db")["availableReplicas"] == 0
    stage.run(5)
    assert stage.names() == ["db-0", "db-1"]


def test_only_orphans_with_a_fitting_name_are_taken_in() -> None:
    stage = Stage()
    for name in ("db-0", "db-x"):
        spec = {"containers": [{"name": "main", "image": "shop:1"}]}
        stage.create("pods", {"metadata": {"name": name, "labels": {"app": "db"}}, "spec": spec})
    stage.create("statefulsets", a_workload("db", 1, serviceName="db"))
    stage.run()
    assert stage.get("pods", "db-0")["metadata"]["ownerReferences"][0]["name"] == "db"
    assert "ownerReferences" not in stage.get("pods", "db-x")["metadata"]
