"""The whole cluster on virtual time: stories of pods from their creation to their end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asking import NODES, PODS
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from virtual_cluster import VirtualCluster

UNFIT = "0/1 nodes are available: 1 Insufficient cpu."
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def test_a_pod_lives_from_its_creation_to_its_end() -> None:
    cluster = VirtualCluster()
    cluster.node()
    made = cluster.pod(metadata={"annotations": {"mooring.dev/run-seconds": "60"}}, restartPolicy="Never")
    assert cluster.place() == "node"
    scheduled = cluster.condition()
    assert scheduled["status"] == "True"
    assert scheduled.keys() == {"type", "status", "lastProbeTime", "lastTransitionTime"}
    cluster.wait(30)
    assert cluster.phase() == "Running"
    assert cluster.get()["metadata"]["uid"] == made["metadata"]["uid"]
    cluster.wait(40)
    assert cluster.phase() == "Succeeded"
    assert [event["message"] for event in cluster.events("Scheduled")] == ["Successfully assigned default/pod to node"]
    cluster.ask("DELETE", f"{PODS}/pod")
    assert cluster.phase() == "gone"


def test_a_pod_that_fits_nowhere_says_so_and_waits() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod(cpu="5")
    found = cluster.condition()
    assert (found["status"], found["reason"], found["observedGeneration"]) == ("False", "Unschedulable", 1)
    assert found["message"].startswith(UNFIT)
    assert found["lastProbeTime"] is None
    (event,) = cluster.events("FailedScheduling")
    assert (event["type"], event["message"]) == ("Warning", found["message"])
    cluster.node("large", cpu="8")
    cluster.wait(15)
    assert cluster.place() == "large"
    assert cluster.condition()["status"] == "True"


def test_another_message_keeps_the_time_of_the_condition() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod(cpu="5")
    before = cluster.condition()
    cluster.wait(20)
    cluster.node("second", cpu="8", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})
    cluster.wait(20)
    after = cluster.condition()
    assert after["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint")
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    cluster.node("large", cpu="8")
    cluster.wait(20)
    assert cluster.condition()["lastTransitionTime"] > before["lastTransitionTime"]


def test_without_nodes_a_pod_waits_for_one() -> None:
    cluster = VirtualCluster()
    cluster.pod()
    assert cluster.condition()["message"].startswith("no nodes available to schedule pods")
    cluster.node()
    cluster.wait(15)
    assert cluster.place() == "node"


def test_a_gated_pod_is_left_alone_until_its_gates_are_gone() -> None:
    cluster = VirtualCluster()
    cluster.node()
    cluster.pod(schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}])
    cluster.wait(60)
    assert (cluster.place(), cluster.condition()["reason"]) == ("", "SchedulingGated")
    assert not cluster.events("FailedScheduling")
    cluster.merge(f"{PODS}/pod", {"spec": {"schedulingGates": [{"name": "example.com/b"}]}})
    cluster.wait(60)
    assert cluster.place() == ""
    cluster.merge(f"{PODS}/pod", {"spec": {"schedulingGates": None}})
    cluster.wait(5)
    assert (cluster.place(), cluster.get()["metadata"]["generation"]) == ("node", 3)


def test_a_more_important_pod_takes_the_place_of_another() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.ask("POST", CLASSES, {"metadata": {"name": "important"}, "value": 1000})
    cluster.pod(
        "victim",
        cpu="3",
        terminationGracePeriodSeconds=20,
        metadata={"annotations": {"mooring.dev/stop-seconds": "20"}},
    )
    cluster.wait(5)
    cluster.pod("preemptor", cpu="3", priorityClassName="important")
    mark = cluster.condition("victim", "DisruptionTarget")
    assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
    assert mark["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    victim = cluster.get("victim")["metadata"]
    assert victim["deletionGracePeriodSeconds"] == 20
    assert cluster.get("preemptor")["status"]["nominatedNodeName"] == "node"
    assert cluster.condition("preemptor")["status"] == "False"
    cluster.wait(10)
    assert (cluster.phase("victim"), cluster.place("preemptor")) == ("Running", "")
    cluster.wait(30)
    assert (cluster.phase("victim"), cluster.place("preemptor")) == ("gone", "node")
    assert "nominatedNodeName" not in cluster.get("preemptor")["status"]
    (event,) = cluster.events("Preempted", "victim")
    uid = cluster.get("preemptor")["metadata"]["uid"]
    assert event["message"] == f"Preempted by pod {uid} on node node"


def test_a_pod_that_finishes_makes_room() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod("first", cpu="3", restartPolicy="Never", metadata={"annotations": {"mooring.dev/run-seconds": "30"}})
    cluster.pod("second", cpu="3")
    assert cluster.place("second") == ""
    cluster.wait(60)
    assert (cluster.phase("first"), cluster.place("second")) == ("Succeeded", "node")


def test_a_pod_that_is_deleted_makes_room() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod("first", cpu="3")
    cluster.pod("second", cpu="3")
    cluster.ask("DELETE", f"{PODS}/first")
    cluster.wait(60)
    assert (cluster.phase("first"), cluster.place("second")) == ("gone", "node")


def test_repetitions_become_a_series() -> None:
    """The pod changes with its first failure, so the second is another event, of which the third is a repetition."""
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod(cpu="5")
    cluster.wait_for(lambda: cluster.cluster.driver.attempts == 4, seconds=1200)
    first, second = sorted(cluster.events("FailedScheduling"), key=lambda event: str(event["eventTime"]))
    assert "series" not in first
    assert second["series"]["count"] == 2, "further repetitions are only counted"
    assert second["series"]["lastObservedTime"] > second["eventTime"]


def test_a_node_that_is_cordoned_gets_no_pods() -> None:
    cluster = VirtualCluster()
    cluster.node()
    cluster.patch(f"{NODES}/node", {"spec": {"unschedulable": True}})
    cluster.pod()
    assert cluster.place() == ""
    cluster.patch(f"{NODES}/node", {"spec": {"unschedulable": None}})
    cluster.wait(20)
    assert cluster.place() == "node"


def test_pods_of_other_schedulers_are_left_alone_but_count() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod("foreign", cpu="3", schedulerName="somebody-else")
    cluster.wait(60)
    assert cluster.place("foreign") == ""
    binding = {"metadata": {"name": "foreign"}, "target": {"kind": "Node", "name": "node"}}
    cluster.ask("POST", f"{PODS}/foreign/binding", binding)
    cluster.pod("ours", cpu="3")
    assert cluster.place("ours") == ""


def test_what_the_scheduler_cannot_read_is_reported_not_fatal() -> None:
    reports: list[str] = []
    cluster = EmbeddedCluster(report=lambda text, fault: reports.append(text))
    odd = {"metadata": {"name": "odd", "namespace": "default", "uid": "u"}, "spec": {"containers": "none"}}
    cluster.api.store.create("/pods", ("default", "odd"), odd)
    assert reports == ["/pods default/odd cannot be read"]


def test_a_cluster_is_the_same_after_a_restart(tmp_path: Path) -> None:
    settings = EmbeddedSettings(data_dir=tmp_path)
    first = VirtualCluster(settings)
    first.node(cpu="4")
    first.pod("bound", cpu="3")
    first.pod("waiting", cpu="3")
    kept = {name: first.get(name) for name in ("bound", "waiting")}
    first.cluster.close()
    second = VirtualCluster(settings)
    assert second.get("bound")["metadata"]["uid"] == kept["bound"]["metadata"]["uid"]
    assert (second.place("bound"), second.place("waiting")) == ("node", "")
    second.ask("DELETE", f"{PODS}/bound")
    second.wait(60)
    assert second.place("waiting") == "node"
    second.cluster.close()


def test_a_fault_is_reported_and_the_cluster_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    cluster = EmbeddedCluster(report=lambda text, fault: reports.append(f"{text}: {fault}"))
    monkeypatch.setattr("mooring.embedded.embedded_cluster.LONGEST_SLEEP_S", 0.01)
    faults: list[Exception] = [ValueError("a fault"), RuntimeError("a bug")]
    steps: list[int] = []
    real = cluster.step

    def step() -> int:
        steps.append(1)
        if faults:
            raise faults.pop(0)
        return real()

    monkeypatch.setattr(cluster, "step", step)

    async def live() -> None:
        running = asyncio.create_task(cluster.run())
        while len(steps) < 4:
            await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()

    asyncio.run(asyncio.wait_for(live(), 30))
    assert reports == [
        "the cluster met an unexpected error and tries again: a fault",
        "the cluster met an unexpected error and tries again: a bug",
    ]


def test_many_pods_in_small_steps() -> None:
    cluster = VirtualCluster()
    for number in range(5):
        cluster.node(f"node-{number}", cpu="10")
    for number in range(60):
        cluster.api.create(_pods(), "default", _plain_pod(f"pod-{number}"))
    assert cluster.cluster.step(limit=7) >= 7
    assert cluster.cluster.driver.bound == 7
    cluster.cluster.settle()
    bound = [pod for pod in cluster.api.store.all("/pods") if pod["spec"].get("nodeName")]
    assert len(bound) == cluster.cluster.driver.bound == 50


def _pods() -> Any:
    from mooring.api.kinds.pods import POD as RESOURCE

    return RESOURCE


def _plain_pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}
