"""Deployments as `kubectl rollout`, `kubectl scale` and `kubectl wait` see them."""

from typing import Any

import pytest

from mooring.controllers.workloads.deployment_sets import look_at
from mooring.controllers.workloads.deployments import progressed
from workload_stage import Json, Stage, a_workload

REVISION = "deployment.kubernetes.io/revision"


def a_stage(replicas: int = 4, **spec: Any) -> Stage:
    """With a Deployment `web` that is rolled out."""
    stage = Stage()
    stage.create("deployments", a_workload("web", replicas, **spec))
    stage.live(5)
    return stage


def by_revision(stage: Stage) -> dict[str, Json]:
    return {item["metadata"]["annotations"][REVISION]: item for item in stage.all("replicasets")}


def sizes(stage: Stage) -> dict[str, int]:
    """Replicas of the sets by their revision."""
    return {revision: item["spec"]["replicas"] for revision, item in sorted(by_revision(stage).items())}


def test_a_new_deployment_rolls_out() -> None:
    stage = a_stage(2)
    (replica_set,) = stage.all("replicasets")
    name, labels = replica_set["metadata"]["name"], replica_set["metadata"]["labels"]
    digest = labels["pod-template-hash"]
    assert name == f"web-{digest}"
    assert set(digest) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert replica_set["spec"]["selector"]["matchLabels"] == labels == {"app": "web", "pod-template-hash": digest}
    assert stage.pods()[0]["metadata"]["labels"] == labels
    assert stage.get("deployments", "web")["metadata"]["annotations"] == {REVISION: "1"}
    assert ("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2") in stage.events()
    status = stage.status("deployments", "web")
    conditions = {c["type"]: (c["status"], c["reason"], c["message"]) for c in status.pop("conditions")}
    assert status == {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
    }
    assert conditions == {
        "Available": ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        "Progressing": ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'),
    }


