"""Jobs whose pods all run at once become gangs with the gate WorkloadWithJob."""

from typing import Any

import pytest

from mooring.controllers.workloads.job_groups import new_group_name, workload_name
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

GATES = {"GenericWorkload": True, "GangScheduling": True, "WorkloadWithJob": True}
HOME = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def a_world(gates: dict[str, bool] | None = None) -> VirtualCluster:
    gates = GATES if gates is None else gates
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.node("n1", "4")
    return world


def run(world: VirtualCluster, **spec: Any) -> None:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}}
    usual = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
    world.ask("POST", JOBS, {"metadata": {"name": "train"}, "spec": {**usual, **spec}})
    world.wait(3)


def pods(world: VirtualCluster) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = world.ask("GET", "/api/v1/namespaces/default/pods")["items"]
    return items


def listed(world: VirtualCluster, plural: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = world.ask("GET", f"{HOME}/{plural}")["items"]
    return items


def test_a_job_gets_a_workload_and_a_group_that_its_pods_name() -> None:
    world = a_world()
    run(world)
    (workload,), (group,) = listed(world, "workloads"), listed(world, "podgroups")
    assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "train"}
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
    named = group["spec"]["podGroupTemplateRef"]["workload"]
    assert named == {"workloadName": workload["metadata"]["name"], "podGroupTemplateName": "train-pgt-0"}
    assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["Job", "Workload"]
    for pod in pods(world):
        assert pod["spec"]["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}
        assert [owner["kind"] for owner in pod["metadata"]["ownerReferences"]] == ["Job", "PodGroup"]


def test_its_pods_start_together() -> None:
    world = a_world()
    run(world)
    assert [pod["spec"].get("nodeName", "") for pod in pods(world)] == ["", "", ""]
    world.node("n2", "4")
    world.wait(15)
    assert all(pod["spec"].get("nodeName") for pod in pods(world))
    assert (len(listed(world, "workloads")), len(listed(world, "podgroups"))) == (1, 1)


OTHERS: dict[str, dict[str, Any]] = {
    "not indexed": {"completionMode": "NonIndexed"},
    "one pod": {"parallelism": 1, "completions": 1},
    "not all at once": {"completions": 5},
    "a group of its own": {"pod": {"schedulingGroup": {"podGroupName": "mine"}}},
}


@pytest.mark.parametrize("spec", OTHERS.values(), ids=OTHERS)
def test_other_jobs_get_none(spec: dict[str, Any]) -> None:
    world = a_world()
    run(world, **spec)
    assert (listed(world, "workloads"), listed(world, "podgroups")) == ([], [])


def test_without_the_gate_no_job_gets_one() -> None:
    world = a_world({"GenericWorkload": True, "GangScheduling": True})
    run(world)
    assert (listed(world, "workloads"), listed(world, "podgroups")) == ([], [])
    assert not any("schedulingGroup" in pod["spec"] for pod in pods(world))


def test_names_are_stable_and_short_enough() -> None:
    job = {"metadata": {"name": "j" * 250, "uid": "u-1"}}
    name = workload_name(job)
    assert name == workload_name(job) and len(name) <= 253 and name.startswith("j" * 200)
    for workload, template in (("w" * 250, "t" * 60), ("w", "t" * 300), ("w" * 300, "t" * 300)):
        assert len(new_group_name(workload, template)) == 253
    assert new_group_name("w", "t").startswith("w-t-") and new_group_name("w", "t") != new_group_name("wt", "")
