"""Gangs in the embedded cluster: all pods start or none, and the status of the group says so."""

from typing import Any

from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

GATES = {"GenericWorkload": True}
HOME = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"


def a_world(gates: dict[str, bool] | None = None) -> VirtualCluster:
    gates = GATES if gates is None else gates
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.node("n1", "4")
    return world


def a_gang(world: VirtualCluster, name: str, size: int, least: int, cpu: str = "2") -> None:
    """A Workload, the group that is made from its template, and the pods."""
    policy = {"gang": {"minCount": least}}
    template = {"name": "workers", "schedulingPolicy": policy}
    world.ask("POST", f"{HOME}/workloads", {"metadata": {"name": name}, "spec": {"podGroupTemplates": [template]}})
    named = {"workload": {"workloadName": name, "podGroupTemplateName": "workers"}}
    spec = {"podGroupTemplateRef": named, "schedulingPolicy": policy}
    world.ask("POST", f"{HOME}/podgroups", {"metadata": {"name": name}, "spec": spec})
    for i in range(size):
        limits: dict[str, Any] = {"requests": {"cpu": cpu}}
        container = {"name": "main", "image": "i", "resources": limits}
        world.pod(f"{name}-{i}", schedulingGroup={"podGroupName": name}, containers=[container])
    world.wait(2)


def conditions(world: VirtualCluster, name: str) -> list[tuple[str, str]]:
    status = world.ask("GET", f"{HOME}/podgroups/{name}").get("status", {})
    return [(each["type"], each["status"]) for each in status.get("conditions", ())]


def test_a_gang_that_fits_starts_and_its_status_says_so() -> None:
    world = a_world()
    a_gang(world, "g", 2, 2)
    assert [world.place(f"g-{i}") for i in range(2)] == ["n1", "n1"]
    assert conditions(world, "g") == [("PodGroupInitiallyScheduled", "True")]


def test_a_gang_that_does_not_fit_starts_nothing_until_there_is_room() -> None:
    world = a_world()
    a_gang(world, "g", 3, 3)
    assert [world.place(f"g-{i}") for i in range(3)] == ["", "", ""]
    assert conditions(world, "g") == [("PodGroupInitiallyScheduled", "False")]
    world.node("n2", "4")
    world.wait(15)
    assert all(world.place(f"g-{i}") for i in range(3))
    assert conditions(world, "g") == [("PodGroupInitiallyScheduled", "True")]


def test_without_the_gates_pods_start_one_by_one() -> None:
    world = a_world({})
    a_gang(world, "g", 3, 3)
    assert sorted(world.place(f"g-{i}") for i in range(3)) == ["", "n1", "n1"]
    assert conditions(world, "g") == []
