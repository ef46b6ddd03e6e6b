"""NodePorts: a pod that leaves and had a port that is wanted, or any new node."""

from typing import Any

import pytest

from build import a_node, a_pod
from hinting import wakes
from mooring.framework.contract.events import ASSIGNED_POD_DELETE, NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.pod import Pod
from mooring.plugins.nodes.node_ports import NodePorts

PLUGIN = NodePorts(None, Handle())
WAITING = a_pod("waiting", host_ports=[80])


def port(number: int, ip: str = "", protocol: str = "") -> dict[str, Any]:
    return {"hostPort": number, "hostIP": ip, "protocol": protocol}


def leaving(*ports: Any, node: str = "n1", **more: Any) -> Pod:
    return a_pod("leaving", host_ports=ports, nodeName=node, **more)


def sidecar(policy: str | None) -> dict[str, Any]:
    return {"name": "side", "restartPolicy": policy, "ports": [{"hostPort": 80}]}


LEAVING: dict[str, tuple[Pod, Pod, bool]] = {
    "it had the port": (WAITING, leaving(80), True),
    "it had another port": (WAITING, leaving(81), False),
    "it had no host port": (WAITING, leaving(), False),
    "one of its ports is one of those wanted": (a_pod("waiting", host_ports=[80, 443]), leaving(443, 8080), True),
    "it was nominated to a node": (WAITING, leaving(80, node="", status={"nominatedNodeName": "n1"}), True),
    "it had no node at all": (WAITING, leaving(80, node=""), False),
    "it had the port for another protocol": (WAITING, leaving(port(80, protocol="UDP")), False),
    "TCP is meant where no protocol is named": (WAITING, leaving(port(80, protocol="TCP")), True),
    "any address is wanted": (WAITING, leaving(port(80, "10.0.0.1")), True),
    "it had the port on any address": (a_pod("waiting", host_ports=[port(80, "10.0.0.1")]), leaving(80), True),
    "another address is wanted": (
        a_pod("waiting", host_ports=[port(80, "10.0.0.1")]),
        leaving(port(80, "10.0.0.2")),
        False,
    ),
    "the IPv6 wildcard is an address like others": (
        a_pod("waiting", host_ports=[port(80, "::")]),
        leaving(port(80, "10.0.0.2")),
        False,
    ),
    "a sidecar had the port": (WAITING, leaving(initContainers=[sidecar("Always")]), True),
    "a plain init container had the port": (WAITING, leaving(initContainers=[sidecar(None)]), False),
}


@pytest.mark.parametrize(("pod", "left", "woken"), LEAVING.values(), ids=LEAVING.keys())
def test_a_pod_leaves(pod: Pod, left: Pod, woken: bool) -> None:
    assert wakes(PLUGIN, pod, ASSIGNED_POD_DELETE, left, None) is woken


def test_every_new_node_wakes() -> None:
    assert wakes(PLUGIN, WAITING, ClusterEvent(NODE, Action.ADD), None, a_node())
