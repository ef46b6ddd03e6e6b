"""Simulated kubelets: what is allocatable follows from the capacity of the node."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.controllers.cluster_writes import NODES
from mooring.controllers.nodes.simulated_nodes import with_allocatable
from virtual_cluster import VirtualCluster

BEARDS = "example.com/beardsecond"


@pytest.mark.parametrize(
    ("before", "now", "allocatable"),
    [
        pytest.param(None, ({"cpu": "8", "x/y": "2"}, {"cpu": "7"}), {"cpu": "7", "x/y": "2"}, id="a missing resource"),
        pytest.param(None, ({"cpu": "8"}, {"cpu": "8"}), {"cpu": "8"}, id="nothing to do"),
        pytest.param(None, ({}, {"cpu": "8"}), {"cpu": "8"}, id="no capacity"),
        pytest.param(({"x/y": "2"}, {"x/y": "2"}), ({"x/y": "5"}, {"x/y": "2"}), {"x/y": "5"}, id="more of a resource"),
        pytest.param(({"x/y": "2"}, {"x/y": "2"}), ({}, {"x/y": "2"}), {}, id="a resource that is gone"),
        pytest.param(
            ({}, {"x/y": "2"}), ({}, {"x/y": "2"}), {"x/y": "2"}, id="a resource that was never in the capacity"
        ),
        pytest.param(
            ({"cpu": "8"}, {"cpu": "7500m"}),
            ({"cpu": "16"}, {"cpu": "7500m"}),
            {"cpu": "15500m"},
            id="500m are reserved",
        ),
        pytest.param(
            ({"memory": "8Gi"}, {"memory": "7Gi"}),
            ({"memory": "512Mi"}, {"memory": "7Gi"}),
            {"memory": "0"},
            id="all is reserved",
        ),
        pytest.param(({"x/y": "2"}, {"x/y": "2"}), ({"x/y": "5"}, {"x/y": "3"}), {"x/y": "3"}, id="both were written"),
        pytest.param(
            ({"x/y": "2"}, {"x/y": "4"}), ({"x/y": "5"}, {"x/y": "4"}), {"x/y": "5"}, id="more than there was"
        ),
    ],
)
def test_allocatable_follows_the_capacity(before: Any, now: Any, allocatable: dict[str, str]) -> None:
    status = {"capacity": now[0], "allocatable": now[1]}
    old = None if before is None else {"capacity": before[0], "allocatable": before[1]}
    assert with_allocatable(status, old)["allocatable"] == allocatable


def test_a_status_that_is_right_comes_back_as_it_is() -> None:
    status = {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"}}
    assert with_allocatable(status) is status
    assert with_allocatable({}) == {}


def patched(**capacity: str) -> Any:
    def change(node: dict[str, Any]) -> dict[str, Any]:
        held = {name: amount for name, amount in node["status"]["capacity"].items() if capacity.get(name) != ""}
        given = {name: amount for name, amount in capacity.items() if amount}
        return {**node, "status": {**node["status"], "capacity": {**held, **given}}}

    return change


def test_a_kubelet_reports_an_extended_resource_that_was_patched_into_the_capacity() -> None:
    cluster = LivingCluster()
    room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    cluster.create("nodes", "n", {"status": {"capacity": room, "allocatable": {**room, "cpu": "7"}}})
    cluster.change("nodes", "n", patched(**{BEARDS: "1200"}), "status")
    assert cluster.status("nodes", "n")["allocatable"] == {**room, "cpu": "7", BEARDS: "1200"}
    cluster.change("nodes", "n", patched(**{BEARDS: "500"}), "status")
    assert cluster.status("nodes", "n")["allocatable"][BEARDS] == "500"
    cluster.change("nodes", "n", patched(**{BEARDS: ""}), "status")
    assert cluster.status("nodes", "n")["allocatable"] == {**room, "cpu": "7"}


def test_a_kubelet_that_is_stopped_reports_when_it_runs_again() -> None:
    cluster = LivingCluster()
    room = {"cpu": "8", "pods": "110"}
    cluster.create("nodes", "n", {"status": {"capacity": room, "allocatable": room}})
    cluster.annotate("nodes", "n", failed="true")
    cluster.change("nodes", "n", patched(cpu="4"), "status")
    cluster.wait(30)
    assert cluster.status("nodes", "n")["allocatable"]["cpu"] == "8"
    cluster.annotate("nodes", "n", failed="false")
    assert cluster.status("nodes", "n")["allocatable"]["cpu"] == "4"


def test_pods_with_overhead_find_the_room_that_was_patched_in() -> None:
    """As upstream's e2e test does it: 1000 of a resource, and pods that take 400 and 200 as overhead."""
    cluster = VirtualCluster()
    cluster.node("n", cpu="8")
    runtime = {"metadata": {"name": "test"}, "handler": "test", "overhead": {"podFixed": {BEARDS: "200"}}}
    cluster.ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
    container = {"name": "main", "image": "x", "resources": {"requests": {BEARDS: "400"}, "limits": {BEARDS: "400"}}}
    for name in ("first", "second"):
        pod = {"metadata": {"name": name}, "spec": {"runtimeClassName": "test", "containers": [container]}}
        cluster.ask("POST", "/api/v1/namespaces/default/pods", pod)
    cluster.wait(5)
    assert [cluster.place(name) for name in ("first", "second")] == ["", ""]
    cluster.cluster.api.change(NODES, "", "n", patched(**{BEARDS: "1000"}), subresource="status")
    cluster.wait(20)
    assert sorted(cluster.place(name) for name in ("first", "second")) == ["", "n"], "600 fit once into 1000"
