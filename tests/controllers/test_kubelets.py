"""Pods on simulated nodes: they run, become ready, end, begin again and stop as their annotations say."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.controllers.all_controllers import cluster_services
from mooring.controllers.nodes.pod_life import Script, backoff_s


@pytest.fixture
def cluster() -> LivingCluster:
    cluster = LivingCluster()
    cluster.node("node")
    return cluster


def container(cluster: LivingCluster, pod: str = "pod") -> dict[str, Any]:
    (status,) = cluster.status("pods", pod)["containerStatuses"]
    found: dict[str, Any] = status
    return found


def test_a_bound_pod_runs_at_once_with_one_write(cluster: LivingCluster) -> None:
    before = cluster.api.store.version
    pod = cluster.pod(node="node")
    assert cluster.api.store.version - before == 3, "created, bound, running"
    status = pod["status"]
    assert status["phase"] == "Running"
    assert [c["type"] for c in status["conditions"]] == [
        *("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    assert {c["status"] for c in status["conditions"]} == {"True"}
    assert status["hostIP"] == cluster.status("nodes", "node")["addresses"][0]["address"]
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert (status["qosClass"], status["observedGeneration"]) == ("BestEffort", 1)
    main = container(cluster)
    assert (main["name"], main["ready"], main["started"], main["restartCount"]) == ("main", True, True, 0)
    assert main["state"] == {"running": {"startedAt": status["startTime"]}}
    assert main["containerID"].startswith("containerd://")


def test_addresses_and_container_ids_are_unique(cluster: LivingCluster) -> None:
    pods = [cluster.pod(f"pod-{i}", node="node") for i in range(100)]
    assert len({pod["status"]["podIP"] for pod in pods}) == 100
    assert len({pod["status"]["containerStatuses"][0]["containerID"] for pod in pods}) == 100
    assert all(pod["status"]["podIP"].startswith("10.") for pod in pods)


def test_a_pod_on_the_host_network_has_the_address_of_its_node(cluster: LivingCluster) -> None:
    status = cluster.pod(node="node", hostNetwork=True)["status"]
    assert status["podIP"] == status["hostIP"]


def test_a_pod_without_a_node_or_on_an_unknown_one_is_left_alone(cluster: LivingCluster) -> None:
    cluster.pod("nowhere")
    cluster.pod("elsewhere", node="unknown")
    assert (cluster.phase("nowhere"), cluster.phase("elsewhere")) == ("Pending", "Pending")
    cluster.node("unknown")
    assert cluster.phase("elsewhere") == "Running"


def test_a_pod_created_on_its_node_is_said_to_be_scheduled(cluster: LivingCluster) -> None:
    cluster.pod(nodeName="node")
    assert cluster.condition("pods", "pod", "PodScheduled") == "True"


def test_init_containers_have_done_their_work_and_sidecars_go_on(cluster: LivingCluster) -> None:
    inits = [{"name": "setup", "image": "x"}, {"name": "proxy", "image": "y", "restartPolicy": "Always"}]
    setup, proxy = cluster.pod(node="node", initContainers=inits)["status"]["initContainerStatuses"]
    assert (setup["state"]["terminated"]["reason"], setup["ready"]) == ("Completed", True)
    assert ("running" in proxy["state"], proxy["started"]) == (True, True)


def test_a_slow_start_shows_containers_being_created(cluster: LivingCluster) -> None:
    cluster.pod(node="node", annotations={"start-seconds": 20})
    assert cluster.phase() == "Pending"
    assert container(cluster)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    cluster.wait(19)
    assert cluster.phase() == "Pending"
    cluster.wait(1)
    assert cluster.phase() == "Running"


def test_the_usual_start_can_be_slow_too() -> None:
    cluster = LivingCluster(lambda api: cluster_services(api, Script(start_s=3)))
    cluster.node("node")
    cluster.pod(node="node")
    cluster.pod("hasty", node="node", annotations={"start-seconds": 0})
    assert (cluster.phase(), cluster.phase("hasty")) == ("Pending", "Running")
    cluster.wait(3)
    assert cluster.phase() == "Running"


def test_readiness_comes_later_where_asked(cluster: LivingCluster) -> None:
    cluster.pod(node="node", annotations={"ready-seconds": 5})
    assert cluster.condition("pods", "pod", "Ready") == "False ContainersNotReady"
    assert not container(cluster)["ready"]
    cluster.wait(5)
    assert cluster.condition("pods", "pod", "Ready") == "True"
    assert container(cluster)["ready"]


def test_readiness_gates_keep_a_pod_from_being_ready(cluster: LivingCluster) -> None:
    cluster.pod(node="node", readinessGates=[{"conditionType": "example.com/load-balancer"}])
    assert cluster.condition("pods", "pod", "ContainersReady") == "True"
    assert cluster.condition("pods", "pod", "Ready") == "False ReadinessGatesNotReady"
    open_gate = {"type": "example.com/load-balancer", "status": "True"}
    cluster.change(
        *("pods", "pod"),
        lambda pod: {
            **pod,
            "status": {**pod["status"], "conditions": [*pod["status"]["conditions"], open_gate]},
        },
        "status",
    )
    assert cluster.condition("pods", "pod", "Ready") == "True"


ENDS = {
    "zero and Never": ("Never", 0, "Succeeded", "Completed"),
    "zero and OnFailure": ("OnFailure", 0, "Succeeded", "Completed"),
    "non-zero and Never": ("Never", 3, "Failed", "Error"),
}


@pytest.mark.parametrize(("policy", "code", "phase", "reason"), ENDS.values(), ids=ENDS.keys())
def test_a_pod_ends(cluster: LivingCluster, policy: str, code: int, phase: str, reason: str) -> None:
    cluster.pod(node="node", restartPolicy=policy, annotations={"run-seconds": 10, "exit-code": code})
    cluster.wait(9)
    assert cluster.phase() == "Running"
    cluster.wait(1)
    assert cluster.phase() == phase
    ended = container(cluster)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)
    assert cluster.condition("pods", "pod", "Ready") == f"False Pod{'Completed' if phase == 'Succeeded' else 'Failed'}"


@pytest.mark.parametrize(("policy", "code"), [("Always", 0), ("Always", 1), ("OnFailure", 1)])
def test_a_pod_begins_again_and_waits_longer_each_time(cluster: LivingCluster, policy: str, code: int) -> None:
    cluster.pod(node="node", restartPolicy=policy, annotations={"run-seconds": 5, "exit-code": code})
    cluster.wait(5)
    assert container(cluster)["restartCount"] == 1, "the first time at once"
    assert container(cluster)["lastState"]["terminated"]["exitCode"] == code
    cluster.wait(5)
    assert container(cluster)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert cluster.condition("pods", "pod", "Ready") == "False ContainersNotReady"
    assert cluster.phase() == "Running"
    cluster.wait(9)
    assert container(cluster)["restartCount"] == 1
    cluster.wait(1)
    assert (container(cluster)["restartCount"], "running" in container(cluster)["state"]) == (2, True)
    cluster.wait(5 + 19)
    assert container(cluster)["restartCount"] == 2
    cluster.wait(1)
    assert container(cluster)["restartCount"] == 3


def test_the_wait_grows_to_five_minutes() -> None:
    assert [backoff_s(restarts) for restarts in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_the_deadline_of_a_pod_fails_it(cluster: LivingCluster) -> None:
    cluster.pod(node="node", activeDeadlineSeconds=30)
    cluster.wait(30)
    assert (cluster.phase(), cluster.status("pods", "pod")["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_changed_image_starts_the_container_again(cluster: LivingCluster) -> None:
    cluster.pod(node="node")
    containers = [{**cluster.get("pods", "pod")["spec"]["containers"][0], "image": "y:2"}]
    cluster.change("pods", "pod", lambda pod: {**pod, "spec": {**pod["spec"], "containers": containers}})
    assert (container(cluster)["image"], container(cluster)["restartCount"]) == ("y:2", 1)
    assert cluster.status("pods", "pod")["observedGeneration"] == 2


def test_pods_that_do_not_always_restart_complete_unless_they_say_otherwise(cluster: LivingCluster) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    uid = cluster.create("jobs", "j", {"spec": {"template": template}})["metadata"]["uid"]
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": True}
    owned = {"ownerReferences": [job]}
    meta: dict[str, dict[str, Any]] = {
        "never": {"run-seconds": "never"},
        "long": {"run-seconds": 60},
        "fails": {"exit-code": 1},
        "usual": {},
    }
    for name, annotations in meta.items():
        marks = {f"mooring.dev/{key}": str(value) for key, value in annotations.items()}
        cluster.pod(name, node="node", metadata={**owned, "annotations": marks}, restartPolicy="Never")
    cluster.pod("alone", node="node", restartPolicy="Never")
    cluster.pod("retried", node="node", restartPolicy="OnFailure")
    cluster.wait(4)
    assert cluster.phase("usual") == "Running"
    cluster.wait(1)
    phases = {name: cluster.phase(name) for name in (*meta, "alone", "retried")}
    assert phases == {
        "never": "Running",
        "long": "Running",
        "fails": "Failed",
        "usual": "Succeeded",
        "alone": "Succeeded",
        "retried": "Succeeded",
    }
    cluster.wait(1000)
    assert cluster.phase("never") == "Running" and cluster.phase("long") == "Succeeded"


STOPS = {
    "usually after a second": ({}, 30, 1),
    "as its annotation says": ({"stop-seconds": 12}, 30, 12),
    "never later than its grace": ({"stop-seconds": 60}, 5, 5),
}


@pytest.mark.parametrize(("annotations", "grace_s", "stop_s"), STOPS.values(), ids=STOPS.keys())
def test_a_deleted_pod_stops(cluster: LivingCluster, annotations: dict[str, int], grace_s: int, stop_s: int) -> None:
    cluster.pod(node="node", annotations=annotations, terminationGracePeriodSeconds=grace_s)
    cluster.delete("pods", "pod")
    cluster.wait(stop_s - 0.5)
    assert cluster.phase() == "Running"
    cluster.wait(0.5)
    assert cluster.phase() == "gone"


def hooked(**hook: Any) -> list[JsonObject]:
    return [{"name": "main", "image": "x", "lifecycle": {"preStop": hook}}]


HOOKS = {
    "a sleep and then the usual second": (hooked(sleep={"seconds": 20}), {}, 30, 21),
    "a sleep and then as its annotation says": (hooked(sleep={"seconds": 5}), {"stop-seconds": 7}, 30, 12),
    "both within the grace": (hooked(sleep={"seconds": 20}), {"stop-seconds": 60}, 30, 30),
    "two seconds when the sleep has used up the grace": (hooked(sleep={"seconds": 30}), {"stop-seconds": 60}, 30, 32),
    "a sleep of less than nothing is none": (hooked(sleep={"seconds": -5}), {}, 30, 1),
    "a command takes no time": (hooked(exec={"command": ["sleep", "20"]}), {}, 30, 1),
    "a request takes no time": (hooked(httpGet={"port": 80}), {}, 30, 1),
}


@pytest.mark.parametrize(("containers", "annotations", "grace_s", "stop_s"), HOOKS.values(), ids=HOOKS.keys())
def test_a_hook_holds_a_deleted_pod_back(
    cluster: LivingCluster, containers: list[JsonObject], annotations: dict[str, int], grace_s: int, stop_s: int
) -> None:
    cluster.pod(node="node", containers=containers, annotations=annotations, terminationGracePeriodSeconds=grace_s)
    cluster.delete("pods", "pod")
    cluster.wait(stop_s - 0.5)
    assert cluster.phase() == "Running"
    cluster.wait(0.5)
    assert cluster.phase() == "gone"


def test_the_longest_hook_of_all_containers_counts_those_of_sidecars_too(cluster: LivingCluster) -> None:
    sidecar = {**hooked(sleep={"seconds": 9})[0], "name": "sidecar", "restartPolicy": "Always"}
    done = {**hooked(sleep={"seconds": 20})[0], "name": "init"}
    cluster.pod(node="node", containers=hooked(sleep={"seconds": 3}), initContainers=[done, sidecar])
    cluster.delete("pods", "pod")
    cluster.wait(9.5)
    assert cluster.phase() == "Running"
    cluster.wait(0.5)
    assert cluster.phase() == "gone"


def test_containers_that_do_not_run_have_no_hooks_to_run(cluster: LivingCluster) -> None:
    cluster.pod(node="node", containers=hooked(sleep={"seconds": 20}), annotations={"start-seconds": 60})
    cluster.delete("pods", "pod")
    cluster.wait(1)
    assert cluster.phase() == "gone"


def test_a_shorter_grace_counts_from_the_first_request(cluster: LivingCluster) -> None:
    cluster.pod(node="node", containers=hooked(sleep={"seconds": 30}), annotations={"stop-seconds": 60})
    cluster.delete("pods", "pod")
    cluster.wait(5)
    cluster.delete("pods", "pod", Deletion(grace_s=8))
    assert cluster.get("pods", "pod")["metadata"]["deletionGracePeriodSeconds"] == 8
    cluster.wait(4.5)  # 8 seconds and the shortest stop are over after 10
    assert cluster.phase() == "Running"
    cluster.wait(0.5)
    assert cluster.phase() == "gone"


def test_a_forced_deletion_waits_for_no_hook(cluster: LivingCluster) -> None:
    cluster.pod(node="node", containers=hooked(sleep={"seconds": 20}))
    cluster.delete("pods", "pod", Deletion(grace_s=0))
    assert cluster.phase() == "gone"


def test_a_grace_longer_than_time_itself_is_waited_for(cluster: LivingCluster) -> None:
    cluster.pod(node="node", terminationGracePeriodSeconds=2**62, annotations={"stop-seconds": 100})
    cluster.delete("pods", "pod")
    cluster.wait(99)
    assert cluster.phase() == "Running"
    cluster.wait(1)
    assert cluster.phase() == "gone"


def test_a_deleted_pod_that_finalizers_hold_has_failed_for_those_who_count(cluster: LivingCluster) -> None:
    cluster.pod(node="node", metadata={"finalizers": ["example.com/count"]})
    cluster.delete("pods", "pod")
    cluster.wait(5)
    assert cluster.phase() == "Failed"
    cluster.change("pods", "pod", lambda pod: {**pod, "metadata": {**pod["metadata"], "finalizers": []}})
    assert cluster.phase() == "gone"


def test_a_failed_node_does_nothing_until_it_recovers(cluster: LivingCluster) -> None:
    cluster.pod("old", node="node")
    cluster.annotate("nodes", "node", failed="true")
    cluster.pod("new", node="node")
    cluster.delete("pods", "old")
    cluster.wait(5)
    assert (cluster.phase("old"), cluster.phase("new")) == ("Running", "Pending")
    cluster.annotate("nodes", "node", failed="false")
    assert (cluster.phase("old"), cluster.phase("new")) == ("gone", "Running")
