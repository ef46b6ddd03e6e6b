"""Nodes made from a template and a number."""

from typing import Any

from mooring.controllers.nodes.simulated_nodes import make_node, missing_nodes, more_nodes
from mooring.model.names import ZONE


def test_the_usual_node() -> None:
    node = make_node(1)
    assert node["metadata"]["name"] == "node-0001"
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "node-0001",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "mooring-8x32",
        ZONE: "zone-a",
    }
    status = node["status"]
    assert {name: status["allocatable"][name] for name in ("cpu", "memory", "pods")} == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
    }


def test_zones_take_turns() -> None:
    zones = [node["metadata"]["labels"][ZONE] for node in missing_nodes(6, ())]
    assert zones == ["zone-a", "zone-b", "zone-c"] * 2


def test_names_are_unique_and_in_order() -> None:
    names = [node["metadata"]["name"] for node in missing_nodes(12_000, ())]
    assert len(set(names)) == 12_000
    assert (names[0], names[-1]) == ("node-00001", "node-12000")
    assert names == sorted(names)


def test_a_template_gives_all_that_nodes_can_share() -> None:
    template: dict[str, Any] = {
        "metadata": {"name": "gpu", "uid": "1", "labels": {ZONE: "west", "kubernetes.io/hostname": "gpu"}},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "x", "podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": {"cpu": "64", "nvidia.com/gpu": "8"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "Unknown"}],
        },
    }
    node = missing_nodes(2, (), template)[1]
    assert node["metadata"] == {
        "name": "gpu-0002",
        "labels": {
            ZONE: "west",
            "kubernetes.io/hostname": "gpu-0002",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
        },
    }
    assert node["spec"] == {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    capacity = {"cpu": "64", "nvidia.com/gpu": "8"}
    assert node["status"] == {"capacity": capacity, "allocatable": capacity}
    assert template["metadata"]["name"] == "gpu", "the template itself stays as it was"


def names_of(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["metadata"]["name"] for node in nodes]


def test_only_the_missing_ones_are_made() -> None:
    assert names_of(missing_nodes(4, ["node-0001", "node-0003", "other-0002", "node-x"])) == ["node-0002", "node-0004"]
    assert missing_nodes(3, names_of(missing_nodes(5, ()))) == []


def test_names_of_another_length_count_as_well() -> None:
    many = names_of(missing_nodes(12_000, ()))
    assert missing_nodes(5, many) == []
    assert names_of(more_nodes(2, many)) == ["node-12001", "node-12002"]
    assert names_of(missing_nodes(10_001, names_of(missing_nodes(9_999, ())))) == ["node-10000", "node-10001"]


def test_more_nodes_take_the_first_free_numbers() -> None:
    assert names_of(more_nodes(3, ["node-0002"])) == ["node-0001", "node-0003", "node-0004"]
    assert names_of(more_nodes(1, [], {"metadata": {"name": "gpu"}})) == ["gpu-0001"]
