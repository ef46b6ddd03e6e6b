"""Devices in the embedded cluster: claims are allocated, written and read back through its API."""

from typing import Any

from device_building import a_claim
from mooring.drivers.api_writer import request_of
from mooring.drivers.embedded_driver import carry_out
from mooring.model.devices import ResourceClaim
from mooring.plugins.devices.allocation import give_back_reservation
from virtual_cluster import VirtualCluster

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
EXTENDED = "example.com/gpu"
JsonObject = dict[str, Any]


def a_cluster() -> VirtualCluster:
    """Two nodes with two devices each."""
    cluster = VirtualCluster()
    for name in ("a", "b"):
        cluster.node(name)
        spec: JsonObject = {
            "driver": "gpu.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0", "attributes": {"model": {"string": "t4"}}}, {"name": "d1"}],
        }
        cluster.ask("POST", f"{API}/resourceslices", {"metadata": {"name": name}, "spec": spec})
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    spec = {"selectors": selectors, "extendedResourceName": EXTENDED}
    cluster.ask("POST", f"{API}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": spec})
    return cluster


def claim(cluster: VirtualCluster, name: str, *expressions: str) -> None:
    asked = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": each}} for each in expressions]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": asked}]}}
    cluster.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


def status_of(cluster: VirtualCluster, name: str) -> JsonObject:
    status: JsonObject = cluster.ask("GET", f"{CLAIMS}/{name}").get("status", {})
    return status


def test_a_pod_gets_the_device_that_its_claim_selects() -> None:
    cluster = a_cluster()
    claim(cluster, "c", 'has(device.attributes["gpu.example.com"].model)')
    cluster.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    cluster.wait(1)
    status = status_of(cluster, "c")
    (result,) = status["allocation"]["devices"]["results"]
    assert result["device"] == "d0"
    assert result["pool"] == cluster.place("p") != ""
    assert [user["name"] for user in status["reservedFor"]] == ["p"]


def test_a_pod_waits_for_its_claim() -> None:
    cluster = a_cluster()
    cluster.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "later"}])
    cluster.wait(10)
    assert cluster.place("p") == ""
    claim(cluster, "later")
    cluster.wait(1)
    assert cluster.place("p") != ""


def test_devices_serve_an_extended_resource() -> None:
    cluster = a_cluster()
    asked = {EXTENDED: "2"}
    container = {"name": "m", "image": "x", "resources": {"requests": asked, "limits": asked}}
    cluster.pod("p", containers=[container])
    cluster.wait(1)
    served = cluster.get("p")["status"]["extendedResourceClaimStatus"]
    results = status_of(cluster, served["resourceClaimName"])["allocation"]["devices"]["results"]
    assert [each["device"] for each in results] == ["d0", "d1"]
    assert {each["pool"] for each in results} == {cluster.place("p")}


def test_a_reservation_is_taken_out_of_the_list() -> None:
    cluster = a_cluster()
    claim(cluster, "c")
    for name in ("p", "q"):
        cluster.pod(name, resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    cluster.wait(2)
    uids = {user["name"]: user["uid"] for user in status_of(cluster, "c")["reservedFor"]}
    pod = next(pod for pod in cluster.cluster.scheduler.core.pods.values() if pod.name == "p")
    assert pod.uid == uids["p"]
    held = cluster.cluster.scheduler.core.cluster.claims.get("default/c")
    assert held is not None
    carry_out(cluster.api, give_back_reservation(held, pod.id))
    assert [user["name"] for user in status_of(cluster, "c")["reservedFor"]] == ["q"]


def test_what_it_is_sent_as() -> None:
    pod: Any = type("P", (), {"id": "u"})
    write = give_back_reservation(a_claim("c"), pod.id)
    assert write.kind is ResourceClaim
    assert request_of(write) == (f"{CLAIMS}/c/status", "application/strategic-merge-patch+json")
