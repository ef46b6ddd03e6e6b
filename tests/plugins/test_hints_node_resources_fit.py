"""NodeResourcesFit: room that a pod gave, a node that is large enough and new or larger, a class that serves."""

from typing import Any

import msgspec
import pytest

from build import a_cluster, a_node, a_pod
from hinting import action_of, wakes, wakes_for_pod
from mooring.api.kinds.devices import DEVICE_CLASS
from mooring.cluster.cluster import Cluster
from mooring.framework.config.args import NodeResourcesFitArgs
from mooring.framework.contract.events import ASSIGNED_POD, NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.devices import DeviceClass
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit

PLUGIN = NodeResourcesFit(None, Handle())
GPU = "example.com/gpu"
WAITING = a_pod("waiting", cpu="2", memory="1Gi")
GPU_POD = a_pod("waiting", requests={GPU: 1})


def placed(node: str = "n1", **more: Any) -> Pod:
    return a_pod("other", nodeName=node, **more)


def running(cpu: str, in_force: str, memory: str | None = None) -> Pod:
    """A pod whose request was changed while it runs with what the status says."""
    resources = {"requests": {"cpu": in_force, **({"memory": memory} if memory else {})}}
    return placed(cpu=cpu, memory=memory, status={"containerStatuses": [{"name": "main", "resources": resources}]})


LEAVING: dict[str, tuple[Pod, bool]] = {
    "a pod on a node leaves": (placed(cpu="1"), True),
    "a pod on a node leaves that held nothing the waiting one needs": (placed(), True),
    "a nominated pod leaves": (placed("", status={"nominatedNodeName": "n1"}), True),
    "a pod without a node leaves": (placed("", cpu="1"), False),
}


@pytest.mark.parametrize(("left", "woken"), LEAVING.values(), ids=LEAVING.keys())
def test_a_pod_leaves(left: Pod, woken: bool) -> None:
    assert wakes(PLUGIN, WAITING, ClusterEvent(ASSIGNED_POD, Action.DELETE), left, None) is woken


SHRINKING: dict[str, tuple[Pod, Pod, Pod, bool]] = {
    "the pod itself asks for less": (WAITING, WAITING, a_pod("waiting", cpu="1", memory="1Gi"), True),
    "the pod itself asks for less of what it never had": (GPU_POD, a_pod("waiting", cpu="2"), a_pod("waiting"), True),
    "a pod on a node holds less cpu": (WAITING, placed(cpu="2"), placed(cpu="1"), True),
    "a pod on a node no longer asks for cpu": (WAITING, placed(cpu="2"), placed(), True),
    "a pod on a node holds less memory": (WAITING, placed(memory="2Gi"), placed(memory="1Gi"), True),
    "a pod on a node holds less of a scalar": (GPU_POD, placed(requests={GPU: 2}), placed(requests={GPU: 1}), True),
    "a pod on a node holds less of what the waiting one does not request": (
        GPU_POD,
        placed(cpu="2"),
        placed(cpu="1"),
        False,
    ),
    "a request of zero is none": (
        a_pod("waiting", cpu="0", requests={GPU: 1}),
        placed(cpu="2"),
        placed(cpu="1"),
        False,
    ),
    "a pod on a node holds more": (WAITING, placed(cpu="1"), placed(cpu="2"), False),
    "a pod without a node asks for less": (WAITING, placed("", cpu="2"), placed("", cpu="1"), False),
    "a nominated pod asks for less": (
        WAITING,
        placed("", cpu="2"),
        placed("", cpu="1", status={"nominatedNodeName": "n1"}),
        False,
    ),
    "a pod asks for less but still runs with as much": (WAITING, running("2", "2"), running("1", "2"), False),
    "a pod runs with less at last": (WAITING, running("1", "2"), running("1", "1"), True),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), SHRINKING.values(), ids=SHRINKING.keys())
def test_a_pod_shrinks(pod: Pod, old: Pod, new: Pod, woken: bool) -> None:
    assert wakes_for_pod(PLUGIN, pod, old, new, Action.UPDATE_POD_SCALE_DOWN) is woken


