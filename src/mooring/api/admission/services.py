"""Addresses of services: each gets one of its own, as if there were a network behind it."""

from collections.abc import Iterable
from ipaddress import IPv4Network

from mooring.api.errors import internal_error
from mooring.api.store import JsonObject

SERVICE_NETWORK = IPv4Network("10.96.0.0/16")


def give_addresses(service: JsonObject, others: Iterable[JsonObject]) -> None:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        taken = {other.get("spec", {}).get("clusterIP") for other in others}
        hosts = (str(host) for host in SERVICE_NETWORK.hosts())
        spec["clusterIP"] = next((host for host in hosts if host not in taken), None)
        if spec["clusterIP"] is None:
            raise internal_error("failed to allocate a serviceIP: range is full")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
