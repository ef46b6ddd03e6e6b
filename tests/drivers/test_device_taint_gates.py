"""DeviceTaintRules from the API to the scheduler: heeded where the feature gate says so, and nowhere else."""

from typing import Any

import pytest

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.drivers.live_service import LiveScheduler
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from mooring.kit.clock import SteadyClock
from mooring.state.scheduler_assembly import build_scheduler
from virtual_cluster import VirtualCluster

API = "/apis/resource.k8s.io/v1"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
RULE = {
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "broken", "effect": "NoSchedule"}},
}
BOTH = pytest.mark.parametrize(
    "gates", [{"DRADeviceTaintRules": False}, {"DRADeviceTaintRules": True}], ids=["off", "on"]
)


def a_world(gates: dict[str, bool]) -> VirtualCluster:
    """A node with a device that a rule taints, and a pod that claims it."""
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.node("n1", "2")
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    slice = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "d0"}]}
    world.ask("POST", f"{API}/resourceslices", {"metadata": {"name": "s"}, "spec": slice})
    world.ask("POST", f"{API}/deviceclasses", {"metadata": {"name": "c"}, "spec": {}})
    world.ask("POST", RULES, RULE)
    request: dict[str, Any] = {"name": "r", "exactly": {"deviceClassName": "c"}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    world.ask("POST", f"{API}/namespaces/default/resourceclaims", claim)
    world.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    world.wait(2)
    return world


@BOTH
def test_a_rule_is_heeded_only_with_the_gate(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    assert world.place("p") == ("" if gates["DRADeviceTaintRules"] else "n1")
    world.ask("DELETE", f"{RULES}/r")
    world.wait(12)
    assert world.place("p") == "n1"


@BOTH
def test_rules_are_watched_only_with_the_gate(gates: dict[str, bool]) -> None:
    scheduler = build_scheduler(config.default(feature_gates=gates), SteadyClock(), gates=gates)
    live = LiveScheduler(scheduler, ConnectionSettings("http://127.0.0.1:1"))
    paths = [member.spec.url() for member in live.reflectors.members]
    assert (RULES in paths) is gates["DRADeviceTaintRules"]
    assert len(paths) == 18 + gates["DRADeviceTaintRules"]
