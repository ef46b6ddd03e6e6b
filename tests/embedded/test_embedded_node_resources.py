"""Devices that take from their node in the embedded cluster: what the status of the pod says."""

from typing import Any

import pytest

from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

API = "/apis/resource.k8s.io/v1"


def a_world(gates: dict[str, bool]) -> VirtualCluster:
    """A node of 4 cpu, a device that takes 3 of them, and a pod that claims it."""
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.node("n1", "4")
    device = {
        "name": "d0",
        "allowMultipleAllocations": True,
        "capacity": {"example.com/cpu": {"value": "3"}},
        "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "example.com/cpu", "capacityMultiplier": "1"}}},
    }
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    slice = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": [device]}
    world.ask("POST", f"{API}/resourceslices", {"metadata": {"name": "s"}, "spec": slice})
    world.ask("POST", f"{API}/deviceclasses", {"metadata": {"name": "c"}, "spec": {}})
    request: dict[str, Any] = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    world.ask("POST", f"{API}/namespaces/default/resourceclaims", claim)
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "x"}]}}
    world.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "c"}], containers=[container])
    world.wait(2)
    return world


@pytest.mark.parametrize("gates", [{}, {"DRANodeAllocatableResources": True}], ids=["off", "on"])
def test_the_status_says_what_the_pod_takes_only_with_the_gate(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    assert world.place("p") == "n1"
    taken = world.get("p")["status"].get("nodeAllocatableResourceClaimStatuses")
    mapped = [{"name": "cpu", "quantity": "3"}]
    assert taken == ([{"resourceClaimName": "c", "containers": ["main"], "mapping": mapped}] if gates else None)
    limits = {"requests": {"cpu": "2"}}
    world.pod("q", containers=[{"name": "main", "image": "i", "resources": limits}])
    world.wait(2)
    assert world.place("q") == ("" if gates else "n1")