NODES: dict[str, tuple[Pod, Node | None, Node, bool]] = {
    "a node that is large enough is added": (WAITING, None, a_node(cpu="2", memory="1Gi"), True),
    "a node that is too small is added": (WAITING, None, a_node(cpu="1999m"), False),
    "a node without the scalar is added": (GPU_POD, None, a_node(), False),
    "a node with the scalar is added": (GPU_POD, None, a_node(allocatable={GPU: 1}), True),
    "a node that takes no pods is added": (WAITING, None, a_node(pods=0), False),
    "a node without resources is added for a pod that needs none": (a_pod(), None, a_node(cpu="0", memory="0"), True),
    "a node gets more of what is requested": (WAITING, a_node(cpu="2"), a_node(cpu="3"), True),
    "a node gets more but not enough": (WAITING, a_node(cpu="1"), a_node(cpu="1500m"), False),
    "a node gets more of one thing and has too little of another": (
        WAITING,
        a_node(cpu="2", memory="500Mi"),
        a_node(cpu="4", memory="500Mi"),
        False,
    ),
    "a node gets less": (WAITING, a_node(cpu="4"), a_node(cpu="3"), False),
    "a node gets more of what is not requested": (
        WAITING,
        a_node(),
        a_node(allocatable={"ephemeral-storage": "1Gi"}),
        False,
    ),
    "a node gets more ephemeral storage": (
        a_pod(requests={"ephemeral-storage": "1Gi"}),
        a_node(allocatable={"ephemeral-storage": "1Gi"}),
        a_node(allocatable={"ephemeral-storage": "2Gi"}),
        True,
    ),
    "a node gets its first device": (GPU_POD, a_node(), a_node(allocatable={GPU: 1}), True),
    "a node takes more pods": (WAITING, a_node(pods=10), a_node(pods=11), True),
    "a node takes more pods for a pod that needs nothing else": (a_pod(), a_node(pods=10), a_node(pods=11), True),
    "a node gets more for a pod that needs nothing": (a_pod(), a_node(cpu="1"), a_node(cpu="2"), False),
    "a node gets more of what is requested as zero": (a_pod(cpu="0"), a_node(cpu="1"), a_node(cpu="2"), False),
    "a node writes the same amount in another way": (WAITING, a_node(cpu="2"), a_node(cpu="2000m"), False),
}


def wakes_for(plugin: NodeResourcesFit, pod: Pod, old: Node | None, new: Node, cluster: Cluster | None = None) -> bool:
    event = ClusterEvent(NODE, action_of(old, new, Action.UPDATE_NODE_ALLOCATABLE))
    return wakes(plugin, pod, event, old, new, cluster)


@pytest.mark.parametrize(("pod", "old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(pod: Pod, old: Node | None, new: Node, woken: bool) -> None:
    assert wakes_for(PLUGIN, pod, old, new) is woken


def test_resources_that_the_profile_ignores_are_not_ignored_by_the_hint() -> None:
    plugin = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=[GPU]), Handle())
    assert not wakes_for(plugin, GPU_POD, None, a_node())


def a_class(name: str, serves: str | None = None) -> DeviceClass:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"extendedResourceName": serves}}, DeviceClass)


def a_cluster_with(*classes: DeviceClass) -> Cluster:
    return a_cluster(*classes)


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
IMPLICIT_POD = a_pod("waiting", requests={IMPLICIT: 1})
DELEGATED: dict[str, tuple[Pod, Node | None, Node, Cluster, bool]] = {
    "a class serves what a new node has none of": (GPU_POD, None, a_node(), a_cluster_with(a_class("gpu", GPU)), True),
    "a class serves it by its name": (IMPLICIT_POD, None, a_node(), a_cluster_with(a_class("gpu")), True),
    "a class of another name does not": (IMPLICIT_POD, None, a_node(), a_cluster_with(a_class("tpu")), False),
    "a class serves something else": (GPU_POD, None, a_node(), a_cluster_with(a_class("gpu", "x.io/y")), False),
    "a node that has some of it is not helped by a class": (
        a_pod("waiting", requests={GPU: 2}),
        None,
        a_node(allocatable={GPU: 1}),
        a_cluster_with(a_class("gpu", GPU)),
        False,
    ),
    "any update of a node counts once devices serve the request": (
        GPU_POD,
        a_node(cpu="4"),
        a_node(cpu="3"),
        a_cluster_with(a_class("gpu", GPU)),
        True,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "cluster", "woken"), DELEGATED.values(), ids=DELEGATED.keys())
def test_what_devices_serve(pod: Pod, old: Node | None, new: Node, cluster: Cluster, woken: bool) -> None:
    assert wakes_for(PLUGIN, pod, old, new, cluster) is woken


CLASSES: dict[str, tuple[Pod, DeviceClass | None, DeviceClass, bool]] = {
    "a class for the requested resource is added": (GPU_POD, None, a_class("c", GPU), True),
    "a class for another resource is added": (GPU_POD, None, a_class("c", "example.com/fpga"), False),
    "a class for no resource is added": (GPU_POD, None, a_class("c"), False),
    "a class of the requested name is added": (IMPLICIT_POD, None, a_class("gpu"), True),
    "a class of another name is added": (IMPLICIT_POD, None, a_class("fpga"), False),
    "a class begins to serve the requested resource": (GPU_POD, a_class("c"), a_class("c", GPU), True),
    "a class ceases to serve it": (GPU_POD, a_class("c", GPU), a_class("c"), False),
    "a class serves what it served": (GPU_POD, a_class("c", GPU), a_class("c", GPU), False),
    "a class of the requested name is updated": (IMPLICIT_POD, a_class("gpu"), a_class("gpu", GPU), False),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), CLASSES.values(), ids=CLASSES.keys())
def test_device_classes(pod: Pod, old: DeviceClass | None, new: DeviceClass, woken: bool) -> None:
    event = ClusterEvent(DEVICE_CLASS.event, action_of(old, new, Action.UPDATE))
    assert wakes(PLUGIN, pod, event, old, new) is woken
