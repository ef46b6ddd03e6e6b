"""Addresses and node ports of services: each gets its own, as if there were a network behind it."""

from collections.abc import Collection
from ipaddress import IPv4Network

from mooring.model.api_errors import internal_error
from mooring.model.json_objects import JsonObject

SERVICE_NETWORK = IPv4Network("10.96.0.0/16")


NODE_PORTS = range(30_000, 32_768)


def give_addresses(service: JsonObject, others: Collection[JsonObject]) -> None:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    if spec.get("type") in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts") is not False:
        _give_node_ports(spec, others)
    if not spec.get("clusterIP"):
        taken = {other.get("spec", {}).get("clusterIP") for other in others}
        hosts = (str(host) for host in SERVICE_NETWORK.hosts())
        spec["clusterIP"] = next((host for host in hosts if host not in taken), None)
        if spec["clusterIP"] is None:
            raise internal_error("failed to allocate a serviceIP: range is full")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _give_node_ports(spec: JsonObject, others: Collection[JsonObject]) -> None:
    """A free port of the nodes for every port that names none."""
    taken = {port.get("nodePort") for other in others for port in other.get("spec", {}).get("ports", ())}
    taken |= {port.get("nodePort") for port in spec.get("ports", ())}
    free = (number for number in NODE_PORTS if number not in taken)
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            port["nodePort"] = next(free, None)
            if port["nodePort"] is None:
                raise internal_error("failed to allocate a nodePort: range is full")
