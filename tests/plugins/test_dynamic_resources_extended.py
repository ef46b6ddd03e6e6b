"""Extended resources that devices serve: the requests that a pod's containers come to, and what nodes must have."""

from typing import Any

import pytest

from build import a_cluster, a_node, a_pod
from device_building import a_class, a_device, a_slice
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.points import Handle
from mooring.model.pod import Pod
from mooring.plugins.devices.device_claims import Served, serve
from mooring.plugins.devices.dynamic_resources import DynamicResources
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit
from volume_asking import reasons

GPU, NIC, IMPLICIT = "example.com/gpu", "example.com/nic", "deviceclass.resource.kubernetes.io/gpu"


def a_container(name: str, restart: str | None = None, **requests: Any) -> dict[str, Any]:
    named = {{"gpu": GPU, "nic": NIC}.get(key, key): str(value) for key, value in requests.items()}
    return {"name": name, "resources": {"requests": named}, "restartPolicy": restart}


def a_pod_of(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> Pod:
    return a_pod("p", containers=list(containers), initContainers=list(init))


def served(pod: Pod) -> Served:
    cluster = a_cluster(a_class("gpu", extendedResourceName=GPU), a_class("nic", extendedResourceName=NIC))
    return serve(pod, [GPU, NIC], cluster.serving_classes)


SERVED: dict[str, tuple[Pod, dict[str, int], dict[str, list[str]]]] = {
    "one container": (
        a_pod_of(a_container("c", cpu=1, gpu=2)),
        {"container-0-request-1": 2},
        {"c": ["container-0-request-1"]},
    ),
    "two containers, two resources": (
        a_pod_of(a_container("c", gpu=1, nic=1), a_container("d", nic=3)),
        {"container-0-request-0": 1, "container-0-request-1": 1, "container-1-request-0": 3},
        {"c": ["container-0-request-0", "container-0-request-1"], "d": ["container-1-request-0"]},
    ),
    "an init container makes use of what comes later": (
        a_pod_of(a_container("c", gpu=2), init=(a_container("i", gpu=1),)),
        {"container-1-request-0": 2},
        {"c": ["container-1-request-0"], "i": ["container-1-request-0"]},
    ),
    "an init container needs more": (
        a_pod_of(a_container("c", gpu=2), init=(a_container("i", gpu=3),)),
        {"container-0-request-0": 1, "container-1-request-0": 2},
        {"c": ["container-1-request-0"], "i": ["container-1-request-0", "container-0-request-0"]},
    ),
    "init containers share the largest request": (
        a_pod_of(a_container("c"), init=(a_container("i", gpu=1), a_container("j", gpu=3), a_container("k", gpu=2))),
        {"container-1-request-0": 3},
        {"i": ["container-1-request-0"], "j": ["container-1-request-0"], "k": ["container-1-request-0"]},
    ),
    "a sidecar that runs before is of no use": (
        a_pod_of(a_container("c"), init=(a_container("s", "Always", gpu=1), a_container("i", gpu=1))),
        {"container-0-request-0": 1, "container-1-request-0": 1},
        {"s": ["container-0-request-0"], "i": ["container-1-request-0"]},
    ),
    "nothing": (a_pod_of(a_container("c", gpu=0)), {}, {}),
}


@pytest.mark.parametrize(("pod", "requests", "mappings"), SERVED.values(), ids=SERVED.keys())
def test_requests(pod: Pod, requests: dict[str, int], mappings: dict[str, list[str]]) -> None:
    found = served(pod)
    assert {each.name: each.exactly.count for each in found.requests if each.exactly} == requests
    assert [each.name for each in found.requests] == sorted(requests)
    by_container: dict[str, list[str]] = {}
    for mapping in found.mappings:
        by_container.setdefault(mapping.container_name, []).append(mapping.request_name)
    assert by_container == mappings


def a_world() -> Cluster:
    """Node a has devices, b has the resource itself, c has neither, d has devices and knows the resource."""
    return a_cluster(
        a_class("gpu", extendedResourceName=GPU),
        a_node("a"),
        a_node("b", allocatable={GPU: 1, NIC: 1}),
        a_node("c", allocatable={NIC: 0}),
        a_node("d", allocatable={GPU: 0, NIC: 1}),
        a_slice("a", a_device(), node="a"),
        a_slice("d", a_device(), node="d"),
    )


FIT = {"b": ["Insufficient example.com/gpu"]}
DEVICES = "cannot allocate all claims"
NODES: dict[str, tuple[dict[str, Any], dict[str, list[str]], dict[str, list[str]]]] = {
    "one": ({GPU: 1}, {}, {"c": [DEVICES]}),
    "by name of the class": ({IMPLICIT: 1}, {}, {"b": [DEVICES], "c": [DEVICES]}),
    "more than there are": ({GPU: 2}, FIT, {"a": [DEVICES], "c": [DEVICES], "d": [DEVICES]}),
    "beside what no device serves": (
        {GPU: 1, NIC: 1},
        {"a": [f"Insufficient {NIC}"], "c": [f"Insufficient {NIC}"]},
        {"a": ["cannot fit resource"], "c": [DEVICES]},
    ),
}


@pytest.mark.parametrize(("requests", "fit", "devices"), NODES.values(), ids=NODES.keys())
def test_nodes(requests: dict[str, Any], fit: dict[str, list[str]], devices: dict[str, list[str]]) -> None:
    pod = a_pod("p", requests=requests)
    assert reasons(NodeResourcesFit(None, Handle()), a_world(), pod) == fit
    assert reasons(DynamicResources(None, Handle()), a_world(), pod) == devices


def test_a_class_that_goes_serves_nothing_any_more() -> None:
    cluster, pod, fit = a_world(), a_pod("p", requests={GPU: 1}), NodeResourcesFit(None, Handle())
    before = cluster.nodes.touches.end
    assert reasons(fit, cluster, pod) == {}
    cluster.remove(type(a_class()), "gpu")
    assert set(reasons(fit, cluster, pod)) == {"a", "c", "d"}
    assert cluster.nodes.touches.since(before) is None, "kept answers are void"
