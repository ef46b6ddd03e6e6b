"""NodePorts: which host ports get in each other's way."""

from typing import Any

import pytest

from alone import build, skips_filter, verdicts
from build import a_cluster, a_node, a_pod
from mooring.framework.contract.status import curable
from mooring.plugins.nodes.node_ports import NodePorts

TAKEN = curable("node(s) didn't have free ports for the requested pod ports").by("NodePorts")


def port(number: int = 80, ip: str = "", protocol: str = "") -> dict[str, Any]:
    return {"hostPort": number, "hostIP": ip, "protocol": protocol}


PORTS: dict[str, tuple[Any, Any, bool]] = {
    "the same port": (port(), port(), True),
    "another port": (port(80), port(81), False),
    "no protocol is TCP": (port(), port(protocol="TCP"), True),
    "another protocol": (port(protocol="UDP"), port(), False),
    "no address is every address": (port(ip="10.0.0.1"), port(), True),
    "every address, said so": (port(ip="0.0.0.0"), port(ip="10.0.0.1"), True),
    "the same address": (port(ip="10.0.0.1"), port(ip="10.0.0.1"), True),
    "another address": (port(ip="10.0.0.1"), port(ip="10.0.0.2"), False),
    "the IPv6 wildcard is an ordinary address": (port(ip="::"), port(ip="10.0.0.1"), False),
    "... that every address covers": (port(ip="::"), port(), True),
}


@pytest.mark.parametrize(("used", "wanted", "taken"), PORTS.values(), ids=PORTS.keys())
def test_a_port_that_is_in_use(used: Any, wanted: Any, taken: bool) -> None:
    cluster = a_cluster(a_node("a"), a_node("b"), a_pod("holder", host_ports=[used], nodeName="b"))
    found = verdicts(build(NodePorts), a_pod(host_ports=[wanted]), cluster)
    assert found == ({"b": TAKEN} if taken else {})


def test_one_port_of_several_is_enough() -> None:
    cluster = a_cluster(a_node("a"), a_pod("holder", host_ports=[82], nodeName="a"))
    assert verdicts(build(NodePorts), a_pod(host_ports=[80, 81, 82]), cluster) == {"a": TAKEN}


def containers(*init: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "main"}], "initContainers": list(init)}


SIDECAR = {"name": "side", "restartPolicy": "Always", "ports": [port()]}
PLAIN_INIT = {"name": "init", "ports": [port()]}


def test_ports_of_sidecars_count_and_those_of_plain_init_containers_do_not() -> None:
    plugin, cluster = build(NodePorts), a_cluster(a_node("a"), a_pod("holder", host_ports=[80], nodeName="a"))
    assert verdicts(plugin, a_pod(**containers(SIDECAR)), cluster) == {"a": TAKEN}
    assert verdicts(plugin, a_pod(**containers(PLAIN_INIT)), cluster) == {}
    held = a_cluster(a_node("a"), a_pod("holder", nodeName="a", **containers(SIDECAR)))
    assert verdicts(plugin, a_pod(host_ports=[80]), held) == {"a": TAKEN}
    free = a_cluster(a_node("a"), a_pod("holder", nodeName="a", **containers(PLAIN_INIT)))
    assert verdicts(plugin, a_pod(host_ports=[80]), free) == {}


def test_two_containers_of_the_pod_are_not_compared_with_each_other() -> None:
    assert verdicts(build(NodePorts), a_pod(host_ports=[80, 80]), a_cluster(a_node("a"))) == {}


def test_a_pod_without_host_ports_is_left_alone() -> None:
    cluster = a_cluster(a_node("a"))
    assert skips_filter(build(NodePorts), a_pod(host_ports=[{"containerPort": 80}]), cluster)
    assert not skips_filter(build(NodePorts), a_pod(host_ports=[80]), cluster)


def test_the_first_of_two_holders_that_leaves_frees_the_port() -> None:
    holders = [a_pod(f"p{i}", host_ports=[80], nodeName="a") for i in range(2)]
    cluster = a_cluster(a_node("a"), *holders)
    cluster.nodes.displace(holders[0].id)
    assert verdicts(build(NodePorts), a_pod(host_ports=[80]), cluster) == {}
