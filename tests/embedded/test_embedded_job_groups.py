"""v1.37, 22: with the gate WorkloadWithJob, Jobs get Workloads and PodGroups as their `spec.scheduling` says."""

from typing import Any

import pytest

from mooring.controllers.workloads.jobs import GROUP_TEMPLATE_NAME, new_group_name, template_of, workload_name
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

GATES = {"GenericWorkload": True, "WorkloadWithJob": True}
HOME = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}


def a_world(gates: dict[str, bool] | None = None) -> VirtualCluster:
    gates = GATES if gates is None else gates
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.node("n1", "8")
    return world


def a_job(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}}
    usual = {"parallelism": 3, "completions": 3, "template": template}
    metadata = {"name": "train", **spec.pop("metadata", {})}
    return {"metadata": metadata, "spec": {**usual, **spec}}


def run(world: VirtualCluster, **spec: Any) -> None:
    world.ask("POST", JOBS, a_job(**spec))
    world.wait(3)


def pods(world: VirtualCluster) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = world.ask("GET", "/api/v1/namespaces/default/pods")["items"]
    return items


def listed(world: VirtualCluster, plural: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = world.ask("GET", f"{HOME}/{plural}")["items"]
    return items


def events(world: VirtualCluster) -> set[str]:
    items: list[dict[str, Any]] = world.ask("GET", "/api/v1/namespaces/default/events")["items"]
    return {f"{item['reason']}: {item['message']}" for item in items if item["involvedObject"]["kind"] == "Job"}


def test_v137_22_a_job_gets_a_workload_and_a_group_that_its_pods_name() -> None:
    world = a_world()
    run(world, scheduling={**GANG, "disruptionMode": {"all": {}}})
    (workload,), (group,) = listed(world, "workloads"), listed(world, "podgroups")
    name = workload["metadata"]["name"]
    assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "train"}
    assert (group["spec"]["schedulingPolicy"], group["spec"]["disruptionMode"]) == (
        {"gang": {"minCount": 3}},
        {"all": {}},
    )
    assert group["spec"]["workloadRef"] == {"workloadName": name, "templateName": "train-pgt-0"}
    assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["Job", "Workload"]
    for pod in pods(world):
        assert pod["spec"]["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}
        assert [owner["kind"] for owner in pod["metadata"]["ownerReferences"]] == ["Job", "PodGroup"]
    group_name = group["metadata"]["name"]
    made = {
        f"WorkloadCreated: Created Workload {name} for Job train",
        f"PodGroupCreated: Created PodGroup {group_name} for Job train",
    }
    assert made <= events(world)


POLICIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing asked": ({}, {"basic": {}}),
    "indexed, all at once: a gang in v1.36": ({"completionMode": "Indexed"}, {"basic": {}}),
    "basic": ({"scheduling": {"schedulingPolicy": {"basic": {}}}}, {"basic": {}}),
    "constraints alone": ({"scheduling": {"disruptionMode": {"single": {}}}}, {"basic": {}}),
    "a gang": ({"scheduling": GANG}, {"gang": {"minCount": 3}}),
    "a gang with a minimum": (
        {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}},
        {"gang": {"minCount": 2}},
    ),
    "a gang of none at once": ({"scheduling": GANG, "parallelism": 0}, {"gang": {"minCount": 1}}),
}


@pytest.mark.parametrize(("spec", "policy"), POLICIES.values(), ids=POLICIES)
def test_v137_22_the_policy_of_a_job(spec: dict[str, Any], policy: dict[str, Any]) -> None:
    job = a_job(**spec, pod={"priorityClassName": "high"})
    made = template_of(job)
    assert (made["name"], made["schedulingPolicy"], made["priorityClassName"]) == ("train-pgt-0", policy, "high")


def test_v137_22_a_gang_follows_the_minimum_of_its_job() -> None:
    world = a_world()
    run(world, scheduling=GANG)
    patch = {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}}
    world.ask("PATCH", f"{JOBS}/train", patch, "application/merge-patch+json")
    world.wait(3)
    (workload,), (group,) = listed(world, "workloads"), listed(world, "podgroups")
    assert workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