def test_before_its_pods_are_ready_it_is_not_available() -> None:
    stage = Stage()
    stage.create("deployments", a_workload("web", 2))
    stage.run()
    status = stage.status("deployments", "web")
    assert (status["unavailableReplicas"], status.get("availableReplicas")) == (2, None)
    available = stage.condition("deployments", "web", "Available")
    assert (available["status"], available["reason"], available["message"]) == (
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )
    progressing = stage.condition("deployments", "web", "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "ReplicaSetUpdated")


def test_a_rolling_update_stays_within_its_bounds_at_every_moment() -> None:
    stage = a_stage(10)
    stage.set_image("deployments", "web", "shop:2")
    seen: list[tuple[int, int]] = []

    def look(_: object) -> None:
        sets = stage.api.store.all("apps/replicasets")
        seen.append(
            (
                sum(item["spec"]["replicas"] for item in sets),
                sum(item["status"].get("availableReplicas", 0) for item in sets),
            )
        )

    stage.api.store.listen(look)
    stage.live(30)
    assert stage.images() == ["shop:2"] * 10
    assert max(total for total, _ in seen) == 13
    assert min(available for _, available in seen) == 8
    assert sizes(stage) == {"1": 0, "2": 10}


def test_a_rolling_update_takes_the_steps_of_upstream() -> None:
    stage = a_stage(5)
    stage.set_image("deployments", "web", "shop:2")
    stage.live(20)
    old, new = (by_revision(stage)[revision]["metadata"]["name"] for revision in "12")
    scaled = [message for reason, message in stage.events() if reason == "ScalingReplicaSet"]
    assert scaled[1:4] == [
        f"Scaled up replica set {new} from 0 to 2",
        f"Scaled down replica set {old} from 5 to 4",
        f"Scaled up replica set {new} from 2 to 3",
    ]


@pytest.mark.parametrize(
    ("surge", "unavailable", "first"),
    [
        pytest.param(1, 0, {"1": 4, "2": 1}, id="one more, none less"),
        pytest.param(0, 1, {"1": 3, "2": 1}, id="none more, one less"),
        pytest.param("50%", "50%", {"1": 2, "2": 4}, id="half more, half less"),
        pytest.param(0, 0, {"1": 3, "2": 1}, id="neither is taken for one less"),
    ],
)
def test_the_first_step_of_an_update_that_does_not_work(surge: Any, unavailable: Any, first: dict[str, int]) -> None:
    """No new pod ever becomes ready, so that is where it stays."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    stage = a_stage(4, strategy=strategy)
    stage.set_image("deployments", "web", "broken")
    for _ in range(5):
        stage.run()
        stage.reap()
    assert sizes(stage) == first


def test_recreate_ends_all_old_pods_first() -> None:
    stage = a_stage(3, strategy={"type": "Recreate"})
    stage.set_image("deployments", "web", "shop:2")
    stage.run(5)
    assert sizes(stage) == {"1": 0}
    assert stage.images() == []
    assert len(stage.pods()) == 3
    stage.reap()
    stage.run()
    assert stage.images() == ["shop:2"] * 3
    stage.live(3)
    assert stage.condition("deployments", "web", "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_a_deployment_that_turns_to_recreation_in_the_middle_of_an_update_gets_there() -> None:
    stage = a_stage(4)
    stage.set_image("deployments", "web", "broken")
    stage.run()
    stage.edit("deployments", "web", strategy={"type": "Recreate"}, replicas=3)
    stage.live(6)
    assert sizes(stage) == {"1": 0, "2": 3}
    assert stage.status("deployments", "web")["availableReplicas"] == 3


def test_a_deployment_that_waits_for_its_end_is_left_in_peace() -> None:
    stage = a_stage(1, progressDeadlineSeconds=60)
    hold = {"finalizers": ["example.com/hold"]}
    stage.change("deployments", "web", lambda held: {**held, "metadata": {**held["metadata"], **hold}})
    stage.set_image("deployments", "web", "broken")
    stage.run()
    stage.delete("deployments", "web")
    stage.run(120)
    assert stage.loop.next_ns() is None


def test_scale_changes_the_one_set() -> None:
    stage = a_stage(2)
    stage.edit("deployments", "web", replicas=5)
    stage.live(3)
    assert sizes(stage) == {"1": 5}
    assert stage.status("deployments", "web")["availableReplicas"] == 5
    stage.edit("deployments", "web", replicas=0)
    stage.live(3)
    assert stage.pods() == []
    assert stage.status("deployments", "web").get("replicas", 0) == 0


def test_scaling_in_the_middle_of_an_update_gives_each_set_its_share() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    stage = a_stage(10, strategy=strategy)
    stage.set_image("deployments", "web", "broken")
    stage.run()
    assert sizes(stage) == {"1": 8, "2": 5}
    stage.edit("deployments", "web", replicas=15)
    stage.run()
    assert sizes(stage) == {"1": 11, "2": 7}


def test_undo_brings_the_old_set_back_under_a_new_revision() -> None:
    stage = a_stage(2)
    stage.set_image("deployments", "web", "shop:2")
    stage.live(8)
    first = by_revision(stage)["1"]["metadata"]["name"]
    stage.set_image("deployments", "web", "shop:1")
    stage.live(8)
    assert stage.images() == ["shop:1", "shop:1"]
    assert sorted(by_revision(stage)) == ["2", "3"]
    again = by_revision(stage)["3"]
    assert again["metadata"]["name"] == first
    assert again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert stage.get("deployments", "web")["metadata"]["annotations"][REVISION] == "3"


def test_restart_is_a_new_template() -> None:
    stage = a_stage(2)
    before = stage.pods()
    template = stage.get("deployments", "web")["spec"]["template"]
    annotations = {"kubectl.kubernetes.io/restartedAt": "2027-01-15T09:00:00Z"}
    stage.edit(
        "deployments", "web", template={**template, "metadata": {**template["metadata"], "annotations": annotations}}
    )
    stage.live(8)
    assert stage.present(before) == []
    assert len(stage.pods()) == 2
    assert stage.pods()[0]["metadata"]["annotations"] == annotations


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    stage = a_stage(2)
    stage.edit("deployments", "web", paused=True)
    stage.set_image("deployments", "web", "shop:2")
    stage.edit("deployments", "web", replicas=3)
    stage.live(3)
    assert stage.images() == ["shop:1"] * 3
    progressing = stage.condition("deployments", "web", "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("Unknown", "DeploymentPaused")
    stage.edit("deployments", "web", paused=False)
    stage.live(8)
    assert stage.images() == ["shop:2"] * 3
    assert stage.condition("deployments", "web", "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_an_update_that_is_stuck_is_late_after_its_deadline() -> None:
    stage = a_stage(2, progressDeadlineSeconds=60)
    stage.set_image("deployments", "web", "broken")
    stage.run(55)
    assert stage.condition("deployments", "web", "Progressing")["reason"] == "ReplicaSetUpdated"
    stage.run(10)
    name = by_revision(stage)["2"]["metadata"]["name"]
    late = stage.condition("deployments", "web", "Progressing")
    assert (late["status"], late["reason"], late["message"]) == (
        "False",
        "ProgressDeadlineExceeded",
        f'ReplicaSet "{name}" has timed out progressing.',
    )
    stage.live(8)
    assert stage.condition("deployments", "web", "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_the_history_keeps_as_many_sets_as_it_may() -> None:
    stage = a_stage(1, revisionHistoryLimit=2)
    for number in range(2, 7):
        stage.set_image("deployments", "web", f"shop:{number}")
        stage.live(5)
    assert sizes(stage) == {"4": 0, "5": 0, "6": 1}


def test_the_history_forgets_what_was_used_longest_ago() -> None:
    stage = a_stage(1, revisionHistoryLimit=1)
    for number in (2, 1, 3):
        stage.set_image("deployments", "web", f"shop:{number}")
        stage.live(5)
    images = {r: item["spec"]["template"]["spec"]["containers"][0]["image"] for r, item in by_revision(stage).items()}
    assert images == {"3": "shop:1", "4": "shop:3"}


def test_a_pause_does_not_hide_that_an_update_is_late() -> None:
    stage = a_stage(2, progressDeadlineSeconds=60)
    stage.set_image("deployments", "web", "broken")
    stage.run(65)
    stage.edit("deployments", "web", paused=True)
    stage.run()
    assert stage.condition("deployments", "web", "Progressing")["reason"] == "ProgressDeadlineExceeded"


def test_annotations_go_along_to_the_set() -> None:
    stage = Stage()
    workload = a_workload("web", 1)
    workload["metadata"]["annotations"] = {
        "kubernetes.io/change-cause": "first",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    stage.create("deployments", workload)
    stage.live(2)
    assert stage.all("replicasets")[0]["metadata"]["annotations"] == {
        "kubernetes.io/change-cause": "first",
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "1",
        "deployment.kubernetes.io/max-replicas": "2",
    }


def test_a_name_that_is_taken_is_not_used() -> None:
    stage = a_stage(1)
    (taken,) = stage.all("replicasets")
    other = Stage()
    stranger = a_workload(taken["metadata"]["name"], 0, selector={"matchLabels": {"app": "stranger"}})
    other.create("replicasets", stranger)
    other.create("deployments", a_workload("web", 1))
    other.live(3)
    assert other.status("deployments", "web")["collisionCount"] == 1
    assert other.status("deployments", "web")["availableReplicas"] == 1


def test_an_orphaned_set_is_taken_in() -> None:
    stage = a_stage(1)
    (owned,) = stage.all("replicasets")
    name = owned["metadata"]["name"]
    stage.change("replicasets", name, lambda held: {**held, "metadata": {**held["metadata"], "ownerReferences": []}})
    stage.run()
    assert stage.get("replicasets", name)["metadata"]["ownerReferences"][0]["name"] == "web"
    assert len(stage.all("replicasets")) == 1


def test_a_set_that_someone_else_scaled_is_set_right() -> None:
    stage = a_stage(3)
    (owned,) = stage.all("replicasets")
    stage.edit("replicasets", owned["metadata"]["name"], replicas=7)
    stage.live(3)
    assert sizes(stage) == {"1": 3}


def test_pods_that_cannot_be_made_show_in_the_status() -> None:
    stage = Stage()
    workload = a_workload("web", 1, progressDeadlineSeconds=30)
    workload["spec"]["template"]["spec"]["priorityClassName"] = "nope"
    stage.create("deployments", workload)
    stage.run(5)
    failure = stage.condition("deployments", "web", "ReplicaFailure")
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")


def test_nothing_is_written_when_nothing_changes() -> None:
    stage = a_stage(2)
    assert stage.look_again("web") == 0
    assert stage.look_again("nobody") == 0


def test_progress_is_seen_as_rollout_status_reads_it() -> None:
    """It waits until as many pods as wanted are updated, no old ones are left, and all are available."""
    stage = a_stage(3)
    stage.set_image("deployments", "web", "shop:2")
    generation = stage.get("deployments", "web")["metadata"]["generation"]
    stage.run()
    status = stage.status("deployments", "web")
    assert status["observedGeneration"] == generation
    assert status["updatedReplicas"] == 1 < status["replicas"]
    stage.live(10)
    status = stage.status("deployments", "web")
    assert status["updatedReplicas"] == status["replicas"] == status["availableReplicas"] == 3


def test_fewer_old_pods_are_progress_too() -> None:
    stage = a_stage(4, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
    deployment = stage.get("deployments", "web")
    (old,) = stage.all("replicasets")
    look = look_at(deployment, [{**old, "status": {**old["status"], "replicas": 3, "availableReplicas": 3}}])
    look.old, look.new = look.sets, None
    look.deployment = {**deployment, "status": {**deployment["status"], "updatedReplicas": 0}}
    status = progressed(look, stage.clock.now_ns(), stage.api.now())
    (progressing,) = [held for held in status["conditions"] if held["type"] == "Progressing"]
    assert (progressing["reason"], progressing["message"]) == ("ReplicaSetUpdated", 'Deployment "web" is progressing.')