def a_parent(world: VirtualCluster) -> dict[str, Any]:
    """The reference to an object that controls Jobs: any will do."""
    made = world.ask("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "s"}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "s", "uid": made["metadata"]["uid"]}
    return {"ownerReferences": [{**owner, "controller": True}]}


def test_v137_22_a_job_whose_pods_name_a_group_gets_none() -> None:
    world = a_world()
    run(world, pod={"schedulingGroup": {"podGroupName": "mine"}})
    assert (listed(world, "workloads"), listed(world, "podgroups"), len(pods(world))) == ([], [], 3)


@pytest.mark.parametrize("annotations", [{}, {GROUP_TEMPLATE_NAME: "workers"}], ids=["keeps it", "has no Workload"])
def test_v137_22_a_job_whose_parent_gives_it_no_template_gets_none(annotations: dict[str, str]) -> None:
    world = a_world()
    run(world, metadata={**a_parent(world), "annotations": annotations})
    assert (listed(world, "workloads"), listed(world, "podgroups"), len(pods(world))) == ([], [], 3)


def test_v137_22_a_job_of_a_parent_gets_the_group_of_its_template() -> None:
    world = a_world()
    templates = [
        {"name": name, "schedulingPolicy": {"gang": {"minCount": least}}} for name, least in (("a", 1), ("b", 2))
    ]
    owner = {"kind": "ConfigMap", "name": "s"}
    workload = {"metadata": {"name": "w"}, "spec": {"controllerRef": owner, "podGroupTemplates": templates}}
    world.ask("POST", f"{HOME}/workloads", workload)
    run(world, metadata={**a_parent(world), "annotations": {GROUP_TEMPLATE_NAME: "b"}})
    (group,) = listed(world, "podgroups")
    assert group["spec"]["workloadRef"] == {"workloadName": "w", "templateName": "b"}
    assert [each["kind"] for each in group["metadata"]["ownerReferences"]] == ["Job"]
    assert len(listed(world, "workloads")) == 1 and len(pods(world)) == 3
    templates[1]["schedulingPolicy"] = {"gang": {"minCount": 3}}
    world.ask(
        "PATCH", f"{HOME}/workloads/w", {"spec": {"podGroupTemplates": templates}}, "application/merge-patch+json"
    )
    world.ask("PATCH", f"{JOBS}/train", {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    world.wait(3)
    assert listed(world, "podgroups")[0]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}


def test_v137_22_a_workload_that_cannot_be_made_is_told() -> None:
    world = a_world()
    world.ask("POST", JOBS, a_job(metadata={"name": "j" * 60}))
    world.wait(1)
    assert pods(world) == [] and listed(world, "workloads") == []
    assert any(
        told.startswith(f"FailedWorkloadCreate: Failed to create Workload for Job {'j' * 60}: ")
        for told in events(world)
    )


def test_without_the_gate_no_job_gets_one_and_its_scheduling_is_dropped() -> None:
    world = a_world({"GenericWorkload": True})
    run(world, scheduling=GANG)
    assert (listed(world, "workloads"), listed(world, "podgroups")) == ([], [])
    assert not any("schedulingGroup" in pod["spec"] for pod in pods(world))
    assert "scheduling" not in world.ask("GET", f"{JOBS}/train")["spec"]


def test_names_are_stable_and_short_enough() -> None:
    job = {"metadata": {"name": "j" * 250, "uid": "u-1"}}
    name = workload_name(job)
    assert name == workload_name(job) and len(name) <= 253 and name.startswith("j" * 200)
    for workload, template in (("w" * 250, "t" * 60), ("w", "t" * 300), ("w" * 300, "t" * 300)):
        assert len(new_group_name(workload, template)) == 253
    assert new_group_name("w", "t").startswith("w-t-") and new_group_name("w", "t") != new_group_name("wt", "")
